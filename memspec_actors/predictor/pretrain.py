"""Pre-train the embedded models' context encoder on generated requests; afterwards it is frozen.

Two objectives: masked-token modelling over the whole context, and, read from the first state, which phases (domains)
the answer goes through from here on: once weighted towards the next few tokens, once over the rest of the text. Labels
come from the generator alone; neither target nor drafts have a part in it.
"""

import random
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from memspec_actors.predictor.context import Batch, ContextLayout, batch_contexts
from memspec_actors.predictor.encoder import BertEncoder, EncoderConfig
from memspec_actors.progress import Progress

if TYPE_CHECKING:
    from tokenizers import Tokenizer

__all__ = ["PhasedText", "PretrainBudget", "phased_texts", "pretrain"]

REACH_TOKENS = (10.0, 60.0)  # how far the two phase objectives look: weights fall by e over so many tokens
CUTS_PER_TEXT = 8
POOL_BATCHES = 16
BOS = "<s>"
SEPARATOR = "\n\n"  # between the items of an answer
IGNORED = -100


class PhasedText(msgspec.Struct, frozen=True):
    """A prompt and its answer as ids, with the phase (0 .. P-1) of every token of the answer."""

    prompt_ids: list[int]
    answer_ids: list[int]
    phases: list[int]


class PretrainBudget(msgspec.Struct, frozen=True, kw_only=True):
    """Say how long to train; learning rate rises over a tenth of the steps and then falls to zero.

    Every ``masked_every``-th step hides ``masked_share`` of the tokens and learns them too.
    """

    steps: int = 2200
    batch_size: int = 64
    learning_rate: float = 3e-3
    masked_every: int = 4
    masked_share: float = 0.12
    seed: int = 0


class _Sample(msgspec.Struct, frozen=True):
    context: tuple[list[int], list[int]]
    ahead: list[list[float]]  # (reach, P), rows sum to 1


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
    encoder = BertEncoder(config)
    encoder.initialise(generator)
    phase_head = nn.Linear(config.hidden_size, len(REACH_TOKENS) * num_phases)
    nn.init.zeros_(phase_head.weight)
    nn.init.zeros_(phase_head.bias)
    parameters = [*encoder.parameters(), *phase_head.parameters()]
    optimiser = torch.optim.AdamW(parameters, lr=budget.learning_rate, betas=(0.9, 0.98), weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: _rate(step, budget.steps))
    batches = _batches(texts, layout, num_phases, budget.batch_size, generator)
    recent: list[tuple[float, float]] = []
    for step in range(budget.steps):
        batch, ahead = _collate(next(batches), config.pad_token_id)
        share = budget.masked_share if step % budget.masked_every == 0 else 0.0
        masked_ids, labels = _mask(batch, share, config, generator)
        states = encoder(masked_ids, batch.token_types, batch.mask)
        phase_loss = _phase_loss(phase_head(states[:, 0]), ahead)
        token_loss = _token_loss(encoder, states, labels)
        torch.autograd.backward(phase_loss + 0.2 * token_loss)
        nn.utils.clip_grad_norm_(parameters, 1.0)
        optimiser.step()
        schedule.step()
        optimiser.zero_grad(set_to_none=True)
        recent = [*recent, (phase_loss.item(), token_loss.item())][-max(budget.steps // 10, 1) :]
        if progress:
            progress("pretrain", step + 1, budget.steps)
    masked = [tokens for _, tokens in recent if tokens]
    losses = {"phase_loss": sum(p for p, _ in recent) / len(recent), "masked_loss": sum(masked) / max(len(masked), 1)}
    return encoder.eval().requires_grad_(False), losses


def phased_texts(tokenizer: "Tokenizer", seed: str) -> Iterator[PhasedText]:
    """Generate requests of the embedded models' world without end, from the training split."""
    from memspec_actors.zoo import world

    rng = random.Random(seed)
    while True:
        request = world.sample_request(rng, world.sample_phases(rng), split="train")
        encoding = tokenizer.encode(request.answer_text, add_special_tokens=False)
        prompt = tokenizer.encode(BOS + request.prompt_text, add_special_tokens=False)
        bodies: list[tuple[int, int]] = []
        for item in request.items:
            end = request.answer_text.index(item.body, bodies[-1][0] if bodies else 0) + len(item.body)
            bodies.append((end + len(SEPARATOR), world.DOMAINS.index(item.domain)))
        yield PhasedText(prompt.ids, encoding.ids, _phases(bodies, encoding.offsets))


def _phases(bodies: Sequence[tuple[int, int]], offsets: Sequence[tuple[int, int]]) -> list[int]:
    """Give the phase of every token, from each item's (end in the text, phase) and the tokens' places in the text."""
    phases: list[int] = []
    item = 0
    for start, _ in offsets:
        while start >= bodies[item][0] and item + 1 < len(bodies):
            item += 1
        phases.append(bodies[item][1])
    return phases


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
    phases = F.one_hot(torch.tensor(text.phases), num_phases).float()
    return [
        _Sample(
            layout.arrange(text.prompt_ids, text.answer_ids[:cut]),
            [_ahead(phases[cut:], reach) for reach in REACH_TOKENS],
        )
        for cut in cuts
    ]


def _ahead(phases: Tensor, reach: float) -> list[float]:
    """Average one-hot phases (n, P) of the coming tokens with weights that fall with distance."""
    weights = torch.exp(-torch.arange(len(phases)) / reach)
    ahead: list[float] = ((weights[:, None] * phases).sum(0) / weights.sum()).tolist()
    return ahead


def _collate(samples: Sequence[_Sample], pad_id: int) -> tuple[Batch, Tensor]:
    ahead = torch.tensor([sample.ahead for sample in samples])  # (B, reach, P)
    return batch_contexts([sample.context for sample in samples], pad_id), ahead


def _mask(batch: Batch, share: float, config: EncoderConfig, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Replace a share of the tokens by padding; labels (B, T) hold what was there, IGNORED elsewhere."""
    chosen = torch.rand(batch.ids.shape, generator=generator) < share
    if batch.mask is not None:
        chosen &= batch.mask
    labels = torch.where(chosen, batch.ids, IGNORED)
    return torch.where(chosen, config.pad_token_id, batch.ids), labels


def _phase_loss(logits: Tensor, ahead: Tensor) -> Tensor:
    return F.cross_entropy(logits.view(-1, ahead.shape[-1]), ahead.view(-1, ahead.shape[-1]))


def _token_loss(encoder: BertEncoder, states: Tensor, labels: Tensor) -> Tensor:
    chosen = labels != IGNORED
    if not chosen.any():
        return states.new_zeros(())
    return F.cross_entropy(F.linear(states[chosen], encoder.words.weight), labels[chosen])


def _rate(step: int, steps: int) -> float:
    warm = max(steps // 10, 1)
    return min((step + 1) / warm, (steps - step) / max(steps - warm, 1))
