"""Traced texts as a simulation wants them: shorter, with fewer drafts, or for another draft length."""

from collections.abc import Sequence

from msgspec.structs import replace

from memspec_actors.predictor.traces import accepted_runs
from memspec_actors.protocols.traces import FreeRun, TraceHeader, TraceRecord

__all__ = ["Text", "recut", "shortened", "with_drafts"]

Text = tuple[TraceHeader, TraceRecord]


def shortened(text: Text, max_new_tokens: int) -> Text:
    """Return the trace of the same prompt with at most ``max_new_tokens`` tokens asked for."""
    header, record = text
    length = min(max_new_tokens, len(record.output_ids))
    shorter = replace(
        record,
        output_ids=record.output_ids[:length],
        accepted={name: runs[:length] for name, runs in record.accepted.items()},
        entropies={name: entropies[:length] for name, entropies in record.entropies.items()},
        domains=tuple(start for start in record.domains if start.position < length),
        free_runs=None
        if record.free_runs is None
        else {name: _cut(runs, max_new_tokens - 1) for name, runs in record.free_runs.items()},
    )
    return recut((replace(header, max_new_tokens=min(max_new_tokens, header.max_new_tokens)), shorter), header.k)


def recut(text: Text, k: int) -> Text:
    """Return the trace with accepted runs cut at ``k`` tokens."""
    header, record = text
    accepted = {name: accepted_runs([run > 0 for run in runs], k) for name, runs in record.accepted.items()}
    return replace(header, k=k), replace(record, accepted=accepted)


def with_drafts(text: Text, names: Sequence[str]) -> Text:
    """Return the trace as if there had been no other drafts."""
    header, record = text
    return (
        replace(
            header,
            drafts={name: header.drafts[name] for name in names},
            draft_nbytes={name: header.draft_nbytes[name] for name in names},
        ),
        replace(
            record,
            accepted={name: record.accepted[name] for name in names},
            entropies={name: record.entropies[name] for name in names},
            free_runs=None if record.free_runs is None else {name: record.free_runs[name] for name in names},
        ),
    )


def _cut(runs: Sequence[FreeRun], length: int) -> tuple[FreeRun, ...]:
    """Return free runs without what lies at position ``length`` or beyond."""
    return tuple(run.shortened(length - run.start) for run in runs if run.start < length)
