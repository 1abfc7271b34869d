"""Train the ranking head on traces; the encoder stays frozen."""

import hashlib
import shutil
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from memspec_actors.errors import TraceError
from memspec_actors.models.text.tokenizer import Tokenizer
from memspec_actors.output_files import make_directory
from memspec_actors.predictor.context import ContextLayout
from memspec_actors.predictor.encoder import BertEncoder
from memspec_actors.predictor.evaluation import evaluate
from memspec_actors.predictor.examples import Point, context_of, encode_all, prompt_hash, training_points
from memspec_actors.predictor.head import HEAD_FORMAT, INPUTS, HeadFile, InputKind, RankingHead, save_heads
from memspec_actors.predictor.ranker import ContextReader, open_tokenizer
from memspec_actors.predictor.traces import TraceReader
from memspec_actors.predictor.utility import UtilityParams
from memspec_actors.progress import Progress

__all__ = ["TrainParams", "evaluate", "train"]

SPECIAL_TOKENS = (("[CLS]", "[SEP]"), ("<s>", "</s>"))
ENCODER_FILES = ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json", "pretraining.json")


class TrainParams(msgspec.Struct, frozen=True, kw_only=True):
    """Say how heads are trained; the defaults are those of the shipped predictor."""

    inner: int = 64
    dropout: float = 0.2
    learning_rate: float = 1e-3
    weight_decay: float = 0.1
    batch_size: int = 256
    max_epochs: int = 60
    patience: int = 6  # epochs without a better validation loss
    validation_share: float = 0.15
    stride: int = 4  # tokens between training points
    max_tokens: int = 256
    recent_tokens: int = 64
    seed: int = 0
    without: str | None = None  # nothing is learned from points that speak for this draft
    utility: UtilityParams = UtilityParams()


def train(
    traces: str | Path,
    encoder_dir: str | Path,
    out: str | Path,
    *,
    params: TrainParams | None = None,
    tokenizer: Tokenizer | None = None,
    exclude: str | Path | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Train heads on a trace file and write a predictor directory; return its provenance.

    One head ranks (prompt and recent tokens), two see only the prompt or the recent tokens and serve for comparison. A
    share of the prompts, chosen by their hash, validates: training stops when the loss on them no longer falls.
    ``tokenizer`` is the target's and is needed if the encoder has another one; ``exclude`` names an evaluation trace
    that must not share a prompt with this one. Raises TraceError, CheckpointError, and UsageError for a directory that
    cannot be written.
    """
    params = params or TrainParams()
    directory, target_dir = Path(encoder_dir), Path(out)
    encoder = BertEncoder.open(directory)
    own = open_tokenizer(directory)
    layout = _layout(directory, encoder, own, params)
    reader = ContextReader(layout, tokenizer, own)
    trace = TraceReader(traces)
    fitted, held_out, hashes = _split(trace, params)
    if exclude is not None:
        _check_disjoint(TraceReader(exclude), set(hashes), f"the training trace {traces}")
    make_directory(target_dir)
    heads, losses = _fit_all(encoder, reader, (fitted, held_out), params, progress)
    provenance = {
        "trace_sha256": hashlib.sha256(trace.path.read_bytes()).hexdigest(),
        "target": trace.header.target,
        "drafts": trace.header.drafts,
        "params": msgspec.to_builtins(params),
        "num_prompts": len(hashes),
        "num_training_points": len(fitted),
        "num_validation_points": len(held_out),
        "validation": losses,
        "versions": {name: version(name) for name in ("memspec-actors", "torch", "numpy")},
    }
    description = HeadFile(
        format=HEAD_FORMAT,
        drafts=tuple(trace.header.drafts),
        layout=layout,
        inner=params.inner,
        provenance=provenance,
        trained_on=tuple(sorted(hashes)),
    )
    _copy_encoder(directory, target_dir)
    save_heads(target_dir, description, heads)
    return provenance


def _check_disjoint(reader: TraceReader, hashes: set[str], owner: str) -> None:
    """Raise TraceError if a prompt of a trace is among ``hashes``, naming its line."""
    for number, record in enumerate(reader, 2):
        if prompt_hash(record.prompt_ids) in hashes:
            raise TraceError(f"{reader.path}, line {number}: this prompt is also in {owner}; use other prompts")


def _layout(directory: Path, encoder: BertEncoder, own: Tokenizer | None, params: TrainParams) -> ContextLayout:
    config, vocab = encoder.config, own.vocab if own else {}
    found = next(((vocab[a], vocab[b]) for a, b in SPECIAL_TOKENS if a in vocab and b in vocab), None)
    if found is None:
        names = " or ".join("/".join(pair) for pair in SPECIAL_TOKENS)
        raise TraceError(f"{directory}: needs a tokenizer.json with {names} to lay out contexts")
    return ContextLayout(
        cls_id=found[0],
        sep_id=found[1],
        vocab_size=config.vocab_size,
        max_tokens=min(params.max_tokens, config.max_position_embeddings),
        recent_tokens=min(params.recent_tokens, config.max_position_embeddings // 2),
    )


def _split(trace: TraceReader, params: TrainParams) -> tuple[list[Point], list[Point], list[str]]:
    """Give training points, validation points, and the hashes of all prompts; one prompt is on one side only.

    A prompt's hash decides its side; the lowest one validates in any case.
    """
    rng = np.random.default_rng(params.seed)
    unseen = _index(trace, params.without)
    sides: tuple[list[Point], list[Point]] = ([], [])
    hashes = [prompt_hash(record.prompt_ids) for record in trace]
    limit = max([min(hashes, default=""), f"{int(params.validation_share * 2**32):08x}"])
    for record, digest in zip(trace, hashes, strict=True):
        validates = digest <= limit
        points = training_points(record, params.utility, params.stride, rng)
        sides[validates].extend(point for point in points if unseen is None or not point.speaks_for(unseen))
    if not sides[0] or not sides[1]:
        raise TraceError(f"{trace.path}: too few prompts to train and validate with ({len(hashes)}); collect more")
    return sides[0], sides[1], hashes


def _index(trace: TraceReader, draft: str | None) -> int | None:
    drafts = list(trace.header.drafts)
    if draft is not None and draft not in drafts:
        raise TraceError(f"{trace.path}, line 1: traces {', '.join(drafts)}, but no draft {draft!r} to do without")
    return None if draft is None else drafts.index(draft)


def _copy_encoder(source: Path, target: Path) -> None:
    target.mkdir(parents=True, exist_ok=True)
    for name in ENCODER_FILES:
        if (source / name).exists() and source.resolve() != target.resolve():
            shutil.copyfile(source / name, target / name)


def _fit_all(
    encoder: BertEncoder,
    reader: ContextReader,
    sides: tuple[Sequence[Point], Sequence[Point]],
    params: TrainParams,
    progress: Progress | None,
) -> tuple[dict[InputKind, RankingHead], dict[str, dict[str, float]]]:
    """Fit one head for each kind of input on (training, validation) points."""
    heads: dict[InputKind, RankingHead] = {}
    losses: dict[str, dict[str, float]] = {}
    for number, kind in enumerate(INPUTS, 1):
        fitted, held_out = (_tensors(encoder, reader, points, kind) for points in sides)
        heads[kind], losses[kind] = _fit(fitted, held_out, params)
        if progress:
            progress("train", number, len(INPUTS))
    return heads, losses


def _tensors(
    encoder: BertEncoder, reader: ContextReader, points: Sequence[Point], kind: InputKind
) -> tuple[Tensor, Tensor]:
    states = encode_all(encoder, [context_of(point, kind, reader) for point in points])
    return states, torch.tensor([(point.now, point.coming) for point in points])


def _fit(
    training: tuple[Tensor, Tensor], validation: tuple[Tensor, Tensor], params: TrainParams
) -> tuple[RankingHead, dict[str, float]]:
    """Minimise the cross-entropy to the soft targets (N, 2, D); keep the weights of the best validation loss."""
    states, targets = training
    generator = torch.Generator().manual_seed(params.seed)
    with torch.random.fork_rng():
        torch.manual_seed(params.seed)
        head = RankingHead(states.shape[1], params.inner, targets.shape[-1], params.dropout)
        optimiser = torch.optim.AdamW(head.parameters(), lr=params.learning_rate, weight_decay=params.weight_decay)
        best, best_loss, best_epoch = head.state_dict(), float("inf"), 0
        for epoch in range(params.max_epochs):
            head.train()
            order = torch.randperm(len(states), generator=generator)
            for rows in torch.split(order, params.batch_size):
                loss = _loss(head, states[rows], targets[rows])
                optimiser.zero_grad(set_to_none=True)
                torch.autograd.backward(loss)
                optimiser.step()
            head.eval()
            with torch.no_grad():
                validation_loss = _loss(head, *validation).item()
            if validation_loss < best_loss:
                best_loss, best_epoch = validation_loss, epoch
                best = {name: tensor.clone() for name, tensor in head.state_dict().items()}
            elif epoch - best_epoch >= params.patience:
                break
    head.load_state_dict(best)
    return head.eval().requires_grad_(False), {"loss": best_loss, "epochs": best_epoch + 1}


def _loss(head: RankingHead, states: Tensor, targets: Tensor) -> Tensor:
    """Add up both rows' cross-entropies; a target of zeros, where no other draft comes, adds nothing."""
    return F.cross_entropy(head(states).flatten(0, 1), targets.flatten(0, 1))
