"""Every thread computes with the threads it was given."""

import asyncio
import os
import sys
import threading
from functools import partial

import pytest
import torch

from memspec_actors.models.devices.threads import stand_back, use_threads
from memspec_actors.runtime import Workers


def test_workers_keep_the_threads_they_were_given() -> None:
    """Ranking and loading would take the cores that decoding computes on."""

    def count() -> int:
        torch.relu(torch.ones(300_000))  # large enough to be split over threads
        return torch.get_num_threads()

    async def scenario() -> list[int]:
        workers = [Workers(f"w{number}", partial(use_threads, number)) for number in (1, 3, 2)]
        for each in workers:  # every thread is started before any of them is asked
            await each.run(lambda: None)
        counts = [await each.run(count) for each in (*workers, *reversed(workers))]
        for each in workers:
            each.close()
        return counts

    here = torch.get_num_threads()
    assert asyncio.run(scenario()) == [1, 3, 2, 2, 3, 1]
    use_threads(here)  # the number that threads of other tests begin with


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux gives threads a niceness of their own")
@pytest.mark.parametrize("own", [0, 4, 15, 19])
def test_what_stands_back_is_nicer_than_a_process_that_is_nice_itself(own: int) -> None:
    """Under ``nice`` ranking would come before decoding; without privileges it would fail for wanting to."""
    seen = []

    def nice_thread() -> None:
        os.nice(own)
        stand_back(1)
        seen.append(os.getpriority(os.PRIO_PROCESS, threading.get_native_id()))

    thread = threading.Thread(target=nice_thread)
    thread.start()
    thread.join()
    of_process = min(os.getpriority(os.PRIO_PROCESS, 0) + own, 19)
    assert seen == [min(of_process + 10, 19)]


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere no priority is set")
def test_a_sandbox_that_forbids_priorities_is_lived_with(monkeypatch: pytest.MonkeyPatch) -> None:
    """In some containers no draft would ever be ranked, loaded or warmed."""

    def forbidden(*_: int) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "setpriority", forbidden)
    stand_back(torch.get_num_threads())
