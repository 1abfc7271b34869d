"""Things that are handed on a moment later, in virtual time."""

import anyio
import pytest

from memspec_actors.runtime.held import HOLD_S, Held
from memspec_actors.runtime.testing import run_virtual


class Receiver:
    """Who gets the things, and when."""

    def __init__(self) -> None:
        self.got: list[tuple[str, float]] = []
        self.held: Held[str] = Held(self._take)

    def _take(self, thing: str) -> None:
        self.got.append((thing, anyio.current_time()))


def test_things_are_handed_on_together_and_in_order_a_moment_after_the_first() -> None:
    """They would come while a thread begins its work, or in another order."""

    async def main() -> None:
        receiver, began = Receiver(), anyio.current_time()
        receiver.held.add("a")
        await anyio.sleep(HOLD_S / 2)
        receiver.held.add("b")
        assert receiver.got == []
        await anyio.sleep(HOLD_S)
        receiver.held.add("c")
        await anyio.sleep(2 * HOLD_S)
        things, times = zip(*receiver.got, strict=True)
        assert things == ("a", "b", "c")
        assert [time - began for time in times] == pytest.approx([HOLD_S, HOLD_S, 2.5 * HOLD_S])

    run_virtual(main)


def test_what_is_released_is_handed_on_at_once_and_only_once() -> None:
    """Whoever waits for the last of them would wait for nothing, or get it twice."""

    async def main() -> None:
        receiver, now = Receiver(), anyio.current_time()
        receiver.held.add("a")
        receiver.held.add("b")
        receiver.held.release()
        receiver.held.release()
        assert receiver.got == [("a", now), ("b", now)]
        await anyio.sleep(2 * HOLD_S)
        assert len(receiver.got) == 2

    run_virtual(main)


def test_what_a_receiver_adds_is_not_lost() -> None:
    async def main() -> None:
        got: list[int] = []

        def take(number: int) -> None:
            got.append(number)
            if number < 3:
                held.add(number + 1)

        held = Held(take)
        held.add(1)
        await anyio.sleep(4 * HOLD_S)
        assert got == [1, 2, 3]

    run_virtual(main)
