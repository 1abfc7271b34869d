"""Write networks as Hugging Face Llama checkpoints, and read them back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from memspec_actors.zoo.network import NORM_EPS, ROPE_THETA, Network, Shape
from memspec_actors.zoo.tokenizer import BOS_ID, EOS_ID, PAD_ID

__all__ = ["export_network", "import_network"]

MAX_POSITIONS = 1024


def export_network(network: Network, directory: Path, dtype: torch.dtype) -> None:
    """Write `config.json`, `generation_config.json` and `model.safetensors` into `directory`, weights as `dtype`."""
    directory.mkdir(parents=True, exist_ok=True)
    tensors = {name: tensor.detach().to(dtype).contiguous().clone() for name, tensor in _tensors(network).items()}
    save_file(tensors, directory / "model.safetensors", metadata={"format": "pt"})
    _write_json(directory / "config.json", _config(network.shape, dtype))
    ends: dict[str, Any] = {"bos_token_id": BOS_ID, "eos_token_id": EOS_ID, "pad_token_id": PAD_ID, "do_sample": False}
    _write_json(directory / "generation_config.json", ends)


def import_network(directory: Path) -> Network:
    """Read a directory that `export_network` wrote, in float32."""
    config = msgspec.json.decode((directory / "config.json").read_bytes())
    shape = Shape(
        hidden=config["hidden_size"],
        layers=config["num_hidden_layers"],
        heads=config["num_attention_heads"],
        inner=config["intermediate_size"],
        vocab=config["vocab_size"],
    )
    network = Network(shape)
    stored = load_file(directory / "model.safetensors")
    with torch.no_grad():
        for name, view in _tensors(network).items():
            view.copy_(stored[name])
    return network


def _tensors(network: Network) -> dict[str, Tensor]:
    """Name every weight as Llama does; fused projections are given as views of their parts."""
    tensors: dict[str, Tensor] = {
        "model.embed_tokens.weight": network.embedding.weight,
        "model.norm.weight": network.norm,
    }
    for index, block in enumerate(network.layers()):
        prefix = f"model.layers.{index}."
        q, k, v = block.qkv.weight.chunk(3)
        gate, up = block.gate_up.weight.chunk(2)
        tensors |= {
            prefix + "self_attn.q_proj.weight": q,
            prefix + "self_attn.k_proj.weight": k,
            prefix + "self_attn.v_proj.weight": v,
            prefix + "self_attn.o_proj.weight": block.out.weight,
            prefix + "mlp.gate_proj.weight": gate,
            prefix + "mlp.up_proj.weight": up,
            prefix + "mlp.down_proj.weight": block.down.weight,
            prefix + "input_layernorm.weight": block.norm_attention,
            prefix + "post_attention_layernorm.weight": block.norm_mlp,
        }
    return tensors


def _config(shape: Shape, dtype: torch.dtype) -> dict[str, Any]:
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": shape.vocab,
        "hidden_size": shape.hidden,
        "intermediate_size": shape.inner,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.heads,
        "head_dim": shape.head_dim,
        "hidden_act": "silu",
        "rms_norm_eps": NORM_EPS,
        "rope_theta": ROPE_THETA,
        "max_position_embeddings": MAX_POSITIONS,
        "attention_bias": False,
        "mlp_bias": False,
        "tie_word_embeddings": True,
        "bos_token_id": BOS_ID,
        "eos_token_id": EOS_ID,
        "pad_token_id": PAD_ID,
        "torch_dtype": str(dtype).removeprefix("torch."),
    }


def _write_json(file: Path, value: dict[str, Any]) -> None:
    file.write_bytes(msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n")
