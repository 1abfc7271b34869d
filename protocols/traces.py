"""Trace and plan files: one header line, then one line per prompt; JSON, so that other tools can read them.

A trace holds what greedy speculative decoding needs to be replayed exactly: the target's own text and, for every draft
and every position of that text, how many tokens a draft started there would have accepted. With free runs it holds,
too, what stop rules go by: how sure a draft is of the tokens that it would draft, those after its mistakes included. A
plan says, for prompts that were traced, how an oracle ranks the drafts along the text.
"""

import struct
from collections.abc import Mapping, Sequence

import msgspec

__all__ = [
    "PLAN_FORMAT",
    "TRACE_FORMAT",
    "DomainStart",
    "FreeRun",
    "Plan",
    "PlanHeader",
    "PlanStep",
    "TraceHeader",
    "TraceRecord",
]

TRACE_FORMAT = "memspec-trace-4"
PLAN_FORMAT = "memspec-plan-1"
_FLOAT_BYTES = 4


class TraceHeader(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Say what a trace was made with.

    ``target`` and ``drafts`` are SHA-256 of the weights (``drafts`` by name, in the order of every record),
    ``draft_nbytes`` what a load of each draft reads, ``k`` the draft length at which runs are cut, and ``iteration_us``
    what one draft-and-verify iteration took on the machine that made the trace (None if it was not measured).
    """

    format: str
    target: str
    drafts: dict[str, str]
    draft_nbytes: dict[str, int]
    k: int
    max_new_tokens: int
    vocab_size: int
    eos_ids: tuple[int, ...]
    iteration_us: float | None
    versions: dict[str, str]


class FreeRun(msgspec.Struct, frozen=True, forbid_unknown_fields=True, array_like=True):
    """Tell how sure a draft is of every token that it drafts from position ``start`` of a text on, never stopped.

    ``confidences`` holds the tokens' probabilities, ``entropies`` those of their distributions in nats: both float32,
    little-endian (base64 in JSON), and as exact as they were computed.
    """

    start: int
    confidences: bytes
    entropies: bytes

    @classmethod
    def of(cls, start: int, confidences: Sequence[float], entropies: Sequence[float]) -> "FreeRun":
        """Make a free run of numbers."""
        return cls(start, _packed(confidences), _packed(entropies))

    @property
    def num_tokens(self) -> int:
        """Count the tokens that have a confidence."""
        return len(self.confidences) // _FLOAT_BYTES

    @property
    def is_whole(self) -> bool:
        """Tell whether there are a confidence and an entropy for every token."""
        return len(self.confidences) == len(self.entropies) == _FLOAT_BYTES * self.num_tokens

    def confidences_from(self, first: int, num: int) -> Sequence[float]:
        """Return the confidences of up to ``num`` tokens, from the run's token number ``first`` on (0 is its first)."""
        return _unpacked(self.confidences, first, num)

    def entropies_from(self, first: int, num: int) -> Sequence[float]:
        """Return the entropies of the same tokens."""
        return _unpacked(self.entropies, first, num)

    def shortened(self, num_tokens: int) -> "FreeRun":
        """Return the run's first ``num_tokens`` tokens, or all that it has."""
        end = _FLOAT_BYTES * num_tokens
        return FreeRun(self.start, self.confidences[:end], self.entropies[:end])


class DomainStart(msgspec.Struct, frozen=True, forbid_unknown_fields=True, array_like=True):
    """Say that a text is in a ``domain`` from ``position`` on, until another begins."""

    position: int
    domain: str


class TraceRecord(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Trace one prompt.

    ``accepted[d][t]`` is the number of consecutive positions t, t+1, ... of ``output_ids`` at which draft ``d``, having
    read the true text before, predicts the true token, cut at ``k`` and at the end of the text. ``entropies[d][t]`` is
    the entropy in nats of the distribution that it predicts the token at t with, in steps of 0.001, or None where it
    predicts nothing: its context is over, or it met an id that it does not know. ``kind`` labels the prompt (a domain,
    "mixed", or "" if unknown), ``domains`` those that the text goes through, the first from position 0 on (none if they
    are unknown); ``near_ties`` counts positions whose two best target logits lie within 1e-3.

    ``free_runs[d]``, if they were collected, are those of draft ``d`` from position 0 and from behind every token that
    it gets wrong, in this order. Each goes on for 39 tokens after its first mistake, or as far as the text or the
    draft's context could reach. Up to that mistake a draft reads the text itself, and what it says afterwards does not
    depend on where it began: so they tell what a draft begun anywhere would say, up to the longest that a rule wants.
    """

    prompt_ids: tuple[int, ...]
    output_ids: tuple[int, ...]
    accepted: Mapping[str, tuple[int, ...]]
    entropies: Mapping[str, tuple[float | None, ...]]
    kind: str = ""
    domains: tuple[DomainStart, ...] = ()
    near_ties: int = 0
    free_runs: Mapping[str, tuple[FreeRun, ...]] | None = None


class PlanHeader(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Say what plans were made for: the oracle (``policy``), the weights as in a trace, N, K and the draft length."""

    format: str
    policy: str
    target: str
    drafts: dict[str, str]
    interval: int
    capacity: int
    k: int


class PlanStep(msgspec.Struct, frozen=True, forbid_unknown_fields=True, array_like=True):
    """Rank drafts in ``order``, best first, from ``position`` generated tokens on."""

    position: int
    order: tuple[str, ...]


class Plan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Plan the drafts for one prompt, known by its ids: steps of growing position, the first at 0.

    A scheduling point after ``n`` generated tokens follows the step whose position is nearest to ``n``, so that a plan
    holds even where things go a little otherwise than planned.
    """

    prompt_ids: tuple[int, ...]
    steps: tuple[PlanStep, ...]


def _packed(numbers: Sequence[float]) -> bytes:
    return struct.pack(f"<{len(numbers)}f", *numbers)


def _unpacked(packed: bytes, first: int, num: int) -> Sequence[float]:
    part = packed[_FLOAT_BYTES * first : _FLOAT_BYTES * (first + num)]
    return struct.unpack(f"<{len(part) // _FLOAT_BYTES}f", part)
