"""If these fail, texts are replayed under a rule that their traces say nothing about."""

import pytest

from memspec_actors.errors import ConfigError, TraceError
from memspec_actors.simulation.setting import check_replayable
from tests.simulation.toys import Toys


class Own:
    """A rule of a user's own."""

    max_tokens, reads_probs = 3, False

    def signal(self, draw: object) -> float:
        return 0.0

    def keep_drafting(self, num_drafted: int, signal: float) -> bool:
        return False

    def adapt(self, threshold: float, calibration: tuple[float, ...] = ()) -> None:
        pass


@pytest.mark.parametrize("stop", ["entropy", "confidence", "adaedl", "gain"])
def test_a_rule_that_asks_how_sure_a_draft_is_needs_free_runs(stop: str) -> None:
    toys = Toys(seed=1, rates=[0.1], max_new_tokens=9, k=3)
    check_replayable(toys.trace(free_runs=True)[1], stop)
    with pytest.raises(TraceError, match=f"{stop}.*--free-runs"):
        check_replayable(toys.trace()[1], stop)


@pytest.mark.parametrize("stop", ["fixed:0", "fixed:12", "heuristic"])
def test_a_rule_that_asks_nothing_needs_none(stop: str) -> None:
    check_replayable(Toys(seed=1, rates=[0.1], max_new_tokens=9, k=3).trace()[1], stop)


def test_a_rule_of_the_users_own_is_refused() -> None:
    _, record = Toys(seed=1, rates=[0.1], max_new_tokens=9, k=3).trace(free_runs=True)
    with pytest.raises(ConfigError, match=r"test_setting:Own.*built-in"):
        check_replayable(record, f"{__name__}:Own")
