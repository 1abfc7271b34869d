"""How many threads the computations of one thread use, and which threads come first."""

import os
import sys
import threading

import torch

__all__ = ["stand_back", "use_threads"]

NICENESS = 10  # a tenth of the processor time where decoding wants it all


def use_threads(num_threads: int) -> None:
    """Let whatever this thread of the process computes from now on use ``num_threads`` threads; others keep theirs.

    A thread's first use of torch gives it the number that was last set anywhere, so that use has to come before.
    """
    torch.get_num_threads()
    torch.set_num_threads(num_threads)


def stand_back(num_threads: int) -> None:
    """Do as `use_threads` does, and let this thread run where others leave room, if the system can tell them apart.

    Otherwise decoding may find its core taken at an iteration's beginning, and wait for the whole of a ranking though
    another core is idle.
    """
    use_threads(num_threads)
    if sys.platform == "linux":  # elsewhere a niceness is the whole process's
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)
