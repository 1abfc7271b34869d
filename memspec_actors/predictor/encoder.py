"""A BERT encoder: transformers' BertModel architecture and checkpoint format, run without transformers."""

import math
from pathlib import Path
from typing import Literal

import msgspec
import torch
import torch.nn.functional as F
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from memspec_actors.errors import CheckpointError

__all__ = ["BertEncoder", "EncoderConfig", "EncoderLayer", "activate"]

_LAYER_PARTS = {  # HF name -> ours; query, key and value are fused in this order
    "attention.output.dense": "attention_out",
    "attention.output.LayerNorm": "attention_norm",
    "intermediate.dense": "inner",
    "output.dense": "outer",
    "output.LayerNorm": "norm",
}
_EMBEDDINGS = {
    "word_embeddings.weight": "words.weight",
    "position_embeddings.weight": "positions.weight",
    "token_type_embeddings.weight": "token_types.weight",
    "LayerNorm.weight": "embedding_norm.weight",
    "LayerNorm.bias": "embedding_norm.bias",
}


class EncoderConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a BertConfig that the forward pass needs; names are those of config.json."""

    vocab_size: int
    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    intermediate_size: int
    max_position_embeddings: int
    model_type: Literal["bert"] = "bert"
    hidden_act: Literal["gelu", "relu", "gelu_new"] = "gelu"
    type_vocab_size: int = 2
    layer_norm_eps: float = 1e-12
    pad_token_id: int = 0
    position_embedding_type: Literal["absolute"] = "absolute"


class EncoderLayer(nn.Module):
    """One layer of a BERT encoder: attention, then the feed-forward network."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        width, inner, eps = config.hidden_size, config.intermediate_size, config.layer_norm_eps
        self.num_heads = config.num_attention_heads
        self.activation = config.hidden_act
        self.qkv = nn.Linear(width, 3 * width)
        self.attention_out = nn.Linear(width, width)
        self.attention_norm = nn.LayerNorm(width, eps=eps)
        self.inner = nn.Linear(width, inner)
        self.outer = nn.Linear(inner, width)
        self.norm = nn.LayerNorm(width, eps=eps)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        q, k, v = self._heads(self.qkv(x))
        return self._finish(x, F.scaled_dot_product_attention(q, k, v, attn_mask=mask))

    def first(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """Give only the first position of what `forward` gives, (B, 1, H): the others serve as keys and values."""
        width, weight, bias = x.shape[2], self.qkv.weight, self.qkv.bias
        (q,) = self._heads(F.linear(x[:, :1], weight[:width], bias[:width]))
        k, v = self._heads(F.linear(x, weight[width:], bias[width:]))
        return self._finish(x[:, :1], F.scaled_dot_product_attention(q, k, v, attn_mask=mask))

    def _heads(self, projected: Tensor) -> tuple[Tensor, ...]:
        batch, length, _ = projected.shape
        head_dim = self.norm.normalized_shape[0] // self.num_heads
        return projected.view(batch, length, -1, self.num_heads, head_dim).permute(2, 0, 3, 1, 4).unbind()

    def _finish(self, x: Tensor, attended: Tensor) -> Tensor:  # (B, T, H), (B, heads, T, D)
        x = self.attention_norm(x + self.attention_out(attended.transpose(1, 2).flatten(2)))
        normed: Tensor = self.norm(x + self.outer(activate(self.inner(x), self.activation)))
        return normed


def activate(x: Tensor, kind: str) -> Tensor:
    """Apply an activation, named as in config.json."""
    if kind == "relu":
        return F.relu(x)
    return F.gelu(x, approximate="tanh" if kind == "gelu_new" else "none")


class BertEncoder(nn.Module):
    """Map token ids to contextual states as transformers' BertModel does (its ``last_hidden_state``)."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        width = config.hidden_size
        self.config = config
        self.words = nn.Embedding(config.vocab_size, width)
        self.positions = nn.Embedding(config.max_position_embeddings, width)
        self.token_types = nn.Embedding(config.type_vocab_size, width)
        self.embedding_norm = nn.LayerNorm(width, eps=config.layer_norm_eps)
        self.layers = nn.ModuleList(EncoderLayer(config) for _ in range(config.num_hidden_layers))

    @classmethod
    def open(cls, path: str | Path) -> "BertEncoder":
        """Read config.json and model.safetensors of a BertModel directory and freeze the weights.

        Weights run in float32 whatever they are stored in. A ``bert.`` prefix and further tensors are ignored.
        Raises CheckpointError naming the file and what is wrong with it.
        """
        directory = Path(path)
        encoder = cls(_read_config(directory / "config.json"))
        encoder.load_hf_state(_read_weights(directory / "model.safetensors"), directory / "model.safetensors")
        return encoder.eval().requires_grad_(False)

    def forward(self, ids: Tensor, token_types: Tensor, mask: Tensor | None = None) -> Tensor:
        """Give states (B, T, H) for ``ids`` and ``token_types`` (B, T); ``mask`` (B, T) is false on padding."""
        x, attention_mask = self._embed(ids, token_types, mask)
        for layer in self.layers:
            x = layer(x, attention_mask)
        return x

    def first_state(self, ids: Tensor, token_types: Tensor, mask: Tensor | None = None) -> Tensor:
        """Give only the state of the first token, (B, H): the last layer then costs a third."""
        return self.first_state_and_below(ids, token_types, mask)[0]

    def first_state_and_below(
        self, ids: Tensor, token_types: Tensor, mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Give the state of the first token, (B, H), and the states (B, T, H) that the last layer makes it from."""
        x, attention_mask = self._embed(ids, token_types, mask)
        *layers, last = self.layers
        for layer in layers:
            x = layer(x, attention_mask)
        assert isinstance(last, EncoderLayer)
        return last.first(x, attention_mask)[:, 0], x

    def _embed(self, ids: Tensor, token_types: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor | None]:
        x = self.words(ids) + self.token_types(token_types) + self.positions.weight[: ids.shape[1]]
        return self.embedding_norm(x), None if mask is None else mask[:, None, None, :]

    @torch.no_grad()
    def initialise(self, generator: torch.Generator) -> None:
        """Draw fresh weights as BERT does: matrices N(0, 0.02), biases 0, norms 1."""
        for name, parameter in self.named_parameters():
            if parameter.ndim == 2:
                std = 0.02 if "words" in name or "positions" in name else 1 / math.sqrt(parameter.shape[1])
                parameter.normal_(std=std, generator=generator)
            else:
                parameter.fill_(1.0 if name.endswith("norm.weight") else 0.0)

    def hf_state(self) -> dict[str, Tensor]:
        """Give the weights under BertModel's names (contiguous, float32)."""
        own = {name: tensor.detach() for name, tensor in self.state_dict().items()}
        state = {f"embeddings.{hf}": own[name] for hf, name in _EMBEDDINGS.items()}
        for index in range(self.config.num_hidden_layers):
            hf_prefix, prefix = f"encoder.layer.{index}.", f"layers.{index}."
            for kind in ("weight", "bias"):
                for part, tensor in zip(("query", "key", "value"), own[f"{prefix}qkv.{kind}"].chunk(3), strict=True):
                    state[f"{hf_prefix}attention.self.{part}.{kind}"] = tensor
                for hf, name in _LAYER_PARTS.items():
                    state[f"{hf_prefix}{hf}.{kind}"] = own[f"{prefix}{name}.{kind}"]
        return {name: tensor.contiguous().clone() for name, tensor in state.items()}

    def load_hf_state(self, state: dict[str, Tensor], source: Path) -> None:
        """Take weights under BertModel's names; raises CheckpointError naming ``source`` and the tensor."""
        own: dict[str, Tensor] = {}
        for hf, expected in self.hf_state().items():
            tensor = state.get(hf, state.get(f"bert.{hf}"))
            if tensor is None:
                raise CheckpointError(f"{source}: tensor {hf} is missing; is it a BertModel checkpoint?")
            if tensor.shape != expected.shape:
                found, wanted = tuple(tensor.shape), tuple(expected.shape)
                raise CheckpointError(f"{source}: tensor {hf} has shape {found}; config.json says {wanted}")
            own[hf] = tensor.float()
            if not torch.isfinite(own[hf]).all():
                raise CheckpointError(
                    f"{source}: tensor {hf} holds numbers that are not finite; make the encoder again"
                )
        fused = {name: own[f"embeddings.{hf}"] for hf, name in _EMBEDDINGS.items()}
        for index in range(self.config.num_hidden_layers):
            hf_prefix, prefix = f"encoder.layer.{index}.", f"layers.{index}."
            for kind in ("weight", "bias"):
                parts = [own[f"{hf_prefix}attention.self.{part}.{kind}"] for part in ("query", "key", "value")]
                fused[f"{prefix}qkv.{kind}"] = torch.cat(parts)
                fused |= {f"{prefix}{name}.{kind}": own[f"{hf_prefix}{hf}.{kind}"] for hf, name in _LAYER_PARTS.items()}
        self.load_state_dict(fused)

    def save(self, path: str | Path, *, dtype: torch.dtype = torch.float32) -> None:
        """Write config.json and model.safetensors so that transformers' ``BertModel.from_pretrained`` reads them."""
        directory = Path(path)
        directory.mkdir(parents=True, exist_ok=True)
        config = msgspec.to_builtins(self.config) | {
            "architectures": ["BertModel"],
            "attention_probs_dropout_prob": 0.0,
            "hidden_dropout_prob": 0.0,
            "dtype": str(dtype).removeprefix("torch."),
        }
        (directory / "config.json").write_bytes(msgspec.json.format(msgspec.json.encode(config), indent=2) + b"\n")
        weights = {name: tensor.to(dtype) for name, tensor in self.hf_state().items()}
        save_file(weights, directory / "model.safetensors", metadata={"format": "pt"})


def _read_config(file: Path) -> EncoderConfig:
    try:
        config = msgspec.json.decode(file.read_bytes(), type=EncoderConfig)
    except OSError as error:
        raise CheckpointError(f"{file}: {error.strerror}; an encoder directory holds config.json") from error
    except msgspec.DecodeError as error:
        raise CheckpointError(f"{file}: {error}; only BERT encoders can be read") from error
    if config.hidden_size % config.num_attention_heads:
        raise CheckpointError(f"{file}: hidden_size {config.hidden_size} is no multiple of num_attention_heads")
    return config


def _read_weights(file: Path) -> dict[str, Tensor]:
    try:
        weights: dict[str, Tensor] = load_file(file)
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"{file}: {error}; an encoder directory holds model.safetensors") from error
    return weights
