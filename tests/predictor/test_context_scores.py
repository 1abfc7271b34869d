"""If these fail, rankings of a running engine are not those of the BERT and the head that were trained."""

import random
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from memspec_actors.models.kernels.script import as_written, traced
from memspec_actors.predictor.context_scores import ContextScores
from memspec_actors.predictor.encoder import BertEncoder
from memspec_actors.predictor.head import RankingHead


@pytest.fixture
def head() -> RankingHead:
    torch.manual_seed(4)
    made = RankingHead(48, inner=24, num_drafts=5, dropout=0.5).eval()
    for parameter in made.parameters():
        parameter.data.add_(torch.randn_like(parameter) * 0.3)
    return made


def by_transformers(model: Any, head: RankingHead, ids: Tensor, token_types: Tensor) -> Tensor:
    first = model(input_ids=ids[None], token_type_ids=token_types[None]).last_hidden_state[0, 0]
    normed = F.layer_norm(first, (48,), head.norm.weight, head.norm.bias)
    inner = F.gelu(head.inner.weight @ normed + head.inner.bias)
    return (head.outer.weight @ inner + head.outer.bias).view(2, 5).softmax(1)


@torch.inference_mode()
def test_scores_equal_those_of_transformers_bert_and_the_head(bert: tuple[Any, Path], head: RankingHead) -> None:
    """Of every length: the trace was made of another one, and some lengths are odd for a processor's vectors."""
    model, directory = bert
    scores = traced(ContextScores(BertEncoder.open(directory), head), *torch.zeros(2, 8, dtype=torch.long))
    rng = random.Random(6)
    for length in range(1, 41):
        ids = torch.tensor([rng.randrange(50) for _ in range(length)])
        token_types = (torch.arange(length) >= rng.randrange(length + 1)).long()
        with as_written():
            found = scores(ids, token_types)
        assert torch.allclose(found, by_transformers(model, head, ids, token_types), atol=1e-5), length


@torch.inference_mode()
def test_one_layer_is_enough(encoder_dir: Path) -> None:
    encoder, head = BertEncoder.open(encoder_dir), RankingHead(32, inner=8, num_drafts=2).eval()
    del encoder.layers[1]
    ids, token_types = torch.arange(3, 20), torch.zeros(17, dtype=torch.long)
    expected = head(encoder(ids[None], token_types[None])[:, 0]).softmax(-1)[0]
    assert torch.allclose(ContextScores(encoder, head)(ids, token_types), expected, atol=1e-5)
