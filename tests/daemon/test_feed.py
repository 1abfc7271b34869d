"""The event stream: if these fail, somebody who comes back misses events, or sees some twice."""

import asyncio
import json

import pytest

from memspec_actors.daemon.feed import EventFeed
from memspec_actors.protocols.events import ActorRestarted

pytestmark = pytest.mark.anyio


def fill(feed: EventFeed, num: int) -> None:
    for _ in range(num):
        feed.add(ActorRestarted(actor="loader", backoff_s=0.1, restarts=1))


async def read(feed: EventFeed, after: int, num: int) -> list[int]:
    """Read ``num`` events and return their numbers."""
    following = feed.follow(after, idle_s=60.0)
    try:
        numbers: list[int] = []
        while len(numbers) < num:
            numbers.extend(numbers_of(await anext(following)))
        return numbers
    finally:
        await following.aclose()


def numbers_of(batch: tuple[tuple[int, bytes], ...]) -> list[int]:
    """Return the numbers of a batch that is not empty; every event must know its own."""
    assert batch
    assert [json.loads(line)["seq"] for _, line in batch] == [number for number, _ in batch]
    return [number for number, _ in batch]


@pytest.mark.parametrize(("after", "expected"), [(0, [1, 2, 3]), (1, [2, 3]), (2, [3])])
async def test_a_follower_goes_on_after_the_number_it_names(after: int, expected: list[int]) -> None:
    feed = EventFeed()
    fill(feed, 3)
    assert await read(feed, after, len(expected)) == expected


async def test_what_is_kept_no_longer_shows_in_the_numbers() -> None:
    feed = EventFeed(kept=4)
    fill(feed, 10)
    assert await read(feed, 2, 4) == [7, 8, 9, 10]


async def test_a_number_of_an_earlier_daemon_stands_for_the_beginning() -> None:
    """A browser that reconnects after a restart would wait until the new daemon has written as many events."""
    feed = EventFeed()
    fill(feed, 3)
    assert await read(feed, 100, 3) == [1, 2, 3]


async def test_new_events_come_once_to_every_follower() -> None:
    feed = EventFeed(collect_s=0.0)
    fill(feed, 1)
    followers = [feed.follow(1, idle_s=60.0) for _ in range(2)]
    pending = [anext(follower) for follower in followers]
    waiting = [asyncio.ensure_future(each) for each in pending]
    await asyncio.sleep(0)
    fill(feed, 2)
    assert [numbers_of(await each) for each in waiting] == [[2, 3], [2, 3]]
    fill(feed, 1)  # while they are not looking
    for follower in followers:
        assert numbers_of(await anext(follower)) == [4]
        await follower.aclose()


async def test_events_gather_for_a_moment() -> None:
    """A send for each event and follower, many of them in an iteration, would take its time from decoding."""
    feed = EventFeed(collect_s=0.02)
    following = feed.follow(0, idle_s=60.0)
    first = asyncio.ensure_future(anext(following))
    for _ in range(3):
        await asyncio.sleep(0)
        fill(feed, 1)
    assert numbers_of(await first) == [1, 2, 3]
    await following.aclose()


async def test_idle_followers_are_told_and_closing_ends_them() -> None:
    """A dead connection is noticed by sending; and a daemon that stops must not wait for those who look on."""
    feed = EventFeed()
    following = feed.follow(0, idle_s=0.0)
    assert await anext(following) == ()
    feed.close()
    assert await anext(following, "ended") in ((), "ended")
    assert await anext(following, "ended") == "ended"


async def test_what_is_kept_is_sent_with_turns_for_others() -> None:
    """That a reader has gone would be noticed only after thousands of events, with a warning logged for each."""
    feed = EventFeed()
    fill(feed, 1000)
    turns: list[int] = []
    asyncio.get_running_loop().call_soon(turns.append, 1)
    following = feed.follow(0, idle_s=60.0)
    await anext(following)
    await anext(following)
    await following.aclose()
    assert turns
