"""The trace file: one header line, then one line per prompt; JSON, so that other tools can read it.

A trace holds what greedy speculative decoding needs to be replayed exactly: the target's own text and, for every draft
and every position of that text, how many tokens a draft started there would have accepted.
"""

import msgspec

__all__ = ["TRACE_FORMAT", "TraceHeader", "TraceRecord"]

TRACE_FORMAT = "memspec-trace-1"


class TraceHeader(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Say what a trace was made with.

    ``target`` and ``drafts`` are SHA-256 of the weights (``drafts`` by name, in the order of every record), ``k`` the
    draft length at which runs are cut, ``iteration_us`` what one draft-and-verify iteration took on the machine that
    made the trace (None if it was not measured).
    """

    format: str
    target: str
    drafts: dict[str, str]
    k: int
    max_new_tokens: int
    vocab_size: int
    eos_ids: tuple[int, ...]
    iteration_us: float | None
    versions: dict[str, str]


class TraceRecord(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Trace one prompt.

    ``accepted[d][t]`` is the number of consecutive positions t, t+1, ... of ``output_ids`` at which draft ``d``, having
    read the true text before, predicts the true token, cut at ``k`` and at the end of the text. ``kind`` labels the
    prompt (a domain, "mixed", or "" if unknown); ``near_ties`` counts positions whose two best target logits lie within
    1e-3.
    """

    prompt_ids: tuple[int, ...]
    output_ids: tuple[int, ...]
    accepted: dict[str, tuple[int, ...]]
    kind: str = ""
    near_ties: int = 0
