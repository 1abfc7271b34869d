"""What a caller gets back. Names of the speculative figures follow vLLM's metrics."""

from typing import Literal

import msgspec

__all__ = [
    "Departures",
    "DraftFigures",
    "FinishReason",
    "GenerationResult",
    "Metrics",
    "ResidencySnapshot",
    "Scheduling",
    "Share",
    "SpeculativeMetrics",
    "Statistics",
    "TextChunk",
    "Timing",
    "TokenLogprob",
    "Usage",
]

FinishReason = Literal["stop", "length", "cancelled"]


class TokenLogprob(msgspec.Struct, frozen=True):
    """Give the target's log-softmax of a token, and of the likeliest ``top`` ones there, as (id, logprob)."""

    token_id: int
    logprob: float
    top: tuple[tuple[int, float], ...] = ()


class TextChunk(msgspec.Struct, frozen=True, kw_only=True):
    """Carry what one iteration added: whole characters of text, the ids behind it, and where decoding stands."""

    text: str
    token_ids: tuple[int, ...]
    draft: str | None  # the draft of this iteration; None is the target alone
    resident: tuple[str, ...]
    accepted: int
    drafted: int
    logprobs: tuple[TokenLogprob, ...] | None = None  # one per id, if they were asked for


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """Count tokens as OpenAI's API does."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class Timing(msgspec.Struct, frozen=True, kw_only=True):
    """Give wall times in seconds; ``tokens_per_second`` is steady-state decoding, prompt encoding excluded."""

    queue_s: float
    prefill_s: float
    time_to_first_token_s: float
    decode_s: float
    total_s: float
    tokens_per_second: float


class SpeculativeMetrics(msgspec.Struct, frozen=True, kw_only=True):
    """Figures of draft-and-verify iterations that drafted at least one token.

    ``mean_acceptance_length`` counts the bonus token; ``acceptance_histogram[i]`` is the number of steps that accepted
    draft position i (so its sum is ``num_accepted_draft_tokens``); ``num_spec_tokens`` is the longest draft asked for.
    """

    mean_acceptance_length: float
    draft_acceptance_rate: float
    acceptance_histogram: tuple[int, ...]
    num_spec_steps: int
    num_accepted_draft_tokens: int
    num_draft_tokens: int
    num_spec_tokens: int


class Departures(msgspec.Struct, frozen=True, kw_only=True):
    """Count the tokens at which a lossy rule kept the draft's choice and the target's own was another.

    ``share`` is of all tokens that iterations emitted.
    """

    num_tokens: int = 0
    share: float = 0.0


class Metrics(msgspec.Struct, frozen=True, kw_only=True):
    """Group the metrics of one request."""

    speculative_decoding: SpeculativeMetrics
    departures: Departures = Departures()


class Share(msgspec.Struct, frozen=True, kw_only=True):
    """Split decode time into fractions that add up to 1 (or are all 0 if nothing was decoded).

    ``desired``: the preferred draft ran; ``fallback``: another resident draft ran; ``prediction``: decoding waited for
    a ranking; ``waited``: it waited for a load, or for what was learned from the last iteration; ``catch_up``: a
    draft's cache was brought up to date; ``target_only``: no draft ran.
    """

    desired: float = 0.0
    fallback: float = 0.0
    prediction: float = 0.0
    waited: float = 0.0
    catch_up: float = 0.0
    target_only: float = 0.0


class DraftFigures(msgspec.Struct, frozen=True, kw_only=True):
    """Count what one draft did; ``tokens`` are all tokens emitted by its iterations, bonus tokens included."""

    iterations: int = 0
    drafted: int = 0
    accepted: int = 0
    tokens: int = 0


class Scheduling(msgspec.Struct, frozen=True, kw_only=True):
    """Tell how drafts were scheduled during one request.

    Before the first draft was there, decoding took ``startup_s`` and gave ``startup_tokens`` beside the first one; both
    are 0 if no draft ever ran.
    """

    policy: str
    interval: int
    capacity: int
    switches: int
    loads: int
    evictions: int
    wasted_loads: int  # of drafts freed before they ever ran
    predictions: int
    prediction_busy_share: float  # processor time of rankings over decode time; overlapped with decoding
    emulated_storage: bool
    share: Share
    drafts: dict[str, DraftFigures]
    startup_tokens: int = 0
    startup_s: float = 0.0


class GenerationResult(msgspec.Struct, frozen=True, kw_only=True):
    """Give the whole text of a request and everything measured on the way."""

    request_id: str
    text: str
    token_ids: tuple[int, ...]
    finish_reason: FinishReason
    lossless: bool
    usage: Usage
    timing: Timing
    metrics: Metrics
    scheduling: Scheduling
    logprobs: tuple[TokenLogprob, ...] | None = None  # one per id, if they were asked for


class Statistics(msgspec.Struct, frozen=True, kw_only=True):
    """Sum up all iterations since the engine was opened."""

    speculative_decoding: SpeculativeMetrics
    share: Share
    drafts: dict[str, DraftFigures]


class ResidencySnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """Show the cache at one moment; byte counts are of the draft arena. Counts grow for the life of the engine."""

    epoch: int
    resident: tuple[str, ...]
    loading: tuple[str, ...]
    revoked: tuple[str, ...]
    unavailable: tuple[str, ...]
    active: str | None
    capacity: int
    budget_bytes: int
    resident_bytes: int
    reserved_bytes: int
    loads: int
    evictions: int
    pinned: tuple[str, ...] = ()
