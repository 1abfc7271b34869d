"""The lean runner computes what transformers computes, however the text is cut into calls."""

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from transformers import AutoModelForCausalLM, LlamaConfig

from memspec_actors.models.checkpoints.checkpoint import Checkpoint
from memspec_actors.models.kernels.linear import LinearMap, WeightPart, map_part
from memspec_actors.models.kernels.packing import pack
from memspec_actors.models.lean import cache as cache_module
from memspec_actors.models.lean import runner as lean
from memspec_actors.models.lean.drafting_pass import DraftingPass
from memspec_actors.models.lean.runner import LeanRunner
from memspec_actors.models.lean.weights import ModelWeights
from memspec_actors.models.runner import Runner
from memspec_actors.models.weights.loading import load_into
from memspec_actors.models.weights.opening import open_runner
from memspec_actors.models.weights.plan import LoadPlan
from tests.models.conftest import CONFIGS, save_random

TOLERANCE = 1e-4


def bound(directory: Path, dtype: str = "float32") -> Runner:
    """Return a runner on arena-like memory."""
    plan = LoadPlan.of(Checkpoint.open(directory), dtype)  # type: ignore[arg-type]
    memory = torch.zeros(plan.nbytes, dtype=torch.uint8)
    load_into(plan, memory)
    return plan.bind(memory)


@torch.no_grad()
def reference(directory: Path, ids: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    model = AutoModelForCausalLM.from_pretrained(directory, dtype=dtype)
    logits: Tensor = model(ids[None]).logits[0]
    return logits


def random_ids(num: int, seed: int = 0, vocab_size: int = 97) -> Tensor:
    return torch.randint(vocab_size, (num,), generator=torch.Generator().manual_seed(seed))


def in_pieces(runner: Runner, ids: Tensor, sizes: list[int]) -> Tensor:
    cache = runner.new_cache(len(ids))
    return torch.cat([runner.forward(piece, cache) for piece in torch.split(ids, sizes)])


STORED = [(kind, torch.float32) for kind in CONFIGS]
STORED += [(kind, dtype) for kind in ("llama", "qwen3") for dtype in (torch.bfloat16, torch.float16)]


@pytest.mark.parametrize(("kind", "stored"), STORED)
def test_logits_equal_transformers_whole_and_token_by_token(
    make_checkpoint: Callable[..., Path], kind: str, stored: torch.dtype
) -> None:
    """Else a draft or target of this family would speak another text than the model its user trained."""
    directory = make_checkpoint(kind, stored)
    ids = random_ids(80)
    expected = reference(directory, ids)
    for runner in (bound(directory), open_runner(Checkpoint.open(directory), dtype="float32")):
        assert isinstance(runner, LeanRunner)
        for sizes in ([80], [1] * 80, [30, 1, 2, 3, 9, 1, 1, 33]):
            torch.testing.assert_close(in_pieces(runner, ids, sizes), expected, atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize("kind", ["llama", "qwen2", "qwen3", "mistral"])
def test_bfloat16_stays_near_transformers(make_checkpoint: Callable[..., Path], kind: str) -> None:
    """Else the low-precision path would lose accuracy that the format does not cost."""
    directory = make_checkpoint(kind, torch.bfloat16)
    ids = random_ids(40)
    exact = reference(directory, ids)
    theirs = (reference(directory, ids, torch.bfloat16).float() - exact).abs().mean()
    for sizes in ([40], [1] * 40):
        ours = (in_pieces(bound(directory, "bfloat16"), ids, sizes).float() - exact).abs().mean()
        assert ours < 1.5 * theirs


@pytest.mark.parametrize("kind", ["llama", "mistral"])
def test_rollback_to_every_length_equals_a_fresh_computation(make_checkpoint: Callable[..., Path], kind: str) -> None:
    """Else rejected draft tokens would leave traces in the text that follows."""
    runner = bound(make_checkpoint(kind))
    ids, other = random_ids(24), random_ids(24, seed=1)
    for length in range(24):
        cache = runner.new_cache(48)
        runner.forward(ids, cache)
        assert cache.truncate(length) == 24 - length
        assert cache.length == length
        again = runner.forward(other, cache)
        fresh = runner.forward(torch.cat((ids[:length], other)), runner.new_cache(48))[length:]
        torch.testing.assert_close(again, fresh, atol=TOLERANCE, rtol=0)


@settings(max_examples=25)
@given(
    steps=st.lists(st.tuples(st.integers(1, 9), st.integers(0, 9)), min_size=1, max_size=12),
    kind=st.sampled_from(["llama", "qwen2", "qwen3", "mistral"]),
)
def test_any_history_of_feeding_and_rolling_back_equals_the_plain_pass(
    make_checkpoint: Callable[..., Path], steps: list[tuple[int, int]], kind: str
) -> None:
    """Else some order of accepted and rejected blocks would corrupt the cache."""
    runner = bound(make_checkpoint(kind))
    cache, committed, last = runner.new_cache(8), [3], None
    for index, (feed, reject) in enumerate([*steps, (1, 0)]):
        block = random_ids(feed, seed=index).tolist()
        last = runner.forward([*committed[cache.length :], *block], cache)[-1]
        committed += block
        del committed[max(1, len(committed) - reject) :]
        cache.truncate(min(cache.length, len(committed) - 1))
    cache.reset()
    assert last is not None
    assert cache.length == 0
    expected = runner.forward(committed, runner.new_cache(8))
    torch.testing.assert_close(runner.forward(committed, cache), expected, atol=0, rtol=0)
    torch.testing.assert_close(last, expected[-1], atol=TOLERANCE, rtol=0)


def test_growing_past_the_first_capacity_keeps_what_was_cached(
    make_checkpoint: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a long answer would lose its beginning when the cache is enlarged."""
    monkeypatch.setattr(cache_module, "FIRST_CAPACITY", 256)
    directory = make_checkpoint("llama-llama3")
    runner = bound(directory)
    ids = random_ids(600)
    expected = reference(directory, ids)
    cache = runner.new_cache(600)
    assert cache.capacity == 256  # type: ignore[attr-defined]
    got = torch.cat([runner.forward(piece, cache) for piece in torch.split(ids, [200, 55, 1, 1, 300, 42, 1])])
    torch.testing.assert_close(got, expected, atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize("sizes", [[600], [5, 595], [520, 1, 79], [300, 300]])
def test_a_long_text_through_a_window_is_run_in_pieces(make_checkpoint: Callable[..., Path], sizes: list[int]) -> None:
    """Else a long prompt would cost a mask of its length squared, or its pieces would see what they should not."""
    directory = make_checkpoint("mistral")
    runner, ids = bound(directory), random_ids(600)
    expected = reference(directory, ids)
    torch.testing.assert_close(in_pieces(runner, ids, sizes), expected, atol=TOLERANCE, rtol=0)
    for num in (1, 200):
        last = runner.forward(ids, runner.new_cache(600), logits_to_keep=num)
        torch.testing.assert_close(last, expected[-num:], atol=TOLERANCE, rtol=0)


def test_an_unknown_id_late_in_a_long_text_leaves_the_cache_as_it_was(make_checkpoint: Callable[..., Path]) -> None:
    """Else half of a refused text would stay in the cache."""
    runner = bound(make_checkpoint("mistral"))
    cache = runner.new_cache(600)
    runner.forward([3, 4], cache)
    with pytest.raises(IndexError):
        runner.forward([*random_ids(550).tolist(), 97], cache)
    assert cache.length == 2


YARNS = [
    {"beta_fast": 8.0, "beta_slow": 2.0},
    {"truncate": False},
    {"mscale": 0.7, "mscale_all_dim": 1.3},
    {"mscale": 0.7},
    {"attention_factor": 0.8},
]


@pytest.mark.parametrize("changes", YARNS, ids=str)
def test_every_setting_of_yarn_counts(make_checkpoint: Callable[..., Path], tmp_path: Path, changes: Any) -> None:
    """Else a long-context checkpoint would turn positions by other angles than it was trained with."""
    directory = copytree(make_checkpoint("llama-yarn"), tmp_path / "model")
    fields = json.loads((directory / "config.json").read_text())
    fields["rope_parameters"].update(changes)
    (directory / "config.json").write_text(json.dumps(fields))
    runner, ids = bound(directory), random_ids(90)
    assert isinstance(runner, LeanRunner)
    torch.testing.assert_close(in_pieces(runner, ids, [90]), reference(directory, ids), atol=TOLERANCE, rtol=0)


OLD_FIELDS: dict[str, dict[str, Any]] = {
    "plain": {"rope_theta": 7000.0},
    "linear": {"rope_theta": 7000.0, "rope_scaling": {"type": "linear", "factor": 2.0}},
    "yarn": {"rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 100}},
    "yarn of the whole": {"rope_scaling": {"rope_type": "yarn", "factor": 4.0}},
    "yarn beside": {"original_max_position_embeddings": 90, "rope_scaling": {"rope_type": "yarn", "factor": 4.0}},
    "both": {"rope_scaling": {"type": "linear", "factor": 2.0}, "rope_parameters": {"rope_type": "default"}},
}


@pytest.mark.parametrize("name", OLD_FIELDS)
@pytest.mark.parametrize("kind", ["llama", "mistral"])
def test_configs_of_older_versions_are_read_as_transformers_reads_them(
    make_checkpoint: Callable[..., Path], tmp_path: Path, name: str, kind: str
) -> None:
    """Else every checkpoint published before transformers 5 would be run with the wrong angles."""
    directory = copytree(make_checkpoint(kind), tmp_path / "model")
    fields = json.loads((directory / "config.json").read_text())
    del fields["rope_parameters"]
    (directory / "config.json").write_text(json.dumps({**fields, **OLD_FIELDS[name]}))
    runner, ids = bound(directory), random_ids(90)
    assert isinstance(runner, LeanRunner)
    torch.testing.assert_close(in_pieces(runner, ids, [90]), reference(directory, ids), atol=TOLERANCE, rtol=0)


def test_a_cache_takes_no_more_than_it_is_asked_for(make_checkpoint: Callable[..., Path]) -> None:
    """Else a short request would pay for the longest text the model can hold."""
    cache = bound(make_checkpoint("llama")).new_cache(10)
    assert cache.capacity == 10  # type: ignore[attr-defined]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_cache_has_scratch_only_for_a_pass_that_is_there(make_checkpoint: Callable[..., Path], dtype: str) -> None:
    """Else every request of every draft would make tensors that nothing reads."""
    cache = bound(make_checkpoint("llama"), dtype).new_cache(10)
    assert isinstance(cache, cache_module.KvCache)
    assert any(scratch.numel() for scratch in cache.memory.row) == (dtype == "float32")


@pytest.mark.parametrize("num", [1, 5, 12, 20])
def test_only_the_last_rows_are_given_if_only_they_are_wanted(make_checkpoint: Callable[..., Path], num: int) -> None:
    """Else the first token after a prompt would be chosen from the wrong position."""
    runner = bound(make_checkpoint("qwen2"))
    ids = random_ids(12)
    every = runner.forward(ids, runner.new_cache(12))
    last = runner.forward(ids, runner.new_cache(12), logits_to_keep=num)
    torch.testing.assert_close(last, every[-num:], atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize("num", [1, 2])
def test_refused_input_leaves_the_cache_as_it_was(make_checkpoint: Callable[..., Path], num: int) -> None:
    """Else one bad request would spoil the sequence it belongs to."""
    runner = bound(make_checkpoint("llama"))
    cache = runner.new_cache(600)
    runner.forward(random_ids(600 - num + 1), cache)
    for ids, error in (([5] * num, ValueError), ([], ValueError)):
        with pytest.raises(error):
            runner.forward(ids, cache)
    cache.truncate(10)
    for bad in (97, -1):
        with pytest.raises(IndexError):
            runner.forward([bad] * num, cache)
    assert cache.length == 10
    expected = runner.forward(torch.cat((random_ids(600)[:10], torch.tensor([7]))), runner.new_cache(11))[-1]
    torch.testing.assert_close(runner.forward([7], cache)[0], expected, atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize("length", [-1, 4])
def test_truncating_to_an_impossible_length_is_refused(make_checkpoint: Callable[..., Path], length: int) -> None:
    """Else a miscounted commit would go unnoticed and read keys that were never written."""
    runner = bound(make_checkpoint("llama"))
    cache = runner.new_cache(8)
    runner.forward([1, 2, 3], cache)
    with pytest.raises(ValueError, match="3 tokens"):
        cache.truncate(length)


def test_a_cache_of_another_kind_is_refused(make_checkpoint: Callable[..., Path]) -> None:
    """Else a mix-up of runners would surface as an obscure attribute error deep inside."""

    class Foreign:
        length = 0

        def truncate(self, length: int) -> int:
            return length

        def reset(self) -> None: ...

    with pytest.raises(TypeError, match="Foreign"):
        bound(make_checkpoint("llama")).forward([1], Foreign())


def test_threads_with_their_own_caches_do_not_disturb_each_other(make_checkpoint: Callable[..., Path]) -> None:
    """Else warming a draft beside decoding would change what is decoded."""
    runner = bound(make_checkpoint("llama"))
    texts = [random_ids(60, seed=seed) for seed in range(4)]
    alone = [in_pieces(runner, ids, [1] * 60) for ids in texts]
    with ThreadPoolExecutor(4) as threads:
        together = list(threads.map(lambda ids: in_pieces(runner, ids, [1] * 60), texts))
    for one, other in zip(alone, together, strict=True):
        assert torch.equal(one, other)


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a model large enough for packed weights."""
    config = LlamaConfig(
        hidden_size=256,
        intermediate_size=1024,
        num_hidden_layers=1,
        num_attention_heads=4,
        vocab_size=1100,
        attention_bias=True,
        mlp_bias=True,
        max_position_embeddings=64,
    )
    return save_random(tmp_path_factory.mktemp("wide"), config, torch.float32)


@pytest.mark.parametrize("pays", [True, False])
def test_packed_weights_compute_the_same(wide: Path, pays: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a target large enough for oneDNN's layout would differ from transformers where drafts are checked."""
    monkeypatch.setattr("memspec_actors.models.weights.plan.packing_pays", lambda: pays)
    runner = open_runner(Checkpoint.open(wide))
    plan = LoadPlan.of(Checkpoint.open(wide), "float32", private=True)
    assert (runner.nbytes > plan.nbytes) == pays, "packed weights are for processors that run faster with them"
    ids = random_ids(40, vocab_size=1100)
    expected = reference(wide, ids)
    for sizes in ([40], [1] * 40, [20, 2, 9, 9]):
        torch.testing.assert_close(in_pieces(runner, ids, sizes), expected, atol=5e-4, rtol=1e-5)


def test_a_packed_row_does_not_depend_on_the_rows_beside_it() -> None:
    """Else the same position could be judged differently in verification blocks of different widths."""
    torch.manual_seed(0)
    part = pack(WeightPart(torch.randn(512, 640)))
    assert part.packed is not None
    rows = torch.randn(9, 512)
    block = map_part(part, rows)
    for width in range(1, 9):
        assert torch.equal(map_part(part, rows[:width]), block[:width])


@pytest.mark.parametrize("kind", ["llama-bias", "qwen3"])
def test_weights_are_the_memory_they_were_loaded_into(make_checkpoint: Callable[..., Path], kind: str) -> None:
    """Else a draft would live outside the arena, and the memory budget would be a fiction."""
    plan = LoadPlan.of(Checkpoint.open(make_checkpoint(kind)), "float32")
    memory = torch.zeros(plan.nbytes, dtype=torch.uint8)
    load_into(plan, memory)
    runner = plan.bind(memory)
    assert runner.nbytes == plan.nbytes
    before = runner.forward([4, 5], runner.new_cache(2))
    memory.zero_()
    after = runner.forward([4, 5], runner.new_cache(2))
    assert before.abs().max() > 0
    assert after.abs().max() == 0


def test_the_pass_runs_outside_python() -> None:
    """Else every small operation would wait for Python's lock, and nothing but the speed would tell."""
    assert isinstance(lean._code(), torch.jit.ScriptModule)


@pytest.mark.parametrize("kind", ["llama", "llama-bias", "qwen3", "mistral"])
@pytest.mark.parametrize("compiled", [True, False])
def test_without_torchscript_it_computes_the_same(
    make_checkpoint: Callable[..., Path], kind: str, compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a torch that cannot compile the pass would run another one."""
    if not compiled:
        nothing = torch.empty(0)
        plain = DraftingPass(ModelWeights(nothing, [], nothing, LinearMap([])), 1, 1, 1.0)
        monkeypatch.setattr(lean, "_code", lambda: plain)
    directory, ids = make_checkpoint(kind), random_ids(60)
    for sizes in ([60], [1] * 60):
        got = in_pieces(bound(directory), ids, sizes)
        torch.testing.assert_close(got, reference(directory, ids), atol=TOLERANCE, rtol=0)
