"""If these fail, what is called an upper bound is none: a policy beats it, or no engine could ever reach it."""

import itertools
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memspec_actors.predictor.traces import accepted_runs
from memspec_actors.protocols.traces import TRACE_FORMAT, Plan, PlanStep, TraceHeader, TraceRecord
from memspec_actors.scheduling.cache_machine import Cache, CacheMachine, Timing
from memspec_actors.scheduling.oracles import DynamicOracle, static_oracle
from memspec_actors.scheduling.plans import PlanRanker
from memspec_actors.scheduling.policy import parse_policy
from memspec_actors.simulation import pace
from memspec_actors.simulation.profile import DeviceProfile
from memspec_actors.simulation.replay import replay
from memspec_actors.simulation.setting import Setting
from tests.simulation.toys import schedule

PLAIN_S, FULL_S, K = 0.005, 0.008, 5  # 32 ticks of 0.25 ms
ITERATION_S = (PLAIN_S, *[FULL_S] * K)
TICKS = 32


def _record(seed: int, num_drafts: int, length: int) -> TraceRecord:
    """A text that belongs to one draft after the other, each right nearly always at home and seldom elsewhere."""
    rng = random.Random(seed)
    home = [rng.randrange(num_drafts) for _ in range(length // 8 + 1)]
    accepted = {
        f"d{d}": accepted_runs([rng.random() < (0.9 if home[t // 8] == d else 0.3) for t in range(length)], K)
        for d in range(num_drafts)
    }
    entropies = dict.fromkeys(accepted, (1.0,) * length)
    return TraceRecord(
        prompt_ids=(1, 2), output_ids=tuple(range(3, 3 + length)), accepted=accepted, entropies=entropies
    )


def _timing(num_drafts: int, load_ticks: int) -> Timing:
    return Timing(ITERATION_S, (load_ticks * 0.00025,) * num_drafts)


def _replayed_s(record: TraceRecord, plan: Plan, timing: Timing, capacity: int, interval: int) -> float:
    """Let the engine carry a plan out, on a device on which only iterations and loads take time."""
    profile = DeviceProfile(
        device="toy",
        source="made up",
        target_ms={1: PLAIN_S * 1e3, 2: FULL_S * 1e3, 3: FULL_S * 1e3},
        draft_ms=0.0,
        catch_up_ms=0.0,
        predict_ms=0.0,
        load_ms=timing.load_s[0] * 1e3,
    )
    names = list(record.accepted)
    header = TraceHeader(
        format=TRACE_FORMAT,
        target="t",
        drafts={name: name for name in names},
        draft_nbytes=dict.fromkeys(names, 64),
        k=K,
        max_new_tokens=len(record.output_ids),
        vocab_size=300,
        eos_ids=(),
        iteration_us=None,
        versions={},
    )
    setting = Setting(profile=profile, schedule=schedule(interval), capacity=capacity)
    return replay(header, record, parse_policy("memspec", names), lambda: PlanRanker(plan), setting).timing.decode_s


def _iterate(record: TraceRecord, position: int, draft: int | None) -> tuple[int, float]:
    """Decode one iteration literally: where the text stands then, and the time."""
    left = len(record.output_ids) - position
    drafted = 0 if draft is None else min(K, left - 1)
    accepted = min(record.accepted[f"d{draft}"][position], drafted) if draft is not None else 0
    return position + accepted + 1, ITERATION_S[drafted]


def _least_s(machine: CacheMachine, record: TraceRecord, position: int, cache: Cache | None) -> float:
    """Try every way through every interval."""
    if position >= len(record.output_ids):
        return 0.0
    times = []
    for edge in machine.start(FULL_S) if cache is None else machine.edges(cache):
        at, total_s = position, 0.0
        for draft in edge.runs:
            if at < len(record.output_ids):
                at, took_s = _iterate(record, at, draft)
                total_s += took_s
        times.append(total_s + _least_s(machine, record, at, edge.after))
    return min(times)


cases = given(
    seed=st.integers(0, 10**6),
    num_drafts=st.integers(1, 3),
    capacity=st.integers(1, 3),
    interval=st.integers(1, 5),
    load_ticks=st.sampled_from([5, 33, 85, 161]),
    length=st.integers(1, 60),
)


@settings(max_examples=40)
@cases
def test_no_sequence_of_choices_takes_less_time(
    seed: int, num_drafts: int, capacity: int, interval: int, load_ticks: int, length: int
) -> None:
    length = min(length, 3 * interval + 2)
    record, timing = _record(seed, num_drafts, length), _timing(num_drafts, load_ticks)
    machine = CacheMachine(timing, capacity=capacity, interval=interval, ticks=TICKS)
    planned = DynamicOracle(timing, machine).plan(record, length, FULL_S)
    assert planned.decode_s == pytest.approx(_least_s(machine, record, 1, None))


@settings(max_examples=20, derandomize=True)  # loads that end at the very boundary are a toss-up
@cases
def test_the_engine_takes_exactly_the_time_that_the_plan_promises(
    seed: int, num_drafts: int, capacity: int, interval: int, load_ticks: int, length: int
) -> None:
    record, timing = _record(seed, num_drafts, length), _timing(num_drafts, load_ticks)
    machine = CacheMachine(timing, capacity=capacity, interval=interval, ticks=TICKS)
    planned = DynamicOracle(timing, machine).plan(record, length, FULL_S)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pace, "CHUNKS_PER_LOAD", 1000)  # a load that is not wanted any more is dropped at once
        replayed_s = _replayed_s(record, planned.plan, timing, capacity, interval)
    assert replayed_s == pytest.approx(planned.decode_s)


def test_no_sequence_of_rankings_makes_the_engine_faster() -> None:
    """Every order of three drafts, and another one from every fifth token on, carried out by the engine itself."""
    record, timing = _record(1, 3, 16), _timing(3, 45)
    machine = CacheMachine(timing, capacity=2, interval=2, ticks=TICKS)
    planned = DynamicOracle(timing, machine).plan(record, 16, FULL_S)
    sequences = itertools.product(itertools.permutations(record.accepted), repeat=3)
    plans = [Plan(prompt_ids=(1, 2), steps=tuple(map(PlanStep, (0, 5, 10), orders))) for orders in sequences]
    assert planned.decode_s <= min(_replayed_s(record, plan, timing, 2, 2) for plan in plans) + 1e-9


@given(seed=st.integers(0, 10**6), length=st.integers(1, 50))
def test_the_static_oracle_keeps_to_the_fastest_draft(seed: int, length: int) -> None:
    record, timing = _record(seed, 3, length), _timing(3, 8)
    times = []
    for draft in range(3):
        position, total_s = 1, 0.0
        while position < length:
            position, took_s = _iterate(record, position, draft)
            total_s += took_s
        times.append(total_s)
    planned = static_oracle(record, timing, length)
    assert planned.decode_s == pytest.approx(min(times))
    assert planned.plan.steps == (PlanStep(0, (f"d{times.index(min(times))}",)),)
