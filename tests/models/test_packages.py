"""The packages of models stand on each other as their docstring draws it."""

import ast
import re
from pathlib import Path

from memspec_actors import models

ROOT = Path(models.__file__).parent
PACKAGES = sorted(path.parent.name for path in ROOT.glob("*/__init__.py"))
DRAWN = [line.split()[0] for line in (models.__doc__ or "").splitlines() if line.startswith("    ")]
KNOWN_TO_ALL = {"dtypes", "runner"}


def imported(file: Path) -> set[str]:
    """Return the packages and modules of models that a file imports, wherever in it."""
    source = ast.unparse(ast.parse(file.read_text()))
    return set(re.findall(r"^ *from memspec_actors\.models\.(\w+)", source, re.MULTILINE))


def test_every_package_is_drawn() -> None:
    """A newcomer looks there for the place of a change."""
    assert sorted(DRAWN) == PACKAGES


def test_packages_import_only_those_above_them() -> None:
    """Else what a package stands on, and so what a change of it can break, is not what is drawn."""
    for place, package in enumerate(DRAWN):
        above = {*DRAWN[: place + 1], *KNOWN_TO_ALL}
        for file in (ROOT / package).glob("*.py"):
            assert imported(file) <= above, file
    for name in KNOWN_TO_ALL:
        assert not imported(ROOT / f"{name}.py"), f"{name} is known to all and knows nobody"
