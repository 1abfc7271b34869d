"""Quantising needs auto-gptq and says so; what auto-gptq writes runs here as it runs there."""

import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import LlamaConfig, Qwen2Config

from memspec_actors import zoo
from memspec_actors.drafts import quantisation
from memspec_actors.drafts.distillation import distill
from memspec_actors.drafts.quantisation import QuantiseSettings, quantize
from memspec_actors.drafts.settings import DistillSettings
from memspec_actors.errors import CheckpointError, ConfigError, UsageError
from memspec_actors.models.checkpoints.checkpoint import Checkpoint
from memspec_actors.models.weights import plan
from memspec_actors.models.weights.opening import open_runner
from tests.models.conftest import save_random
from tests.models.gptq_writer import Variant, write_gptq

SIZES: dict[str, Any] = {
    "hidden_size": 128,
    "intermediate_size": 256,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 97,
    "max_position_embeddings": 256,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
TEXTS = [[(7 * index + shift) % 97 for index in range(60)] for shift in range(6)]
IDS = torch.arange(50) * 5 % 97

needs_auto_gptq = pytest.mark.skipif(
    find_spec("auto_gptq") is None, reason="auto-gptq is not installed: it needs an environment of its own"
)


def saved(directory: Path, config: Any = None) -> Path:
    return save_random(directory / "model", LlamaConfig(**SIZES) if config is None else config, torch.float32)


def test_without_auto_gptq_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a user would see an ImportError and install it beside transformers 5, where it does not work."""
    monkeypatch.setitem(sys.modules, "auto_gptq", None)
    with pytest.raises(UsageError, match=r"^auto-gptq .*pip install 'memspec-actors\[auto-gptq\]' in an environment"):
        quantize(saved(tmp_path), tmp_path / "out", TEXTS, QuantiseSettings())
    assert not (tmp_path / "out").exists()


def test_an_auto_gptq_that_does_not_import_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else one that was installed beside the wrong transformers would seem to be absent."""
    (tmp_path / "auto_gptq").mkdir()
    (tmp_path / "auto_gptq" / "__init__.py").write_text("from transformers import no_such_name", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "auto_gptq", raising=False)
    with pytest.raises(UsageError, match=r"auto-gptq does not import \(cannot import name 'no_such_name'"):
        quantisation._auto_gptq()


@pytest.mark.parametrize("settings", [{"group_size": 0}, {"damp": 1.0}])
def test_numbers_out_of_range_are_refused(settings: dict[str, Any]) -> None:
    """Else auto-gptq would fail after the model was loaded."""
    with pytest.raises(ConfigError, match=next(iter(settings))):
        QuantiseSettings(**settings)


def test_nothing_to_calibrate_on_is_refused(tmp_path: Path) -> None:
    """Else auto-gptq would divide by no samples."""
    with pytest.raises(UsageError, match="no text"):
        quantize(saved(tmp_path), tmp_path / "out", [[]], QuantiseSettings())


def test_codes_are_neither_quantised_nor_trained(tmp_path: Path) -> None:
    """Else the failure would come from deep within another library, after the target had answered every prompt."""
    directory, _ = write_gptq(tmp_path / "model", LlamaConfig(**SIZES), Variant())
    with pytest.raises(CheckpointError, match=r"model: its weights are GPTQ's codes"):
        quantize(directory, tmp_path / "out", TEXTS, QuantiseSettings())
    settings = DistillSettings(target=str(zoo.path("target")), draft=str(directory))
    with pytest.raises(CheckpointError, match=r"model: its weights are GPTQ's codes"):
        distill(settings, [], [], tmp_path / "out")


@needs_auto_gptq
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("family", [LlamaConfig, Qwen2Config])
@pytest.mark.parametrize(
    "settings",
    [
        QuantiseSettings(group_size=32),
        QuantiseSettings(group_size=64, act_order=True),
        QuantiseSettings(group_size=128, symmetric=False),
        QuantiseSettings(group_size=-1, symmetric=False, act_order=True),
    ],
    ids=str,
)
def test_logits_are_those_of_auto_gptq(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, family: Any, settings: QuantiseSettings
) -> None:
    """Else checkpoints that people already have would speak another text here than there."""
    auto_gptq: Any = import_module("auto_gptq")
    out = tmp_path / "out"
    seen: list[tuple[str, int, int]] = []
    report = quantize(saved(tmp_path, family(**SIZES)), out, TEXTS, settings, lambda *at: seen.append(at))
    assert seen == [("layers", 0, 2), ("layers", 1, 2)]
    assert report.nbytes_after < 0.5 * report.nbytes_before
    theirs = auto_gptq.AutoGPTQForCausalLM.from_quantized(
        str(out), device="cpu", use_triton=False, disable_exllama=True, disable_exllamav2=True,
        inject_fused_attention=False, inject_fused_mlp=False, torch_dtype=torch.float32, use_safetensors=True,
    )  # fmt: skip
    with torch.no_grad():
        expected = theirs.model.float()(IDS[None]).logits[0]
    for works, bound in ((True, 0.04), (False, 1e-3)):
        monkeypatch.setattr(plan, "int4_works", lambda works=works: works)
        runner = open_runner(Checkpoint.open(out), dtype="float32")
        got = torch.cat([runner.forward(piece, runner.new_cache(50)) for piece in [IDS]])
        assert (got - expected).norm() <= bound * expected.norm()
