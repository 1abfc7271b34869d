"""Plan by the domains that a text goes through, and by no luck of this text: `domain-oracle`.

A draft is worth what it agrees with on average in a domain, over all texts that are planned; of the text itself the
oracle knows only where domains begin. So this is the best that a ranking could be which understands texts perfectly.
"""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from memspec_actors.protocols.traces import Plan, PlanStep, TraceRecord

__all__ = ["AHEAD", "WINDOW", "DomainOracle"]

WINDOW = 16  # tokens for which a draft is chosen: about an interval, as good as any from 8 to 32
AHEAD = 64  # tokens: a draft that is the best within so many is loaded, and there before it is needed

Floats = NDArray[np.float64]


class DomainOracle:
    """Know how often each draft agrees with the target in each domain of ``records``, all of the same drafts.

    Texts whose domains are unknown count as one domain.
    """

    def __init__(self, records: Iterable[TraceRecord]) -> None:
        agreed: dict[str, Floats] = {}  # (D,) by domain
        tokens: dict[str, int] = {}
        for record in records:
            agrees = np.array(list(record.accepted.values())) > 0  # (D, L)
            for domain, start, end in _stretches(record):
                agreed[domain] = agreed.get(domain, 0.0) + agrees[:, start:end].sum(axis=1)
                tokens[domain] = tokens.get(domain, 0) + end - start
        self._agreement = {domain: agreed[domain] / tokens[domain] for domain in agreed}

    def expected(self, record: TraceRecord, window: int = WINDOW) -> Floats:
        """Give the share of the next ``window`` tokens that each draft is to agree with, at every position, (D, L).

        ``record`` is one of those that the oracle was made of.
        """
        end = len(record.output_ids)
        here = np.zeros((len(record.accepted), end))
        for domain, start, stop in _stretches(record):
            here[:, start:stop] = self._agreement[domain][:, None]
        before = np.concatenate([np.zeros((len(here), 1)), here.cumsum(axis=1)], axis=1)
        position = np.arange(end)
        until = np.minimum(position + window, end)
        shares: Floats = (before[:, until] - before[:, position]) / (until - position)
        return shares

    def plan(self, record: TraceRecord) -> Plan:
        """Rank at every position the best draft of the next tokens, then those that will be it next.

        The second place in memory is worth most to the draft of the coming domain, not to the second best of this one.
        All other drafts follow by what is expected of them.
        """
        names, fits = list(record.accepted), self.expected(record)
        best = fits.argmax(axis=0).tolist()
        steps = []
        for here in range(len(record.output_ids)):
            rest = np.argsort(-fits[:, here], kind="stable").tolist()
            order = dict.fromkeys([*best[here : here + AHEAD + 1], *rest])
            steps.append(PlanStep(here, tuple(names[draft] for draft in order)))
        return Plan(prompt_ids=record.prompt_ids, steps=tuple(steps))


def _stretches(record: TraceRecord) -> list[tuple[str, int, int]]:
    """List the domains of a text, each with its first position and the one behind its last."""
    domains = [start.domain for start in record.domains] or [""]
    starts = [start.position for start in record.domains] or [0]
    return list(zip(domains, starts, [*starts[1:], len(record.output_ids)], strict=True))
