"""What decoding stands still for, on the wired actors in virtual time: no more than its definition, and it says so."""

from pathlib import Path

from memspec_actors.protocols import events
from memspec_actors.protocols.results import GenerationResult
from memspec_actors.telemetry.reader import read_events
from tests.actors.toys import Faults
from tests.actors.world import World, read_to_end, run_world


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
