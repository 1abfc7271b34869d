"""Decode a growing sequence of ids piece by piece, never cutting a character in two."""

from collections.abc import Sequence

from memspec_actors.models.text.tokenizer import Tokenizer

__all__ = ["IncrementalDecoder"]

REPLACEMENT = "\ufffd"
WINDOW_TOKENS = 64  # decoded again at every feed
CONTEXT_TOKENS = 8  # kept when the window moves on, so that a decoder that treats the first token apart has one


class IncrementalDecoder:
    """Turn ids into text as they come; the pieces and `flush`, joined, equal the decoding of all ids.

    (tokenizers' own DecodeStream has no end, so that it loses a U+FFFD there, and lets go of bytes that a later byte
    can still spoil.)
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._ids: list[int] = []  # the window
        self._num_emitted = 0  # characters of the window's text already given out

    def feed(self, token_id: int) -> str:
        """Take the next id and return the text that is now certain."""
        self._ids.append(token_id)
        settled = self._ids[: self._num_settled()]
        text = self._decode(settled)
        # An incomplete character at the end shows as one U+FFFD. So does a real one: it comes with the next piece.
        held = text.endswith(REPLACEMENT)
        piece = self._take(text[:-1] if held else text)
        if not held and text and len(settled) == len(self._ids) > WINDOW_TOKENS:
            self._move_on()
        return piece

    def flush(self) -> str:
        """Return what was held back; nothing may be fed afterwards."""
        return self._take(self._decode(self._ids))

    def _take(self, text: str) -> str:
        piece = text[self._num_emitted :]
        self._num_emitted += len(piece)
        return piece

    def _num_settled(self) -> int:
        """Count the ids before a final run of byte tokens: one bad byte would turn the whole run into U+FFFD."""
        settled = len(self._ids)
        for position in range(len(self._ids) - 1, -1, -1):
            if self._ids[position] in self._tokenizer.byte_ids:
                settled = position
            elif self._ids[position] not in self._tokenizer.special_ids:
                break
        return settled

    def _move_on(self) -> None:
        """Forget all but the last few ids, provided that they show as text of their own."""
        context = self._ids[-CONTEXT_TOKENS:]
        text = self._decode(context)
        if text:
            self._ids, self._num_emitted = context, len(text)

    def _decode(self, ids: Sequence[int]) -> str:
        return self._tokenizer.decode(ids)
