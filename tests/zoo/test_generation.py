"""Greedy text of many prompts at once."""

import torch

from memspec_actors.zoo.generation import greedy
from memspec_actors.zoo.network import Network, Shape


@torch.inference_mode()
def test_batched_greedy_equals_one_at_a_time() -> None:
    """Left padding would otherwise change the target's text, and with it what drafts are trained on."""
    torch.manual_seed(3)
    network = Network(Shape(hidden=16, layers=2, heads=2, inner=16, vocab=320))
    for block in network.layers():
        torch.nn.init.normal_(block.out.weight, std=0.3)
        torch.nn.init.normal_(block.down.weight, std=0.3)
    prompts = [[1, 5, 9, 17], [1, 40], [1, 7, 8, 9, 10, 11, 12, 13]]
    for prompt, output in zip(prompts, greedy(network, prompts, max_new_tokens=12), strict=True):
        text = list(prompt)
        for _ in output:
            text.append(int(network(torch.tensor([text]))[0, -1].argmax()))
        assert output == text[len(prompt) :]
