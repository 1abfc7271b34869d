"""Where commands are tried."""

from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def untouched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Work in a folder that holds a file named ``taken``; whoever is refused there leaves it as it is."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "taken").write_text("a file")
    yield
    assert [(each.name, each.read_text()) for each in tmp_path.iterdir()] == [("taken", "a file")]
