"""A draft's key/value cache within one request, and what the draft would have said about the tokens that it reads."""

from collections.abc import Sequence
from dataclasses import dataclass
from threading import Lock

from memspec_actors.models.runner import Cache, Runner
from memspec_actors.protocols.feedback import Shadow
from memspec_actors.protocols.messages import ResidentDraft

__all__ = ["BoundDraft", "DraftCache"]

CHUNK_TOKENS = 64
WATCHED_TOKENS = 32


@dataclass(frozen=True, slots=True)
class BoundDraft:
    """Pair a draft's load with the runner bound to its memory and the number of ids it shares with the target."""

    draft: ResidentDraft
    runner: Runner
    num_common: int


class DraftCache:
    """Hold what one load of a draft has read of one request's text.

    Whoever feeds the cache holds ``lock``: the iteration that drafts with it, or a thread that brings it up to date.
    """

    def __init__(self, bound: BoundDraft, max_tokens: int) -> None:
        self.lock = Lock()
        self.cache: Cache = bound.runner.new_cache(max_tokens)
        self._bound = bound

    def catch_up(self, tokens: Sequence[int]) -> int:
        """Read what is unread of ``tokens`` but for the last one, in pieces; return how many were missing."""
        missing = tokens[self.cache.length : -1]
        for start in range(0, len(missing), CHUNK_TOKENS):
            self._bound.runner.forward(missing[start : start + CHUNK_TOKENS], self.cache, last_only=True)
        return len(missing)

    def catch_up_watched(self, tokens: Sequence[int], prompt_length: int) -> tuple[int, Shadow | None]:
        """Read like `catch_up`, and tell what the draft would have said about the last of the tokens.

        The pass that reads a token predicts the next one too, so this costs the output layer only.
        """
        first = max(self.cache.length, prompt_length - 1, len(tokens) - 1 - WATCHED_TOKENS)
        num_missing = self.catch_up(tokens[: first + 1])
        watched = tokens[first:-1]
        if not watched:
            return num_missing, None
        logits = self._bound.runner.forward(watched, self.cache)[:, : self._bound.num_common]  # (T, V)
        pairs = zip(logits.argmax(-1).tolist(), tokens[first + 1 :], strict=True)
        agrees = tuple(predicted == true for predicted, true in pairs)
        return num_missing + len(watched), Shadow(self._bound.draft.name, first + 1 - prompt_length, agrees)
