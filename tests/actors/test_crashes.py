"""Actors that die on the wired system, in virtual time: generation goes on, and nobody waits for ever."""

import asyncio
from pathlib import Path

import pytest

from memspec_actors.errors import ActorDied, MemSpecError
from memspec_actors.models.drafting.draft_cache import BoundDraft
from memspec_actors.models.session import DecodeSession
from memspec_actors.protocols import events
from memspec_actors.protocols.messages import GetResidency
from memspec_actors.scheduling.instructions import Instruction
from memspec_actors.telemetry.recorder import RequestRecorder
from tests.actors.toys import Faults
from tests.actors.world import World, check_log, read_to_end, run_world


@pytest.mark.parametrize("block", range(5))
def test_generation_goes_on_whoever_dies(block: int, tmp_path: Path) -> None:
    """Invariant 7: every actor but the Decoder crashes again and again."""
    crashed: set[str] = set()

    async def scenario(world: World) -> None:
        for i in range(3):
            stream = world.request(i, max_new_tokens=60)
            result = await read_to_end(stream)
            assert result.token_ids == world.reference(stream)
            await asyncio.sleep(60.0)  # so that the restart limits are not exceeded

    for seed in range(block * 20, block * 20 + 20):
        path = tmp_path / f"{seed}.jsonl"
        faults = Faults(load_crashes=0.1, rank_crashes=0.05, progress_crashes=0.1, statistics_crash=0.01)
        world = run_world(seed, path, faults, scenario)
        crashed |= {crash.actor for crash in world.crashes}
        records = check_log(path, 3, world.memory.budget, 2)
        assert sum(isinstance(event, events.ActorCrashed) for event in records) == len(world.crashes)
    assert crashed == {"predictor", "cache_manager", "loader", "verifier_stats"}


@pytest.mark.parametrize("seed", range(5))
def test_a_request_gets_its_drafts_though_its_beginning_killed_the_cache_manager(seed: int, tmp_path: Path) -> None:
    """Invariant 7: a manager that never heard whose text is decoded would take all its rankings for void ones."""

    async def scenario(world: World) -> None:
        await read_to_end(world.request(0, "static:b"))
        on_request, heard = world.residency.on_request, list[str | None]()

        def fails_once(request_id: str | None, now: float) -> list[Instruction]:
            heard.append(request_id)
            if request_id == "r1" and heard.count("r1") == 1:
                raise RuntimeError("the state machine has a bug")
            return on_request(request_id, now)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(world.residency, "on_request", fails_once)
            stream = world.request(1, "static:a", max_new_tokens=200)
            result = await read_to_end(stream)
        assert [crash.actor for crash in world.crashes] == ["cache_manager"]
        assert result.token_ids == world.reference(stream)
        assert result.scheduling.drafts.keys() == {"a"}
        assert result.scheduling.share.target_only < 0.5

    run_world(seed, tmp_path / "log.jsonl", Faults(), scenario, capacity=1)


@pytest.mark.parametrize("handler", ["on_ack", "on_warmed", "on_load_finished"])
def test_what_killed_the_cache_manager_is_heard_once_more(handler: str, tmp_path: Path) -> None:
    """Invariants 6 and 7: nobody says it again, and a place would be taken for ever by what came and went unheard."""

    async def scenario(world: World) -> None:
        await read_to_end(world.request(0, "static:b", max_new_tokens=80))
        handle, calls = getattr(world.residency, handler), list[object]()

        def fails_once(*heard: object) -> list[Instruction]:
            calls.append(heard)
            if len(calls) == 1:
                raise RuntimeError("the state machine has a bug")
            instructions: list[Instruction] = handle(*heard)
            return instructions

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(world.residency, handler, fails_once)
            stream = world.request(1, "static:a", max_new_tokens=200)
            result = await read_to_end(stream)
        assert [crash.actor for crash in world.crashes] == ["cache_manager"]
        assert result.token_ids == world.reference(stream)
        assert result.scheduling.drafts.keys() == {"a"}

    for seed in range(4):
        run_world(seed, tmp_path / f"{seed}", Faults(), scenario, capacity=1)


def test_what_kills_the_cache_manager_twice_is_given_up(tmp_path: Path) -> None:
    """Behaviour 20: it would die of the one message until the system stops."""

    def fails(*heard: object) -> list[Instruction]:
        raise RuntimeError("the state machine has a bug")

    async def scenario(world: World) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(world.residency, "on_load_finished", fails)
            stream = world.request(0, "static:a", max_new_tokens=200)
            assert (await read_to_end(stream)).token_ids == world.reference(stream)
        assert len(world.crashes) == 2
        await world.wired.cache_manager.ask(GetResidency(), timeout_s=None)

    run_world(0, tmp_path / "log.jsonl", Faults(), scenario, capacity=1)


@pytest.mark.parametrize("seed", range(10))
def test_generation_goes_on_when_what_it_waits_for_dies(seed: int, tmp_path: Path) -> None:
    """Invariant 7 where rules learn in step: thresholds that never come would hang the request."""

    async def scenario(world: World) -> None:
        for i in range(3):
            stream = world.request(i, max_new_tokens=60)
            result = await read_to_end(stream)
            assert result.token_ids == world.reference(stream)
            await asyncio.sleep(60.0)

    run_world(seed, tmp_path / "log.jsonl", Faults(statistics_crash=0.02), scenario, prediction="inline")


def test_a_decoder_that_dies_fails_its_requests_by_name_and_serves_the_next(tmp_path: Path) -> None:
    """Behaviour 20: nobody waits for ever on a dead actor."""

    async def scenario(world: World) -> None:
        bad, waiting = world.request(0), world.request(1)
        world.target.alive = False  # the target's forward pass fails with an AssertionError
        outcomes = await asyncio.gather(read_to_end(bad), read_to_end(waiting), return_exceptions=True)
        assert all(isinstance(error, MemSpecError) and "'decoder'" in str(error) for error in outcomes), outcomes
        world.target.alive = True
        stream = world.request(2)
        assert (await read_to_end(stream)).token_ids == world.reference(stream)

    world = run_world(0, tmp_path / "log", Faults(), scenario)
    assert [crash.actor for crash in world.crashes] == ["decoder"]
    check_log(tmp_path / "log", 3, world.memory.budget, 2)


@pytest.mark.parametrize("policy", ["memspec", "hedge"])
def test_a_decoder_that_dies_of_work_beside_decoding_says_of_what(policy: str, tmp_path: Path) -> None:
    """Behaviour 20: callers would be told that the engine was closed, and it serves the next."""

    def fails(session: DecodeSession, bound: BoundDraft) -> int:
        raise RuntimeError("the draft has a bug")

    async def scenario(world: World) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(DecodeSession, "warm", fails)
            requests = [world.request(i, policy, max_new_tokens=200) for i in range(2)]
            outcomes = await asyncio.gather(*map(read_to_end, requests), return_exceptions=True)
        assert [str(error) for error in outcomes] == [
            "actor 'decoder' crashed: RuntimeError('the draft has a bug')"
        ] * 2
        stream = world.request(2, policy)
        assert (await read_to_end(stream)).token_ids == world.reference(stream)

    world = run_world(0, tmp_path / "log", Faults(), scenario)
    check_log(tmp_path / "log", 3, world.memory.budget, 2)


def test_a_request_that_kills_the_decoder_as_it_is_taken_on_is_failed_too(tmp_path: Path) -> None:
    """Invariant 8: it is out of the mailbox and not in the queue yet; its caller would wait for ever."""

    def fails(accepted: RequestRecorder) -> None:
        raise RuntimeError("no record can be made of it")

    async def scenario(world: World) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(RequestRecorder, "_log_acceptance", fails)
            with pytest.raises(ActorDied, match=r"'decoder' crashed: .*no record"):
                await read_to_end(world.request(0))
        await read_to_end(world.request(1))

    run_world(0, tmp_path / "log", Faults(), scenario)


def test_no_draft_is_warmed_after_its_memory_was_given_back_though_the_decoder_dies(tmp_path: Path) -> None:
    """Its next life finds in its mailbox what the last was asked to warm: another draft may lie there by then."""

    async def scenario(world: World) -> None:
        for i in range(6):
            streams = [world.request(2 * i + j, world.rng.choice(["memspec", "static:a"])) for j in range(2)]
            await asyncio.gather(*map(read_to_end, streams), return_exceptions=True)
            await asyncio.sleep(60.0 if i % 3 == 2 else world.rng.choice([0.0, 0.1]))
        assert not world.residency.snapshot(0.0).loading, "a draft waits for ever to be warmed"

    crashes = []
    for seed in range(20):
        world = run_world(seed, tmp_path / f"{seed}", Faults(session_crashes=0.25, warm_s=0.4), scenario)
        check_log(tmp_path / f"{seed}", 12, world.memory.budget, 2)
        crashes += [(crash.actor, str(crash.error)) for crash in world.crashes]
    assert len(crashes) > 30
    assert set(crashes) == {("decoder", "no memory for a cache")}


def test_a_request_whose_session_cannot_be_opened_is_failed_too(tmp_path: Path) -> None:
    """Invariant 8: between queue and decoding a request belongs to nobody's list; its caller would wait for ever."""

    async def scenario(world: World) -> None:
        outcomes = await asyncio.gather(*(read_to_end(world.request(i)) for i in range(2)), return_exceptions=True)
        assert all(isinstance(error, MemSpecError) and "no memory" in str(error) for error in outcomes), outcomes

    world = run_world(0, tmp_path / "log", Faults(session_crashes=1.0), scenario)
    check_log(tmp_path / "log", 2, world.memory.budget, 2)
