"""Make the embedded models' predictor: pre-train its encoder, trace the embedded models, train and judge its head."""

import shutil
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec
import torch

from memspec_actors.errors import CheckpointError
from memspec_actors.models.text.tokenizer import Tokenizer
from memspec_actors.predictor.collect import collect
from memspec_actors.predictor.context import ContextLayout
from memspec_actors.predictor.encoder import BertEncoder, EncoderConfig
from memspec_actors.predictor.evaluation import evaluate
from memspec_actors.predictor.head import record_evaluation
from memspec_actors.predictor.phased_text import phased_texts
from memspec_actors.predictor.pretrain import PretrainBudget, pretrain
from memspec_actors.predictor.prompts import zoo_prompts
from memspec_actors.predictor.training import TrainParams, train
from memspec_actors.progress import Progress

__all__ = ["ZooBudget", "build_for_zoo"]

DRAFTS = ("general", "code", "math", "law", "medical")
TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json")
PRETRAINING = "pretraining.json"


class ZooBudget(msgspec.Struct, frozen=True, kw_only=True):
    """Say how much work the embedded predictor gets; the defaults made the shipped one."""

    num_training_prompts: int = 400
    num_evaluation_prompts: int = 120
    max_new_tokens: int = 420
    hidden_size: int = 64
    pretraining: PretrainBudget = PretrainBudget()
    head: TrainParams = TrainParams()


def build_for_zoo(
    weights_dir: str | Path,
    progress: Progress | None = None,
    *,
    budget: ZooBudget | None = None,
    traces_dir: str | Path | None = None,
) -> dict[str, Any]:
    """Make ``weights_dir/encoder`` for the target and drafts beside it; return the evaluation.

    An encoder for the same tokenizer that is there already is kept and only its head trained again. Traces go to
    ``traces_dir`` if it is given, else to a temporary directory. Training and evaluation use the generator's disjoint
    splits. Raises CheckpointError if a model is missing.
    """
    budget, directory = budget or ZooBudget(), Path(weights_dir)
    encoder_dir = directory / "encoder"
    if not _has_encoder(encoder_dir, directory / "target"):
        _build_encoder(directory / "target", encoder_dir, budget, progress)
    with tempfile.TemporaryDirectory() as temporary:
        traces = Path(traces_dir or temporary)
        counts = {"train": budget.num_training_prompts, "eval": budget.num_evaluation_prompts}
        for split, count in counts.items():
            collect(
                directory / "target",
                {name: directory / name for name in DRAFTS},
                zoo_prompts(split, count),
                traces / f"{split}.trace",
                max_new_tokens=budget.max_new_tokens,
                progress=progress,
            )
        train(
            traces / "train.trace",
            encoder_dir,
            encoder_dir,
            params=budget.head,
            exclude=traces / "eval.trace",
            progress=progress,
        )
        evaluation = evaluate(traces / "eval.trace", encoder_dir, params=budget.head.utility, progress=progress)
    record_evaluation(encoder_dir, evaluation)
    return evaluation


def _has_encoder(encoder_dir: Path, target_dir: Path) -> bool:
    """Tell whether a finished encoder is there that reads the target's ids; pretraining.json is written last."""
    own, theirs = encoder_dir / "tokenizer.json", target_dir / "tokenizer.json"
    if not (encoder_dir / PRETRAINING).exists() or not own.exists() or not theirs.exists():
        return False
    return own.read_bytes() == theirs.read_bytes()


def _build_encoder(
    tokenizer_dir: str | Path, out: str | Path, budget: ZooBudget, progress: Progress | None = None
) -> None:
    """Pre-train the encoder over the ids of a tokenizer of the embedded models, and say how in pretraining.json."""
    source, target = Path(tokenizer_dir), Path(out)
    tokenizer = Tokenizer.open(source)
    if tokenizer.bos_id is None or tokenizer.eos_id is None:
        raise CheckpointError(f"{source}: the tokenizer needs a bos_token and an eos_token; build the embedded models")
    from memspec_actors.zoo.world import DOMAINS

    layout = ContextLayout(
        cls_id=tokenizer.bos_id,
        sep_id=tokenizer.eos_id,
        vocab_size=tokenizer.num_ids,
        max_tokens=budget.head.max_tokens,
        recent_tokens=budget.head.recent_tokens,
    )
    config = EncoderConfig(
        vocab_size=tokenizer.num_ids,
        hidden_size=budget.hidden_size,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=2 * budget.hidden_size,
        max_position_embeddings=budget.head.max_tokens,
    )
    texts = phased_texts(tokenizer.backend, f"train:encoder:{budget.pretraining.seed}")
    encoder, losses = pretrain(config, layout, texts, len(DOMAINS), budget.pretraining, progress)
    _write_encoder(encoder, source, target, budget.pretraining, losses)


def _write_encoder(
    encoder: BertEncoder, tokenizer_dir: Path, out: Path, budget: PretrainBudget, losses: dict[str, float]
) -> None:
    """Write an encoder in half precision with its tokenizer and how it was made."""
    encoder.save(out, dtype=torch.float16)
    for name in TOKENIZER_FILES:
        shutil.copyfile(tokenizer_dir / name, out / name)
    made = {
        "objectives": "phases ahead, the next other one, and each token's item and phase, in training requests",
        "budget": msgspec.to_builtins(budget),
        "losses": losses,
        "versions": {name: version(name) for name in ("memspec-actors", "torch", "tokenizers")},
    }
    (out / PRETRAINING).write_bytes(msgspec.json.format(msgspec.json.encode(made), indent=2) + b"\n")
