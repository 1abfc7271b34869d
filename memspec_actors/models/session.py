"""One request being decoded: the committed tokens, every key/value cache, and one iteration of draft and verify.

Synchronous and without asyncio: the Decoder runs it in its worker thread, one hop per iteration. Law, after every call:
the target's cache holds all committed tokens but the last.
"""

from collections import deque
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Lock
from time import perf_counter_ns

import torch
from torch import Tensor

from memspec_actors.errors import DeviceFull, InvalidLogits
from memspec_actors.models.device_draft import DeviceDraft
from memspec_actors.models.draft_cache import DraftCache
from memspec_actors.models.runner import Cache, GreedyDrafter, Runner
from memspec_actors.protocols.feedback import Shadow
from memspec_actors.protocols.messages import ResidentDraft, ThresholdsPublished
from memspec_actors.protocols.requests import GenerationRequest
from memspec_actors.protocols.results import TokenLogprob
from memspec_actors.speculation.accept import AcceptanceRule, Draw, Exact, Proposal, judge_unseen, propose
from memspec_actors.speculation.adjustment import LogitAdjustment
from memspec_actors.speculation.commit import Commit, CommitState, max_draft_tokens
from memspec_actors.speculation.logprobs import token_logprobs
from memspec_actors.speculation.lossy import Bayes
from memspec_actors.speculation.sampling import PositionNoise
from memspec_actors.speculation.stop import FixedLength, StopRule

__all__ = ["BoundDraft", "DecodeSession", "StepOutcome"]


@dataclass(frozen=True, slots=True)
class BoundDraft:
    """Pair a draft's load with the runner bound to its memory and the number of ids it shares with the target."""

    draft: ResidentDraft
    runner: Runner
    num_common: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StepOutcome:
    """Tell what one call added and what it cost, in microseconds.

    Where a device drafts without being waited for, ``verify_us`` has the time of both.
    """

    commit: Commit
    drafted: int = 0
    accepted: int = 0
    departures: tuple[int, ...] = ()  # positions of accepted tokens that were not the target's own choice
    signals: tuple[float, ...] = ()  # of each drafted token
    distances: tuple[float, ...] = ()  # of each token that was judged and survived the cut, and of the rejected one
    catch_up_tokens: int = 0
    catch_up_us: float = 0.0
    draft_us: float = 0.0
    verify_us: float = 0.0
    logprobs: tuple[TokenLogprob, ...] | None = None  # one per committed token, if they were asked for
    shadows: tuple[Shadow, ...] = ()


@dataclass(slots=True)
class DecodeSession:
    """Decode one request with whichever draft it is handed at each step.

    ``num_ids`` is the number of real token ids of the target: ids beyond are padding and are never emitted, nor are
    ``gap_ids`` among them, which no token has. A draft's cache belongs to (request, draft, load generation); it is made
    on first use and catches up by the missing tokens. With ``watches_catch_up`` a step tells what the drafts that
    caught up since the last one would have said.
    """

    target: Runner
    request: GenerationRequest
    num_ids: int
    accept: AcceptanceRule
    stop_rule: StopRule
    state: CommitState
    gap_ids: tuple[int, ...] = ()
    watches_catch_up: bool = False
    tokens: list[int] = field(init=False)
    logprobs: list[TokenLogprob] = field(init=False, default_factory=list)  # one per token, if they were asked for
    _noise: PositionNoise = field(init=False)
    _adjustment: LogitAdjustment | None = field(init=False, default=None)
    _target_cache: Cache = field(init=False)
    _caches: dict[ResidentDraft, DraftCache] = field(init=False, default_factory=dict)
    _caches_lock: Lock = field(init=False, default_factory=Lock)
    _shadows: deque[Shadow] = field(init=False, default_factory=deque)
    _last: ResidentDraft | None = field(init=False, default=None)  # the draft of the last iteration

    def __post_init__(self) -> None:
        self.tokens = list(self.request.prompt_ids)
        self._noise = PositionNoise(self.request.seed)
        sampling = self.request.sampling
        if self.gap_ids or LogitAdjustment.asked_for(sampling):
            self._adjustment = LogitAdjustment(
                sampling, self.request.prompt_ids, self.state.end_ids, self.num_ids, self.gap_ids
            )
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
        """Run one iteration: draft with ``bound`` (None: not at all), verify with the target, commit.

        A draft for whose keys and values a device has no memory sits out. Raises DeviceFull for want of the target's.
        """
        with suppress(DeviceFull):
            length = self.draft_length(bound)
            if bound is not None and length:
                return self._draft_step(bound, length)
        return self._target_step()

    def _draft_step(self, bound: BoundDraft, length: int) -> StepOutcome:
        own, started = self._cache(bound), perf_counter_ns()
        with own.lock:
            try:
                return self._draft_and_verify(bound, own, length, started)
            finally:
                own.cache.truncate(min(own.cache.length, len(self.tokens) - 1))

    def _draft_and_verify(self, bound: BoundDraft, own: DraftCache, length: int, started: int) -> StepOutcome:
        catch_up_tokens = 0 if self._last == bound.draft else self._catch_up(own, self.tokens)
        caught_up_at = perf_counter_ns()
        if isinstance(bound.runner, DeviceDraft) and self._drafts_blindly and self._takes_maxima:
            text = bound.runner.draft_unseen(self.tokens[own.cache.length :], own.cache, length)
            drafted_at = perf_counter_ns()
            logits = self.target.forward(text, self._target_cache)[:, : self.num_ids]
            drafted, verdict = judge_unseen(text[1:], logits)
            signals: tuple[float, ...] = (0.0,) * length
        else:
            proposal, signals = self._draft(bound, own.cache, length)
            drafted_at = perf_counter_ns()
            drafted = proposal.ids
            logits = self.target.forward([self.tokens[-1], *drafted], self._target_cache)[:, : self.num_ids]
            adjusted = self._adjusted(self._at_hand(logits), drafted)
            verdict = self.accept.verify(proposal, adjusted, self.request.sampling, self._noise, len(self.tokens))
        commit = self._commit([*drafted[: verdict.num_accepted], verdict.next_id])
        self._last = bound.draft
        return StepOutcome(
            commit=commit,
            drafted=len(drafted),
            accepted=commit.accepted(verdict.num_accepted),
            departures=tuple(i for i in verdict.departures if i < len(commit.ids)),
            signals=signals,
            distances=verdict.distances[: len(commit.ids)],
            catch_up_tokens=catch_up_tokens,
            catch_up_us=(caught_up_at - started) / 1e3,
            draft_us=(drafted_at - caught_up_at) / 1e3,
            verify_us=_us_since(drafted_at),
            logprobs=self._logprobs(logits, commit),
            shadows=self._take_shadows(),
        )

    def adapt(self, thresholds: ThresholdsPublished) -> None:
        """Go on with what verified tokens have taught; not while `step` runs."""
        if thresholds.stop_threshold is not None:
            self.stop_rule.adapt(thresholds.stop_threshold, thresholds.calibration)
        if isinstance(self.accept, Bayes):
            self.accept.odds = thresholds.odds

    @torch.inference_mode()
    def warm(self, bound: BoundDraft) -> int:
        """Feed the committed tokens (all but the last) to a draft that is not at work; return how many it holds.

        Runs beside `step` in another thread: it touches nothing but this draft's own cache, and reads a snapshot. A
        step with this very draft waits for it. A draft for whose keys and values there is no memory stays cold.
        """
        with suppress(DeviceFull):
            own = self._cache(bound)
            with own.lock:
                tokens = self.tokens[: bound.runner.max_positions + 1]
                if all(token < bound.num_common for token in tokens[:-1]):
                    self._catch_up(own, tokens)
                    return own.cache.length
        return 0

    def keep(self, drafts: Collection[ResidentDraft]) -> None:
        """Let go of the caches of all drafts but these: a draft that has left memory comes back as another load."""
        with self._caches_lock:
            self._caches = {draft: own for draft, own in self._caches.items() if draft in drafts}

    def draft_length(self, bound: BoundDraft | None) -> int:
        """Return how many tokens the next step would draft with ``bound`` at most; 0 makes it a plain target step."""
        if bound is None or any(token >= bound.num_common for token in self.tokens[self._cache(bound).cache.length :]):
            return 0
        return max_draft_tokens(
            self.state.remaining, bound.runner.max_positions - len(self.tokens), self.stop_rule.max_tokens
        )

    def missing(self, bound: BoundDraft) -> Sequence[int]:
        """Return the committed tokens, all but the last, that a draft missed while others were at work."""
        return () if self._last == bound.draft else self.tokens[self._cache(bound).cache.length : -1]

    def _target_step(self) -> StepOutcome:
        started = perf_counter_ns()
        logits = self.target.forward([self.tokens[-1]], self._target_cache, last_only=True)
        commit = self._commit([self._choose(logits)])
        self._last = None
        return StepOutcome(
            commit=commit,
            verify_us=_us_since(started),
            logprobs=self._logprobs(logits, commit),
            shadows=self._take_shadows(),
        )

    def _choose(self, logits: Tensor) -> int:
        at_hand = self._at_hand(logits[:, : self.num_ids])
        adjusted, nothing = self._adjusted(at_hand, ()), Proposal(())
        return self.accept.verify(nothing, adjusted, self.request.sampling, self._noise, len(self.tokens)).next_id

    def _cache(self, bound: BoundDraft) -> DraftCache:
        """Return the cache of this very load; one of an earlier load of the same draft is dropped."""
        draft = bound.draft
        with self._caches_lock:
            if draft not in self._caches:
                max_tokens = len(self.tokens) + self.request.max_new_tokens
                self._caches = {each: own for each, own in self._caches.items() if each.name != draft.name}
                self._caches[draft] = DraftCache(draft.name, bound.runner, bound.num_common, max_tokens)
            return self._caches[draft]

    def _catch_up(self, own: DraftCache, tokens: Sequence[int]) -> int:
        """Let a draft read what it missed while others were at work; the last token belongs to drafting itself."""
        if not self.watches_catch_up:
            return own.catch_up(tokens)
        num_missing, shadow = own.catch_up_watched(tokens, len(self.request.prompt_ids))
        if shadow is not None:
            self._shadows.append(shadow)
        return num_missing

    def _take_shadows(self) -> tuple[Shadow, ...]:
        return tuple(self._shadows.popleft() for _ in range(len(self._shadows)))

    def _draft(self, bound: BoundDraft, cache: Cache, length: int) -> tuple[Proposal, tuple[float, ...]]:
        """Draft up to ``length`` tokens; return them with the stop rule's signal of each."""
        rule, feed = self.stop_rule, self.tokens[cache.length :]
        if self._drafts_blindly and isinstance(bound.runner, GreedyDrafter):
            ids = bound.runner.draft(feed, cache, length, bound.num_common)
            return Proposal(tuple(ids)), (0.0,) * length
        draws: list[Draw] = []
        signals: list[float] = []
        while len(draws) < length:
            logits = self._at_hand(bound.runner.forward(feed, cache, last_only=True)[-1:, : bound.num_common])
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

    @property
    def _drafts_blindly(self) -> bool:
        """Tell whether all of a draft's tokens are its likeliest, and none is looked at before the last."""
        return (
            self.request.sampling.greedy
            and isinstance(self.stop_rule, FixedLength)
            and self._adjustment is None
            and not self.accept.needs_draft_probs
        )

    @property
    def _takes_maxima(self) -> bool:
        """Tell whether the target's largest logits decide, as they come."""
        return self._adjustment is None and isinstance(self.accept, Exact)

    def _at_hand(self, logits: Tensor) -> Tensor:
        """Return logits where rules go about them: on the host, but where no more than maxima are taken."""
        return logits if self._takes_maxima else logits.cpu()

    def _adjusted(self, logits: Tensor, drafted: Sequence[int]) -> Tensor:
        """Return what is drawn from: logits (T, V) after the committed text and ``drafted``, adjusted if asked for."""
        return logits if self._adjustment is None else self._adjustment.apply(logits, self.generated, drafted)

    def _logprobs(self, logits: Tensor, commit: Commit) -> tuple[TokenLogprob, ...] | None:
        num_top = self.request.sampling.logprobs
        if num_top is None:
            return None
        logprobs = token_logprobs(logits[:, : self.num_ids].cpu(), commit.ids, num_top)
        self.logprobs.extend(logprobs)
        return logprobs

    def _commit(self, ids: Sequence[int]) -> Commit:
        commit = self.state.commit(ids)
        self.tokens.extend(commit.ids)
        self._target_cache.truncate(min(self._target_cache.length, len(self.tokens) - 1))
        return commit


def _us_since(started_ns: int) -> float:
    return (perf_counter_ns() - started_ns) / 1e3
