"""Which domain a traced text is in, from where on: what `domain-oracle` knows of it."""

from collections.abc import Sequence

from memspec_actors.models.text.tokenizer import Tokenizer
from memspec_actors.protocols.traces import DomainStart

__all__ = ["domain_starts"]


def domain_starts(
    prompt_ids: Sequence[int], output_ids: Sequence[int], tokenizer: Tokenizer, kind: str
) -> tuple[DomainStart, ...]:
    """Tell the domains of an answer to a request of the embedded models' world, each that of the line answered.

    Any other text is of its prompt's ``kind`` from its first token on, or of no known domain.
    """
    from memspec_actors.zoo.world import SEPARATOR, domains_asked

    asked = domains_asked(tokenizer.decode(prompt_ids))
    if not asked:
        return (DomainStart(0, kind),) if kind else ()
    starts, text = [DomainStart(0, asked[0])], ""
    for position, token in enumerate(output_ids):
        domain = asked[min(text.count(SEPARATOR), len(asked) - 1)]
        if domain != starts[-1].domain:
            starts.append(DomainStart(position, domain))
        text += tokenizer.decode([token])
    return tuple(starts)
