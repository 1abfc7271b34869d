"""Measure a set of embedded models: the target's quality, every draft's acceptance, the worth of choosing."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
import torch
from tokenizers import Tokenizer

from memspec_actors.predictor.collect import open_tracer
from memspec_actors.protocols.traces import TraceRecord
from memspec_actors.zoo.build import GENERAL, STRICT
from memspec_actors.zoo.checkpoint import import_network
from memspec_actors.zoo.network import Memory, Network
from memspec_actors.zoo.quality import measure_quality
from memspec_actors.zoo.tokenizer import BOS
from memspec_actors.zoo.world import DOMAINS, Request, sample_request

__all__ = [
    "Gain",
    "Report",
    "Run",
    "always",
    "best_dynamic",
    "best_static",
    "decode",
    "evaluate",
    "evaluation_requests",
    "trace_requests",
]

MIXED = "mixed"
KINDS = (*DOMAINS, MIXED)
GROUPS: Mapping[str, tuple[str, ...]] = {"single": DOMAINS, "mixed": (MIXED,), "all": KINDS}
DRAFT_LENGTH, INTERVAL, MAX_NEW_TOKENS = 5, 4, 420
CONTEXT, REPEATS = 150, 30  # tokens before those whose time is taken, and how many those are
SEED = "eval:requests"

Chooser = Callable[[TraceRecord, int], str]  # names the draft at a scheduling point: at this position


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


class Run(NamedTuple):
    """The outcome of decoding one trace; ``tokens`` counts what the iterations emitted (not the prefill's token)."""

    iterations: int
    accepted: int
    tokens: int


def evaluate(weights: Path, drafts: Sequence[str], *, num_single: int = 24, num_mixed: int = 120) -> Report:
    """Measure `weights/target` and the `drafts` beside it on held-out requests (deterministic but for `cost_ratio`)."""
    requests = evaluation_requests(num_single, num_mixed)
    traces = trace_requests(weights, drafts, requests)
    tokenizer = Tokenizer.from_file(str(weights / "target" / "tokenizer.json"))
    answers = [(request, trace.output_ids) for (_, request), trace in zip(requests, traces, strict=True)]
    return Report(
        num_requests=len(traces),
        quality=measure_quality(answers, tokenizer),
        acceptance={kind: _acceptance(_of_kinds(traces, (kind,)), drafts) for kind in KINDS},
        gains={name: _gains(traces, name, drafts) for name in (GENERAL, STRICT) if name in drafts},
        cost_ratio=_cost_ratio(import_network(weights / "target"), import_network(weights / GENERAL)),
    )


def evaluation_requests(num_single: int, num_mixed: int) -> list[tuple[str, Request]]:
    """Write held-out requests: `num_single` a domain, of one to four items, and `num_mixed` of two to four domains."""
    rng = random.Random(SEED)
    requests = [
        (domain, sample_request(rng, (domain,) * (1 + i % 4), "eval")) for domain in DOMAINS for i in range(num_single)
    ]
    for i in range(num_mixed):
        phases = [rng.choice(DOMAINS)]
        while len(phases) < 2 + i % 3:
            phases.append(rng.choice([domain for domain in DOMAINS if domain != phases[-1]]))
        requests.append((MIXED, sample_request(rng, phases, "eval")))
    return requests


def trace_requests(weights: Path, drafts: Sequence[str], requests: Sequence[tuple[str, Request]]) -> list[TraceRecord]:
    """Let the target answer every request greedily and every draft read along."""
    tracer, tokenizer = open_tracer(weights / "target", {name: weights / name for name in drafts}, DRAFT_LENGTH)
    prompts = [tokenizer.encode(BOS + request.prompt_text, add_special_tokens=False) for _, request in requests]
    return [tracer.trace(ids, MAX_NEW_TOKENS, kind)[0] for ids, (kind, _) in zip(prompts, requests, strict=True)]


def decode(trace: TraceRecord, choose: Chooser) -> Run:
    """Play speculative decoding over a trace, every draft in memory; `choose` is asked every `INTERVAL` iterations."""
    position, iterations, accepted = 1, 0, 0  # the prefill gives the first token
    draft = ""
    while position < len(trace.output_ids):
        if iterations % INTERVAL == 0:
            draft = choose(trace, position)
        accepted += trace.accepted[draft][position]
        position += trace.accepted[draft][position] + 1
        iterations += 1
    return Run(iterations=iterations, accepted=accepted, tokens=len(trace.output_ids) - 1)


def always(draft: str) -> Chooser:
    """Choose the same draft everywhere."""
    return lambda trace, position: draft


def best_static(trace: TraceRecord, drafts: Sequence[str]) -> Chooser:
    """Choose the one draft that needs the fewest iterations for this trace."""
    return always(min(drafts, key=lambda draft: decode(trace, always(draft)).iterations))


def best_dynamic(drafts: Sequence[str]) -> Chooser:
    """Choose the draft that gets furthest within the coming interval."""

    def reach(trace: TraceRecord, draft: str, position: int) -> int:
        runs = trace.accepted[draft]
        for _ in range(INTERVAL):
            position += runs[position] + 1 if position < len(runs) else 0
        return position

    return lambda trace, position: max(drafts, key=lambda draft: reach(trace, draft, position))


def _of_kinds(traces: Iterable[TraceRecord], kinds: Sequence[str]) -> list[TraceRecord]:
    return [trace for trace in traces if trace.kind in kinds]


def _acceptance(traces: Sequence[TraceRecord], drafts: Sequence[str]) -> dict[str, float]:
    shares = {}
    for draft in drafts:
        runs = [decode(trace, always(draft)) for trace in traces]
        shares[draft] = sum(run.accepted for run in runs) / max(1, sum(run.iterations for run in runs))
    return shares


def _gains(traces: Sequence[TraceRecord], general: str, drafts: Iterable[str]) -> dict[str, Gain]:
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


def _tokens_per_iteration(traces: Sequence[TraceRecord], policy: Callable[[TraceRecord], Chooser]) -> float:
    runs = [decode(trace, policy(trace)) for trace in traces]
    return sum(run.tokens for run in runs) / max(1, sum(run.iterations for run in runs))


def _cost_ratio(target: Network, draft: Network) -> float:
    """Give the draft's time for one token over the target's: float32, one thread, after `CONTEXT` tokens."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return _token_seconds(draft) / _token_seconds(target)
    finally:
        torch.set_num_threads(threads)


@torch.inference_mode()
def _token_seconds(network: Network) -> float:
    memories = [Memory() for _ in network.layers()]
    network.extend(torch.zeros(1, CONTEXT, dtype=torch.long), torch.ones(1, CONTEXT, dtype=torch.bool), memories)
    times = []
    for i in range(REPEATS):
        mask = torch.ones(1, CONTEXT + i + 1, dtype=torch.bool)
        began = time.perf_counter()
        network.extend(torch.zeros(1, 1, dtype=torch.long), mask, memories)
        times.append(time.perf_counter() - began)
    return statistics.median(times)
