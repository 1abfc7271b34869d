"""What a check of drafts tells."""

from collections.abc import Mapping

import msgspec

from memspec_actors.drafts.memory_plan import MemoryPlan

__all__ = ["CheckReport", "DraftReport", "Measured"]


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """Give what was measured of a draft beside its target.

    ``cost_ratio`` is the draft's time for one token over the target's. ``accepted`` counts accepted tokens per
    iteration by kind of prompt and over "all"; ``tokens_per_iteration`` adds the target's own. ``speedup`` is over the
    target alone, if this draft does all the drafting.
    """

    load_s: float
    cost_ratio: float
    accepted: Mapping[str, float]
    tokens_per_iteration: float
    speedup: float


class DraftReport(msgspec.Struct, frozen=True, kw_only=True):
    """Tell how one draft stands: ``problem`` is why it cannot work at all, ``notes`` what to know if it can.

    ``dtype`` is what its weights are held in, ``nbytes`` is what they take in memory, ``file_nbytes`` what a load
    reads. ``load_s`` is measured where the weights are there and otherwise estimated from a storage bandwidth.
    """

    name: str
    model: str
    problem: str | None = None
    notes: tuple[str, ...] = ()
    num_common: int | None = None
    dtype: str | None = None
    nbytes: int | None = None
    file_nbytes: int | None = None
    load_s: float | None = None
    load_estimated: bool = False
    measured: Measured | None = None


class CheckReport(msgspec.Struct, frozen=True, kw_only=True):
    """Tell how drafts go with a target.

    ``fitting_capacity`` is the largest K with which everything fits into ``memory_bytes`` of the plan's device, if that
    was given or is known; ``device_bytes`` of the plan's ``total_bytes`` have to. A check without measurements has read
    headers or configurations only.
    """

    target: str
    dtype: str
    num_draft_tokens: int
    drafts: tuple[DraftReport, ...]
    plan: MemoryPlan
    total_bytes: int
    device_bytes: int
    memory_bytes: int | None
    fitting_capacity: int | None

    @property
    def works(self) -> bool:
        """True if every draft can work and what was asked for fits."""
        return all(draft.problem is None for draft in self.drafts) and not self.too_large

    @property
    def too_large(self) -> bool:
        """True if the plan exceeds the memory of its device."""
        return self.memory_bytes is not None and self.device_bytes > self.memory_bytes
