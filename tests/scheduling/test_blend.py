"""MemSpec+ against its formulas in plain loops, and what it is for: wrong predictors, loads that do not pay, bytes."""

import itertools
import random
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from memspec_actors.protocols.feedback import Feedback, Shadow
from memspec_actors.scheduling.blend import BlendRanker
from memspec_actors.scheduling.calibration import Calibration, Calibrations
from memspec_actors.scheduling.load_prices import LoadPrices
from memspec_actors.scheduling.rankers import Ranking, RankingContext

DRAFTS = ("general", "code", "math", "law")
K = 5


class Oracle:
    """A predictor that says what it is set to say."""

    def __init__(self, *scores: float) -> None:
        self.scores = scores

    def rank(self, context: RankingContext) -> Ranking:
        pairs = sorted(zip(self.scores, DRAFTS, strict=True), reverse=True)
        return Ranking(tuple(name for _, name in pairs), tuple(score for score, _ in pairs))

    def observe(self, feedback: Feedback) -> None:
        raise AssertionError("the trained predictor learns nothing")


def context(
    interval: int,
    resident: Sequence[str] = DRAFTS,
    tokens_left: int | None = None,
    num_generated: int = 1,
    active: str | None = None,
    unavailable: Sequence[str] = (),
) -> RankingContext:
    return RankingContext(
        prompt_ids=(1,),
        interval=interval,
        num_generated=num_generated,
        tokens_left=tokens_left,
        resident=tuple(resident),
        unavailable=tuple(unavailable),
        active=active,
    )


def iteration(
    number: int,
    start: int,
    draft: str | None,
    accepted: int,
    *shadows: Shadow,
    cost_us: float = 1.0,
    catch_up_us: float = 0.0,
) -> Feedback:
    return Feedback(
        iteration=number,
        start=start,
        draft=draft,
        drafted=K if draft else 0,
        accepted=accepted,
        emitted=accepted + 1,
        cost_us=cost_us + catch_up_us,
        catch_up_us=catch_up_us,
        shadows=shadows,
    )


def any_two(names: Sequence[str]) -> bool:
    return len(names) <= 2


def plus(
    predictor: Oracle,
    capacity: int,
    fits: Callable[[Sequence[str]], bool],
    prices: LoadPrices,
    calibrations: Calibrations | None = None,
) -> BlendRanker:
    return BlendRanker(DRAFTS, predictor, capacity, fits, prices, calibrations or Calibrations(Calibration))


def blended(prior: np.ndarray, record: np.ndarray, trust: float) -> np.ndarray:
    """Give the formula of the module's docstring."""
    powers = np.exp((trust * 1.3 + (1 - trust) * 0.05) * np.log(prior) + (trust * 0.1 + (1 - trust) * 0.5) * record)
    result: np.ndarray = powers / powers.sum()
    return result


@pytest.mark.parametrize("seed", range(5))
def test_probabilities_are_the_formula_over_the_whole_history(seed: int) -> None:
    """Evidence would be counted twice, for another draft, or for ever, and trust would follow nobody's record."""
    rng = random.Random(seed)
    predictor = Oracle(0.25, 0.25, 0.25, 0.25)
    ranker = plus(predictor, 2, any_two, LoadPrices())
    prior, trust, start = np.full(4, 0.25), 0.95, 1
    seen: dict[str, dict[int, bool]] = {draft: {} for draft in DRAFTS}
    for number in range(60):
        if number % 4 == 0:
            predictor.scores = tuple(rng.random() for _ in DRAFTS)
            told = 0.95 * np.array(predictor.scores) / sum(predictor.scores) + 0.05 / 4
            if number:
                trust += max(0.1, np.abs(told - prior).sum() / 4) * (0.95 - trust)
            prior = told
        ranking = ranker.rank(context(number // 4))
        scores = dict(zip(ranking.order, ranking.scores, strict=True))
        late = [[a - 0.75 for t, a in seen[draft].items() if t >= start - 12] for draft in DRAFTS]
        expected = blended(prior, np.array([sum(each) for each in late]), trust)
        assert [scores[draft] for draft in DRAFTS] == pytest.approx(expected)
        draft = rng.choice([*DRAFTS, None])
        accepted = rng.randint(0, K) if draft else 0
        other = rng.choice([each for each in DRAFTS if each != draft])
        shadow = Shadow(other, max(1, start - 7), tuple(rng.random() < 0.5 for _ in range(min(start - 1, 7))))
        ranker.observe(iteration(number, start, draft, accepted, shadow))
        tokens = [(draft, start + i, i < accepted) for i in range(min(accepted + 1, K))] if draft else []
        tokens += [(other, shadow.start + i, agrees) for i, agrees in enumerate(shadow.agrees)]
        start += accepted + 1
        for name, position, agrees in tokens:
            seen[name][position] = agrees
            if name == DRAFTS[int(prior.argmax())] and position >= start - 12:
                right, wrong = (0.95, 0.8) if agrees else (0.05, 0.2)
                trust = min(0.99, max(0.25, trust * right / (trust * right + (1 - trust) * wrong)))


@pytest.mark.parametrize("seed", range(8))
def test_the_best_set_is_that_of_trying_all(seed: int) -> None:
    """Under a byte budget a large draft would push out two small ones that are worth more together."""
    rng = random.Random(seed)
    nbytes = {draft: rng.randint(1, 5) for draft in DRAFTS}
    resident = rng.sample(DRAFTS, 2)
    scores = [rng.random() for _ in DRAFTS]
    ranker = plus(Oracle(*scores), 3, lambda names: sum(nbytes[name] for name in names) <= 6, LoadPrices())
    ranking = ranker.rank(context(0, resident, tokens_left=8))
    probability = blended(0.95 * np.array(scores) / sum(scores) + 0.05 / 4, np.zeros(4), 0.95)
    price = 1 - 1 / 8  # a load of one iteration, eight iterations of one token left
    worth = {d: p * (1 if d in resident else price) for d, p in zip(DRAFTS, probability, strict=True)}
    subsets = [s for n in (1, 2, 3) for s in itertools.combinations(DRAFTS, n) if sum(nbytes[d] for d in s) <= 6]
    best = max(subsets, key=lambda subset: sum(worth[draft] for draft in subset))
    assert set(ranking.order[: len(best)]) == set(best)
    assert set(ranking.order) == set(DRAFTS), "a draft that is left out could not run even if it is all there is"


def fail(ranker: BlendRanker, runs: str, reads_along: str, num_iterations: int, start: int = 1) -> None:
    """Let one draft run and be wrong at once every time, while another would have been right."""
    for number in range(start, start + num_iterations):
        ranker.observe(iteration(number, number, runs, 0, Shadow(reads_along, number, (True,))))


def test_a_predictor_that_is_wrong_is_overruled_within_an_interval() -> None:
    """MemSpec would stay with what the predictor says for the whole text, however badly it does."""
    ranker = plus(Oracle(0.02, 0.9, 0.04, 0.04), 2, any_two, LoadPrices())
    resident = ("code", "law")
    assert ranker.rank(context(0, resident)).order[0] == "code"
    fail(ranker, "code", "law", 4)
    assert ranker.rank(context(0, resident)).order[0] == "law"
    assert ranker.rank(context(1, resident)).order[0] == "law", "it says the same again, and that is no news"


def test_a_predictor_that_sees_a_turn_coming_is_believed() -> None:
    """Evidence for what has been would hold the new draft back until the old one has failed."""
    predictor = Oracle(0.02, 0.9, 0.04, 0.04)
    ranker = plus(predictor, 2, any_two, LoadPrices())
    ranker.rank(context(0))
    for number in range(4):
        ranker.observe(iteration(number, 1 + 6 * number, "code", K))
    assert ranker.rank(context(1)).order[0] == "code"
    predictor.scores = (0.02, 0.04, 0.9, 0.04)
    assert ranker.rank(context(2)).order[0] == "math"


def test_no_load_is_begun_that_the_text_will_not_outlast() -> None:
    """At the end of a text a draft would be evicted for one that never runs."""
    scores = (0.1, 0.3, 0.6, 0.0)
    resident = ("general", "code")
    fresh = plus(Oracle(*scores), 2, any_two, LoadPrices())
    assert set(fresh.rank(context(0, resident, tokens_left=200)).order[:2]) == {"code", "math"}
    late = plus(Oracle(*scores), 2, any_two, LoadPrices())
    assert set(late.rank(context(0, resident, tokens_left=1)).order[:2]) == {"general", "code"}


def test_loads_are_priced_by_how_long_they_were_seen_to_take() -> None:
    """On a slow disk a marginally better draft would be loaded for most of the time in which it is wanted."""
    firsts = []
    for iterations in (1, 9):
        predictor = Oracle(0.4, 0.6, 0.0, 0.0)
        ranker = plus(predictor, 1, lambda names: len(names) <= 1, LoadPrices())
        assert ranker.rank(context(0, ())).order[0] == "code"
        for number in range(iterations):
            ranker.observe(iteration(number, 1 + number, None, 0))
        ranker.rank(context(0, ("code",)))
        predictor.scores = (0.6, 0.4, 0.0, 0.0)
        firsts.append(ranker.rank(context(1, ("code",))).order[0])
    assert firsts == ["general", "code"]


def test_of_two_drafts_that_do_alike_the_one_with_the_cheaper_iterations_comes_first() -> None:
    """A large draft is accepted a little more often and costs far more: the text would take longer with it."""
    ranker = plus(Oracle(0.0, 0.52, 0.48, 0.0), 2, any_two, LoadPrices())
    assert ranker.rank(context(0)).order[0] == "code"
    for number, draft in enumerate(("code", "math") * 4):
        ranker.observe(iteration(number, 1 + 6 * number, draft, K, cost_us=3.0 if draft == "code" else 1.0))
    assert ranker.rank(context(1)).order[0] == "math"


@pytest.mark.parametrize(("catch_up_us", "first"), [(0.0, "math"), (4.0, "code")])
def test_a_switch_that_costs_more_than_it_gains_is_not_made(catch_up_us: float, first: str) -> None:
    """Two drafts that do nearly alike would take turns, and catch up each time."""
    ranker = plus(Oracle(0.0, 0.48, 0.52, 0.0), 2, any_two, LoadPrices())
    ranker.rank(context(0))
    for number, draft in enumerate(("math", "code") * 4):
        ranker.observe(iteration(number, 1 + 6 * number, draft, K, catch_up_us=catch_up_us))
    assert ranker.rank(context(1, active="code")).order[0] == first


def test_a_draft_is_heard_where_its_word_could_change_the_choice() -> None:
    """Drafts that read along for nothing slow decoding down; one that is never heard stays where it is."""
    resident = ("code", "general")
    fresh = plus(Oracle(0.02, 0.94, 0.02, 0.02), 2, any_two, LoadPrices())
    assert fresh.rank(context(0, resident, active="code")).to_hear == (), (
        "the predictor is sure and nothing speaks against"
    )
    torn = plus(Oracle(0.48, 0.5, 0.01, 0.01), 2, any_two, LoadPrices())
    assert torn.rank(context(0, resident, active="code")).to_hear == (), "nothing has been written yet"
    torn.observe(iteration(0, 1, "code", 2))
    assert torn.rank(context(0, resident, active="code")).to_hear == ("general",)
    torn.observe(iteration(1, 4, "code", 2, Shadow("general", 1, (True, False, True, True, False, True))))
    assert torn.rank(context(0, resident, active="code")).to_hear == (), "it has said all"
    assert torn.rank(context(0, ("code",), active="code")).to_hear == (), "it is not in memory"


def test_nobody_is_heard_where_reading_costs_more_than_the_best_answer_brings() -> None:
    ranker = plus(Oracle(0.48, 0.5, 0.01, 0.01), 2, any_two, LoadPrices())
    ranker.rank(context(0, active="code"))
    ranker.observe(iteration(0, 1, "code", 2, catch_up_us=20.0))
    assert ranker.rank(context(0, active="code")).to_hear == ()


def slowed_by_loads(share: float) -> LoadPrices:
    """What texts teach on a machine where iterations beside loads take a share longer, and loads four of them."""
    prices = LoadPrices()
    for number in range(400):
        beside = number % 8 < 4
        feedback = iteration(number, 1 + 6 * number, "code", K, cost_us=1.0 + share * beside)
        prices.observe(feedback, beside_load=beside)
    prices.arrived(50)
    return prices


@pytest.mark.parametrize(("share", "depth"), [(0.0, None), (0.25, 1)])
def test_a_draft_that_will_hardly_be_needed_is_not_loaded_where_that_slows_decoding(
    share: float, depth: int | None
) -> None:
    """Second places that change with every ranking would be loaded over and over, and never run."""
    ranker = plus(Oracle(0.02, 0.9, 0.05, 0.03), 2, any_two, slowed_by_loads(share))
    assert ranker.rank(context(0, ())).depth == depth
    ranker = plus(Oracle(0.02, 0.9, 0.07, 0.01), 2, any_two, slowed_by_loads(share))
    second = ranker.rank(context(0, ("code", "law"))).order[1]
    assert second == ("math" if share == 0.0 else "law")


def test_a_draft_that_will_be_needed_is_loaded_though_that_slows_decoding() -> None:
    """Anticipation is what a second place is for."""
    ranker = plus(Oracle(0.02, 0.5, 0.45, 0.03), 2, any_two, slowed_by_loads(0.25))
    assert set(ranker.rank(context(0, ("code", "law"))).order[:2]) == {"code", "math"}


def test_a_load_under_way_is_paid_for() -> None:
    """It would be given up as soon as the draft is a little less likely to be needed, and begun again."""
    predictor = Oracle(0.02, 0.5, 0.45, 0.03)
    ranker = plus(predictor, 2, any_two, slowed_by_loads(0.25))
    assert set(ranker.rank(context(0, ("code", "law"))).order[:2]) == {"code", "math"}
    predictor.scores = (0.02, 0.8, 0.15, 0.03)
    ranking = ranker.rank(context(1, ("code",)))
    assert (set(ranking.order[:2]), ranking.depth) == ({"code", "math"}, 2)
    fresh = plus(predictor, 2, any_two, slowed_by_loads(0.25))
    assert fresh.rank(context(1, ("code",))).depth == 1, "for so little no load would be begun"


def test_a_draft_that_the_predictor_does_not_know_can_still_win() -> None:
    """A draft added after training would never run, whatever it achieves."""
    ranker = plus(Oracle(0.5, 0.3, 0.2, 0.0), 2, any_two, LoadPrices())
    ranker.rank(context(0))
    for start, draft in ((1, "general"), (5, "code"), (9, "math")):
        assert ranker.rank(context(0)).order[0] == draft
        fail(ranker, draft, "law", 4, start)
    assert ranker.rank(context(0)).order[0] == "law"


class Heard(LoadPrices):
    """Remember which iterations are taken for ones beside a load."""

    def __init__(self) -> None:
        super().__init__()
        self.beside: list[bool] = []

    def observe(self, feedback: Feedback, *, beside_load: bool) -> None:
        self.beside.append(beside_load)
        super().observe(feedback, beside_load=beside_load)


def test_a_draft_that_will_not_come_takes_no_place_and_is_no_load() -> None:
    """One broken file would make every iteration count as slowed down by a load, and loads dearer for all texts."""
    prices = Heard()
    ranker = plus(Oracle(0.1, 0.2, 0.3, 0.9), 2, any_two, prices)
    assert ranker.rank(context(0, resident=("math",), unavailable=("law",))).order[:2] == ("math", "code")
    ranker.observe(iteration(0, 1, "math", 4))
    ranker.rank(context(1, resident=("math", "code"), unavailable=("law",)))
    ranker.observe(iteration(1, 6, "math", 4))
    assert prices.beside == [True, False], "code was loaded"
    resident = ("law", "math")
    assert ranker.rank(context(2, resident=resident, unavailable=("law",))).order[0] == "law", "it is there still"


def test_where_probabilities_were_worth_nothing_no_draft_is_loaded_for_them() -> None:
    """A kind of text that no draft fits would have drafts loaded and changed at every turn of their luck."""
    calibrations = Calibrations(Calibration)
    told = Oracle(0.3, 0.5, 0.15, 0.05)
    resident = ("general", "law")
    assert plus(told, 2, any_two, slowed_by_loads(0.25), calibrations).rank(context(0, resident)).order[0] == "code"
    for number in range(200):
        calibrations["code"].see(number % 2, 3.0)
    assert plus(told, 2, any_two, slowed_by_loads(0.25), calibrations).rank(context(0, resident)).order[0] == "general"
    elsewhere = Oracle(0.3, 0.15, 0.5, 0.05)
    ranking = plus(elsewhere, 2, any_two, slowed_by_loads(0.25), calibrations).rank(context(0, resident))
    assert ranking.order[0] == "math", "that was learned of another kind of text"
