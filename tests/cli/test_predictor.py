"""``memspec predictor``: what it hands to the predictor's functions, and what it prints of theirs."""

from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
import pytest

from memspec_actors.cli import main
from memspec_actors.predictor.prompts import Prompt
from memspec_actors.predictor.traces import open_trace_writer
from memspec_actors.predictor.training import TrainParams
from memspec_actors.protocols.traces import TRACE_FORMAT, TraceHeader

Calls = dict[str, tuple[tuple[Any, ...], dict[str, Any]]]

CONFIG = """
target.model = "m"
drafts = [{name = "a", model = "da"}, {name = "b", model = "db"}]
predictor.path = "p"
schedule.recent_tokens = 32
"""


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    """Put recorders in the place of collect, train, evaluate and the target's tokenizer."""
    recorded: Calls = {}

    def recorder(name: str, answer: Any) -> Callable[..., Any]:
        def record(*arguments: Any, **options: Any) -> Any:
            recorded[name] = arguments, options
            return answer

        return record

    monkeypatch.setattr("memspec_actors.bench.replays.collect", recorder("collect", {"prompts": 2}))
    monkeypatch.setattr("memspec_actors.predictor.training.train", recorder("train", {"num_prompts": 5}))
    monkeypatch.setattr(
        "memspec_actors.predictor.evaluation.evaluate",
        recorder("evaluate", {"top1": 1 / 3, "top2": 0.75, "mixed": {"top1": 0.25}}),
    )
    monkeypatch.setattr("memspec_actors.models.text.tokenizer.Tokenizer.open", recorder("tokenizer", "the tokenizer"))
    return recorded


@pytest.fixture
def config(tmp_path: Path) -> str:
    path = tmp_path / "memspec.toml"
    path.write_text(CONFIG, encoding="utf-8")
    return str(path)


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """A trace of drafts whose weights are those of the configured "a", and others than those of "b"."""
    hashes = {}
    for name in ("a", "b"):
        (tmp_path / f"d{name}").mkdir()
        (tmp_path / f"d{name}" / "model.safetensors").write_text(name)
        hashes[name] = sha256(sha256(b"a").digest()).hexdigest()
    header = TraceHeader(
        format=TRACE_FORMAT,
        target="of weights that are not here",
        drafts=hashes,
        draft_nbytes={"a": 1, "b": 1},
        k=5,
        max_new_tokens=1,
        vocab_size=1,
        eos_ids=(),
        iteration_us=None,
        versions={},
    )
    with open_trace_writer(tmp_path / "t", header):
        return tmp_path / "t"


def test_collect_traces_the_configured_models(
    calls: Calls, config: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    prompts = tmp_path / "prompts.txt"
    prompts.write_text("one\ntwo\nthree\n", encoding="utf-8")
    options = ["--prompts", str(prompts), "--limit", "2", "--max-new-tokens", "9", "--k", "3", "--free-runs", "--json"]
    assert main(["predictor", "collect", "--out", str(tmp_path / "t"), "--config", config, *options]) == 0
    arguments, given = calls["collect"]
    drafts = {"a": tmp_path / "da", "b": tmp_path / "db"}
    assert arguments == (tmp_path / "m", drafts, [Prompt("one"), Prompt("two")], tmp_path / "t")
    assert (given["max_new_tokens"], given["k"], given["free_runs"]) == (9, 3, True)
    printed = msgspec.json.decode(capsys.readouterr().out)
    assert printed["prompts"] == 2
    assert {"versions", "threads", "dtype", "emulated"} <= set(printed)


def test_train_fits_the_trace(
    calls: Calls, config: str, trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--traces", str(trace), "--out", "o", "--encoder", "e", "--exclude", "x", "--seed", "3", "--json"]
    assert main(["predictor", "train", "--config", config, *options]) == 0
    arguments, given = calls["train"]
    assert arguments == (trace, Path("e"), Path("o"))
    assert given["params"] == TrainParams(seed=3, recent_tokens=32)
    assert (given["exclude"], given["tokenizer"]) == (Path("x"), "the tokenizer")
    assert calls["tokenizer"][0] == (tmp_path / "m",)
    assert msgspec.json.decode(capsys.readouterr().out) == {"predictor": "o", "num_prompts": 5}


def test_eval_judges_the_configured_predictor(
    calls: Calls, config: str, trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["predictor", "eval", "--config", config, "--traces", str(trace), "--json"]) == 0
    assert calls["evaluate"][0] == (trace, tmp_path / "p")
    assert "collect" not in calls
    printed = msgspec.json.decode(capsys.readouterr().out)
    assert (printed["top2"], printed["mixed"], printed["threads"]) == (0.75, {"top1": 0.25}, 1)


def test_figures_are_lines_to_read(calls: Calls, config: str, trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nobody finds a figure among braces and sixteen digits."""
    assert main(["predictor", "eval", "--config", config, "--traces", str(trace)]) == 0
    assert capsys.readouterr().out.startswith("top1: 0.3333\ntop2: 0.75\nmixed.top1: 0.25\nversions.memspec-actors: ")


@pytest.mark.parametrize("command", [["train", "--out", "o"], ["eval"]])
def test_a_trace_of_other_weights_than_configured_is_noted(
    calls: Calls, config: str, trace: Path, command: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    """A draft that was trained on since would be ranked by what it was, and nobody would know why it is ranked badly.

    The target's weights are not here, and nothing is said of them.
    """
    assert main(["predictor", *command, "--config", config, "--traces", str(trace)]) == 0
    (noted,) = caplog.messages
    assert noted.startswith("the trace is of other weights of draft 'b' than are configured: ")


@pytest.mark.parametrize(("options", "num_prompts"), [([], 100), (["--quick"], 12)])
def test_eval_without_a_trace_collects_one(
    calls: Calls, config: str, tmp_path: Path, options: list[str], num_prompts: int
) -> None:
    """`--quick` must do less of the same, on prompts that training never sees."""
    assert main(["predictor", "eval", "--config", config, "--predictor", str(tmp_path), *options]) == 0
    (_, _, prompts, out), _ = calls["collect"]
    assert len(prompts) == num_prompts
    assert calls["evaluate"][0] == (out, tmp_path)
    assert not out.exists()


def test_eval_without_a_predictor_says_so(calls: Calls, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "memspec.toml"
    path.write_text('predictor.path = "none"', encoding="utf-8")
    assert main(["predictor", "eval", "--config", str(path), "--traces", "t"]) == 2
    assert "--predictor" in capsys.readouterr().err
