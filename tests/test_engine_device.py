"""The engine decodes on a device as on the CPU: loads are copies, drafts are not looked at, the text is the same."""

from pathlib import Path
from typing import Any

import pytest

from memspec_actors import Config, MemSpec, SamplingParams
from memspec_actors.config import EventsConfig, ScheduleConfig, TargetConfig
from memspec_actors.errors import ConfigError
from memspec_actors.models.devices.device import DeviceMemory
from memspec_actors.protocols.events import SystemStarted
from memspec_actors.telemetry.audit import audit
from memspec_actors.telemetry.reader import read_events
from tests.engines import MIXED
from tests.models.fake_device import FakeDevice

pytestmark = pytest.mark.anyio

TOKENS = 100


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> FakeDevice:
    """What the engine gets for "cuda"."""
    device = FakeDevice(DeviceMemory(1 << 30, 1 << 30))
    monkeypatch.setattr("memspec_actors.loadout.open_device", lambda name: device)
    return device


async def test_the_text_on_a_device_is_that_on_the_cpu(device: FakeDevice, tmp_path: Path) -> None:
    """Through loads, evictions, switches and requests that begin in the memory of others."""
    config = Config(
        target=TargetConfig(device="cuda"),
        events=EventsConfig(path=str(tmp_path / "log")),
        schedule=ScheduleConfig(policy="mab-sync", interval=1),
    )
    requests: list[dict[str, Any]] = [
        {},
        {"policy": "static:law"},
        {"sampling": SamplingParams(temperature=0.8, seed=3, logprobs=2)},
        {"sampling": SamplingParams(repetition_penalty=1.2)},
        {"stop": "gain"},
    ]
    async with MemSpec.open(config) as engine:
        on_device = [await engine.generate(MIXED, max_new_tokens=TOKENS, **each) for each in requests]
    assert device.replayed > TOKENS
    assert on_device[0].scheduling.evictions > 0
    assert device.recorded <= 2 + on_device[0].scheduling.evictions, "a step outlives its text"
    assert not audit(tmp_path / "log").violations
    assert [event.device for event in read_events(tmp_path / "log") if isinstance(event, SystemStarted)] == ["cuda"]
    async with MemSpec.open(Config()) as engine:
        for found, options in zip(on_device, requests, strict=True):
            expected = await engine.generate(MIXED, max_new_tokens=TOKENS, **{"policy": "target-only", **options})
            assert found.token_ids == expected.token_ids, options


async def test_what_a_device_has_no_room_for_is_refused_before_anything_is_copied(device: FakeDevice) -> None:
    """A user would wait for a target of gigabytes to load and then find that drafts do not fit."""
    device.memory = DeviceMemory(10**6, 1 << 30)
    with pytest.raises(ConfigError, match=r"0\.00 of 1\.07 GB free") as refusal:
        async with MemSpec.open(Config(target=TargetConfig(device="cuda"))):
            pass
    assert "\n" not in str(refusal.value)
    assert device.num_copiers == 0
