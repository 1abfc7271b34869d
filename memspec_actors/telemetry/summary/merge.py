"""Add up the figures of requests."""

from collections.abc import Sequence

from memspec_actors.protocols.results import DraftFigures, Share, SpeculativeMetrics
from memspec_actors.telemetry.summary.figures import RequestSummary

__all__ = ["merged_figures", "merged_metrics", "merged_share"]


def merged_metrics(metrics: Sequence[SpeculativeMetrics]) -> SpeculativeMetrics:
    """Return what all iterations together give, histograms of any length added up."""
    steps = sum(each.num_spec_steps for each in metrics)
    drafted = sum(each.num_draft_tokens for each in metrics)
    accepted = sum(each.num_accepted_draft_tokens for each in metrics)
    longest = max((each.num_spec_tokens for each in metrics), default=0)
    padded = [(*each.acceptance_histogram, *[0] * longest)[:longest] for each in metrics]
    return SpeculativeMetrics(
        mean_acceptance_length=1.0 + accepted / steps if steps else 0.0,
        draft_acceptance_rate=accepted / drafted if drafted else 0.0,
        acceptance_histogram=tuple(map(sum, zip(*padded, strict=True))),
        num_spec_steps=steps,
        num_accepted_draft_tokens=accepted,
        num_draft_tokens=drafted,
        num_spec_tokens=longest,
    )


def merged_share(requests: Sequence[RequestSummary]) -> Share:
    """Weigh the shares of requests by what they are shares of, or by decode time if the log leaves iterations out."""
    weights = [each.time.worked_s or each.decode_s for each in requests]
    total = sum(weights)
    if not total:
        return Share()
    pairs = list(zip(requests, weights, strict=True))
    names = Share.__struct_fields__
    return Share(**{name: sum(getattr(each.share, name) * weight for each, weight in pairs) / total for name in names})


def merged_figures(one: DraftFigures, other: DraftFigures) -> DraftFigures:
    """Add up two requests' figures of one draft."""
    return DraftFigures(**{name: getattr(one, name) + getattr(other, name) for name in one.__struct_fields__})
