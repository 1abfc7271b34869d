"""If these fail, speculation changes the text, or caches go stale when drafts come and go."""

import random
import weakref
from collections.abc import Sequence

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from memspec_actors.models.drafting.draft_cache import BoundDraft
from memspec_actors.models.outcome import StepOutcome
from memspec_actors.models.session import DecodeSession
from memspec_actors.models.testing import ToyCache, ToyRunner, ToyText
from memspec_actors.protocols.feedback import Shadow
from memspec_actors.protocols.messages import ResidentDraft
from memspec_actors.protocols.requests import GenerationRequest, SamplingParams
from memspec_actors.speculation.commit import CommitState
from memspec_actors.speculation.rules import acceptance_rule
from memspec_actors.speculation.stop import stop_rule

PROMPT = (3, 1, 4, 1, 5)
END = 2


def session_of(
    target: ToyRunner,
    *,
    k: int = 5,
    max_new_tokens: int = 60,
    sampling: SamplingParams | None = None,
    accept: str = "auto",
    end_ids: frozenset[int] = frozenset(),
    seed: int = 0,
    watches_catch_up: bool = False,
) -> DecodeSession:
    sampling = sampling or SamplingParams()
    request = GenerationRequest(
        request_id="r",
        prompt_ids=PROMPT,
        max_new_tokens=max_new_tokens,
        sampling=sampling,
        seed=seed,
        policy="static:a",
        stop_rule=f"fixed:{k}",
        accept=accept,
        lossless=True,
    )
    return DecodeSession(
        target=target,
        request=request,
        num_ids=target.vocab_size,
        watches_catch_up=watches_catch_up,
        accept=acceptance_rule(accept, greedy=sampling.greedy),
        stop_rule=stop_rule(request.stop_rule),
        state=CommitState(
            ToyText(),
            end_ids=end_ids,
            stop=(),
            include_stop=False,
            max_new_tokens=max_new_tokens,
            context_left=target.max_positions - len(PROMPT),
        ),
    )


def bound(name: str, runner: ToyRunner, generation: int = 1, num_common: int | None = None) -> BoundDraft:
    return BoundDraft(ResidentDraft(name, generation), runner, num_common or runner.vocab_size)


def plain_greedy(target: ToyRunner, num: int, end_ids: frozenset[int] = frozenset()) -> list[int]:
    """Decode token by token with fresh logits each time: no cache, no draft."""
    tokens: list[int] = list(PROMPT)
    while len(tokens) - len(PROMPT) < num:
        tokens.append(int(target.logits(tokens).argmax()))
        if tokens[-1] in end_ids:
            break
    return tokens[len(PROMPT) :]


@settings(max_examples=60)
@given(
    seed=st.integers(0, 10_000),
    k=st.integers(0, 7),
    length=st.integers(1, 40),
    rates=st.lists(st.sampled_from([0.0, 0.2, 0.5, 1.0]), min_size=1, max_size=4),
    ends=st.booleans(),
)
def test_greedy_text_is_the_targets_own_under_any_drafts_lengths_and_switches(
    seed: int, k: int, length: int, rates: list[float], ends: bool
) -> None:
    """Behaviour 7: id for id the reference, and after every iteration the cache holds all tokens but the last."""
    target = ToyRunner(seed=seed)
    end_ids = frozenset({END}) if ends else frozenset()
    drafts = [ToyRunner(seed=seed, error_rate=rate, error_seed=i + 7) for i, rate in enumerate(rates)]
    rng = random.Random(seed)
    session = session_of(target, k=k, max_new_tokens=length, end_ids=end_ids)
    outcome = session.prefill()
    generation = dict.fromkeys(range(len(drafts)), 1)
    while outcome.commit.finish_reason is None:
        assert session._target_cache.length == len(session.tokens) - 1
        which = rng.choice([None, *range(len(drafts))])
        if which is not None and rng.random() < 0.2:
            generation[which] += 1  # evicted and loaded again meanwhile
        outcome = session.step(None if which is None else bound(str(which), drafts[which], generation[which]))
        assert 0 <= outcome.accepted <= outcome.drafted <= k
    assert session._target_cache.length == len(session.tokens) - 1
    assert list(session.generated) == plain_greedy(target, length, end_ids)


def test_a_draft_that_is_the_target_is_always_right_after_any_switch_and_reload() -> None:
    """Behaviour 17: one stale entry in a draft's cache and acceptance would fall below 100 %."""
    target = ToyRunner(seed=3)
    twin, other = ToyRunner(seed=3), ToyRunner(seed=3, error_rate=0.7)
    session = session_of(target, max_new_tokens=400)
    rng = random.Random(5)
    outcome, generation = session.prefill(), 1
    while outcome.commit.finish_reason is None:
        choice = rng.randrange(4)
        if choice == 0:
            generation += 1
            assert session.warm(bound("twin", twin, generation)) == len(session.tokens) - 1
        use_twin = choice != 1
        outcome = session.step(bound("twin", twin, generation) if use_twin else bound("other", other))
        if use_twin:
            assert outcome.accepted == outcome.drafted


def test_catch_up_counts_exactly_the_tokens_a_draft_missed() -> None:
    """The log would claim catch-up that did not happen, or hide what did."""
    target = ToyRunner(seed=1)
    a, b = bound("a", ToyRunner(seed=1)), bound("b", ToyRunner(seed=1, error_rate=1.0))
    session = session_of(target, max_new_tokens=200)
    session.prefill()
    assert session.step(a).catch_up_tokens == len(PROMPT)  # all but the last committed token
    assert session.step(a).catch_up_tokens == 0
    before = len(session.tokens)
    session.step(b)
    session.step(b)
    # the draft had not read its own last token nor the bonus; the newest token belongs to drafting, not to catching up
    assert session.step(a).catch_up_tokens == 2 + (len(session.tokens) - 6 - before) - 1


def test_warming_leaves_nothing_to_catch_up() -> None:
    """A newly resident draft would stall its first iteration."""
    session = session_of(ToyRunner(seed=1), max_new_tokens=200)
    session.prefill()
    draft = bound("a", ToyRunner(seed=1))
    session.warm(draft)
    assert session.step(draft).catch_up_tokens == 0


def test_only_kept_drafts_hold_memory() -> None:
    """Keys and values of every draft that was ever loaded would pile up until the request ends."""
    target = ToyRunner()
    session = session_of(target)
    session.prefill()
    made: dict[str, weakref.ref[ToyCache]] = {}
    for name in ("a", "b"):
        draft = bound(name, ToyRunner(error_rate=0.3))
        session.step(draft)
        made[name] = weakref.ref(session._caches.of(draft).cache)  # type: ignore[arg-type]
    session.keep({ResidentDraft("b", 1)})
    assert (made["a"](), made["b"]() is None) == (None, False)


@pytest.mark.parametrize("limit", range(6, 30))
def test_a_draft_with_a_short_context_shrinks_then_sits_out(limit: int) -> None:
    """Behaviour 13: the request goes on to its end with the target alone."""
    target = ToyRunner(seed=9)
    draft = bound("a", ToyRunner(seed=9, max_positions=limit))
    session = session_of(target, max_new_tokens=40)
    outcome: StepOutcome = session.prefill()
    drafted = []
    while outcome.commit.finish_reason is None:
        outcome = session.step(draft)
        drafted.append(outcome.drafted)
    assert list(session.generated) == plain_greedy(target, 40)
    assert drafted[-1] == 0


def test_ids_beyond_the_real_vocabulary_are_never_emitted() -> None:
    """Behaviour 12: padding rows of a wide target win the argmax here, and must not get out."""

    class Padded(ToyRunner):
        def logits(self, tokens):  # type: ignore[no-untyped-def]
            real = super().logits(tokens)
            return torch.cat((real[:-3], torch.full((3,), 99.0)))

    target = Padded(seed=4)
    session = session_of(target, max_new_tokens=30)
    session.num_ids = target.vocab_size - 3
    draft = bound("a", Padded(seed=4), num_common=target.vocab_size - 3)
    outcome = session.prefill()
    while outcome.commit.finish_reason is None:
        outcome = session.step(draft)
    assert max(session.generated) < target.vocab_size - 3
    assert outcome.accepted == outcome.drafted  # the twin's padding is cut as well


def test_a_draft_that_cannot_read_a_committed_id_sits_out() -> None:
    """Behaviour 12: a narrower draft must not be fed an id that it has no embedding for."""
    target = ToyRunner(seed=6)
    narrow = ToyRunner(seed=6, vocab_size=17)
    draft = bound("a", narrow, num_common=8)
    session = session_of(target, max_new_tokens=60)
    outcome = session.prefill()
    while outcome.commit.finish_reason is None:
        outcome = session.step(draft)
    assert list(session.generated) == plain_greedy(target, 60)


@pytest.mark.parametrize("temperature", [0.7, 1.3])
def test_matched_sampling_gives_one_text_per_seed_under_every_draft(temperature: float) -> None:
    """Behaviour 11: the text would depend on which drafts happened to be resident."""
    target = ToyRunner(seed=2)
    sampling = SamplingParams(temperature=temperature, top_p=0.95)
    texts = set()
    for rate in (None, 0.0, 0.3, 1.0):
        for k in (1, 4, 7):
            session = session_of(target, k=k, sampling=sampling, seed=77)
            outcome = session.prefill()
            while outcome.commit.finish_reason is None:
                draft = None if rate is None else bound("a", ToyRunner(seed=2, error_rate=rate))
                outcome = session.step(draft)
            texts.add(tuple(session.generated))
    assert len(texts) == 1
    other = session_of(target, sampling=sampling, seed=78)
    outcome = other.prefill()
    while outcome.commit.finish_reason is None:
        outcome = other.step(None)
    assert tuple(other.generated) not in texts


class BrokenRunner(ToyRunner):
    """A draft whose numbers overflowed."""

    def logits(self, tokens: Sequence[int]) -> torch.Tensor:
        return torch.full((self.vocab_size,), torch.nan)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("accept", ["match", "rejection"])
def test_a_draft_that_outputs_nan_costs_only_its_own_tokens(temperature: float, accept: str) -> None:
    """The target can go on by itself, so a broken draft must not fail the request."""
    sampling = SamplingParams(temperature=temperature)
    texts = []
    for draft in (bound("a", BrokenRunner()), None):
        session = session_of(ToyRunner(), sampling=sampling, accept=accept, max_new_tokens=20)
        outcome = session.prefill()
        while outcome.commit.finish_reason is None:
            outcome = session.step(draft)
            assert outcome.accepted == 0
        texts.append(session.state.token_ids)
    assert texts[0] == texts[1]


@pytest.mark.parametrize("seed", range(8))
def test_a_draft_that_catches_up_tells_what_it_would_have_said(seed: int) -> None:
    """Feedback on drafts that did not run would be made up: compared with fresh logits at every token of the text."""
    rng = random.Random(seed)
    target = ToyRunner(seed=seed)
    drafts = {name: ToyRunner(seed=seed, error_rate=0.4, error_seed=ord(name)) for name in "abc"}
    session = session_of(target, max_new_tokens=120, watches_catch_up=True)
    outcome = session.prefill()
    shadows: list[Shadow] = []
    while outcome.commit.finish_reason is None:
        reader = rng.choice("abc")
        if rng.random() < 0.5:
            session.warm(bound(reader, drafts[reader]))
        ran = rng.choice([None, *"abc"])
        outcome = session.step(bound(ran, drafts[ran]) if ran else None)
        shadows += outcome.shadows
    assert len({shadow.draft for shadow in shadows}) == 3
    for shadow in shadows:
        assert shadow.start >= 0
        for position, agrees in enumerate(shadow.agrees, len(PROMPT) + shadow.start):
            predicted = int(drafts[shadow.draft].logits(session.tokens[:position]).argmax())
            assert agrees == (predicted == session.tokens[position])


def test_no_token_is_told_of_twice_and_none_is_left_out() -> None:
    """A draft that reads along after every step must know of each generated token once."""
    target, draft = ToyRunner(seed=2), ToyRunner(seed=2, error_rate=0.5)
    session = session_of(target, max_new_tokens=60, watches_catch_up=True)
    outcome = session.prefill()
    told: list[int] = []
    while outcome.commit.finish_reason is None:
        session.warm(bound("a", draft))
        outcome = session.step(None)
        told += [shadow.start + i for shadow in outcome.shadows for i in range(len(shadow.agrees))]
    assert told == list(range(len(session.generated) - 1))


def test_catch_up_is_not_watched_unless_asked() -> None:
    """The output layer would be computed for nothing under every policy."""
    target, draft = ToyRunner(seed=2), ToyRunner(seed=2, error_rate=0.5)
    session = session_of(target, max_new_tokens=20)
    session.prefill()
    session.warm(bound("a", draft))
    assert session.step(None).shadows == ()
