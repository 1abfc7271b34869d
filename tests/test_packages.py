"""The packages and modules stand on each other as the docstring at the top draws it."""

from graphlib import TopologicalSorter
from pathlib import Path

import memspec_actors
from tests.import_order import drawn, imported, paths

ROOT = Path(memspec_actors.__file__).parent
LINES = drawn(memspec_actors)
ENTRANCES = {"__init__", "__main__"}


def test_all_are_drawn() -> None:
    """A newcomer looks there for the place of a change."""
    packages = [path.parent.name for path in ROOT.glob("*/__init__.py")]
    modules = [path.stem for path in ROOT.glob("*.py") if path.stem not in ENTRANCES]
    assert sorted(name for line in LINES for name in line) == sorted(packages + modules)


def test_all_import_only_from_the_lines_above() -> None:
    """Else what a package stands on, and so what a change of it can break, is not what is drawn."""
    above = {"__version__"}
    for line in LINES:
        for name in line:
            for file in (ROOT / f"{name}.py", *(ROOT / name).rglob("*.py")):
                if file.exists():
                    assert imported(file, memspec_actors) <= above | {name}, file
        above.update(line)


def test_no_module_imports_one_that_imports_it() -> None:
    """Neither could be understood, or changed, without the other."""
    parts = [name for line in LINES for name in line]
    files = [file for name in parts for file in (ROOT / f"{name}.py", *(ROOT / name).rglob("*.py")) if file.exists()]
    modules = {_dotted(file): file for file in files}
    known = {name: {_module(path, modules) for path in paths(file)} - {None, name} for name, file in modules.items()}
    TopologicalSorter(known).prepare()  # or CycleError names the modules


def _dotted(file: Path) -> str:
    return ".".join(file.relative_to(ROOT.parent).with_suffix("").parts).removesuffix(".__init__")


def _module(path: str, modules: dict[str, Path]) -> str | None:
    """Return which of the modules gives what is imported by a dotted path."""
    return next((each for each in (path, path.rpartition(".")[0]) if each in modules), None)
