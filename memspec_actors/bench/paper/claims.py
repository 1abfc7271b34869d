"""Claims of the paper, and how a figure of ours stands to them."""

from collections.abc import Callable
from dataclasses import dataclass

from memspec_actors.bench.paper.figures import Figure
from memspec_actors.bench.paper.finding import Finding

__all__ = ["Claim", "Verdict", "judge"]


@dataclass(frozen=True, kw_only=True)
class Claim:
    """One figure of the paper and of ours.

    ``paper`` is what the paper prints and ``goal`` what is to be reached (None: nothing, the figures only stand side by
    side): at least that, or ``at_most``. ``flaw`` tells why our figure does not count, or nothing if it does.
    """

    says: str
    ours: Figure
    paper: str = ""
    goal: float | None = None
    at_most: bool = False
    percent: bool = False
    flaw: Callable[[Finding], str] = lambda _: ""

    def written(self, value: float | None) -> str:
        """Write a value as this claim's figures are written."""
        if value is None:
            return "–"
        return f"{value:.1%}" if self.percent else f"{value:.3f}"

    @property
    def written_goal(self) -> str:
        return "" if self.goal is None else f"{'≤' if self.at_most else '≥'} {self.written(self.goal)}"


@dataclass(frozen=True)
class Verdict:
    """A claim and what was found, None if it was not measured.

    ``strict`` is over the strict general draft, ``by_domain`` the mean over data sets of one domain each, ``ceiling``
    what one who knew the text reaches on replayed texts, and ``flaw`` why our figure does not count.
    """

    claim: Claim
    ours: float | None = None
    strict: float | None = None
    by_domain: float | None = None
    ceiling: float | None = None
    flaw: str = ""

    @property
    def met(self) -> bool | None:
        """Tell whether the goal was reached; None if there is no goal, or no figure."""
        if self.ours is None or self.claim.goal is None:
            return None
        if self.flaw:
            return False
        return self.ours <= self.claim.goal if self.claim.at_most else self.ours >= self.claim.goal

    @property
    def text(self) -> str:
        """Say it: met, missed by how much (relative; in points where the figure is a share), or not measured."""
        goal = self.claim.goal
        if self.ours is None:
            return "not measured"
        if goal is None:
            return ""
        if self.met:
            return "met"
        if self.flaw:
            return f"missed: {self.flaw}"
        gap = abs(self.ours - goal)
        return f"missed by {gap * 100:.1f} points" if self.claim.percent else f"missed by {gap / goal:.1%}"


def judge(claim: Claim, finding: Finding | None, replayed: Finding | None = None) -> Verdict:
    """Look a claim's figures up in the finding of its study, if there is one.

    The ceiling is that of the same setting, or of ``replayed`` texts where the study varies none: what real runs were
    timed at is no limit.
    """
    if finding is None:
        return Verdict(claim)
    ceiling = claim.ours.ceiling
    source = finding if ceiling is None or ceiling.setting is not None else replayed
    return Verdict(
        claim,
        _found(claim.ours, finding),
        _found(claim.ours.strict, finding),
        _found(claim.ours.by_domain, finding),
        _found(ceiling, source) if source is not None else None,
        "" if _found(claim.ours, finding) is None else claim.flaw(finding),
    )


def _found(figure: Figure | None, finding: Finding) -> float | None:
    try:
        return None if figure is None else figure(finding)
    except LookupError:
        return None
