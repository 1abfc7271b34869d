"""The residency state machine, one scenario at a time."""

from collections.abc import Sequence
from typing import TypeVar

import pytest

from memspec_actors.errors import InvalidRequest
from memspec_actors.protocols.messages import ResidentDraft
from memspec_actors.scheduling.artefacts import Artefact, DraftSpec
from memspec_actors.scheduling.backoff import Backoff
from memspec_actors.scheduling.instructions import (
    AbortLoad,
    Announce,
    Failed,
    Freed,
    Instruction,
    Revoked,
    StartLoad,
    Warm,
)
from memspec_actors.scheduling.residency import Residency

DRAFTS = ("general", "code", "math", "law", "medical")
LAW, CODE, MATH = (ResidentDraft(name, 1) for name in ("law", "code", "math"))
T = TypeVar("T")


def one_file(name: str, nbytes: int = 64) -> DraftSpec:
    return DraftSpec(name, (Artefact(name, nbytes),))


def cache(capacity: int = 2, budget: int | None = None, specs: Sequence[DraftSpec] | None = None) -> Residency:
    specs = specs or [one_file(name) for name in DRAFTS]
    return Residency(specs, capacity=capacity, budget_bytes=budget or 64 * capacity, backoff=Backoff(first_s=1.0))


def rank(residency: Residency, *order: str, now: float = 0.0) -> list[Instruction]:
    return residency.on_ranking(order, [1.0 - i / 10 for i in range(len(order))], now)


def only(kind: type[T], instructions: Sequence[Instruction]) -> list[T]:
    return [instruction for instruction in instructions if isinstance(instruction, kind)]


def started(instructions: Sequence[Instruction]) -> list[str]:
    return [start.draft.name for start in only(StartLoad, instructions)]


def load(residency: Residency, name: str, generation: int = 1, now: float = 0.0) -> list[Instruction]:
    """Let a load succeed and the draft be warmed and announced."""
    draft = ResidentDraft(name, generation)
    return residency.on_load_finished(draft, now) + residency.on_warmed(draft, now)


def acknowledge(residency: Residency, active: ResidentDraft | None = None) -> list[Instruction]:
    return residency.on_ack(residency.snapshot(0.0).epoch, active, 0.0)


def decoding_with_law_beside_code() -> Residency:
    """Return a full cache, whose second epoch the Decoder has acknowledged."""
    residency = cache()
    rank(residency, "law", "code")
    load(residency, "law")
    load(residency, "code")
    acknowledge(residency, LAW)
    return residency


def test_the_first_ranking_loads_the_best_k_best_first() -> None:
    """The first draft is the one load that decoding waits for: nothing may come before it."""
    assert started(rank(cache(capacity=3), "law", "code", "math", "general")) == ["law", "code", "math"]


def test_a_load_is_warmed_then_announced() -> None:
    """A draft announced before it is warm makes the decoder pay for its catch-up."""
    residency = cache()
    rank(residency, "law")
    assert residency.on_load_finished(LAW, 0.0) == [Warm(LAW)]
    assert residency.on_warmed(LAW, 0.0) == [Announce(1, (LAW,), (), "law joined")]


def test_memory_is_reused_only_after_the_acknowledgement() -> None:
    """A load into memory that is still decoded with corrupts both drafts."""
    residency = decoding_with_law_beside_code()

    told = rank(residency, "law", "math", "code")
    assert told == [
        Revoked(CODE, "its room is needed for math", 0.8),
        Announce(3, (LAW,), (), "code revoked"),
    ]
    assert residency.on_ack(2, LAW, 0.0) == [], "an acknowledgement of an earlier epoch frees nothing"
    assert residency.on_activated(LAW) == []
    told = residency.on_ack(3, LAW, 0.0)
    assert told[0] == Freed(CODE, 64, 3)
    assert started(told) == ["math"]


def test_a_draft_wanted_again_before_it_was_freed_is_not_loaded_again() -> None:
    """Text that turns and turns back would pay for a load that is not needed."""
    residency = decoding_with_law_beside_code()
    rank(residency, "law", "math")
    assert rank(residency, "law", "code") == [Announce(4, (CODE, LAW), (), "code joined")]
    assert residency.on_ack(3, LAW, 0.0) == [], "the epoch without it is history"
    assert residency.on_ack(4, CODE, 0.0) == []


def test_a_draft_activated_while_it_was_revoked_takes_no_other_with_it() -> None:
    """Revoking both what was active and what just became active would leave the decoder without any draft."""
    residency = decoding_with_law_beside_code()
    assert only(Revoked, rank(residency, "math", "medical"))[0].draft == CODE
    assert residency.on_activated(CODE) == [], "sent before the decoder read of the revocation"
    told = residency.on_ack(3, LAW, 0.0)
    assert only(Freed, told)[0].draft == CODE
    assert not only(Revoked, told)
    assert started(told) == ["math"]


def test_the_former_active_draft_makes_room_as_soon_as_another_decodes() -> None:
    """Waiting for the next scheduling point would cost an interval of prefetching."""
    residency = cache()
    rank(residency, "law")
    load(residency, "law")
    residency.on_ack(1, LAW, 0.0)
    assert started(rank(residency, "math", "code")) == ["math"]
    load(residency, "math")
    told = residency.on_activated(MATH)
    assert only(Revoked, told)[0].draft == LAW
    assert started(acknowledge(residency, MATH)) == ["code"]


def test_with_one_place_the_active_draft_stays_until_it_is_not_active() -> None:
    """With K = 1 there is no place to load beside the active draft: it changes between requests only."""
    residency = cache(capacity=1)
    rank(residency, "law")
    load(residency, "law")
    residency.on_ack(1, LAW, 0.0)
    assert rank(residency, "code") == []
    assert [r.draft.name for r in only(Revoked, residency.on_activated(None))] == ["law"]
    assert started(acknowledge(residency)) == ["code"]


def test_five_requests_for_five_drafts_each_get_theirs() -> None:
    """A request would wait for ever for a place that another one's draft keeps."""
    residency = cache()
    for name in DRAFTS:
        told = rank(residency, name)
        told += acknowledge(residency)
        assert started(told) == [name]
        load(residency, name)
        draft = ResidentDraft(name, 1)
        acknowledge(residency, draft)
        assert residency.snapshot(0.0).active == name
        residency.on_activated(None)
    assert residency.counts.useful == 5


@pytest.mark.parametrize("wanted_again", [False, True])
def test_a_load_given_up_that_finishes_all_the_same_is_adopted_or_freed(wanted_again: bool) -> None:
    """Its bytes would be lost, or a draft that is there would be read again."""
    residency = cache()
    rank(residency, "law", "code")
    assert rank(residency, "math", "code") == [AbortLoad(LAW)]
    if wanted_again:
        assert rank(residency, "law", "code") == []
        assert residency.on_load_finished(LAW, 0.0) == [Warm(LAW)]
    else:
        told = residency.on_load_finished(LAW, 0.0)
        assert told[0] == Freed(LAW, 64, 0)
        assert started(told) == ["math"]
    snapshot = residency.snapshot(0.0)
    assert snapshot.resident_bytes + snapshot.reserved_bytes == 128


def test_a_cancelled_load_that_is_wanted_again_starts_anew_as_another_generation() -> None:
    """A message about the first load would be taken for one about the second."""
    residency = cache()
    rank(residency, "law", "code")
    rank(residency, "math", "code")
    rank(residency, "law", "code")
    told = residency.on_load_cancelled(LAW, 0.0)
    assert only(StartLoad, told)[0].draft == ResidentDraft("law", 2)
    assert residency.on_load_finished(LAW, 0.0) == []


def test_a_draft_discarded_while_it_is_warmed_is_freed_when_the_decoder_has_done_with_it() -> None:
    """The decoder's thread would compute with weights that are being overwritten."""
    residency = cache()
    rank(residency, "law", "code")
    residency.on_load_finished(LAW, 0.0)
    assert rank(residency, "code", "math") == []
    told = residency.on_warmed(LAW, 0.0)
    assert told[0] == Freed(LAW, 64, 0)
    assert started(told) == ["math"]


def test_fifty_failures_in_a_row_leak_nothing_and_leave_residents_serving() -> None:
    """A file that cannot be read would eat the memory of all others, bit by bit."""
    residency = cache()
    rank(residency, "law", "code")
    load(residency, "law")
    now, waits = 0.0, []
    for generation in range(1, 51):
        told = residency.on_load_failed(ResidentDraft("code", generation), "code.safetensors: 1 byte short", now)
        waits.append(only(Failed, told)[0].retry_in_s)
        assert only(Failed, told)[0].error == "code.safetensors: 1 byte short"
        assert only(Announce, told)[0].resident == (LAW,)
        assert only(Announce, told)[0].unavailable == ("code",)
        snapshot = residency.snapshot(now)
        assert (snapshot.resident_bytes, snapshot.reserved_bytes) == (64, 0)
        due = residency.next_tick()
        assert due is not None
        assert due == now + waits[-1]
        assert started(residency.on_tick(due - 1e-6)) == []
        now = due
        assert started(residency.on_tick(now)) == ["code"]
    assert waits == [min(60.0, 2.0**n) for n in range(50)]
    load(residency, "code", 51, now)
    assert residency.snapshot(now).resident == ("code", "law")


def test_a_quarantined_draft_leaves_its_place_to_the_next_best() -> None:
    """A broken file would cost one of the K places for a minute."""
    residency = cache()
    rank(residency, "law", "code", "math")
    told = residency.on_load_failed(LAW, "gone", 0.0)
    assert started(told) == ["math"]
    assert residency.snapshot(0.0).unavailable == ("law",)


def test_a_draft_larger_than_the_budget_is_unavailable_for_ever_and_says_why() -> None:
    """The decoder would wait for a first draft that can never come."""
    residency = cache(budget=128, specs=[one_file("huge", 129), one_file("law")])
    told = rank(residency, "huge", "law")
    assert only(Announce, told)[0].unavailable == ("huge",)
    assert started(told) == ["law"]
    assert residency.next_tick() is None
    with pytest.raises(InvalidRequest, match="'huge' needs 129 bytes and the whole budget is 128"):
        residency.on_wish("load", "huge", 0.0)
    assert residency.on_tick(1e9) == []


def test_the_best_draft_is_not_kept_out_by_a_worse_one_beside_which_it_does_not_fit() -> None:
    """Where bytes bind before K, top-K alone would protect a small draft against the large one that is needed."""
    residency = cache(capacity=2, budget=256, specs=[one_file("large", 256), one_file("small", 64)])
    rank(residency, "small")
    load(residency, "small")
    acknowledge(residency)
    assert only(Revoked, rank(residency, "large", "small"))[0].draft.name == "small"
    assert started(acknowledge(residency)) == ["large"]


def test_bytes_in_two_gaps_are_no_room() -> None:
    """Without an eviction for a gap, a draft that fits by the sum of bytes would never be loaded."""
    specs = [one_file("a", 128), one_file("b", 128), one_file("c", 128), one_file("wide", 256)]
    residency = cache(capacity=3, budget=384, specs=specs)
    rank(residency, "a", "b", "c")
    for name in "abc":
        load(residency, name)
    acknowledge(residency, ResidentDraft("a", 1))
    assert rank(residency, "wide", "b") == [], "b lies in the middle and is wanted too: nobody is evicted in vain"
    told = rank(residency, "wide", "a")
    assert {r.draft.name for r in only(Revoked, told)} == {"b", "c"}
    told = acknowledge(residency, ResidentDraft("a", 1))
    assert only(StartLoad, told)[0].placements[0].offset == 128


def adapters() -> list[DraftSpec]:
    return [DraftSpec(name, (Artefact("base", 640), Artefact(f"{name} adapter", 64))) for name in ("law", "code")]


def test_a_shared_base_is_read_once_and_counted_once() -> None:
    """Two adapters over one base would need twice the memory, or overwrite a base that decodes."""
    residency = cache(capacity=2, budget=768, specs=adapters())
    told = rank(residency, "law", "code")
    assert [(s.draft.name, s.nbytes) for s in only(StartLoad, told)] == [("law", 704)], "code waits for the base"
    told = residency.on_load_finished(LAW, 0.0)
    (start,) = only(StartLoad, told)
    assert (start.draft.name, start.nbytes) == ("code", 64)
    assert [(p.artefact, p.present) for p in start.placements] == [("base", True), ("code adapter", False)]
    snapshot = residency.snapshot(0.0)
    assert (snapshot.resident_bytes, snapshot.reserved_bytes) == (704, 64)


def test_a_base_whose_load_failed_is_read_by_the_next_draft() -> None:
    """The second adapter would run over a base that was never read."""
    residency = cache(capacity=2, budget=768, specs=adapters())
    rank(residency, "law", "code")
    told = residency.on_load_failed(LAW, "gone", 0.0)
    (start,) = only(StartLoad, told)
    assert (start.draft.name, start.nbytes) == ("code", 704)
    assert not any(place.present for place in start.placements)


def test_a_decoder_that_started_anew_is_told_everything_again() -> None:
    """After a crash it would decode with the target alone until the next change of the resident set."""
    residency = cache()
    rank(residency, "law", "code")
    load(residency, "law")
    residency.on_ack(1, LAW, 0.0)
    (announce,) = residency.on_ack(0, None, 0.0)
    assert isinstance(announce, Announce)
    assert (announce.epoch, announce.resident) == (2, (LAW,))
    assert residency.snapshot(0.0).active is None


def test_a_draft_that_was_to_be_warmed_when_the_decoder_died_is_not_announced_before_it_is() -> None:
    """Its new life may warm it yet: announced, the draft could be revoked and its memory reused under its hands."""
    residency = cache()
    rank(residency, "law", "code")
    load(residency, "law")
    residency.on_load_finished(CODE, 0.0)
    (again,) = only(Announce, residency.on_ack(0, None, 0.0))
    assert again.resident == (LAW,)
    (announce,) = only(Announce, residency.on_warmed(CODE, 0.0))
    assert set(announce.resident) == {LAW, CODE}


@pytest.mark.parametrize(
    ("order", "scores"), [(("law", "latin"), (1.0, 0.0)), (("law", "law"), (1.0, 0.0)), (("law", "code"), (1.0,))]
)
def test_a_bad_ranking_is_refused_and_changes_nothing(order: tuple[str, ...], scores: tuple[float, ...]) -> None:
    """A half-applied message would leave the restarted actor with a state that nobody meant."""
    residency = cache()
    rank(residency, "law", "code")
    before = residency.snapshot(0.0)
    with pytest.raises(ValueError, match="at most once"):
        residency.on_ranking(order, scores, 0.0)
    assert residency.snapshot(0.0) == before
    assert residency.on_tick(0.0) == []


def test_useful_and_wasted_prefetches_are_told_apart() -> None:
    """The summary would praise prefetching that nobody used."""
    residency = decoding_with_law_beside_code()
    rank(residency, "law", "math")
    acknowledge(residency, LAW)
    counts = residency.counts
    assert (counts.loads, counts.evictions, counts.useful, counts.wasted) == (2, 1, 1, 1)


def test_a_capacity_of_nothing_is_refused() -> None:
    """Nothing could ever be resident, and nobody would know why."""
    with pytest.raises(ValueError, match="capacity is 0"):
        Residency([one_file("law")], capacity=0, budget_bytes=64)
