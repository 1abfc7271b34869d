"""Find out, before any of it is taken, whether a device has the memory that an engine wants of it."""

from collections.abc import Collection

from memspec_actors.errors import ConfigError
from memspec_actors.models.devices.device import Device
from memspec_actors.models.lean.cache import FIRST_CAPACITY, kv_nbytes
from memspec_actors.models.weights.plan import LoadPlan
from memspec_actors.models.weights.typed_memory import RUN_DTYPES

__all__ = ["check_room"]

GB = 1e9


def check_room(
    device: Device, target: LoadPlan, drafts: Collection[LoadPlan], arena_nbytes: int, capacity: int
) -> None:
    """Raise ConfigError if target, arena and the keys and values of a first request do not fit into what is free.

    The first request is one of `FIRST_CAPACITY` tokens, read by the target and ``capacity`` drafts.
    """
    memory = device.memory
    if memory is None:
        return
    caches = sorted(map(_first_cache_nbytes, drafts), reverse=True)[:capacity]
    kv = _first_cache_nbytes(target) + sum(caches)
    needed = target.nbytes + arena_nbytes + kv
    if needed > memory.free:
        raise ConfigError(
            f"[target] device {device.torch_device} has {memory.free / GB:.2f} of {memory.total / GB:.2f} GB free, but "
            f"{needed / GB:.2f} are needed (target {target.nbytes / GB:.2f}, drafts {arena_nbytes / GB:.2f}, keys and "
            f"values {kv / GB:.2f}); set a smaller [memory] capacity, budget, or dtype"
        )


def _first_cache_nbytes(plan: LoadPlan) -> int:
    shape = plan.checkpoint.shape
    assert shape is not None, "what runs through transformers does not run on a device"
    return min(FIRST_CAPACITY, shape.max_positions) * kv_nbytes(shape, RUN_DTYPES[plan.dtype])
