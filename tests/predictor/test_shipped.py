"""If these fail, the embedded predictor was not made for the embedded models, or does not know their world."""

import random

import pytest

from memspec_actors import zoo
from memspec_actors.models.text.tokenizer import Tokenizer
from memspec_actors.predictor.collect import weights_hash
from memspec_actors.predictor.examples import prompt_hash
from memspec_actors.predictor.head import load_heads
from memspec_actors.predictor.ranker import PredictorRanker
from memspec_actors.scheduling.rankers import RankingContext
from memspec_actors.zoo import world

DRAFTS = ("general", "code", "math", "law", "medical")
SPECIALISTS = DRAFTS[1:]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.open(zoo.path("target"))


@pytest.fixture(scope="module")
def ranker(tokenizer: Tokenizer) -> PredictorRanker:
    return PredictorRanker.open(zoo.path("encoder"), DRAFTS, tokenizer)


def test_it_was_trained_on_the_very_weights_that_are_shipped() -> None:
    file, _ = load_heads(zoo.path("encoder"), 64)
    assert file.provenance["target"] == weights_hash(zoo.path("target"))
    assert file.provenance["drafts"] == {name: weights_hash(zoo.path(name)) for name in DRAFTS}


def _contexts(tokenizer: Tokenizer) -> "list[tuple[str, str, RankingContext]]":
    """Stop held-out answers of two items of different specialists in the middle of the first body."""
    rng = random.Random("eval:shipped")
    contexts = []
    for _ in range(60):
        now, later = rng.sample(SPECIALISTS, 2)
        request = world.sample_request(rng, (now, later), "eval")
        prompt = tokenizer.encode(request.prompt_text)
        body = request.items[0].body
        read = request.answer_text[: request.answer_text.index(body) + len(body) // 2]
        recent = tokenizer.encode(read, add_special_tokens=False)[-64:]
        contexts.append((now, later, RankingContext(prompt_ids=tuple(prompt), recent_ids=tuple(recent), interval=3)))
    return contexts


def test_the_present_domain_comes_first_and_the_next_one_second(ranker: PredictorRanker, tokenizer: Tokenizer) -> None:
    """That order is what has the next draft loaded before the text turns."""
    contexts = _contexts(tokenizer)
    orders = [ranker.rank(context).order for _, _, context in contexts]
    first = sum(order[0] == now for order, (now, _, _) in zip(orders, contexts, strict=True))
    second = sum(order[1] == later for order, (_, later, _) in zip(orders, contexts, strict=True))
    assert first >= 0.9 * len(contexts)
    assert second >= 0.8 * len(contexts)


def test_evaluation_prompts_were_not_trained_on(tokenizer: Tokenizer) -> None:
    file, _ = load_heads(zoo.path("encoder"), 64)
    for _, _, context in _contexts(tokenizer):
        assert prompt_hash(context.prompt_ids) not in file.trained_on
