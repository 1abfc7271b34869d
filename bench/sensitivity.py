"""Claims of the MemSpec paper's sensitivity study and ablation, replayed from traces at a device's pace.

N 2 to 16, texts of 64 to 256 tokens, K 2 to 4; and what each part brings: bandit, prediction, prefetching.
"""

import argparse
import json
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from memspec_actors import zoo
from memspec_actors.bench.comparison import PolicyComparison, compare_policies
from memspec_actors.config import ScheduleConfig
from memspec_actors.models.tokenizer import Tokenizer
from memspec_actors.predictor.ranker import PredictorRanker
from memspec_actors.predictor.traces import TraceReader
from memspec_actors.simulation.profile import DeviceProfile, open_profile
from memspec_actors.simulation.replay import Setting
from memspec_actors.simulation.simulate import POLICIES, candidates, simulate
from memspec_actors.simulation.texts import Text, shortened

SWEPT = ("mab-async", "prediction-only", "memspec", "memspec+", "oracle-dynamic")
INTERVALS, LENGTHS, CAPACITIES = (2, 4, 8, 16), (64, 128, 256), (2, 3, 4)
N, K, LENGTH = 4, 2, 128


class Study(NamedTuple):
    """What is varied, and what is kept."""

    texts: Sequence[Text]
    profile: DeviceProfile

    def compare(
        self, policies: Iterable[str] = SWEPT, *, interval: int = N, capacity: int = K, length: int = LENGTH
    ) -> PolicyComparison:
        setting = Setting(profile=self.profile, schedule=ScheduleConfig(interval=interval), capacity=capacity)
        texts = [shortened(text, length) for text in self.texts]
        return compare_policies(simulate(texts, list(policies), setting, lambda: _predictor(*candidates(texts[0]))))


@cache
def _predictor(*drafts: str) -> PredictorRanker:
    return PredictorRanker.open(zoo.path("encoder"), drafts, Tokenizer.open(zoo.path("target")))


def read_study(traces: Path, profile: str, limit: int | None = None) -> Study:
    reader = TraceReader(traces)
    return Study([(reader.header, record) for record in reader][:limit], open_profile(profile))


def sweeps(study: Study) -> dict[str, dict[int, dict[str, float]]]:
    """Throughput over General-Static by what is varied, its value and policy."""
    return {
        "N": {n: dict(study.compare(interval=n).geomean) for n in INTERVALS},
        "tokens": {length: dict(study.compare(length=length).geomean) for length in LENGTHS},
        "K": {k: dict(study.compare(capacity=k).geomean) for k in CAPACITIES},
    }


def main(arguments: argparse.Namespace) -> dict[str, Any]:
    study = read_study(arguments.traces, arguments.profile, arguments.limit)
    return {"all": study.compare(POLICIES).geomean, **sweeps(study)}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--traces", type=Path, required=True, help="of `memspec predictor collect`, 256 tokens a text")
    parser.add_argument("--profile", default="jetson-orin-nano")
    parser.add_argument("--limit", type=int, help="texts")
    print(json.dumps(main(parser.parse_args()), indent=1))
