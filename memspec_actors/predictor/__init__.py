"""The predictor: a frozen context encoder with a trained ranking head, exact traces, training and evaluation.

Each module imports only from the lines above its own. To rank:

    context             how a scheduling point becomes what the encoder reads
    encoder             the encoder, a BERT
    head                the ranking head
    context_scores      both in one go
    ranker              the ranker made of them

To trace what drafts are worth:

    prompts, traces     where the texts' prompts come from; trace files
    emittable           the tokens that text is written with
    free_runs           how sure a draft is where nothing stops it
    reading             the target writes, every draft reads along
    domains             which domains a text goes through
    collect             from prompts to a trace file
    other_weights       traces of other models than those at hand are noticed

To train and judge:

    utility             what a draft is worth at a scheduling point
    examples            contexts with what drafts are worth there
    evaluation          how good a predictor is
    training            the head's training
    phased_text         what the embedded models' encoder learns from
    pretrain            that encoder's training
    build               the embedded models' predictor, from nothing
"""

from pathlib import Path
from typing import Any

from memspec_actors.progress import Progress

__all__ = ["build_for_zoo"]


def build_for_zoo(weights_dir: str | Path, progress: Progress | None = None) -> dict[str, Any]:
    """Make ``weights_dir/encoder`` for the embedded target and drafts beside it; return its evaluation."""
    from memspec_actors.predictor.build import build_for_zoo as build  # imports torch

    return build(weights_dir, progress)
