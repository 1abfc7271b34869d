"""Read one draft from storage into its place in the arena, and bind a runner to it."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from memspec_actors.errors import LoadError
from memspec_actors.models.devices.device import HOST, open_transfer
from memspec_actors.models.drafting.arena import WeightArena
from memspec_actors.models.drafting.device_slots import DeviceSlots
from memspec_actors.models.lean.runner import LeanRunner
from memspec_actors.models.runner import Runner
from memspec_actors.models.weights.loading import ByteProgress, Cancelled, LoadReport, Throttle, load_into
from memspec_actors.models.weights.plan import LoadPlan
from memspec_actors.protocols.messages import Placement

__all__ = ["ArenaReader", "DraftReader", "ReadDraft"]


class ReadDraft(NamedTuple):
    """What a read gave: a report, and a runner unless it was cancelled."""

    report: LoadReport
    runner: Runner | None
    num_common: int  # ids that the draft shares with the target


class DraftReader(Protocol):
    """Bring drafts into memory. Blocking: called in the Loader's worker thread."""

    @property
    def emulated(self) -> bool:
        """Tell whether storage is slowed down on purpose."""
        ...

    def read(
        self, draft: str, placements: Sequence[Placement], cancelled: Cancelled, progress: ByteProgress
    ) -> ReadDraft:
        """Read a draft into its places; ``progress(done, total)`` counts bytes. Raises LoadError naming the file."""
        ...


class ArenaReader:
    """Read checkpoints by their load plans into an arena; ``throttle`` emulates slow storage."""

    def __init__(
        self,
        arena: WeightArena,
        plans: Mapping[str, LoadPlan],
        num_common: Mapping[str, int],
        throttle: Throttle | None = None,
    ) -> None:
        self._arena = arena
        self._plans = plans
        self._num_common = num_common
        self._throttle = throttle
        self._transfer = open_transfer(arena.device)
        self._slots = None if arena.device is HOST else DeviceSlots(arena.device)

    @property
    def emulated(self) -> bool:
        return self._throttle is not None

    def read(
        self, draft: str, placements: Sequence[Placement], cancelled: Cancelled, progress: ByteProgress
    ) -> ReadDraft:
        """Read the one artefact that a draft is."""
        (placement,) = placements
        plan = self._plans[draft]
        view = self._arena.view(placement.offset, placement.nbytes)
        try:
            report = load_into(
                plan,
                view,
                cancelled=cancelled,
                progress=progress,
                throttle=self._throttle,
                transfer=self._transfer,
            )
            runner = None if report.cancelled else plan.bind(view)
            if self._slots is not None and isinstance(runner, LeanRunner):
                runner = self._slots.bind(plan, runner, placement.offset, self._num_common[draft])
        except (OSError, MemoryError, RuntimeError) as error:  # torch says RuntimeError when memory is out
            raise LoadError(f"draft {draft!r} could not be read from {plan.path}: {error!r}") from error
        return ReadDraft(report, runner, self._num_common[draft])
