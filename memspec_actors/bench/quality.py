"""How good a text is: right answers, likelihood under the target, agreement with the lossless text."""

from collections.abc import Sequence
from difflib import SequenceMatcher

import torch
from tokenizers import Tokenizer

from memspec_actors.models.runner import Runner
from memspec_actors.zoo.quality import measure_quality
from memspec_actors.zoo.world import Request

__all__ = ["agreement", "log_likelihoods", "task_accuracy"]

_CHECKS = {"math": "sums", "code": "code_behaves"}  # of the other domains the whole text of an item is checked


def task_accuracy(answers: Sequence[tuple[Request, Sequence[int]]], tokenizer: Tokenizer) -> float:
    """Return the share of items that are answered right.

    A sum is right if it holds, code if it behaves as the true one when run, any other item if its text is the world's.
    """
    domains = [item.domain for request, _ in answers for item in request.items]
    found = measure_quality(answers, tokenizer)
    return sum(found[_CHECKS.get(domain, f"body_{domain}")] for domain in domains) / len(domains)


def agreement(ids: Sequence[int], reference: Sequence[int]) -> float:
    """Return the share of tokens that two texts have in common in order: twice the matches over both lengths."""
    return SequenceMatcher(None, ids, reference, autojunk=False).ratio()


@torch.inference_mode()
def log_likelihoods(target: Runner, prompt_ids: Sequence[int], ids: Sequence[int]) -> list[float]:
    """Return log p (nats) of each of ``ids`` under the target, after the prompt and the ids before it."""
    tokens = [*prompt_ids, *ids]
    logits = target.forward(tokens[:-1], target.new_cache(len(tokens)))[len(prompt_ids) - 1 :]  # (T, V)
    chosen = torch.log_softmax(logits.double(), dim=-1).gather(-1, torch.tensor(ids)[:, None])
    values: list[float] = chosen[:, 0].tolist()
    return values
