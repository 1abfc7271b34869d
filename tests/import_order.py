"""In which order a package's docstring draws its parts, and what a file imports of them."""

import ast
from functools import cache
from pathlib import Path
from types import ModuleType

INDENT = "    "


def drawn(package: ModuleType) -> list[list[str]]:
    """Return the indented lines of a package's docstring, from top to bottom: the names that each begins with."""
    lines = [line for line in (package.__doc__ or "").splitlines() if line.startswith(INDENT)]
    return [line.strip().split("  ")[0].split(", ") for line in lines]


@cache
def paths(file: Path) -> frozenset[str]:
    """Return the dotted paths of all that a file imports, wherever in it."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text())):
        match node:
            case ast.ImportFrom(module=str(module), names=names, level=0):
                found.update(f"{module}.{each.name}" for each in names)
            case ast.ImportFrom():
                raise AssertionError(f"{file} imports relative to where it lies")
            case ast.Import(names=names):
                found.update(each.name for each in names)
    return frozenset(found)


def imported(file: Path, package: ModuleType) -> set[str]:
    """Return the packages and modules of ``package`` that a file imports."""
    prefix = f"{package.__name__}."
    return {path.removeprefix(prefix).split(".")[0] for path in paths(file) if path.startswith(prefix)}
