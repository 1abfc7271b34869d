"""MemSpec+ against its formulas in plain loops, and what it is for: wrong predictors, and loads that do not pay."""

import math
import random
from collections.abc import Sequence

import pytest

from memspec_actors.protocols.feedback import Feedback, Shadow
from memspec_actors.scheduling.load_prices import LoadPrices
from memspec_actors.scheduling.overrule import OverrulingRanker
from memspec_actors.scheduling.rankers import Ranking, RankingContext, StaticRanker
from memspec_actors.scheduling.search import GUESS, Discoveries

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
    *,
    num_generated: int = 1,
    active: str | None = None,
    unavailable: Sequence[str] = (),
) -> RankingContext:
    return RankingContext(
        prompt_ids=(1,),
        interval=interval,
        num_generated=num_generated,
        resident=tuple(resident),
        unavailable=tuple(unavailable),
        active=active,
    )


def iteration(start: int, draft: str | None, accepted: int, *shadows: Shadow, cost_us: float = 1.0) -> Feedback:
    return Feedback(
        iteration=start,
        start=start,
        draft=draft,
        drafted=K if draft else 0,
        accepted=accepted,
        emitted=accepted + 1,
        cost_us=cost_us,
        shadows=shadows,
    )


def plus(predictor: Oracle, prices: LoadPrices | None = None, capacity: int = 2) -> OverrulingRanker:
    return OverrulingRanker(
        DRAFTS, predictor, capacity, lambda names: len(names) <= capacity, prices or LoadPrices(), Discoveries()
    )


def fail(ranker: OverrulingRanker, runs: str, heard: str, says: bool, num_iterations: int, start: int = 1) -> None:
    """Let one draft run and be wrong at once every time; another, reading along, is right or wrong."""
    for position in range(start, start + num_iterations):
        ranker.observe(iteration(position, runs, 0, Shadow(heard, position, (says,))))


# --- where the predictor is right -------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(10))
def test_a_predictor_whose_first_choice_does_well_is_followed_to_the_letter(seed: int) -> None:
    """Every other order, load or question costs time where there is nothing to gain."""
    rng = random.Random(seed)
    predictor = Oracle(0.25, 0.25, 0.25, 0.25)
    ranker, start = plus(predictor), 1
    for interval in range(30):
        predictor.scores = tuple(rng.sample((*(rng.random() / 3 for _ in range(3)), 1.0), 4))
        resident = rng.sample(DRAFTS, 2)
        for accepted in (K, K, rng.randint(3, K), K):
            at = context(interval, resident, num_generated=start, active=resident[0])
            said = predictor.rank(at)
            assert ranker.rank(at) == said
            other = Shadow(rng.choice(said.order[1:]), max(1, start - 9), (True,) * min(9, start - 1))
            ranker.observe(iteration(start, said.order[0], accepted, other))
            start += accepted + 1


def test_a_turn_that_the_predictor_sees_is_not_held_against_its_new_choice() -> None:
    """A draft read the old domain when it was loaded, and failed: it would not be let run in its own."""
    predictor = Oracle(0.02, 0.9, 0.04, 0.04)
    ranker = plus(predictor)
    ranker.rank(context(0, num_generated=0))
    ranker.observe(iteration(1, "code", K, Shadow("math", 1, (False,) * 6)))
    ranker.observe(iteration(7, "code", K, Shadow("math", 7, (False,) * 6)))
    predictor.scores = (0.02, 0.04, 0.9, 0.04)
    turned = context(1, num_generated=13, active="code")
    assert ranker.rank(turned) == predictor.rank(turned)


def test_tokens_that_no_draft_gets_right_do_not_count_against_the_first_choice() -> None:
    """On a text that nobody was trained for, drafts would be heard, loaded and changed for nothing."""
    predictor = Oracle(0.05, 0.8, 0.1, 0.05)
    ranker = plus(predictor)
    at = context(0, ("code", "math"), active="code")
    ranker.rank(at)
    fail(ranker, "code", heard="math", says=False, num_iterations=20)
    assert ranker.rank(at) == predictor.rank(at)


def test_the_predictor_is_asked_once_an_interval() -> None:
    """It reads the text anew each time, beside decoding."""
    predictor = Oracle(0.02, 0.9, 0.04, 0.04)
    ranker = plus(predictor)
    said = ranker.rank(context(0))
    predictor.scores = (0.9, 0.04, 0.02, 0.04)
    assert ranker.rank(context(0)) == said
    assert ranker.rank(context(1)) == predictor.rank(context(1))


# --- where it is wrong ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(20))
def test_doubt_and_choice_are_the_formulas_over_the_whole_history(seed: int) -> None:
    """Evidence would be counted twice, for another draft, for another choice of the predictor, or for ever."""
    rng = random.Random(seed)
    rates = {draft: rng.choice([0.2, 0.6, 0.95]) for draft in DRAFTS}
    text = {draft: [rng.random() < rates[draft] for _ in range(400)] for draft in DRAFTS}
    predictor = Oracle(0.5, 0.3, 0.1, 0.1)
    ranker, start, first, named_at = plus(predictor), 1, "", 0
    seen: dict[str, set[int]] = {draft: set() for draft in DRAFTS}
    num_overruled = 0
    for number in range(60):
        if number % 4 == 0 and rng.random() < 0.3:
            predictor.scores = tuple(rng.sample((*(rng.random() / 3 + 0.01 for _ in range(3)), 1.0), 4))
        at = context(number // 4, num_generated=start, active=rng.choice(DRAFTS))
        said = predictor.rank(at)
        if number % 4 == 0 and said.order[0] != first:
            first, named_at = said.order[0], start
        ranking = ranker.rank(at)

        length = start if number else 0
        late = range(max(named_at, length - 32), length)
        known = {draft: [p for p in late if p in seen[draft]] for draft in DRAFTS}
        total = sum(predictor.scores)
        sure = 0.95 * max(predictor.scores) / total + 0.05 / 4
        assert sure > GUESS
        doubt = math.log((1 - sure) / sure)
        for p in known[first]:
            if text[first][p]:
                doubt += math.log(0.8 / 0.95)
            elif not any(p in known[other] and not text[other][p] for other in DRAFTS if other != first):
                doubt += math.log(0.2 / 0.05)
        expected = said
        if doubt > 0.0:
            worth = {
                draft: math.log(0.95 * score / total + 0.05 / 4)
                + 0.7 * sum(text[draft][p] - (text[first][p] if p in known[first] else 0.75) for p in known[draft])
                - (0.0 if draft in (first, at.active) else 2.8)
                for draft, score in zip(DRAFTS, predictor.scores, strict=True)
            }
            best = max(DRAFTS, key=lambda draft: worth[draft])
            order = [best, *([first] if first != best else [])]
            order += [draft for draft in said.order if draft not in order]
            asked = []
            for draft in DRAFTS:
                unread = [p for p in late if p not in seen[draft]]
                chances = sum(p in seen[best] and not text[best][p] for p in unread)
                if draft not in (best, at.active) and len(unread) >= 8 and worth[draft] + 0.7 * chances > worth[best]:
                    asked.append(draft)
            scores = dict(zip(said.order, said.scores, strict=True))
            expected = Ranking(tuple(order), tuple(scores[draft] for draft in order), None, tuple(asked))
            num_overruled += best != first
        assert ranking == expected

        draft = ranking.order[0] if rng.random() < 0.7 else rng.choice(DRAFTS)
        accepted = next((i for i in range(K) if not text[draft][start + i]), K)
        other = rng.choice([each for each in DRAFTS if each != draft])
        heard = range(max(1, start - 7), start)
        ranker.observe(
            iteration(start, draft, accepted, Shadow(other, heard.start, tuple(text[other][p] for p in heard)))
        )
        seen[draft].update(range(start, start + min(accepted + 1, K)))
        seen[other].update(heard)
        start += accepted + 1
    if seed == 1:
        assert num_overruled > 3, "the histories do not try what they are to try"


def test_a_first_choice_that_keeps_failing_is_overruled_by_the_draft_that_is_right() -> None:
    """MemSpec would stay with what the predictor says for the whole text, however badly it does."""
    predictor = Oracle(0.02, 0.9, 0.04, 0.04)
    ranker = plus(predictor)
    at = context(0, ("code", "law"), active="code")
    assert ranker.rank(at).to_hear == ()
    for position in range(1, 10):
        ranker.observe(iteration(position, "code", 0))
    doubted = ranker.rank(at)
    assert (doubted.order, doubted.to_hear) == (predictor.rank(at).order, ("law",)), "heard, but not run on suspicion"
    ranker.observe(iteration(10, "code", 0, Shadow("law", 1, (True,) * 9)))
    overruled = ranker.rank(at)
    assert overruled.order[:2] == ("law", "code"), "the first choice stays in memory"
    assert overruled.to_hear == ()


def test_a_draft_that_overruled_gives_way_when_the_first_choice_does_better() -> None:
    """A text that turns to what the predictor had said all along would go on with the wrong draft."""
    predictor = Oracle(0.02, 0.9, 0.04, 0.04)
    ranker = plus(predictor)
    ranker.rank(context(0))
    fail(ranker, "code", heard="law", says=True, num_iterations=9)
    assert ranker.rank(context(0, ("code", "law"), active="code")).order[0] == "law"
    at = context(0, ("code", "law"), active="law")
    ranker.observe(iteration(10, "law", 0))
    assert ranker.rank(at).order[0] == "law", "one token is little"
    for position in range(11, 19):
        ranker.observe(iteration(position, "law", 0))
    assert ranker.rank(at).order[0] == "code"


def test_the_only_draft_is_never_overruled() -> None:
    """The probability that another would be better is 0, of which there is no logarithm."""
    ranker = OverrulingRanker(("law",), StaticRanker("law"), 2, lambda _: True, LoadPrices(), Discoveries())
    for position in range(1, 10):
        assert ranker.rank(context(position, ("law",), num_generated=position, active="law")).order == ("law",)
        ranker.observe(iteration(position, "law", 0))


# --- where it is at a loss --------------------------------------------------------------------------------------------


def test_a_draft_that_the_predictor_does_not_name_is_tried_and_runs_if_it_is_right() -> None:
    """A predictor that was never shown a domain would keep its draft away for ever."""
    discoveries = Discoveries()
    predictor = Oracle(0.36, 0.34, 0.29, 0.01)
    for text, num_trials in ((0, 2), (1, 1)):
        ranker = OverrulingRanker(DRAFTS, predictor, 2, lambda names: len(names) <= 2, LoadPrices(), discoveries)
        resident: tuple[str, ...] = ("general", "code")
        tried, at, order = list[str](), 1, resident
        for interval in range(12):
            order = ranker.rank(context(interval, resident, num_generated=at, active=resident[0])).order
            heard = tuple(Shadow(name, 1, (name == "law",) * at) for name in set(order[:2]).difference(resident))
            tried += [shadow.draft for shadow in heard]
            resident = order[:2]
            accepted = K if order[0] == "law" else 0
            ranker.observe(iteration(at, order[0], accepted, *heard))
            at += accepted + 1
            for _ in range(3):
                ranker.observe(iteration(at, order[0], accepted))
                at += accepted + 1
        assert order[0] == "law"
        assert [name for name in tried if name not in ("general", "code")] == ["math", "law"][-num_trials:], text


def test_a_draft_that_was_found_stays_though_the_predictor_changes_its_guess() -> None:
    """At every change it would have to prove itself anew, and half of the text be written with a wrong one."""
    predictor = Oracle(0.36, 0.34, 0.29, 0.01)
    ranker = plus(predictor)
    ranker.rank(context(0, ("general", "code"), active="general"))
    wrong = tuple(Shadow(name, 1, (False,) * 16) for name in ("code", "math"))
    for position in range(1, 17):
        ranker.observe(iteration(position, "general", 0, *(wrong if position == 16 else ())))
    assert ranker.rank(context(1, ("general", "code"), num_generated=16, active="general")).order[:2] == (
        "general",
        "law",
    )
    ranker.observe(iteration(17, "general", 0, Shadow("law", 1, (True,) * 16)))
    assert ranker.rank(context(2, ("general", "law"), num_generated=17, active="general")).order[0] == "law"
    predictor.scores = (0.34, 0.36, 0.29, 0.01)
    assert ranker.rank(context(3, ("general", "law"), num_generated=17, active="law")).order[0] == "law"


def test_a_draft_that_is_tried_is_loaded_though_that_slows_decoding() -> None:
    ranker = plus(Oracle(0.36, 0.34, 0.29, 0.01), slowed_by_loads(0.25))
    at = context(0, ("general", "code"), active="general")
    ranker.rank(at)
    wrong = tuple(Shadow(name, 1, (False,) * 16) for name in ("code", "math"))
    for position in range(1, 17):
        ranker.observe(iteration(position, "general", 0, *(wrong if position == 16 else ())))
    ranking = ranker.rank(at)
    assert (ranking.order[1], ranking.depth) == ("law", None)


@pytest.mark.parametrize(
    ("capacity", "bytes_of", "tried"),
    [(2, {"law": 5, "math": 5}, "law"), (2, {"law": 6, "math": 5}, "math"), (1, {}, None)],
    ids=["room", "none for law", "none for a second"],
)
def test_only_drafts_with_room_beside_the_first_are_tried(
    capacity: int, bytes_of: dict[str, int], tried: str | None
) -> None:
    """One that cannot be loaded would be waited for all through the text, and count as one that did not pay."""

    def fits(names: Sequence[str]) -> bool:
        return sum(bytes_of.get(name, 5) for name in names) <= 10

    predictor, resident = Oracle(0.36, 0.34, 0.14, 0.16), ("general", "code")[:capacity]
    ranker = OverrulingRanker(DRAFTS, predictor, capacity, fits, LoadPrices(), Discoveries())
    ranker.rank(context(0, resident, active="general"))
    for position in range(1, 17):
        ranker.observe(iteration(position, "general", 0, *(Shadow(name, position, (False,)) for name in resident[1:])))
    order = ranker.rank(context(0, resident, num_generated=16, active="general")).order
    rest = [draft for draft in ("code", "law", "math") if draft != tried]
    assert order == ("general", *([tried] if tried else ()), *rest)


def test_a_predictor_that_is_sure_is_not_searched_behind() -> None:
    """Where no draft fits, loads of ever new ones would take the room of what is needed next."""
    ranker = plus(Oracle(0.02, 0.6, 0.36, 0.02))
    for position in range(1, 60):
        order = ranker.rank(context(position // 4, ("code", "math"), num_generated=position, active="code")).order
        assert order == ("code", "math", "law", "general")
        ranker.observe(iteration(position, "code", 0, Shadow("math", position, (False,))))


def test_a_second_draft_is_no_better_for_having_been_right_where_the_first_was_too() -> None:
    """What a draft reads of the easy part of a text would make it look better than the one that wrote it."""
    ranker = plus(Oracle(0.02, 0.9, 0.04, 0.04))
    ranker.rank(context(0))
    ranker.observe(iteration(1, "code", 4, Shadow("law", 1, (True, True, True, True))))
    for position in range(6, 12):
        ranker.observe(iteration(position, "code", 0))
    assert ranker.rank(context(0, active="code")).order[0] == "code"


@pytest.mark.parametrize("resident", [("code",), ("code", "math")])
def test_only_drafts_in_memory_that_are_not_at_work_are_heard(resident: tuple[str, ...]) -> None:
    ranker = plus(Oracle(0.02, 0.9, 0.04, 0.04))
    ranker.rank(context(0, resident, active="code"))
    for position in range(1, 13):
        ranker.observe(iteration(position, "code", 0))
    assert ranker.rank(context(0, resident, active="code")).to_hear == resident[1:]


def test_a_draft_that_has_luck_for_some_tokens_does_not_run() -> None:
    """Where no draft fits each has luck in its turn: drafts would change, and catch up, all the time."""
    ranker = plus(Oracle(0.05, 0.46, 0.05, 0.44))  # "law" is nearly as likely as "code"
    at = context(0, ("code", "law"), active="code")
    ranker.rank(at)
    fail(ranker, "code", heard="law", says=True, num_iterations=3)
    assert ranker.rank(at).order[0] == "code"
    fail(ranker, "code", heard="law", says=True, num_iterations=2, start=4)
    assert ranker.rank(at).order[0] == "law"
    at = context(0, ("code", "law"), active="law")
    ranker.observe(iteration(6, "law", 0))
    assert ranker.rank(at).order[0] == "law", "once at work it needs no such lead"


# --- loads ------------------------------------------------------------------------------------------------------------


def slowed_by_loads(share: float) -> LoadPrices:
    """What texts teach on a machine where iterations beside loads take a share longer."""
    prices = LoadPrices()
    for number in range(400):
        prices.observe(iteration(1, "code", K, cost_us=1.0 + share * (number % 2)), beside_load=number % 2 == 1)
    return prices


@pytest.mark.parametrize(("share", "depth"), [(0.0, None), (0.25, 1)])
def test_a_draft_that_will_hardly_be_needed_is_not_loaded_where_that_slows_decoding(
    share: float, depth: int | None
) -> None:
    """Second places that change with every ranking would be loaded over and over, and never run."""
    predictor = Oracle(0.02, 0.9, 0.05, 0.03)
    ranking = plus(predictor, slowed_by_loads(share)).rank(context(0, ()))
    assert ranking.depth == depth
    assert ranking.order == predictor.rank(context(0)).order
    assert plus(predictor, slowed_by_loads(share)).rank(context(0, ("code", "math"))).depth is None, "it is there"


def test_a_draft_that_will_be_needed_is_loaded_though_that_slows_decoding() -> None:
    """Anticipation is what a second place is for."""
    assert plus(Oracle(0.02, 0.5, 0.45, 0.03), slowed_by_loads(0.25)).rank(context(0, ("code", "law"))).depth is None


def test_the_first_choice_is_loaded_whatever_loads_cost() -> None:
    """The text would be written with a draft that the predictor holds for worse."""
    assert plus(Oracle(0.3, 0.28, 0.22, 0.2), slowed_by_loads(9.0)).rank(context(0, ())).depth == 1


def test_a_load_under_way_is_paid_for() -> None:
    """It would be given up as soon as the draft is a little less likely to be needed, and begun again."""
    predictor = Oracle(0.02, 0.5, 0.45, 0.03)
    ranker = plus(predictor, slowed_by_loads(0.25))
    assert ranker.rank(context(0, ("code", "law"))).depth is None
    predictor.scores = (0.02, 0.8, 0.15, 0.03)
    assert ranker.rank(context(1, ("code",))).depth is None
    fresh = plus(predictor, slowed_by_loads(0.25))
    assert fresh.rank(context(1, ("code",))).depth == 1, "for so little no load would be begun"


class Heard(LoadPrices):
    """Remember which iterations are taken for ones beside a load."""

    def __init__(self) -> None:
        super().__init__()
        self.beside: list[bool] = []

    def observe(self, feedback: Feedback, *, beside_load: bool) -> None:
        self.beside.append(beside_load)
        super().observe(feedback, beside_load=beside_load)


def test_a_draft_that_will_not_come_is_no_load() -> None:
    """One broken file would make every iteration count as slowed down by a load, and loads dearer for all texts."""
    prices = Heard()
    ranker = plus(Oracle(0.1, 0.2, 0.3, 0.9), prices)
    ranker.rank(context(0, resident=("math",), unavailable=("law",)))
    ranker.observe(iteration(1, "math", 4))
    ranker.rank(context(1, resident=("math", "code"), unavailable=("law",)))
    ranker.observe(iteration(6, "math", 4))
    assert prices.beside == [True, False], "code was loaded"
    assert ranker.rank(context(2, resident=("law", "math"), unavailable=("law",))).order[0] == "law", "it is there"


def test_a_draft_that_is_not_worth_its_load_is_no_load() -> None:
    """Every iteration would count as slowed down by a load that nobody began, and loads would come to look free."""
    prices = Heard()
    for number in range(400):
        prices.observe(iteration(1, "code", K, cost_us=1.0 + 0.25 * (number % 2)), beside_load=number % 2 == 1)
    ranker = plus(Oracle(0.02, 0.9, 0.05, 0.03), prices)
    assert ranker.rank(context(0, ("code",))).depth == 1
    ranker.observe(iteration(1, "code", K))
    assert not prices.beside[-1]


def test_drafts_that_do_not_fit_together_are_no_load() -> None:
    """A small draft is loaded in the place of one that finds no room: that one would be waited for all the time."""
    prices = Heard()
    too_large = {"math"}
    ranker = OverrulingRanker(
        DRAFTS,
        Oracle(0.1, 0.5, 0.3, 0.1),
        2,
        lambda names: len(names) <= 2 and not too_large & set(names),
        prices,
        Discoveries(),
    )
    ranker.rank(context(0, resident=("code", "law")))
    ranker.observe(iteration(1, "code", 4))
    assert prices.beside == [False]
