"""Wait for what other threads do, however busy the machine is."""

from collections.abc import Callable

import anyio

PATIENCE_S = 60.0


async def until(holds: Callable[[], object]) -> None:
    """Let the event loop run until something holds. Raises TimeoutError after a minute."""
    with anyio.fail_after(PATIENCE_S):
        while not holds():  # noqa: ASYNC110 - what is looked at tells nobody that it changes
            await anyio.sleep(0.001)
