"""If these fail, a trace of real checkpoints is not what transformers says that their models do."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from memspec_actors.errors import CheckpointError, TraceError, UsageError
from memspec_actors.predictor.collect import collect, weights_hash
from memspec_actors.predictor.prompts import Prompt
from memspec_actors.predictor.traces import TraceReader, accepted_runs

PROMPTS = [Prompt("w3 w4 w5", "law"), Prompt("w20"), Prompt("w7 w7 w8 w9 w1 w0")]
NUM_IDS = 32


def _greedy(model: Any, prompt: list[int], max_new_tokens: int) -> list[int]:
    tokens = list(prompt)
    while len(tokens) < len(prompt) + max_new_tokens and tokens[-1] != 2:
        tokens.append(int(model(torch.tensor([tokens])).logits[0, -1, :NUM_IDS].argmax()))
    return tokens[len(prompt) :]


@torch.inference_mode()
def test_traces_equal_what_transformers_computes(tiny_models: Path, tmp_path: Path) -> None:
    from safetensors.torch import load_file
    from transformers import LlamaForCausalLM

    drafts = {name: tiny_models / name for name in ("near", "far")}
    told: list[tuple[str, int, int]] = []
    figures = collect(
        tiny_models / "target",
        drafts,
        PROMPTS,
        tmp_path / "t",
        max_new_tokens=30,
        k=3,
        progress=lambda *step: told.append(step),
    )
    reader = TraceReader(tmp_path / "t")
    target = LlamaForCausalLM.from_pretrained(tiny_models / "target")
    records = list(reader)
    assert [record.kind for record in records] == ["law", "", ""]
    assert [[start.domain for start in record.domains] for record in records] == [["law"], [], []]
    agreeing: dict[str, int] = {}
    for record in records:
        assert list(record.output_ids) == _greedy(target, list(record.prompt_ids), 30)
        for name, path in drafts.items():
            draft = LlamaForCausalLM.from_pretrained(path)
            logits = draft(torch.tensor([record.prompt_ids + record.output_ids])).logits[0]
            start = len(record.prompt_ids) - 1
            predicted = logits[start:-1, :NUM_IDS].argmax(-1).tolist()
            agrees = [a == b for a, b in zip(predicted, record.output_ids, strict=True)]
            entropies = torch.special.entr(logits[start:-1, :NUM_IDS].softmax(-1)).sum(-1).tolist()
            assert record.entropies[name] == pytest.approx(entropies, abs=6e-4)
            assert record.accepted[name] == accepted_runs(agrees, 3)
            agreeing[name] = agreeing.get(name, 0) + sum(agrees)
    tokens = sum(len(record.output_ids) for record in records)
    assert (figures["prompts"], figures["tokens"]) == (3, tokens)
    assert figures["agreement"] == {name: count / tokens for name, count in agreeing.items()}
    assert figures["agreement"]["far"] < figures["agreement"]["near"] < 1, "the models are a poor choice for a test"
    assert told == [("collect", done, 3) for done in (1, 2, 3)]
    assert (reader.header.k, reader.header.vocab_size, reader.header.eos_ids) == (3, NUM_IDS, (2,))
    assert reader.header.drafts == {name: weights_hash(path) for name, path in drafts.items()}
    assert reader.header.draft_nbytes == {
        name: sum(tensor.nbytes for tensor in load_file(path / "model.safetensors").values())
        for name, path in drafts.items()
    }
    assert reader.header.iteration_us is not None
    assert reader.header.iteration_us > 0


def test_prompts_go_through_the_chat_template(tiny_models: Path, tmp_path: Path) -> None:
    """Without it the predictor would be trained on prompts unlike those it meets."""
    target = shutil.copytree(tiny_models / "target", tmp_path / "target")
    (target / "chat_template.jinja").write_text("{{ bos_token }} w9 {{ messages[0]['content'] }} w8")
    collect(target, {"far": tiny_models / "far"}, [Prompt("w0 w1")], tmp_path / "t", max_new_tokens=2)
    (record,) = TraceReader(tmp_path / "t")
    assert record.prompt_ids == (1, 12, 3, 4, 11)


def test_the_hash_follows_the_weights(tiny_models: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(tiny_models / "far", tmp_path / "far")
    assert weights_hash(copy) == weights_hash(tiny_models / "far") != weights_hash(tiny_models / "near")
    data = bytearray((copy / "model.safetensors").read_bytes())
    data[-1] ^= 1
    (copy / "model.safetensors").write_bytes(data)
    assert weights_hash(copy) != weights_hash(tiny_models / "far")


@pytest.mark.parametrize("text", ["", " ".join(["w1"] * 128)])
def test_prompts_that_the_target_cannot_take_are_reported(tiny_models: Path, tmp_path: Path, text: str) -> None:
    prompts = [Prompt("w1"), Prompt(text)]
    with pytest.raises(TraceError, match="prompt 2"):
        collect(tiny_models / "target", {"far": tiny_models / "far"}, prompts, tmp_path / "t")


@pytest.mark.parametrize("k", [0, 1001, 10**23])
def test_drafts_that_are_too_long_to_replay_are_refused(tiny_models: Path, tmp_path: Path, k: int) -> None:
    """A replay would never end."""
    with pytest.raises(TraceError, match=f"k is {k}"):
        collect(tiny_models / "target", {"far": tiny_models / "far"}, PROMPTS, tmp_path / "t", k=k)


def test_a_file_that_cannot_be_written_is_refused_before_the_work(tmp_path: Path) -> None:
    """The models need not even be there: hours of tracing would be lost."""
    with pytest.raises(UsageError, match="directory"):
        collect(tmp_path / "nowhere", {"a": tmp_path / "nowhere"}, PROMPTS, tmp_path)


def test_missing_models_and_empty_lists_are_reported(tiny_models: Path, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="nowhere"):
        collect(tiny_models / "target", {"a": tmp_path / "nowhere"}, PROMPTS, tmp_path / "t")
    with pytest.raises(TraceError, match="at least one"):
        collect(tiny_models / "target", {}, PROMPTS, tmp_path / "t")
    with pytest.raises(CheckpointError, match="safetensors"):
        weights_hash(tmp_path)
    assert not (tmp_path / "t").exists()
