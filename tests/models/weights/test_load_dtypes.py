"""Any checkpoint of the lean runner's loads as int8 or int4; bytes are planned, and the product is the plain one."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import AutoModelForCausalLM, GemmaConfig, GPT2Config, GPTNeoXConfig, LlamaConfig, OPTConfig, PhiConfig

from memspec_actors.config import Config, DraftConfig, TargetConfig
from memspec_actors.errors import ConfigError
from memspec_actors.loadout import Loadout
from memspec_actors.models.checkpoints.checkpoint import Checkpoint
from memspec_actors.models.weights import coding
from memspec_actors.models.weights.loading import load_into
from memspec_actors.models.weights.opening import open_runner
from memspec_actors.models.weights.plan import LoadPlan
from tests.models.conftest import save_random
from tests.models.gptq_writer import PARTS

SIZES: dict[str, Any] = {
    "hidden_size": 128,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 16,
    "vocab_size": 112,
    "max_position_embeddings": 200,
}
LINEAR = 128 * (32 + 16 + 16 + 32) + 3 * 128 * 96
OUTPUTS = 32 + 16 + 16 + 128 + 96 + 96 + 128
IDS = torch.arange(40) * 7 % 97


def narrow(value: float) -> float:
    return float(torch.tensor(value).bfloat16())


def rounded_int8(weight: Tensor) -> Tensor:
    """Round each output to multiples of its largest entry over 127, which is a bfloat16 number."""
    lines = []
    for line in weight.float():
        scale = narrow(float(line.abs().max()) / 127)
        lines.append([max(-127, min(127, round(value / scale))) * scale for value in line.tolist()])
    return torch.tensor(lines)


def rounded_int4(weight: Tensor) -> Tensor:
    """Round each 64 inputs (32 where 64 do not fit) of an output to 16 levels between their least and largest.

    Their distance and the ninth of them are bfloat16 numbers.
    """
    size = 64 if weight.shape[1] % 64 == 0 else 32
    lines = []
    for line in weight.float().tolist():
        rounded = []
        for start in range(0, len(line), size):
            group = line[start : start + size]
            step = narrow((max(group) - min(group)) / 15)
            middle = narrow(min(group) + 8 * step)
            rounded += [middle + step * max(-8, min(7, round((value - middle) / step))) for value in group]
        lines.append(rounded)
    return torch.tensor(lines)


@torch.no_grad()
def reference(directory: Path, rounded: Callable[[str, Tensor], Tensor]) -> Tensor:
    model = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32)
    for name, parameter in model.named_parameters():
        parameter.copy_(rounded(name, parameter))
    logits: Tensor = model(IDS[None]).logits[0]
    return logits


def distance(got: Tensor, wanted: Tensor) -> float:
    return float((got.float() - wanted).norm() / wanted.norm())


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_random(tmp_path_factory.mktemp("untied"), LlamaConfig(**SIZES), torch.float16)


@pytest.mark.parametrize("dtype", ["int8", "int4"])
def test_it_runs_the_weights_rounded_by_hand(directory: Path, dtype: str) -> None:
    """Else a quantised draft would be worse than its bytes cost, or a target speak another text."""
    checkpoint = Checkpoint.open(directory)

    def rounded(name: str, weight: Tensor) -> Tensor:
        if name.removesuffix(".weight").endswith(PARTS):
            return rounded_int8(weight) if dtype == "int8" else rounded_int4(weight)
        return rounded_int8(weight) if name == "lm_head.weight" else weight

    expected = reference(directory, rounded)
    runner = open_runner(checkpoint, dtype=dtype)  # type: ignore[arg-type]
    cache = runner.new_cache(40)
    got = torch.cat([runner.forward(piece, cache) for piece in torch.split(IDS, [30, 1, 5, 4])])
    unrounded = reference(directory, lambda name, weight: weight)
    plain = open_runner(checkpoint, dtype="bfloat16")
    noise = distance(plain.forward(IDS, plain.new_cache(40)), unrounded)
    assert distance(got, expected) < 2 * noise
    if dtype == "int4":
        assert distance(got, unrounded) > 4 * noise  # else the rounding could not be told from bfloat16's


@pytest.mark.parametrize("tied", [False, True])
def test_the_planned_bytes_are_the_quantised_ones(tmp_path: Path, tied: bool) -> None:
    """Else the budget would hold fewer drafts than fit, or a load would overrun its place."""
    config = LlamaConfig(**SIZES, tie_word_embeddings=tied)
    checkpoint = Checkpoint.open(save_random(tmp_path, config, torch.bfloat16))
    groups = 2 * (2 * (32 + 16 + 16) + 128 + 2 * 2 * 96 + 3 * 128)  # of 64; 32 where 64 do not fit, in two layers
    others = 2 * (112 * 128 + 5 * 128) + (0 if tied else 112 * (128 + 2))
    planned = {"int8": 2 * (LINEAR + 2 * OUTPUTS) + others, "int4": 2 * LINEAR // 2 + 4 * groups + others}
    for dtype, least in planned.items():
        draft = LoadPlan.of(checkpoint, dtype)  # type: ignore[arg-type]
        assert least <= draft.nbytes < least + 64 * 40
        memory = torch.zeros(draft.nbytes, dtype=torch.uint8)
        load_into(draft, memory, chunk_bytes=5000)
        assert draft.bind(memory).nbytes == draft.nbytes


@pytest.mark.parametrize("dtype", ["int8", "int4"])
def test_the_chunk_size_does_not_matter(directory: Path, dtype: str) -> None:
    """Else weights at a chunk's edge would be packed where the kernel does not look for them."""
    draft = LoadPlan.of(Checkpoint.open(directory), dtype)  # type: ignore[arg-type]
    memories = [torch.zeros(draft.nbytes, dtype=torch.uint8) for _ in range(3)]
    for memory, chunk_bytes in zip(memories, (1, 20_000, 1 << 20), strict=True):
        load_into(draft, memory, chunk_bytes=chunk_bytes)
    assert torch.equal(memories[0], memories[1])
    assert torch.equal(memories[0], memories[2])


@pytest.mark.parametrize("dtype", ["int8", "int4"])
def test_sizes_that_no_kernel_takes_stay_bfloat16(tmp_path: Path, dtype: str) -> None:
    """Else the kernel would read past the end of its rows."""
    config = LlamaConfig(**{**SIZES, "hidden_size": 40, "intermediate_size": 56})
    directory = save_random(tmp_path, config, torch.float32)
    runner = open_runner(Checkpoint.open(directory), dtype=dtype)  # type: ignore[arg-type]
    got = runner.forward(IDS, runner.new_cache(40))
    assert distance(got, reference(directory, lambda name, weight: weight)) < 0.05


def test_float16_stays_near_transformers(directory: Path) -> None:
    """Else the format would cost more than its rounding."""
    runner = open_runner(Checkpoint.open(directory), dtype="float16")
    assert runner.dtype == torch.float16
    cache = runner.new_cache(40)
    got = torch.cat([runner.forward(piece, cache) for piece in torch.split(IDS, [30, 1, 9])])
    assert distance(got, reference(directory, lambda name, weight: weight)) < 0.004


def generic_configs() -> dict[str, Any]:
    common: dict[str, Any] = {
        "vocab_size": 112,
        "hidden_size": 64,
        "num_attention_heads": 2,
        "max_position_embeddings": 200,
    }
    layers: dict[str, Any] = {**common, "num_hidden_layers": 2, "intermediate_size": 96}
    return {
        "GPTNeoXForCausalLM": GPTNeoXConfig(**layers),
        "OPTForCausalLM": OPTConfig(**common, num_hidden_layers=2, ffn_dim=96, word_embed_proj_dim=64, pad_token_id=1),
        "PhiForCausalLM": PhiConfig(**layers),
        "GemmaForCausalLM": GemmaConfig(**layers, num_key_value_heads=1, head_dim=32),
    }


@pytest.mark.parametrize("family", generic_configs())
@pytest.mark.parametrize("dtype", ["int8", "int4"])
def test_families_that_transformers_runs_are_quantised_too(tmp_path: Path, family: str, dtype: str) -> None:
    """Else "any checkpoint" would be those of a few families."""
    directory = save_random(tmp_path, generic_configs()[family], torch.bfloat16)
    checkpoint = Checkpoint.open(directory)
    assert checkpoint.shape is None
    heads = ("embed_out.weight", "lm_head.weight")
    embedded = ("embed_in.weight", "embed_tokens.weight", "embed_positions.weight")

    def rounded(name: str, weight: Tensor) -> Tensor:
        if weight.dim() != 2 or name.endswith(embedded):
            return weight
        return rounded_int8(weight) if dtype == "int8" or name in heads else rounded_int4(weight)

    plain = LoadPlan.of(checkpoint, "bfloat16")
    draft = LoadPlan.of(checkpoint, dtype)  # type: ignore[arg-type]
    assert draft.nbytes < 0.8 * plain.nbytes
    memory = torch.zeros(draft.nbytes, dtype=torch.uint8)
    load_into(draft, memory, chunk_bytes=10_000)
    runner = draft.bind(memory)
    assert abs(runner.nbytes - draft.nbytes) <= 64 * len(draft.slots)
    cache = runner.new_cache(40)
    got = torch.cat([runner.forward(piece, cache) for piece in torch.split(IDS, [30, 1, 9])])
    bfloat16 = open_runner(checkpoint, dtype="bfloat16")
    noise = distance(bfloat16.forward(IDS, bfloat16.new_cache(40)), reference(directory, lambda name, weight: weight))
    assert distance(got, reference(directory, rounded)) < 2 * noise


def test_a_model_without_linear_layers_is_refused(tmp_path: Path) -> None:
    """Else a user would believe that a draft is small which is not: GPT-2's layers are of another kind."""
    config = GPT2Config(n_embd=32, n_layer=1, n_head=2, vocab_size=97, n_positions=64)
    checkpoint = Checkpoint.open(save_random(tmp_path, config, torch.float32))
    with pytest.raises(ConfigError, match=r"dtype is 'int8', but GPT2LMHeadModel has no layers.*use \"float32\""):
        LoadPlan.of(checkpoint, "int8")


def test_a_torch_without_the_kernel_is_named(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else "int4" would silently take four times the memory."""
    monkeypatch.setattr(coding, "int4_works", lambda: False)
    with pytest.raises(ConfigError, match=r"dtype is 'int4', but torch \S+ has no sound kernel"):
        LoadPlan.of(Checkpoint.open(directory), "int4")
    LoadPlan.of(Checkpoint.open(directory), "int8")


def test_each_draft_has_a_dtype_of_its_own() -> None:
    """Else the target's precision would decide how many drafts fit."""
    drafts = (DraftConfig(name="general"), DraftConfig(name="code", dtype="int8"))
    loadout = Loadout.open(Config(target=TargetConfig(dtype="bfloat16"), drafts=drafts))
    plans = loadout.plans
    assert plans["code"].nbytes < 0.9 * plans["general"].nbytes
    assert plans["code"].nbytes == LoadPlan.of(plans["code"].checkpoint, "int8").nbytes
    assert loadout.target.dtype == torch.bfloat16
