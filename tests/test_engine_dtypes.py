"""An engine runs with its target and each draft in a format of its own."""

from functools import partial
from pathlib import Path

import pytest
from msgspec.structs import replace

from memspec_actors import MemSpec
from memspec_actors.config import Config, DraftConfig, EventsConfig, MemoryConfig, TargetConfig
from memspec_actors.protocols.events import SystemStarted
from memspec_actors.telemetry.reader import read_events
from tests.patience import until

PROMPT = "gather 8 breamols for Waman; compose new_beto for Pulal, limit=50"

pytestmark = pytest.mark.anyio


def resident(engine: MemSpec, draft: str) -> bool:
    return draft in engine.residency().resident


async def test_quantised_models_decode_together(tmp_path: Path) -> None:
    """Else a quantised draft would be loaded and never agree, or never be used."""
    drafts = (
        DraftConfig(name="general", dtype="int4"),
        DraftConfig(name="code"),
        DraftConfig(name="law", dtype="float16"),
    )
    config = Config(target=TargetConfig(dtype="int8"), drafts=drafts, memory=MemoryConfig(capacity=3))
    config = replace(config, events=EventsConfig(path=str(tmp_path / "log.jsonl")))
    async with MemSpec.open(config) as engine:
        for name in ("general", "code", "law"):
            await engine.steer_draft("load", name)
            await until(partial(resident, engine, name))
            result = await engine.generate(PROMPT, max_new_tokens=48, policy=f"static:{name}")
            figures = result.scheduling.drafts[name]
            assert figures.iterations > 0
            assert figures.accepted > 0.1 * figures.drafted
    (started,) = (event for event in read_events(tmp_path / "log.jsonl") if isinstance(event, SystemStarted))
    assert started.dtype == "int8 + bfloat16"  # an audit must not expect equal texts as of float32
