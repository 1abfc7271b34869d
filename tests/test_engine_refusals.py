"""What an engine refuses, before it loads or generates anything."""

import json
import shutil
from pathlib import Path

import pytest

from memspec_actors import Config, MemSpec
from memspec_actors.config import DraftConfig, ScheduleConfig, TargetConfig
from memspec_actors.errors import CheckpointError, ConfigError, EngineClosed, IncompatibleDraft, InvalidRequest
from memspec_actors.zoo import path as zoo_path

pytestmark = pytest.mark.anyio

STATIC_LAW = ScheduleConfig(policy="static:law")


async def test_bad_input_is_refused_by_name(tmp_path: Path) -> None:
    """A user must learn what to put right, before anything is loaded or generated."""
    with pytest.raises(CheckpointError, match="nowhere"):
        async with MemSpec.open(Config(drafts=(DraftConfig(name="law", model=str(tmp_path / "nowhere")),))):
            pass
    with pytest.raises(ConfigError, match="general-static"):
        async with MemSpec.open(Config(schedule=ScheduleConfig(policy="general-statc"))):
            pass
    async with MemSpec.open() as engine:
        with pytest.raises(InvalidRequest, match="empty"):
            engine.stream(())
    with pytest.raises(EngineClosed):
        engine.stream("hello")
    with pytest.raises(EngineClosed):
        await engine.steer_draft("unload", "law")
    with pytest.raises(EngineClosed):
        await engine.statistics()


async def test_a_draft_with_another_tokenizer_is_refused(tmp_path: Path) -> None:
    """Same size, other meaning of the ids: silently, acceptance would be near zero."""
    copy = tmp_path / "law"
    shutil.copytree(zoo_path("law"), copy)
    path = copy / "tokenizer.json"
    tokenizer = json.loads(path.read_text())
    vocab = tokenizer["model"]["vocab"]
    a, b = [token for token, index in vocab.items() if index in (300, 301)]
    vocab[a], vocab[b] = vocab[b], vocab[a]
    path.write_text(json.dumps(tokenizer))
    with pytest.raises(IncompatibleDraft, match=r"draft 'law'.*id 300"):
        async with MemSpec.open(Config(drafts=(DraftConfig(name="law", model=str(copy)),), schedule=STATIC_LAW)):
            pass


async def test_a_device_that_is_not_supported_is_refused() -> None:
    """Running on the CPU what was meant for a GPU would look like a slow GPU."""
    with pytest.raises(ConfigError, match=r"device is 'cuda:1'"):
        async with MemSpec.open(Config(target=TargetConfig(device="cuda:1"))):
            pass
