"""Write requests and their answers for the embedded models: a small, seeded, fully determined world.

A request is what every embedded model was trained to complete:

    Request:
    First visit Lomwick for Benis;
    Second bill 4 grorkims for Tufar?
    Answer:

and its answer repeats every line as a heading, each followed by a body of one domain, a blank line between items:

    First visit Lomwick for Benis;
    In winter the Piddle ferry. See bright fountain narrow harbour. ...

A line ends in a semicolon, the last one in a question mark, which its heading turns into an exclamation mark: once
there is one, the answer ends with that item. No body of the world holds the latter two. The body is a function of the
line: every coined entity (a town, a record, a unit, an Act, a drug) has fixed facts and fixed wordings, so what a
draft has to know is its domain. Names come from thousands of coined ones and numbers from ranges, so they can only be
copied. Training and evaluation use disjoint names (`split`).
"""

from __future__ import annotations

import random
import string
from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from memspec_actors.zoo.domain import Domain, Task
from memspec_actors.zoo.domain_code import CODE
from memspec_actors.zoo.domain_general import GENERAL
from memspec_actors.zoo.domain_law import LAW
from memspec_actors.zoo.domain_math import MATH
from memspec_actors.zoo.domain_medical import MEDICAL

__all__ = [
    "ANCHORS",
    "DOMAINS",
    "ENTITIES",
    "SEPARATOR",
    "Entity",
    "Item",
    "Request",
    "Split",
    "domains_asked",
    "heading",
    "request_lines",
    "sample_phases",
    "sample_request",
]

ANCHORS = ("First", "Second", "Third", "Fourth", "Fifth", "Sixth")
_WORLD = (GENERAL, CODE, MATH, LAW, MEDICAL)
DOMAINS = tuple(domain.name for domain in _WORLD)
SEPARATOR = "\n\n"  # between the items of an answer
NUM_ENTITIES = 144
WORLD_SEED = "memspec-world-1"

Split = Literal["train", "eval"]

_ONSETS = tuple("b br c ch d dr f fl g gr h j k l m n p pl r s sk st t tr v w y z".split())
_VOWELS = tuple("a e i o u ai ea ou".split())
_CODAS = tuple("l m n r s t x nd rk lm".split())
_NAME_HEADS = tuple(a + b for a in "B C D F G H J K L M N P R S T V W Z".split() for b in "a e i o u".split())
_NAME_TAILS = tuple(
    a + b + c for a in "b d f l m n r s t v".split() for b in "a e i o u".split() for c in ("n", "s", "r", "l", "k", "")
)


class Item(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a request (`title`, without its anchor), its answer (`body`), and the `slots` that must be copied."""

    domain: str
    entity: str
    title: str
    body: str
    slots: tuple[str, ...]


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """A request and the answer it deserves; `prompt_text + answer_text` is one training document."""

    prompt_text: str
    answer_text: str
    items: tuple[Item, ...]


class Entity(msgspec.Struct, frozen=True, kw_only=True):
    """A coined thing with its facts and, for each task and sentence, the wording it takes."""

    name: str
    facts: Mapping[str, str]
    wordings: tuple[tuple[int, ...], ...]


def _fields(task: Task) -> set[str]:
    texts = [alternative for sentence in task.sentences for alternative in sentence]
    return {field for text in texts for _, field, _, _ in string.Formatter().parse(text) if field}


def _coin(rng: random.Random, domain: Domain, taken: set[str]) -> str:
    while True:
        word = rng.choice(_ONSETS) + rng.choice(_VOWELS) + rng.choice(_CODAS) + rng.choice(domain.endings)
        if word not in taken:
            taken.add(word)
            return word.capitalize() if domain.capital else word


def _draw_facts(rng: random.Random, domain: Domain, needed: set[str]) -> dict[str, str]:
    facts: dict[str, str] = {}
    for fact, values in domain.facts.items():
        keys = [fact, *(f"{fact}{i}" for i in range(2, 10) if f"{fact}{i}" in needed)]
        facts.update(zip(keys, rng.sample(values, len(keys)), strict=True))
    return facts


def _entities(domain: Domain, taken: set[str]) -> tuple[Entity, ...]:
    rng = random.Random(f"{WORLD_SEED}:{domain.name}")
    needed = set().union(*(_fields(task) for task in domain.tasks))
    return tuple(
        Entity(
            name=_coin(rng, domain, taken),
            facts=_draw_facts(rng, domain, needed),
            wordings=tuple(tuple(rng.randrange(len(s)) for s in task.sentences) for task in domain.tasks),
        )
        for _ in range(NUM_ENTITIES)
    )


def _world() -> dict[str, tuple[Entity, ...]]:
    taken: set[str] = set()
    return {domain.name: _entities(domain, taken) for domain in _WORLD}


ENTITIES = _world()
_DOMAIN_OF_VERB = {verb: domain.name for domain in _WORLD for task in domain.tasks for verb in task.verbs}
_BY_NAME = {domain.name: domain for domain in _WORLD}


def _sample_name(rng: random.Random, split: Split) -> str:
    """Coin a person's name; one in eight of all names belongs to the evaluation split alone."""
    while True:
        head, tail = rng.randrange(len(_NAME_HEADS)), rng.randrange(len(_NAME_TAILS))
        if ((head + tail) % 8 == 0) == (split == "eval"):
            return _NAME_HEADS[head] + _NAME_TAILS[tail]


def _sample_number(rng: random.Random, task: Task, taken: set[int]) -> int:
    assert task.numbers is not None
    low, high = task.numbers
    return rng.choice([n for n in range(low, high + 1) if n not in taken])


def _arithmetic(task: Task, facts: Mapping[str, str], number: int) -> dict[str, str]:
    fields = _fields(task)
    if "product" not in fields:
        return {}
    factor = facts["factor" if "factor" in fields else "price"]
    extra = facts["extra2" if "extra2" in fields else "extra"]
    product = number * int(factor)
    return {"product": str(product), "total": str(product + int(extra))}


def _item(rng: random.Random, domain: Domain, index: int, verb: str, name: str, numbers: set[int]) -> Item:
    task, entity = domain.tasks[index], rng.choice(ENTITIES[domain.name])
    values = dict(entity.facts, entity=entity.name, name=name, verb=verb)
    slots = [name]
    if task.numbers is not None:
        number = _sample_number(rng, task, numbers)
        numbers.add(number)
        values |= _arithmetic(task, entity.facts, number) | {"number": str(number)}
        slots.append(str(number))
    wordings = zip(task.sentences, entity.wordings[index], strict=True)
    body = task.joiner.join(sentence[choice].format_map(values) for sentence, choice in wordings)
    return Item(
        domain=domain.name, entity=entity.name, title=task.title.format_map(values), body=body, slots=tuple(slots)
    )


def sample_phases(rng: random.Random, domain: str | None = None) -> tuple[str, ...]:
    """Draw the domains of a request's one to four items: all `domain`, or a random walk over all domains."""
    num_items = rng.choice((1, 1, 2, 3, 4))
    if domain is not None:
        return (domain,) * num_items
    phases = [rng.choice(DOMAINS)]
    same = rng.random() < 0.3
    while len(phases) < num_items:
        phases.append(phases[0] if same else rng.choice([d for d in DOMAINS if d != phases[-1]]))
    return tuple(phases)


def request_lines(titles: Sequence[str]) -> list[str]:
    """Give each of at most six titles its anchor and its mark: a semicolon, or a question mark for the last."""
    marks = [";"] * (len(titles) - 1) + ["?"]
    return [f"{anchor} {title}{mark}" for anchor, title, mark in zip(ANCHORS, titles, marks, strict=False)]


def domains_asked(prompt_text: str) -> list[str]:
    """Give the domain of every line of a request, by its verb; nothing for what is no request of this world."""
    lines = prompt_text.splitlines()
    if lines[:1] != ["Request:"] or lines[-1:] != ["Answer:"]:
        return []
    verbs = [verb for line in lines[1:-1] for verb in line.split()[1:2]]
    known = [_DOMAIN_OF_VERB[verb] for verb in verbs if verb in _DOMAIN_OF_VERB]
    return known if len(known) == len(lines) - 2 else []


def heading(line: str) -> str:
    """Give the heading that answers a request line."""
    return line.replace("?", "!")


def sample_request(rng: random.Random, phases: Sequence[str], split: Split = "train") -> Request:
    """Write one request with an item for each domain of `phases`, and its answer.

    Verbs, names and numbers of one request are all different, so every line is named by its first word.
    """
    items: list[Item] = []
    verbs: set[str] = set()
    names: set[str] = set()
    numbers: set[int] = set()
    for phase in phases:
        domain = _BY_NAME[phase]
        choices = [(i, verb) for i, task in enumerate(domain.tasks) for verb in task.verbs if verb not in verbs]
        index, verb = rng.choice(choices)
        name = _sample_name(rng, split)
        while name in names:
            name = _sample_name(rng, split)
        verbs.add(verb)
        names.add(name)
        items.append(_item(rng, domain, index, verb, name, numbers))
    lines = request_lines([item.title for item in items])
    prompt = "Request:\n" + "".join(line + "\n" for line in lines) + "Answer:\n"
    answer = SEPARATOR.join(f"{heading(line)}\n{item.body}" for line, item in zip(lines, items, strict=True))
    return Request(prompt_text=prompt, answer_text=answer, items=tuple(items))
