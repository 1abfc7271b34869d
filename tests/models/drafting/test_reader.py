"""Reading a draft into the arena: what goes wrong there costs this draft, not the Loader."""

from typing import NamedTuple, NoReturn

import pytest

from memspec_actors.errors import LoadError
from memspec_actors.models.drafting.arena import WeightArena
from memspec_actors.models.drafting.reader import ArenaReader
from memspec_actors.protocols.messages import Placement


class FakePlan(NamedTuple):
    path: str


@pytest.mark.parametrize("error", [MemoryError("80 %"), RuntimeError("can't allocate memory: 80 %"), OSError("80 %")])
def test_running_out_of_memory_is_a_failed_load_that_names_the_draft(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """Behaviour 16: as a crash of the Loader it would fail other drafts' loads and, repeated, stop the engine."""

    def load_into(*args: object, **options: object) -> NoReturn:
        raise error

    monkeypatch.setattr("memspec_actors.models.drafting.reader.load_into", load_into)
    reader = ArenaReader(WeightArena(64), {"law": FakePlan("/models/law")}, {"law": 17})  # type: ignore[dict-item]
    placement = Placement(artefact="law", offset=0, nbytes=64)
    with pytest.raises(LoadError, match=r"'law'.*/models/law.*80 %"):
        reader.read("law", (placement,), lambda: False, lambda done, total: None)
