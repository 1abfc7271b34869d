"""A tiny zoo, built end to end."""

from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import pytest
import torch

from memspec_actors.errors import UsageError
from memspec_actors.zoo import training
from memspec_actors.zoo.build import QUICK, STAGES, build
from memspec_actors.zoo.checkpoint import import_network
from memspec_actors.zoo.training import StageProgress

MODELS = ("target", "general", "general-strict", "code", "math", "law", "medical")


class Interrupt(BaseException):
    """Ctrl-C, as seen by the trainer."""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("zoo")
    assert build(out, recipe=QUICK) == STAGES
    return out


def interrupt_at(stage: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Raise in the sixth step of `stage`."""
    step, calls = training._step, 0

    def stepping(*arguments: object) -> None:
        nonlocal calls
        calls += 1
        if calls == 6:
            raise Interrupt(stage)
        step(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(training, "_step", stepping)


@pytest.mark.parametrize("name", MODELS)
def test_every_model_is_a_complete_directory(built: Path, name: str) -> None:
    """Neither this package nor transformers could open it."""
    files = {file.name for file in (built / name).iterdir()}
    assert files == {
        "config.json",
        "generation_config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
    }
    assert import_network(built / name).shape.layers >= 2


def test_finished_stages_are_skipped(built: Path) -> None:
    """A second call would throw hours of training away."""
    before = (built / "law" / "model.safetensors").read_bytes()
    assert build(built, recipe=QUICK) == ()
    assert (built / "law" / "model.safetensors").read_bytes() == before


def test_specialists_differ_from_the_base(built: Path) -> None:
    """All drafts would be the same model under several names."""
    weights = {name: (built / name / "model.safetensors").read_bytes() for name in MODELS[1:]}
    assert len(set(weights.values())) == len(weights)


def test_interrupted_stage_goes_on_to_the_same_weights(
    built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An interrupted build would end in other weights than an uninterrupted one, or start over."""
    build(tmp_path, recipe=QUICK, stages=("tokenizer",))
    with monkeypatch.context() as patch:
        interrupt_at("target-start", patch)
        with pytest.raises(Interrupt):
            build(tmp_path, recipe=QUICK, stages=("target-start",))
    seen: list[StageProgress] = []
    build(tmp_path, recipe=QUICK, stages=("target-start", "target"), on_progress=seen.append)
    assert (tmp_path / "target" / "model.safetensors").read_bytes() == (
        built / "target" / "model.safetensors"
    ).read_bytes()
    assert not list((tmp_path / "stages").glob("*.checkpoint"))
    assert {progress.stage for progress in seen} == {"target-start", "target"}


@pytest.mark.parametrize("step", ["export_network", "write_tokenizer"])
def test_build_interrupted_while_it_writes_a_model_goes_on(
    built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """The stage would count as finished, and its model never be written."""
    stages = ("tokenizer", "target-start", "target")
    with monkeypatch.context() as patch:
        patch.setattr(f"memspec_actors.zoo.build.{step}", Mock(side_effect=Interrupt))
        with pytest.raises(Interrupt):
            build(tmp_path, recipe=QUICK, stages=stages)
    assert build(tmp_path, recipe=QUICK, stages=stages) == ("target",)
    for file in (built / "target").iterdir():
        assert (tmp_path / "target" / file.name).read_bytes() == file.read_bytes()


def test_extra_texts_are_trained_on(built: Path, tmp_path: Path) -> None:
    """A user's own text would be ignored without a word."""
    text = tmp_path / "own.txt"
    text.write_text("The lime tree flowers in June. " * 50, encoding="utf-8")
    build(tmp_path / "zoo", recipe=QUICK, stages=("tokenizer", "target-start", "target"), texts=[text])
    own = (tmp_path / "zoo" / "target" / "model.safetensors").read_bytes()
    assert own != (built / "target" / "model.safetensors").read_bytes()


def test_missing_predecessor_is_named(tmp_path: Path) -> None:
    """The user would see a file error instead of the stage to run."""
    with pytest.raises(UsageError, match="'tokenizer' has not been built"):
        build(tmp_path, recipe=QUICK, stages=("target-start",))


def test_unknown_stage_is_refused(tmp_path: Path) -> None:
    """A misspelt stage would silently do nothing."""
    with pytest.raises(UsageError, match="'poetry'"):
        build(tmp_path, recipe=QUICK, stages=("poetry",))


def test_schedule_falls_to_its_floor() -> None:
    """The last steps would be too large, which costs quality."""
    schedule = training.Schedule(tokens=1000, peak=0.01, decay=0.5, floor=0.1)
    rate: Callable[[int], float] = lambda seen: schedule.rate(seen, step=10_000)  # noqa: E731
    assert [rate(0), rate(500), rate(750), rate(1000), rate(1010)] == pytest.approx([0.01, 0.01, 0.0055, 0.001, 0.001])
    assert schedule.rate(0, step=0) < 0.001


def test_weights_do_not_depend_on_the_callers_random_state(tmp_path: Path, built: Path) -> None:
    """The same recipe would give other weights after other work."""
    torch.manual_seed(99)
    build(tmp_path, recipe=QUICK, stages=("tokenizer", "target-start", "target"))
    assert (tmp_path / "target" / "model.safetensors").read_bytes() == (
        built / "target" / "model.safetensors"
    ).read_bytes()
