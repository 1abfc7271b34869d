"""One request being decoded: the committed tokens, every key/value cache, and one iteration of draft and verify.

Synchronous and without asyncio: the Decoder runs it in its worker thread, one hop per iteration. Law, after every call:
the target's cache holds all committed tokens but the last.
"""

from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import InitVar, dataclass, field
from time import perf_counter_ns

import torch
from torch import Tensor

from memspec_actors.errors import DeviceFull
from memspec_actors.models.drafting.device_draft import DeviceDraft
from memspec_actors.models.drafting.draft_cache import BoundDraft, DraftCache
from memspec_actors.models.drafting.draft_caches import DraftCaches
from memspec_actors.models.outcome import StepOutcome
from memspec_actors.models.runner import Cache, Runner
from memspec_actors.models.token_rules import TokenRules
from memspec_actors.protocols.messages import ResidentDraft, ThresholdsPublished
from memspec_actors.protocols.requests import GenerationRequest
from memspec_actors.protocols.results import TokenLogprob
from memspec_actors.speculation.accept import AcceptanceRule, Proposal, judge_unseen
from memspec_actors.speculation.adjustment import LogitAdjustment
from memspec_actors.speculation.commit import Commit, CommitState, max_draft_tokens
from memspec_actors.speculation.logprobs import token_logprobs
from memspec_actors.speculation.stop import StopRule

__all__ = ["DecodeSession"]


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
    accept: InitVar[AcceptanceRule]
    stop_rule: InitVar[StopRule]
    state: CommitState
    gap_ids: InitVar[tuple[int, ...]] = ()
    watches_catch_up: InitVar[bool] = False
    rules: TokenRules = field(init=False)
    tokens: list[int] = field(init=False)
    logprobs: list[TokenLogprob] = field(init=False, default_factory=list)  # one per token, if they were asked for
    _target_cache: Cache = field(init=False)
    _caches: DraftCaches = field(init=False)
    _last: ResidentDraft | None = field(init=False, default=None)  # the draft of the last iteration

    def __post_init__(
        self, accept: AcceptanceRule, stop_rule: StopRule, gap_ids: tuple[int, ...], watches_catch_up: bool
    ) -> None:
        request, sampling, adjustment = self.request, self.request.sampling, None
        if gap_ids or LogitAdjustment.asked_for(sampling):
            adjustment = LogitAdjustment(sampling, request.prompt_ids, self.state.end_ids, self.num_ids, gap_ids)
        self.rules = TokenRules(request, self.num_ids, accept, stop_rule, adjustment)
        self.tokens = list(request.prompt_ids)
        max_tokens = len(self.tokens) + request.max_new_tokens
        self._target_cache = self.target.new_cache(max_tokens)
        self._caches = DraftCaches(len(self.tokens), max_tokens, watches=watches_catch_up)

    @property
    def generated(self) -> Sequence[int]:
        return self.tokens[len(self.request.prompt_ids) :]

    @torch.inference_mode()
    def prefill(self) -> StepOutcome:
        """Feed the prompt and commit the first token."""
        started = perf_counter_ns()
        logits = self.target.forward(self.tokens, self._target_cache, logits_to_keep=1)
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
        own, started = self._caches.of(bound), perf_counter_ns()
        with own.lock:
            try:
                return self._draft_and_verify(bound, own, length, started)
            finally:
                own.cache.truncate(min(own.cache.length, len(self.tokens) - 1))

    def _draft_and_verify(self, bound: BoundDraft, own: DraftCache, length: int, started: int) -> StepOutcome:
        catch_up_tokens = 0 if self._last == bound.draft else self._caches.catch_up(own, self.tokens)
        caught_up_at = perf_counter_ns()
        if isinstance(bound.runner, DeviceDraft) and self.rules.drafts_blindly and self.rules.takes_maxima:
            text = bound.runner.draft_unseen(self.tokens[own.cache.length :], own.cache, length)
            drafted_at = perf_counter_ns()
            logits = self.target.forward(text, self._target_cache)[:, : self.num_ids]
            drafted, verdict = judge_unseen(text[1:], logits)
            signals: tuple[float, ...] = (0.0,) * length
        else:
            proposal, signals = self.rules.draft(bound, own.cache, self.tokens, length)
            drafted_at = perf_counter_ns()
            drafted = proposal.ids
            logits = self.target.forward([self.tokens[-1], *drafted], self._target_cache)[:, : self.num_ids]
            verdict = self.rules.verify(proposal, logits, self.tokens)
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
            shadows=self._caches.take_shadows(),
        )

    def adapt(self, thresholds: ThresholdsPublished) -> None:
        """Go on with what verified tokens have taught; not while `step` runs."""
        self.rules.adapt(thresholds)

    @torch.inference_mode()
    def warm(self, bound: BoundDraft) -> int:
        """Feed the committed tokens (all but the last) to a draft that is not at work; return how many it holds.

        Runs beside `step` in another thread: it touches nothing but this draft's own cache, and reads a snapshot. A
        step with this very draft waits for it. A draft for whose keys and values there is no memory stays cold.
        """
        with suppress(DeviceFull):
            return self._caches.warm(bound, self.tokens)
        return 0

    def keep(self, drafts: Collection[ResidentDraft]) -> None:
        """Let go of the caches of all drafts but these: a draft that has left memory comes back as another load."""
        self._caches.keep(drafts)

    def draft_length(self, bound: BoundDraft | None) -> int:
        """Return how many tokens the next step would draft with ``bound`` at most; 0 makes it a plain target step."""
        if bound is None:
            return 0
        unread = self.tokens[self._caches.of(bound).cache.length :]
        if any(token >= bound.num_common for token in unread):
            return 0
        return max_draft_tokens(
            self.state.remaining, bound.runner.max_positions - len(self.tokens), self.rules.stop_rule.max_tokens
        )

    def missing(self, bound: BoundDraft) -> Sequence[int]:
        """Return the committed tokens, all but the last, that a draft missed while others were at work."""
        return () if self._last == bound.draft else self.tokens[self._caches.of(bound).cache.length : -1]

    def _target_step(self) -> StepOutcome:
        started = perf_counter_ns()
        logits = self.target.forward([self.tokens[-1]], self._target_cache, logits_to_keep=1)
        commit = self._commit([self._choose(logits)])
        self._last = None
        return StepOutcome(
            commit=commit,
            verify_us=_us_since(started),
            logprobs=self._logprobs(logits, commit),
            shadows=self._caches.take_shadows(),
        )

    def _choose(self, logits: Tensor) -> int:
        return self.rules.verify(Proposal(()), logits[:, : self.num_ids], self.tokens).next_id

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
