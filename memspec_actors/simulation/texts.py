"""Traced texts as a simulation wants them: shorter, or with fewer drafts."""

from collections.abc import Sequence

from msgspec.structs import replace

from memspec_actors.predictor.traces import accepted_runs
from memspec_actors.protocols.traces import TraceHeader, TraceRecord

__all__ = ["Text", "shortened", "with_drafts"]

Text = tuple[TraceHeader, TraceRecord]


def shortened(text: Text, max_new_tokens: int) -> Text:
    """Return the trace of the same prompt with at most ``max_new_tokens`` tokens asked for."""
    header, record = text
    length = min(max_new_tokens, len(record.output_ids))
    return (
        replace(header, max_new_tokens=min(max_new_tokens, header.max_new_tokens)),
        replace(
            record,
            output_ids=record.output_ids[:length],
            accepted={
                name: accepted_runs([run > 0 for run in runs[:length]], header.k)
                for name, runs in record.accepted.items()
            },
            entropies={name: entropies[:length] for name, entropies in record.entropies.items()},
        ),
    )


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
        ),
    )
