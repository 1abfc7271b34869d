"""One request being decoded: the committed tokens, every key/value cache, and one iteration of draft and verify.

Synchronous and without asyncio: the Decoder runs it in its worker thread, one hop per iteration. Law, after every call:
the target's cache holds all committed tokens but the last.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from time import perf_counter_ns

import torch
from torch import Tensor

from memspec_actors.errors import InvalidLogits
from memspec_actors.models.runner import Cache, Runner
from memspec_actors.protocols.messages import ResidentDraft, ThresholdsPublished
from memspec_actors.protocols.requests import GenerationRequest
from memspec_actors.protocols.results import TokenLogprob
from memspec_actors.speculation.accept import AcceptanceRule, Draw, Proposal, propose
from memspec_actors.speculation.adjustment import LogitAdjustment
from memspec_actors.speculation.commit import Commit, CommitState, max_draft_tokens
from memspec_actors.speculation.logprobs import token_logprobs
from memspec_actors.speculation.lossy import Bayes
from memspec_actors.speculation.sampling import PositionNoise
from memspec_actors.speculation.stop import StopRule

__all__ = ["BoundDraft", "DecodeSession", "StepOutcome"]

WARM_CHUNK_TOKENS = 64


@dataclass(frozen=True, slots=True)
class BoundDraft:
    """Pair a draft's load with the runner bound to its memory and the number of ids it shares with the target."""

    draft: ResidentDraft
    runner: Runner
    num_common: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StepOutcome:
    """Tell what one call added and what it cost, in microseconds."""

    commit: Commit
    drafted: int = 0
    accepted: int = 0
    departures: int = 0
    signals: tuple[float, ...] = ()  # of each drafted token
    distances: tuple[float, ...] = ()  # of each token that was judged and survived the cut, and of the rejected one
    catch_up_tokens: int = 0
    catch_up_us: float = 0.0
    draft_us: float = 0.0
    verify_us: float = 0.0
    logprobs: tuple[TokenLogprob, ...] | None = None  # one per committed token, if they were asked for


@dataclass(slots=True)
class DecodeSession:
    """Decode one request with whichever draft it is handed at each step.

    ``num_ids`` is the number of real token ids of the target: ids beyond are padding and are never emitted. A draft's
    cache belongs to (request, draft, load generation); it is made on first use and catches up by the missing tokens.
    """

    target: Runner
    request: GenerationRequest
    num_ids: int
    accept: AcceptanceRule
    stop_rule: StopRule
    state: CommitState
    tokens: list[int] = field(init=False)
    logprobs: list[TokenLogprob] = field(init=False, default_factory=list)  # one per token, if they were asked for
    _noise: PositionNoise = field(init=False)
    _adjustment: LogitAdjustment | None = field(init=False, default=None)
    _target_cache: Cache = field(init=False)
    _caches: dict[str, tuple[int, Cache]] = field(init=False, default_factory=dict)  # draft -> load generation, cache
    _last: ResidentDraft | None = field(init=False, default=None)  # the draft of the last iteration

    def __post_init__(self) -> None:
        self.tokens = list(self.request.prompt_ids)
        self._noise = PositionNoise(self.request.seed)
        sampling = self.request.sampling
        if LogitAdjustment.asked_for(sampling):
            end_ids = self.state.end_ids
            self._adjustment = LogitAdjustment(sampling, self.request.prompt_ids, end_ids, self.num_ids)
        self._target_cache = self.target.new_cache(len(self.tokens) + self.request.max_new_tokens)

    @property
    def cache_length(self) -> int:
        """Number of tokens in the target's cache."""
        return self._target_cache.length

    @property
    def generated(self) -> Sequence[int]:
        return self.tokens[len(self.request.prompt_ids) :]

    @torch.inference_mode()
    def prefill(self) -> StepOutcome:
        """Feed the prompt and commit the first token."""
        started = perf_counter_ns()
        logits = self.target.forward(self.tokens, self._target_cache, last_only=True)
        commit = self._commit([self._choose(logits)])
        return StepOutcome(commit=commit, verify_us=_us_since(started), logprobs=self._logprobs(logits, commit))

    @torch.inference_mode()
    def step(self, bound: BoundDraft | None) -> StepOutcome:
        """Run one iteration: draft with ``bound`` (None: not at all), verify with the target, commit."""
        length = self.draft_length(bound)
        if bound is None or length == 0:
            return self._target_step()
        catch_up_tokens, catch_up_us = self._catch_up(bound)
        started = perf_counter_ns()
        proposal, signals = self._draft(bound, length)
        drafted_at = perf_counter_ns()
        drafted = proposal.ids
        logits = self.target.forward([self.tokens[-1], *drafted], self._target_cache)[:, : self.num_ids]
        adjusted = self._adjusted(logits, drafted)
        verdict = self.accept.verify(proposal, adjusted, self.request.sampling, self._noise, len(self.tokens))
        commit = self._commit([*drafted[: verdict.num_accepted], verdict.next_id])
        cache = self._cache(bound)
        cache.truncate(min(cache.length, len(self.tokens) - 1))
        self._last = bound.draft
        return StepOutcome(
            commit=commit,
            drafted=len(drafted),
            accepted=commit.accepted(verdict.num_accepted),
            departures=sum(i < len(commit.ids) for i in verdict.departures),
            signals=signals,
            distances=verdict.distances[: len(commit.ids)],
            catch_up_tokens=catch_up_tokens,
            catch_up_us=catch_up_us,
            draft_us=(drafted_at - started) / 1e3,
            verify_us=_us_since(drafted_at),
            logprobs=self._logprobs(logits, commit),
        )

    def adapt(self, thresholds: ThresholdsPublished) -> None:
        """Go on with what verified tokens have taught; not while `step` runs."""
        if thresholds.stop_threshold is not None:
            self.stop_rule.adapt(thresholds.stop_threshold, thresholds.calibration)
        if isinstance(self.accept, Bayes):
            self.accept.odds = thresholds.odds

    @torch.inference_mode()
    def warm(self, bound: BoundDraft) -> int:
        """Feed the committed tokens (all but the last) to a draft that is not in use yet; return how many it holds.

        Runs beside `step` in another thread: it touches nothing but this draft's own cache, and reads a snapshot.
        """
        cache = self._cache(bound)
        tokens = self.tokens[:-1][: bound.runner.max_positions]
        if any(token >= bound.num_common for token in tokens):
            return 0
        while cache.length < len(tokens):
            chunk = tokens[cache.length : cache.length + WARM_CHUNK_TOKENS]
            bound.runner.forward(chunk, cache, last_only=True)
        return cache.length

    def draft_length(self, bound: BoundDraft | None) -> int:
        """Return how many tokens the next step would draft with ``bound`` at most; 0 makes it a plain target step."""
        if bound is None or any(token >= bound.num_common for token in self.tokens[self._cache(bound).length :]):
            return 0
        return max_draft_tokens(
            self.state.remaining, bound.runner.max_positions - len(self.tokens), self.stop_rule.max_tokens
        )

    def missing(self, bound: BoundDraft) -> Sequence[int]:
        """Return the committed tokens, all but the last, that a draft missed while others were at work."""
        return () if self._last == bound.draft else self.tokens[self._cache(bound).length : -1]

    def _target_step(self) -> StepOutcome:
        started = perf_counter_ns()
        logits = self.target.forward([self.tokens[-1]], self._target_cache, last_only=True)
        commit = self._commit([self._choose(logits)])
        self._last = None
        return StepOutcome(commit=commit, verify_us=_us_since(started), logprobs=self._logprobs(logits, commit))

    def _choose(self, logits: Tensor) -> int:
        nothing = Proposal(())
        return self.accept.verify(
            nothing, self._adjusted(logits[:, : self.num_ids], ()), self.request.sampling, self._noise, len(self.tokens)
        ).next_id

    def _cache(self, bound: BoundDraft) -> Cache:
        """Return the cache of this very load; one of an earlier load of the same draft is dropped."""
        generation, cache = self._caches.get(bound.draft.name, (None, None))
        if cache is None or generation != bound.draft.generation:
            cache = bound.runner.new_cache(len(self.tokens) + self.request.max_new_tokens)
            self._caches[bound.draft.name] = (bound.draft.generation, cache)
        return cache

    def _catch_up(self, bound: BoundDraft) -> tuple[int, float]:
        """Feed what the draft missed; the last token belongs to drafting itself."""
        missing = self.missing(bound)
        if not missing:
            return 0, 0.0
        started = perf_counter_ns()
        bound.runner.forward(missing, self._cache(bound), last_only=True)
        return len(missing), _us_since(started)

    def _draft(self, bound: BoundDraft, length: int) -> tuple[Proposal, tuple[float, ...]]:
        """Draft up to ``length`` tokens; return them with the stop rule's signal of each."""
        cache, rule = self._cache(bound), self.stop_rule
        feed = self.tokens[cache.length :]
        draws: list[Draw] = []
        signals: list[float] = []
        while len(draws) < length:
            logits = bound.runner.forward(feed, cache, last_only=True)[-1:, : bound.num_common]
            logits = self._adjusted(logits, [draw.id for draw in draws])[-1]
            position = len(self.tokens) + len(draws)
            try:
                draw = propose(
                    logits,
                    self.request.sampling,
                    self._noise,
                    position,
                    self.accept,
                    self.num_ids,
                    keep_probs=rule.reads_probs,
                )
            except InvalidLogits:  # a draft that went wrong costs its own tokens, not the request
                break
            draws.append(draw)
            feed = [draw.id]
            signals.append(rule.signal(draw) if rule.reads_probs else 0.0)
            if not rule.keep_drafting(len(draws), signals[-1]):
                break
        if not self.accept.needs_draft_probs:
            return Proposal(tuple(draw.id for draw in draws)), tuple(signals)
        return Proposal.of(draws, bound.num_common), tuple(signals)

    def _adjusted(self, logits: Tensor, drafted: Sequence[int]) -> Tensor:
        """Return what is drawn from: logits (T, V) after the committed text and ``drafted``, adjusted if asked for."""
        return logits if self._adjustment is None else self._adjustment.apply(logits, self.generated, drafted)

    def _logprobs(self, logits: Tensor, commit: Commit) -> tuple[TokenLogprob, ...] | None:
        num_top = self.request.sampling.logprobs
        if num_top is None:
            return None
        logprobs = token_logprobs(logits[:, : self.num_ids], commit.ids, num_top)
        self.logprobs.extend(logprobs)
        return logprobs

    def _commit(self, ids: Sequence[int]) -> Commit:
        commit = self.state.commit(ids)
        self.tokens.extend(commit.ids)
        self._target_cache.truncate(min(self._target_cache.length, len(self.tokens) - 1))
        return commit


def _us_since(started_ns: int) -> float:
    return (perf_counter_ns() - started_ns) / 1e3
