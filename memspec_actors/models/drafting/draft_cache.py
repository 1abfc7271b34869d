"""A draft's key/value cache within one request, and what the draft would have said about the tokens that it reads."""

from collections.abc import Sequence
from dataclasses import dataclass
from threading import Lock

from torch import Tensor

from memspec_actors.models.runner import Cache, Runner
from memspec_actors.protocols.feedback import Shadow
from memspec_actors.protocols.messages import ResidentDraft
from memspec_actors.speculation.maxima import maxima

__all__ = ["BoundDraft", "DraftCache"]

CHUNK_TOKENS = 64
WATCHED_TOKENS = 32  # no more than CHUNK_TOKENS: the last piece gives the logits of all of them


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
        """Read what is unread of ``tokens`` but for the last one; return how many were missing."""
        missing = tokens[self.cache.length : -1]
        if missing:
            self._read(missing, logits_to_keep=1)
        return len(missing)

    def catch_up_watched(self, tokens: Sequence[int], prompt_length: int) -> tuple[int, Shadow | None]:
        """Read like `catch_up`, and tell what the draft would have said about the last of the tokens.

        The pass that reads a token predicts the next one too, so this costs the output layer only.
        """
        first = max(self.cache.length, prompt_length - 1, len(tokens) - 1 - WATCHED_TOKENS)
        followers = tokens[first + 1 :]
        if not followers:
            return self.catch_up(tokens), None
        missing = tokens[self.cache.length : -1]
        logits = self._read(missing, logits_to_keep=len(followers))[:, : self._bound.num_common]  # (T, V)
        agrees = tuple(predicted == true for predicted, true in zip(maxima(logits)[0], followers, strict=True))
        return len(missing), Shadow(self._bound.draft.name, first + 1 - prompt_length, agrees)

    def _read(self, tokens: Sequence[int], logits_to_keep: int) -> Tensor:
        """Read tokens in pieces, of which only the first may be short; return the logits of the last ones, (n, V)."""
        first = (len(tokens) - 1) % CHUNK_TOKENS + 1
        logits = self._bound.runner.forward(tokens[:first], self.cache, logits_to_keep)
        for start in range(first, len(tokens), CHUNK_TOKENS):
            logits = self._bound.runner.forward(tokens[start : start + CHUNK_TOKENS], self.cache, logits_to_keep)
        return logits
