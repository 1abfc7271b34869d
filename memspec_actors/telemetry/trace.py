"""Write a story in Chrome's trace-event format, which Perfetto opens: tracks, slices, and arrows between them."""

from bisect import bisect
from collections.abc import Iterator
from typing import Any, NamedTuple

from memspec_actors.telemetry.story import Story

__all__ = ["chrome_trace"]

ACTORS = ("engine", "decoder", "predictor", "cache_manager", "loader", "verifier_stats")
ACTORS_PID, DRAFTS_PID, REQUESTS_PID = 1, 2, 3
_DECODER, _PREDICTOR, _LOADER = ((ACTORS_PID, ACTORS.index(name)) for name in ("decoder", "predictor", "loader"))
MOMENT_US = 1.0  # an arrow needs a slice to begin or end at, so a moment is a short one

Row = dict[str, Any]


def chrome_trace(story: Story) -> dict[str, Any]:
    """Return the trace: a track per actor, per draft and per request, and an arrow for every message that matters.

    A chain of arrows runs from the iteration before a scheduling point to the prediction, to the loads that it began,
    to the announcements of what they loaded, and to the activations of that. Times are microseconds.
    """
    rows = [*_names(story), *_decoder(story), *_predictor(story), *_loader(story)]
    rows += [*_moments(story), *_drafts(story), *_requests(story)]
    return {"displayTimeUnit": "ms", "traceEvents": [*rows, *_arrows(story)]}


def _us(seconds: float) -> float:
    return round(seconds * 1e6, 3)


def _draft_tids(story: Story) -> dict[str, int]:
    return {name: tid for tid, name in enumerate(story.draft_names)}


def _slice(pid: int, tid: int, name: str, start: float, end: float, args: Row) -> Row:
    duration = max(_us(end) - _us(start), MOMENT_US)
    return {"ph": "X", "pid": pid, "tid": tid, "name": name, "ts": _us(start), "dur": duration, "args": args}


def _names(story: Story) -> Iterator[Row]:
    named = {ACTORS_PID: ACTORS, DRAFTS_PID: story.draft_names, REQUESTS_PID: [each.id for each in story.requests]}
    for pid, title in ((ACTORS_PID, "actors"), (DRAFTS_PID, "drafts"), (REQUESTS_PID, "requests")):
        yield {"ph": "M", "pid": pid, "name": "process_name", "args": {"name": title}}
        yield {"ph": "M", "pid": pid, "name": "process_sort_index", "args": {"sort_index": pid}}
        for tid, name in enumerate(named[pid]):
            yield {"ph": "M", "pid": pid, "tid": tid, "name": "thread_name", "args": {"name": name}}
            yield {"ph": "M", "pid": pid, "tid": tid, "name": "thread_sort_index", "args": {"sort_index": tid}}


def _decoder(story: Story) -> Iterator[Row]:
    for ran in story.iterations:
        told = ("request", "iteration", "desired", "share", "drafted", "accepted", "emitted", "waited_us")
        args = {name: getattr(ran, name) for name in told}
        yield _slice(*_DECODER, ran.draft or "target", ran.start, ran.end, args)


def _predictor(story: Story) -> Iterator[Row]:
    for ranked in story.predictions:
        args = {"request": ranked.request, **dict(zip(ranked.order, ranked.scores, strict=False))}
        yield _slice(*_PREDICTOR, f"rank {ranked.interval}", ranked.start, ranked.end, args)


def _loader(story: Story) -> Iterator[Row]:
    free_at = 0.0  # it reads one draft after the other
    for span in story.drafts:
        if span.state == "loading":
            yield _slice(*_LOADER, span.draft, max(span.start, free_at), span.end, {"note": span.note})
            free_at = max(free_at, span.end)


def _moments(story: Story) -> Iterator[Row]:
    for moment in story.moments:
        tid = ACTORS.index(moment.actor) if moment.actor in ACTORS else 0
        yield _slice(ACTORS_PID, tid, moment.kind, moment.at, moment.at, {"text": moment.text})


def _drafts(story: Story) -> Iterator[Row]:
    tids = _draft_tids(story)
    for span in story.drafts:
        args = {"generation": span.generation, "note": span.note}
        yield _slice(DRAFTS_PID, tids[span.draft], span.state, span.start, span.end, args)


def _requests(story: Story) -> Iterator[Row]:
    for tid, served in enumerate(story.requests):
        args = {"policy": served.policy, "tokens": served.tokens}
        yield _slice(REQUESTS_PID, tid, served.reason, served.start, served.end, args)


class _Place(NamedTuple):
    """A point on a track, within a slice."""

    pid: int
    tid: int
    at: float


def _arrows(story: Story) -> Iterator[Row]:
    links = (*_rankings_asked_for(story), *_loads_begun(story), *_drafts_used(story))
    for number, (name, origin, goal) in enumerate(links, start=1):
        yield _end("s", number, name, origin)
        yield {**_end("f", number, name, goal), "bp": "e"}


def _end(phase: str, number: int, name: str, place: _Place) -> Row:
    pid, tid, at = place
    return {"ph": phase, "id": number, "cat": "message", "name": name, "pid": pid, "tid": tid, "ts": _us(at)}


_Link = tuple[str, _Place, _Place]


def _rankings_asked_for(story: Story) -> Iterator[_Link]:
    """From the iteration that a scheduling point followed to its prediction."""
    starts = [ran.start for ran in story.iterations]
    for ranked in story.predictions:
        index = bisect(starts, ranked.start) - 1
        if index >= 0 and story.iterations[index].request == ranked.request:
            yield "scheduling point", _Place(*_DECODER, starts[index]), _Place(*_PREDICTOR, ranked.start)


def _loads_begun(story: Story) -> Iterator[_Link]:
    """From a prediction to the loads that it began."""
    tids = _draft_tids(story)
    predictions = sorted(story.predictions, key=lambda ranked: ranked.end)
    ends = [ranked.end for ranked in predictions]
    for span in story.drafts:
        index = bisect(ends, span.start) - 1
        if span.state == "loading" and index >= 0:
            yield (
                "ranking",
                _Place(*_PREDICTOR, predictions[index].start),
                _Place(DRAFTS_PID, tids[span.draft], span.start),
            )


def _drafts_used(story: Story) -> Iterator[_Link]:
    """From a load to the announcement of its draft, and from there to every activation."""
    tids = _draft_tids(story)
    begun = {(span.draft, span.generation): span.start for span in story.drafts if span.state == "loading"}
    announced: dict[str, list[float]] = {}
    for span in story.drafts:
        loaded = begun.pop((span.draft, span.generation), None) if span.state == "resident" else None
        if span.state == "resident":
            announced.setdefault(span.draft, []).append(span.start)
        if loaded is not None:
            yield "load", _Place(DRAFTS_PID, tids[span.draft], loaded), _Place(DRAFTS_PID, tids[span.draft], span.start)
    for moment in story.moments:
        index = bisect(announced.get(moment.draft or "", []), moment.at) - 1
        if moment.draft is not None and index >= 0:
            origin = _Place(DRAFTS_PID, tids[moment.draft], announced[moment.draft][index])
            yield "announcement", origin, _Place(*_DECODER, moment.at)
