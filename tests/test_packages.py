"""The packages and modules stand on each other as the docstring at the top draws it."""

from pathlib import Path

import memspec_actors
from tests.import_order import drawn, imported

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
