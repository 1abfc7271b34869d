"""A memory plan adds up to what the parts take, and K is what really fits."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memspec_actors import zoo
from memspec_actors.drafts.memory_plan import fitting_capacity, kv_bytes, most_that_fit, plan_memory
from memspec_actors.models.checkpoints.checkpoint import Checkpoint
from memspec_actors.models.weights.opening import open_runner
from memspec_actors.models.weights.plan import LoadPlan


@pytest.fixture(scope="module")
def target() -> LoadPlan:
    return LoadPlan.of(Checkpoint.open(zoo.path("target")), "float32", private=True)


@pytest.fixture(scope="module")
def drafts() -> dict[str, LoadPlan]:
    return {name: LoadPlan.of(Checkpoint.open(zoo.path(name)), "float32") for name in ("general", "code", "law")}


@pytest.mark.parametrize("pays", [True, False])
def test_planned_weights_are_those_of_the_runner(target: LoadPlan, pays: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second copies of the target's weights would be forgotten, or planned where there are none."""
    monkeypatch.setattr("memspec_actors.models.weights.plan.packing_pays", lambda: pays)
    runner = open_runner(target.checkpoint, dtype="float32")
    assert target.nbytes + target.packed_nbytes == runner.nbytes


def test_planned_keys_and_values_are_those_of_the_cache(target: LoadPlan) -> None:
    runner = open_runner(target.checkpoint, dtype="float32")
    cache = runner.new_cache(300)
    assert kv_bytes(target, 300) == cache.memory.kv.nbytes  # type: ignore[attr-defined]
    assert kv_bytes(target, 10**6) == kv_bytes(target, target.checkpoint.max_positions)


def test_a_plan_counts_k_drafts(target: LoadPlan, drafts: dict[str, LoadPlan]) -> None:
    plan = plan_memory(target, drafts, capacity=2, budget_bytes=None, context=100)
    each = drafts["law"]
    assert (plan.arena_bytes, plan.draft_kv_bytes) == (2 * each.nbytes, 2 * kv_bytes(each, 100))
    known = plan.target_bytes + plan.packed_bytes + plan.target_kv_bytes + plan.base_bytes
    assert plan.total_bytes == known + 2 * (each.nbytes + kv_bytes(each, 100))


def test_a_budget_wins_over_k(target: LoadPlan, drafts: dict[str, LoadPlan]) -> None:
    """Keys and values would be planned for drafts that there is no room for."""
    budget = drafts["law"].nbytes * 3 // 2
    plan = plan_memory(target, drafts, capacity=3, budget_bytes=budget, context=100)
    assert (plan.arena_bytes, plan.capacity) == (budget, 1)


@pytest.mark.parametrize(("num_more", "expected"), [(0, 0), (1, 1), (2, 2), (3, 3), (9, 3)])
def test_k_is_the_largest_that_fits(
    target: LoadPlan, drafts: dict[str, LoadPlan], num_more: int, expected: int
) -> None:
    """A K of one more would be swapped out, one less would waste memory."""
    plan = plan_memory(target, drafts, capacity=2, budget_bytes=None, context=100)
    each = drafts["law"].nbytes + kv_bytes(drafts["law"], 100)
    fixed = plan.total_bytes - 2 * each
    assert fitting_capacity(plan, drafts, fixed + num_more * each) == expected
    assert fitting_capacity(plan, drafts, fixed + max(1, num_more) * each - 1) == min(max(1, num_more) - 1, 3)


def test_a_device_holds_weights_keys_and_values(target: LoadPlan, drafts: dict[str, LoadPlan]) -> None:
    """K would be planned for the host's memory, and a GPU's left empty or overrun."""
    plan = plan_memory(target, drafts, capacity=2, budget_bytes=None, context=100, predictor_bytes=10**6, device="cuda")
    kv = plan.target_kv_bytes + plan.draft_kv_bytes
    assert plan.device_bytes == plan.target_bytes + plan.packed_bytes + plan.arena_bytes + kv
    assert plan.total_bytes - plan.device_bytes == plan.base_bytes + 10**6
    assert fitting_capacity(plan, drafts, plan.device_bytes) == 2
    assert fitting_capacity(plan, drafts, plan.device_bytes - 1) == 1


def test_a_device_has_no_second_copies(target: LoadPlan, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memspec_actors.models.weights.plan.packing_pays", lambda: True)
    assert target.packed_nbytes > 0
    assert LoadPlan.of(target.checkpoint, "float32", private=True, on_device=True).packed_nbytes == 0


@given(sizes=st.lists(st.integers(1, 50), max_size=8), budget=st.integers(0, 200))
def test_most_that_fit_by_trying_every_subset(sizes: list[int], budget: int) -> None:
    subsets = [[size for i, size in enumerate(sizes) if mask >> i & 1] for mask in range(1 << len(sizes))]
    assert most_that_fit(sizes, budget) == max(len(subset) for subset in subsets if sum(subset) <= budget)


def test_other_families_have_keys_and_values_too(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(
        '{"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "n_embd": 32, "n_layer": 3, "n_head": 4,'
        ' "vocab_size": 97, "n_positions": 64}'
    )
    plan = LoadPlan.of(Checkpoint.describe(tmp_path), "bfloat16")
    assert kv_bytes(plan, 50) == 3 * 2 * 32 * 50 * 2
