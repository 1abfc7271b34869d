r"""One load of a draft, from the moment at which its bytes are reserved until they are free again.

    absent --> loading --> warming --> resident --> revoked --> absent
                |    \         |           ^           |
                |   failed   discarded     +-----------+  wanted again before it was freed
                v              |
            cancelling         +--> absent, or warming again
                |
                +--> absent, or warming if it finished all the same and is wanted again

A loading or warming draft whose place is needed keeps its bytes until the Loader or the Decoder has let go of it; a
resident one is revoked and keeps them until the Decoder has acknowledged an epoch without it.
"""

import enum
from dataclasses import dataclass

from memspec_actors.protocols.messages import ResidentDraft

__all__ = ["IN_TRANSIT", "LEAVING", "Slot", "State"]


class State(enum.Enum):
    """Where a draft that takes up memory stands; an absent draft has no slot."""

    LOADING = "loading"
    CANCELLING = "cancelling"  # told to stop loading, not stopped yet
    WARMING = "warming"
    DISCARDED = "discarded"  # its place is needed, but the Decoder is still warming it
    RESIDENT = "resident"
    REVOKED = "revoked"  # left out of the newest epoch, which is not acknowledged yet


_LEAVING_FROM = {State.LOADING: State.CANCELLING, State.WARMING: State.DISCARDED, State.RESIDENT: State.REVOKED}
_STAYING_FROM = {State.REVOKED: State.RESIDENT, State.DISCARDED: State.WARMING}

IN_TRANSIT = (State.LOADING, State.CANCELLING)
LEAVING = tuple(_LEAVING_FROM.values())


@dataclass(slots=True)
class Slot:
    """Hold one load of one draft; ``revoked_epoch`` is the first epoch without it, ``used`` whether it ever decoded."""

    draft: ResidentDraft
    state: State = State.LOADING
    revoked_epoch: int | None = None
    used: bool = False

    def loaded(self) -> None:
        """Go on to be warmed, even if the load was given up."""
        assert self.state in IN_TRANSIT
        self.state = State.WARMING

    def warmed(self) -> None:
        """Go on to be used."""
        assert self.state is State.WARMING
        self.state = State.RESIDENT

    def leave(self) -> None:
        """Be about to leave: its place is needed."""
        self.state = _LEAVING_FROM[self.state]

    def stay(self) -> None:
        """Not leave after all; a cancelled load alone cannot be called back."""
        self.state = _STAYING_FROM[self.state]
        self.revoked_epoch = None
