"""Measure a set of embedded models: the target's quality, every draft's acceptance, the worth of choosing."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec
import torch
from tokenizers import Tokenizer

from memspec_actors.zoo.network import Memory, Network
from memspec_actors.zoo.quality import measure_quality
from memspec_actors.zoo.traces import (
    MIXED,
    Chooser,
    Trace,
    always,
    best_dynamic,
    best_static,
    collect_traces,
    decode,
    evaluation_requests,
)
from memspec_actors.zoo.world import DOMAINS

GENERAL, STRICT = "general", "general-strict"
KINDS = (*DOMAINS, MIXED)
GROUPS: Mapping[str, tuple[str, ...]] = {"single": DOMAINS, "mixed": (MIXED,), "all": KINDS}


class Gain(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens per iteration of three policies; the same `general` is static and among the drafts to choose from."""

    general_static: float
    oracle_static: float
    oracle_dynamic: float


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What `evaluate` measured.

    `acceptance[kind][draft]` counts accepted tokens per iteration of five drafted; `gains[general][group]` is given
    with the base as the general draft and, if it is there, with the strict one. `quality` are shares of held-out items.
    """

    num_requests: int
    quality: Mapping[str, float]
    acceptance: Mapping[str, Mapping[str, float]]
    gains: Mapping[str, Mapping[str, Gain]]
    cost_ratio: float


def evaluate(
    target: Network, drafts: Mapping[str, Network], tokenizer: Tokenizer, *, num_single: int = 24, num_mixed: int = 120
) -> Report:
    """Measure `target` and `drafts` on held-out requests (deterministic but for `cost_ratio`)."""
    traces = collect_traces(target, drafts, tokenizer, evaluation_requests(num_single, num_mixed))
    return Report(
        num_requests=len(traces),
        quality=measure_quality([(trace.request, trace.output) for trace in traces], tokenizer),
        acceptance={kind: _acceptance(_of_kinds(traces, (kind,)), list(drafts)) for kind in KINDS},
        gains={name: _gains(traces, name, drafts) for name in (GENERAL, STRICT) if name in drafts},
        cost_ratio=cost_ratio(target, drafts[GENERAL]),
    )


def _of_kinds(traces: Iterable[Trace], kinds: Sequence[str]) -> list[Trace]:
    return [trace for trace in traces if trace.kind in kinds]


def _acceptance(traces: Sequence[Trace], drafts: Sequence[str]) -> dict[str, float]:
    shares = {}
    for draft in drafts:
        runs = [decode(trace, always(draft)) for trace in traces]
        shares[draft] = sum(run.accepted for run in runs) / max(1, sum(run.iterations for run in runs))
    return shares


def _gains(traces: Sequence[Trace], general: str, drafts: Iterable[str]) -> dict[str, Gain]:
    names = [name for name in drafts if name == general or name not in (GENERAL, STRICT)]
    dynamic = best_dynamic(names)
    return {
        group: Gain(
            general_static=_tokens_per_iteration(_of_kinds(traces, kinds), lambda trace: always(general)),
            oracle_static=_tokens_per_iteration(_of_kinds(traces, kinds), lambda trace: best_static(trace, names)),
            oracle_dynamic=_tokens_per_iteration(_of_kinds(traces, kinds), lambda trace: dynamic),
        )
        for group, kinds in GROUPS.items()
    }


def _tokens_per_iteration(traces: Sequence[Trace], policy: Callable[[Trace], Chooser]) -> float:
    runs = [decode(trace, policy(trace)) for trace in traces]
    return sum(run.tokens for run in runs) / max(1, sum(run.iterations for run in runs))


def cost_ratio(target: Network, draft: Network, *, context: int = 150, repeats: int = 30) -> float:
    """Give the draft's time for one token over the target's: float32, one thread, after `context` tokens."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return _token_seconds(draft, context, repeats) / _token_seconds(target, context, repeats)
    finally:
        torch.set_num_threads(threads)


@torch.inference_mode()
def _token_seconds(network: Network, context: int, repeats: int) -> float:
    memories = [Memory() for _ in network.layers()]
    network.extend(torch.zeros(1, context, dtype=torch.long), torch.ones(1, context, dtype=torch.bool), memories)
    times = []
    for i in range(repeats):
        mask = torch.ones(1, context + i + 1, dtype=torch.bool)
        began = time.perf_counter()
        network.extend(torch.zeros(1, 1, dtype=torch.long), mask, memories)
        times.append(time.perf_counter() - began)
    return statistics.median(times)
