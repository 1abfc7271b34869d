"""Requests of the embedded models' world as their context encoder learns from them: every token with its item."""

import random
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from tokenizers import Tokenizer

__all__ = ["NO_ITEM", "PhasedText", "phased_texts"]

BOS = "<s>"
NO_ITEM = 0


class PhasedText(msgspec.Struct, frozen=True):
    """A prompt and its answer as ids, with the item (1, 2, ...) of every token and the phase (0 .. P-1) of every item.

    The frame of the prompt belongs to `NO_ITEM`; tokens of the answer all belong to one.
    """

    prompt_ids: list[int]
    answer_ids: list[int]
    prompt_items: list[int]
    answer_items: list[int]
    item_phases: list[int]

    @property
    def phases(self) -> list[int]:
        """The phase of every token of the answer."""
        return [self.item_phases[item - 1] for item in self.answer_items]

    def ahead(self, cut: int, windows: Sequence[tuple[int, int]], num_phases: int) -> list[list[float]]:
        """Give the share of every phase in windows of the answer after ``cut`` tokens, and what lies beyond its end.

        A window is (first token, token behind the last), counted from the cut; each row has P + 1 shares.
        """
        coming, rows = self.phases[cut:], []
        for start, stop in windows:
            counts = [coming[start:stop].count(phase) for phase in range(num_phases)]
            rows.append([count / (stop - start) for count in (*counts, stop - start - sum(counts))])
        return rows

    def next_phase(self, cut: int, num_phases: int) -> int:
        """Return the phase that follows on that of the answer after ``cut`` tokens, or P if the answer ends in it."""
        coming = self.phases[cut:]
        return next((phase for phase in coming if phase != coming[0]), num_phases)


def phased_texts(tokenizer: "Tokenizer", seed: str) -> Iterator[PhasedText]:
    """Generate requests of the embedded models' world without end, from the training split."""
    from memspec_actors.zoo import world

    rng = random.Random(seed)
    while True:
        request = world.sample_request(rng, world.sample_phases(rng), split="train")
        lines = world.request_lines([item.title for item in request.items])
        prompt_text = BOS + request.prompt_text
        bodies = _ends(request.answer_text, [item.body for item in request.items], world.SEPARATOR)
        prompt = tokenizer.encode(prompt_text, add_special_tokens=False)
        answer = tokenizer.encode(request.answer_text, add_special_tokens=False)
        asked = _items([prompt_text.index(lines[0]), *_ends(prompt_text, lines, "\n")], prompt.offsets)
        yield PhasedText(
            prompt_ids=prompt.ids,
            answer_ids=answer.ids,
            prompt_items=[item if item <= len(lines) else NO_ITEM for item in asked],
            answer_items=_items([0, *bodies[:-1]], answer.offsets),
            item_phases=[world.DOMAINS.index(item.domain) for item in request.items],
        )


def _ends(text: str, parts: Sequence[str], separator: str) -> list[int]:
    """Give where each of the parts of a text, which come in this order, ends together with its separator."""
    ends, start = [], 0
    for part in parts:
        start = text.index(part, start) + len(part) + len(separator)
        ends.append(start)
    return ends


def _items(borders: Sequence[int], offsets: Sequence[tuple[int, int]]) -> list[int]:
    """Count the borders at or before the start of every token."""
    return [sum(border <= start for border in borders) for start, _ in offsets]
