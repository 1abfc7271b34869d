"""Every thread computes with the threads it was given."""

import asyncio
from functools import partial

import torch

from memspec_actors.models.threads import use_threads
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
