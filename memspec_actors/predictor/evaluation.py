"""Judge a predictor on traces that it was not trained on."""

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, median
from time import perf_counter_ns
from typing import Any

import torch

from memspec_actors.errors import TraceError
from memspec_actors.models.text.tokenizer import Tokenizer
from memspec_actors.predictor.examples import Point, context_of, encode_all, prompt_hash, scheduling_points
from memspec_actors.predictor.head import INPUTS, InputKind, ranked
from memspec_actors.predictor.other_weights import note_untrained_weights
from memspec_actors.predictor.ranker import ContextReader, PredictorRanker, open_artefact
from memspec_actors.predictor.traces import TraceReader
from memspec_actors.predictor.utility import UtilityParams
from memspec_actors.progress import Progress
from memspec_actors.scheduling.rankers import RankingContext

__all__ = ["evaluate"]

MIXED = "mixed"
TIMED_CONTEXTS = 200
OTHER_THINGS = 2**24  # floats that a core reads between two rankings: 64 MiB are more than its caches hold
WARM_UP = 20


def evaluate(
    traces: str | Path,
    artefact: str | Path,
    *,
    params: UtilityParams | None = None,
    tokenizer: Tokenizer | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Rank at every scheduling point of a trace and compare with the drafts of highest utility.

    ``top1`` is the share of points whose first-ranked draft is one of the best, ``top2`` that of points with one of
    them among the first two. ``by_input`` repeats them for predictors that see only the prompt or only the recent
    tokens, ``mixed`` and ``single`` for prompts of several domains and of one. ``utility_share1`` is the utility of
    the first-ranked draft over that of the best one, ``utility_share2`` that of the better of the first two,
    ``latency_us`` the median time of one ranking on a core whose caches hold other things, as decoding leaves it,
    ``share_of_interval`` that over the time of an interval as the trace measured it (None if it did not). Raises
    TraceError if the predictor was trained on one of the prompts; logs a warning if it was trained for other
    weights.
    """
    params = params or UtilityParams()
    encoder, file, heads, own = open_artefact(artefact)
    reader, trace = ContextReader(file.layout, tokenizer, own), TraceReader(traces)
    if tuple(trace.header.drafts) != file.drafts:
        raise TraceError(
            f"{traces}, line 1: traces {list(trace.header.drafts)}; the predictor ranks {list(file.drafts)}"
        )
    note_untrained_weights(trace.header, file, Path(artefact))
    points = _points(trace, frozenset(file.trained_on), params)
    orders: dict[InputKind, list[list[int]]] = {}
    for number, kind in enumerate(INPUTS, 1):
        states = encode_all(encoder, [context_of(point, kind, reader) for point in points])
        with torch.inference_mode():
            probabilities = heads[kind](states).softmax(-1).tolist()
        orders[kind] = [ranked(*both)[0] for both in probabilities]
        if progress:
            progress("evaluate", number, len(INPUTS))
    latency_us = _latency_us(PredictorRanker.open(artefact, file.drafts, tokenizer), points)
    interval_us = (trace.header.iteration_us or 0.0) * params.interval
    everything = range(len(points))
    mixed = [index for index in everything if points[index].kind == MIXED]
    single = [index for index in everything if points[index].kind != MIXED]
    return {
        **_figures(points, orders, everything),
        "mixed": _figures(points, orders, mixed) if mixed else None,
        "single": _figures(points, orders, single) if single else None,
        "num_points": len(points),
        "latency_us": latency_us,
        "share_of_interval": latency_us / interval_us if interval_us else None,
    }


def _points(trace: TraceReader, trained_on: frozenset[str], params: UtilityParams) -> list[Point]:
    points: list[Point] = []
    for number, record in enumerate(trace, 2):
        if prompt_hash(record.prompt_ids) in trained_on:
            raise TraceError(
                f"{trace.path}, line {number}: the predictor was trained on this prompt; use other prompts"
            )
        points += scheduling_points(record, params)
    if not points:
        raise TraceError(f"{trace.path}: holds no scheduling points to judge by; collect longer texts")
    return points


def _figures(points: Sequence[Point], orders: dict[InputKind, list[list[int]]], rows: Sequence[int]) -> dict[str, Any]:
    by_input = {kind: _recall(points, order, rows) for kind, order in orders.items()}
    order = orders["prompt+recent"]
    shares = {f"utility_share{k}": fmean(_share(points[row], order[row][:k]) for row in rows) for k in (1, 2)}
    return {**by_input["prompt+recent"], "by_input": by_input, **shares}


def _share(point: Point, chosen: Sequence[int]) -> float:
    return max(point.value[draft] for draft in chosen) / max(max(point.value), 1e-9)


def _recall(points: Sequence[Point], order: list[list[int]], rows: Sequence[int]) -> dict[str, float]:
    return {f"top{k}": fmean(not points[row].labels.isdisjoint(order[row][:k]) for row in rows) for k in (1, 2)}


def _latency_us(ranker: PredictorRanker, points: Sequence[Point]) -> float:
    """Time single rankings at points spread over the trace."""
    step = max(1, len(points) // TIMED_CONTEXTS)
    contexts = [
        RankingContext(prompt_ids=point.prompt_ids, recent_ids=point.recent_ids, interval=1 if point.recent_ids else 0)
        for point in points[::step][:TIMED_CONTEXTS]
    ]
    for context in contexts[:WARM_UP]:
        ranker.rank(context)
    other_things = torch.ones(OTHER_THINGS)
    times: list[float] = []
    for context in contexts:
        other_things.sum()
        began = perf_counter_ns()
        ranker.rank(context)
        times.append((perf_counter_ns() - began) / 1e3)
    return median(times)
