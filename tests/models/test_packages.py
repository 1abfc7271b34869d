"""The packages of models stand on each other as their docstring draws it."""

from pathlib import Path

from memspec_actors import models
from tests.import_order import drawn, imported

ROOT = Path(models.__file__).parent
PACKAGES = sorted(path.parent.name for path in ROOT.glob("*/__init__.py"))
DRAWN = [name for line in drawn(models) for name in line]
KNOWN_TO_ALL = {"dtypes", "runner"}


def test_every_package_is_drawn() -> None:
    """A newcomer looks there for the place of a change."""
    assert sorted(DRAWN) == PACKAGES


def test_packages_import_only_those_above_them() -> None:
    """Else what a package stands on, and so what a change of it can break, is not what is drawn."""
    for place, package in enumerate(DRAWN):
        above = {*DRAWN[: place + 1], *KNOWN_TO_ALL}
        for file in (ROOT / package).glob("*.py"):
            assert imported(file, models) <= above, file
    for name in KNOWN_TO_ALL:
        assert not imported(ROOT / f"{name}.py", models), f"{name} is known to all and knows nobody"
