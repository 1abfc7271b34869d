"""What a request wants added to logits before anything is drawn from them: bias, minimum length, penalties."""

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from memspec_actors.protocols.requests import SamplingParams

__all__ = ["LogitAdjustment"]


class LogitAdjustment:
    """Adjust the logits of one request, of draft and target alike; ``gap_ids`` can never be drawn.

    Applied in this order: ``logit_bias``; end ids masked before ``min_tokens``; ``repetition_penalty`` r on tokens of
    prompt and text (a positive logit divided by r, a negative one multiplied); then ``frequency_penalty`` times the
    token's count in the text and ``presence_penalty`` once for a token of the text, both subtracted. Every row sees
    the committed text and the drafted tokens before its own position. Nothing is remembered of drafted tokens, so a
    rejection has nothing to take back.

    Sources: OpenAI's API reference; Keskar et al. 2019, section 4.1, in the form of transformers and vLLM.
    """

    def __init__(
        self,
        params: SamplingParams,
        prompt_ids: Sequence[int],
        end_ids: Iterable[int],
        num_ids: int,
        gap_ids: Iterable[int] = (),
    ) -> None:
        self._params = params
        self._end_ids = torch.tensor(sorted(each for each in end_ids if each < num_ids), dtype=torch.long)
        self._bias = torch.zeros(num_ids)
        for token_id, bias in params.logit_bias.items():
            self._bias[token_id] = bias
        self._bias[torch.tensor([each for each in gap_ids if each < num_ids], dtype=torch.long)] = -torch.inf
        self._in_prompt = torch.zeros(num_ids, dtype=torch.bool)
        self._in_prompt[torch.tensor(prompt_ids, dtype=torch.long)] = True
        self._counts = torch.zeros(num_ids)  # of the committed text
        self._num_counted = 0

    @staticmethod
    def asked_for(params: SamplingParams) -> bool:
        """Tell whether a request wants anything added at all."""
        return bool(
            params.logit_bias
            or params.min_tokens
            or params.presence_penalty
            or params.frequency_penalty
            or params.repetition_penalty != 1.0
        )

    def apply(self, logits: Tensor, text: Sequence[int], drafted: Sequence[int]) -> Tensor:
        """Return adjusted logits, float32, of the shape (T, V) that they came in.

        The last row is the model's output after the committed ``text`` and all ``drafted`` tokens, the one before it
        after all but one of them, and so on. V may be smaller than the target's number of ids: a draft's.
        """
        num_rows, width = logits.shape
        adjusted = logits.float() + self._bias[:width]
        for row, num_before in enumerate(range(len(drafted) - num_rows + 1, len(drafted) + 1)):
            if len(text) + num_before < self._params.min_tokens:
                adjusted[row, self._end_ids[self._end_ids < width]] = float("-inf")
        return self._penalised(adjusted, self._counts_before(text, drafted, num_rows)[:, :width])

    def _penalised(self, logits: Tensor, counts: Tensor) -> Tensor:
        params, repetition = self._params, self._params.repetition_penalty
        if repetition != 1.0:
            seen = (counts > 0) | self._in_prompt[: counts.shape[-1]]
            repeated = torch.where(logits > 0, logits / repetition, logits * repetition)
            logits = torch.where(seen, repeated, logits)
        return logits - params.frequency_penalty * counts - params.presence_penalty * (counts > 0)

    def _counts_before(self, text: Sequence[int], drafted: Sequence[int], num_rows: int) -> Tensor:
        """Return (T, V) how often each token stands before each row's position."""
        if self._num_counted < len(text):  # committed tokens stay: each is counted once
            fresh = torch.tensor(text[self._num_counted :], dtype=torch.long)
            self._counts.index_add_(0, fresh, torch.ones(len(fresh)))
            self._num_counted = len(text)
        counts = self._counts.repeat(num_rows, 1)
        for place, token_id in enumerate(drafted):
            first = max(0, place + num_rows - len(drafted))  # the first row that comes after this token
            counts[first:, token_id] += 1
        return counts
