"""If these fail, the Decoder says that it has let go of a draft that it still uses, and its memory is overwritten."""

import random

import pytest

from memspec_actors.protocols.messages import ResidencyAnnounced, ResidentDraft
from memspec_actors.scheduling.leases import Leases

LAW, CODE, MATH = (ResidentDraft(name, 1) for name in ("law", "code", "math"))


def announced(epoch: int, *resident: ResidentDraft) -> ResidencyAnnounced:
    return ResidencyAnnounced(epoch=epoch, resident=resident, unavailable=())


def going_by(*resident: ResidentDraft) -> Leases:
    leases = Leases()
    leases.hear(announced(1, *resident))
    leases.adopt()
    return leases


@pytest.mark.parametrize("block", range(5))
def test_nothing_in_use_is_left_out_of_an_acknowledged_epoch(block: int) -> None:
    """Announcements overtake boundaries, drafts come back as other loads, and reading along ends at any time."""
    for seed in range(block * 40, block * 40 + 40):
        live(seed)


def live(seed: int) -> None:
    rng, leases, reading = random.Random(seed), Leases(), set[ResidentDraft]()
    generations = dict.fromkeys("abcde", 0)
    num_acknowledged = 0
    for epoch in range(1, 60):
        for name in rng.sample("abcde", 2):
            generations[name] += rng.random() < 0.5
        resident = [ResidentDraft(name, generations[name]) for name in rng.sample("abcde", 2)]
        leases.hear(announced(epoch, *resident))
        if leases.spares_active():  # amid an iteration
            leases.adopt()
            num_acknowledged += leases.acknowledge()
            assert {leases.active, *reading} <= {None, *leases.current.resident}
        for _ in range(rng.randint(0, 3)):
            leases.adopt()
            for draft in leases.current.resident:
                if rng.random() < 0.3 and leases.start_reading(draft):
                    assert draft not in reading and draft != leases.active
                    reading.add(draft)
            if reading and rng.random() < 0.5:
                draft = rng.choice(sorted(reading, key=str))
                leases.stop_reading(draft)
                reading.remove(draft)
            leases.activate(rng.sample("abcde", rng.randint(0, 5)))
            assert leases.active is None or leases.active in leases.current.resident
            if leases.acknowledge():
                num_acknowledged += 1
                assert leases.acknowledged == leases.current.epoch
                assert {leases.active, *reading} <= {None, *leases.current.resident}
    for draft in reading:
        leases.stop_reading(draft)
    leases.adopt()
    leases.activate(())
    leases.acknowledge()
    assert leases.acknowledged == 59, "its memory would stay taken for ever"
    assert num_acknowledged > 10


def test_a_draft_that_is_read_with_holds_up_the_epoch_that_leaves_it_out_and_no_other() -> None:
    leases = going_by(LAW, CODE)
    assert leases.start_reading(CODE)
    leases.hear(announced(2, CODE, MATH))
    assert leases.adopt() == {LAW}
    leases.hear(announced(3, MATH))
    assert leases.adopt() == frozenset()
    assert leases.current.epoch == 2
    leases.stop_reading(CODE)
    assert leases.adopt() == {CODE}


def test_of_announcements_that_overtake_one_another_the_newest_counts() -> None:
    """What it leaves out is told once, so that keys and values are dropped, and only once."""
    leases = going_by(LAW, CODE)
    leases.hear(announced(2, LAW))
    leases.hear(announced(3, MATH))
    assert leases.adopt() == {LAW, CODE}
    assert leases.adopt() == frozenset()


def test_every_epoch_is_acknowledged_once_whether_or_not_the_active_draft_changes() -> None:
    """Memory waits for the acknowledgement; a second one for every iteration would flood the CacheManager."""
    leases = going_by(LAW)
    assert leases.activate(("code", "law"))
    assert leases.acknowledge()
    assert not leases.activate(("law",))
    assert not leases.acknowledge()
    leases.hear(announced(2, LAW, CODE))
    leases.adopt()
    assert not leases.activate(("law",))
    assert leases.acknowledge()
    assert leases.activate(())
    assert leases.active is None


def test_a_draft_is_used_in_one_way_at_a_time() -> None:
    """An iteration would wait for what is read beside it with the very draft that it needs."""
    leases = going_by(LAW, CODE)
    leases.activate(("law",))
    assert not leases.start_reading(LAW)
    assert leases.start_reading(CODE)
    assert not leases.start_reading(CODE)
    leases.stop_reading(CODE)
    assert leases.start_reading(CODE)


def test_amid_an_iteration_only_what_spares_the_draft_at_work_is_gone_by() -> None:
    leases = going_by(LAW, CODE)
    assert leases.spares_active()
    leases.activate(["law"])
    for resident, spares in (((LAW, MATH), True), ((CODE, MATH), False), ((ResidentDraft("law", 2),), False)):
        leases.hear(announced(2, *resident))
        assert leases.spares_active() is spares
