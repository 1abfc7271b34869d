"""If these fail, a simulation tells what another engine would do, and every figure drawn from one is worth nothing."""

from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memspec_actors.protocols import events
from memspec_actors.protocols.feedback import Feedback
from memspec_actors.scheduling.policy import Policy, parse_policy
from memspec_actors.scheduling.ranker_pool import RankerMaker
from memspec_actors.scheduling.rankers import Ranker, Ranking, RankingContext
from memspec_actors.simulation.profile import DeviceProfile
from memspec_actors.simulation.replay import replay
from memspec_actors.simulation.setting import Setting
from memspec_actors.telemetry.event_log import EventLog
from memspec_actors.telemetry.reader import read_events
from tests.simulation.toys import ShiftingRanker, Toys, schedule

STOPS = (None, "fixed:0", "fixed:7", "heuristic", "entropy", "confidence", "adaedl", "gain")
UNSURE = (None, "fixed:0", "fixed:7", "heuristic")  # stop rules that do not ask how sure a draft is
POLICIES = ("memspec", "prediction-only", "mab-sync", "mab-async", "hedge", "memspec+", "static:d0", "target-only")


def profile(load_iterations: float) -> DeviceProfile:
    return DeviceProfile(
        device="toy",
        source="made up",
        target_ms={1: 7.0, 6: 8.0},
        draft_ms=1.1,
        catch_up_ms=0.13,
        predict_ms=2.3,
        load_ms=load_iterations * (8.0 + 5 * 1.1),
    )


def _ranker(policy: Policy, drafts: tuple[str, ...], seed: int) -> Ranker:
    """Make a ranker of its own for each of the two runs: rankers learn."""
    shifting = ShiftingRanker(seed, drafts)
    maker = RankerMaker(drafts=drafts, predictor=lambda: shifting, capacity=2, fits=lambda names: len(names) <= 2)
    return maker.make(policy, seed=seed) if policy.uses_drafts else shifting


def history(log: Path) -> list[tuple[object, ...]]:
    """Give what happened, without the times that processes of this machine took."""
    history: list[tuple[object, ...]] = []
    for event in read_events(log):
        match event:
            case events.Iteration():
                took = (event.draft, event.drafted, event.accepted, event.emitted, event.catch_up_tokens)
                history.append((*took, event.wall_us, event.gap_us, event.epoch, event.desired))
            case events.DraftLoadStarted() | events.DraftLoadFinished() | events.DraftLoadCancelled():
                history.append((type(event).__name__, event.draft))
            case events.ResidencyAnnouncedEvent():
                history.append(("announced", event.epoch, event.resident))
            case _:
                pass
    return history


@pytest.mark.parametrize("stop", STOPS)
@settings(max_examples=15)
@given(
    policy_name=st.sampled_from(POLICIES),
    seed=st.integers(0, 10**6),
    rates=st.lists(st.sampled_from([0.0, 0.1, 0.4, 1.0]), min_size=1, max_size=4),
    sharpness=st.sampled_from([0.5, 1.0, 4.0]),
    max_new_tokens=st.integers(1, 90),
    ends=st.booleans(),
    k=st.integers(1, 5),
    interval=st.integers(1, 5),
    capacity=st.integers(1, 3),
    load_iterations=st.sampled_from([0.3, 1.7, 2.7, 6.1]),
)
def test_a_replay_is_what_the_engine_does_with_the_models_themselves(
    stop: str | None,
    policy_name: str,
    seed: int,
    rates: list[float],
    sharpness: float,
    max_new_tokens: int,
    ends: bool,
    k: int,
    interval: int,
    capacity: int,
    load_iterations: float,
) -> None:
    """Iterations, accepted counts, catching up, loads, cancellations, announcements and every virtual microsecond."""
    eos_ids = frozenset({0} if ends else ())
    toys = Toys(seed=seed, rates=rates, max_new_tokens=max_new_tokens, k=k, eos_ids=eos_ids, sharpness=sharpness)
    header, record = toys.trace(free_runs=stop not in UNSURE)
    names = tuple(header.drafts)
    policy = parse_policy(policy_name, names)
    setting = Setting(profile=profile(load_iterations), schedule=schedule(interval), capacity=capacity, stop=stop)
    with TemporaryDirectory() as scratch:
        real_log, replay_log = Path(scratch) / "real", Path(scratch) / "replay"
        real = toys.decode(policy, _ranker(policy, names, seed), setting, real_log)
        log = EventLog.open(replay_log)
        replayed = replay(header, record, policy, lambda: _ranker(policy, names, seed), setting, log)
        log.close()
        assert history(replay_log) == history(real_log)
    assert replayed.token_ids == real.token_ids
    assert replayed.metrics == real.metrics
    assert replayed.timing == real.timing
    assert replayed.scheduling.share == real.scheduling.share
    assert (replayed.scheduling.switches, replayed.scheduling.loads) == (
        real.scheduling.switches,
        real.scheduling.loads,
    )


def test_the_time_of_a_replay_is_the_sum_of_its_parts() -> None:
    """One draft, always right: prompt, iterations without it until it is loaded, then six tokens an iteration."""
    header, record = Toys(seed=3, rates=[0.0], max_new_tokens=49, k=5, eos_ids=frozenset()).trace()
    device = profile(2.7)
    policy = parse_policy("static:d0", ("d0",))
    setting = Setting(profile=device, schedule=schedule(4), capacity=2)
    result = replay(header, record, policy, lambda: _ranker(policy, ("d0",), 0), setting)
    plain_s, full_s, prompt_s, load_s = 0.007, 0.0135, 0.0074, 2.7 * 0.0135
    waiting = 0
    # Its cache is warmed beside the iteration.
    while prompt_s + waiting * plain_s < load_s + device.catch_up_s(len(record.prompt_ids) + waiting):
        waiting += 1
    left = 49 - 1 - waiting
    assert left % 6 == 1, "the last token would be drafted; choose another length"
    plain = waiting + 1
    expected = plain * plain_s + left // 6 * full_s
    catch_up_s = result.scheduling.share.catch_up * result.timing.decode_s
    assert result.timing.prefill_s == pytest.approx(prompt_s)
    assert result.timing.decode_s == pytest.approx(expected + catch_up_s)
    assert result.scheduling.share.target_only == pytest.approx(plain * plain_s / result.timing.decode_s)
    assert result.scheduling.startup_tokens == waiting
    assert result.scheduling.startup_s == pytest.approx(waiting * plain_s)


@pytest.mark.parametrize("stop", STOPS)
def test_an_iteration_takes_the_time_of_what_it_drafted(stop: str | None, tmp_path: Path) -> None:
    """A rule tells only while drafting how long a draft becomes; it must not be charged for what it might have been."""
    toys = Toys(seed=3, rates=[0.2], max_new_tokens=90, k=5, eos_ids=frozenset(), sharpness=2.0)
    header, record = toys.trace(free_runs=True)
    setting = Setting(profile=profile(2.7), schedule=schedule(4), capacity=2, stop=stop)
    log = EventLog.open(tmp_path / "log")
    replay(header, record, parse_policy("static:d0", ("d0",)), lambda: ShiftingRanker(0, ("d0",)), setting, log)
    log.close()
    iterations = [event for event in read_events(tmp_path / "log") if isinstance(event, events.Iteration)]
    for each in iterations:
        verify_ms = 7.0 + 0.2 * each.drafted  # the line through both widths of the profile
        took_ms = 0.13 * each.catch_up_tokens + 1.1 * each.drafted + verify_ms
        assert each.wall_us == pytest.approx(1e3 * took_ms)
    assert stop in UNSURE or len({each.drafted for each in iterations}) > 3


def test_waiting_for_the_first_draft_belongs_to_the_startup() -> None:
    """A policy that stands still until its draft is loaded would seem slower than one that goes on, or faster."""
    header, record = Toys(seed=3, rates=[0.0], max_new_tokens=50, k=5, eos_ids=frozenset()).trace()
    policy = parse_policy("mab-sync", ("d0",))
    setting = Setting(profile=profile(2.7), schedule=schedule(4), capacity=2)
    result = replay(header, record, policy, lambda: _ranker(policy, ("d0",), 0), setting)
    steady_s = result.timing.decode_s - result.scheduling.startup_s
    assert result.scheduling.startup_tokens == 0
    assert steady_s == pytest.approx((49 // 6 * 13.5 + 49 % 6 * 7.0) / 1e3), "the last token is not drafted"
    assert result.scheduling.share.waited == pytest.approx(result.scheduling.startup_s / result.timing.decode_s)


@pytest.mark.parametrize("policy_name", ["memspec", "memspec+"])
def test_a_ranking_by_the_predictor_is_paid_once_an_interval(policy_name: str) -> None:
    """memspec+ ranks amid intervals, too, but by what the predictor said at the interval's beginning."""
    header, record = Toys(seed=3, rates=[0.0, 1.0], max_new_tokens=50, k=5, eos_ids=frozenset()).trace()
    policy = parse_policy(policy_name, ("d0", "d1"))
    setting = Setting(profile=profile(0.3), schedule=schedule(4), capacity=2)
    with TemporaryDirectory() as scratch:
        log = EventLog.open(Path(scratch) / "log")
        result = replay(header, record, policy, lambda: _ranker(policy, ("d0", "d1"), 0), setting, log)
        log.close()
        iterations = [event for event in read_events(Path(scratch) / "log") if isinstance(event, events.Iteration)]
    num_intervals = len({each.interval for each in iterations})
    expected_s = num_intervals * 0.0023
    assert num_intervals >= 3
    assert result.scheduling.prediction_busy_share == pytest.approx(expected_s / result.timing.decode_s)


@pytest.mark.parametrize(("k", "of_an_interval"), [(5, 4), (11, 2), (30, 1)])
def test_an_interval_ends_after_n_iterations_or_the_tokens_that_they_give_with_five_drafted(
    k: int, of_an_interval: int, tmp_path: Path
) -> None:
    """A draft that is right for long would be kept, by tokens, several times as long as in the paper's setting."""
    header, record = Toys(seed=3, rates=[0.0], max_new_tokens=200, k=k, eos_ids=frozenset()).trace()
    setting = Setting(profile=profile(0.3), schedule=schedule(4), capacity=2)
    log = EventLog.open(tmp_path / "log")
    replay(header, record, parse_policy("static:d0", ("d0",)), lambda: ShiftingRanker(0, ("d0",)), setting, log)
    log.close()
    iterations = [event for event in read_events(tmp_path / "log") if isinstance(event, events.Iteration)]
    lengths = Counter(each.interval or 0 for each in iterations if each.drafted == k)
    full = [lengths[interval] for interval in sorted(lengths)[1:-1]]
    assert full and set(full) == {of_an_interval}


@pytest.mark.parametrize(("depth", "loads"), [(None, 2), (1, 1)])
def test_only_what_a_ranking_finds_worth_it_is_loaded(depth: int | None, loads: int) -> None:
    """A load slows decoding, and a draft that is never needed would be loaded all the same."""
    header, record = Toys(seed=3, rates=[0.0, 0.3, 0.4], max_new_tokens=50, k=5, eos_ids=frozenset()).trace()
    setting = Setting(profile=profile(2.7), schedule=schedule(4), capacity=2)
    result = replay(header, record, parse_policy("memspec", ("d0", "d1", "d2")), lambda: Steady(depth), setting)
    assert result.scheduling.loads == loads


class Steady:
    """Rank the same at every scheduling point."""

    def __init__(self, depth: int | None) -> None:
        self._ranking = Ranking(("d0", "d1", "d2"), (0.9, 0.07, 0.03), depth)

    def rank(self, context: RankingContext) -> Ranking:
        return self._ranking

    def observe(self, feedback: Feedback) -> None:
        pass


class Told:
    """Run the good draft d1 first; ask to hear one draft at one interval. Count what is told."""

    def __init__(self, asks: str | None = None) -> None:
        self.contexts: list[RankingContext] = []
        self.shadows: list[tuple[str, int]] = []
        self._asks, self._asked = asks, False

    def rank(self, context: RankingContext) -> Ranking:
        self.contexts.append(context)
        asks = self._asks is not None and not self._asked and context.interval == 3
        self._asked = self._asked or asks
        return Ranking(("d1", "d0", "d2"), (0.6, 0.3, 0.1), 2, (str(self._asks),) if asks else ())

    def observe(self, feedback: Feedback) -> None:
        self.shadows += [(shadow.draft, feedback.iteration) for shadow in feedback.shadows]


def told(ranker: Told, rates: list[float]) -> Told:
    """Replay memspec+ with this ranker."""
    header, record = Toys(seed=3, rates=rates, max_new_tokens=90, k=5, eos_ids=frozenset()).trace()
    setting = Setting(profile=profile(0.3), schedule=schedule(4), capacity=2)
    replay(header, record, parse_policy("memspec+", tuple(header.drafts)), lambda: ranker, setting)
    return ranker


def test_memspec_plus_ranks_amid_an_interval_only_where_a_draft_was_heard() -> None:
    """Each ranking costs decoding time; what a draft said, waiting for the interval's end, comes too late."""

    def num_amid(asks: str | None) -> int:
        contexts = told(Told(asks=asks), [0.9, 0.0, 0.5]).contexts
        return len(contexts) - len({context.interval for context in contexts})

    assert num_amid(None) == 0, "a draft that catches up when it is loaded was not asked"
    assert num_amid("d0") == 1


def test_drafts_read_along_when_a_ranking_asks_to_hear_them_and_only_then() -> None:
    """Reading beside decoding slows it down; a draft that is never heard cannot show that it is the better one."""
    silent = told(Told(), [0.9, 0.0, 0.5]).shadows
    asked = told(Told(asks="d0"), [0.9, 0.0, 0.5]).shadows
    assert [draft for draft, _ in asked] == [*(draft for draft, _ in silent), "d0"]
    assert asked[-1][1] >= 3 * 4, "when it was asked for"
    for nobody in ("d1", "d2"):  # at work, not in memory
        assert told(Told(asks=nobody), [0.9, 0.0, 0.5]).shadows == silent


def test_a_draft_whose_context_ends_sits_out_in_a_replay_too() -> None:
    toys = Toys(seed=4, rates=[0.0], max_new_tokens=40, k=3, eos_ids=frozenset())
    toys.drafts["d0"].max_positions = 20
    header, record = toys.trace()
    policy = parse_policy("static:d0", ("d0",))
    setting = Setting(profile=profile(0.3), schedule=schedule(4), capacity=1)
    with TemporaryDirectory() as scratch:
        real = toys.decode(policy, _ranker(policy, ("d0",), 0), setting, Path(scratch) / "log")
    replayed = replay(header, record, policy, lambda: _ranker(policy, ("d0",), 0), setting)
    assert replayed.scheduling.drafts == real.scheduling.drafts
    assert replayed.timing == real.timing


def test_a_ranker_that_fails_is_what_a_replay_ends_with() -> None:
    """Told that the engine was closed, nobody would know why."""
    header, record = Toys(seed=3, rates=[0.5], max_new_tokens=400, k=5, eos_ids=frozenset()).trace()

    def no_ranker() -> Ranker:
        raise ZeroDivisionError("the ranker's fault")

    with pytest.raises(ZeroDivisionError, match="fault"):
        replay(
            header,
            record,
            parse_policy("memspec", ("d0",)),
            no_ranker,
            Setting(profile=profile(0.3), schedule=schedule(4), capacity=1),
        )
