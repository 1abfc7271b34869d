"""The five actors, really wired, on toy models in virtual time: thousands of interleavings, crashes and cancellations.

What would be wrong if these fail: a draft decoded with after its memory was given away, a request that never ends, a
text that is not the target's own, or generation that stops because an actor beside the Decoder died.
"""

import asyncio
from pathlib import Path

import pytest

from memspec_actors.protocols import events
from memspec_actors.protocols.events import Event
from memspec_actors.protocols.messages import ResidentDraft
from memspec_actors.protocols.results import GenerationResult
from memspec_actors.telemetry.reader import read_events
from tests.actors.toys import DRAFTS, Faults
from tests.actors.world import POLICIES, World, check_log, read_to_end, run_world


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
