"""If these fail, traces do not say what speculative decoding would do, and labels, oracles and replays are wrong."""

import random
from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from memspec_actors.models.runner import Runner
from memspec_actors.models.testing import ToyRunner
from memspec_actors.predictor.reading import Tracer

EOS = frozenset({0})


def _choice(runner: ToyRunner, tokens: Sequence[int], ids: Sequence[int]) -> int:
    logits = runner.logits(tokens)
    return max(ids, key=lambda token: float(logits[token]))


def _greedy(target: ToyRunner, prompt: list[int], max_new_tokens: int, ids: Sequence[int]) -> list[int]:
    tokens = list(prompt)
    while len(tokens) - len(prompt) < max_new_tokens:
        tokens.append(_choice(target, tokens, ids))
        if tokens[-1] in EOS:
            break
    return tokens[len(prompt) :]


def _literal_acceptance(target: ToyRunner, draft: ToyRunner, prefix: list[int], k: int, ids: Sequence[int]) -> int:
    """Draft k tokens one by one after ``prefix``, then count those that the target would have written itself."""
    drafted = list(prefix)
    for _ in range(k):
        drafted.append(_choice(draft, drafted, ids))
    accepted = 0
    while accepted < k:
        position = len(prefix) + accepted
        if _choice(target, drafted[:position], ids) != drafted[position]:
            break
        accepted += 1
        if drafted[position] in EOS:
            break
    return accepted


@settings(max_examples=60)
@given(
    seed=st.integers(0, 10**6),
    prompt=st.lists(st.integers(1, 14), min_size=1, max_size=6),
    rates=st.lists(st.sampled_from([0.0, 0.1, 0.4, 1.0]), min_size=1, max_size=3),
    k=st.integers(1, 5),
    max_new_tokens=st.integers(1, 40),
    gaps=st.frozensets(st.integers(1, 16), max_size=4),
)
def test_runs_equal_literal_greedy_speculation_from_every_position(
    seed: int, prompt: list[int], rates: list[float], k: int, max_new_tokens: int, gaps: frozenset[int]
) -> None:
    num_ids = 15  # the toy vocabulary of 17 counts two ids of padding
    ids = [each for each in range(num_ids) if each not in gaps]
    target = ToyRunner(seed=seed)
    toys = {f"d{i}": ToyRunner(seed=seed, error_rate=rate, error_seed=i + 1) for i, rate in enumerate(rates)}
    drafts: dict[str, tuple[Runner, int]] = {name: (toy, num_ids) for name, toy in toys.items()}
    tracer = Tracer(target=target, drafts=drafts, num_ids=num_ids, eos_ids=EOS, k=k, gap_ids=tuple(gaps))
    record, iteration_us = tracer.trace(prompt, max_new_tokens, "kind")
    text = _greedy(target, prompt, max_new_tokens, ids)
    assert list(record.output_ids) == text
    assert (record.kind, list(record.prompt_ids)) == ("kind", prompt)
    assert len(iteration_us) < len(text)
    for name, toy in toys.items():
        literal = [
            min(_literal_acceptance(target, toy, prompt + text[:t], k, ids), len(text) - t) for t in range(len(text))
        ]
        assert list(record.accepted[name]) == literal


def test_a_draft_with_a_shorter_context_agrees_no_further() -> None:
    target = ToyRunner(seed=3)
    short = ToyRunner(seed=3, max_positions=20)
    record, _ = Tracer(target=target, drafts={"s": (short, 17)}, num_ids=17, eos_ids=frozenset(), k=4).trace([5, 6], 40)
    runs = record.accepted["s"]
    assert len(runs) == 40
    assert all(run > 0 for run in runs[:19])  # the token after 20 read ones is the last that it predicts
    assert not any(runs[19:])
    assert record.entropies["s"][19:] == (None,) * 21
    assert None not in record.entropies["s"][:19]


def test_a_draft_stops_at_an_id_that_it_does_not_know() -> None:
    target = ToyRunner(seed=4)
    narrow = ToyRunner(seed=4, vocab_size=12)
    tracer = Tracer(target=target, drafts={"n": (narrow, 12)}, num_ids=17, eos_ids=frozenset(), k=4)
    record, _ = tracer.trace([5, 6], 60)
    unknown = next(t for t, token in enumerate(record.output_ids) if token >= 12)
    assert not any(record.accepted["n"][unknown:])


def test_the_text_ends_where_the_target_has_no_more_positions() -> None:
    rng = random.Random(1)
    target = ToyRunner(seed=rng.randrange(99), max_positions=30)
    record, _ = Tracer(target=target, drafts={"d": (target, 17)}, num_ids=17, eos_ids=frozenset(), k=5).trace([5], 100)
    assert len(record.output_ids) == 29
