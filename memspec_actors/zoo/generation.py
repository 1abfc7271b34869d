"""Greedy text of a network, many prompts at once."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from memspec_actors.zoo.network import Memory, Network
from memspec_actors.zoo.tokenizer import EOS_ID, PAD_ID

__all__ = ["greedy"]


@torch.inference_mode()
def greedy(network: Network, prompts: Sequence[Sequence[int]], *, max_new_tokens: int) -> list[list[int]]:
    """Continue every prompt with the most likely token until the end token (kept) or `max_new_tokens`."""
    width = max(len(prompt) for prompt in prompts)
    ids = torch.tensor([[PAD_ID] * (width - len(prompt)) + list(prompt) for prompt in prompts])
    lengths = torch.tensor([len(prompt) for prompt in prompts])
    mask = torch.arange(width)[None] >= width - lengths[:, None]
    memories = [Memory() for _ in network.blocks]
    outputs: list[list[int]] = [[] for _ in prompts]
    going = [True] * len(prompts)
    for _ in range(max_new_tokens):
        ids = network.extend(ids, mask, memories).argmax(-1, keepdim=True)
        for row, token in enumerate(ids[:, 0].tolist()):
            if going[row]:
                outputs[row].append(token)
                going[row] = token != EOS_ID
        if not any(going):
            break
        mask = torch.cat((mask, torch.ones(len(prompts), 1, dtype=torch.bool)), 1)
    return outputs
