"""If these fail, the Decoder does not hear of a change, or memory is reused that it may still read."""

from memspec_actors.protocols.messages import ResidentDraft
from memspec_actors.scheduling.artefacts import Artefact, DraftSpec
from memspec_actors.scheduling.epochs import Epochs
from memspec_actors.scheduling.instructions import Announce
from memspec_actors.scheduling.slot import Slot
from memspec_actors.scheduling.slots import Slots

LAW, CODE = ResidentDraft("law", 1), ResidentDraft("code", 1)


def slots_with(*names: str) -> Slots:
    """Return slots whose drafts of these names are resident."""
    slots = Slots([DraftSpec(name, (Artefact(name, 64),)) for name in ("law", "code")], 2, 128)
    for name in names:
        slots.start_load(name)
        slot_of(slots, name).loaded()
        slot_of(slots, name).warmed()
    return slots


def slot_of(slots: Slots, name: str) -> Slot:
    slot = slots.get(name)
    assert slot is not None
    return slot


def test_what_is_as_it_was_is_announced_once() -> None:
    """Else every message costs the Decoder an acknowledgement."""
    epochs, slots = Epochs(), slots_with("law")
    assert epochs.announce(slots, ("code",)) == [Announce(1, (LAW,), ("code",), "law joined, code unavailable")]
    assert epochs.announce(slots, ("code",)) == []
    assert epochs.announce(slots, ()) == [Announce(2, (LAW,), (), "code available again")]


def test_a_revoked_draft_has_left_with_the_acknowledgement_of_the_first_epoch_without_it() -> None:
    """Else it is freed while the Decoder may pick it, or never."""
    epochs, slots = Epochs(), slots_with("law", "code")
    epochs.announce(slots, ())
    law = slot_of(slots, "law")
    law.leave()
    assert epochs.announce(slots, ()) == [Announce(2, (CODE,), (), "law revoked")]
    assert epochs.acknowledge(1, None, slots)
    assert not epochs.has_left(law)
    assert epochs.acknowledge(2, None, slots)
    assert epochs.has_left(law)


def test_a_draft_revoked_before_it_was_announced_has_an_epoch_of_its_own() -> None:
    """Else no acknowledgement ever frees it."""
    epochs, slots = Epochs(), slots_with("law")
    slot_of(slots, "law").leave()
    assert [announced.epoch for announced in epochs.announce(slots, ())] == [1]
    assert epochs.acknowledge(1, None, slots)
    assert epochs.has_left(slot_of(slots, "law"))


def test_acknowledgements_of_old_epochs_and_of_none_are_ignored() -> None:
    """Else a late message, or one made up, gives memory away."""
    epochs, slots = Epochs(), slots_with("law")
    epochs.announce(slots, ())
    assert not epochs.acknowledge(2, None, slots)
    assert epochs.acknowledge(1, None, slots)
    assert not epochs.acknowledge(0, None, slots)
    assert epochs.acknowledged == 1


def test_a_decoder_that_starts_anew_hears_again_what_was_announced() -> None:
    """Else it decodes without drafts until something changes; before the first epoch there is nothing to hear."""
    epochs, slots = Epochs(), slots_with()
    epochs.begin_anew()
    assert epochs.announce(slots, ()) == []
    slots = slots_with("law")
    epochs.announce(slots, ())
    epochs.begin_anew()
    assert epochs.announce(slots, ()) == [Announce(2, (LAW,), (), "the Decoder started anew")]


def test_the_draft_that_decodes_has_not_left_whatever_was_acknowledged() -> None:
    """Else it is freed under the Decoder, which took it up before it read of the revocation."""
    epochs, slots = Epochs(), slots_with("law", "code")
    epochs.announce(slots, ())
    law = slot_of(slots, "law")
    law.leave()
    epochs.announce(slots, ())
    assert epochs.activate(LAW, slots)
    assert epochs.protected(slots) == {"code"}, "it will move on to one of those"
    assert epochs.acknowledge(2, LAW, slots)
    assert not epochs.has_left(law)
    assert epochs.activate(CODE, slots)
    assert epochs.has_left(law)
    assert epochs.protected(slots) == {"code"}


def test_word_of_a_draft_that_is_gone_is_ignored() -> None:
    """Else a late message protects nothing, and the draft that decodes may go."""
    epochs, slots = Epochs(), slots_with("law")
    epochs.announce(slots, ())
    assert epochs.activate(LAW, slots)
    assert not epochs.activate(CODE, slots)
    assert not epochs.acknowledge(1, CODE, slots)
    assert (epochs.active, epochs.acknowledged) == (LAW, 0)
    epochs.begin_anew()
    assert epochs.active is None
