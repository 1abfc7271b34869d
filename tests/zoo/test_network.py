"""The training network is the Llama that transformers reads back from its checkpoint."""

from pathlib import Path

import pytest
import torch

from memspec_actors.zoo.checkpoint import export_network, import_network
from memspec_actors.zoo.induction import plant_induction
from memspec_actors.zoo.network import Memory, Network, Shape
from memspec_actors.zoo.training import grow

SHAPE = Shape(hidden=32, layers=3, heads=2, inner=48, vocab=97)


def noisy_network(shape: Shape = SHAPE) -> Network:
    torch.manual_seed(4)
    network = Network(shape)
    for weight in network.parameters():
        weight.data += torch.randn_like(weight) * 0.1
    return network


@torch.inference_mode()
def test_exported_logits_equal_transformers(tmp_path: Path) -> None:
    """Weights that transformers reads differently would be useless outside this package."""
    transformers = pytest.importorskip("transformers")
    network = noisy_network()
    export_network(network, tmp_path, torch.float32)
    reference = transformers.LlamaForCausalLM.from_pretrained(tmp_path)
    ids = torch.randint(97, (2, 40), generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(network(ids), reference(ids).logits, rtol=1e-4, atol=1e-4)


@torch.inference_mode()
def test_import_reads_what_export_wrote(tmp_path: Path) -> None:
    """The shipped weights could not be evaluated."""
    network = noisy_network()
    export_network(network, tmp_path, torch.float32)
    ids = torch.arange(20)[None]
    torch.testing.assert_close(import_network(tmp_path)(ids), network(ids), rtol=0, atol=0)


@torch.inference_mode()
def test_extending_equals_one_pass() -> None:
    """Greedy text would differ from what the network says without a cache."""
    network = noisy_network()
    ids = torch.randint(97, (1, 30), generator=torch.Generator().manual_seed(1))
    memories = [Memory() for _ in network.layers()]
    mask = torch.ones(1, 30, dtype=torch.bool)
    network.extend(ids[:, :11], mask[:, :11], memories)
    last = network.extend(ids[:, 11:], mask, memories)
    torch.testing.assert_close(last, network(ids)[:, -1], rtol=1e-4, atol=1e-5)


@torch.inference_mode()
def test_growth_leaves_the_function_unchanged() -> None:
    """A grown target would have to learn everything again."""
    network = noisy_network()
    ids = torch.arange(25)[None]
    grown = grow(network, 7)
    assert len(grown.layers()) == grown.shape.layers == 7
    torch.testing.assert_close(grown(ids), network(ids), rtol=1e-4, atol=1e-5)


@torch.inference_mode()
def test_planted_circuit_copies_before_any_training() -> None:
    """Copying of names would have to be learnt from scratch, which a small budget does not do."""
    torch.manual_seed(0)
    network = Network(Shape(hidden=256, layers=2, heads=4, inner=16, vocab=500))
    unplanted = Network(network.shape)
    plant_induction(network, 0)
    sequence = torch.randperm(500, generator=torch.Generator().manual_seed(2))[:60]
    ids = torch.cat((sequence, sequence))[None]
    right = network(ids)[0, 60:-1].argmax(-1) == sequence[1:]
    wrong = unplanted(ids)[0, 60:-1].argmax(-1) == sequence[1:]
    assert right.float().mean() > 0.9
    assert wrong.float().mean() < 0.1
