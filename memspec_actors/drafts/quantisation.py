"""Make a GPTQ checkpoint of a model through auto-gptq, which needs an environment of its own."""

import logging
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest.mock import patch

import msgspec
import torch

from memspec_actors.errors import ConfigError, UsageError
from memspec_actors.models.checkpoints.checkpoint import Checkpoint
from memspec_actors.progress import Progress

__all__ = ["QuantiseReport", "QuantiseSettings", "quantize"]

BITS = 4
KEPT_FILES = (
    "tokenizer*",
    "special_tokens_map.json",
    "generation_config.json",
    "chat_template*",
    "vocab.json",
    "*.txt",
)
LAYER = re.compile(r"Start quantizing layer (\d+)/(\d+)")


class QuantiseSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Say how to quantise: inputs per scale (-1: all), order by activation size, symmetric zeros, damping.

    Raises ConfigError for numbers out of range.
    """

    group_size: int = 128
    act_order: bool = False
    symmetric: bool = True
    damp: float = 0.01

    def __post_init__(self) -> None:
        if self.group_size != -1 and self.group_size < 8:
            raise ConfigError(f"group_size is {self.group_size}; it must be an integer >= 8, or -1 for one group")
        if not 0 < self.damp < 1:
            raise ConfigError(f"damp is {self.damp}; it must lie between 0 and 1")


class QuantiseReport(msgspec.Struct, frozen=True, kw_only=True):
    """Tell what a quantisation did; bytes are those of the weights' files."""

    settings: QuantiseSettings
    num_texts: int
    num_tokens: int
    nbytes_before: int
    nbytes_after: int


def quantize(
    model_dir: Path,
    out: Path,
    texts: Sequence[Sequence[int]],
    settings: QuantiseSettings,
    progress: Progress = lambda what, done, total: None,
) -> QuantiseReport:
    """Write a 4-bit GPTQ checkpoint of ``model_dir`` to ``out``, calibrated on ``texts`` (token ids).

    Runs on a GPU if torch has one, else on the CPU. Raises UsageError if auto-gptq is not there or does not know the
    model, or if there is no text.
    """
    before = Checkpoint.open(model_dir)
    before.require_floats()
    texts = [text for text in texts if text]
    if not texts:
        raise UsageError("there is no text to calibrate on; give prompts")
    auto_gptq = _auto_gptq()
    classes = auto_gptq.modeling.auto.GPTQ_CAUSAL_LM_MODEL_MAP
    model_type = str(before.config.get("model_type"))
    if model_type not in classes:
        raise UsageError(f"{model_dir}: auto-gptq does not quantise a {model_type!r}; it knows {', '.join(classes)}")
    quantizer = classes[model_type](_open(model_dir), False, _config(auto_gptq, settings))
    examples = [{"input_ids": list(text), "attention_mask": [1] * len(text)} for text in texts]
    with _on_this_machine(auto_gptq), _told(progress):
        quantizer.quantize(examples)
    quantizer.model.half()  # scales and what is not quantised
    quantizer.save_quantized(str(out))
    for pattern in KEPT_FILES:
        for file in model_dir.glob(pattern):
            shutil.copy(file, out / file.name)
    after = Checkpoint.open(out)
    return QuantiseReport(
        settings=settings,
        num_texts=len(texts),
        num_tokens=sum(map(len, texts)),
        nbytes_before=sum(stamp.size for stamp in before.files.values()),
        nbytes_after=sum(stamp.size for stamp in after.files.values()),
    )


def _auto_gptq() -> Any:
    advice = "pip install 'memspec-actors[auto-gptq]' in an environment of its own (see the README)"
    try:
        auto_gptq: Any = import_module("auto_gptq")
    except ImportError as error:
        what = "is not installed" if getattr(error, "name", None) == "auto_gptq" else f"does not import ({error})"
        raise UsageError(f"auto-gptq {what}; {advice}") from error
    return auto_gptq


def _open(model_dir: Path) -> Any:
    from transformers import AutoModelForCausalLM

    model: Any = AutoModelForCausalLM.from_pretrained(model_dir, torch_dtype=torch.float32).eval()
    return model.cuda() if torch.cuda.is_available() else model


def _config(auto_gptq: Any, settings: QuantiseSettings) -> Any:
    return auto_gptq.BaseQuantizeConfig(
        bits=BITS,
        group_size=settings.group_size,
        desc_act=settings.act_order,
        sym=settings.symmetric,
        damp_percent=settings.damp,
    )


@contextmanager
def _on_this_machine(auto_gptq: Any) -> Iterator[None]:
    """Let auto-gptq, which takes a GPU for granted, work without one."""
    with ExitStack() as stack:
        if not torch.cuda.is_available():
            stack.enter_context(patch.object(auto_gptq.modeling._base, "CUDA_0", torch.device("cpu")))
            stack.enter_context(patch.object(torch.cuda, "synchronize", lambda device=None: None))
        yield


@contextmanager
def _told(progress: Progress) -> Iterator[None]:
    """Turn what auto-gptq logs of its layers into progress."""

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if (layer := LAYER.search(record.getMessage())) is not None:
                progress("layers", int(layer[1]) - 1, int(layer[2]))

    logger = logging.getLogger("auto_gptq.modeling._base")
    with (
        patch.object(logger, "handlers", [Listener(logging.INFO)]),
        patch.object(logger, "level", logging.INFO),
        patch.object(logger, "propagate", False),
    ):
        yield
