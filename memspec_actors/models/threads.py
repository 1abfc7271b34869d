"""How many threads the computations of one thread use."""

import torch

__all__ = ["use_threads"]


def use_threads(num_threads: int) -> None:
    """Let whatever this thread of the process computes from now on use ``num_threads`` threads; others keep theirs.

    A thread's first use of torch gives it the number that was last set anywhere, so that use has to come before.
    """
    torch.get_num_threads()
    torch.set_num_threads(num_threads)
