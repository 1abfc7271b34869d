"""One study of the papers' evaluations."""

from typing import NamedTuple

from memspec_actors.bench.paper.claims import Claim

__all__ = ["Study"]


class Study(NamedTuple):
    """One script of ``bench/``, what it answers, and what the papers claim."""

    name: str
    title: str
    question: str
    claims: tuple[Claim, ...]
