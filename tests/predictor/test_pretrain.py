"""If these fail, the encoder does not learn what comes next in a text, or another one is built from the same seed."""

import random
from collections.abc import Iterator
from itertools import islice

import torch
import torch.nn.functional as F

from memspec_actors.predictor.context import ContextLayout, batch_contexts
from memspec_actors.predictor.encoder import BertEncoder, EncoderConfig
from memspec_actors.predictor.phased_text import PhasedText
from memspec_actors.predictor.pretrain import PretrainBudget, pretrain

CONFIG = EncoderConfig(
    vocab_size=32,
    hidden_size=32,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=32,
    max_position_embeddings=48,
)
LAYOUT = ContextLayout(cls_id=1, sep_id=2, vocab_size=32, max_tokens=48, recent_tokens=24)


def _two_phases(seed: int) -> Iterator[PhasedText]:
    """Texts whose prompt names two phases in order, and whose words of a phase are its own."""
    rng = random.Random(seed)
    while True:
        phases = rng.sample(range(3), 2)
        words = [10 + 5 * phase + rng.randrange(5) for phase in phases for _ in range(12)]
        yield PhasedText(
            prompt_ids=[4 + phases[0], 7 + phases[1]],
            answer_ids=words,
            prompt_items=[1, 2],
            answer_items=[1] * 12 + [2] * 12,
            item_phases=phases,
        )


def _run(steps: int) -> tuple[BertEncoder, dict[str, float]]:
    budget = PretrainBudget(steps=steps, batch_size=32, learning_rate=5e-3)
    return pretrain(CONFIG, LAYOUT, _two_phases(0), 3, budget)


def test_it_learns_what_comes_and_whose_every_token_is() -> None:
    encoder, losses = _run(120)
    _, untrained = _run(2)
    assert losses["ahead_loss"] < 0.6 * untrained["ahead_loss"]
    assert losses["following_loss"] < 0.5 * untrained["following_loss"]
    assert losses["token_loss"] < 0.3 * untrained["token_loss"]
    assert not any(parameter.requires_grad for parameter in encoder.parameters())


def _read(encoder: BertEncoder, texts: list[PhasedText], cut: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Give the first states, with a constant beside them, after ``cut`` tokens, and the one-hot phases of the next."""
    contexts = [LAYOUT.arrange(text.prompt_ids, text.answer_ids[:cut]) for text in texts]
    batch = batch_contexts(contexts, 0)
    states = encoder.first_state(batch.ids, batch.token_types, batch.mask)
    phases = torch.tensor([text.phases[cut] for text in texts])
    return F.pad(states, (0, 1), value=1.0), F.one_hot(phases, 3).float()


def test_the_first_state_tells_what_comes_wherever_the_text_stands() -> None:
    """The same prompt goes on with its first phase at first, and with its second one after that."""
    encoder, _ = _run(120)
    texts = list(islice(_two_phases(1), 100))
    (fitted, wanted), (states, phases) = (
        map(torch.cat, zip(*(_read(encoder, some, cut) for cut in (0, 6, 12, 18)), strict=True))
        for some in (texts[:50], texts[50:])
    )
    probe = torch.linalg.lstsq(fitted, wanted).solution
    assert ((states @ probe).argmax(1) == phases.argmax(1)).float().mean() > 0.9


def test_the_same_seed_gives_the_same_encoder() -> None:
    first, again = (_run(10)[0] for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), again.parameters(), strict=True))
