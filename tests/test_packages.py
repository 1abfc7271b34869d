"""Packages and modules stand on each other as the docstrings of their packages draw it."""

from graphlib import TopologicalSorter
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

import memspec_actors
from tests.import_order import drawn, imported, paths

ROOT = Path(memspec_actors.__file__).parent
ENTRANCES = {"__init__", "__main__"}
NAMES = (
    "actors", "actors.decoding", "bench", "bench.paper", "cli", "daemon", "daemon.http", "drafts", "models.checkpoints",
    "models.devices", "models.drafting", "models.lean", "models.weights", "predictor", "protocols", "runtime",
    "scheduling", "simulation", "speculation", "telemetry", "zoo",
)  # fmt: skip
DRAWN = [memspec_actors, *(import_module(f"memspec_actors.{name}") for name in NAMES)]

packages = pytest.mark.parametrize("package", DRAWN, ids=lambda package: package.__name__)


def folder(package: ModuleType) -> Path:
    return Path(str(package.__file__)).parent


@packages
def test_all_are_drawn(package: ModuleType) -> None:
    """A newcomer looks there for the place of a change."""
    parts = [path.parent.name for path in folder(package).glob("*/__init__.py")]
    parts += [path.stem for path in folder(package).glob("*.py") if path.stem not in ENTRANCES]
    assert sorted(name for line in drawn(package) for name in line) == sorted(parts)


def test_what_is_not_drawn_is_seen_at_a_glance() -> None:
    """Among more than a few files a newcomer would have to open all to find one."""
    drawn_ones = (*NAMES, "models")  # models draws its packages: see tests/models/test_packages.py
    for top in (ROOT, ROOT / "actors", ROOT / "protocols"):
        for init in top.rglob("__init__.py"):
            name = ".".join(init.parent.relative_to(ROOT).parts)
            if name and name not in drawn_ones:
                assert len(list(init.parent.glob("*.py"))) <= 8, f"draw what {name} is made of, and name it above"


@packages
def test_all_import_only_from_the_lines_above(package: ModuleType) -> None:
    """Else what a part stands on, and so what a change of it can break, is not what is drawn."""
    above = {"__version__"} if package is memspec_actors else set()
    for line in drawn(package):
        for name in line:
            for file in (folder(package) / f"{name}.py", *(folder(package) / name).rglob("*.py")):
                if file.exists():
                    assert imported(file, package) <= above | {name}, file
        above.update(line)


def test_no_module_imports_one_that_imports_it() -> None:
    """Neither could be understood, or changed, without the other."""
    parts = [name for line in drawn(memspec_actors) for name in line]
    files = [file for name in parts for file in (ROOT / f"{name}.py", *(ROOT / name).rglob("*.py")) if file.exists()]
    modules = {_dotted(file): file for file in files}
    known = {name: {_module(path, modules) for path in paths(file)} - {None, name} for name, file in modules.items()}
    TopologicalSorter(known).prepare()  # or CycleError names the modules


def _dotted(file: Path) -> str:
    return ".".join(file.relative_to(ROOT.parent).with_suffix("").parts).removesuffix(".__init__")


def _module(path: str, modules: dict[str, Path]) -> str | None:
    """Return which of the modules gives what is imported by a dotted path."""
    return next((each for each in (path, path.rpartition(".")[0]) if each in modules), None)
