"""The draft in training: a transformers model that learns answers and distributions from the target."""

import math
import random
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from memspec_actors.drafts.answers import Answer
from memspec_actors.drafts.settings import DistillSettings
from memspec_actors.errors import InvalidLogits
from memspec_actors.models.checkpoints.checkpoint import Checkpoint
from memspec_actors.models.runner import Runner
from memspec_actors.progress import Progress

__all__ = ["Lesson", "distillation_loss", "open_student", "save_student", "train_student"]

WIDTH_RATE = 0.25  # learning rate times width
WARMUP_SHARE = 0.05
SAVE_EVERY_S = 15.0
SMOOTHING = 0.95


class Lesson(NamedTuple):
    """The target's logits (N, K) at N positions, and the ids (N, K) that they are of: its likeliest, or all."""

    logits: Tensor
    ids: Tensor


def distillation_loss(logits: Tensor, labels: Tensor, lesson: Lesson | None, *, logits_weight: float) -> Tensor:
    """Return the mean loss over positions; ``logits`` are the draft's (N, V), ``labels`` the target's ids (N,).

    The divergence is KL(target || draft), the target's distribution taken over the ids of the ``lesson``, where it sums
    to one.
    """
    logs = logits.float().log_softmax(-1)
    loss = F.nll_loss(logs, labels)
    if lesson is None:
        return loss
    logs = logs.gather(-1, lesson.ids)
    teacher_logs = lesson.logits.float().log_softmax(-1)
    divergence = (teacher_logs.exp() * (teacher_logs - logs)).sum(-1).mean()
    return (1 - logits_weight) * loss + logits_weight * divergence


def open_student(directory: str) -> Any:
    """Open a draft for training, in float32."""
    from transformers import AutoModelForCausalLM
    from transformers.utils import logging

    logging.disable_progress_bar()
    return AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32).train()


def save_student(model: Any, like: Checkpoint, out: Path) -> None:
    """Write a trained draft as a model directory, stored in two bytes a weight if the one it came from was."""
    dtype = torch.bfloat16 if like.run_dtype("auto") == "bfloat16" else torch.float32
    model.eval().to(dtype).save_pretrained(out)


def train_student(
    model: Any,
    target: Runner,
    answers: Sequence[Answer],
    settings: DistillSettings,
    num_common: int,
    state_file: Path,
    progress: Progress,
) -> float:
    """Train ``model`` in place on the answers and return the smoothed loss, in nats per token.

    An interrupted training goes on from ``state_file``, which is written now and then, as if it had not been. Raises
    InvalidLogits once the loss is no number any more.
    """
    optimizer = torch.optim.AdamW(model.parameters(), lr=_peak(model, settings), betas=(0.9, 0.98), weight_decay=0.0)
    batches = _batches(answers, settings)
    teacher = _Teacher(target, num_common, settings.top_k)
    step, smoothed = _load(state_file, model, optimizer)
    saved = time.monotonic()
    while step < len(batches):
        for group in optimizer.param_groups:
            group["lr"] = _peak(model, settings) * _rate(step, len(batches))
        loss = _step(model, optimizer, teacher, [answers[i] for i in batches[step]], settings, num_common, step)
        if not math.isfinite(loss):
            raise InvalidLogits(
                f"the loss is {loss} at step {step + 1} of {len(batches)}: give a lower learning rate than "
                f"{_peak(model, settings):g}, or check {settings.draft}"
            )
        smoothed = loss if step == 0 else SMOOTHING * smoothed + (1 - SMOOTHING) * loss
        step += 1
        progress("training", step, len(batches))
        if time.monotonic() - saved >= SAVE_EVERY_S:
            _save(state_file, model, optimizer, step, smoothed)
            saved = time.monotonic()
    return smoothed


def _peak(model: Any, settings: DistillSettings) -> float:
    return settings.learning_rate or WIDTH_RATE / int(model.config.hidden_size)


def _rate(step: int, num_steps: int) -> float:
    """Return the share of the peak rate: it rises over the first steps, then falls in a line to nothing."""
    rising = (step + 1) / max(1.0, WARMUP_SHARE * num_steps)
    return min(1.0, rising, (num_steps - step) / num_steps)


def _batches(answers: Sequence[Answer], settings: DistillSettings) -> list[list[int]]:
    """Return which answers each step learns from; a step pads to its longest and takes `batch_tokens` at most."""
    batches: list[list[int]] = []
    for epoch in range(settings.epochs):
        order = list(range(len(answers)))
        random.Random(f"{settings.seed}:{epoch}").shuffle(order)
        batches.append([])
        longest = 0
        for index in order:
            longest = max(longest, _length(answers[index]))
            if batches[-1] and longest * (len(batches[-1]) + 1) > settings.batch_tokens:
                batches.append([])
                longest = _length(answers[index])
            batches[-1].append(index)
    return batches


def _length(answer: Answer) -> int:
    return len(answer.prompt_ids) + len(answer.output_ids)


class _Teacher:
    """The target reading answers, and what it said of each: kept if that is little."""

    def __init__(self, runner: Runner, num_common: int, top_k: int) -> None:
        self._runner = runner
        self._num_common = num_common
        self._top_k = min(top_k or num_common, num_common)
        self._lessons: dict[Answer, Lesson] = {}

    def teach(self, answers: Sequence[Answer]) -> Lesson:
        """Return the target's logits at each token of the answers, over the ids that the draft shares."""
        lessons = [self._lessons.get(answer) or self._lesson(answer) for answer in answers]
        return Lesson(*(torch.cat(parts) for parts in zip(*lessons, strict=True)))

    def _lesson(self, answer: Answer) -> Lesson:
        ids = (*answer.prompt_ids, *answer.output_ids)[:-1]
        logits = self._runner.forward(ids, self._runner.new_cache(len(ids)))
        best = logits[len(answer.prompt_ids) - 1 :, : self._num_common].clone().topk(self._top_k, dim=-1)
        lesson = Lesson(best.values, best.indices)
        if self._top_k < self._num_common:
            self._lessons[answer] = lesson
        return lesson


def _step(
    model: Any,
    optimizer: torch.optim.Optimizer,
    teacher: _Teacher,
    answers: Sequence[Answer],
    settings: DistillSettings,
    num_common: int,
    step: int,
) -> float:
    torch.manual_seed(settings.seed * 1_000_003 + step)  # what drops out is the same after an interruption
    rows = [(*answer.prompt_ids, *answer.output_ids) for answer in answers]
    width = max(map(len, rows))
    ids = torch.tensor([[*row, *[0] * (width - len(row))] for row in rows])  # what follows a text changes nothing in it
    predicts = torch.zeros(ids.shape, dtype=torch.bool)
    for row, answer in enumerate(answers):
        start = len(answer.prompt_ids)
        predicts[row, start - 1 : start - 1 + len(answer.output_ids)] = True
    labels = ids.roll(-1, 1)[predicts]
    lesson = None if settings.logits_weight == 0 else teacher.teach(answers)
    logits = model(input_ids=ids, use_cache=False).logits[predicts][:, :num_common]
    loss = distillation_loss(logits, labels, lesson, logits_weight=settings.logits_weight)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()  # type: ignore[no-untyped-call]
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return loss.item()


def _save(file: Path, model: Any, optimizer: torch.optim.Optimizer, step: int, loss: float) -> None:
    partial = file.with_suffix(".partial")
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step, "loss": loss}, partial)
    partial.replace(file)


def _load(file: Path, model: Any, optimizer: torch.optim.Optimizer) -> tuple[int, float]:
    if not file.exists():
        return 0, float("nan")
    held = torch.load(file, weights_only=True)
    model.load_state_dict(held["model"])
    optimizer.load_state_dict(held["optimizer"])
    return int(held["step"]), float(held["loss"])
