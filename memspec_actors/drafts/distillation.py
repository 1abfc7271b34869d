"""Make a domain draft from a general one: it learns what the target answers, and how certain the target is of it."""

import random
import shutil
from collections.abc import Sequence
from pathlib import Path

import msgspec
import torch

from memspec_actors.drafts.answers import Answer, answer_prompts
from memspec_actors.drafts.measure import Text, accepted_by_kind, write_texts
from memspec_actors.drafts.model_card import write_card
from memspec_actors.drafts.settings import DistillReport, DistillSettings
from memspec_actors.drafts.student import open_student, save_student, train_student
from memspec_actors.errors import ConfigError, UsageError
from memspec_actors.models.checkpoints.checkpoint import Checkpoint
from memspec_actors.models.runner import Runner
from memspec_actors.models.text.tokenizer import Tokenizer
from memspec_actors.models.text.vocabulary import check_compatible
from memspec_actors.models.weights.opening import open_runner
from memspec_actors.predictor.collect import new_tracer
from memspec_actors.predictor.prompts import Prompt
from memspec_actors.progress import Progress

__all__ = ["distill", "split_prompts"]

WORK = "distillation"  # under the draft's directory: what an interrupted run goes on from
TOKENIZER_FILES = (
    "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "tokenizer.model", "chat_template.jinja",
    "generation_config.json",
)  # fmt: skip


def distill(
    settings: DistillSettings,
    prompts: Sequence[Prompt],
    held_out: Sequence[Prompt],
    out: Path,
    progress: Progress = lambda what, done, total: None,
) -> DistillReport:
    """Train a copy of a draft on the target's answers to ``prompts`` and write it to ``out``, a model directory.

    Acceptance is measured before and after on ``held_out`` prompts. A run that was interrupted goes on where it was, if
    it is asked for the same again, and ends as if it had not been; a finished one is not repeated. Raises ConfigError
    for other settings than those ``out`` was begun with, UsageError if the draft can read no answer, InvalidLogits if
    training comes to nothing, and what opening the models raises.
    """
    target, draft = Checkpoint.open(settings.target), Checkpoint.open(settings.draft)
    draft.require_floats()
    num_common = check_compatible(target, draft).num_common
    work = _begin(settings, prompts, held_out, out)
    if (work / "report.json").exists():
        return msgspec.json.decode((work / "report.json").read_bytes(), type=DistillReport)
    torch.set_num_threads(settings.threads)
    answers = answer_prompts(settings, prompts, work / "answers.jsonl", progress)
    teacher = open_runner(target, dtype=settings.dtype)
    texts, before = _measure_before(settings, target, draft, teacher, num_common, held_out, progress)
    student = open_student(settings.draft)
    usable = [short for answer in answers if (short := _readable(answer, num_common, draft.max_positions)).output_ids]
    if not usable:
        raise UsageError(f"draft {settings.draft} can read none of the target's answers: give it shorter prompts")
    loss = train_student(student, teacher, usable, settings, num_common, work / "state.pt", progress)
    save_student(student, draft, out)
    for name in TOKENIZER_FILES:
        if (Path(settings.draft) / name).exists():
            shutil.copy(Path(settings.draft) / name, out)
    after = accepted_by_kind(open_runner(Checkpoint.open(out), dtype="float32"), num_common, texts, settings.k)
    report = DistillReport(
        settings=settings,
        num_prompts=len(usable),
        num_tokens=sum(len(answer.output_ids) for answer in usable),
        num_held_out=len(held_out),
        loss=loss,
        accepted_before=before,
        accepted_after=after,
    )
    write_card(report, out / "README.md")
    (work / "state.pt").unlink(missing_ok=True)
    _write_whole(work / "report.json", msgspec.json.encode(report))
    return report


def split_prompts(prompts: Sequence[Prompt], num_held_out: int, seed: int) -> tuple[list[Prompt], list[Prompt]]:
    """Split into prompts to train on and different ones to measure on. Raises UsageError if there are too few."""
    different = list({prompt.prompt: prompt for prompt in prompts}.values())
    if len(different) < num_held_out + 1:
        raise UsageError(
            f"there are {len(different)} different prompts; {num_held_out} are held out to measure on and at least one "
            "must be left to train on: give more, or hold out fewer"
        )
    random.Random(seed).shuffle(different)
    return different[num_held_out:], different[:num_held_out]


def _begin(settings: DistillSettings, prompts: Sequence[Prompt], held_out: Sequence[Prompt], out: Path) -> Path:
    """Make the working directory, or check that it was made for the very same."""
    work = out / WORK
    asked = msgspec.json.format(
        msgspec.json.encode({"settings": settings, "prompts": prompts, "held_out": held_out}), indent=1
    )
    if out.resolve() in (Path(settings.draft).resolve(), Path(settings.target).resolve()):
        raise ConfigError(f"{out} holds a model that is needed; write the new draft to a directory of its own")
    if (work / "asked.json").exists():
        if (work / "asked.json").read_bytes() != asked:
            raise ConfigError(
                f"{out} was begun with other models, prompts or settings; give those, or another directory"
            )
        return work
    if any(out.glob("*.safetensors")):
        raise ConfigError(f"{out} holds a model already; write the new draft to a directory of its own")
    work.mkdir(parents=True, exist_ok=True)
    _write_whole(work / "asked.json", asked)
    return work


def _write_whole(file: Path, content: bytes) -> None:
    """Write a file that is there only once it is whole: a full disk or a kill leaves none, to go on without."""
    partial = file.with_suffix(".partial")
    partial.write_bytes(content)
    partial.replace(file)


def _measure_before(
    settings: DistillSettings,
    target: Checkpoint,
    draft: Checkpoint,
    teacher: Runner,
    num_common: int,
    held_out: Sequence[Prompt],
    progress: Progress,
) -> tuple[list[Text], dict[str, float]]:
    tokenizer = Tokenizer.open(settings.target)
    runner = open_runner(draft, dtype="float32")
    tracer = new_tracer(teacher, target, tokenizer, {"draft": (runner, num_common)}, settings.k)
    texts = write_texts(tracer, tokenizer, held_out, settings.max_new_tokens, progress)
    return texts, accepted_by_kind(runner, num_common, texts, settings.k)


def _readable(answer: Answer, num_common: int, max_positions: int) -> Answer:
    """Cut an answer where the draft can read no further: at an id it does not know, or at the end of its context."""
    ids = (*answer.prompt_ids, *answer.output_ids)
    end = next((i for i, token in enumerate(ids) if token >= num_common), len(ids))
    return Answer(answer.prompt_ids, ids[len(answer.prompt_ids) : min(end, max_positions)])
