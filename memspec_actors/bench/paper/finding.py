"""What one script of ``bench/`` found, and the file it is kept in."""

import platform
from collections.abc import Mapping
from pathlib import Path

import msgspec

from memspec_actors.bench.methods_report import MethodsReport
from memspec_actors.comparison import PolicyComparison
from memspec_actors.cores import usable_cores
from memspec_actors.errors import TraceError
from memspec_actors.output_files import check_output, make_directory, write_whole

__all__ = ["Finding", "machine", "prepare_place", "read_finding", "write_finding"]


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of one study, and the circumstances without which they say nothing.

    ``comparisons`` holds one comparison of policies for every setting of what the study varies, ``methods`` one of
    methods, ``scalars`` figures of other kinds. ``setting`` tells how much was measured, ``timed_on`` whose times these
    are (a device's, if texts were replayed), ``emulated`` what was not the real thing.
    """

    study: str
    command: str
    machine: str
    setting: str
    timed_on: str
    emulated: tuple[str, ...]
    quick: bool
    wall_s: float
    versions: Mapping[str, str]
    threads: int
    dtype: str
    comparisons: Mapping[str, PolicyComparison] = {}
    scalars: Mapping[str, float] = {}
    methods: MethodsReport | None = None


def machine() -> str:
    """Describe this machine: its processor and how many cores may be used."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:  # no Linux
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{(names or [platform.processor() or platform.machine()])[0]}, {usable_cores()} cores"


def prepare_place(path: Path) -> None:
    """Make the folder that a finding is to be kept in, before the work.

    Raises UsageError if that, or a file at ``path``, cannot be.
    """
    make_directory(path.parent)
    check_output(path)


def write_finding(path: Path, finding: Finding) -> None:
    """Write a finding as readable JSON, its folder too. Raises UsageError if that cannot be done."""
    prepare_place(path)
    write_whole(path, msgspec.json.format(msgspec.json.encode(finding), indent=1) + b"\n")


def read_finding(path: Path) -> Finding:
    """Read what `write_finding` wrote. Raises TraceError naming the file and what is wrong."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Finding)
    except OSError as error:
        raise TraceError(f"{path}: {error.strerror}; write it with the script's --json") from error
    except msgspec.DecodeError as error:
        raise TraceError(f"{path}: {error}; write it again with the script's --json") from error
