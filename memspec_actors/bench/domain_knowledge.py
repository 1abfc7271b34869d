"""What ranking by domain alone scores on the embedded models' texts: all that can be known, without luck.

`domain-oracle` counts with which tokens a draft really agrees. Here a draft is worth what it is on average in a domain,
and the course of the domains is known beforehand; which of several drafts that are equally good in a domain has luck
for a few iterations is not.
"""

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

from memspec_actors.errors import TraceError
from memspec_actors.models.text.tokenizer import Tokenizer
from memspec_actors.predictor.examples import scheduling_points
from memspec_actors.predictor.traces import TraceReader
from memspec_actors.predictor.utility import UtilityParams
from memspec_actors.protocols.traces import TraceRecord
from memspec_actors.scheduling.domain_plan import FIXED_WINDOW
from memspec_actors.zoo.world import DOMAIN_OF_VERB, DOMAINS, SEPARATOR

__all__ = ["domain_knowledge", "token_domains"]

Floats = NDArray[np.float64]


def domain_knowledge(traces: Path, tokenizer: Tokenizer, kind: str | None = None) -> dict[str, float]:
    """Give ``top1`` and ``top2`` (as `evaluate` does) of ranking by mean agreement in the next `FIXED_WINDOW` tokens.

    ``kind`` limits it to one kind of prompts. Raises TraceError for a prompt that is not of the embedded models' world.
    """
    records = list(TraceReader(traces))
    domains = [token_domains(record, tokenizer) for record in records]
    agreement = _mean_agreement(records, domains)
    hits: tuple[list[bool], list[bool]] = ([], [])
    for record, course in zip(records, domains, strict=True):
        if kind in (None, record.kind):
            expected = agreement[course]  # (L, D)
            for point in scheduling_points(record, UtilityParams()):
                position = max(len(point.recent_ids), 1)
                order = np.argsort(-expected[position : position + FIXED_WINDOW].mean(0), kind="stable")
                for k, found in enumerate(hits, 1):
                    found.append(not point.labels.isdisjoint(order[:k].tolist()))
    return {f"top{k}": fmean(found) for k, found in enumerate(hits, 1)}


def token_domains(record: TraceRecord, tokenizer: Tokenizer) -> list[int]:
    """Give the domain of every token of a text, as numbers of `DOMAINS`: that of its line in the request."""
    lines = map(str.split, tokenizer.decode(record.prompt_ids).splitlines())
    asked = [DOMAIN_OF_VERB[line[1]] for line in lines if line[1:] and line[1] in DOMAIN_OF_VERB]
    if not asked:
        text = tokenizer.decode(record.prompt_ids)
        raise TraceError(f"prompt {text!r} asks for nothing in the embedded models' world; use prompts of zoo:eval")
    return [DOMAINS.index(asked[min(item, len(asked) - 1)]) for item in _items(record.output_ids, tokenizer)]


def _items(output_ids: Sequence[int], tokenizer: Tokenizer) -> list[int]:
    """Count the separators before each token."""
    items, text = [], ""
    for token in output_ids:
        items.append(text.count(SEPARATOR))
        text += tokenizer.decode([token])
    return items


def _mean_agreement(records: Sequence[TraceRecord], domains: Sequence[Sequence[int]]) -> Floats:
    """Give the share of a domain's tokens at which each draft agrees with the text, (P, D); 0 without tokens."""
    course = np.concatenate([np.array(each) for each in domains])
    runs = [np.array(list(record.accepted.values())).T for record in records]
    agrees = (np.concatenate(runs) > 0).astype(float)  # (tokens, D)
    of_domain = np.arange(len(DOMAINS))[:, None] == course  # (P, tokens)
    shares: Floats = of_domain @ agrees / np.maximum(of_domain.sum(1, keepdims=True), 1)
    return shares
