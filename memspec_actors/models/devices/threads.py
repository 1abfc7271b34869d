"""How many threads the computations of one thread use, and which threads come first."""

import os
import sys
import threading
from contextlib import suppress

import torch

__all__ = ["stand_back", "use_threads"]

NICENESS = 10  # above that of decoding: a tenth of the processor time where decoding wants it all
MAX_NICENESS = 19


def use_threads(num_threads: int) -> None:
    """Let whatever this thread of the process computes from now on use ``num_threads`` threads; others keep theirs.

    A thread's first use of torch gives it the number that was last set anywhere, so that use has to come before.
    """
    torch.get_num_threads()
    torch.set_num_threads(num_threads)


def stand_back(num_threads: int) -> None:
    """Do as `use_threads` does, and let this thread run where others leave room, if the system lets threads differ.

    Otherwise decoding may find its core taken at an iteration's beginning, and wait for the whole of a ranking though
    another core is idle.
    """
    use_threads(num_threads)
    if sys.platform == "linux":  # elsewhere a niceness is the whole process's
        thread_id = threading.get_native_id()
        with suppress(OSError):  # a sandbox forbids it
            niceness = os.getpriority(os.PRIO_PROCESS, thread_id) + NICENESS
            os.setpriority(os.PRIO_PROCESS, thread_id, min(niceness, MAX_NICENESS))
