"""The residency state machine among a model Decoder and a model Loader, in thousands of interleavings.

If these fail, some timing frees memory that is in use, gives more away than there is, or loses a draft for good.
"""

import random
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from memspec_actors.protocols.messages import ResidentDraft
from memspec_actors.scheduling.instructions import Failed, Freed, Instruction
from memspec_actors.scheduling.residency import Residency
from memspec_actors.scheduling.slot import Slot, State
from tests.scheduling.plant import mixed_plant, uniform_plant
from tests.scheduling.residency_world import World, live


@pytest.mark.parametrize("chunk", range(10))
def test_no_interleaving_breaks_an_invariant_or_comes_to_rest_unfinished(chunk: int) -> None:
    """Some timing would run freed weights, overbook memory, lose bytes, or never load the draft that is wanted."""
    for seed in range(chunk * 200, chunk * 200 + 200):
        try:
            live(seed)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error


def test_the_interleavings_reach_every_state_and_end() -> None:
    """A world in which nothing is ever cancelled, adopted or discarded would prove nothing."""
    seen: set[str] = set()

    class Watched(Residency):
        def _settle(self, now: float | None) -> list[Instruction]:
            before = {s.draft: s.state for s in self._slots.in_state(*State)}
            instructions = super()._settle(now)
            for slot in self._slots.in_state(*State):
                seen.add(f"{before[slot.draft].name if slot.draft in before else 'ABSENT'}-{slot.state.name}")
            seen.update(type(instruction).__name__ for instruction in instructions)
            return instructions

        def _free(self, slot: Slot) -> Freed:
            seen.add(f"{slot.state.name}-FREED")
            return super()._free(slot)

    for seed in range(150):
        live(seed, Watched)
    assert {
        *("ABSENT-LOADING", "LOADING-CANCELLING", "WARMING-DISCARDED", "DISCARDED-WARMING", "RESIDENT-REVOKED"),
        *("REVOKED-RESIDENT", "CANCELLING-FREED", "DISCARDED-FREED", "REVOKED-FREED", "CANCELLING-CANCELLING"),
    } <= seen


class FreesAtOnce(Residency):
    """Reuses revoked memory without an acknowledgement."""

    def _free_acknowledged(self) -> list[Instruction]:
        self._epochs.acknowledged = self._epochs.newest
        return super()._free_acknowledged()

    def _settle(self, now: float | None) -> list[Instruction]:
        return super()._settle(now) + self._free_acknowledged()


class FreesOnAnyAck(Residency):
    """Takes the acknowledgement of an old epoch for one of the newest."""

    def on_ack(self, epoch: int, active: ResidentDraft | None, now: float) -> list[Instruction]:
        newest = self._epochs.newest
        return super().on_ack(newest if 0 < epoch <= newest else epoch, active, now)


class EvictsTheActive(Residency):
    """Forgets that the active draft is in use."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._epochs.protected = lambda slots: set()  # type: ignore[method-assign]


class BelievesStaleMessages(Residency):
    """Takes a message about an earlier load for one about the present load."""

    def on_load_finished(self, draft: ResidentDraft, now: float) -> list[Instruction]:
        slot = self._slots.get(draft.name)
        return super().on_load_finished(slot.draft if slot else draft, now)


class LeaksFailedLoads(Residency):
    """Keeps the bytes of a failed load."""

    def on_load_failed(self, draft: ResidentDraft, error: str, now: float) -> list[Instruction]:
        slot = self._slots.find(draft, State.LOADING, State.CANCELLING)
        if slot is None:
            return []
        delay_s = self._quarantine.add(draft.name, error, now)
        return [Failed(draft, error, delay_s), *self._settle(now)]


class OrphansLateFinishes(Residency):
    """Ignores that a load which was given up finished all the same."""

    def on_load_finished(self, draft: ResidentDraft, now: float) -> list[Instruction]:
        return [] if self._slots.find(draft, State.CANCELLING) else super().on_load_finished(draft, now)


class DiscardsWhileWarming(Residency):
    """Frees a loaded draft that the Decoder is still warming."""

    def _settle(self, now: float | None) -> list[Instruction]:
        instructions = super()._settle(now)
        return instructions + [self._free(slot) for slot in self._slots.in_state(State.DISCARDED)]


class ForgetsToAnnounce(Residency):
    """Does not tell the Decoder of a failed draft."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._demand.unavailable = lambda: ()  # type: ignore[method-assign]


class NeverRetries(Residency):
    """Starts loads when a ranking comes, but not when room has become free."""

    _hears_ranking = False

    def on_ranking(
        self, order: Sequence[str], scores: Sequence[float], now: float, depth: int | None = None
    ) -> list[Instruction]:
        self._hears_ranking = True
        instructions = super().on_ranking(order, scores, now, depth)
        self._hears_ranking = False
        return instructions

    def _start(self, prefetch: Sequence[str]) -> list[Instruction]:
        return super()._start(prefetch) if self._hears_ranking else []


@pytest.mark.parametrize(
    ("fault", "breach"),
    [
        (FreesAtOnce, "freed while the Decoder may use it"),
        (FreesOnAnyAck, "freed while the Decoder may use it"),
        (EvictsTheActive, "the active draft was revoked"),
        (BelievesStaleMessages, "a stale message must be ignored"),
        (LeaksFailedLoads, "bytes are lost or made up"),
        (OrphansLateFinishes, "the wrong bytes count as loaded"),
        (DiscardsWhileWarming, "freed while it is written or warmed"),
        (ForgetsToAnnounce, "a failure was not announced"),
        (NeverRetries, "never became resident"),
    ],
)
def test_the_books_catch_a_faulty_state_machine(fault: type[Residency], breach: str) -> None:
    """If a broken state machine passes, the interleavings above prove nothing."""
    assert any(breach in breach_of(seed, fault) for seed in range(300))


def breach_of(seed: int, fault: type[Residency]) -> str:
    try:
        live(seed, fault)
    except (AssertionError, KeyError) as error:
        return str(error)
    return ""


class ResidencyMachine(RuleBasedStateMachine):
    """The same world with hypothesis choosing, and shrinking, the history."""

    @initialize(seed=st.integers(0, 10_000), uniform=st.booleans())
    def build(self, seed: int, uniform: bool) -> None:
        rng = random.Random(seed)
        self.world = World(uniform_plant(rng) if uniform else mixed_plant(rng), rng)

    @rule(order=st.permutations("abcde"), length=st.integers(0, 5), depth=st.sampled_from([None, 1, 2]))
    def rank(self, order: list[str], length: int, depth: int | None) -> None:
        self.world.rank([name for name in order if name in self.world.plant.parts][:length], depth)

    @precondition(lambda self: self.world.loader.outbox)
    @rule()
    def hear_loader(self) -> None:
        self.world.hear_loader()

    @precondition(lambda self: self.world.decoder.outbox)
    @rule()
    def hear_decoder(self) -> None:
        self.world.hear_decoder()

    @precondition(lambda self: self.world.decoder.inbox)
    @rule(choice=st.none() | st.integers(0, 4))
    def decoder_takes(self, choice: int | None) -> None:
        self.world.decoder.takes(choice)

    @rule(choice=st.none() | st.integers(0, 4))
    def decoder_picks(self, choice: int | None) -> None:
        self.world.decoder.picks(choice)

    @precondition(lambda self: self.world.decoder.warming)
    @rule(choice=st.integers(0, 4))
    def decoder_warmed(self, choice: int) -> None:
        self.world.decoder.warmed(choice)

    @rule()
    def decoder_restarts(self) -> None:
        self.world.decoder.restarts()

    @rule()
    def change_request(self) -> None:
        self.world.change_request()

    @rule(choice=st.integers(0, 4))
    def unload(self, choice: int) -> None:
        self.world.unload(self.world.plant.names[choice % len(self.world.plant.names)])

    @rule()
    def decoder_begins(self) -> None:
        self.world.decoder.begins()

    @precondition(lambda self: self.world.loader.inbox)
    @rule()
    def loader_takes(self) -> None:
        self.world.loader.takes()

    @precondition(lambda self: self.world.loader.running)
    @rule(choice=st.integers(0, 4), outcome=st.sampled_from(["finished", "failed", "cancelled"]))
    def loader_ends(self, choice: int, outcome: str) -> None:
        self.world.loader.ends(choice, outcome)

    @rule(seconds=st.sampled_from([0.0, 0.5, 3.0, 100.0]))
    def pass_time(self, seconds: float) -> None:
        self.world.pass_time(seconds)

    @invariant()
    def nothing_freed_is_in_use(self) -> None:
        self.world.decoder.iterates()

    def teardown(self) -> None:
        if hasattr(self, "world"):
            self.world.calm_down(self.world.plant.names)
            self.world.check_at_rest()


TestResidencyMachine = ResidencyMachine.TestCase
TestResidencyMachine.settings = settings(max_examples=60, stateful_step_count=40)
