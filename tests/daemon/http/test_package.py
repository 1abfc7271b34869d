"""What any endpoint needs of HTTP stands by itself."""

import re
from pathlib import Path

from memspec_actors.daemon import http

LOWER = {"memspec_actors.daemon.http", "memspec_actors.config", "memspec_actors.errors", "memspec_actors.protocols"}


def test_it_knows_no_engine_and_no_endpoint() -> None:
    """Else a change of what is served could break how a connection is read."""
    for file in Path(http.__file__).parent.glob("*.py"):
        for module in re.findall(r"^ *from (memspec_actors\.\S+) import", file.read_text(), re.MULTILINE):
            assert any(f"{module}.".startswith(f"{each}.") for each in LOWER), f"{file.name} imports {module}"
