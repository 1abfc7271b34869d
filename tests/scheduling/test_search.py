"""If these fail, memspec+ tries drafts for ever that never pay, or none where the predictor misses one."""

from memspec_actors.scheduling.search import Discoveries, Search

ORDER = ("general", "code", "math", "law")


def search(discoveries: Discoveries, *, law_fits: bool) -> list[str]:
    """Look for a draft in a text that no other than "law" can fit; return which were tried."""
    one, doubts, tried = Search(discoveries), {"general": 9.0, "code": 9.0}, list[str]()
    for _ in range(5):
        one.see(doubts, 0.7, ORDER, ())
        if one.trying is None or "law" in one.found:
            break
        tried.append(one.trying)
        doubts[one.trying] = -1.0 if law_fits and one.trying == "law" else 9.0
    assert one.found == ({"law"} if law_fits else set())
    return tried


def test_what_was_found_in_one_text_is_tried_first_in_the_next() -> None:
    discoveries = Discoveries()
    assert search(discoveries, law_fits=True) == ["math", "law"]
    assert search(discoveries, law_fits=True) == ["law"]


def test_trials_that_never_pay_come_to_an_end() -> None:
    """On texts that no draft fits loads would go on for ever."""
    discoveries = Discoveries()
    assert [len(search(discoveries, law_fits=False)) for _ in range(6)] == [2, 2, 2, 2, 0, 0]


def test_what_never_paid_is_tried_again_after_many_texts() -> None:
    """Drafts and texts change: what a daemon learned on its first day would hold for ever."""
    discoveries = Discoveries()
    tried = [bool(search(discoveries, law_fits=False)) for _ in range(60)]
    assert tried[:4] == [True] * 4
    assert 2 <= sum(tried[4:]) <= 10


def test_a_draft_that_was_never_heard_was_not_tried_in_vain() -> None:
    """Texts that end before a load does would bar all drafts."""
    discoveries = Discoveries()
    for _ in range(20):
        cut_short = Search(discoveries)
        cut_short.see({"general": 9.0, "code": 9.0}, 0.7, ORDER, ())
        assert cut_short.trying == "math"
    one = Search(discoveries)
    one.see({"general": 9.0, "code": 9.0}, 0.7, ORDER, ())
    one.see({"general": 9.0, "code": 9.0}, 0.7, ORDER, ("math",))
    assert one.trying == "law", "math was loaded, or cannot come: it is not waited for"
    one.see({"general": 9.0, "code": 9.0, "math": 9.0}, 0.7, ORDER, ())
    assert discoveries.most_hopeful(["math", "law"]) == "law", "math was heard at last, in vain"


def test_nothing_is_tried_while_a_draft_does_well_or_nothing_is_known() -> None:
    one = Search(Discoveries())
    for doubts in ({"general": 9.0, "code": 1.0}, {}):
        one.see(doubts, 0.7, ORDER, ())
        assert one.trying is None


def test_a_draft_that_cannot_come_is_not_tried() -> None:
    """It would be waited for."""
    one = Search(Discoveries())
    one.see({"general": 9.0}, 0.7, ORDER, ("code", "math"))
    assert one.trying == "law"
    one.see({"general": 9.0}, 0.7, ORDER, ("code", "math", "law"))
    assert one.trying is None
