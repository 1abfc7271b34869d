"""The caches of all drafts within one request, and what is read into them beside drafting."""

from collections import deque
from collections.abc import Collection, Sequence
from threading import Lock

from memspec_actors.models.drafting.draft_cache import BoundDraft, DraftCache
from memspec_actors.protocols.feedback import Shadow
from memspec_actors.protocols.messages import ResidentDraft

__all__ = ["DraftCaches"]


class DraftCaches:
    """Keep a cache for each load of a draft, made on first use for about ``max_tokens`` tokens. Thread-safe.

    With ``watches`` it keeps, too, what drafts would have said about the tokens after ``num_prompt`` that they read.
    """

    def __init__(self, num_prompt: int, max_tokens: int, *, watches: bool) -> None:
        self._num_prompt = num_prompt
        self._max_tokens = max_tokens
        self._watches = watches
        self._caches: dict[ResidentDraft, DraftCache] = {}
        self._lock = Lock()
        self._shadows: deque[Shadow] = deque()

    def of(self, bound: BoundDraft) -> DraftCache:
        """Return the cache of this very load; one of an earlier load of the same draft is dropped.

        Raises DeviceFull where a device has no memory for it.
        """
        draft = bound.draft
        with self._lock:
            if draft not in self._caches:
                self._caches = {each: own for each, own in self._caches.items() if each.name != draft.name}
                self._caches[draft] = DraftCache(bound, self._max_tokens)
            return self._caches[draft]

    def keep(self, drafts: Collection[ResidentDraft]) -> None:
        """Let go of the caches of all drafts but these."""
        with self._lock:
            self._caches = {draft: own for draft, own in self._caches.items() if draft in drafts}

    def warm(self, bound: BoundDraft, tokens: Sequence[int]) -> int:
        """Read ``tokens``, to which others may append meanwhile, as far as the draft can; return how many it holds."""
        own = self.of(bound)
        with own.lock:
            seen = tokens[: bound.runner.max_positions + 1]
            if any(token >= bound.num_common for token in seen[:-1]):
                return 0
            self.catch_up(own, seen)
            return own.cache.length

    def catch_up(self, own: DraftCache, tokens: Sequence[int]) -> int:
        """Read what a draft missed while others were at work, all but the last token; return how much that was."""
        if not self._watches:
            return own.catch_up(tokens)
        num_missing, shadow = own.catch_up_watched(tokens, self._num_prompt)
        if shadow is not None:
            self._shadows.append(shadow)
        return num_missing

    def take_shadows(self) -> tuple[Shadow, ...]:
        """Return what drafts would have said since the last call."""
        return tuple(self._shadows.popleft() for _ in range(len(self._shadows)))
