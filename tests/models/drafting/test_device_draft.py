"""A draft that nobody looks at drafts what a plain loop drafts, whatever lay in its memory before."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensorMode

from memspec_actors.errors import InvalidLogits
from memspec_actors.models.checkpoints.checkpoint import Checkpoint
from memspec_actors.models.drafting.arena import WeightArena
from memspec_actors.models.drafting.device_draft import DeviceDraft
from memspec_actors.models.drafting.device_slots import DeviceSlots
from memspec_actors.models.drafting.reader import ArenaReader
from memspec_actors.models.lean.rope import rope_table
from memspec_actors.models.lean.runner import LeanRunner
from memspec_actors.models.runner import Runner
from memspec_actors.models.weights.opening import open_runner
from memspec_actors.models.weights.plan import LoadPlan
from memspec_actors.protocols.messages import Placement
from memspec_actors.protocols.requests import SamplingParams
from memspec_actors.speculation.accept import Exact, Proposal, judge_unseen
from memspec_actors.speculation.sampling import PositionNoise
from tests.models.conftest import CONFIGS, save_random
from tests.models.fake_device import FakeDevice
from tests.models.lean.test_runner import random_ids, reference

NUM_IDS = 90  # of 97: the draft shares no more with its target


@pytest.fixture
def small_caches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let caches begin with room for 16 tokens, so that they grow."""
    for module in ("lean.cache", "drafting.device_draft"):
        monkeypatch.setattr(f"memspec_actors.models.{module}.FIRST_CAPACITY", 16)


def load_in_turns(device: FakeDevice, *directories: Path) -> Iterator[DeviceDraft]:
    """Load checkpoints, one after the other, at the same place of an arena on a device."""
    plans = {f"{index}": LoadPlan.of(Checkpoint.open(path), "float32", on_device=True)
             for index, path in enumerate(directories)}  # fmt: skip
    reader = ArenaReader(
        WeightArena(max(plan.nbytes for plan in plans.values()), device), plans, dict.fromkeys(plans, NUM_IDS)
    )
    for name, plan in plans.items():
        place = Placement(artefact=name, offset=0, nbytes=plan.nbytes, present=False)
        draft = reader.read(name, [place], lambda: False, lambda done, total: None).runner
        assert isinstance(draft, DeviceDraft)
        yield draft


def load(device: FakeDevice, directory: Path) -> DeviceDraft:
    return next(load_in_turns(device, directory))


def drafted_plainly(runner: Runner, tokens: list[int], num: int) -> list[int]:
    """Feed everything anew for each token."""
    text = list(tokens)
    for _ in range(num):
        text.append(int(runner.forward(text, runner.new_cache(len(text)), logits_to_keep=1)[0, :NUM_IDS].argmax()))
    return text[len(tokens) :]


@pytest.mark.parametrize("kind", CONFIGS)
def test_a_fixed_step_gives_transformers_logits_at_every_place(make_checkpoint: Callable[..., Path], kind: str) -> None:
    """A place off by one, a window or a head group mixed up would only show as a poor draft."""
    directory, ids = make_checkpoint(kind), random_ids(40)
    runner = open_runner(Checkpoint.open(directory), dtype="float32")
    assert isinstance(runner, LeanRunner)
    memory = runner.new_cache(48).memory
    memory.kv.fill_(7.0)  # what lies beyond a token's place must not count
    got = [runner.fixed(ids[place : place + 1], torch.tensor([place]), memory) for place in range(len(ids))]
    torch.testing.assert_close(torch.cat(got), reference(directory, ids), atol=1e-4, rtol=0)


@settings(max_examples=15)
@given(data=st.data(), kind=st.sampled_from(["llama", "mistral", "qwen3"]))
@pytest.mark.usefixtures("small_caches")
def test_drafting_unseen_is_drafting_token_by_token(
    make_checkpoint: Callable[..., Path], data: st.DataObject, kind: str
) -> None:
    """Whatever is committed, taken back and caught up with in between, and wherever the cache grows."""
    directory = make_checkpoint(kind)
    draft = load(FakeDevice(), directory)
    plain = open_runner(Checkpoint.open(directory), dtype="float32")
    cache = draft.new_cache(10)
    tokens = random_ids(data.draw(st.integers(1, 5), label="prompt"), vocab_size=NUM_IDS).tolist()
    for _ in range(data.draw(st.integers(1, 3), label="iterations")):
        num = data.draw(st.integers(1, 6), label="num")
        text = draft.draft_unseen(tokens[cache.length :], cache, num).tolist()
        expected = drafted_plainly(plain, tokens, num)
        assert text == [tokens[-1], *expected]
        assert cache.length == len(tokens) - 1 + num
        kept = data.draw(st.integers(0, num), label="accepted")
        tokens += [*expected[:kept], data.draw(st.integers(0, NUM_IDS - 1), label="next")]
        cache.truncate(min(cache.length, len(tokens) - 1))


@pytest.mark.usefixtures("small_caches")
def test_logits_of_tokens_one_by_one_are_those_of_the_text(make_checkpoint: Callable[..., Path]) -> None:
    """Rules that look at each token get them from the same step; kept logits must not change under their hands."""
    directory, device, ids = make_checkpoint("qwen2"), FakeDevice(), random_ids(40).tolist()
    draft = load(device, directory)
    cache = draft.new_cache(10)
    got = [draft.forward(ids[start : start + 1], cache) for start in range(30)]
    got += [draft.forward(ids[30:33], cache), *(draft.forward([each], cache, logits_to_keep=1) for each in ids[33:])]
    torch.testing.assert_close(torch.cat(got), reference(directory, torch.tensor(ids)), atol=1e-4, rtol=0)
    assert device.replayed == 37
    for bad in (97, -1):  # a device that meets such an id is lost to the process
        with pytest.raises(IndexError):
            draft.forward([bad], cache)
        with pytest.raises(IndexError):
            draft.draft_unseen([bad], cache, 2)
    assert cache.length == 40


@pytest.mark.usefixtures("small_caches")
def test_a_cache_that_grows_keeps_what_it_holds(make_checkpoint: Callable[..., Path]) -> None:
    """The step is bound to the memory that was outgrown, and trying another one must not touch what was read."""
    directory, device = make_checkpoint("qwen3"), FakeDevice()
    draft, plain = load(device, directory), open_runner(Checkpoint.open(directory), dtype="float32")
    cache, tokens = draft.new_cache(10), [3, 1, 4, 1, 5]
    while len(tokens) < 70:
        expected = drafted_plainly(plain, tokens, 5)
        assert draft.draft_unseen(tokens[cache.length :], cache, 5).tolist() == [tokens[-1], *expected]
        tokens += [*expected, 9]  # all accepted, and the target's own
    assert cache.capacity == 128
    assert device.recorded == 4  # for 16, 32, 64 and 128 tokens


@pytest.mark.usefixtures("small_caches")
def test_a_list_of_what_was_drafted_is_the_same(make_checkpoint: Callable[..., Path]) -> None:
    """Rules that look at drafted tokens get them this way."""
    draft = load(FakeDevice(), make_checkpoint("llama"))
    plain = open_runner(Checkpoint.open(make_checkpoint("llama")), dtype="float32")
    assert draft.draft([3, 4, 5], draft.new_cache(9), 4, NUM_IDS) == drafted_plainly(plain, [3, 4, 5], 4)
    with pytest.raises(ValueError, match="was bound for 90"):
        draft.draft([3], draft.new_cache(9), 4, 97)


@pytest.mark.usefixtures("small_caches")
def test_a_step_serves_the_next_draft_of_its_layout(make_checkpoint: Callable[..., Path], tmp_path: Path) -> None:
    """Recording takes longer than an iteration; but a step that went on with old weights would draft nonsense."""
    device, first = FakeDevice(), make_checkpoint("llama")
    second = save_random(tmp_path, CONFIGS["llama"](), torch.float32, seed=5)
    drafts = load_in_turns(device, first, second, first)
    for directory, draft in zip((first, second, first), drafts, strict=True):
        expected = drafted_plainly(open_runner(Checkpoint.open(directory), dtype="float32"), [9, 8, 7], 5)
        assert draft.draft_unseen([9, 8, 7], draft.new_cache(20), 5).tolist() == [7, *expected]
    assert device.recorded == 1
    assert device.replayed == 3 * 4


@pytest.mark.usefixtures("small_caches")
def test_another_layout_records_its_own_step(make_checkpoint: Callable[..., Path]) -> None:
    """A step reads addresses: those of another layout's weights would be wrong ones."""
    device, kinds = FakeDevice(), ("llama", "qwen2", "llama-llama3", "llama")  # the third differs in its rotation only
    for kind, draft in zip(kinds, load_in_turns(device, *map(make_checkpoint, kinds)), strict=True):
        expected = drafted_plainly(open_runner(Checkpoint.open(make_checkpoint(kind)), dtype="float32"), [9, 8], 5)
        assert draft.draft_unseen([9, 8], draft.new_cache(20), 5).tolist() == [8, *expected]
    assert device.recorded == 4


@pytest.mark.usefixtures("small_caches")
def test_a_text_still_held_keeps_its_memory(make_checkpoint: Callable[..., Path]) -> None:
    """A draft that still reads along with the last request would write into the next one's keys and values."""
    device, directory = FakeDevice(), make_checkpoint("llama")
    plain = open_runner(Checkpoint.open(directory), dtype="float32")
    draft = load(device, directory)
    old = draft.new_cache(10)
    draft.forward([1, 2, 3], old)
    new = draft.new_cache(10)
    assert draft.draft_unseen([9, 8], new, 3).tolist() == [8, *drafted_plainly(plain, [9, 8], 3)]
    assert draft.draft_unseen([4], old, 3).tolist() == [4, *drafted_plainly(plain, [1, 2, 3, 4], 3)]
    del old, new
    before = device.recorded
    assert draft.draft_unseen([9, 8], draft.new_cache(10), 3).tolist() == [8, *drafted_plainly(plain, [9, 8], 3)]
    assert device.recorded == before


def test_what_an_earlier_text_left_behind_counts_for_nothing(make_checkpoint: Callable[..., Path]) -> None:
    """A draft whose numbers overflowed would spoil all later texts: nothing times infinity is no number."""
    directory = make_checkpoint("llama")
    draft = load(FakeDevice(), directory)
    with torch.inference_mode():
        draft.new_cache(10).memory.kv.fill_(torch.inf)
    plain = open_runner(Checkpoint.open(directory), dtype="float32")
    assert draft.draft_unseen([9, 8], draft.new_cache(10), 3).tolist() == [8, *drafted_plainly(plain, [9, 8], 3)]


@pytest.mark.parametrize("kind", ["llama", "mistral", "qwen3"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_greedy_iteration_stays_on_the_device_until_its_end(
    make_checkpoint: Callable[..., Path], kind: str, dtype: str
) -> None:
    """A tensor left on the host fails there; a look at a value costs every token a round trip."""
    plan = LoadPlan.of(Checkpoint.open(make_checkpoint(kind)), dtype, on_device=True)  # type: ignore[arg-type]
    device = FakeDevice()
    device.torch_device = torch.device("lazy")  # fake tensors there refuse to be mixed with the host's
    rope_table.cache_clear()
    with FakeTensorMode():
        runner = plan.bind(torch.empty(plan.nbytes, dtype=torch.uint8, device="lazy"))
        assert isinstance(runner, LeanRunner)
        draft = DeviceSlots(device).bind(plan, runner, 0, NUM_IDS)
        caches = draft.new_cache(50), runner.new_cache(50)
        for feed in ([1, 2, 3, 4, 5], [6], [7, 8]):
            text = draft.draft_unseen(feed, caches[0], 4)
            logits = runner.forward(text, caches[1])
            assert (text.device.type, logits.device.type, logits.shape) == ("lazy", "lazy", (5, 97))
        with pytest.raises(DataDependentOutputException):
            judge_unseen(text[1:], logits)
    rope_table.cache_clear()


@given(data=st.data(), num=st.integers(1, 6))
def test_judging_unseen_tokens_is_judging_them_exactly(data: st.DataObject, num: int) -> None:
    """Else text on a device would not be the target's own."""
    logits = torch.tensor(data.draw(st.lists(st.lists(st.integers(0, 3), min_size=4, max_size=4),
                                             min_size=num + 1, max_size=num + 1)), dtype=torch.float32)  # fmt: skip
    drafted = data.draw(st.lists(st.integers(0, 3), min_size=num, max_size=num))
    expected = Exact().verify(Proposal(tuple(drafted)), logits, SamplingParams(temperature=0.0), PositionNoise(0), 0)
    assert judge_unseen(torch.tensor(drafted), logits) == (tuple(drafted), expected)


@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_logits_that_are_no_numbers_end_the_text(bad: float) -> None:
    logits = torch.zeros(3, 4)
    logits[2, 1] = bad
    with pytest.raises(InvalidLogits):
        judge_unseen(torch.tensor([0, 0]), logits)
