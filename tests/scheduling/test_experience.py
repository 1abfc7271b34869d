"""If these fail, a ranker learns from some iterations twice, or never hears of them."""

from hypothesis import given
from hypothesis import strategies as st

from memspec_actors.protocols.feedback import Feedback, Shadow
from memspec_actors.protocols.messages import IterationReport, ResidentDraft
from memspec_actors.scheduling.experience import Experience

SHADOWS = (Shadow("law", 3, (True, False)),)


def report(iteration: int, *, draft: str | None = "code", emitted: int = 3, draft_us: float = 20.0) -> IterationReport:
    return IterationReport(
        request_id="r",
        interval=0,
        iteration=iteration,
        epoch=1,
        draft=None if draft is None else ResidentDraft(draft, 2),
        desired="law",
        drafted=5,
        accepted=emitted - 1,
        emitted=emitted,
        catch_up_tokens=7,
        catch_up_us=5.0,
        draft_us=draft_us,
        verify_us=100.0,
        waited_us=1e6,
        waited_for="load",
    )


@given(st.lists(st.none() | st.integers(0, 12), max_size=30))
def test_an_iteration_is_told_until_a_ranking_has_taken_it_into_account(history: list[int | None]) -> None:
    """Points that are superseded, or lost in a crash of the Predictor, would be lost lessons."""
    experience, num_iterations, num_observed = Experience(learns=True), 0, 0
    for step in history:
        if step is None:
            experience.add(report(num_iterations), 1 + 3 * num_iterations, ())
            num_iterations += 1
        else:
            experience.forget(min(step, num_iterations))
            num_observed = max(num_observed, min(step, num_iterations))
        assert [each.iteration for each in experience.unobserved] == list(range(num_observed, num_iterations))


def test_what_is_told_is_what_happened() -> None:
    """A ranker that weighs tokens against time would count a wait for a load as the draft's own slowness."""
    experience = Experience(learns=True)
    experience.add(report(4), 9, SHADOWS)
    assert experience.unobserved == (
        Feedback(
            iteration=4, start=9, draft="code", drafted=5, accepted=2, emitted=3, cost_us=125.0, catch_up_us=5.0,
            shadows=SHADOWS,
        ),
    )  # fmt: skip


def test_a_ranker_that_does_not_learn_is_told_nothing() -> None:
    """Every scheduling point of a long text would carry all of it."""
    experience = Experience(learns=False)
    experience.add(report(0), 1, SHADOWS)
    assert experience.unobserved == ()


def test_the_words_of_a_draft_that_was_asked_are_news_once() -> None:
    """memspec+ would rank anew whenever a draft is loaded, or go by what it asked for only at the next point."""
    experience, news = Experience(learns=True), []
    other = (Shadow("code", 3, (True,)),)
    for asked, shadows in [((), SHADOWS), (("law",), other), ((), ()), ((), other + SHADOWS), ((), SHADOWS)]:
        experience.asked.update(asked)
        experience.add(report(0), 1, shadows)
        news.append(experience.has_news)
    assert news == [False, False, False, True, False]
