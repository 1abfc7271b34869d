"""Put a copying circuit into a fresh network, so that training starts with names and numbers being copied.

Two heads of the first layer look back by exactly one and two tokens: their queries and keys read a constant that
every embedding carries, and rotary position does the rest. They write what they saw into two reserved subspaces. A head
of the second layer compares its own token with the token before each earlier one, and the one before it likewise, and
copies the token found after the match: an induction head (Olsson et al. 2022, "In-context Learning and Induction
Heads"). Training refines it from there.
"""

from __future__ import annotations

import torch
from torch import Tensor

from memspec_actors.zoo.network import Block, Network, frequencies

__all__ = ["plant_induction"]

SHARPNESS = 10.0  # how strongly an offset head prefers its offset
MATCH = 3.0  # how strongly the induction head prefers a match
OUTPUT = 4.0  # how much of the copied token it adds to the residual
SLOW, FAST = 0.006, 0.02  # rotary angles per token: below SLOW content can be compared, above FAST positions differ


@torch.no_grad()
def plant_induction(network: Network, seed: int) -> None:
    """Overwrite two heads of the first layer and one of the second with a copying circuit."""
    generator = torch.Generator().manual_seed(seed)
    hidden, width = network.shape.hidden, network.shape.head_dim
    slow = _slow_dims(width)
    size = len(slow) // 2
    basis = _orthonormal(1 + 3 * size, hidden, generator)
    constant, code, back_one, back_two = torch.split(basis, [1, size, size, size])  # each (n, hidden)

    table = network.embedding.weight
    reserved = torch.cat((constant, back_one, back_two))
    table -= (table @ reserved.T) @ reserved
    scale = float(table.pow(2).sum(1).mean().sqrt())
    table += constant * scale  # as large as the rest of the embedding

    first, second = network.layers()[:2]
    restore = 2**0.5 * scale / hidden**0.5  # from the normalised residual back to the embedding's size
    for head, (offset, place) in enumerate(((1, back_one), (2, back_two))):
        _plant_offset_head(first, head, offset, constant, code, place * restore)
    copied = _orthonormal(width, hidden, generator)
    copied -= (copied @ reserved[1:].T) @ reserved[1:]
    _plant_match_head(second, slow, torch.cat((code, back_one)), torch.cat((back_one, back_two)), copied)


def _orthonormal(rows: int, width: int, generator: torch.Generator) -> Tensor:
    basis: Tensor = torch.linalg.qr(torch.randn(width, rows, generator=generator))[0].T
    return basis


def _slow_dims(width: int) -> list[int]:
    """List the dimensions of a head that hardly rotate over a request (both halves of each pair)."""
    slow = [i for i, angle in enumerate(frequencies(width).tolist()) if angle < SLOW]
    return slow + [i + width // 2 for i in slow]


def _plant_offset_head(block: Block, head: int, offset: int, constant: Tensor, code: Tensor, place: Tensor) -> None:
    hidden, width = block.shape.hidden, block.shape.head_dim
    angles = frequencies(width)
    fast = (angles > FAST).float()
    query = torch.cat((fast, torch.zeros(width // 2)))
    # rotated on by `offset`, so that the product peaks where key position + offset = query position
    key = torch.cat((fast * (angles * offset).cos(), fast * (angles * offset).sin()))
    gain = SHARPNESS**0.5 * width**0.25 / (hidden / 2) ** 0.5
    value = torch.zeros(width, hidden)
    value[: len(code)] = code
    _set_head(block, head, gain * query[:, None] * constant, gain * key[:, None] * constant, value)
    start = head * width
    block.out.weight[:, start : start + len(code)] = place.T


def _plant_match_head(block: Block, dims: list[int], own: Tensor, before: Tensor, copied: Tensor) -> None:
    hidden, width = block.shape.hidden, block.shape.head_dim
    query, key = torch.zeros(width, hidden), torch.zeros(width, hidden)
    query[dims], key[dims] = MATCH * own, MATCH * before
    _set_head(block, 0, query, key, copied)
    block.out.weight[:, :width] = copied.T * (OUTPUT * (2 / width) ** 0.5)


def _set_head(block: Block, head: int, query: Tensor, key: Tensor, value: Tensor) -> None:
    hidden, width = block.shape.hidden, block.shape.head_dim
    for part, weight in enumerate((query, key, value)):
        start = part * hidden + head * width
        block.qkv.weight[start : start + width] = weight
