"""The key/value cache of the lean runner: preallocated, grown by doubling, truncated by a counter."""

import torch

from memspec_actors.models.checkpoints.architecture import DecoderShape
from memspec_actors.models.devices.device import HOST, raise_if_full
from memspec_actors.models.lean.memory import Memory, new_row
from memspec_actors.models.lean.rope import rope_table
from memspec_actors.models.runner import checked_truncation

__all__ = ["FIRST_CAPACITY", "KvCache", "kv_nbytes", "planned_tokens"]

FIRST_CAPACITY = 2048  # tokens; the host's memory costs nothing before it is written to


class KvCache:
    """Keys and values of one sequence, and the rotary tables that reach as far.

    It may begin in the ``memory`` of an earlier sequence. Raises DeviceFull, when it is made and when it grows, for
    want of memory on a device.
    """

    def __init__(
        self,
        shape: DecoderShape,
        dtype: torch.dtype,
        max_tokens: int,
        device: torch.device = HOST.torch_device,
        memory: Memory | None = None,
    ) -> None:
        if max_tokens < 1:
            raise ValueError(f"max_tokens is {max_tokens}; it must be >= 1")
        self._shape = shape
        self._dtype = dtype
        self._device = device
        self._length = 0
        self._row = new_row(shape, dtype, device) if memory is None else memory.row
        self.memory = memory or self._allocated(min(max_tokens, FIRST_CAPACITY, shape.max_positions))

    @property
    def length(self) -> int:
        """Number of tokens held."""
        return self._length

    @property
    def capacity(self) -> int:
        """Number of tokens that fit before the next growth."""
        return self.memory.kv.shape[3]

    def truncate(self, length: int) -> int:
        """Forget all tokens from ``length`` on; return how many. Raises ValueError if that would grow the cache."""
        removed = checked_truncation(self._length, length)
        self._length = length
        return removed

    def reset(self) -> None:
        """Forget every token; the memory is kept."""
        self._length = 0

    def reserve(self, num_tokens: int) -> int:
        """Make room for ``num_tokens`` more and return the length they will lead to; `extend` then counts them.

        Raises ValueError beyond the model's positions.
        """
        end = self._length + num_tokens
        if end > self._shape.max_positions:
            raise ValueError(
                f"{end} tokens do not fit: {self._length} are cached and the model has {self._shape.max_positions} "
                "positions; shorten the text"
            )
        if end > self.capacity:
            self.memory = self._allocated(min(max(end, 2 * self.capacity), self._shape.max_positions))
        return end

    def extend(self, end: int) -> None:
        """Count the tokens up to ``end``, whose keys and values have been written."""
        self._length = end

    def _allocated(self, capacity: int) -> Memory:
        """Return memory for ``capacity`` tokens that holds what is cached."""
        shape = self._shape
        size = (shape.num_layers, 2, shape.num_kv_heads, capacity, shape.head_dim)
        try:
            kv = torch.empty(*size, dtype=self._dtype, device=self._device)
        except RuntimeError as error:
            nbytes = capacity * kv_nbytes(shape, self._dtype)
            what = f"{nbytes / 1e6:.0f} MB more of keys and values ({capacity} tokens)"
            raise_if_full(error, self._device, what)
            raise
        if self._length:
            kv[:, :, :, : self._length] = self.memory.kv[:, :, :, : self._length]
        positions = min(shape.max_positions, 1 << (capacity - 1).bit_length())  # few distinct tables
        cos, sin = rope_table(shape.rope, shape.head_dim, positions, self._dtype, self._device)
        return Memory(kv, cos, sin, self._row)


def kv_nbytes(shape: DecoderShape, dtype: torch.dtype) -> int:
    """Return the bytes of one token's keys and values."""
    return shape.num_layers * 2 * shape.kv_size * dtype.itemsize


def planned_tokens(num_tokens: int) -> int:
    """Return for how many tokens a cache of ``num_tokens`` may come to take memory, growth included."""
    capacity = FIRST_CAPACITY
    while capacity < num_tokens:
        capacity *= 2
    return num_tokens if num_tokens <= FIRST_CAPACITY else capacity
