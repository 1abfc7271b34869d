"""If these fail, the encoder is not the BERT that its directory says, or a damaged one is taken for good."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch
from safetensors.torch import load_file, save_file

from memspec_actors.errors import CheckpointError
from memspec_actors.predictor.encoder import BertEncoder


@torch.inference_mode()
def test_states_equal_transformers(bert: tuple[Any, Path]) -> None:
    model, directory = bert
    encoder = BertEncoder.open(directory)
    ids = torch.randint(0, 50, (3, 17), generator=torch.Generator().manual_seed(5))
    types = (torch.arange(17) > 8).long().expand(3, -1)
    mask = torch.arange(17) < torch.tensor([[17], [9], [1]])
    expected = model(input_ids=ids, token_type_ids=types, attention_mask=mask.long()).last_hidden_state
    states = encoder(ids, types, mask)
    assert torch.allclose(states[mask], expected[mask], atol=1e-4)
    unmasked = model(input_ids=ids, token_type_ids=types).last_hidden_state
    assert torch.allclose(encoder(ids, types), unmasked, atol=1e-4)
    assert torch.allclose(encoder.first_state(ids, types, mask), expected[:, 0], atol=1e-4)
    assert torch.allclose(encoder.first_state(ids, types), unmasked[:, 0], atol=1e-4)


@torch.inference_mode()
def test_transformers_reads_what_is_saved(encoder_dir: Path) -> None:
    from transformers import BertModel

    model = BertModel.from_pretrained(encoder_dir, add_pooling_layer=False).eval()
    ids = torch.arange(3, 30)[None]
    types = torch.zeros_like(ids)
    encoder = BertEncoder.open(encoder_dir)
    assert torch.allclose(encoder(ids, types), model(input_ids=ids).last_hidden_state, atol=1e-4)


def test_half_precision_storage_runs_in_float32(encoder_dir: Path, tmp_path: Path) -> None:
    encoder = BertEncoder.open(encoder_dir)
    encoder.save(tmp_path, dtype=torch.float16)
    again = BertEncoder.open(tmp_path)
    assert {parameter.dtype for parameter in again.parameters()} == {torch.float32}
    assert torch.allclose(again.words.weight, encoder.words.weight, atol=1e-3)
    assert not any(parameter.requires_grad for parameter in again.parameters())


def test_prefixed_weights_of_a_model_with_heads_are_read(encoder_dir: Path, tmp_path: Path) -> None:
    weights = load_file(encoder_dir / "model.safetensors")
    save_file({f"bert.{name}": tensor for name, tensor in weights.items()}, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_bytes((encoder_dir / "config.json").read_bytes())
    assert torch.equal(BertEncoder.open(tmp_path).words.weight, weights["embeddings.word_embeddings.weight"])


def _damaged(source: Path, target: Path, damage: str) -> None:
    weights = load_file(source / "model.safetensors")
    config = msgspec.json.decode((source / "config.json").read_bytes())
    name = "encoder.layer.1.output.dense.weight"
    if damage == "missing tensor":
        del weights[name]
    elif damage == "wrong shape":
        weights[name] = weights[name][:-1].contiguous()
    elif damage == "not finite":
        weights[name][0, 0] = float("nan")
    elif damage == "another kind":
        config["model_type"] = "roberta"
    elif damage == "odd heads":
        config["num_attention_heads"] = 5
    save_file(weights, target / "model.safetensors")
    (target / "config.json").write_bytes(msgspec.json.encode(config))
    if damage == "truncated":
        data = (target / "model.safetensors").read_bytes()
        (target / "model.safetensors").write_bytes(data[:-1])
    elif damage == "no config":
        (target / "config.json").unlink()


@pytest.mark.parametrize(
    ("damage", "named"),
    [
        ("missing tensor", "encoder.layer.1.output.dense.weight"),
        ("wrong shape", "encoder.layer.1.output.dense.weight"),
        ("not finite", "encoder.layer.1.output.dense.weight"),
        ("another kind", "config.json"),
        ("odd heads", "config.json"),
        ("truncated", "model.safetensors"),
        ("no config", "config.json"),
    ],
)
def test_damaged_encoders_are_refused(encoder_dir: Path, tmp_path: Path, damage: str, named: str) -> None:
    _damaged(encoder_dir, tmp_path, damage)
    with pytest.raises(CheckpointError, match=named):
        BertEncoder.open(tmp_path)
