"""Beyond the paper: memspec+ is as fast as memspec where the predictor is right, and finds drafts that it misses.

The predictor is trained as it is, and again without any point of a text that speaks for one of the domains' drafts.
Replayed from traces. About 5 minutes on two cores: two sets of traces, five trainings.
"""

from argparse import ArgumentParser, Namespace
from pathlib import Path
from tempfile import TemporaryDirectory

from memspec_actors.bench.paper.replayed_studies import LEFT_OUT, without
from memspec_actors.bench.replays import collect_traces, lazy_predictor
from memspec_actors.cli.replay_study import add_replay_arguments, open_replays, replayed
from memspec_actors.cli.study import Measured, run_study
from memspec_actors.config import Config
from memspec_actors.loadout import model_directory
from memspec_actors.models.text.tokenizer import Tokenizer
from memspec_actors.predictor.ranker import predictor_directory
from memspec_actors.predictor.training import TrainParams, train
from memspec_actors.progress import Progress

POLICIES = ("hedge", "memspec", "memspec+", "domain-oracle")


def measure(config: Config, arguments: Namespace, progress: Progress) -> Measured:
    replays = open_replays(config, arguments, progress)
    encoder = predictor_directory(config.predictor.path)
    tokenizer = Tokenizer.open(model_directory(config.target.model))
    comparisons = {}
    with TemporaryDirectory() as scratch:
        traces = arguments.train_traces
        if traces is None:
            traces = Path(scratch) / "traces"
            source = f"zoo:train:{24 if arguments.quick else 200}"
            collect_traces(config, source, traces, max_new_tokens=320, progress=progress)
        for setting, domain in (("full", None), *((without(domain), domain) for domain in LEFT_OUT)):
            directory = Path(scratch) / setting
            train(traces, encoder, directory, params=TrainParams(without=domain), tokenizer=tokenizer)
            predictor = lazy_predictor(config, replays.texts[0], directory)
            comparisons[setting] = replays.compare(POLICIES, predictor=predictor)
    return replayed(replays, comparisons)


def add_arguments(parser: ArgumentParser) -> None:
    add_replay_arguments(parser)
    what = "a trace file of other prompts to train with; without it 200 requests are traced first"
    parser.add_argument("--train-traces", type=Path, metavar="FILE", help=what)


if __name__ == "__main__":
    run_study(__doc__, measure, add_arguments)
