"""Check drafts against a target: vocabulary, sizes, memory, and, where the weights are there, speed and acceptance."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
import torch

from memspec_actors.drafts.measure import Candidate, measure_drafts
from memspec_actors.drafts.memory_plan import MemoryPlan, fitting_capacity, plan_memory
from memspec_actors.drafts.report import CheckReport, DraftReport, Measured
from memspec_actors.errors import ConfigError, UsageError
from memspec_actors.models.checkpoints.checkpoint import Checkpoint
from memspec_actors.models.devices.device import Device
from memspec_actors.models.devices.opening import open_device
from memspec_actors.models.dtypes import DtypeName
from memspec_actors.models.text.tokenizer import Tokenizer
from memspec_actors.models.text.vocabulary import check_compatible
from memspec_actors.models.weights.opening import load_runner
from memspec_actors.models.weights.plan import LoadPlan
from memspec_actors.predictor.prompts import Prompt
from memspec_actors.progress import Progress

__all__ = ["DEFAULT_CONTEXT", "STORAGE_BYTES_PER_S", "CheckOptions", "check_drafts"]

DEFAULT_CONTEXT = 2048  # tokens
STORAGE_BYTES_PER_S = 500e6  # of a plain SATA disk: what a load is estimated with if nobody says better


class CheckOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Say what to check for: K, the drafts' budget, the device's memory, tokens of a request, what to measure with.

    ``memory_bytes`` None stands for what the ``device`` has free, if it has memory of its own and is there. ``dtype``
    is the target's, and that of drafts that ``draft_dtypes`` does not name. ``plan_only`` reads headers or
    configurations and loads nothing. ``predictor_bytes`` are the ranking model's.
    """

    dtype: DtypeName = "float32"
    draft_dtypes: Mapping[str, DtypeName] = {}
    capacity: int = 2
    budget_bytes: int | None = None
    device: str = "cpu"
    memory_bytes: int | None = None
    context: int = DEFAULT_CONTEXT
    bytes_per_s: float = STORAGE_BYTES_PER_S
    predictor_bytes: int = 0
    plan_only: bool = False
    k: int = 5
    max_new_tokens: int = 64
    threads: int = 1


def check_drafts(
    target_dir: Path,
    draft_dirs: Mapping[str, Path],
    prompts: Sequence[Prompt],
    options: CheckOptions,
    progress: Progress = lambda what, done, total: None,
) -> CheckReport:
    """Check drafts by name. What is wrong with a draft is told in its report.

    Where a directory has no weights yet (or with ``plan_only``) sizes come from headers or config.json. A device that
    is not there is planned for all the same. Raises CheckpointError for a target that cannot be read, ConfigError for
    one that cannot run on the device.
    """
    device = _device_if_there(options.device)
    on_device = options.device != "cpu"
    target = LoadPlan.of(_open_or_describe(target_dir), options.dtype, private=True, on_device=on_device)
    reports, candidates = {}, {}
    for name, directory in draft_dirs.items():
        reports[name], candidate = _inspect(name, directory, target.checkpoint, options)
        if candidate is not None:
            candidates[name] = candidate
    plans = {name: candidate.plan for name, candidate in candidates.items()}
    plan = plan_memory(
        target,
        plans,
        capacity=options.capacity,
        budget_bytes=options.budget_bytes,
        context=min(options.context, target.checkpoint.max_positions),
        predictor_bytes=options.predictor_bytes,
        device=options.device,
    )
    if options.memory_bytes is None and device is not None and device.memory is not None:
        options = msgspec.structs.replace(options, memory_bytes=device.memory.free)
    for name, measured in _measure(target, candidates, prompts, options, device, progress).items():
        reports[name] = msgspec.structs.replace(
            reports[name], measured=measured, load_s=measured.load_s, load_estimated=False
        )
    return _report(target_dir, target, plans, tuple(reports.values()), plan, options)


def _device_if_there(name: str) -> Device | None:
    try:
        return open_device(name)
    except ConfigError:
        return None


def _open_or_describe(directory: Path) -> Checkpoint:
    """Open a checkpoint, or describe one that has a config.json and no weights yet."""
    configured = (directory / "config.json").is_file()
    return Checkpoint.describe(directory) if configured and not _has_weights(directory) else Checkpoint.open(directory)


def _has_weights(directory: Path) -> bool:
    return any(directory.glob("*.safetensors*"))


def _inspect(
    name: str, directory: Path, target: Checkpoint, options: CheckOptions
) -> tuple[DraftReport, Candidate | None]:
    try:
        checkpoint = _open_or_describe(directory)
        num_common = _num_common(target, checkpoint)
        dtype, on_device = options.draft_dtypes.get(name, options.dtype), options.device != "cpu"
        plan = LoadPlan.of(checkpoint, dtype, on_device=on_device)
    except UsageError as error:
        return DraftReport(name=name, model=str(directory), problem=str(error)), None
    problem = None
    if options.budget_bytes is not None and plan.nbytes > options.budget_bytes:
        problem = f"it needs {plan.nbytes} bytes and the budget is {options.budget_bytes}: give more, or leave it out"
    report = DraftReport(
        name=name,
        model=str(directory),
        problem=problem,
        notes=tuple(_notes(target, checkpoint, num_common)),
        num_common=num_common,
        dtype=plan.weight_format,
        nbytes=plan.nbytes,
        file_nbytes=plan.file_nbytes,
        load_s=plan.file_nbytes / options.bytes_per_s,
        load_estimated=True,
    )
    return report, None if problem else Candidate(plan, num_common or 0)


def _num_common(target: Checkpoint, draft: Checkpoint) -> int | None:
    """Compare the tokenizers; None if one is not there yet beside weights that are not there either."""
    for checkpoint in (target, draft):
        if not checkpoint.files and not (checkpoint.path / "tokenizer.json").exists():
            return None
    return check_compatible(target, draft).num_common


def _notes(target: Checkpoint, draft: Checkpoint, num_common: int | None) -> list[str]:
    notes = []
    if num_common is None:
        notes.append("tokenizers not compared: tokenizer.json is absent")
    if not draft.files:
        notes.append("sizes from config.json: there is no .safetensors file")
    if draft.max_positions < target.max_positions:
        notes.append(f"reads {draft.max_positions} of the target's {target.max_positions} positions, then sits out")
    if draft.shape is None:
        notes.append(f"runs through transformers: {draft.why_generic}")
    return notes


def _measure(
    target: LoadPlan,
    candidates: Mapping[str, Candidate],
    prompts: Sequence[Prompt],
    options: CheckOptions,
    device: Device | None,
    progress: Progress,
) -> dict[str, Measured]:
    present = {name: candidate for name, candidate in candidates.items() if candidate.plan.checkpoint.files}
    if options.plan_only or device is None or not target.checkpoint.files or not present:
        return {}
    torch.set_num_threads(options.threads)
    return measure_drafts(
        load_runner(target, device),
        target.checkpoint,
        Tokenizer.open(target.path),
        present,
        prompts,
        k=options.k,
        max_new_tokens=options.max_new_tokens,
        device=device,
        progress=progress,
    )


def _report(
    target_dir: Path,
    target: LoadPlan,
    plans: Mapping[str, LoadPlan],
    drafts: tuple[DraftReport, ...],
    plan: MemoryPlan,
    options: CheckOptions,
) -> CheckReport:
    memory = options.memory_bytes
    return CheckReport(
        target=str(target_dir),
        dtype=target.weight_format,
        num_draft_tokens=options.k,
        drafts=drafts,
        plan=plan,
        total_bytes=plan.total_bytes,
        device_bytes=plan.device_bytes,
        memory_bytes=memory,
        fitting_capacity=None if memory is None else fitting_capacity(plan, plans, memory),
    )
