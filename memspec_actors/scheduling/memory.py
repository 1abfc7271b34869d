"""Where things lie in one preallocated buffer: a map of byte ranges, without the bytes."""

import dataclasses

__all__ = ["ArenaMap"]


@dataclasses.dataclass(slots=True)
class _Block:
    offset: int
    nbytes: int
    num_users: int = 1

    @property
    def end(self) -> int:
        return self.offset + self.nbytes


class ArenaMap:
    """Hand out ranges of a buffer of ``nbytes`` bytes, best fit, each starting at a multiple of ``alignment``.

    A key placed again is shared: it keeps its range and is counted once until every user has released it. Nothing is
    ever moved, so a range handed out stays valid until its last release. Raises ValueError for sizes below 1, for an
    alignment that is not a power of two, and for a shared key of another size; KeyError for releasing what is not
    placed.
    """

    def __init__(self, nbytes: int, alignment: int = 64) -> None:
        if nbytes < 1:
            raise ValueError(f"the arena has {nbytes} bytes; it needs at least 1")
        if alignment < 1 or alignment & (alignment - 1):
            raise ValueError(f"alignment is {alignment}; it must be a power of two")
        self.nbytes = nbytes
        self.alignment = alignment
        self._blocks: dict[str, _Block] = {}

    def __contains__(self, key: str) -> bool:
        return key in self._blocks

    @property
    def used(self) -> int:
        """Bytes of all placed keys, shared ones counted once, padding not counted."""
        return sum(block.nbytes for block in self._blocks.values())

    def place(self, key: str, nbytes: int) -> int | None:
        """Return the offset of a range for ``key``, or None if no gap is large enough."""
        if nbytes < 1:
            raise ValueError(f"{key!r} has {nbytes} bytes; it needs at least 1")
        block = self._blocks.get(key)
        if block is not None:
            return self._share(key, block, nbytes)
        fitting = [(size, offset) for offset, size in self._gaps() if size >= nbytes]
        if not fitting:
            return None
        _, offset = min(fitting)
        self._blocks[key] = _Block(offset, nbytes)
        return offset

    def release(self, key: str) -> int:
        """Give back one use of ``key``; return the bytes that became free: 0 while others still use it."""
        block = self._blocks.get(key)
        if block is None:
            raise KeyError(f"{key!r} is not placed; it was never placed or was released already")
        block.num_users -= 1
        if block.num_users:
            return 0
        del self._blocks[key]
        return block.nbytes

    def copy(self) -> "ArenaMap":
        """Return an independent map to try things on."""
        twin = ArenaMap(self.nbytes, self.alignment)
        twin._blocks = {key: dataclasses.replace(block) for key, block in self._blocks.items()}
        return twin

    def _share(self, key: str, block: _Block, nbytes: int) -> int:
        if block.nbytes != nbytes:
            raise ValueError(f"{key!r} is placed with {block.nbytes} bytes and asked for with {nbytes}")
        block.num_users += 1
        return block.offset

    def _gaps(self) -> list[tuple[int, int]]:
        # Gaps are what lies between blocks, so neighbours coalesce by themselves. A handful of blocks: no index needed.
        gaps: list[tuple[int, int]] = []
        start = 0
        for block in sorted(self._blocks.values(), key=lambda block: block.offset):
            gaps.append((start, block.offset - start))
            start = -(-block.end // self.alignment) * self.alignment
        gaps.append((start, self.nbytes - start))
        return [(offset, size) for offset, size in gaps if size > 0]
