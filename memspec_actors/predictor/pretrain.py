"""Pre-train the embedded models' context encoder on generated requests; afterwards it is frozen.

Two objectives. From the first state: which phases (domains) the answer goes through from here on, window by window, and
which other one comes next, however far ahead. From the states that the last layer reads: to which item of the request
every token belongs, of prompt and answer alike, and of which phase that item is; the first is learned many times as
fast for it. Labels come from the generator alone; neither target nor drafts have a part in it.
"""

from collections.abc import Iterator, Sequence

import msgspec
import torch
import torch.nn.functional as F
from msgspec.structs import replace
from torch import Tensor, nn

from memspec_actors.predictor.context import Batch, ContextLayout, batch_contexts
from memspec_actors.predictor.encoder import BertEncoder, EncoderConfig
from memspec_actors.predictor.phased_text import NO_ITEM, PhasedText
from memspec_actors.progress import Progress

__all__ = ["PretrainBudget", "pretrain"]

WINDOWS = ((0, 8), (8, 16), (16, 24), (24, 32), (32, 48), (48, 64))  # tokens ahead
MAX_ITEMS = 6  # as many lines as a request may have
CUTS_PER_TEXT = 8
POOL_BATCHES = 16
IGNORED = -100
LOSSES = ("ahead_loss", "following_loss", "token_loss")


class PretrainBudget(msgspec.Struct, frozen=True, kw_only=True):
    """Say how long to train; learning rate rises over a tenth of the steps and then falls to zero."""

    steps: int = 6000
    batch_size: int = 64
    learning_rate: float = 3e-3
    following_weight: float = 0.3
    token_weight: float = 0.3
    seed: int = 0


class _Sample(msgspec.Struct, frozen=True):
    context: tuple[list[int], list[int]]
    ahead: list[list[float]]  # (windows, P + 1): shares of the phases and of what lies beyond the end
    following: int  # the next other phase, P if there is none
    items: list[int]  # of every token
    phases: list[int]  # of every token's item, P where there is none


class _Labelled(msgspec.Struct, frozen=True):
    batch: Batch
    ahead: Tensor  # (B, windows, P + 1)
    following: Tensor  # (B,)
    items: Tensor  # (B, T), IGNORED on padding
    phases: Tensor  # (B, T), IGNORED on padding


class _Heads(nn.Module):
    """What is read off the states while they are learned."""

    def __init__(self, hidden_size: int, num_phases: int) -> None:
        super().__init__()
        self.ahead = nn.Linear(hidden_size, len(WINDOWS) * (num_phases + 1))
        self.following = nn.Linear(hidden_size, num_phases + 1)
        self.items = nn.Linear(hidden_size, MAX_ITEMS + 1)
        self.phases = nn.Linear(hidden_size, num_phases + 1)
        for parameter in self.parameters():
            nn.init.zeros_(parameter)

    def ahead_loss(self, first: Tensor, labelled: _Labelled) -> Tensor:
        logits = self.ahead(first).view(labelled.ahead.shape)
        return F.cross_entropy(logits.flatten(0, 1), labelled.ahead.flatten(0, 1))

    def following_loss(self, first: Tensor, labelled: _Labelled) -> Tensor:
        return F.cross_entropy(self.following(first), labelled.following)

    def token_loss(self, states: Tensor, labelled: _Labelled) -> Tensor:
        items = F.cross_entropy(self.items(states).flatten(0, 1), labelled.items.flatten(), ignore_index=IGNORED)
        phases = F.cross_entropy(self.phases(states).flatten(0, 1), labelled.phases.flatten(), ignore_index=IGNORED)
        return items + phases


def pretrain(
    config: EncoderConfig,
    layout: ContextLayout,
    texts: Iterator[PhasedText],
    num_phases: int,
    budget: PretrainBudget,
    progress: Progress | None = None,
) -> tuple[BertEncoder, dict[str, float]]:
    """Train a fresh encoder and return it frozen, with the losses averaged over the last tenth of the steps."""
    generator = torch.Generator().manual_seed(budget.seed)
    encoder, heads = BertEncoder(config), _Heads(config.hidden_size, num_phases)
    encoder.initialise(generator)
    parameters = [*encoder.parameters(), *heads.parameters()]
    optimiser = torch.optim.AdamW(parameters, lr=budget.learning_rate, betas=(0.9, 0.98), weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: _rate(step, budget.steps))
    batches = _batches(texts, layout, num_phases, budget.batch_size, generator)
    recent: list[tuple[float, ...]] = []
    for step in range(budget.steps):
        labelled = _collate(next(batches), config.pad_token_id)
        batch = labelled.batch
        first, states = encoder.first_state_and_below(batch.ids, batch.token_types, batch.mask)
        ahead, following = heads.ahead_loss(first, labelled), heads.following_loss(first, labelled)
        token = heads.token_loss(states, labelled)
        torch.autograd.backward(ahead + budget.following_weight * following + budget.token_weight * token)
        nn.utils.clip_grad_norm_(parameters, 1.0)
        optimiser.step()
        schedule.step()
        optimiser.zero_grad(set_to_none=True)
        recent = [*recent, (ahead.item(), following.item(), token.item())][-max(budget.steps // 10, 1) :]
        if progress:
            progress("pretrain", step + 1, budget.steps)
    losses = torch.tensor(recent).mean(0).tolist()
    return encoder.eval().requires_grad_(False), dict(zip(LOSSES, losses, strict=True))


def _batches(
    texts: Iterator[PhasedText], layout: ContextLayout, num_phases: int, size: int, generator: torch.Generator
) -> Iterator[list[_Sample]]:
    """Cut every text at random places into what was read and what is to come; batches hold contexts of like length."""
    while True:
        pool: list[_Sample] = []
        while len(pool) < POOL_BATCHES * size:
            pool += _cut(next(texts), layout, num_phases, generator)
        pool.sort(key=lambda sample: len(sample.context[0]))
        for index in torch.randperm(POOL_BATCHES, generator=generator).tolist():
            yield pool[index * size : (index + 1) * size]


def _cut(text: PhasedText, layout: ContextLayout, num_phases: int, generator: torch.Generator) -> list[_Sample]:
    cuts = torch.randint(0, len(text.answer_ids), (CUTS_PER_TEXT,), generator=generator).tolist()
    cuts[0] = 0
    return [_sample(text, cut, layout, num_phases) for cut in cuts]


def _sample(text: PhasedText, cut: int, layout: ContextLayout, num_phases: int) -> _Sample:
    context = layout.arrange(text.prompt_ids, text.answer_ids[:cut])
    like_tokens = replace(layout, cls_id=NO_ITEM, sep_id=NO_ITEM)
    items, _ = like_tokens.arrange(text.prompt_items, text.answer_items[:cut])
    phases = [num_phases if item == NO_ITEM else text.item_phases[item - 1] for item in items]
    return _Sample(context, text.ahead(cut, WINDOWS, num_phases), text.next_phase(cut, num_phases), items, phases)


def _collate(samples: Sequence[_Sample], pad_id: int) -> _Labelled:
    batch = batch_contexts([sample.context for sample in samples], pad_id)
    width = batch.ids.shape[1]
    return _Labelled(
        batch,
        torch.tensor([sample.ahead for sample in samples]),
        torch.tensor([sample.following for sample in samples]),
        torch.tensor([_padded(sample.items, width) for sample in samples]),
        torch.tensor([_padded(sample.phases, width) for sample in samples]),
    )


def _padded(labels: list[int], width: int) -> list[int]:
    return labels + [IGNORED] * (width - len(labels))


def _rate(step: int, steps: int) -> float:
    warm = max(steps // 10, 1)
    return min((step + 1) / warm, (steps - step) / max(steps - warm, 1))
