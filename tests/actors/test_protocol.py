"""The five actors, really wired, on toy models in virtual time: thousands of interleavings, crashes and cancellations.

What would be wrong if these fail: a draft decoded with after its memory was given away, a request that never ends, a
text that is not the target's own, or generation that stops because a helper actor died.
"""

import asyncio
import itertools
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from memspec_actors.errors import MailboxFull, MemSpecError, Overloaded, UsageError
from memspec_actors.protocols import events
from memspec_actors.protocols.events import Event
from memspec_actors.protocols.messages import Generate, ResidentDraft
from memspec_actors.protocols.results import GenerationResult
from memspec_actors.scheduling.instructions import Instruction
from memspec_actors.stream import MAX_OPEN_REQUESTS
from memspec_actors.telemetry.reader import read_events
from tests.actors.world import (
    DRAFTS,
    POLICIES,
    Faults,
    World,
    check_log,
    read_to_end,
    run_world,
)


@pytest.mark.parametrize("block", range(10))
def test_invariants_hold_in_every_interleaving_of_five_requests(block: int, tmp_path: Path) -> None:
    """Behaviours 7, 14, 15: five requests, some of them naming one of five drafts while two fit."""

    async def scenario(world: World) -> None:
        policies = [world.rng.choice([*POLICIES, f"static:{name}"]) for name in DRAFTS]
        streams = [world.request(i, policy) for i, policy in enumerate(policies)]
        results = await asyncio.gather(*map(read_to_end, streams))
        for stream, result in zip(streams, results, strict=True):
            assert result.token_ids == world.reference(stream), "invariant 5"
            assert result.finish_reason == "length"

    for seed in range(block * 20, block * 20 + 20):
        path = tmp_path / f"{seed}.jsonl"
        world = run_world(seed, path, Faults(load_fails=0.1 if seed % 2 else 0.0), scenario)
        check_log(path, 5, world.memory.budget, 2)
        assert not world.crashes


def test_a_seed_gives_the_same_history_again(tmp_path: Path) -> None:
    """A failure of these tests could not be looked into: the next run would be another one."""

    async def scenario(world: World) -> None:
        await asyncio.gather(*(read_to_end(world.request(i, policy)) for i, policy in enumerate(POLICIES)))

    def history(path: Path) -> list[object]:
        run_world(5, path, Faults(load_fails=0.1), scenario)
        read = [event for event in read_events(path) if isinstance(event, Event)]
        return [
            (event.draft, event.accepted, event.epoch)
            if isinstance(event, events.Iteration)
            else (type(event), getattr(event, "draft", None), getattr(event, "order", None))
            for event in read
        ]

    assert history(tmp_path / "once") == history(tmp_path / "again")


def test_a_request_that_names_a_draft_gets_it_whoever_else_waits(tmp_path: Path) -> None:
    """Behaviour 14: five requests, five drafts, room for one or two; a draft of another request might stay for ever."""

    async def scenario(world: World) -> None:
        streams = [world.request(i, f"static:{name}") for i, name in enumerate(DRAFTS)]
        results = await asyncio.gather(*map(read_to_end, streams))
        for name, result in zip(DRAFTS, results, strict=True):
            assert result.scheduling.drafts.keys() == {name}
            assert result.scheduling.drafts[name].iterations > 0

    for seed in range(5):
        run_world(seed, tmp_path / f"{seed}", Faults(), scenario)


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


@pytest.mark.parametrize("block", range(5))
def test_abandoning_a_stream_at_any_moment_leaves_nothing_behind(block: int, tmp_path: Path) -> None:
    """Behaviour 18: break, cancellation, timeout and cancel() at random moments; the next request is served as ever."""

    async def abandon(world: World, index: int) -> None:
        stream = world.request(index, max_new_tokens=400)
        how = world.rng.choice(["break", "timeout", "task", "cancel"])
        if how == "break":
            async for _ in stream:
                if world.rng.random() < 0.2:
                    break
        elif how == "timeout":
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(world.rng.uniform(0, 0.2)):
                    await read_to_end(stream)
        elif how == "task":
            task = asyncio.create_task(read_to_end(stream))
            await asyncio.sleep(world.rng.uniform(0, 0.2))
            task.cancel()
            await asyncio.wait((task,))
        else:
            asyncio.get_running_loop().call_later(world.rng.uniform(0.001, 0.2), stream.cancel)
            result = await read_to_end(stream)
            assert result.finish_reason == "cancelled"
            assert result.token_ids == world.reference(stream)[: len(result.token_ids)]

    async def scenario(world: World) -> None:
        await asyncio.gather(*(abandon(world, i) for i in range(4)))
        stream = world.request(4)
        result = await read_to_end(stream)
        assert result.token_ids == world.reference(stream)
        assert not world.requests._open

    for seed in range(block * 20, block * 20 + 20):
        path = tmp_path / f"{seed}.jsonl"
        world = run_world(seed, path, Faults(load_fails=0.05), scenario)
        records = [event for event in read_events(path) if isinstance(event, Event)]
        accepted = [event.request_id for event in records if isinstance(event, events.RequestAccepted)]
        check = [event.request_id for event in records if isinstance(event, events.RequestFinished)]
        assert sorted(map(str, accepted)) == sorted(map(str, check)), "invariant 8"
        assert not world.crashes


def test_inline_prediction_waits_and_says_so(tmp_path: Path) -> None:
    """With inline prediction every interval is decoded with its own ranking; the log must show the wait."""

    async def scenario(world: World) -> None:
        stream = world.request(0)
        assert (await read_to_end(stream)).token_ids == world.reference(stream)

    run_world(3, tmp_path / "log", Faults(), scenario, prediction="inline")
    records = [event for event in read_events(tmp_path / "log") if isinstance(event, events.Iteration)]
    assert any(event.waited_for == "prediction" and event.waited_us > 0 for event in records)


def test_rules_that_learn_in_step_wait_for_no_more_than_what_they_learn(tmp_path: Path) -> None:
    """What an iteration teaches would lie about while the next one waits for it."""
    waits: list[float] = []

    async def scenario(world: World) -> None:
        for i in range(3):
            await read_to_end(world.request(i))

    for seed in range(5):
        path = tmp_path / f"{seed}"
        run_world(seed, path, Faults(), scenario)
        records = [event for event in read_events(path) if isinstance(event, events.Iteration)]
        waits += [event.waited_us for event in records if event.waited_for == "thresholds"]
    assert waits
    assert max(waits) == 0, "nobody has anything to compute in virtual time"


def test_mab_sync_never_drafts_with_a_second_choice_and_says_that_it_waited(tmp_path: Path) -> None:
    """The blocking baseline of the paper would fall back like the asynchronous one, or hide where its time went."""
    results: list[GenerationResult] = []

    async def scenario(world: World) -> None:
        stream = world.request(0, "mab-sync", max_new_tokens=80)
        results.append(await read_to_end(stream))
        assert results[-1].token_ids == world.reference(stream)

    for seed in range(10):
        path = tmp_path / f"{seed}"
        run_world(seed, path, Faults(), scenario, capacity=1 + seed % 2)
        records = [event for event in read_events(path) if isinstance(event, events.Iteration)]
        assert {event.share for event in records if event.drafted} == {"desired"}
        waits = [event for event in records if event.waited_for == "load"]
        assert waits and all(event.waited_us > 0 for event in waits)
        share = results[-1].scheduling.share
        assert share.waited > 0 and share.fallback == 0


def test_a_request_that_waits_for_loads_does_not_stand_still_behind_one_whose_drafts_read_along(tmp_path: Path) -> None:
    """A draft that is still being read with keeps its memory: nobody would tell, when it lets go, that it may leave."""

    async def scenario(world: World) -> None:
        for i, policy in enumerate(("hedge", "mab-sync", "memspec+", "mab-sync", "hedge", "mab-sync")):
            await read_to_end(world.request(i, policy, max_new_tokens=world.rng.randint(5, 60)))

    for seed in range(10):
        path = tmp_path / f"{seed}"
        run_world(seed, path, Faults(warm_s=0.4), scenario, capacity=1 + seed % 2)
        records = [event for event in read_events(path) if isinstance(event, events.Iteration)]
        assert max(event.waited_us for event in records) < 5e6


def test_a_results_loads_evictions_and_switches_are_those_of_the_log(tmp_path: Path) -> None:
    """A result would tell of fewer than there were: announcements overtake one another, and drafts go unannounced."""
    results: list[GenerationResult] = []

    async def scenario(world: World) -> None:
        results.extend([await read_to_end(world.request(i, max_new_tokens=80)) for i in range(2)])

    for seed in range(8):
        results.clear()
        run_world(seed, tmp_path / f"{seed}", Faults(), scenario)
        found = {f"r{i}": [0, 0, 0] for i in range(2)}
        request, draft = None, ""
        for event in read_events(tmp_path / f"{seed}"):
            match event:
                case events.RequestAccepted():
                    request, draft = event.request_id, ""
                case events.RequestFinished():
                    request = None
                case events.DraftLoadFinished() if request:
                    found[request][0] += 1
                case events.DraftEvicted() if request:
                    found[request][1] += 1
                case events.Iteration(draft=ResidentDraft(name=name)) if request:
                    found[request][2] += draft not in ("", name)
                    draft = name
                case _:
                    pass
        told = [[r.scheduling.loads, r.scheduling.evictions, r.scheduling.switches] for r in results]
        assert told == list(found.values())


def test_a_ranking_that_does_not_come_is_waited_for_once_an_interval(tmp_path: Path) -> None:
    """Invariant 7: with inline prediction a Predictor that hangs would cost its deadline at every single iteration."""

    async def scenario(world: World) -> None:
        for i, policy in enumerate(("memspec", "target-only")):
            stream = world.request(i, policy)
            assert (await read_to_end(stream)).token_ids == world.reference(stream)

    run_world(1, tmp_path / "log", Faults(rank_s=1e4), scenario, prediction="inline")
    records = [event for event in read_events(tmp_path / "log") if isinstance(event, events.Iteration)]
    waits = [(event.request_id, event.interval) for event in records if event.waited_for == "prediction"]
    assert waits
    assert len(waits) == len(set(waits)) < len(records)
    assert {request_id for request_id, _ in waits} == {"r0"}, "a policy without a predictor waits for none"


def test_another_event_loop_is_refused(tmp_path: Path) -> None:
    """Queues and futures of one loop are not to be touched from another: a stream would hang now and then."""

    async def scenario(world: World) -> None:
        stream = world.request(0)
        with pytest.raises(UsageError, match="another event loop"), ThreadPoolExecutor(1) as thread:
            thread.submit(asyncio.run, read_to_end(stream)).result()

    run_world(0, tmp_path / "log", Faults(), scenario)


def test_a_stream_cancelled_before_it_was_read_gives_nothing(tmp_path: Path) -> None:
    """A cancel that came early would be forgotten, and the whole text generated."""

    async def scenario(world: World) -> None:
        stream = world.request(0)
        stream.cancel()
        result = await read_to_end(stream)
        assert (result.text, result.finish_reason) == ("", "cancelled")

    run_world(0, tmp_path / "log", Faults(), scenario)


def test_sampled_text_depends_on_the_seed_alone(tmp_path: Path) -> None:
    """Behaviour 11: whatever drafts are resident when, and whatever else runs."""
    texts = set()

    async def scenario(world: World) -> None:
        world.target._seed = world.reader._seed = 1
        others = [world.request(i) for i in range(3)] if world.seed % 2 else []
        stream = world.request(9, temperature=1.0)
        *_, result = await asyncio.gather(*map(read_to_end, [*others, stream]))
        texts.add(result.token_ids)

    for seed in range(20):
        run_world(seed, tmp_path / f"{seed}", Faults(), scenario)
    assert len(texts) == 1


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


def test_a_full_mailbox_costs_neither_drafts_nor_cancellations(tmp_path: Path) -> None:
    """Behaviour 21: however full the Decoder's mailbox, what the CacheManager and a leaving caller send gets in."""

    async def flood(world: World) -> None:
        for index in itertools.count(2):
            stream = world.request(index, "static:a", max_new_tokens=1)
            try:
                world.wired.decoder.tell(Generate(request=stream.request, sink=stream, submitted_at=0.0))
            except MailboxFull:
                await asyncio.sleep(0.001)

    async def scenario(world: World) -> None:
        first = asyncio.create_task(read_to_end(world.request(0, "static:a")))
        second = asyncio.create_task(read_to_end(world.request(1, "static:a")))
        await asyncio.sleep(0.001)
        flooding = asyncio.create_task(flood(world))
        await asyncio.sleep(0.01)
        second.cancel()
        result = await first
        flooding.cancel()
        assert result.scheduling.drafts["a"].iterations > 0, "the draft was never announced"
        assert not world.requests._open

    world = run_world(0, tmp_path / "log", Faults(), scenario)
    assert not world.crashes
    finished = [event for event in read_events(tmp_path / "log") if isinstance(event, events.RequestFinished)]
    assert [event.finish_reason for event in finished if event.request_id == "r1"] == ["cancelled"]


def test_too_many_open_requests_are_refused(tmp_path: Path) -> None:
    """Behaviour 21: a caller that goes on asking must hear that it is too much, and not fill the memory."""

    async def scenario(world: World) -> None:
        streams = [world.request(i, "target-only", max_new_tokens=1) for i in range(MAX_OPEN_REQUESTS + 1)]
        for stream in streams[:-1]:
            world.requests.submit(stream)
            await asyncio.sleep(0.0001)  # long enough for the Decoder to take some of them out of its mailbox
        with pytest.raises(Overloaded, match="try again"):
            world.requests.submit(streams[-1])
        world.requests.leave(streams[0])
        world.requests.submit(streams[-1])
        for stream in streams:
            world.requests.leave(stream)

    run_world(0, tmp_path / "log", Faults(), scenario)


def test_a_request_whose_session_cannot_be_opened_is_failed_too(tmp_path: Path) -> None:
    """Invariant 8: between queue and decoding a request belongs to nobody's list; its caller would wait for ever."""

    async def scenario(world: World) -> None:
        outcomes = await asyncio.gather(*(read_to_end(world.request(i)) for i in range(2)), return_exceptions=True)
        assert all(isinstance(error, MemSpecError) and "no memory" in str(error) for error in outcomes), outcomes

    world = run_world(0, tmp_path / "log", Faults(session_crashes=1.0), scenario)
    check_log(tmp_path / "log", 2, world.memory.budget, 2)
