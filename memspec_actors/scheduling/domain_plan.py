"""Plan by what a text is about, here and next, and not by the luck of single tokens: `domain-oracle`."""

import numpy as np

from memspec_actors.protocols.traces import Plan, PlanStep, TraceRecord

__all__ = ["ADAPTIVE_WINDOW", "AHEAD", "FIXED_WINDOW", "domain_oracle"]

FIXED_WINDOW = 32  # tokens whose agreements tell which draft fits, where drafts have one length
ADAPTIVE_WINDOW = 48  # the same where a rule ends them: what two iterations of a draft that fits may add
AHEAD = 64  # tokens: a draft that fits within so many is loaded, and there before it is needed


def domain_oracle(record: TraceRecord, window: int) -> Plan:
    """Rank at every position the draft that agrees with most of the next ``window`` tokens, then those that do so next.

    The second place in memory is worth most to the draft of the coming domain, not to the second best of this one: the
    plan knows where domains change, as no single token's luck tells. All other drafts follow by agreement.
    """
    names, end = list(record.accepted), len(record.output_ids)
    agrees = np.array([[run > 0 for run in record.accepted[name]] for name in names])  # (D, L)
    before = np.concatenate([np.zeros((len(names), 1), dtype=np.int64), agrees.cumsum(axis=1)], axis=1)
    position = np.arange(end)
    fits = before[:, np.minimum(position + window, end)] - before[:, position]  # (D, L)
    best = fits.argmax(axis=0).tolist()
    steps = []
    for here in range(end):
        rest = np.argsort(-fits[:, here], kind="stable").tolist()
        order = dict.fromkeys([*best[here : here + AHEAD + 1], *rest])
        steps.append(PlanStep(here, tuple(names[draft] for draft in order)))
    return Plan(prompt_ids=record.prompt_ids, steps=tuple(steps))
