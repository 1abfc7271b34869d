"""One actor and its lives: run it, and run a fresh one when it dies."""

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

import anyio
from anyio.abc import TaskStatus

from memspec_actors.errors import ActorDied, ActorError, SystemFailed
from memspec_actors.runtime.actor import Actor
from memspec_actors.runtime.events import Crashed, DeadLetter, Restarted, RuntimeEvent
from memspec_actors.runtime.mailbox import Mailbox, MailboxPolicy
from memspec_actors.runtime.ref import ActorRef
from memspec_actors.runtime.restart import RestartHistory, RestartPolicy

__all__ = ["Supervised", "sole_cause"]

M = TypeVar("M")


class Supervised(Generic[M]):
    """Keep one actor alive within its restart limit; beyond it, call ``give_up(name, failure)`` and end."""

    def __init__(
        self,
        name: str,
        factory: Callable[[], Actor[M]],
        *,
        mailbox: MailboxPolicy,
        restart: RestartPolicy,
        stop_timeout_s: float,
        observe: Callable[[RuntimeEvent], None],
        give_up: Callable[[str, SystemFailed], None],
    ) -> None:
        self.name = name
        self.mailbox: Mailbox[M] = Mailbox(name, mailbox)
        self.ref: ActorRef[M] = ActorRef(self.mailbox, observe)
        self._factory = factory
        self._restart = restart
        self._history = RestartHistory(restart)
        self._restarts = 0
        self._stop_timeout_s = stop_timeout_s
        self._observe = observe
        self._give_up = give_up
        self._ended = asyncio.Event()
        self._closing = asyncio.Event()
        self._scope: anyio.CancelScope | None = None
        self._has_started = False

    async def live(self, *, task_status: TaskStatus[None]) -> None:
        """Run incarnations until the actor is stopped; an error of the first ``started`` is raised as it is."""
        try:
            with anyio.CancelScope() as self._scope:
                await self._lives(task_status)
        finally:
            self.close_intake("was stopped")
            self.mailbox.fail_asks(self._obituary)
            self._ended.set()

    async def stop(self, reason: str) -> None:
        """Let the running handler finish, within the deadline; deliver nothing more; wait for the end."""
        self.close_intake(reason)
        with anyio.move_on_after(self._stop_timeout_s):
            await self._ended.wait()
        if not self._ended.is_set():
            overdue = f"actor {self.name!r} did not stop within {self._stop_timeout_s:g} s; it is cancelled"
            self._tell_crash(TimeoutError(overdue))
            self.kill()
            await self._ended.wait()

    def close_intake(self, reason: str) -> None:
        """Take and deliver nothing more: queued asks fail, queued tells are dead letters."""
        self._closing.set()
        for envelope in self.mailbox.close(reason):
            if envelope.reply is None:
                self._observe(DeadLetter(self.name, type(envelope.message).__name__))
            else:
                envelope.fail(self._obituary())

    def kill(self) -> None:
        """Cancel the actor where it stands."""
        if self._scope is not None:
            self._scope.cancel()

    async def _lives(self, task_status: TaskStatus[None]) -> None:
        backoff_s = 0.0
        while (crash := await self._life(task_status, backoff_s)) is not None:
            next_backoff_s = self._next_backoff_s(crash)
            if next_backoff_s is None or await self._closed_within(next_backoff_s):
                return
            backoff_s = next_backoff_s
            self._restarts += 1

    async def _life(self, task_status: TaskStatus[None], backoff_s: float) -> Exception | None:
        """Run one incarnation; return what it died of, None if it was stopped."""
        actor: Actor[M] | None = None
        try:
            actor = self._factory()
            async with anyio.create_task_group() as tasks:
                actor.name, actor.tasks = self.name, tasks
                await self._perform(actor, task_status, backoff_s)
                tasks.cancel_scope.cancel()
        except Exception as error:
            if not self._has_started:
                raise
            crash = sole_cause(error)
            if actor is not None:
                actor.crash = crash
            self._announce_crash(crash)  # before the clean-up, which may take its time
            return crash
        finally:
            if actor is not None:
                await self._clean_up(actor)
        return None

    async def _perform(self, actor: Actor[M], task_status: TaskStatus[None], backoff_s: float) -> None:
        try:
            await actor.started()
            self._announce_start(task_status, backoff_s)
            if self.mailbox.beside is not None:
                actor.tasks.start_soon(Actor.run, actor, self.mailbox.beside)
            await actor.run(self.mailbox)
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            # Nobody cancelled the actor: it awaited something that was cancelled. Left alone it would vanish silently.
            raise ActorError(f"actor {self.name!r} awaited something that was cancelled") from error
        if not self.mailbox.closed:
            raise ActorError(f"run() of actor {self.name!r} returned although nobody stopped it")

    async def _clean_up(self, actor: Actor[M]) -> None:
        try:
            with anyio.fail_after(self._stop_timeout_s, shield=True):
                await actor.stopped()
        except Exception as error:  # noqa: BLE001 - what killed the actor, if anything did, matters more
            self._tell_crash(error)

    def _announce_start(self, task_status: TaskStatus[None], backoff_s: float) -> None:
        if self._has_started:
            self._observe(Restarted(self.name, backoff_s, self._restarts))
        else:
            self._has_started = True
            task_status.started()

    def _announce_crash(self, error: Exception) -> None:
        self._tell_crash(error)
        self.mailbox.fail_asks(lambda: _died(self.name, f"crashed: {error!r}", error))

    def _tell_crash(self, error: Exception) -> None:
        self._observe(Crashed(self.name, error, self._restarts, stopping=self.mailbox.closed))

    def _next_backoff_s(self, crash: Exception) -> float | None:
        """Return how long to wait before the next life, None if there is none."""
        if self.mailbox.closed:
            return None
        backoff_s = self._history.crash(asyncio.get_running_loop().time())
        if backoff_s is None:
            self._give_up(self.name, self._failure(crash))
            self.close_intake(f"was not restarted after it crashed: {crash!r}")
        return backoff_s

    def _failure(self, crash: Exception) -> SystemFailed:
        policy = self._restart
        times = ""
        if policy.max_restarts:
            times = f" {policy.max_restarts + 1} times within {policy.within_s:g} s, the last time"
        failure = SystemFailed(f"actor {self.name!r} crashed{times} with {crash!r}; the system stops")
        failure.__cause__ = crash
        return failure

    async def _closed_within(self, seconds: float) -> bool:
        with anyio.move_on_after(seconds):
            await self._closing.wait()
        return self.mailbox.closed

    def _obituary(self) -> ActorDied:
        return _died(self.name, self.mailbox.closed_because or "was stopped", None)


def sole_cause(error: Exception) -> Exception:
    """Unwrap exception groups that hold a single exception, as task groups raise them."""
    while isinstance(error, ExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


def _died(name: str, how: str, cause: Exception | None) -> ActorDied:
    died = ActorDied(f"actor {name!r} {how}")
    died.__cause__ = cause
    return died
