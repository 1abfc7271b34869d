"""How good a text is: right answers, likelihood under the target, agreement with the lossless text."""

from collections.abc import Sequence
from difflib import SequenceMatcher

import torch
from tokenizers import Tokenizer

from memspec_actors.bench.datasets import DataSet
from memspec_actors.bench.methods_report import Quality
from memspec_actors.config import Config
from memspec_actors.loadout import model_directory
from memspec_actors.models.checkpoints.checkpoint import Checkpoint
from memspec_actors.models.runner import Runner
from memspec_actors.models.weights.opening import open_runner
from memspec_actors.protocols.results import GenerationResult
from memspec_actors.zoo.quality import measure_quality
from memspec_actors.zoo.world import Request

__all__ = ["Answer", "Judge", "answered", "task_accuracy"]

Answer = tuple[Request, Sequence[int]]

_CHECKS = {"math": "sums", "code": "code_behaves"}  # of the other domains the whole text of an item is checked


class Judge:
    """Tell how good texts are; the likelihood of a text that several methods give is worked out once."""

    def __init__(self, config: Config) -> None:
        directory = model_directory(config.target.model)
        self.tokenizer = Tokenizer.from_file(str(directory / "tokenizer.json"))
        self._target = open_runner(Checkpoint.open(directory), dtype=config.target.dtype)
        self._likelihoods: dict[tuple[str, tuple[int, ...]], list[float]] = {}

    def quality(
        self, dataset: DataSet, results: Sequence[GenerationResult], reference: Sequence[GenerationResult]
    ) -> Quality:
        """Judge the texts of a data set's tasks; ``reference`` has the lossless ones."""
        answers = answered(dataset, results)
        likelihoods = [
            value
            for task, result in zip(dataset.tasks, results, strict=True)
            for value in self._known_likelihoods(task.prompt, result.token_ids)
        ]
        agreements = [_agreement(r.token_ids, other.token_ids) for r, other in zip(results, reference, strict=True)]
        return Quality(
            task_accuracy=task_accuracy(answers, self.tokenizer) if answers else None,
            log_likelihood=sum(likelihoods) / len(likelihoods),
            agreement=sum(agreements) / len(agreements),
        )

    def _known_likelihoods(self, prompt: str, ids: tuple[int, ...]) -> list[float]:
        if (prompt, ids) not in self._likelihoods:
            prompt_ids = self.tokenizer.encode(prompt).ids
            self._likelihoods[prompt, ids] = _log_likelihoods(self._target, prompt_ids, ids)
        return self._likelihoods[prompt, ids]


def answered(dataset: DataSet, results: Sequence[GenerationResult]) -> list[Answer]:
    """Pair the texts of a data set's tasks with the requests that know the right answers, where there are such."""
    tasks = zip(dataset.tasks, results, strict=True)
    return [(task.request, result.token_ids) for task, result in tasks if task.request]


def task_accuracy(answers: Sequence[Answer], tokenizer: Tokenizer) -> float:
    """Return the share of items that are answered right.

    A sum is right if it holds, code if it behaves as the true one when run, any other item if its text is the world's.
    """
    domains = [item.domain for request, _ in answers for item in request.items]
    found = measure_quality(answers, tokenizer)
    return sum(found[_CHECKS.get(domain, f"body_{domain}")] for domain in domains) / len(domains)


def _agreement(ids: Sequence[int], reference: Sequence[int]) -> float:
    """Return the share of tokens that two texts have in common in order: twice the matches over both lengths."""
    return SequenceMatcher(None, ids, reference, autojunk=False).ratio()


@torch.inference_mode()
def _log_likelihoods(target: Runner, prompt_ids: Sequence[int], ids: Sequence[int]) -> list[float]:
    """Return log p (nats) of each of ``ids`` under the target, after the prompt and the ids before it."""
    tokens = [*prompt_ids, *ids]
    logits = target.forward(tokens[:-1], target.new_cache(len(tokens)))[len(prompt_ids) - 1 :]  # (T, V)
    chosen = torch.log_softmax(logits.double(), dim=-1).gather(-1, torch.tensor(ids)[:, None])
    values: list[float] = chosen[:, 0].tolist()
    return values
