"""Raw bytes seen as matrices of a number format."""

import torch
from torch import Tensor

__all__ = ["RUN_DTYPES", "TORCH_DTYPES", "matrix"]

RUN_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
TORCH_DTYPES = {
    "F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16, "I64": torch.int64,
    "I32": torch.int32, "I16": torch.int16, "I8": torch.int8, "U8": torch.uint8, "U16": torch.uint16,
    "U32": torch.uint32, "U64": torch.uint64, "BOOL": torch.bool, "F8_E4M3": torch.float8_e4m3fn,
    "F8_E5M2": torch.float8_e5m2,
}  # fmt: skip


def matrix(view: Tensor, offset: int, rows: int, columns: int, dtype: torch.dtype, *, transposed: bool) -> Tensor:
    """Return the (rows, columns) matrix at byte ``offset``; transposed, it lies there as (columns, rows)."""
    flat = view[offset : offset + rows * columns * dtype.itemsize].view(dtype)
    return flat.view(columns, rows).t() if transposed else flat.view(rows, columns)
