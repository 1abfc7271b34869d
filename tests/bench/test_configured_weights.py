"""If these fail, a trace is used for models that it is not of, or models are fetched only to be compared with it."""

from hashlib import sha256
from pathlib import Path

import huggingface_hub.constants
import pytest

from memspec_actors.bench.configured_weights import note_unconfigured_weights
from memspec_actors.config import Config, DraftConfig, TargetConfig
from memspec_actors.predictor.traces import open_trace_writer
from memspec_actors.protocols.traces import TRACE_FORMAT, TraceHeader

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an offline machine's hub cache, which holds org/here alone: a weights file that says "new"."""
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    root = tmp_path / "hub" / "models--org--here"
    directory = root / "snapshots" / COMMIT
    directory.mkdir(parents=True)
    (root / "refs").mkdir()
    (root / "refs" / "main").write_text(COMMIT)
    (directory / "model.safetensors").write_text("new")
    return directory


def _trace(path: Path, weights: str) -> Path:
    """Write a trace of a target and a draft whose weights files say this."""
    digest = sha256(sha256(weights.encode()).digest()).hexdigest()
    header = TraceHeader(
        format=TRACE_FORMAT,
        target=digest,
        drafts={"law": digest},
        draft_nbytes={"law": 1},
        k=5,
        max_new_tokens=1,
        vocab_size=1,
        eos_ids=(),
        iteration_us=None,
        versions={},
    )
    with open_trace_writer(path, header):
        return path


@pytest.mark.parametrize(
    ("target", "draft", "weights", "named"),
    [
        ("org/here", "org/here", "new", None),
        ("org/here", "org/here", "old", "the target, draft 'law'"),
        ("org/away", "org/here", "old", "draft 'law'"),
        ("org/here", "org/away", "old", "the target"),
        ("org/away", "./nowhere", "old", None),
    ],
)
def test_models_that_are_here_are_compared_and_no_others(
    target: str, draft: str, weights: str, named: str | None, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = Config(target=TargetConfig(model=target), drafts=(DraftConfig(name="law", model=draft),))
    note_unconfigured_weights(config, _trace(tmp_path / "trace", weights))
    said = [f"the trace is of other weights of {named} than are configured"] if named else []
    assert [message.partition(":")[0] for message in caplog.messages] == said


def test_a_draft_that_was_not_traced_is_not_compared(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    config = Config(target=TargetConfig(model="org/here"), drafts=(DraftConfig(name="code", model="org/here"),))
    note_unconfigured_weights(config, _trace(tmp_path / "trace", "new"))
    assert not caplog.messages
