"""If these fail, an installed copy lacks a part, or puts something beside the package into site-packages."""

import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

import memspec_actors

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "memspec_actors"
FOLDERS = [PACKAGE, PACKAGE / "actors", PACKAGE / "protocols"]  # the latter two are links, which are not gone into


def listed_packages() -> set[str]:
    return set(tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"])


def test_every_sub_package_is_listed() -> None:
    """setuptools takes only what the list names."""
    found = [init.parent for folder in FOLDERS for init in folder.rglob("__init__.py")]
    assert {".".join(path.relative_to(ROOT).parts) for path in found} == listed_packages()


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Build a wheel from the sources and list its files."""
    out = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--quiet", "-w", str(out)]
    subprocess.run([*command, str(ROOT)], check=True, capture_output=True, cwd=out)
    (path,) = out.glob("*.whl")
    with zipfile.ZipFile(path) as archive:
        return archive.namelist()


def test_the_wheel_has_one_top_level_name(wheel: list[str]) -> None:
    """`actors` and `protocols` would clash with other people's packages."""
    top = {name.split("/")[0] for name in wheel}
    assert {name for name in top if not name.endswith(".dist-info")} == {"memspec_actors"}


def test_the_wheel_carries_every_module_and_the_embedded_models(wheel: list[str]) -> None:
    """The default configuration works offline, right after installation."""
    names = set(wheel)
    assert {
        "memspec_actors/py.typed",
        "memspec_actors/actors/decoder.py",
        "memspec_actors/protocols/messages.py",
        "memspec_actors/daemon/dashboard/index.html",
    } <= names
    for model in ("target", "general", "code", "math", "law", "medical", "encoder"):
        assert f"memspec_actors/zoo/weights/{model}/model.safetensors" in names
    modules = {str(path.relative_to(ROOT)) for folder in FOLDERS for path in folder.rglob("*.py")}
    assert modules <= names


def test_public_names() -> None:
    """Renaming one of these breaks somebody's program."""
    assert memspec_actors.__all__ == [
        "Config",
        "MemSpec",
        "MemSpecError",
        "SamplingParams",
        "TextStream",
        "__version__",
    ]
    assert all(getattr(memspec_actors, name) is not None for name in memspec_actors.__all__)
