"""One pass over a log, or several: every record goes into the books it concerns."""

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from memspec_actors.protocols import events
from memspec_actors.protocols.events import Event
from memspec_actors.protocols.results import DraftFigures
from memspec_actors.speculation.statistics import SpeculationCounters
from memspec_actors.telemetry.reader import EventReader, UnknownEvent
from memspec_actors.telemetry.summary.figures import (
    DraftSummary,
    Prefetch,
    RequestSummary,
    Spread,
    Summary,
    TimeSpent,
)
from memspec_actors.telemetry.summary.merge import merged_figures, merged_metrics, merged_share
from memspec_actors.telemetry.summary.request_book import DomainBook, RequestBook, add_iteration
from memspec_actors.telemetry.summary.residency_book import DraftBook, ResidencyBook

__all__ = ["Summarizer", "summarize"]


class Summarizer:
    """Take records as they come; `summary` may be asked for at any time.

    Requests are decoded in the order in which they came, so a load or an eviction belongs to the oldest open one.
    """

    def __init__(self) -> None:
        self._num_runs = self._num_records = self._num_unknown = 0
        self._is_fresh = True
        self._open: dict[str, RequestBook] = {}
        self._requests: list[RequestSummary] = []
        self._residency = ResidencyBook()
        self._by_draft: dict[str, SpeculationCounters] = {}
        self._domains: dict[str, DomainBook] = {}
        self._ranking_cpu_us: dict[tuple[str | None, int | None], float] = {}
        self._predict_ms: list[float] = []
        self._crashes: Counter[str] = Counter()
        self._restarts: Counter[str] = Counter()
        self._mailbox_peaks: Counter[str] = Counter()

    def begin(self) -> None:
        """Begin another log or run: what was open stays open for ever."""
        self._is_fresh = True
        self._requests += [book.summary(None) for book in self._open.values()]
        self._open.clear()
        self._ranking_cpu_us.clear()
        self._residency.begin()

    def see(self, event: Event | UnknownEvent) -> None:
        """Take the next record."""
        if isinstance(event, events.SystemStarted) and not self._is_fresh:
            self.begin()
        self._num_runs += self._is_fresh
        self._is_fresh = False
        self._num_records += 1
        if isinstance(event, UnknownEvent):
            self._num_unknown += 1
            return
        self._residency.see(event)
        match event:
            case events.Iteration():
                self._iterate(event)
            case events.PredictionMade(predict_us=predict_us, cpu_us=cpu_us):
                self._predict_ms.append(predict_us / 1e3)
                self._ranking_cpu_us[event.request_id, event.interval] = cpu_us
            case events.RankingApplied(actor="decoder", request_id=str(request_id)) if request_id in self._open:
                self._open[request_id].predictions += 1
                self._open[request_id].ranking_cpu_us += self._ranking_cpu_us.pop((request_id, event.interval), 0.0)
            case events.RequestAccepted(request_id=str(request_id)):
                self._open[request_id] = RequestBook(event, len(self._open))
            case events.RequestFinished(request_id=str(request_id)) if request_id in self._open:
                self._requests.append(self._open.pop(request_id).summary(event))
            case events.ActorCrashed(actor=actor):
                self._crashes[actor] += 1
            case events.ActorRestarted(actor=actor):
                self._restarts[actor] += 1
            case events.SystemStopped(mailbox_peaks=peaks):
                self._mailbox_peaks |= Counter(peaks)  # the larger of both, actor by actor
            case _:
                self._attribute(event)

    def summary(self, *, skipped: int = 0) -> Summary:
        """Sum up what was seen; ``skipped`` lines were no records."""
        requests = [*self._requests, *(book.summary(None) for book in self._open.values())]
        decode_s = sum(each.decode_s for each in requests)
        decoded = sum(each.tokens_per_second * each.decode_s for each in requests)
        residency = self._residency
        loads_ms = [ms for book in residency.drafts.values() for ms in book.load_ms]
        return Summary(
            runs=self._num_runs,
            policies=tuple(sorted({each.policy for each in requests if each.policy})),
            requests=len(requests),
            finish_reasons=dict(Counter(each.finish_reason or "open" for each in requests)),
            prompt_tokens=sum(each.prompt_tokens for each in requests),
            tokens=sum(each.tokens for each in requests),
            tokens_per_second=decoded / decode_s if decode_s else 0.0,
            time_to_first_token_s=Spread.of([each.time_to_first_token_s for each in requests]),
            queue_s=Spread.of([each.queue_s for each in requests]),
            queue_depth=Spread.of([each.queue_depth for each in requests]),
            decode_s=decode_s,
            speculative_decoding=merged_metrics([each.speculative_decoding for each in requests]),
            share=merged_share(requests),
            time=sum((each.time for each in requests), TimeSpent()),
            drafts=self._draft_summaries(requests),
            domains={name: self._domains[name].summary() for name in sorted(self._domains)},
            switches=sum(each.switches for each in requests),
            loads=len(loads_ms),
            failed_loads=residency.total("failed"),
            cancelled_loads=residency.total("cancelled"),
            load_ms=Spread.of(loads_ms),
            evictions=residency.total("evictions"),
            eviction_reasons=dict(residency.eviction_reasons),
            prefetch=Prefetch(useful=residency.total("useful"), wasted=residency.total("wasted")),
            predictions=sum(each.predictions for each in requests),
            predict_ms=Spread.of(self._predict_ms),
            largest_gap_ms=max((each.largest_gap_ms for each in requests), default=0.0),
            crashes=dict(self._crashes),
            restarts=dict(self._restarts),
            mailbox_peaks=dict(self._mailbox_peaks),
            records=self._num_records,
            skipped=skipped,
            unknown=self._num_unknown,
            by_request=tuple(requests),
        )

    def _iterate(self, event: events.Iteration) -> None:
        book = self._open.get(event.request_id or "")
        if book is not None:
            book.iterate(event)
        if event.draft is not None:
            add_iteration(self._by_draft.setdefault(event.draft.name, SpeculationCounters()), event)
        if event.desired is not None:
            self._domains.setdefault(event.desired, DomainBook()).iterate(event)

    def _attribute(self, event: Event) -> None:
        book = next(iter(self._open.values()), None)
        if book is not None:
            book.loads += isinstance(event, events.DraftLoadFinished)
            book.evictions += isinstance(event, events.DraftEvicted)

    def _draft_summaries(self, requests: Sequence[RequestSummary]) -> dict[str, DraftSummary]:
        figures: dict[str, DraftFigures] = {}
        for request in requests:
            for name, more in request.drafts.items():
                figures[name] = merged_figures(figures.get(name, DraftFigures()), more)
        names = sorted({*figures, *self._residency.drafts})
        return {name: self._draft_summary(name, figures.get(name, DraftFigures())) for name in names}

    def _draft_summary(self, name: str, figures: DraftFigures) -> DraftSummary:
        book = self._residency.drafts.get(name, DraftBook())
        metrics = self._by_draft.get(name, SpeculationCounters()).metrics()
        return DraftSummary(
            iterations=figures.iterations,
            drafted=figures.drafted,
            accepted=figures.accepted,
            tokens=figures.tokens,
            mean_acceptance_length=1.0 + figures.accepted / figures.iterations if figures.iterations else 0.0,
            draft_acceptance_rate=figures.accepted / figures.drafted if figures.drafted else 0.0,
            acceptance_histogram=metrics.acceptance_histogram,
            loads=len(book.load_ms),
            failed_loads=book.failed,
            cancelled_loads=book.cancelled,
            evictions=book.evictions,
            useful=book.useful,
            wasted=book.wasted,
            load_ms=Spread.of(book.load_ms),
        )


def summarize(*logs: str | Path | Iterable[Event | UnknownEvent]) -> Summary:
    """Sum up logs, or any records, as one. Raises UsageError for a file that cannot be read."""
    summarizer = Summarizer()
    skipped = 0
    for log in logs:
        source = EventReader(log) if isinstance(log, str | Path) else log
        summarizer.begin()
        for event in source:
            summarizer.see(event)
        skipped += source.skipped if isinstance(source, EventReader) else 0
    return summarizer.summary(skipped=skipped)
