"""The ranking head: from the frozen encoder's states to the drafts' places in memory."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from memspec_actors.errors import TraceError
from memspec_actors.predictor.context import ContextLayout

__all__ = [
    "HEAD_FORMAT",
    "INPUTS",
    "HeadFile",
    "InputKind",
    "RankingHead",
    "load_heads",
    "ranked",
    "read_description",
    "record_evaluation",
    "save_heads",
]

HEAD_FORMAT = "memspec-ranking-head-2"
INPUTS: tuple["InputKind", ...] = ("prompt", "recent", "prompt+recent")

InputKind = Literal["prompt", "recent", "prompt+recent"]

NEXT_SHARE = 0.15  # of a score: what is to be in memory soon, beside what is to be at work


class HeadFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Describe trained heads: the drafts they know, how contexts are laid out, how many hidden units, and where from.

    ``provenance`` records data, seeds, counts, versions and the figures on validation data; ``trained_on`` the hashes
    of all prompts that training saw.
    """

    format: str
    drafts: tuple[str, ...]
    layout: ContextLayout
    inner: int
    provenance: dict[str, Any]
    trained_on: tuple[str, ...]


class RankingHead(nn.Module):
    """Judge drafts from the encoder's first state: logits (B, 2, D).

    The softmax of the first row estimates which draft is to be at work, that of the second which one comes next, if one
    does.
    """

    def __init__(self, hidden_size: int, inner: int, num_drafts: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(hidden_size)
        self.inner = nn.Linear(hidden_size, inner)
        self.dropout = nn.Dropout(dropout)
        self.outer = nn.Linear(inner, 2 * num_drafts)

    def forward(self, states: Tensor) -> Tensor:
        """Give logits (B, 2, D) for states (B, H)."""
        logits: Tensor = self.outer(self.dropout(nn.functional.gelu(self.inner(self.norm(states)))))
        return logits.view(len(states), 2, -1)


def ranked(now: Sequence[float], coming: Sequence[float]) -> tuple[list[int], list[float]]:
    """Rank drafts by how probably each is to be at work, and comes next; return their order and the score of each.

    Scores weigh both. Where one draft stands out, the next one has the second place; where none does, it
    has the first, and memory is not changed with every turn of luck.
    """
    scores = [(1 - NEXT_SHARE) * a + NEXT_SHARE * b for a, b in zip(now, coming, strict=True)]
    return sorted(range(len(scores)), key=lambda draft: -scores[draft]), scores


def save_heads(path: str | Path, file: HeadFile, heads: dict[InputKind, RankingHead]) -> None:
    """Write head.json and head.safetensors beside the encoder: one head for each kind of input."""
    directory = Path(path)
    tensors = {
        f"{kind}.{name}": tensor.detach().contiguous()
        for kind, head in heads.items()
        for name, tensor in head.state_dict().items()
    }
    save_file(tensors, directory / "head.safetensors", metadata={"format": "pt"})
    _write_description(directory, file)


def load_heads(path: str | Path, hidden_size: int) -> tuple[HeadFile, dict[InputKind, RankingHead]]:
    """Read what `save_heads` wrote. Raises TraceError naming the file and what is wrong."""
    directory = Path(path)
    file = read_description(directory)
    weights = directory / "head.safetensors"
    try:
        tensors = load_file(weights)
    except (OSError, SafetensorError) as error:
        raise TraceError(f"{weights}: {error}; train the ranking head again") from error
    heads: dict[InputKind, RankingHead] = {}
    for kind in INPUTS:
        head = RankingHead(hidden_size, file.inner, len(file.drafts))
        prefix = f"{kind}."
        own = {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
        try:
            head.load_state_dict(own)
        except RuntimeError as error:
            reason = str(error).splitlines()[-1].strip()
            raise TraceError(f"{weights}: does not fit head.json and the encoder ({reason}); train it again") from error
        if not all(torch.isfinite(tensor).all() for tensor in own.values()):
            raise TraceError(f"{weights}: holds numbers that are not finite; train the ranking head again")
        heads[kind] = head.eval().requires_grad_(False)
    return file, heads


def record_evaluation(path: str | Path, evaluation: dict[str, Any]) -> None:
    """Add the figures of an evaluation to a predictor's provenance."""
    file = read_description(Path(path))
    changed = msgspec.structs.replace(file, provenance={**file.provenance, "evaluation": evaluation})
    _write_description(Path(path), changed)


def read_description(directory: Path) -> HeadFile:
    """Read the head.json of a predictor directory. Raises TraceError naming the file and what is wrong."""
    path = directory / "head.json"
    try:
        file = msgspec.json.decode(path.read_bytes(), type=HeadFile)
    except OSError as error:
        raise TraceError(f"{path}: {error.strerror}; train a ranking head with `memspec predictor train`") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise TraceError(f"{path}: {error}; train the ranking head again") from error
    if file.format != HEAD_FORMAT or not file.drafts:
        raise TraceError(f"{path}: format {file.format!r} is not {HEAD_FORMAT!r}, or no drafts; train it again")
    return file


def _write_description(directory: Path, file: HeadFile) -> None:
    (directory / "head.json").write_bytes(msgspec.json.format(msgspec.json.encode(file), indent=1) + b"\n")
