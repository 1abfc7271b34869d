"""Four-bit weights on torch's CPU kernel: its packed order, its scales, the map itself, and whether to trust it.

The kernel's weight is (code - 8) * scale + offset, and it multiplies bfloat16 rows only (with others it is very slow).
Its operators are not public. So their result is compared with a plain product before they are used at all, and their
order of codes is only written directly where it is known and proves to be what the operator writes.
"""

from functools import lru_cache

import torch
from torch import Tensor

from memspec_actors.models.kernels.sizes import INT4_GROUPS

__all__ = ["int4_product", "int4_works", "kernel_scales", "pack_codes", "pack_words", "quantise_int4"]

KERNEL_ZERO = 8
LARGEST_CODE = 15
WORD_BITS, CODE_BITS = 32, 4
TOLERANCE = 1e-2  # of the largest result; bfloat16 alone takes 3e-3


if hasattr(torch.ops.aten, "_weight_int4pack_mm_for_cpu"):

    def int4_product(rows: Tensor, codes: Tensor, scales: Tensor, group: int, order: Tensor | None) -> Tensor:
        """Map rows (T, in) x to x @ weight.T, (T, out) bfloat16.

        ``codes`` is (out, in / 2) uint8 in the kernel's order, ``scales`` (in / group, out, 2), ``order`` (in,) int32
        the order in which the inputs are taken, or None. TorchScript as well as Python.
        """
        taken = rows if order is None else rows.index_select(-1, order)
        product: Tensor = torch.ops.aten._weight_int4pack_mm_for_cpu(
            taken.to(torch.bfloat16).contiguous(), codes, group, scales
        )
        return product

else:

    def int4_product(rows: Tensor, codes: Tensor, scales: Tensor, group: int, order: Tensor | None) -> Tensor:
        """Refuse to: this build of torch has no such kernel."""
        raise RuntimeError("this build of torch has no int4 kernel")


def pack_codes(codes: Tensor) -> Tensor:
    """Return codes (out, in) uint8 as the kernel wants them, (out, in / 2)."""
    block = _block_rows()
    num_direct = len(codes) // block * block if block else 0
    packed = torch.empty(len(codes), codes.shape[1] // 2, dtype=torch.uint8)
    if num_direct:
        packed[:num_direct] = _pairs(codes[:num_direct], block)
    if num_direct < len(codes):
        packed[num_direct:] = _packed_by_torch(codes[num_direct:])
    return packed


def pack_words(words: Tensor, order: Tensor | None) -> Tensor:
    """Return GPTQ's words (in / 8, out) int32 as the kernel wants them, (out, in / 2), its inputs in ``order``."""
    block = _block_rows()
    num_direct = words.shape[1] // block * block if block else 0
    packed = torch.empty(words.shape[1], 4 * len(words), dtype=torch.uint8)
    if num_direct:
        packed[:num_direct] = _pack_blocks(words[:, :num_direct], block, order).view(num_direct, -1)
    if num_direct < len(packed):
        rest = _unpacked(words[:, num_direct:])
        packed[num_direct:] = _packed_by_torch((rest if order is None else rest.index_select(0, order)).t())
    return packed


def kernel_scales(scales: Tensor, zeros: Tensor) -> Tensor:
    """Return (G, out, 2) bfloat16 for weights scale * (code - zero); both are (G, out)."""
    narrow = scales.to(torch.bfloat16)
    return torch.stack((narrow, ((KERNEL_ZERO - zeros) * narrow.float()).to(torch.bfloat16)), -1)


def quantise_int4(weight: Tensor, group: int) -> tuple[Tensor, Tensor]:
    """Round weights (out, in) to 16 levels between the least and the largest of each ``group`` inputs.

    Returns packed codes (out, in / 2) uint8 and scales (in / group, out, 2) bfloat16.
    """
    grouped = weight.float().view(len(weight), -1, group)  # (out, G, group)
    least, largest = grouped.aminmax(dim=-1, keepdim=True)
    scale = ((largest - least) / LARGEST_CODE).clamp(min=torch.finfo(torch.bfloat16).tiny).to(torch.bfloat16)
    offset = (least + KERNEL_ZERO * scale.float()).to(torch.bfloat16)
    codes = ((grouped - offset.float()) / scale.float()).round_().add_(KERNEL_ZERO).clamp_(0, LARGEST_CODE)
    scales = torch.cat((scale, offset), -1).transpose(0, 1).contiguous()
    return pack_codes(codes.to(torch.uint8).view_as(weight)), scales


@lru_cache(maxsize=1)
def int4_works() -> bool:
    """Tell whether the kernel exists and agrees with a plain product, for all groups and for one row and several."""
    try:
        return all(_agrees(group, num_rows) for group in INT4_GROUPS for num_rows in (1, 5))
    except (AttributeError, RuntimeError, TypeError):
        return False


def _agrees(group: int, num_rows: int) -> bool:
    random = torch.Generator().manual_seed(group)
    out, inputs = 144, 2 * 256  # blocks of 64 rows, and a rest
    codes = torch.randint(0, LARGEST_CODE + 1, (out, inputs), generator=random, dtype=torch.uint8)
    scales = torch.rand(inputs // group, out, generator=random) + 0.5
    zeros = torch.randint(0, LARGEST_CODE + 1, scales.shape, generator=random)
    rows = torch.randn(num_rows, inputs, generator=random)
    got = int4_product(rows, pack_codes(codes), kernel_scales(scales, zeros), group, None).float()
    spread_scales, spread_zeros = (each.t().repeat_interleave(group, 1) for each in (scales, zeros))
    expected = rows @ (spread_scales * (codes.float() - spread_zeros)).t()
    return bool((got - expected).abs().max() <= TOLERANCE * expected.abs().max())


@lru_cache(maxsize=1)
def _block_rows() -> int:
    """Return how many outputs the kernel keeps together on this processor, or 0 if its order is not a known one."""
    codes = torch.randint(0, LARGEST_CODE + 1, (128, 64), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    for block in (64, 32):  # AVX512, AVX2
        if torch.equal(_pairs(codes, block), _packed_by_torch(codes)):
            return block
    return 0


def _pairs(codes: Tensor, block: int) -> Tensor:
    """Pack whole blocks of outputs: one half of a block into the low bits, the other into the high ones."""
    halves = codes.view(-1, 2, block // 2, codes.shape[1])
    by_input = (halves[:, 0] | halves[:, 1] << CODE_BITS).transpose(1, 2)  # (blocks, in, block / 2)
    return by_input.reshape(len(codes), -1)


def _pack_blocks(words: Tensor, block: int, order: Tensor | None) -> Tensor:
    """Pack whole blocks of outputs without spreading the codes out: (in / 8, out) -> (out / block, in, block / 2)."""
    num_words, half = words.shape[0], block // 2
    pairs = words.view(torch.uint8).reshape(num_words, -1, 2, half, 4)  # each byte holds inputs 2b (low) and 2b + 1
    low, high = pairs[:, :, 0].permute(1, 0, 3, 2), pairs[:, :, 1].permute(1, 0, 3, 2)  # (blocks, words, 4, half)
    packed = torch.empty(low.shape[0], num_words, 4, 2, half, dtype=torch.uint8)
    packed[:, :, :, 0] = low & LARGEST_CODE | high << CODE_BITS
    packed[:, :, :, 1] = low >> CODE_BITS | high & (LARGEST_CODE << CODE_BITS)
    by_input = packed.view(-1, 8 * num_words, half)
    return by_input if order is None else by_input.index_select(1, order)


def _unpacked(words: Tensor) -> Tensor:
    """Return the codes of words (n / 8, out) as (n, out) uint8."""
    shifts = torch.arange(0, WORD_BITS, CODE_BITS, dtype=torch.int32)[:, None]
    return (words[:, None] >> shifts & LARGEST_CODE).to(torch.uint8).flatten(0, 1)


def _packed_by_torch(codes: Tensor) -> Tensor:
    packed: Tensor = torch.ops.aten._convert_weight_to_int4pack_for_cpu(codes.to(torch.int32).contiguous(), 1)
    return packed
