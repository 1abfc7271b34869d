"""Cut a block of verified tokens where the text ends: everything is cut here, in token order, and nowhere else."""

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple, Protocol

from memspec_actors.errors import InvalidRequest
from memspec_actors.speculation.stop_strings import StopStrings

__all__ = ["Commit", "CommitState", "TextDecoder", "max_draft_tokens", "united_end_ids"]


class TextDecoder(Protocol):
    """Decode ids to text one at a time."""

    def feed(self, token_id: int) -> str:
        """Return the whole characters that this id completes, often none."""
        ...

    def flush(self) -> str:
        """End the text: return what stands for bytes that never became a character."""
        ...


class Commit(NamedTuple):
    """What became of one block of tokens."""

    ids: tuple[int, ...]  # the tokens kept
    text: str  # safe to stream: no later token can take it back
    finish_reason: Literal["stop", "length"] | None

    def accepted(self, num_accepted: int) -> int:
        """Return how many of the block's ``num_accepted`` leading draft tokens survived the cut."""
        return min(num_accepted, len(self.ids))


class CommitState:
    """Hold where one request's text stands and take its tokens block by block.

    ``end_ids`` end the text: the end token itself is kept in the ids and is not text. A stop string ends it with the
    token that completes it; the text ends before the stop string, or after it with ``include_stop``. Stop strings are
    looked for in what comes after the first ``min_tokens`` tokens. At most ``max_new_tokens`` and at most
    ``context_left`` tokens (the target's context length less the prompt) are kept. Of several events the first in token
    order decides; at one token "stop" wins over "length". Raises InvalidRequest if not even one token may be emitted,
    or fewer than ``min_tokens``.
    """

    def __init__(
        self,
        decoder: TextDecoder,
        *,
        end_ids: frozenset[int],
        stop: Sequence[str],
        include_stop: bool,
        max_new_tokens: int,
        context_left: int,
        min_tokens: int = 0,
    ) -> None:
        if max_new_tokens < 1:
            raise InvalidRequest(f"max_new_tokens is {max_new_tokens}; it must be at least 1")
        if min_tokens > max_new_tokens:
            raise InvalidRequest(f"min_tokens is {min_tokens} and max_new_tokens is {max_new_tokens}; lower min_tokens")
        if context_left < 1:
            raise InvalidRequest(
                f"the prompt is too long for the target's context by {1 - context_left} tokens; shorten it"
            )
        if min_tokens > context_left:
            raise InvalidRequest(
                f"min_tokens is {min_tokens} and the prompt leaves {context_left} tokens of the target's context; "
                "lower min_tokens or shorten the prompt"
            )
        self._decoder = decoder
        self.end_ids = end_ids
        self._stops = StopStrings(stop, include=include_stop)
        self._limit = min(max_new_tokens, context_left)
        self._min_tokens = min_tokens
        self._pieces: list[str] = []
        self.token_ids: list[int] = []
        self.finish_reason: Literal["stop", "length"] | None = None

    @property
    def remaining(self) -> int:
        """Return how many tokens may still be emitted."""
        return self._limit - len(self.token_ids)

    @property
    def text(self) -> str:
        """Return all text given out so far: the deltas, joined."""
        return "".join(self._pieces)

    def commit(self, ids: Sequence[int]) -> Commit:
        """Take the next verified tokens, in order, up to the first that ends the text."""
        num_before = len(self.token_ids)
        pieces: list[str] = []
        for token_id in ids:
            pieces.append(self._take(token_id))
            if self.finish_reason is not None:
                break
        kept = tuple(self.token_ids[num_before:])
        text = "".join(pieces)
        self._pieces.append(text)
        return Commit(kept, text, self.finish_reason)

    def close(self) -> str:
        """End a text that was cancelled: return the last delta, what was held back; "" if it had ended."""
        if self.finish_reason is not None:
            return ""
        tail = self._tail()
        self._pieces.append(tail)
        return tail

    def _take(self, token_id: int) -> str:
        assert self.finish_reason is None, "the text has ended"
        self.token_ids.append(token_id)
        if token_id in self.end_ids:
            self.finish_reason = "stop"
            return self._tail()
        text = self._decoder.feed(token_id)
        if len(self.token_ids) > self._min_tokens:
            text = self._stops.feed(text)
        if self._stops.found:
            self.finish_reason = "stop"
        elif not self.remaining:
            self.finish_reason = "length"
            text += self._tail()
        return text

    def _tail(self) -> str:
        """Flush decoder and matcher; the last characters may still complete a stop string."""
        text = self._stops.feed(self._decoder.flush())
        if not self._stops.found:
            return text + self._stops.flush()
        self.finish_reason = "stop"
        return text


def united_end_ids(*sources: int | Iterable[int] | None, ignore_eos: bool) -> frozenset[int]:
    """Unite end ids as configurations give them (one id, several, none); ``ignore_eos`` leaves no id at all."""
    if ignore_eos:
        return frozenset()
    lists = [[source] if isinstance(source, int) else source for source in sources if source is not None]
    return frozenset(token_id for ids in lists for token_id in ids)


def max_draft_tokens(remaining: int, draft_context_left: int, k: int) -> int:
    """Return how many tokens, at most ``k``, an iteration may draft.

    ``remaining`` tokens may still be emitted; the target adds one to every draft, so one less is drafted.
    ``draft_context_left`` is the draft's context length less the committed tokens, its own limit: 0 or less and the
    draft sits out.
    """
    return max(0, min(k, remaining - 1, draft_context_left))
