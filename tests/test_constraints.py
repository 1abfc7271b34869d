"""``constraints.txt``: the versions that this project was tested with."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent


def normalized(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def pinned() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pairs = (line.split("==") for line in lines if line and not line.startswith("#"))
    return {normalized(name): version for name, version in pairs}


def test_every_dependency_is_pinned() -> None:
    """A dependency left out would be installed in whatever version is newest: torch even as another build."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"], *extras["test"], *extras["dev"]]
    names = {normalized(re.split(r"[\[<>=!~ ]", requirement)[0]) for requirement in wanted} - {project["name"]}
    assert names - set(pinned()) == set()


def test_versions_are_public_ones() -> None:
    """A local version such as 2.13.0+cpu is on no index: nobody could install it."""
    assert [
        f"{name}=={version}" for name, version in pinned().items() if not re.fullmatch(r"[0-9][0-9a-z.]*", version)
    ] == []
