"""If these fail, what is called the ceiling is none: it loads late, or profits from luck that nobody can foresee."""

import random

from hypothesis import given
from hypothesis import strategies as st

from memspec_actors.predictor.traces import accepted_runs
from memspec_actors.protocols.traces import DomainStart, TraceRecord
from memspec_actors.scheduling.domain_plan import AHEAD, WINDOW, DomainOracle

NAMES = ("a", "b", "c")
RATES = {"law": (0.9, 0.6, 0.3), "code": (0.2, 0.3, 0.9), "": (0.5, 0.1, 0.2)}


def _record(rng: random.Random, stretches: list[tuple[str, int]], starts: bool = True) -> TraceRecord:
    """Go through domains, each for so many tokens; a draft agrees as often as it does in each."""
    agrees: dict[str, list[bool]] = {name: [] for name in NAMES}
    domains, length = [], 0
    for domain, tokens in stretches:
        domains.append(DomainStart(length, domain))
        length += tokens
        for name, rate in zip(NAMES, RATES[domain], strict=True):
            agrees[name] += [rng.random() < rate for _ in range(tokens)]
    return TraceRecord(
        prompt_ids=(1,),
        output_ids=tuple(range(length)),
        accepted={name: accepted_runs(values, 5) for name, values in agrees.items()},
        entropies=dict.fromkeys(NAMES, (0.0,) * length),
        domains=tuple(domains) if starts else (),
    )


def _firsts(oracle: DomainOracle, record: TraceRecord) -> list[str]:
    return [step.order[0] for step in oracle.plan(record).steps]


def test_the_second_place_is_for_the_domain_that_comes_next() -> None:
    """b is the second best in law, but c is what code needs."""
    turn, length = 120, 240
    rng = random.Random(1)
    record = _record(rng, [("law", turn), ("code", length - turn)])
    steps = DomainOracle([record]).plan(record).steps
    orders = [step.order for step in steps]
    assert [step.position for step in steps] == list(range(length))
    turns = next(i for i, order in enumerate(orders) if order[0] == "c")
    assert turn - WINDOW < turns < turn
    assert orders[: turns - AHEAD] == [("a", "b", "c")] * (turns - AHEAD)
    assert {order[:2] for order in orders[turns - AHEAD : turns]} == {("a", "c")}
    assert {order[0] for order in orders[turns:]} == {"c"}


def test_a_texts_own_luck_moves_nobody() -> None:
    """In this law text b happens to be right everywhere and a nowhere: one who knows only "law" cannot know that."""
    rng = random.Random(2)
    others = [_record(rng, [("law", 200)]) for _ in range(20)]
    lucky = _record(rng, [("law", 60)])
    swapped = {"a": lucky.accepted["c"], "b": (5,) * 55 + (5, 4, 3, 2, 1), "c": lucky.accepted["a"]}
    record = TraceRecord(
        prompt_ids=(2,),
        output_ids=lucky.output_ids,
        accepted=swapped,
        entropies=lucky.entropies,
        domains=lucky.domains,
    )
    assert set(_firsts(DomainOracle([*others, record]), record)) == {"a"}


def test_texts_of_unknown_domains_are_one_domain() -> None:
    rng = random.Random(3)
    unknown = [_record(rng, [("", 150)], starts=False) for _ in range(3)]
    law = _record(rng, [("code", 100)])
    oracle = DomainOracle([*unknown, law])
    assert set(_firsts(oracle, unknown[0])) == {"a"}
    assert set(_firsts(oracle, law)) == {"c"}


@given(st.data())
def test_orders_are_those_of_a_plain_count(data: st.DataObject) -> None:
    rng = random.Random(data.draw(st.integers(0, 10**6)))
    stretch = st.tuples(st.sampled_from(["law", "code"]), st.integers(1, 60))
    records = [_record(rng, data.draw(st.lists(stretch, min_size=1, max_size=4))) for _ in range(2)]

    def course(record: TraceRecord) -> list[str]:
        starts = {start.position: start.domain for start in record.domains}
        domains, now = [], ""
        for position in range(len(record.output_ids)):
            now = starts.get(position, now)
            domains.append(now)
        return domains

    tokens = [(domain, record, at) for record in records for at, domain in enumerate(course(record))]

    def average(name: str, domain: str) -> float:
        agreed = [record.accepted[name][at] > 0 for of, record, at in tokens if of == domain]
        return sum(agreed) / len(agreed)

    averages = {(name, domain): average(name, domain) for name in NAMES for domain in {of for of, _, _ in tokens}}
    domains = course(records[0])

    def by_worth(position: int) -> list[str]:
        ahead = domains[position : position + WINDOW]
        worth = {name: sum(averages[name, domain] for domain in ahead) / len(ahead) for name in NAMES}
        return sorted(NAMES, key=lambda name: -round(worth[name], 9))

    for step in DomainOracle(records).plan(records[0]).steps:
        worth = by_worth(step.position)
        coming = range(step.position, min(step.position + AHEAD + 1, len(domains)))
        expected = list(dict.fromkeys([*(by_worth(position)[0] for position in coming), *worth]))
        assert list(step.order) == expected
