"""Let a target answer prompts, and keep the answers in a file that an interrupted run goes on with."""

import os
from collections.abc import Sequence
from pathlib import Path

import anyio
import msgspec

from memspec_actors.config import Config, DraftConfig, MemoryConfig, PredictorConfig, ScheduleConfig, TargetConfig
from memspec_actors.drafts.settings import DistillSettings
from memspec_actors.engine import MemSpec
from memspec_actors.predictor.prompts import Prompt
from memspec_actors.progress import Progress
from memspec_actors.protocols.requests import SamplingParams

__all__ = ["Answer", "answer_prompts"]

DRAFT = "draft"


class Answer(msgspec.Struct, frozen=True, array_like=True):
    """The ids of a prompt and of the target's answer."""

    prompt_ids: tuple[int, ...]
    output_ids: tuple[int, ...]


def answer_prompts(
    settings: DistillSettings, prompts: Sequence[Prompt], file: Path, progress: Progress
) -> list[Answer]:
    """Return the target's answers to ``prompts``, in their order; those that ``file`` holds are not written again.

    The draft to be trained speeds the target up; the text is the target's own. A sampled answer is a function of the
    seed and its place.
    """
    answers = _read(file)
    if len(answers) < len(prompts):
        anyio.run(_answer, settings, prompts, len(answers), file, progress)
    return _read(file)


async def _answer(
    settings: DistillSettings,
    prompts: Sequence[Prompt],
    start: int,
    file: Path,
    progress: Progress,
) -> None:
    config = Config(
        target=TargetConfig(model=settings.target, dtype=settings.dtype, threads=settings.threads),
        drafts=(DraftConfig(name=DRAFT, model=settings.draft),),
        memory=MemoryConfig(capacity=1),
        schedule=ScheduleConfig(policy=f"static:{DRAFT}"),
        predictor=PredictorConfig(path=None),
    )
    async with MemSpec.open(config) as engine:
        with file.open("ab") as lines:
            for index, prompt in enumerate(prompts[start:], start):
                sampling = SamplingParams(temperature=settings.temperature, seed=settings.seed + index)
                result = await engine.generate(prompt.prompt, max_new_tokens=settings.max_new_tokens, sampling=sampling)
                answer = Answer(engine.encode(prompt.prompt), tuple(result.token_ids))
                lines.write(msgspec.json.encode(answer) + b"\n")
                lines.flush()
                progress("target's answers to learn", index + 1, len(prompts))


def _read(file: Path) -> list[Answer]:
    """Read the whole lines; a torn last one, of a run that was killed, is cut off."""
    if not file.exists():
        return []
    data = file.read_bytes()
    whole = data[: data.rfind(b"\n") + 1]
    if len(whole) < len(data):
        os.truncate(file, len(whole))
    return [msgspec.json.decode(line, type=Answer) for line in whole.splitlines()]
