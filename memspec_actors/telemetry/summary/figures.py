"""The figures of a summary. Times are in the unit that their name ends in; rates of nothing are 0."""

import statistics
from collections.abc import Sequence

import msgspec

from memspec_actors.protocols.results import DraftFigures, Share, SpeculativeMetrics

__all__ = ["DomainSummary", "DraftSummary", "Prefetch", "RequestSummary", "Spread", "Summary", "TimeSpent"]


class Spread(msgspec.Struct, frozen=True, kw_only=True):
    """Describe many values: how many, their mean, median, 95th percentile and largest."""

    count: int = 0
    mean: float = 0.0
    median: float = 0.0
    p95: float = 0.0
    max: float = 0.0

    @classmethod
    def of(cls, values: Sequence[float]) -> "Spread":
        if not values:
            return cls()
        p95 = statistics.quantiles(values, n=20, method="inclusive")[-1] if len(values) > 1 else values[0]
        median = statistics.median(values)
        return cls(count=len(values), mean=statistics.fmean(values), median=median, p95=p95, max=max(values))


class TimeSpent(msgspec.Struct, frozen=True, kw_only=True):
    """Tell what decoding spent its time on, in seconds.

    ``between_s`` is from one iteration to the next without the waits, ``other_s`` what an iteration took beside
    drafting, verifying and catching up. They add up to the decode time.
    """

    draft_s: float = 0.0
    verify_s: float = 0.0
    catch_up_s: float = 0.0
    waiting_s: float = 0.0
    between_s: float = 0.0
    other_s: float = 0.0

    def __add__(self, more: "TimeSpent") -> "TimeSpent":
        return TimeSpent(**{name: getattr(self, name) + getattr(more, name) for name in self.__struct_fields__})

    @property
    def worked_s(self) -> float:
        """What shares are shares of: drafting, verifying, catching up and waiting."""
        return self.draft_s + self.verify_s + self.catch_up_s + self.waiting_s

    @property
    def total_s(self) -> float:
        return float(sum(getattr(self, name) for name in self.__struct_fields__))


class RequestSummary(msgspec.Struct, frozen=True, kw_only=True):
    """Sum up one request; ``finish_reason`` None is a request whose end is not in the log.

    ``queue_depth`` is the number of requests before it when it came. Times are those that the run measured itself, or,
    where its end is missing, what its iterations add up to.
    """

    request_id: str
    policy: str | None
    finish_reason: str | None
    prompt_tokens: int
    tokens: int
    tokens_per_second: float
    queue_depth: int
    queue_s: float
    prefill_s: float
    time_to_first_token_s: float
    decode_s: float
    speculative_decoding: SpeculativeMetrics
    share: Share
    time: TimeSpent
    drafts: dict[str, DraftFigures]
    switches: int
    loads: int
    evictions: int
    predictions: int
    prediction_busy_share: float
    largest_gap_ms: float


class DraftSummary(msgspec.Struct, frozen=True, kw_only=True):
    """Sum up one draft: what it drafted, and how it came and went.

    ``useful`` loads were decoded with, ``wasted`` ones freed before that.
    """

    iterations: int = 0
    drafted: int = 0
    accepted: int = 0
    tokens: int = 0
    mean_acceptance_length: float = 0.0
    draft_acceptance_rate: float = 0.0
    acceptance_histogram: tuple[int, ...] = ()
    loads: int = 0
    failed_loads: int = 0
    cancelled_loads: int = 0
    evictions: int = 0
    useful: int = 0
    wasted: int = 0
    load_ms: Spread = Spread()


class DomainSummary(msgspec.Struct, frozen=True, kw_only=True):
    """Sum up the iterations in which one draft was the preferred one: the text was of its domain."""

    iterations: int
    tokens: int
    mean_acceptance_length: float
    draft_acceptance_rate: float
    share: Share


class Prefetch(msgspec.Struct, frozen=True, kw_only=True):
    """Count loads that were decoded with, and loads freed before that."""

    useful: int = 0
    wasted: int = 0


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a log tells about its requests, drafts and actors.

    ``loads`` finished; ``tokens_per_second`` is of steady-state decoding over all requests; ``skipped`` lines are no
    records, ``unknown`` ones are of another version; ``mailbox_peaks`` are known of runs that were stopped in order.
    """

    runs: int
    policies: tuple[str, ...]
    requests: int
    finish_reasons: dict[str, int]
    prompt_tokens: int
    tokens: int
    tokens_per_second: float
    time_to_first_token_s: Spread
    queue_s: Spread
    queue_depth: Spread
    decode_s: float
    speculative_decoding: SpeculativeMetrics
    share: Share
    time: TimeSpent
    drafts: dict[str, DraftSummary]
    domains: dict[str, DomainSummary]
    switches: int
    loads: int
    failed_loads: int
    cancelled_loads: int
    load_ms: Spread
    evictions: int
    eviction_reasons: dict[str, int]
    prefetch: Prefetch
    predictions: int
    predict_ms: Spread
    largest_gap_ms: float
    crashes: dict[str, int]
    restarts: dict[str, int]
    mailbox_peaks: dict[str, int]
    records: int
    skipped: int
    unknown: int
    by_request: tuple[RequestSummary, ...]
