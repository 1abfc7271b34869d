"""What ``memspec doctor`` looks at: each check is a function that gives lines of ok, warn or fail."""

import platform
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

from memspec_actors.cli.doctor_line import Check
from memspec_actors.errors import first_line
from memspec_actors.models.weights.page_cache import forget_cached

__all__ = ["run_checks"]

PACKAGES = ("torch", "transformers", "tokenizers", "safetensors", "numpy", "anyio", "msgspec", "structlog")
EXTRAS = {
    "plots": ("matplotlib", "only to draw figures as .png, .svg or .pdf"),
    "auto-gptq": ("auto_gptq", "only to quantise checkpoints, in an environment of its own"),
}
CPU_FLAGS = (
    "avx2", "avx512f", "avx512_bf16", "avx512_fp16", "avx512_vnni", "avx_vnni", "amx_tile", "amx_bf16", "amx_int8",
    "bf16", "i8mm",
)  # fmt: skip
MIN_FREE_GIB = 2
SLOW_STORAGE = 50e6  # bytes per second


def run_checks() -> Iterator[Check]:
    """Look at everything, one check after the other."""
    yield Check("python", "ok", f"{platform.python_version()} on {platform.platform(terse=True)}")
    for package in PACKAGES:
        yield _check_package(package)
    yield from _check_torch()
    yield _check_cpu()
    yield _check_memory()
    yield from _check_zoo()
    for extra, (module, purpose) in EXTRAS.items():
        yield _check_extra(extra, module, purpose)


def _check_package(package: str) -> Check:
    try:
        return Check(package, "ok", version(package))
    except PackageNotFoundError:
        return Check(package, "fail", "not installed", "reinstall memspec-actors: it depends on it")


def _check_torch() -> Iterator[Check]:
    try:
        import torch
    except Exception as error:  # noqa: BLE001 - a broken installation fails in any way at all
        yield Check("torch import", "fail", f"{type(error).__name__}: {error}", "reinstall torch")
        return
    yield _check_build(torch)
    yield from _check_gpu(torch)
    from memspec_actors.cli.doctor_speed import check_speed

    yield from check_speed()


def _check_build(torch: ModuleType) -> Check:
    parts = {"oneDNN": torch.backends.mkldnn, "OpenMP": torch.backends.openmp, "MKL": torch.backends.mkl}
    absent = [name for name in ("oneDNN", "OpenMP") if not parts[name].is_available()]
    build = f"CUDA {torch.version.cuda}" if torch.version.cuda else "CPU"
    present = " ".join(name for name, part in parts.items() if part.is_available())
    capability = torch.backends.cpu.get_cpu_capability()
    found = f"{build} build with {present or 'none of its libraries'}, kernels for {capability}"
    if absent:
        return Check("torch build", "warn", f"{found}; no {' '.join(absent)}", "install torch from its own wheels")
    return Check("torch build", "ok", found)


def _check_gpu(torch: ModuleType) -> Iterator[Check]:
    """Look at every GPU; models run on one if they are told to."""
    from memspec_actors.models.devices.opening import open_device

    names = [f"cuda:{index}" for index in range(torch.cuda.device_count())]
    names += ["mps"] if torch.backends.mps.is_available() else []
    for name in names:
        try:
            memory = open_device(name).memory
        except RuntimeError as error:  # a driver that torch was not built for, a device that others have to themselves
            yield Check("gpu", "warn", f"{name} cannot be used: {first_line(error)}", "look to its driver")
            continue
        assert memory is not None, "a GPU has memory of its own"
        called = torch.cuda.get_device_name(name) if name != "mps" else "Apple's"
        room = f"{memory.free / 2**30:.1f} of {memory.total / 2**30:.1f} GiB free"
        yield Check("gpu", "ok", f'{called}, {room}; models run there with [target] device = "{name}"')
    if not names:
        yield Check("gpu", "ok", "none; models run on the CPU")


def _check_cpu() -> Check:
    flags = _cpu_flags()
    found = " ".join(flag for flag in CPU_FLAGS if flag in flags) or "none of the vector extensions looked for"
    if flags & {"avx512_bf16", "amx_bf16", "bf16"}:
        return Check("cpu", "ok", found)
    return Check("cpu", "warn", found, 'bfloat16 is emulated: keep [target] dtype = "float32"')


def _cpu_flags() -> set[str]:
    named = (line for line in _lines("/proc/cpuinfo") if line.startswith(("flags", "Features")))
    return {flag for line in named for flag in line.split()}


def _check_memory() -> Check:
    gib = {line.split(":")[0]: int(line.split()[1]) / 2**20 for line in _lines("/proc/meminfo")}
    if "MemAvailable" not in gib:
        return Check("memory", "warn", "unknown", "see for yourself that the target and the drafts fit")
    found = f"{gib['MemAvailable']:.1f} of {gib['MemTotal']:.1f} GiB available"
    if gib["MemAvailable"] < MIN_FREE_GIB:
        return Check("memory", "warn", found, "close other programs, or set a smaller [memory] budget")
    return Check("memory", "ok", found)


def _lines(file: str) -> list[str]:
    try:
        return Path(file).read_text(encoding="utf-8").splitlines()
    except OSError:  # no Linux
        return []


def _check_zoo() -> Iterator[Check]:
    from memspec_actors import zoo
    from memspec_actors.config import ZOO_DRAFTS

    expected = ("target", *(draft.name for draft in ZOO_DRAFTS), "encoder")
    missing = [name for name in expected if name not in zoo.names()]
    if missing:
        yield Check("embedded models", "fail", f"missing: {' '.join(missing)}", "reinstall, or run memspec zoo build")
    else:
        yield Check("embedded models", "ok", " ".join(zoo.names()))
    if "general" not in missing:
        yield _check_storage(zoo.path("general") / "model.safetensors")


def _check_storage(file: Path) -> Check:
    num_bytes = file.stat().st_size
    seconds = _time_cold_read(file)
    found = (
        f"a draft of {num_bytes / 1e6:.1f} MB is read in {seconds * 1e3:.1f} ms, {num_bytes / seconds / 1e6:.0f} MB/s"
    )
    if num_bytes / seconds < SLOW_STORAGE:
        return Check("storage", "warn", found, "keep models on a faster disk, or raise [memory] capacity")
    return Check("storage", "ok", found)


def _time_cold_read(file: Path) -> float:
    buffer = bytearray(1 << 20)
    forget_cached(file)
    with file.open("rb", buffering=0) as stream:
        began = time.perf_counter()
        while stream.readinto(buffer):
            pass
        return time.perf_counter() - began


def _check_extra(extra: str, module: str, purpose: str) -> Check:
    name = f"extra [{extra}]"
    if find_spec(module) is None:
        return Check(name, "ok", f"not installed ({purpose})")
    # In a process of its own: a broken extra must not take this one along.
    outcome = subprocess.run([sys.executable, "-c", f"import {module}"], capture_output=True, text=True, check=False)
    if outcome.returncode == 0:
        return Check(name, "ok", "imports")
    reason = (outcome.stderr.strip().splitlines() or ["no reason given"])[-1]
    return Check(name, "warn", f"does not import: {reason}", purpose)
