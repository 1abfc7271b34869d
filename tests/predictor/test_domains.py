"""If these fail, a trace says of tokens that they are of another domain, and a ceiling is that of other texts."""

import random

import pytest

from memspec_actors import zoo
from memspec_actors.models.text.tokenizer import Tokenizer
from memspec_actors.predictor.domains import domain_starts
from memspec_actors.protocols.traces import DomainStart
from memspec_actors.zoo import world


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.open(zoo.path("target"))


def _ids(tokenizer: Tokenizer, text: str) -> list[int]:
    return tokenizer.encode(text, add_special_tokens=False)


def test_every_token_has_the_domain_of_its_item(tokenizer: Tokenizer) -> None:
    rng = random.Random(0)
    for _ in range(20):
        request = world.sample_request(rng, rng.sample(world.DOMAINS, 3), "eval")
        answer = _ids(tokenizer, request.answer_text)
        starts = domain_starts(tokenizer.encode(request.prompt_text), answer, tokenizer, "mixed")
        ends = [*(start.position for start in starts[1:]), len(answer)]
        items = [
            tokenizer.decode(answer[start.position : end]).strip() for start, end in zip(starts, ends, strict=True)
        ]
        assert [start.domain for start in starts] == [item.domain for item in request.items]
        assert items == request.answer_text.split("\n\n")


def test_items_of_one_domain_are_one_stretch(tokenizer: Tokenizer) -> None:
    request = world.sample_request(random.Random(1), ("law", "law", "code", "code"), "eval")
    starts = domain_starts(_ids(tokenizer, request.prompt_text), _ids(tokenizer, request.answer_text), tokenizer, "")
    assert [start.domain for start in starts] == ["law", "code"]


def test_what_follows_the_last_item_belongs_to_it(tokenizer: Tokenizer) -> None:
    request = world.sample_request(random.Random(1), ("law", "code"), "eval")
    babble = _ids(tokenizer, request.answer_text + "\n\nand on\n\nand on")
    starts = domain_starts(_ids(tokenizer, request.prompt_text), babble, tokenizer, "")
    assert [start.domain for start in starts] == ["law", "code"]


@pytest.mark.parametrize(
    "prompt",
    [
        "hello",
        "",
        "Dear\nFirst apply for it;\nAnswer:\n",
        "Request:\nFirst apply for it;\nyours",
        "Request:\nFirst apply x;\nSecond jump y?\nAnswer:\n",
    ],
)
def test_a_text_of_another_world_is_of_its_prompts_kind(tokenizer: Tokenizer, prompt: str) -> None:
    answer = _ids(tokenizer, "one\n\ntwo")
    assert domain_starts(_ids(tokenizer, prompt), answer, tokenizer, "chat") == (DomainStart(0, "chat"),)
    assert domain_starts(_ids(tokenizer, prompt), answer, tokenizer, "") == ()
