"""Which draft to decode with now."""

from collections.abc import Sequence

from memspec_actors.protocols.messages import ResidentDraft

__all__ = ["desired", "pick_draft"]


def pick_draft(order: Sequence[str], resident: Sequence[ResidentDraft]) -> ResidentDraft | None:
    """Return the best-ranked resident draft, or None: residents that the ranking leaves out are not used.

    MemSpec, Algorithm 3: the argmax of the score over the *resident* drafts, so decoding never waits for a load.
    """
    by_name = {draft.name: draft for draft in resident}
    return next((by_name[name] for name in order if name in by_name), None)


def desired(order: Sequence[str]) -> str | None:
    """Return the draft that would run if every draft were resident."""
    return order[0] if order else None
