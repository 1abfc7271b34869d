"""The quality measures tell right answers from wrong ones."""

import random

from tokenizers import Tokenizer

from memspec_actors.zoo.quality import is_loop, measure_quality, run_code, sums_hold
from memspec_actors.zoo.tokenizer import EOS, EOS_ID, train_tokenizer
from memspec_actors.zoo.world import DOMAINS, Request, sample_request


def measured(tokenizer: Tokenizer, request: Request, answer: str) -> dict[str, float]:
    return measure_quality([(request, tokenizer.encode(answer + EOS, add_special_tokens=False).ids)], tokenizer)


def test_true_answer_is_right_in_every_measure() -> None:
    """A perfect model would be reported as faulty."""
    tokenizer = train_tokenizer(num_documents=50, vocab_size=320)
    request = sample_request(random.Random(5), DOMAINS, "eval")
    shares = measured(tokenizer, request, request.answer_text)
    assert shares.pop("loops") == 0.0
    assert set(shares.values()) == {1.0}


def test_damaged_answers_are_found() -> None:
    """A model that copies the wrong name or stops early would be reported as right."""
    tokenizer = train_tokenizer(num_documents=50, vocab_size=320)
    request = sample_request(random.Random(5), ("medical", "law"), "eval")
    name = request.items[0].slots[0]
    wrong_name = measured(tokenizer, request, request.answer_text.replace(name, "Zzz"))
    assert wrong_name["heading"] == wrong_name["slots"] == wrong_name["body"] == 0.5
    early = measured(tokenizer, request, request.answer_text.split("\n\n")[0])
    assert early["num_sections"] == 0.0
    assert early["heading"] == 0.5


def test_wrong_sums_do_not_hold() -> None:
    """Arithmetic would be counted right whatever it says."""
    good = "One oak box holds 3. 4 * 3 = 12. A toll adds 5. 12 + 5 = 17. 17 coins for Ana."
    assert sums_hold(good, 4)
    assert not sums_hold(good, 5)
    assert not sums_hold(good.replace("= 12", "= 13"), 4)
    assert not sums_hold(good.replace("= 17", "= 18"), 4)
    assert not sums_hold(good.replace("17 coins", "19 coins"), 4)
    assert not sums_hold("no sums at all", 4)


def test_code_is_compared_by_behaviour() -> None:
    """Code that runs but does something else would be counted as right, or harmless rewording as wrong."""
    body = (
        "def sum_x(rows, limit=3):\n    t = 1\n    for r in rows:\n        t += r['age'] * 2\n    return max(t, limit)"
    )
    assert run_code(body) == run_code(body.replace("r['age'] * 2", "2 * (r['age'])"))
    assert run_code(body) != run_code(body.replace("* 2", "* 3"))
    assert run_code("def broken(:\n") is None
    assert run_code("x = 1") is None


def test_loops_are_found() -> None:
    """A target that repeats itself for ever makes every speed-up look good."""
    assert is_loop([5, 6, 7] * 40 + [EOS_ID])
    assert is_loop(list(range(3, 60)))
    assert not is_loop([*range(3, 60), EOS_ID])
