"""commit() against a literal oracle that looks at the whole text again after every single token."""

from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memspec_actors.errors import InvalidRequest
from memspec_actors.speculation.commit import Commit, CommitState, max_draft_tokens, united_end_ids

PIECES = ("a", "b", "ab", "ba", "aab", "", "c", "bca")


class LateDecoder:
    """Give each piece out ``late`` tokens later, as a decoder does that waits for the rest of a character."""

    def __init__(self, late: int) -> None:
        self._late = late
        self._waiting: list[str] = []

    def feed(self, token_id: int) -> str:
        self._waiting.append(PIECES[token_id])
        return self._waiting.pop(0) if len(self._waiting) > self._late else ""

    def flush(self) -> str:
        rest, self._waiting = "".join(self._waiting), []
        return rest


@dataclass(frozen=True)
class Case:
    ids: tuple[int, ...]
    end_ids: frozenset[int]
    stop: tuple[str, ...]
    include_stop: bool
    max_new_tokens: int
    context_left: int
    late: int

    def state(self) -> CommitState:
        return CommitState(
            LateDecoder(self.late),
            end_ids=self.end_ids,
            stop=self.stop,
            include_stop=self.include_stop,
            max_new_tokens=self.max_new_tokens,
            context_left=self.context_left,
        )


@st.composite
def cases(draw: st.DrawFn) -> Case:
    ids = st.integers(0, len(PIECES) - 1)
    return Case(
        ids=tuple(draw(st.lists(ids, min_size=1, max_size=14))),
        end_ids=frozenset(draw(st.lists(ids, max_size=2))),
        stop=tuple(draw(st.lists(st.text("abc", min_size=1, max_size=5), max_size=3))),
        include_stop=draw(st.booleans()),
        max_new_tokens=draw(st.integers(1, 16)),
        context_left=draw(st.integers(1, 16)),
        late=draw(st.integers(0, 2)),
    )


def cut_at_stop(text: str, case: Case) -> str | None:
    """Return the text up to its first stop string, searching every place; None if there is none."""
    for start in range(len(text)):
        for stop in sorted(case.stop, key=len):
            if text[start : start + len(stop)] == stop:
                return text[: start + len(stop)] if case.include_stop else text[:start]
    return None


def oracle(case: Case) -> tuple[int, str, str | None]:
    """Return how many ids are kept, the final text (None ended: what is decoded so far) and the finish reason."""
    shown: list[int] = []  # ids that are text
    for num_kept, token_id in enumerate(case.ids, start=1):
        if token_id in case.end_ids:
            whole = "".join(PIECES[shown_id] for shown_id in shown)
            cut = cut_at_stop(whole, case)
            return num_kept, whole if cut is None else cut, "stop"
        shown.append(token_id)
        decoded = "".join(PIECES[shown_id] for shown_id in shown[: max(0, len(shown) - case.late)])
        cut = cut_at_stop(decoded, case)
        if cut is not None:
            return num_kept, cut, "stop"
        if num_kept == min(case.max_new_tokens, case.context_left):
            whole = "".join(PIECES[shown_id] for shown_id in shown)
            cut = cut_at_stop(whole, case)
            return num_kept, whole if cut is None else cut, "length" if cut is None else "stop"
    return len(case.ids), "".join(PIECES[shown_id] for shown_id in shown[: max(0, len(shown) - case.late)]), None


def blocks_of(ids: Sequence[int], sizes: Sequence[int]) -> list[tuple[int, ...]]:
    blocks, rest = [], tuple(ids)
    for size in sizes:
        blocks.append(rest[:size])
        rest = rest[size:]
    return [*blocks, rest]


def run(state: CommitState, blocks: Sequence[Sequence[int]]) -> list[Commit]:
    commits = []
    for block in blocks:
        commits.append(state.commit(block))
        if commits[-1].finish_reason is not None:
            break
    return commits


@settings(max_examples=400)
@given(case=cases(), sizes=st.lists(st.integers(0, 6), max_size=6))
def test_every_split_into_blocks_ends_as_one_token_at_a_time(case: Case, sizes: list[int]) -> None:
    """Text, ids or finish reason would depend on where the draft-and-verify blocks happen to fall."""
    num_kept, text, reason = oracle(case)
    state = case.state()
    blocks = blocks_of(case.ids, sizes)
    commits = run(state, blocks)
    assert [token_id for commit in commits for token_id in commit.ids] == list(case.ids[:num_kept])
    assert state.token_ids == list(case.ids[:num_kept])
    assert commits[-1].finish_reason == state.finish_reason == reason
    for block, commit in zip(blocks, commits, strict=False):
        assert commit.ids == block[: len(commit.ids)]
    streamed = "".join(commit.text for commit in commits)
    assert streamed == state.text
    assert state.remaining == min(case.max_new_tokens, case.context_left) - num_kept
    if reason is not None:
        assert streamed == text
        assert state.close() == ""
        return
    held = text.removeprefix(streamed)
    assert streamed + held == text
    # As much as can be is streamed: only what begins a stop string is held back, and that never longer than needed.
    ends = [text[i:] for i in range(len(text))]
    begins = [end for end in ends if any(stop.startswith(end) for stop in case.stop)]
    assert held == max(begins, key=len, default="")


@settings(max_examples=200)
@given(case=cases(), sizes=st.lists(st.integers(0, 6), max_size=6))
def test_a_cancelled_text_ends_with_what_was_held_back(case: Case, sizes: list[int]) -> None:
    """The deltas of a cancelled request would not add up to its text."""
    state = case.state()
    commits = run(state, blocks_of(case.ids, sizes))
    deltas = [*(commit.text for commit in commits), state.close()]
    assert "".join(deltas) == state.text
    if commits[-1].finish_reason is None:
        whole = "".join(PIECES[token_id] for token_id in case.ids)
        cut = cut_at_stop(whole, case)
        assert state.text == (whole if cut is None else cut)


def _state(decoder: LateDecoder | None = None, **changed: object) -> CommitState:
    given_: dict[str, object] = {
        "end_ids": frozenset(),
        "stop": (),
        "include_stop": False,
        "max_new_tokens": 100,
        "context_left": 100,
    }
    return CommitState(decoder or LateDecoder(0), **{**given_, **changed})  # type: ignore[arg-type]


@pytest.mark.parametrize("place", range(6))
@pytest.mark.parametrize("num_accepted", range(6))
def test_an_end_token_anywhere_in_a_block_ends_the_text_there(place: int, num_accepted: int) -> None:
    """Tokens, text or statistics would go on beyond the end of the text."""
    block = [0] * 6
    block[place] = 6
    state = _state(end_ids=frozenset({6}))
    commit = state.commit(block)
    assert commit == Commit((*[0] * place, 6), "a" * place, "stop")
    assert commit.accepted(num_accepted) == min(num_accepted, place + 1)


def test_an_end_token_on_the_last_allowed_token_is_a_stop() -> None:
    """A text that ended by itself would be reported as cut off."""
    assert _state(end_ids=frozenset({6}), max_new_tokens=2).commit([0, 6]).finish_reason == "stop"
    assert _state(stop=("ab",), max_new_tokens=2).commit([0, 1]).finish_reason == "stop"
    assert _state(max_new_tokens=2).commit([0, 1]).finish_reason == "length"


def test_the_first_of_two_events_in_a_block_decides() -> None:
    """An end token after the limit would turn a text that was cut into one that ended."""
    assert _state(end_ids=frozenset({6}), max_new_tokens=2).commit([0, 0, 6]) == ((0, 0), "aa", "length")
    assert _state(end_ids=frozenset({6}), stop=("b",)).commit([0, 6, 1]) == ((0, 6), "a", "stop")
    assert _state(end_ids=frozenset({6}), stop=("b",)).commit([0, 1, 6]) == ((0, 1), "a", "stop")


def test_the_context_limit_ends_the_text_as_length() -> None:
    """A request would run past the target's positions."""
    assert _state(context_left=3).commit([0, 0, 0, 0]) == ((0, 0, 0), "aaa", "length")


def test_of_two_stop_strings_that_end_with_one_token_the_first_to_start_wins() -> None:
    """The cut would depend on the order in which stop strings are listed."""
    for stop in (("bc", "abca"), ("abca", "bc")):
        assert _state(stop=stop).commit([0, 7]) == ((0, 7), "", "stop")
        assert _state(stop=stop, include_stop=True).commit([0, 7]).text == "abca"
    assert _state(stop=("abc", "ab"), include_stop=True).commit([0, 7]).text == "ab"


def test_committing_after_the_end_is_our_own_bug() -> None:
    """Tokens after the end would be appended to a finished text."""
    state = _state(max_new_tokens=1)
    state.commit([0])
    with pytest.raises(AssertionError, match="ended"):
        state.commit([0])


@pytest.mark.parametrize("limits", [{"max_new_tokens": 0}, {"context_left": 0}, {"context_left": -4}])
def test_a_request_without_room_for_a_token_is_refused(limits: dict[str, int]) -> None:
    """A prompt that fills the context would fail inside the model."""
    with pytest.raises(InvalidRequest, match=r"max_new_tokens is 0|the prompt is too long .* by (1|5) tokens"):
        _state(None, **limits)


def test_end_ids_of_all_sources_are_united() -> None:
    """An end id listed in only one of the configurations would not end the text."""
    assert united_end_ids(2, [3, 4], None, (2, 9), ignore_eos=False) == {2, 3, 4, 9}
    assert united_end_ids(0, ignore_eos=False) == {0}
    assert united_end_ids(2, [3, 4], (9,), ignore_eos=True) == frozenset()


@given(st.integers(1, 9), st.integers(-3, 9), st.integers(0, 7))
def test_never_more_is_drafted_than_can_be_emitted_or_held(remaining: int, context_left: int, k: int) -> None:
    """Drafted tokens would be thrown away at the limit, or a short-context draft would run out of positions."""
    longest = max_draft_tokens(remaining, context_left, k)
    possible = [n for n in range(k + 1) if n == 0 or (n + 1 <= remaining and n <= context_left)]
    assert longest == possible[-1]


def test_one_new_token_drafts_nothing() -> None:
    """max_new_tokens=1 would pay for a draft it cannot use."""
    assert max_draft_tokens(1, 100, 5) == 0
