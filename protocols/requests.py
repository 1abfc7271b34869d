"""What a caller asks for: sampling, where to stop, and how to schedule."""

from collections.abc import Mapping
from typing import Literal

import msgspec

from memspec_actors.protocols.traces import Plan

__all__ = ["GenerationRequest", "SamplingParams"]

MAX_LOGPROBS = 20


class SamplingParams(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Choose tokens and say where the text ends.

    ``temperature`` 0 is greedy. Filters apply in the order temperature, top-k, top-p, min-p; ``top_k`` 0, ``top_p`` 1
    and ``min_p`` 0 are off. ``seed`` None draws one. ``stop_token_ids`` join the model's own end ids; ``ignore_eos``
    removes them all, the given ones included. Before ``min_tokens`` neither end ids nor stop strings end the text.
    ``presence_penalty`` and ``frequency_penalty`` look at the text, ``repetition_penalty`` (1 is off) at the prompt
    too; ``logit_bias`` is added by token id. ``logprobs`` asks for the log-probability of every token under the target,
    before any of this, and of so many likeliest ones beside it. Raises ValueError for a value out of range or of
    another type.
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    seed: int | None = None
    stop: tuple[str, ...] = ()
    stop_token_ids: tuple[int, ...] = ()
    ignore_eos: bool = False
    include_stop_str_in_output: bool = False
    min_tokens: int = 0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    logit_bias: Mapping[int, float] = {}
    logprobs: int | None = None

    def __post_init__(self) -> None:
        # Types too: in the middle of decoding a value of another type would bring the Decoder down, for everybody.
        _require(
            _is(self.temperature, int, float) and 0.0 <= self.temperature < float("inf"),
            "temperature", self.temperature, "a finite number >= 0",
        )  # fmt: skip
        _require(_is(self.top_k, int) and self.top_k >= 0, "top_k", self.top_k, "an integer >= 0 (0 is off)")
        _require(_is(self.top_p, int, float) and 0.0 < self.top_p <= 1.0, "top_p", self.top_p, "a number in (0, 1]")
        _require(_is(self.min_p, int, float) and 0.0 <= self.min_p <= 1.0, "min_p", self.min_p, "a number in [0, 1]")
        _require(
            self.seed is None or (_is(self.seed, int) and 0 <= self.seed < 2**63),
            "seed", self.seed, "an integer in [0, 2**63)",
        )  # fmt: skip
        _require(
            _are(self.stop, str) and all(each and _is_unicode(each) for each in self.stop),
            "stop", self.stop, "a tuple of non-empty strings of valid Unicode",
        )  # fmt: skip
        _require(_are(self.stop_token_ids, int), "stop_token_ids", self.stop_token_ids, "a tuple of token ids")
        _require(_is(self.min_tokens, int) and self.min_tokens >= 0, "min_tokens", self.min_tokens, "an integer >= 0")
        for name in ("presence_penalty", "frequency_penalty"):
            penalty = getattr(self, name)
            _require(_is(penalty, int, float) and abs(penalty) <= 100.0, name, penalty, "a number in [-100, 100]")
        _require(
            _is(self.repetition_penalty, int, float) and 0.01 <= self.repetition_penalty <= 100.0,
            "repetition_penalty", self.repetition_penalty, "a number in [0.01, 100] (1 is off)",
        )  # fmt: skip
        _require(
            isinstance(self.logit_bias, Mapping)
            and all(_is(each, int) for each in self.logit_bias)
            and all(_is(bias, int, float) and abs(bias) <= 1000.0 for bias in self.logit_bias.values()),
            "logit_bias", self.logit_bias, "a mapping from token ids to numbers in [-1000, 1000]",
        )  # fmt: skip
        _require(
            self.logprobs is None or (_is(self.logprobs, int) and 0 <= self.logprobs <= MAX_LOGPROBS),
            "logprobs", self.logprobs, f"an integer in [0, {MAX_LOGPROBS}]",
        )  # fmt: skip

    @property
    def greedy(self) -> bool:
        return self.temperature == 0.0


class GenerationRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Describe one generation completely: token ids in, everything resolved (seed drawn, defaults filled in)."""

    request_id: str
    prompt_ids: tuple[int, ...]
    max_new_tokens: int
    sampling: SamplingParams
    seed: int
    policy: str
    stop_rule: str
    accept: str
    lossless: bool  # what ``accept`` promises
    plan: Plan | None = None  # for policies that follow one
    thresholds: Literal["fixed", "sync", "async"] = "fixed"  # whether rules learn, and whether decoding waits for it


def _is(value: object, *kinds: type) -> bool:
    return isinstance(value, kinds) and not isinstance(value, bool)


def _are(values: object, kind: type) -> bool:
    return isinstance(values, tuple | list) and all(_is(value, kind) for value in values)


def _is_unicode(text: str) -> bool:
    """Tell whether a text is free of lone surrogates: no token has one, and no record of it could be written."""
    return not any("\ud800" <= character <= "\udfff" for character in text)


def _require(holds: bool, name: str, value: object, expected: str) -> None:
    if not holds:
        raise ValueError(f"{name} is {value!r}; it must be {expected}")
