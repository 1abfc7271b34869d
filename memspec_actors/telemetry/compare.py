"""Two runs side by side: what changed, and where the time went."""

from collections.abc import Callable

import msgspec

from memspec_actors.protocols.results import Share
from memspec_actors.telemetry.summary import Summary, TimeSpent

__all__ = ["Change", "Comparison", "compare"]


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """One figure of both runs; ``ratio`` is b over a, None where a is 0."""

    name: str
    a: float
    b: float
    ratio: float | None


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """``figures`` of both runs, and ``ms_per_token``: what a token's decode time was spent on."""

    figures: tuple[Change, ...]
    ms_per_token: tuple[Change, ...]


_FIGURES: dict[str, Callable[[Summary], float]] = {
    "requests": lambda run: run.requests,
    "tokens": lambda run: run.tokens,
    "tokens_per_second": lambda run: run.tokens_per_second,
    "time_to_first_token_s": lambda run: run.time_to_first_token_s.median,
    "mean_acceptance_length": lambda run: run.speculative_decoding.mean_acceptance_length,
    "draft_acceptance_rate": lambda run: run.speculative_decoding.draft_acceptance_rate,
    "switches": lambda run: run.switches,
    "loads": lambda run: run.loads,
    "load_ms": lambda run: run.load_ms.median,
    "prefetch.useful": lambda run: run.prefetch.useful,
    "prefetch.wasted": lambda run: run.prefetch.wasted,
    "evictions": lambda run: run.evictions,
    "predictions": lambda run: run.predictions,
    "predict_ms": lambda run: run.predict_ms.median,
    "largest_gap_ms": lambda run: run.largest_gap_ms,
}


def compare(a: Summary, b: Summary) -> Comparison:
    """Put two summaries side by side."""
    figures = [_change(name, figure(a), figure(b)) for name, figure in _FIGURES.items()]
    figures += [_change(f"share.{name}", getattr(a.share, name), getattr(b.share, name)) for name in _SHARES]
    spent = [_change(name.removesuffix("_s"), _ms(a, name), _ms(b, name)) for name in TimeSpent.__struct_fields__]
    total = _change("total", sum(each.a for each in spent), sum(each.b for each in spent))
    return Comparison(figures=tuple(figures), ms_per_token=(*spent, total))


_SHARES = Share.__struct_fields__


def _change(name: str, a: float, b: float) -> Change:
    return Change(name=name, a=a, b=b, ratio=b / a if a else None)


def _ms(run: Summary, name: str) -> float:
    seconds: float = getattr(run.time, name)
    return seconds * 1e3 / run.tokens if run.tokens else 0.0
