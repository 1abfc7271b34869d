"""Prometheus metrics, all drawn from the engine's events; names that vLLM has are vLLM's under ``memspec:``."""

from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from memspec_actors.protocols import events
from memspec_actors.protocols.messages import ResidentDraft

__all__ = ["Metrics"]

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
SHORT_SECONDS = (0.0001, 0.00025, 0.0005, *SECONDS[:10])


class Metrics:
    """Count and time what the events tell; ``registry`` is what is scraped.

    ``num_open`` gives the number of requests that run or wait, of which the engine runs one at a time.
    """

    def __init__(self, num_open: Callable[[], int]) -> None:
        self.registry = CollectorRegistry()
        self._requests = _RequestMetrics(self.registry, num_open)
        self._speculation = _SpeculationMetrics(self.registry)
        self._drafts = _DraftMetrics(self.registry)

    def observe(self, event: events.Event) -> None:
        """Take an event into account."""
        match event:
            case events.Iteration():
                self._requests.iteration(event)
                self._speculation.iteration(event)
            case events.RequestFinished():
                self._requests.finished(event)
            case events.PredictionMade():
                self._speculation.predictor_time.observe(event.predict_us / 1e6)
            case _:
                self._drafts.observe(event)


class _RequestMetrics:
    def __init__(self, registry: CollectorRegistry, num_open: Callable[[], int]) -> None:
        running = Gauge("memspec:num_requests_running", "Requests being decoded.", registry=registry)
        running.set_function(lambda: min(1, num_open()))
        waiting = Gauge("memspec:num_requests_waiting", "Requests in the queue.", registry=registry)
        waiting.set_function(lambda: max(0, num_open() - 1))
        self._finished = Counter(
            "memspec:requests_finished", "Requests that ended, by how.", ["reason"], registry=registry
        )
        self._prompt_tokens = Counter("memspec:prompt_tokens", "Prompt tokens encoded.", registry=registry)
        self._tokens = Counter("memspec:generation_tokens", "Tokens generated.", registry=registry)
        self._first_token = Histogram(
            "memspec:time_to_first_token_seconds",
            "From a request's arrival to its first token.",
            buckets=SECONDS,
            registry=registry,
        )
        self._inter_token = Histogram(
            "memspec:inter_token_latency_seconds",
            "Time of an iteration over the tokens that it gave.",
            buckets=SHORT_SECONDS,
            registry=registry,
        )
        self._whole = Histogram(
            "memspec:e2e_request_latency_seconds",
            "From a request's arrival to its end.",
            buckets=SECONDS,
            registry=registry,
        )

    def iteration(self, event: events.Iteration) -> None:
        if event.emitted:
            self._inter_token.observe((event.wall_us + event.gap_us) / 1e6 / event.emitted)

    def finished(self, event: events.RequestFinished) -> None:
        self._finished.labels(event.finish_reason).inc()
        if event.usage is None or event.timing is None or not event.usage.completion_tokens:
            return
        self._prompt_tokens.inc(event.usage.prompt_tokens)
        self._tokens.inc(event.usage.completion_tokens)
        self._first_token.observe(event.timing.time_to_first_token_s)
        self._whole.observe(event.timing.total_s)


class _SpeculationMetrics:
    def __init__(self, registry: CollectorRegistry) -> None:
        self._num_drafts = Counter("memspec:spec_decode_num_drafts", "Iterations that drafted.", registry=registry)
        self._drafted = Counter("memspec:spec_decode_num_draft_tokens", "Tokens drafted.", registry=registry)
        self._accepted = Counter("memspec:spec_decode_num_accepted_tokens", "Drafted tokens kept.", registry=registry)
        self._per_position = Counter(
            "memspec:spec_decode_num_accepted_tokens_per_pos",
            "Drafted tokens kept, by their position in the draft.",
            ["position"],
            registry=registry,
        )
        self._iterations = Counter(
            "memspec:iterations",
            "Iterations by what ran: the preferred draft (desired), another (fallback), or none (target_only).",
            ["share"],
            registry=registry,
        )
        for share in ("desired", "fallback", "target_only"):
            self._iterations.labels(share)
        self.predictor_time = Histogram(
            "memspec:prediction_seconds", "Time to rank the drafts.", buckets=SHORT_SECONDS, registry=registry
        )

    def iteration(self, event: events.Iteration) -> None:
        self._iterations.labels(event.share).inc()
        if event.drafted:
            self._num_drafts.inc()
            self._drafted.inc(event.drafted)
            self._accepted.inc(event.accepted)
            for position in range(event.accepted):
                self._per_position.labels(position).inc()


class _DraftMetrics:
    def __init__(self, registry: CollectorRegistry) -> None:
        self._resident = Gauge(
            "memspec:draft_resident", "1 for a draft that may be used, else 0.", ["draft"], registry=registry
        )
        self._load_time = Histogram(
            "memspec:draft_load_seconds", "Time to load a draft.", ["draft"], buckets=SECONDS, registry=registry
        )
        self._loads = Counter(
            "memspec:draft_loads", "Loads that ended, by how.", ["draft", "result"], registry=registry
        )
        self._evictions = Counter(
            "memspec:draft_evictions", "Drafts freed, by why.", ["draft", "reason"], registry=registry
        )
        self._prefetches = Counter(
            "memspec:prefetches", "Loaded drafts that were used, or freed unused.", ["result"], registry=registry
        )
        for result in ("useful", "wasted"):
            self._prefetches.labels(result)
        self._names: tuple[str, ...] = ()
        self._used: set[ResidentDraft] = set()  # loads that are in memory and have decoded
        self._revoked: dict[ResidentDraft, str] = {}  # why they are being let go

    def observe(self, event: events.Event) -> None:
        match event:
            case events.SystemStarted(drafts=drafts):
                self._names = tuple(drafts)
                self._show_resident(())
            case events.ResidencyAnnouncedEvent(resident=resident):
                self._show_resident(draft.name for draft in resident)
            case events.DraftLoadFinished(draft=draft, wall_us=wall_us):
                self._load_time.labels(draft.name).observe(wall_us / 1e6)
                self._loads.labels(draft.name, "finished").inc()
            case events.DraftLoadFailed(draft=draft):
                self._loads.labels(draft.name, "failed").inc()
            case events.DraftLoadCancelled(draft=draft):
                self._loads.labels(draft.name, "cancelled").inc()
            case events.DraftActivatedEvent(draft=ResidentDraft() as draft):
                self._activated(draft)
            case events.DraftRevoked(draft=draft, reason=reason):
                self._revoked[draft] = "asked_for" if reason == "it was asked for" else "room_needed"
            case events.DraftEvicted(draft=draft):
                self._evicted(draft)

    def _show_resident(self, resident: Iterable[str]) -> None:
        present = set(resident)
        for name in self._names:
            self._resident.labels(name).set(name in present)

    def _activated(self, draft: ResidentDraft) -> None:
        if draft not in self._used:
            self._used.add(draft)
            self._prefetches.labels("useful").inc()

    def _evicted(self, draft: ResidentDraft) -> None:
        # One that nobody revoked was never announced: its load was superseded before it ended.
        self._evictions.labels(draft.name, self._revoked.pop(draft, "superseded")).inc()
        if draft not in self._used:
            self._prefetches.labels("wasted").inc()
        self._used.discard(draft)
