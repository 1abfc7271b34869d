"""The generator: deterministic, self-consistent, and split between training and evaluation."""

import random
import re

import pytest

from memspec_actors.zoo.quality import run_code, sums_hold
from memspec_actors.zoo.world import ANCHORS, DOMAINS, ENTITIES, Request, heading, sample_phases, sample_request


def write(seed: str, phases: tuple[str, ...]) -> Request:
    return sample_request(random.Random(seed), phases)


def test_same_seed_writes_the_same_request() -> None:
    """Weights could not be rebuilt, nor figures repeated, if the world moved."""
    assert write("train:1", DOMAINS[:4]) == write("train:1", DOMAINS[:4])
    assert write("train:1", DOMAINS[:4]) != write("train:2", DOMAINS[:4])


def test_known_request_is_unchanged() -> None:
    """Shipped weights know this very text: any change of the world makes them wrong."""
    assert write("pin", ("law",)).prompt_text + write("pin", ("law",)).answer_text == PINNED


@pytest.mark.parametrize("domain", DOMAINS)
def test_slots_stand_in_heading_and_body(domain: str) -> None:
    """A slot missing from the body would teach the models not to copy it."""
    for i in range(100):
        for item in write(f"slots:{i}", (domain,) * 3).items:
            for slot in item.slots:
                assert re.search(rf"\b{slot}\b", item.title)
                assert re.search(rf"\b{slot}\b", item.body)


@pytest.mark.parametrize("domain", DOMAINS)
def test_body_depends_on_the_line_alone(domain: str) -> None:
    """Two bodies for one line would leave the draft guessing what it cannot know."""
    seen: dict[str, str] = {}
    repeats = 0
    for i in range(3000):
        for item in write(f"line:{i}", (domain,)).items:
            line, body = item.title.replace(item.slots[0], "NAME"), item.body.replace(item.slots[0], "NAME")
            repeats += line in seen
            assert seen.setdefault(line, body) == body
    assert repeats > 10


def test_sums_are_right() -> None:
    """A wrong sum in the text would be learnt as arithmetic."""
    for i in range(200):
        for item in write(f"sums:{i}", ("math",) * 2).items:
            product, total = re.findall(r"(\d+) ([*+]) (\d+) = (\d+)", item.body)
            assert int(product[0]) * int(product[2]) == int(product[3]) == int(total[0])
            assert int(total[0]) + int(total[2]) == int(total[3])
            assert sums_hold(item.body, int(item.slots[1]))


def test_code_runs() -> None:
    """Code that does not even run would make "runs and behaves as the reference" meaningless."""
    for i in range(200):
        for item in write(f"code:{i}", ("code",) * 2).items:
            scope: dict[str, object] = {}
            exec(item.body, scope)
            assert run_code(item.body) is not None


def test_lines_of_a_request_are_distinguishable() -> None:
    """Copying would be ambiguous if two lines began alike or shared a name or a number."""
    for i in range(100):
        items = write(f"lines:{i}", ("medical",) * 4).items
        assert len({item.title.split()[0] for item in items}) == 4
        assert len({item.slots[0] for item in items}) == 4
        assert len({item.slots[1] for item in items}) == 4


def test_evaluation_names_are_never_trained_on() -> None:
    """Copying of held-out names would not be measured if training had seen them."""
    rng = random.Random("names")
    trained = {item.slots[0] for _ in range(3000) for item in sample_request(rng, ("law",) * 4).items}
    held_out = {item.slots[0] for _ in range(300) for item in sample_request(rng, ("law",) * 4, "eval").items}
    assert len(trained) > 5000
    assert not trained & held_out


def test_answer_repeats_lines_as_headings() -> None:
    """The heading is what makes an answer follow its request."""
    request = write("headings", ("law", "code", "math"))
    lines = request.prompt_text.split("\n")[1:4]
    assert [line.split()[0] for line in lines] == list(ANCHORS[:3])
    assert [section.split("\n")[0] for section in request.answer_text.split("\n\n")] == [heading(x) for x in lines]


def test_only_the_last_heading_is_marked_as_last() -> None:
    """The models end their answer by that mark."""
    request = write("marks", ("general", "code", "law", "medical"))
    assert request.answer_text.count("!") == 1
    assert request.answer_text.split("\n\n")[-1].split("\n")[0].endswith("!")


def test_entities_are_coined_once() -> None:
    """An entity of two domains would have two sets of facts."""
    names = [entity.name.lower() for entities in ENTITIES.values() for entity in entities]
    assert len(names) == len(set(names))


def test_phases_of_a_domain_stay_in_it() -> None:
    """A specialist would otherwise be trained on all domains."""
    rng = random.Random(3)
    assert {phase for _ in range(50) for phase in sample_phases(rng, "law")} == {"law"}
    assert {phase for _ in range(200) for phase in sample_phases(rng)} == set(DOMAINS)


PINNED = """\
Request:
First cite Pundstead Act for Nerur?
Answer:
First cite Pundstead Act for Nerur!
Within seven days purchaser carrier, section 1. Remedy restitution eviction forfeiture by Assessor. No duress \
estoppel: index inspect inspector for Nerur. Terms: insurer publish patents ledger."""
