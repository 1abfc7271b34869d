"""When a scheduling interval is over."""

from dataclasses import dataclass

__all__ = ["Interval"]

TOKENS_PER_ITERATION = 6  # five drafted ones, all accepted, and the target's own


@dataclass(slots=True)
class Interval:
    """Count a text's intervals of ``length`` iterations (N); ``number`` is that of the present one."""

    length: int
    number: int = 0
    first_iteration: int = 0
    num_tokens_before: int = 1  # the first one comes out of the prompt's encoding

    def is_over(self, iteration: int, num_tokens: int) -> bool:
        """Tell whether the interval has had its iterations, or given the tokens that they can, drafting five each.

        ``iteration`` is the number of the next one, ``num_tokens`` are those of the text so far. Under a rule that
        drafts on while a draft is right, N iterations may otherwise outlast whole domains of a text.
        """
        return (
            iteration - self.first_iteration >= self.length
            or num_tokens - self.num_tokens_before >= self.length * TOKENS_PER_ITERATION
        )

    def begin_next(self, iteration: int, num_tokens: int) -> None:
        """Begin another interval with the next iteration."""
        self.number += 1
        self.first_iteration, self.num_tokens_before = iteration, num_tokens
