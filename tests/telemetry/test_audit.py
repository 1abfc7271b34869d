"""The auditor: a good log passes, and a log with one wrong record fails for that record and nothing else."""

import random
from pathlib import Path

import pytest
from msgspec.structs import replace

from memspec_actors.protocols import events
from memspec_actors.protocols.events import Event
from memspec_actors.protocols.messages import ResidentDraft
from memspec_actors.telemetry.audit import Violation, audit
from tests.telemetry.conftest import RealRun, changed, first


def sole_violation(records: list[Event]) -> Violation:
    violations = audit(records).violations
    assert len(violations) == 1, violations
    return violations[0]


def test_good_log_passes_and_every_invariant_was_decided(run: RealRun) -> None:
    """An auditor that checks nothing would find nothing."""
    found = audit(run.path)
    assert found.violations == ()
    assert found.checked == len(run.records)
    assert [each.invariant for each in found.invariants] == list(range(1, 9))
    assert all(each.times > 0 for each in found.invariants), found.invariants
    assert (found.runs, found.from_start, found.missing, found.skipped, found.unknown) == (1, True, 0, 0, 0)


def test_iteration_with_a_draft_that_its_epoch_does_not_name(run: RealRun) -> None:
    records = run.records
    index = next(i for i, event in enumerate(records) if isinstance(event, events.Iteration) and event.draft)
    iteration = records[index]
    assert isinstance(iteration, events.Iteration) and iteration.draft is not None
    other = replace(iteration.draft, generation=99)
    violation = sole_violation(changed(records, index, draft=other))
    announcement = first(records, events.ResidencyAnnouncedEvent, epoch=iteration.epoch)
    assert (violation.invariant, violation.seqs) == (1, (records[announcement].seq, iteration.seq))
    assert f"{other.name}#99" in violation.what
    assert violation.records[1].startswith(f"{iteration.seq} decoder iteration: ")


def test_epoch_that_was_never_announced(run: RealRun) -> None:
    records = run.records
    index = next(i for i, event in enumerate(records) if isinstance(event, events.Iteration) and event.draft)
    assert sole_violation(changed(records, index, epoch=10_000)).invariant == 1


def test_more_bytes_than_the_budget(run: RealRun) -> None:
    records = run.records
    index = first(records, events.ResidencyAnnouncedEvent)
    violation = sole_violation(changed(records, index, resident_bytes=10**9))
    assert (violation.invariant, violation.seqs[-1]) == (2, records[index].seq)


def test_more_drafts_than_k(run: RealRun) -> None:
    """A third load begins before anything was freed."""
    records = run.records
    starts = [i for i, event in enumerate(records) if isinstance(event, events.DraftLoadStarted)][:2]
    extra = replace(records[starts[1]], draft=ResidentDraft("stray", 1), nbytes=0)
    ended = events.DraftLoadFailed(
        actor="cache_manager", seq=extra.seq, draft=ResidentDraft("stray", 1), error="", retry_in_s=0, reserved_bytes=0
    )
    at = starts[1] + 1
    violation = sole_violation([*records[:at], extra, ended, *records[at:]])
    assert violation.invariant == 2
    assert "3 drafts" in violation.what


@pytest.mark.parametrize("offset", [-1, 1])
def test_freed_by_the_wrong_epoch(run: RealRun, offset: int) -> None:
    """One epoch too early still names the draft; one that the Decoder has not acknowledged proves nothing."""
    records = run.records
    index = next(
        i
        for i, event in enumerate(records)
        if isinstance(event, events.DraftEvicted)
        and any(isinstance(e, events.DraftRevoked) and e.draft == event.draft for e in records[:i])
        and not any(e.epoch == event.acknowledged_epoch + 1 for e in records[:i])
    )
    evicted = records[index]
    assert isinstance(evicted, events.DraftEvicted)
    violation = sole_violation(changed(records, index, acknowledged_epoch=evicted.acknowledged_epoch + offset))
    assert (violation.invariant, violation.seqs[-1]) == (3, evicted.seq)


def test_active_draft_freed(run: RealRun) -> None:
    """The Decoder went back to a draft that was about to be freed: use after free."""
    records = run.records
    index = next(i for i, event in enumerate(records) if isinstance(event, events.DraftEvicted))
    evicted = records[index]
    assert isinstance(evicted, events.DraftEvicted)
    back = events.DraftActivatedEvent(actor="decoder", seq=0, draft=evicted.draft, previous=None, iteration=0)
    violation = sole_violation([*records[:index], back, *records[index:]])
    assert violation.invariant == 3
    assert "decoded with it" in violation.what


def test_wait_that_nobody_asked_for(run: RealRun) -> None:
    records = run.records
    index = first(records, events.Iteration, share="desired")
    violation = sole_violation(changed(records, index, waited_us=1500.0, waited_for="prediction"))
    assert (violation.invariant, violation.seqs) == (4, (records[index].seq,))
    assert "1.5 ms" in violation.what


def test_waits_of_inline_prediction_and_mab_sync_are_exempt(run: RealRun) -> None:
    records = run.records
    asked_for = audit(records).exempt_waits
    assert asked_for > 0, "mab-sync waited for no load"
    index = first(records, events.Iteration, share="desired")
    waiting = changed(records, index, waited_us=1500.0, waited_for="prediction")
    found = audit(changed(waiting, 0, prediction="inline"))
    assert (found.violations, found.exempt_waits) == ((), asked_for + 1)
    assert sole_violation(changed(records, index, waited_us=1500.0, waited_for="load")).invariant == 4


@pytest.mark.parametrize("field", ["emitted", "committed", "accepted"])
def test_token_out_of_nowhere(run: RealRun, field: str) -> None:
    records = run.records
    index = next(i for i, event in enumerate(records) if isinstance(event, events.Iteration) and event.draft)
    violation = sole_violation(changed(records, index, **{field: getattr(records[index], field) + 10}))
    assert (violation.invariant, violation.seqs) == (5, (records[index].seq,))


def test_lost_token(run: RealRun) -> None:
    records = run.records
    index = first(records, events.RequestFinished)
    finished = records[index]
    assert isinstance(finished, events.RequestFinished) and finished.usage is not None
    usage = replace(finished.usage, completion_tokens=finished.usage.completion_tokens + 1)
    assert sole_violation(changed(records, index, usage=usage)).invariant == 5


def test_another_text_for_the_same_task(run: RealRun) -> None:
    """A draft must not change the text: what another policy made of the same prompt gives it away."""
    records = run.records
    index = next(
        i
        for i, event in enumerate(records)
        if isinstance(event, events.RequestFinished) and event.request_id == run.results[1].request_id
    )
    violation = sole_violation(changed(records, index, token_digest="0" * 16))
    assert violation.invariant == 5
    assert run.results[1].request_id in violation.what
    lossy = [replace(e, lossless=False) if isinstance(e, events.RequestAccepted) else e for e in records]
    assert audit(changed(lossy, index, token_digest="0" * 16)).violations == ()


def test_load_that_ends_twice(run: RealRun) -> None:
    records = run.records
    index = first(records, events.DraftLoadFinished)
    violation = sole_violation([*records[: index + 1], records[index], *records[index + 1 :]])
    assert (violation.invariant, violation.seqs[-1]) == (6, records[index].seq)


def test_load_that_never_ends(run: RealRun) -> None:
    """Its bytes stay reserved for ever: memory that nobody gets back."""
    records = run.records
    draft = [event.draft for event in records if isinstance(event, events.DraftLoadStarted)][-1]
    ends = (events.DraftLoadFinished, events.DraftLoadCancelled)
    violations = audit([e for e in records if not (isinstance(e, ends) and e.draft == draft)]).violations
    assert {each.invariant for each in violations} == {6}
    assert violations[-1].what == f"the load of {draft.name}#{draft.generation} never ended"


def test_bytes_that_do_not_add_up(run: RealRun) -> None:
    records = run.records
    index = first(records, events.ResidencyAnnouncedEvent)
    announced = records[index]
    assert isinstance(announced, events.ResidencyAnnouncedEvent)
    violation = sole_violation(changed(records, index, resident_bytes=announced.resident_bytes - 1))
    assert (violation.invariant, violation.seqs) == (6, (announced.seq,))


def test_actor_that_goes_on_without_a_restart(run: RealRun) -> None:
    records = run.records
    index = first(records, events.ActorRestarted, actor="predictor")
    violation = sole_violation([*records[:index], *records[index + 1 :]])
    assert violation.invariant == 7
    assert violation.seqs[0] == records[first(records, events.ActorCrashed)].seq


def test_actor_that_never_comes_back(run: RealRun) -> None:
    """Nobody would notice: decoding goes on with its last ranking."""
    records = run.records
    index = first(records, events.RequestAccepted) + 1
    crash = events.ActorCrashed(actor="verifier_stats", mono=records[index].mono, error="", restarts=0)
    late = [replace(event, mono=event.mono + 60) for event in records[index:]]
    violation = sole_violation([*records[:index], crash, *late])
    assert violation.invariant == 7
    assert "verifier_stats" in violation.what


def test_actor_that_hung_while_the_engine_was_closed_is_not_waited_for(run: RealRun) -> None:
    """Closing on storage that hangs would be told as a breach: its thread is waited for, and nobody restarts it."""
    *records, end = run.records
    crash = events.ActorCrashed(actor="loader", mono=end.mono, error="", restarts=0, stopping=True)
    assert audit([*records, crash, replace(end, mono=end.mono + 60)]).violations == ()


def test_request_that_a_helpers_crash_ended(run: RealRun) -> None:
    records = run.records
    index = first(records, events.RequestFinished)
    crash = events.ActorCrashed(actor="loader", mono=records[index].mono, error="", restarts=0)
    ended = changed(records, index, finish_reason="error", error="actor 'loader' crashed", usage=None, timing=None)
    violation = sole_violation([*ended[:index], crash, *ended[index:]])
    assert violation.invariant == 7


def test_request_that_ends_twice_or_never(run: RealRun) -> None:
    records = run.records
    index = first(records, events.RequestFinished)
    twice = sole_violation([*records[: index + 1], records[index], *records[index + 1 :]])
    assert (twice.invariant, twice.seqs) == (8, (records[index].seq,) * 2)
    assert sole_violation([*records[:index], *records[index + 1 :]]).invariant == 8


def test_logs_that_begin_late_or_end_torn_are_not_held_against_the_run(run: RealRun) -> None:
    """Rotation takes away the beginning, a kill the end; neither is anybody's fault."""
    records = run.records
    rng = random.Random(1)
    for _ in range(60):
        begin = rng.randrange(len(records))
        end = rng.randrange(begin, len(records)) + 1
        found = audit(records[begin:end])
        assert found.violations == (), (begin, end)
        assert found.from_start == (begin == 0)


def test_second_run_in_one_file_is_a_run_of_its_own(run: RealRun) -> None:
    """A killed run leaves loads and requests open; the next run, appended to the same file, must not inherit them."""
    records = run.records
    found = audit([*records[: len(records) // 2], *records])
    assert (found.violations, found.runs, found.missing) == ((), 2, 0)


def test_line_of_a_violation_is_named(run: RealRun, tmp_path: Path) -> None:
    lines = run.path.read_bytes().splitlines(keepends=True)
    index = first(run.records, events.RequestFinished)
    path = tmp_path / "log"
    path.write_bytes(b"torn\n" + b"".join([*lines[: index + 1], lines[index], *lines[index + 1 :]]))
    (violation,) = audit(path).violations
    assert (violation.file, violation.line) == (str(path), index + 3)
