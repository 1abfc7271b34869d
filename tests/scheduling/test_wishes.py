"""What people ask of the cache beside its ranking: if these fail, a pinned draft goes, or one that was let go stays."""

from collections.abc import Sequence

import pytest

from memspec_actors.errors import InvalidRequest
from memspec_actors.protocols.messages import DraftWish, ResidentDraft
from memspec_actors.scheduling.artefacts import Artefact, DraftSpec
from memspec_actors.scheduling.backoff import Backoff
from memspec_actors.scheduling.instructions import AbortLoad, Announce, Freed, Instruction, Revoked, StartLoad, Warm
from memspec_actors.scheduling.residency import Residency

SIZES = {"general": 64, "code": 64, "math": 64, "law": 128, "huge": 1024}


class Cache:
    """A residency state machine whose loads and acknowledgements come at once.

    ``active`` is what decodes: the best-ranked resident draft, as the Decoder picks it.
    """

    def __init__(self, capacity: int = 2, budget: int = 192) -> None:
        specs = [DraftSpec(name, (Artefact(name, nbytes),)) for name, nbytes in SIZES.items()]
        self.residency = Residency(specs, capacity=capacity, budget_bytes=budget, backoff=Backoff(first_s=10.0))
        self.active: ResidentDraft | None = None
        self.order: tuple[str, ...] = ()
        self.resident: tuple[ResidentDraft, ...] = ()
        self.fails: set[str] = set()
        self.seen: list[Instruction] = []

    def rank(self, *order: str, depth: int | None = None) -> set[str]:
        self.order = order
        scores = [1.0 - i / 10 for i in range(len(order))]
        return self.play(self.residency.on_ranking(order, scores, 0.0, depth))

    def wish(self, wish: DraftWish, name: str) -> set[str]:
        return self.play(self.residency.on_wish(wish, name, 0.0))

    def play(self, instructions: Sequence[Instruction]) -> set[str]:
        """Carry out instructions and what follows from them; return what is resident in the end."""
        queue = list(instructions)
        while queue:
            instruction = queue.pop(0)
            self.seen.append(instruction)
            queue += self._answer(instruction)
            queue += self._pick() if not queue else []
        now = self.residency.snapshot(0.0)
        assert now.resident_bytes + now.reserved_bytes <= now.budget_bytes
        return set(now.resident)

    def _answer(self, instruction: Instruction) -> Sequence[Instruction]:
        match instruction:
            case StartLoad(draft=draft) if draft.name in self.fails:
                return self.residency.on_load_failed(draft, "broken", 0.0)
            case StartLoad(draft=draft):
                return self.residency.on_load_finished(draft, 0.0)
            case Warm(draft=draft):
                return self.residency.on_warmed(draft, 0.0)
            case AbortLoad(draft=draft):
                return self.residency.on_load_cancelled(draft, 0.0)
            case Announce(epoch=epoch, resident=resident):
                self.resident = resident
                return [*self._pick(), *self.residency.on_ack(epoch, self.active, 0.0)]
            case _:
                return []

    def _pick(self) -> Sequence[Instruction]:
        usable = {draft.name: draft for draft in self.resident}
        best = next((usable[name] for name in self.order if name in usable), None)
        if best == self.active:
            return []
        self.active = best
        return self.residency.on_activated(best)


def test_a_draft_that_is_asked_for_is_loaded_until_the_next_ranking() -> None:
    cache = Cache()
    cache.rank("general", "code")
    assert cache.wish("load", "math") == {"general", "math"}, "the worst-ranked one made room"
    assert cache.rank("general", "code") == {"general", "code"}


def test_a_pinned_draft_stays_whatever_the_ranking_until_it_is_unpinned() -> None:
    cache = Cache()
    cache.wish("pin", "math")
    for order in (("general", "code"), ("code", "general"), ("law", "code")):
        assert "math" in cache.rank(*order)
    assert cache.residency.snapshot(0.0).pinned == ("math",)
    cache.wish("unpin", "math")
    assert cache.rank("general", "code") == {"general", "code"}


@pytest.mark.parametrize("active", [True, False])
def test_an_unloaded_draft_is_freed_even_if_it_decodes(active: bool) -> None:
    """It would stay in memory; or be freed before decoding has moved on."""
    cache = Cache()
    cache.rank("general", "code")
    name = "general" if active else "code"
    assert cache.active is not None
    assert cache.active.name == "general"
    assert cache.wish("unload", name) == {"general", "code"} - {name}
    kinds = [type(each) for each in cache.seen if isinstance(each, Revoked | Freed | Announce)]
    assert kinds[-3:] == [Revoked, Announce, Freed]
    assert cache.active.name == ("code" if active else "general")
    assert cache.rank("general", "code") == {"general", "code"} - {name}, "the request at hand does without it"
    cache.play(cache.residency.on_request("the next one", 0.0))
    assert cache.rank("general", "code") == {"general", "code"}


def test_unloading_drops_a_pin_and_cancels_a_load() -> None:
    cache = Cache()
    cache.wish("pin", "code")
    assert cache.wish("unload", "code") == set()
    assert cache.residency.snapshot(0.0).pinned == ()
    loading = cache.residency.on_wish("load", "math", 0.0)
    assert [type(each) for each in loading] == [StartLoad]
    assert AbortLoad in [type(each) for each in cache.residency.on_wish("unload", "math", 0.0)]
    cache.play(cache.residency.on_load_cancelled(ResidentDraft("math", 1), 0.0))
    assert cache.residency.snapshot(0.0).reserved_bytes == 0


def test_a_failed_draft_is_tried_again_when_somebody_asks() -> None:
    """Whoever has mended the file would have to wait for the back-off."""
    cache = Cache()
    cache.fails = {"code"}
    cache.rank("code")
    assert "code" in cache.residency.snapshot(0.0).unavailable
    cache.fails = set()
    assert cache.wish("load", "code") == {"code"}


@pytest.mark.parametrize(
    ("wishes", "said"),
    [
        ([("load", "lwa")], "no draft 'lwa'"),
        ([("evict", "code")], "load, unload, pin, unpin, not 'evict'"),
        ([("load", "huge")], "1024 bytes"),
        ([("pin", "huge")], "1024 bytes"),
        ([("pin", "code"), ("pin", "math"), ("pin", "general")], "room for 2 drafts"),
    ],
)
def test_what_cannot_be_is_refused_and_changes_nothing(wishes: list[tuple[DraftWish, str]], said: str) -> None:
    cache = Cache()
    *before, (wish, name) = wishes
    for each in before:
        cache.wish(*each)
    pinned = cache.residency.snapshot(0.0).pinned
    with pytest.raises(InvalidRequest, match=said):
        cache.residency.on_wish(wish, name, 0.0)
    assert cache.residency.snapshot(0.0).pinned == pinned


def test_pins_must_fit_together() -> None:
    cache = Cache(capacity=3, budget=192)
    cache.wish("pin", "law")
    cache.wish("pin", "code")
    with pytest.raises(InvalidRequest, match="bytes exceed the budget"):
        cache.wish("pin", "math")
