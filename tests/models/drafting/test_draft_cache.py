"""If these fail, a draft goes on from a text that it has not read, or is judged by what it did not say."""

from hypothesis import given
from hypothesis import strategies as st

from memspec_actors.models.drafting.draft_cache import CHUNK_TOKENS, WATCHED_TOKENS, BoundDraft, DraftCache
from memspec_actors.models.testing import ToyCache, ToyRunner
from memspec_actors.protocols.messages import ResidentDraft

LONG = 2 * CHUNK_TOKENS + 20


def _cache(runner: ToyRunner, num_common: int) -> DraftCache:
    return DraftCache(BoundDraft(ResidentDraft("a", 1), runner, num_common), LONG)


def _read(own: DraftCache) -> list[int]:
    assert isinstance(own.cache, ToyCache)
    return own.cache.tokens


@given(
    seed=st.integers(0, 100),
    length=st.integers(2, LONG),
    prompt=st.integers(1, LONG),
    already=st.integers(0, LONG),
    num_common=st.integers(5, 17),  # the others of its 17 ids are not the target's: it never says them
)
def test_what_a_draft_would_have_said_of_the_last_tokens_is_told(
    seed: int, length: int, prompt: int, already: int, num_common: int
) -> None:
    text = ToyRunner(seed=seed, max_positions=2 * LONG)
    draft = ToyRunner(seed=seed, error_rate=0.4, max_positions=2 * LONG)
    tokens = [1]
    while len(tokens) < length:
        tokens.append(int(text.logits(tokens).argmax()))
    prompt, already = min(prompt, length), min(already, length - 1)
    own, plain = _cache(draft, num_common), _cache(draft, num_common)
    for each in (own, plain):
        each.catch_up(tokens[: already + 1])
    num, shadow = own.catch_up_watched(tokens, prompt)
    assert num == plain.catch_up(tokens) == length - 1 - already
    assert _read(own) == _read(plain) == tokens[:-1]
    judged = range(max(already + 1, prompt, length - WATCHED_TOKENS), length)  # by what was read before them
    if not judged:
        assert shadow is None
    else:
        assert shadow is not None
        assert shadow.start == judged[0] - prompt
        said = [int(draft.logits(tokens[:at])[:num_common].argmax()) for at in judged]
        assert list(shadow.agrees) == [each == tokens[at] for each, at in zip(said, judged, strict=True)]
