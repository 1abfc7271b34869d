"""A small system of crashing actors under many seeds: whatever the interleaving, the books balance."""

import asyncio
import random
from collections import Counter
from dataclasses import dataclass, field

import anyio

from memspec_actors.errors import ActorDied, AskTimeout, MailboxFull
from memspec_actors.runtime import (
    Actor,
    ActorRef,
    ActorSystem,
    Crashed,
    DeadLetter,
    MailboxPolicy,
    RestartPolicy,
    RuntimeEvent,
)
from memspec_actors.runtime.testing import VirtualWorkers, run_virtual

SEEDS = 500


@dataclass(frozen=True)
class Ball:
    """A tell that must be handled once, in order, unless a crash or the end of the system takes it."""

    player: str
    number: int


@dataclass(frozen=True)
class Score:
    """Latest-wins: the number of balls a player has sent."""

    player: str
    balls: int


@dataclass
class Books:
    """What went in and what came out."""

    sent: list[Ball] = field(default_factory=list)
    refused: int = 0
    handled: list[Ball] = field(default_factory=list)
    lost: list[Ball] = field(default_factory=list)
    scores: list[Score] = field(default_factory=list)
    asks: Counter[str] = field(default_factory=Counter)
    events: list[RuntimeEvent] = field(default_factory=list)
    end_s: float = 0.0


class Table(Actor[Ball | Score]):
    """Take balls, some of which it dies of; answer with the ball's number after some work on its thread."""

    def __init__(self, books: Books, workers: VirtualWorkers) -> None:
        self.books = books
        self.workers = workers

    async def receive(self, message: Ball | Score) -> int:
        if isinstance(message, Score):
            self.books.scores.append(message)
            return message.balls
        if message.number % 7 == 5:
            self.books.lost.append(message)
            raise ValueError(f"ball {message.number}")
        self.books.handled.append(message)
        return await self.workers.run(abs, message.number)


async def play(name: str, table: ActorRef[Ball | Score], books: Books, luck: random.Random) -> None:
    for number in range(9):
        ball = Ball(name, number)
        match luck.randrange(4):
            case 0:
                question = Ball(name, 100 + luck.randrange(7))
                books.asks[await ask(table, question, timeout_s=luck.choice((0.01, 0.1)))] += 1
            case 1:
                await table.send(ball)
                books.sent.append(ball)
            case _:
                try:
                    table.tell(ball)
                    books.sent.append(ball)
                except MailboxFull:
                    books.refused += 1
        table.tell(Score(name, number))
        await anyio.sleep(luck.choice((0.0, 0.0, 0.01)))


async def ask(table: ActorRef[Ball | Score], ball: Ball, timeout_s: float) -> str:
    try:
        answer = await table.ask(ball, timeout_s=timeout_s)
    except ActorDied as error:
        assert "actor 'table'" in str(error)
        return "died"
    except AskTimeout:
        return "timeout"
    assert answer == ball.number
    return "answered"


def history(seed: int) -> Books:
    """Play one game; the seed draws both the players' luck and the interleaving."""
    books = Books()

    async def game() -> None:
        workers = VirtualWorkers(cost_s=0.004)
        policy = MailboxPolicy(3, latest={Score: lambda score: score.player})
        restart = RestartPolicy(max_restarts=100, backoff_s=0.01, max_backoff_s=0.02)
        system = ActorSystem(observer=books.events.append)
        table = system.spawn("table", lambda: Table(books, workers), mailbox=policy, restart=restart)
        async with system, anyio.create_task_group() as group:
            for i in range(3):
                group.start_soon(play, f"player {i}", table, books, random.Random(seed * 3 + i))
        assert asyncio.all_tasks() == {asyncio.current_task()}
        books.end_s = asyncio.get_running_loop().time()

    run_virtual(game, seed=seed)
    return books


def check(books: Books) -> None:
    told = [ball for ball in books.handled + books.lost if ball.number < 100]
    dead = Counter(event.message_type for event in books.events if isinstance(event, DeadLetter))
    assert len(told) + dead["Ball"] == len(books.sent), "a ball was lost or handled twice"
    assert len(set(told)) == len(told)
    for i in range(3):
        mine = [ball.number for ball in books.handled if ball.player == f"player {i}" and ball.number < 100]
        assert mine == sorted(mine), "balls of one sender were reordered"
        scores = [score.balls for score in books.scores if score.player == f"player {i}"]
        assert scores == sorted(set(scores)), "an outdated score was delivered after a newer one"
    assert sum(isinstance(event, Crashed) for event in books.events) == len(books.lost)


def test_the_books_balance_in_every_interleaving() -> None:
    """Under some interleaving a message would be lost, doubled or reordered, an ask left hanging, or a task leaked."""
    outcomes: Counter[str] = Counter()
    for seed in range(SEEDS):
        books = history(seed)
        check(books)
        outcomes.update(books.asks)
        outcomes.update(type(event).__name__ for event in books.events)
        outcomes["refused"] += books.refused
    # The histories must contain what they are meant to try.
    for outcome in ("answered", "died", "timeout", "refused", "Crashed", "Restarted", "DeadLetter"):
        assert outcomes[outcome] >= 20, f"{outcome} was hardly ever tried: {outcomes}"


def test_a_history_is_repeatable() -> None:
    """A failing seed could not be replayed."""
    first, again = history(11), history(11)
    assert (first.handled, first.scores, first.asks, first.end_s) == (
        again.handled,
        again.scores,
        again.asks,
        again.end_s,
    )
