"""Stand still between two iterations, where the policy or the rules of a request wait by definition."""

from collections.abc import Awaitable, Callable

import anyio

from memspec_actors.actors.decoding.drafts_in_use import DraftsInUse
from memspec_actors.actors.decoding.run import Run
from memspec_actors.protocols.messages import WaitedFor
from memspec_actors.scheduling.waits import DEADLINE_S, Wait

__all__ = ["stand_still"]


async def stand_still(run: Run, drafts: DraftsInUse, take: Callable[[], Awaitable[bool]]) -> Wait | None:
    """Wait for all that is missing, one thing after the other; return None if nothing was.

    ``take`` waits for the Decoder's next message and handles it; it returns False if none comes any more.
    """
    started, waited_for = anyio.current_time(), None
    for what in run.waits_for:
        if run.misses(what, drafts.leases.newest):
            await _wait_for(what, run, drafts, take)
            waited_for = what
    return Wait(waited_for, (anyio.current_time() - started) * 1e6) if waited_for else None


async def _wait_for(what: WaitedFor, run: Run, drafts: DraftsInUse, take: Callable[[], Awaitable[bool]]) -> None:
    with anyio.move_on_after(DEADLINE_S[what]) as deadline:
        while not run.cancelled and run.misses(what, drafts.leases.newest):
            if what == "load":
                drafts.adopt()
                drafts.settle(())  # holds no draft meanwhile: it may be the one whose room is needed
            if not await take():
                break
    drafts.adopt()
    if deadline.cancelled_caught:
        run.give_up(what)
