"""Four-bit maps compute the plain product of the weights that their codes stand for, in whatever order torch packs."""

import random

import pytest
import torch
from torch import Tensor

from memspec_actors.models.kernels import int4
from memspec_actors.models.kernels.int4 import int4_product, kernel_scales, pack_codes, pack_words, quantise_int4

TOLERANCE = 0.01  # of the largest result


def plain_product(rows: Tensor, weight: list[list[float]]) -> Tensor:
    return torch.tensor(
        [[sum(x * w for x, w in zip(row, line, strict=True)) for line in weight] for row in rows.tolist()]
    )


def assert_near(got: Tensor, expected: Tensor) -> None:
    assert got.dtype == torch.bfloat16
    assert (got.float() - expected).abs().max() <= TOLERANCE * expected.abs().max()


def random_codes(num_rows: int, num_columns: int, seed: int = 0) -> Tensor:
    return torch.randint(16, (num_rows, num_columns), generator=torch.Generator().manual_seed(seed), dtype=torch.uint8)


@pytest.mark.parametrize("num_outputs", [16, 48, 64, 80, 144])
@pytest.mark.parametrize("group", [32, 64])
@pytest.mark.parametrize("num_rows", [1, 5])
def test_the_map_is_the_plain_product(num_outputs: int, group: int, num_rows: int) -> None:
    """Else codes would be multiplied by other weights' scales."""
    rng = random.Random(num_outputs)
    codes = random_codes(num_outputs, 128)
    scales = [[0.1 + rng.random() for _ in range(num_outputs)] for _ in range(128 // group)]
    zeros = [[rng.randrange(16) for _ in range(num_outputs)] for _ in range(128 // group)]
    weight = [
        [scales[k // group][n] * (int(codes[n, k]) - zeros[k // group][n]) for k in range(128)]
        for n in range(num_outputs)
    ]
    rows = torch.randn(num_rows, 128, generator=torch.Generator().manual_seed(1))
    packed, pairs = pack_codes(codes), kernel_scales(torch.tensor(scales), torch.tensor(zeros))
    assert_near(int4_product(rows, packed, pairs, group, None), plain_product(rows, weight))


def words_of(codes: Tensor) -> Tensor:
    """Pack codes (out, in) as GPTQ does, in a plain loop: (in / 8, out) int32."""
    words = torch.zeros(codes.shape[1] // 8, len(codes), dtype=torch.int32)
    for n in range(len(codes)):
        for k in range(codes.shape[1]):
            word = (int(words[k // 8, n]) & 0xFFFFFFFF) | int(codes[n, k]) << 4 * (k % 8)
            words[k // 8, n] = word - (1 << 32) if word >= 1 << 31 else word
    return words


@pytest.mark.parametrize("num_outputs", [16, 64, 80, 128])
@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("known", [False, True])
def test_every_way_of_packing_gives_the_same_bytes(
    monkeypatch: pytest.MonkeyPatch, num_outputs: int, ordered: bool, known: bool
) -> None:
    """Else a processor on which torch packs otherwise would run other weights."""
    codes = random_codes(num_outputs, 64)
    order = torch.randperm(64, generator=torch.Generator().manual_seed(2)).to(torch.int32) if ordered else None
    taken = codes if order is None else codes[:, order.long()]
    expected = torch.ops.aten._convert_weight_to_int4pack_for_cpu(taken.to(torch.int32).contiguous(), 1)
    if not known:
        monkeypatch.setattr(int4, "_block_rows", lambda: 0)
    assert torch.equal(pack_words(words_of(codes), order), expected)
    assert torch.equal(pack_codes(taken), expected)


def test_rounding_is_to_the_nearest_of_sixteen_levels() -> None:
    """Else load-time quantisation would lose more than the format costs."""
    weight = torch.randn(16, 64, generator=torch.Generator().manual_seed(3))
    weight[3] = 0.25  # a constant group has no spread to divide by
    weight[4, :32] = 0.0
    codes, scales = quantise_int4(weight, 32)
    got = int4_product(torch.eye(64), codes, scales, 32, None).float().t()
    for n in range(16):
        for start in (0, 32):
            group = weight[n, start : start + 32].tolist()
            step = (max(group) - min(group)) / 15
            for value, level in zip(group, got[n, start : start + 32].tolist(), strict=True):
                slack = max(abs(each) for each in group) / 64  # scale and offset are bfloat16
                assert abs(value - level) <= step / 2 + slack


def test_a_kernel_that_computes_something_else_is_not_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a torch whose private kernel changed would silently run other models."""
    assert int4.int4_works()
    for wrong in (
        lambda rows, *weight: int4_product(rows, *weight) * 1.05,
        lambda rows, *weight: int4_product(rows.flip(-1), *weight),
        lambda rows, *weight: torch.ops.aten.no_such_kernel(rows),
    ):
        int4.int4_works.cache_clear()
        with monkeypatch.context() as patch:
            patch.setattr(int4, "int4_product", wrong)
            assert not int4.int4_works()
    int4.int4_works.cache_clear()
    assert int4.int4_works()
