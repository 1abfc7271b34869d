"""The number formats that models run in, by name; needs no torch."""

from typing import Literal

__all__ = ["FLOAT_DTYPES", "RUN_DTYPE_NAMES", "CodeName", "DtypeName", "RunDtypeName"]

RunDtypeName = Literal["float32", "bfloat16", "float16"]
CodeName = Literal["int8", "int4"]
DtypeName = Literal["float32", "bfloat16", "float16", "int8", "int4", "auto"]

RUN_DTYPE_NAMES = {"float32": "F32", "bfloat16": "BF16", "float16": "F16"}  # run dtype -> safetensors' name of it
FLOAT_DTYPES = frozenset({"F64", "F32", "F16", "BF16"})
