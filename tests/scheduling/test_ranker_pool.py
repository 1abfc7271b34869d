"""Rankers by request: what each is told, and who shares one."""

import contextlib
from collections.abc import Sequence

from msgspec.structs import replace

from memspec_actors.protocols.feedback import Feedback
from memspec_actors.protocols.messages import SchedulingPoint
from memspec_actors.scheduling.policy import parse_policy
from memspec_actors.scheduling.ranker_pool import RankerMaker, RankerPool
from memspec_actors.scheduling.rankers import Ranking, RankingContext

DRAFTS = ("a", "b")
FEEDBACK = Feedback(iteration=0, start=1, draft="a", drafted=5, accepted=1, emitted=2, cost_us=1.0)


class Diary:
    """Write down what it is told; ``fails_at`` an iteration it raises once."""

    def __init__(self, fails_at: int | None = None) -> None:
        self.told: list[int] = []
        self.contexts: list[RankingContext] = []
        self.fails_at = fails_at

    def rank(self, context: RankingContext) -> Ranking:
        self.contexts.append(context)
        return Ranking(DRAFTS, (1.0, 0.0))

    def observe(self, feedback: Feedback) -> None:
        if feedback.iteration == self.fails_at:
            self.fails_at = None
            raise RuntimeError("a bug in the ranker")
        self.told.append(feedback.iteration)


def point(request_id: str, iterations: Sequence[int], policy: str = "mab-async") -> SchedulingPoint:
    feedback = tuple(
        Feedback(iteration=i, start=1, draft="a", drafted=5, accepted=1, emitted=2, cost_us=1.0) for i in iterations
    )
    return SchedulingPoint(
        request_id=request_id,
        interval=3,
        policy=policy,
        seed=5,
        plan=None,
        prompt_ids=(1, 2),
        recent_ids=(3,),
        num_generated=9,
        tokens_left=30,
        resident=("a",),
        unavailable=("b",),
        active="a",
        feedback=feedback,
    )


def pool(*diaries: Diary) -> RankerPool:
    ready = iter(diaries)

    return RankerPool(lambda name: parse_policy(name, DRAFTS), lambda policy, point: next(ready))


def test_what_loads_cost_is_learned_over_all_requests() -> None:
    """Every text would begin by loading a second draft that is hardly ever needed."""
    told = Ranking(DRAFTS, (0.95, 0.05))
    diary = Diary()
    diary.rank = lambda context: told  # type: ignore[method-assign]
    maker = RankerMaker(drafts=DRAFTS, predictor=lambda: diary, capacity=2, fits=lambda drafts: True)
    policy = parse_policy("memspec+", DRAFTS)
    depths = []
    for _ in range(2):
        ranker = maker.make(policy)
        depths.append(ranker.rank(RankingContext(prompt_ids=(1,))).depth)
        for number in range(80):  # beside the loads that the first ranking asks for, and after them
            cost_us = 2.0 if number < 8 else 1.0
            ranker.observe(replace(FEEDBACK, iteration=number, cost_us=cost_us))
            if number == 7:
                ranker.rank(RankingContext(prompt_ids=(1,), resident=DRAFTS))
    assert depths == [None, 1]


def test_every_iteration_is_observed_exactly_once() -> None:
    """Behaviour 21: a superseded point must lose no counts, and one sent again must not count twice."""
    diary = Diary()
    rankers = pool(diary)
    assert rankers.rank(point("r", [])) == (Ranking(DRAFTS, (1.0, 0.0)), 0)
    assert rankers.rank(point("r", [0, 1, 2]))[1] == 3
    assert rankers.rank(point("r", [1, 2, 3, 4]))[1] == 5
    assert rankers.rank(point("r", [3, 4]))[1] == 5
    assert diary.told == [0, 1, 2, 3, 4]
    assert diary.contexts[-1] == RankingContext(
        prompt_ids=(1, 2),
        recent_ids=(3,),
        interval=3,
        num_generated=9,
        tokens_left=30,
        resident=("a",),
        unavailable=("b",),
        active="a",
    )


def test_what_a_crash_kept_from_the_ranker_is_told_again() -> None:
    """Invariant 7: the counts of a bandit would be wrong for the rest of the request."""
    diary = Diary(fails_at=1)
    rankers = pool(diary)
    with contextlib.suppress(RuntimeError):
        rankers.rank(point("r", [0, 1, 2]))
    rankers.rank(point("r", [0, 1, 2]))
    assert diary.told == [0, 1, 2]


def test_each_request_begins_anew() -> None:
    """Behaviour 25: what one text taught would be applied to another."""
    first, second = Diary(), Diary()
    rankers = pool(first, second)
    rankers.rank(point("r0", [0, 1]))
    rankers.rank(point("r1", [0]))
    assert (first.told, second.told) == ([0, 1], [0])


def test_requests_share_a_ranker_on_demand_and_are_counted_apart() -> None:
    """A shared bandit would skip the first iterations of the second request, whose numbers begin at 0 again."""
    shared, other = Diary(), Diary()
    rankers = pool(shared, other)
    rankers.rank(point("r0", [0, 1], "mab-async:shared"))
    rankers.rank(point("r1", [0, 1, 2], "mab-async:shared"))
    rankers.rank(point("r2", [0], "mab-async:c=1.0,shared"))
    assert (shared.told, other.told) == ([0, 1, 0, 1, 2], [0])
