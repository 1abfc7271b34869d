"""Table 2: prompt and recent tokens together rank the best draft first or second nearly always; either alone does not.

On held-out requests. Beside it what ranking by the true domains, now and next, scores: more cannot be known beforehand.
About 2 minutes on two cores, nearly all of it tracing.
"""

from argparse import Namespace
from pathlib import Path
from tempfile import TemporaryDirectory

from memspec_actors.bench.datasets import MIXED
from memspec_actors.bench.domain_knowledge import domain_knowledge
from memspec_actors.bench.replays import collect_traces
from memspec_actors.cli.study import Measured, run_study
from memspec_actors.config import Config
from memspec_actors.loadout import model_directory
from memspec_actors.models.text.tokenizer import Tokenizer
from memspec_actors.predictor.evaluation import evaluate
from memspec_actors.predictor.ranker import predictor_directory
from memspec_actors.progress import Progress


def measure(config: Config, arguments: Namespace, progress: Progress) -> Measured:
    count = 12 if arguments.quick else 100
    with TemporaryDirectory() as scratch:
        traces = Path(scratch) / "traces"
        collect_traces(config, f"zoo:eval:{count}", traces, max_new_tokens=320, progress=progress)
        tokenizer = Tokenizer.open(model_directory(config.target.model))
        found = evaluate(traces, predictor_directory(config.predictor.path), tokenizer=tokenizer, progress=progress)
        known = {"": domain_knowledge(traces), "mixed prompts, ": domain_knowledge(traces, MIXED)}
    scalars = {f"{kind} {top}": value for kind, tops in found["by_input"].items() for top, value in tops.items()}
    for some in ("mixed", "single"):
        scalars |= {f"{some} prompts, prompt+recent {top}": found[some][top] for top in ("top1", "top2") if found[some]}
    scalars |= {f"{some}knowing the domain {top}": value for some, tops in known.items() for top, value in tops.items()}
    scalars |= {"latency, microseconds": found["latency_us"], "latency over an interval": found["share_of_interval"]}
    return Measured(setting=f"{found['num_points']} scheduling points of {count} held-out requests", scalars=scalars)


if __name__ == "__main__":
    run_study(__doc__, measure)
