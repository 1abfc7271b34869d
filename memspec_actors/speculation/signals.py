"""What stop rules go by: how sure a draft is of a token."""

import math

from torch import Tensor

from memspec_actors.speculation.divergence import entropy

__all__ = ["acceptance_bound", "token_signal"]

ADAEDL_GAMMA = 0.2


def token_signal(kind: str, probs: Tensor, token_id: int) -> float:
    """Return the signal of a token that was drawn from a distribution (V,); TorchScript as well as Python.

    ``confidence``: its probability. ``entropy``: that of the distribution, in nats. ``bound``: `acceptance_bound`.
    """
    if kind == "confidence":
        return float(probs[token_id])
    nats = entropy(probs)
    if kind == "entropy":
        return nats
    return acceptance_bound(nats)


def acceptance_bound(nats: float, gamma: float = ADAEDL_GAMMA) -> float:
    """Return AdaEDL's lower bound of the probability that a token is accepted, 1 - sqrt(gamma H), H in nats.

    TorchScript as well as Python. Source: Agrawal et al. 2024.
    """
    return 1.0 - math.sqrt(gamma * (0.0 if nats < 0.0 else nats))
