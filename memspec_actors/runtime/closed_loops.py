"""What is left on an event loop that was closed too early."""

import asyncio
from contextlib import suppress

__all__ = ["break_off"]


def break_off(loop: asyncio.AbstractEventLoop) -> None:
    """Let nothing wait on a closed loop any more: it would for ever."""
    for task in asyncio.all_tasks(loop):
        coroutine = task.get_coro()
        if coroutine is not None:
            with suppress(Exception):  # whatever cleans up finds no loop
                coroutine.close()
