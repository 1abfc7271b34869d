"""How much memory decoding will take, told from headers or configurations before any of it is taken."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from memspec_actors.errors import CheckpointError
from memspec_actors.models.checkpoints.checkpoint import Checkpoint
from memspec_actors.models.lean.cache import FIRST_CAPACITY, planned_tokens
from memspec_actors.models.weights.plan import LoadPlan
from memspec_actors.models.weights.typed_memory import RUN_DTYPES

__all__ = ["MemoryPlan", "fitting_capacity", "kv_bytes", "most_that_fit", "plan_memory"]

MIB = 2**20
#: What the process takes without any model: Python, torch, the tokenizer, threads; and transformers, where that runs
#: one of the models.
BASE_BYTES, TRANSFORMERS_BYTES = 288 * MIB, 96 * MIB


class MemoryPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Give bytes by what they are for.

    ``packed_bytes`` are second copies of the target's weights in an order that blocks of tokens run faster on,
    ``arena_bytes`` the drafts' weights, of which at most ``capacity`` are in memory together; the key/value bytes hold
    ``context`` tokens of one request, in the target and in ``capacity`` drafts; ``base_bytes`` are the process's own.
    Target, drafts, keys and values are in the memory of ``device``, the rest is in the host's.
    """

    target_bytes: int
    packed_bytes: int
    arena_bytes: int
    capacity: int
    context: int
    target_kv_bytes: int
    draft_kv_bytes: int
    predictor_bytes: int
    base_bytes: int
    device: str = "cpu"

    @property
    def device_bytes(self) -> int:
        """What the memory of ``device`` is to hold: on a CPU, everything."""
        if self.device == "cpu":
            return self.total_bytes
        return self.total_bytes - self.predictor_bytes - self.base_bytes

    @property
    def total_bytes(self) -> int:
        """Everything together: what the process takes at its largest."""
        weights = self.target_bytes + self.packed_bytes + self.arena_bytes + self.predictor_bytes
        return weights + self.target_kv_bytes + self.draft_kv_bytes + self.base_bytes


def plan_memory(
    target: LoadPlan,
    drafts: Mapping[str, LoadPlan],
    *,
    capacity: int,
    budget_bytes: int | None,
    context: int,
    predictor_bytes: int = 0,
    device: str = "cpu",
) -> MemoryPlan:
    """Plan an engine with this target and these drafts, for requests of ``context`` tokens, prompt and answer.

    Without a budget there is room for any ``capacity`` of the drafts; with one, no more of them count than fit it.
    """
    sizes = sorted((plan.nbytes for plan in drafts.values()), reverse=True)
    arena_bytes = sum(sizes[:capacity]) if budget_bytes is None else budget_bytes
    capacity = min(capacity, most_that_fit(sizes, arena_bytes))
    draft_kv = sorted((kv_bytes(plan, context) for plan in drafts.values()), reverse=True)
    generic = any(plan.checkpoint.shape is None for plan in (target, *drafts.values()))
    return MemoryPlan(
        target_bytes=target.nbytes,
        packed_bytes=target.packed_nbytes,
        arena_bytes=arena_bytes,
        capacity=capacity,
        context=context,
        target_kv_bytes=kv_bytes(target, context),
        draft_kv_bytes=sum(draft_kv[:capacity]),
        predictor_bytes=predictor_bytes,
        base_bytes=BASE_BYTES + TRANSFORMERS_BYTES * generic,
        device=device,
    )


def most_that_fit(sizes: Sequence[int], budget_bytes: int) -> int:
    """Return how many drafts of these sizes can be in memory together at most: the smallest ones."""
    total = count = 0
    for size in sorted(sizes):
        total += size
        count += total <= budget_bytes
    return count


def fitting_capacity(plan: MemoryPlan, drafts: Mapping[str, LoadPlan], memory_bytes: int) -> int:
    """Return the largest K with which any K of the drafts, their key/values and all else fit into ``memory_bytes``.

    That is memory of the plan's device.
    """
    fixed = plan.device_bytes - plan.arena_bytes - plan.draft_kv_bytes
    needs = sorted((each.nbytes + kv_bytes(each, plan.context) for each in drafts.values()), reverse=True)
    return max((k for k in range(len(needs) + 1) if fixed + sum(needs[:k]) <= memory_bytes), default=0)


def kv_bytes(plan: LoadPlan, context: int) -> int:
    """Return the bytes of one sequence's keys and values, for ``context`` tokens or as many as the model takes.

    A draft's on a device have room for `FIRST_CAPACITY` tokens from the beginning.
    """
    checkpoint = plan.checkpoint
    least = FIRST_CAPACITY if plan.on_device and not plan.private else 0
    tokens = planned_tokens(min(max(context, least), checkpoint.max_positions))
    return tokens * _kv_items(checkpoint) * RUN_DTYPES[plan.dtype].itemsize


def _kv_items(checkpoint: Checkpoint) -> int:
    """Return how many numbers a model keeps of each token."""
    shape = checkpoint.shape
    if shape is not None:
        return shape.num_layers * 2 * shape.kv_size
    from transformers import AutoConfig  # knows what each family calls these sizes

    values = {key: value for key, value in checkpoint.config.items() if key != "quantization_config"}
    try:
        config: Any = AutoConfig.for_model(**values)
        num_heads = config.num_attention_heads
        head_dim = getattr(config, "head_dim", None) or config.hidden_size // num_heads
        num_kv_heads = getattr(config, "num_key_value_heads", None) or num_heads
        return int(config.num_hidden_layers * 2 * num_kv_heads * head_dim)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"{checkpoint.path}: config.json does not tell its key/value sizes ({error})") from error
