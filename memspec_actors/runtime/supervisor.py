"""The system of actors: starts them in order, keeps them alive, stops them in reverse."""

import asyncio
import atexit
import weakref
from collections.abc import Callable
from types import TracebackType
from typing import Any, NoReturn, Self, TypeVar

import anyio

from memspec_actors.errors import SystemFailed
from memspec_actors.runtime.actor import Actor
from memspec_actors.runtime.closed_loops import break_off
from memspec_actors.runtime.events import Failed, RuntimeEvent
from memspec_actors.runtime.mailbox import MailboxPolicy
from memspec_actors.runtime.onlookers import show
from memspec_actors.runtime.ref import ActorRef
from memspec_actors.runtime.restart import RestartPolicy
from memspec_actors.runtime.supervised import Supervised, sole_cause

__all__ = ["ActorSystem"]

M = TypeVar("M")

_entered: "weakref.WeakSet[ActorSystem]" = weakref.WeakSet()


class ActorSystem:
    """Run actors one-for-one supervised: ``async with system`` starts what was spawned and stops it at the end.

    ``observer`` is called synchronously with every RuntimeEvent. ``stop_timeout_s`` is what each actor gets to finish
    its running handler, and again to clean up. When an actor exceeds its restart limit the system stops, and
    ``failure`` says why; leaving the block does not raise it. The block may be entered and left in different tasks.
    """

    def __init__(self, *, observer: Callable[[RuntimeEvent], None] | None = None, stop_timeout_s: float = 5.0) -> None:
        self.failure: SystemFailed | None = None
        self._on_event = observer
        self._stop_timeout_s = stop_timeout_s
        self._actors: dict[str, Supervised[Any]] = {}
        self._supervisor: asyncio.Task[None] | None = None
        self._settled = asyncio.Event()  # every actor has started, or one could not
        self._starting: anyio.CancelScope | None = None
        self._stop = asyncio.Event()
        self._failed = asyncio.Event()

    def spawn(
        self,
        name: str,
        factory: Callable[[], Actor[M]],
        *,
        mailbox: MailboxPolicy | None = None,
        restart: RestartPolicy | None = None,
    ) -> ActorRef[M]:
        """Add an actor and return its ref, which may be used at once; it starts with the system.

        ``factory`` makes each incarnation. Raises ValueError for a name that is taken, RuntimeError once the system was
        started.
        """
        if self._supervisor is not None:
            raise RuntimeError(f"cannot spawn {name!r}: the system was started already")
        if name in self._actors:
            raise ValueError(f"an actor named {name!r} exists already; choose another name")
        actor = Supervised(
            name,
            factory,
            mailbox=mailbox or MailboxPolicy(),
            restart=restart or RestartPolicy(),
            stop_timeout_s=self._stop_timeout_s,
            observe=self._observe,
            give_up=self._give_up,
        )
        self._actors[name] = actor
        return actor.ref

    def mailbox_peaks(self) -> dict[str, int]:
        """Return the most messages that were ever queued for each actor."""
        return {name: actor.mailbox.peak for name, actor in self._actors.items()}

    async def wait_failed(self) -> SystemFailed:
        """Wait until an actor exceeds its restart limit; return the failure."""
        await self._failed.wait()
        assert self.failure is not None
        return self.failure

    async def __aenter__(self) -> Self:
        """Start the actors in the order of spawning.

        Raises the error of the first ``started`` that fails, as it is, after those before it were stopped again.
        """
        if self._supervisor is not None:
            raise RuntimeError("a system of actors can be started only once")
        # One task of its own holds the task group, so that no cancel scope is left open in the caller's task.
        self._supervisor = asyncio.create_task(self._supervise(), name="actor-system")
        _entered.add(self)
        atexit.unregister(_leave_entered)
        atexit.register(_leave_entered)  # last, to be the first that runs: while threads still do what actors ask for
        try:
            await self._settled.wait()
        except asyncio.CancelledError:
            await self._shut_down(self._supervisor)
            raise
        if self.failure is not None or self._supervisor.done():
            await self._shut_down(self._supervisor)
            self._raise_startup_error(self._supervisor)
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Stop the actors in reverse order; a cancellation meanwhile kills them and then goes on."""
        assert self._supervisor is not None
        await self._shut_down(self._supervisor)

    async def _supervise(self) -> None:
        running: list[Supervised[Any]] = []
        try:
            async with anyio.create_task_group() as group:
                try:
                    with anyio.CancelScope() as self._starting:
                        for actor in self._actors.values():
                            await group.start(actor.live, name=actor.name)
                            running.append(actor)
                    self._settled.set()
                    await self._stop.wait()
                finally:
                    await self._stop_all(running)
        finally:
            self._settled.set()

    async def _stop_all(self, running: list[Supervised[Any]]) -> None:
        reason = "was stopped" if self.failure is None else f"was stopped: {self.failure}"
        for actor in reversed(running):
            await actor.stop(reason)
        for actor in self._actors.values():
            actor.close_intake(reason)

    async def _shut_down(self, supervisor: asyncio.Task[None]) -> None:
        self._request_stop()
        cancelled: asyncio.CancelledError | None = None
        with anyio.CancelScope(shield=True):
            while not supervisor.done():
                try:
                    await asyncio.wait((supervisor,))
                except asyncio.CancelledError as error:
                    cancelled = error
                    for actor in self._actors.values():
                        actor.kill()
        if cancelled is not None:
            raise cancelled

    def leave_at_exit(self) -> None:
        """Stop a system that nobody has left, on its own loop, if that is not running; break it off if that is closed.

        CPython before 3.12 crashes on tasks that are still waiting when asyncio is gone. Generators of that loop are
        closed, too: in one of them the system may have been entered.
        """
        supervisor = self._supervisor
        if supervisor is None or supervisor.done():
            return
        loop = supervisor.get_loop()
        if loop.is_closed():
            break_off(loop)
        elif not loop.is_running():
            loop.run_until_complete(self._shut_down(supervisor))
            loop.run_until_complete(loop.shutdown_asyncgens())

    def _raise_startup_error(self, supervisor: asyncio.Task[None]) -> NoReturn:
        error = supervisor.exception() or self.failure
        assert error is not None, "the supervisor ended though every actor had started"
        raise sole_cause(error) if isinstance(error, Exception) else error

    def _give_up(self, name: str, failure: SystemFailed) -> None:
        if self.failure is not None:
            return
        self.failure = failure
        self._observe(Failed(name, failure))
        self._failed.set()
        self._request_stop()

    def _request_stop(self) -> None:
        self._stop.set()
        if self._starting is not None:
            self._starting.cancel()  # without effect once every actor has started

    def _observe(self, event: RuntimeEvent) -> None:
        if self._on_event is not None:
            show(self._on_event, event)


def _leave_entered() -> None:
    for system in list(_entered):
        system.leave_at_exit()
