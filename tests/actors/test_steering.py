"""What people ask of single drafts while requests come and go, on the wired actors in virtual time."""

import asyncio
from pathlib import Path

import pytest

from memspec_actors.errors import InvalidRequest
from memspec_actors.protocols import events
from memspec_actors.protocols.messages import DraftWish, SteerDraft
from memspec_actors.protocols.results import ResidencySnapshot
from memspec_actors.telemetry.reader import read_events
from tests.actors.toys import DRAFTS, Faults
from tests.actors.world import World, check_log, read_to_end, run_world

POLICIES = ("memspec", "memspec+", "prediction-only", "mab-async", "mab-sync", "static:a")


async def steer(world: World, wish: DraftWish, name: str) -> ResidencySnapshot:
    answer = await world.wired.cache_manager.ask(SteerDraft(wish=wish, draft=name), timeout_s=None)
    assert isinstance(answer, ResidencySnapshot)
    return answer


def occupied_bytes(world: World) -> int:
    now = world.residency.snapshot(asyncio.get_running_loop().time())
    return now.resident_bytes + now.reserved_bytes


@pytest.mark.parametrize("policy", POLICIES)
def test_unloaded_drafts_do_not_come_back_for_a_request_that_is_over(policy: str, tmp_path: Path) -> None:
    """A ranking may come after its request has ended: whoever wants memory free would see it fill again."""

    async def scenario(world: World) -> None:
        for i in range(3):
            await read_to_end(world.request(i, policy, max_new_tokens=world.rng.randint(1, 40)))
            for name in DRAFTS:
                await steer(world, "unload", name)
            assert occupied_bytes(world) == 0, "an unload was answered before the memory was free"
            await asyncio.sleep(1.0)
            assert occupied_bytes(world) == 0, "a draft was loaded for nobody"

    for seed in range(8):
        world = run_world(seed, tmp_path / f"{seed}", Faults(rank_s=0.03), scenario)
        check_log(tmp_path / f"{seed}", 3, world.memory.budget, 2)


@pytest.mark.parametrize("policy", ["memspec", "memspec+", "prediction-only"])
def test_a_ranking_that_comes_after_the_end_of_its_request_loads_nothing(policy: str, tmp_path: Path) -> None:
    """Storage would be read, and memory filled, for a text that is written already."""

    async def scenario(world: World) -> None:
        await read_to_end(world.request(0, policy, max_new_tokens=2))
        await asyncio.sleep(20.0)

    num_late = 0
    for seed in range(5):
        run_world(seed, tmp_path / f"{seed}", Faults(rank_s=10.0), scenario)
        records = list(read_events(tmp_path / f"{seed}"))
        end = next(i for i, event in enumerate(records) if isinstance(event, events.RequestFinished))
        num_late += any(isinstance(event, events.PredictionMade) for event in records[end:])
        assert not any(isinstance(event, events.DraftLoadStarted) for event in records[end:])
    assert num_late, "every ranking came in time: nothing is tried"


def test_nothing_is_loaded_in_the_place_of_an_unloaded_draft_when_nobody_decodes(tmp_path: Path) -> None:
    """The room that somebody has just freed would be filled by the draft that ranked next."""

    async def scenario(world: World) -> None:
        await read_to_end(world.request(0, "mab-async"))
        await asyncio.sleep(1.0)
        resident = world.residency.snapshot(0.0).resident
        after = await steer(world, "unload", resident[0])
        await asyncio.sleep(1.0)
        assert (after.resident, after.loading) == (resident[1:], ())
        assert world.residency.snapshot(0.0).resident == resident[1:]

    for seed in range(5):
        run_world(seed, tmp_path / f"{seed}", Faults(), scenario)


def test_a_running_request_goes_on_without_an_unloaded_draft_and_the_next_may_have_it(tmp_path: Path) -> None:
    """An unload would be undone by the next ranking, a few iterations later; or hold for ever."""

    async def scenario(world: World) -> None:
        stream = world.request(0, "static:a", max_new_tokens=400)
        reading = asyncio.create_task(read_to_end(stream))
        await asyncio.sleep(0.5)
        assert world.residency.snapshot(0.0).active == "a"
        after = await steer(world, "unload", "a")
        assert (after.resident, after.loading, after.revoked) == ((), (), ())
        result = await reading
        assert result.token_ids == world.reference(stream)
        assert occupied_bytes(world) == 0
        again = await read_to_end(world.request(1, "static:a", max_new_tokens=80))
        assert again.scheduling.drafts["a"].iterations > 0

    for seed in range(5):
        run_world(seed, tmp_path / f"{seed}", Faults(), scenario)


async def _pin_both(world: World) -> bool:
    """Pin two drafts; tell whether this world has room for both."""
    for draft in ("a", "b"):
        pinned = await world.wired.cache_manager.ask(SteerDraft(wish="pin", draft=draft), timeout_s=None)
        if isinstance(pinned, InvalidRequest):
            return False
    return True


@pytest.mark.parametrize("slow", [{"prefill_s": 1e3}, {"step_s": 1e3}], ids=["prompt", "iteration"])
def test_a_draft_that_is_not_at_work_is_given_back_amid_whatever_is_decoded(
    slow: dict[str, float], tmp_path: Path
) -> None:
    """Its memory would stay taken until the end of a long prompt; and loads into its place would begin so late."""
    waits_s = []

    async def scenario(world: World) -> None:
        if not await _pin_both(world):
            return
        await asyncio.sleep(1.0)
        stream = world.request(0, "static:a", max_new_tokens=3)
        reading = asyncio.create_task(read_to_end(stream))
        await asyncio.sleep(1.0)
        began = asyncio.get_running_loop().time()
        after = await steer(world, "unload", "b")
        waits_s.append(asyncio.get_running_loop().time() - began)
        assert not reading.done(), "nothing took long: nothing is tried"
        assert "b" not in (*after.resident, *after.revoked)
        assert (await reading).token_ids == world.reference(stream)

    for seed in range(8):
        run_world(seed, tmp_path / f"{seed}", Faults(**slow), scenario)
    assert len(waits_s) > 2
    assert max(waits_s) < 0.1


def test_a_draft_that_reads_along_is_given_back_when_it_has_read_amid_whatever_is_decoded(tmp_path: Path) -> None:
    """Reading takes no longer than some tokens do; the iteration, or the next prompt, may be long."""
    waits_s = []

    async def scenario(world: World) -> None:
        if not await _pin_both(world):
            return
        await asyncio.sleep(10.0)
        stream = world.request(0, "hedge", max_new_tokens=400)
        reading = asyncio.create_task(read_to_end(stream))
        await asyncio.sleep(0.1)
        world.faults.step_s = 1e3
        await asyncio.sleep(0.05)
        began, now = asyncio.get_running_loop().time(), world.residency.snapshot(0.0)
        await steer(world, "unload", "b" if now.active == "a" else "a")
        waits_s.append(asyncio.get_running_loop().time() - began)
        assert not reading.done(), "nothing took long: nothing is tried"
        world.faults.step_s = 0.01
        assert (await reading).token_ids == world.reference(stream)

    for seed in range(12):
        run_world(seed, tmp_path / f"{seed}", Faults(warm_s=2.0), scenario)
    assert sum(wait_s > 0 for wait_s in waits_s) > 2, "no draft was reading: nothing is tried"
    assert max(waits_s) < 2.1


def test_an_unloaded_draft_that_is_asked_for_anew_is_loaded_anew(tmp_path: Path) -> None:
    async def scenario(world: World) -> None:
        await steer(world, "load", "a")
        await asyncio.sleep(1.0)
        await steer(world, "unload", "a")
        await steer(world, "load", "a")
        await asyncio.sleep(1.0)
        assert world.residency.snapshot(0.0).resident == ("a",)

    run_world(0, tmp_path / "log", Faults(), scenario)


@pytest.mark.parametrize("wish", ["pin", "load", "unload"])
def test_a_policy_that_waits_for_loads_does_not_wait_for_a_draft_that_will_not_come(
    wish: DraftWish, tmp_path: Path
) -> None:
    """With all room pinned, or its first choice unloaded, ``mab-sync`` would stand still for a minute an interval."""

    async def scenario(world: World) -> None:
        reading = asyncio.create_task(read_to_end(world.request(0, "mab-sync", max_new_tokens=80)))
        for _ in range(20):
            await asyncio.sleep(world.rng.uniform(0.0, 0.1))
            await steer(world, wish, "a" if wish == "pin" else world.rng.choice(DRAFTS))
        await reading

    waits = []
    for seed in range(8):
        run_world(seed, tmp_path / f"{seed}", Faults(), scenario, capacity=1)
        records = [event for event in read_events(tmp_path / f"{seed}") if isinstance(event, events.Iteration)]
        waits += [event.waited_us for event in records if event.waited_for == "load"]
    assert max(waits) < 1e6
