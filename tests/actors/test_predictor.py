"""If these fail, a busy machine looks as if ranking took it, or ranking as if it took less than it does."""

from itertools import accumulate, count
from pathlib import Path

import pytest

from memspec_actors.actors import predictor
from memspec_actors.protocols.events import PredictionMade
from memspec_actors.telemetry.reader import read_events
from tests.actors.toys import Faults
from tests.actors.world import World, read_to_end, run_world


def test_only_processor_time_of_rankings_counts_as_busy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A thread that waits for its turn takes no core away from anybody."""
    monkeypatch.setattr(predictor, "perf_counter_ns", count(0, 5_000_000).__next__)
    monkeypatch.setattr(predictor, "thread_time_ns", count(0, 2_000_000).__next__)

    async def scenario(world: World) -> None:
        result = await read_to_end(world.request(0, "memspec"))
        scheduling = result.scheduling
        assert scheduling.predictions > 2
        busy_s = scheduling.predictions * 0.002
        assert scheduling.prediction_busy_share == pytest.approx(busy_s / result.timing.decode_s)

    run_world(3, tmp_path / "log", Faults(), scenario)
    made = [event for event in read_events(tmp_path / "log") if isinstance(event, PredictionMade)]
    assert {(event.predict_us, event.cpu_us) for event in made} == {(5000.0, 2000.0)}


def test_rankings_that_are_no_news_count_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """memspec+ ranks amid intervals, mostly to find that nothing changed."""
    clock, told = count(), list[tuple[float, int]]()

    def note(**fields: object) -> PredictionMade:
        event = PredictionMade(**fields)  # type: ignore[arg-type]
        told.append((event.cpu_us, next(clock)))
        return event

    monkeypatch.setattr(predictor, "thread_time_ns", lambda: next(clock) * 1000)
    monkeypatch.setattr(predictor, "PredictionMade", note)

    async def scenario(world: World) -> None:
        await read_to_end(world.request(0, "memspec+"))

    run_world(3, tmp_path / "log", Faults(), scenario)
    num_ranked = [(reads - number) // 2 for number, (_, reads) in enumerate(told)]  # the clock is read twice for each
    assert list(accumulate(cpu_us for cpu_us, _ in told)) == num_ranked
    assert num_ranked[-1] > len(told), "some rankings must have been no news"
