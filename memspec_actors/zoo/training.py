"""Train a network on a source of documents: optimiser, schedule, growth, resumable checkpoints."""

from __future__ import annotations

import copy
import functools
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import torch
import torch.nn.functional as F
from tokenizers import Tokenizer
from torch import nn

from memspec_actors.zoo.batches import IGNORED, Source, batches
from memspec_actors.zoo.network import Block, Network

__all__ = ["Schedule", "StageProgress", "grow", "train"]

WARMUP_STEPS = 30
REFERENCE_WIDTH = 128  # that learning rates are stated for; matrices of wider networks learn proportionally slower
SMOOTHING = 0.97
REPORT_EVERY_S, SAVE_EVERY_S = 5.0, 60.0


class Schedule(msgspec.Struct, frozen=True, kw_only=True):
    """How long and how fast a stage learns.

    `tokens` is the whole budget, `batch_tokens` one step's. The learning rate is `peak` until a share of `decay` of the
    budget is left and then falls in a line to a share of `floor` of it.
    """

    tokens: int
    batch_tokens: int = 768
    peak: float = 0.004
    decay: float = 0.5
    floor: float = 0.01

    def rate(self, seen: int, step: int) -> float:
        """Give the learning rate after `seen` tokens and `step` steps."""
        left = max(0.0, 1.0 - seen / self.tokens)
        fall = 1.0 if left >= self.decay else self.floor + (1.0 - self.floor) * left / self.decay
        return self.peak * fall * min(1.0, (step + 1) / WARMUP_STEPS)


class StageProgress(msgspec.Struct, frozen=True, kw_only=True):
    """How far a stage has come; `loss` is the smoothed training loss in nats per token."""

    stage: str
    tokens: int
    total_tokens: int
    loss: float
    elapsed_s: float


class _TrainingState(msgspec.Struct, kw_only=True):
    """What a checkpoint holds beside the network and the optimiser."""

    tokens: int = 0
    step: int = 0
    loss: float = float("nan")


def train(
    network: Network,
    tokenizer: Tokenizer,
    source: Source,
    schedule: Schedule,
    *,
    checkpoint: Path,
    stage: str,
    on_progress: Callable[[StageProgress], None] = lambda progress: None,
) -> float:
    """Train `network` in place and give its smoothed loss; goes on from `checkpoint` if that exists."""
    optimizer = _make_optimizer(network, schedule.peak)
    state = _load(checkpoint, network, optimizer)
    stream = batches(tokenizer, source, schedule.batch_tokens, state.step)
    began = reported = saved = time.monotonic()
    try:
        while state.tokens < schedule.tokens:
            _set_rate(optimizer, schedule.rate(state.tokens, state.step) / schedule.peak)
            _step(network, optimizer, next(stream), state)
            now = time.monotonic()
            if now - reported >= REPORT_EVERY_S or state.tokens >= schedule.tokens:
                reported = now
                on_progress(_progress(stage, schedule, state, now - began))
            if now - saved >= SAVE_EVERY_S:
                saved = now
                _save(checkpoint, network, optimizer, state)
    except BaseException:
        _save(checkpoint, network, optimizer, state)  # an interrupted stage goes on from here
        raise
    return state.loss


def _progress(stage: str, schedule: Schedule, state: _TrainingState, elapsed_s: float) -> StageProgress:
    return StageProgress(
        stage=stage, tokens=state.tokens, total_tokens=schedule.tokens, loss=state.loss, elapsed_s=elapsed_s
    )


def _step(
    network: Network, optimizer: torch.optim.Optimizer, batch: tuple[torch.Tensor, torch.Tensor], state: _TrainingState
) -> None:
    ids, labels = batch
    keep = labels != IGNORED
    with torch.autocast("cpu", torch.bfloat16, enabled=_has_bfloat16_tiles()):
        logits = network(ids, keep)
    loss = F.cross_entropy(logits.float(), labels[keep])
    optimizer.zero_grad(set_to_none=True)
    loss.backward()  # type: ignore[no-untyped-call]
    nn.utils.clip_grad_norm_(network.parameters(), 1.0)
    optimizer.step()
    state.loss = loss.item() if state.step == 0 else SMOOTHING * state.loss + (1 - SMOOTHING) * loss.item()
    state.tokens += ids.numel()
    state.step += 1


@functools.cache
def _has_bfloat16_tiles() -> bool:
    """Say whether this CPU multiplies bfloat16 matrices several times as fast as float32 ones (AMX)."""
    capabilities: Mapping[str, object] = getattr(torch.cpu, "get_capabilities", dict)()  # torch 2.10 has it first
    return bool(capabilities.get("amx_bf16", False))


def _make_optimizer(network: Network, peak: float) -> torch.optim.AdamW:
    """Make AdamW with the matrices' rate scaled by width (after Yang et al. 2022, "Tensor Programs V")."""
    matrices = [module.weight for module in network.modules() if isinstance(module, nn.Linear)]
    known = {id(weight) for weight in matrices}
    rest = [weight for weight in network.parameters() if id(weight) not in known]
    scaled = peak * REFERENCE_WIDTH / network.shape.hidden
    groups: list[dict[str, Any]] = [{"params": matrices, "lr": scaled}, {"params": rest, "lr": peak}]
    optimizer = torch.optim.AdamW(groups, betas=(0.9, 0.98), weight_decay=0.0, fused=True)
    for group in optimizer.param_groups:
        group["peak"] = group["lr"]
    return optimizer


def _set_rate(optimizer: torch.optim.Optimizer, share: float) -> None:
    for group in optimizer.param_groups:
        group["lr"] = group["peak"] * share


def grow(network: Network, layers: int) -> Network:
    """Give a deeper copy: every layer is followed by copies of itself that start as the identity."""
    grown = Network(msgspec.structs.replace(network.shape, layers=layers))
    grown.embedding.load_state_dict(network.embedding.state_dict())
    grown.norm.data.copy_(network.norm.data)
    old = network.layers()
    seen: set[int] = set()
    blocks: list[Block] = []
    for index in range(layers):
        origin = index * len(old) // layers
        block = copy.deepcopy(old[origin])
        if origin in seen:
            nn.init.zeros_(block.out.weight)
            nn.init.zeros_(block.down.weight)
        seen.add(origin)
        blocks.append(block)
    grown.blocks = nn.ModuleList(blocks)
    return grown


def _save(file: Path, network: Network, optimizer: torch.optim.Optimizer, state: _TrainingState) -> None:
    partial = file.with_suffix(".partial")
    held = {"network": network.state_dict(), "optimizer": optimizer.state_dict(), "state": msgspec.to_builtins(state)}
    torch.save(held, partial)
    partial.replace(file)


def _load(file: Path, network: Network, optimizer: torch.optim.Optimizer) -> _TrainingState:
    if not file.exists():
        return _TrainingState()
    held = torch.load(file, weights_only=True)
    network.load_state_dict(held["network"])
    optimizer.load_state_dict(held["optimizer"])
    return msgspec.convert(held["state"], _TrainingState)
