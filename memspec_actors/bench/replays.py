"""Replay policies over traced texts in one setting after another: what the studies by replay share."""

from collections.abc import Callable, Sequence
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

from memspec_actors.comparison import STRICT_DRAFT, PolicyComparison, compare_policies
from memspec_actors.config import Config, DraftConfig, ScheduleConfig
from memspec_actors.errors import TraceError
from memspec_actors.loadout import model_directory
from memspec_actors.models.text.tokenizer import Tokenizer
from memspec_actors.predictor.collect import collect
from memspec_actors.predictor.head import read_description
from memspec_actors.predictor.other_weights import note_untrained_weights
from memspec_actors.predictor.prompts import read_prompts
from memspec_actors.predictor.ranker import PredictorRanker, predictor_directory
from memspec_actors.predictor.traces import TraceReader
from memspec_actors.progress import Progress
from memspec_actors.scheduling.rankers import Ranker
from memspec_actors.simulation.profile import DeviceProfile
from memspec_actors.simulation.setting import Setting
from memspec_actors.simulation.simulate import candidates, simulate
from memspec_actors.simulation.texts import Text, shortened

__all__ = ["SWEPT", "Replays", "collect_traces", "lazy_predictor", "open_texts"]

INTERVAL, CAPACITY, MAX_NEW_TOKENS = 4, 2, 128  # the paper's setting
SWEPT = ("mab-async", "prediction-only", "memspec", "memspec+", "oracle-dynamic")  # compared where settings vary


class Replays:
    """Compare policies over texts at a device's pace; what is not varied is as in the paper."""

    def __init__(self, texts: Sequence[Text], profile: DeviceProfile, predictor: Callable[[], Ranker]) -> None:
        self.texts = texts
        self.profile = profile
        self.predictor = predictor

    def compare(
        self,
        policies: Sequence[str],
        *,
        interval: int = INTERVAL,
        capacity: int = CAPACITY,
        max_new_tokens: int = MAX_NEW_TOKENS,
        stop: str | None = None,
        predictor: Callable[[], Ranker] | None = None,
    ) -> PolicyComparison:
        """Replay every text under every policy, General-Static and the strict general draft.

        Drafts stop by the rule ``stop``, or at the trace's length. Raises as `simulate` does.
        """
        schedule = ScheduleConfig(interval=interval)
        setting = Setting(profile=self.profile, schedule=schedule, capacity=capacity, stop=stop)
        texts = [shortened(text, max_new_tokens) for text in self.texts]
        return compare_policies(simulate(texts, policies, setting, predictor or self.predictor))


def collect_traces(
    config: Config,
    prompts: str,
    out: Path,
    *,
    max_new_tokens: int,
    progress: Progress,
    limit: int | None = None,
    k: int = 5,
    strict: bool = False,
    free_runs: bool = False,
) -> dict[str, Any]:
    """Trace a source of prompts with the configured drafts, and return what `collect` does.

    At most ``limit`` prompts are traced; ``strict`` adds the strict general draft to the zoo's.
    """
    drafts = config.drafts
    if strict and config.target.model == "zoo" and STRICT_DRAFT not in {draft.name for draft in drafts}:
        drafts = (*drafts, DraftConfig(name=STRICT_DRAFT))
    directories = {draft.name: model_directory(draft.model) for draft in drafts}
    return collect(
        model_directory(config.target.model),
        directories,
        read_prompts(prompts, limit=limit),
        out,
        max_new_tokens=max_new_tokens,
        k=k,
        free_runs=free_runs,
        progress=progress,
    )


def open_texts(path: Path, limit: int | None = None) -> list[Text]:
    """Read the texts of a trace file. Raises TraceError, for one without texts too."""
    reader = TraceReader(path)
    texts = [(reader.header, record) for record in islice(reader, limit)]
    if not texts:
        raise TraceError(f"{path}: holds no texts; collect some")
    return texts


def lazy_predictor(config: Config, text: Text, predictor: str | Path | None = None) -> Callable[[], Ranker]:
    """Return a function that opens a predictor, the configured one by default, when it is first asked for.

    It ranks the drafts of a traced text, and says in a warning if it was trained for other weights than they had there.
    What it raises is what `PredictorRanker.open` does.
    """

    @cache
    def open_once() -> Ranker:
        tokenizer = Tokenizer.open(model_directory(config.target.model))
        directory = Path(predictor or predictor_directory(config.predictor.path))
        ranker = PredictorRanker.open(directory, candidates(text), tokenizer)
        note_untrained_weights(text[0], read_description(directory), directory)
        return ranker

    return open_once
