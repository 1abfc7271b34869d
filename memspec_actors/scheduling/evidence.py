"""What is known of the drafts, token by token: where each would have agreed with the target."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from memspec_actors.protocols.feedback import Feedback

__all__ = ["Agreement", "Sighting", "sightings"]

REACH_TOKENS = 256  # what is older weighs next to nothing


class Sighting(NamedTuple):
    """A draft was seen to agree with the target at a generated token, or not to."""

    draft: str
    position: int
    agrees: bool


def sightings(feedback: Feedback) -> Iterator[Sighting]:
    """Give what an iteration tells.

    Of the draft that ran the tokens that it proposed, up to the first wrong one: the target never compared the others.
    Of a draft that read along all tokens that it read.
    """
    if feedback.draft is not None:
        tested = min(feedback.accepted + 1, feedback.drafted, feedback.emitted)
        for index in range(tested):
            yield Sighting(feedback.draft, feedback.start + index, index < feedback.accepted)
    for shadow in feedback.shadows:
        for index, agrees in enumerate(shadow.agrees):
            yield Sighting(shadow.draft, shadow.start + index, agrees)


class Agreement:
    """Remember the sightings of every draft in the last tokens of one text; ``length`` counts all its tokens."""

    def __init__(self, drafts: Sequence[str]) -> None:
        self._agrees: dict[str, dict[int, bool]] = {draft: {} for draft in drafts}
        self.length = 0

    def observe(self, feedback: Feedback) -> None:
        self.length = max(self.length, feedback.start + feedback.emitted)
        for draft, position, agrees in sightings(feedback):
            self._agrees[draft][position] = agrees
        for known in self._agrees.values():
            if len(known) <= REACH_TOKENS:
                continue
            for position in [position for position in known if position < self.length - REACH_TOKENS]:
                del known[position]

    def of(self, draft: str) -> Iterator[tuple[int, bool]]:
        """Give (age in tokens, whether it agreed) of every sighting of a draft."""
        return ((self.length - 1 - position, agrees) for position, agrees in self._agrees[draft].items())

    def since(self, draft: str, position: int) -> dict[int, bool]:
        """Return at which tokens from ``position`` on a draft was seen, and whether it agreed."""
        known = self._agrees[draft]
        return {where: known[where] for where in range(position, self.length) if where in known}
