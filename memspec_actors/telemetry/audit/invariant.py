"""What all invariants have in common: they see the records of a run one by one and find what contradicts them."""

from collections.abc import Iterator
from typing import ClassVar, NamedTuple

from memspec_actors.protocols.events import Event, SystemStarted

__all__ = ["Finding", "Invariant"]


class Finding(NamedTuple):
    """A contradiction: what is wrong, and the records that show it, the last one where it was noticed."""

    what: str
    records: tuple[Event, ...]


class Invariant:
    """One rule that every run keeps; ``num_checked`` counts the times that the log could decide it.

    A log may begin in the middle of a run (older files were deleted) and end in the middle of one (a kill). What
    happened before its beginning or after its end is never held against a run.
    """

    number: ClassVar[int]
    rule: ClassVar[str]

    def __init__(self) -> None:
        self.num_checked = 0
        self.started: SystemStarted | None = None

    @property
    def whole(self) -> bool:
        """Tell whether the log has this run from its start."""
        return self.started is not None

    def begin(self, started: SystemStarted | None) -> None:
        """Forget the run before: another one begins, or (None) a log that lacks the start of its run."""
        self.started = started

    def see(self, event: Event) -> Iterator[Finding]:
        """Take the next record of the run; yield what it contradicts."""
        raise NotImplementedError

    def end(self) -> Iterator[Finding]:
        """The run was stopped cleanly: yield what it left undone."""
        yield from ()
