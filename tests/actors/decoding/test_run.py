"""If these fail, decoding waits for what will not come, or other actors go by a state that the text is not in."""

from collections.abc import Sequence

import pytest

from memspec_actors.actors.decoding.run import Run
from memspec_actors.config import ScheduleConfig
from memspec_actors.models.testing import ToyRunner
from memspec_actors.protocols.messages import DraftRanking, ResidencyAnnounced, ResidentDraft, ThresholdsPublished
from memspec_actors.scheduling.policy import parse_policy
from tests.actors.accepting import Caller, accepted
from tests.actors.toys import toy_session

pytestmark = pytest.mark.anyio
LAW, CODE = ResidentDraft("law", 2), ResidentDraft("code", 1)


def begun(caller: Caller | None = None, *, stop: Sequence[str] = (), **options: str) -> Run:
    """Return a request whose prompt has been encoded."""
    request = accepted(caller or Caller(), **options)
    session = toy_session(ToyRunner(seed=1), request.request, stop=stop)
    policy = parse_policy(request.request.policy, ("law", "code"))
    run = Run(request, policy, session, ScheduleConfig(interval=2, recent_tokens=3))
    session.prefill()
    return run


def ranking(*order: str, interval: int = 0, observed: int = 0, to_hear: tuple[str, ...] = ()) -> DraftRanking:
    return DraftRanking(
        request_id="r0", interval=interval, order=order, scores=tuple(1.0 / (i + 1) for i in range(len(order))),
        depth=None, observed=observed, cpu_us=1.0, to_hear=to_hear,
    )  # fmt: skip


def announced(*resident: ResidentDraft, unavailable: tuple[str, ...] = ()) -> ResidencyAnnounced:
    return ResidencyAnnounced(epoch=1, resident=resident, unavailable=unavailable)


NOTHING = announced()


async def test_a_ranking_is_missing_until_that_of_the_interval_has_come() -> None:
    """mab-sync would decode an interval with the choice for the one before."""
    run = begun()
    assert run.misses("prediction", NOTHING)
    run.take_ranking(ranking("law"))
    assert not run.misses("prediction", NOTHING)
    run.interval.begin_next(2, 5)
    assert run.misses("prediction", NOTHING)
    run.take_ranking(ranking("law", interval=1))
    assert not run.misses("prediction", NOTHING)


async def test_a_load_is_missing_while_the_first_choice_may_still_come() -> None:
    """Decoding would stand still for a minute an interval for a draft that nobody loads."""
    run = begun()
    assert not run.misses("load", NOTHING), "nothing was chosen yet"
    run.take_ranking(ranking("law", "code"))
    assert run.misses("load", announced(CODE))
    assert not run.misses("load", announced(CODE, LAW))
    assert not run.misses("load", announced(CODE, unavailable=("law",)))


async def test_thresholds_are_missing_until_the_last_iteration_has_taught_its_own() -> None:
    """With rules that learn in step the same seed would give other texts on a slower machine."""
    run = begun(thresholds="sync", stop_rule="entropy")
    assert run.waits_for == ("thresholds",)
    for iteration in range(-1, 2):
        run.iteration = iteration + 1
        assert run.misses("thresholds", NOTHING)
        run.take_thresholds(
            ThresholdsPublished(
                request_id="r0", iteration=iteration, stop_threshold=1.0, calibration=(), odds=None
            )
        )  # fmt: skip
        assert not run.misses("thresholds", NOTHING)


async def test_what_did_not_come_is_waited_for_again_in_the_next_interval() -> None:
    """A Predictor that hangs would cost its deadline at every iteration; or never be waited for again."""
    run = begun()
    run.give_up("prediction")
    assert not run.misses("prediction", NOTHING)
    assert not run.misses("load", NOTHING)
    run.interval.begin_next(2, 5)
    assert run.misses("prediction", NOTHING)


async def test_a_ranking_asks_to_hear_drafts_once() -> None:
    run = begun()
    assert run.take_to_hear() == ()
    run.take_ranking(ranking("law", to_hear=("code",)))
    assert run.take_to_hear() == ("code",)
    assert run.take_to_hear() == ()


async def test_a_scheduling_point_tells_where_the_text_stands() -> None:
    """The ranking would be for another text; what a ranking has taken into account is not told again."""
    run = begun()
    for iteration in range(4):
        outcome = run.session.step(None)
        report = run.report(outcome, None, epoch=1, wait=None)
        run.remember(report, ())
        run.iteration = iteration + 1
    run.take_ranking(ranking("law", observed=3))
    tokens = run.session.tokens
    point = run.scheduling_point(announced(CODE, LAW, unavailable=("math",)), CODE)
    assert (point.prompt_ids, point.recent_ids) == ((1, 2, 3), tuple(tokens[-3:]))
    assert (point.num_generated, point.tokens_left) == (5, 15)
    assert (point.resident, point.unavailable, point.active) == (("code", "law"), ("math",), "code")
    assert [(each.iteration, each.start) for each in point.feedback] == [(3, 4)]


async def test_a_cancelled_text_ends_with_what_was_held_back_for_a_stop_string() -> None:
    """The chunks joined would not be the text of the result."""
    whole = begun()
    whole.session.step(None)
    text = whole.session.state.text
    caller = Caller()
    run = begun(caller, stop=(text[-1] + "\N{SNOWMAN}",))
    run.session.step(None)
    assert run.end_early((LAW,)) == "cancelled"
    run.finish("cancelled")
    assert [chunk.text for chunk in caller.chunks] == [text[-1]]
    assert [(result.text, result.finish_reason) for result in caller.results] == [(text, "cancelled")]
