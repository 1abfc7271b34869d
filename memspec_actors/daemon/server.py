"""Run the daemon: listen at once, load beside, serve, and on a signal drain and end."""

import asyncio
import gc
import os
import resource
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from math import ceil

import anyio
import uvicorn

from memspec_actors.daemon.app import create_app
from memspec_actors.daemon.http.connection import Connection
from memspec_actors.daemon.http.listening import address_of, listen
from memspec_actors.daemon.service import Service
from memspec_actors.engine import MemSpec

__all__ = ["serve"]

END_S = 1.0  # after the drain's deadline, what is still open has so long to be told and to close
CERTAIN_END_S = 0.5  # after that the process ends, whatever hangs: a model that is being loaded, a caller that is not
KEEP_ALIVE_S = 75  # longer than clients keep an idle connection: one that we close may be just about to be used
SIGNALS = (signal.SIGINT, signal.SIGTERM)


async def serve(service: Service, announce: Callable[[str], None]) -> int:
    """Serve until a signal comes; return the signal's number. ``announce`` hears what to tell the user.

    Raises ConfigError if the daemon cannot listen, what MemSpec.open raises, and SystemFailed if the engine ends.
    """
    _take_all_descriptors()
    with listen(service.config) as listener:
        announce(f"serving {service.model_name} on {address_of(listener)}, loading models")
        server = _Server(service)
        with _on_signals(server.drain):
            async with anyio.create_task_group() as group:
                group.start_soon(_run_engine, service, announce, server)
                await server.serve(sockets=[listener])
                if not service.close():
                    group.cancel_scope.cancel()  # it is still being opened
    if server.failure is not None:
        raise server.failure
    return server.signal


def _take_all_descriptors() -> None:
    """Allow as many open connections as the process may have: a shell, or systemd, gives it 1024 to begin with."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):  # "unlimited" is more than some systems grant
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


async def _run_engine(service: Service, announce: Callable[[str], None], server: "_Server") -> None:
    try:
        async with MemSpec.open(service.engine_config, on_event=service.observe) as engine:
            gc.collect()
            gc.freeze()  # what is loaded stays: looking through all of it again would stop the loop for 30 ms and more
            announce("ready")
            await service.run(engine)
    except Exception as error:  # noqa: BLE001 (callers are told first, then `serve` raises it)
        server.fail(error)


class _Server(uvicorn.Server):
    """A server that leaves signals to the daemon."""

    def __init__(self, service: Service) -> None:
        drain_s = service.config.drain_timeout_s
        super().__init__(
            uvicorn.Config(
                create_app(service),
                http=Connection,
                ws="none",
                lifespan="off",
                log_config=None,
                log_level="error",  # nothing that a client does makes the daemon write
                access_log=False,
                server_header=False,
                proxy_headers=False,
                timeout_keep_alive=KEEP_ALIVE_S,
                timeout_graceful_shutdown=ceil(drain_s + END_S),
            )
        )
        self.signal = 0
        self.failure: Exception | None = None
        self._service = service

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    def drain(self, number: int) -> None:
        """Take no more requests, give running ones until the deadline, and end; a second signal ends at once."""
        if self.should_exit:
            _exit(128 + number)
        self.signal = number
        self._end_within(self._service.config.drain_timeout_s if self._service.phase == "ok" else 0.0, 128 + number)

    def fail(self, error: Exception) -> None:
        """End since the engine has ended: its requests are told so, and nothing is waited for."""
        if not self.should_exit:
            self.failure = error
            self._end_within(0.0, 1)

    def _end_within(self, drain_s: float, exit_code: int) -> None:
        self.should_exit = True
        self._service.drain()
        loop = asyncio.get_running_loop()
        loop.call_later(drain_s, self._service.generations.cancel_all)
        loop.call_later(drain_s + END_S / 2, self._hang_up)
        signal.signal(signal.SIGALRM, lambda *_: _exit(exit_code))
        signal.setitimer(signal.ITIMER_REAL, ceil(drain_s + END_S) + CERTAIN_END_S)

    def _hang_up(self) -> None:
        """Let go of those who do not take what they are told, or have not told all of what they ask for."""
        for connection in list(self.server_state.connections):
            connection.transport.abort()


def _exit(code: int) -> None:
    os._exit(code)  # every record of the event log is one write: none is torn


@contextmanager
def _on_signals(call: Callable[[int], None]) -> Iterator[None]:
    loop = asyncio.get_running_loop()
    for number in SIGNALS:
        loop.add_signal_handler(number, call, int(number))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        for number in SIGNALS:
            loop.remove_signal_handler(number)
