"""If these fail, the embedded models cannot be given a predictor."""

import json
import shutil
from pathlib import Path

import pytest
import torch

from memspec_actors.predictor.build import ZooBudget, build_for_zoo
from memspec_actors.predictor.pretrain import PretrainBudget
from memspec_actors.predictor.ranker import PredictorRanker
from memspec_actors.predictor.training import TrainParams
from memspec_actors.scheduling.rankers import RankingContext
from memspec_actors.zoo.tokenizer import train_tokenizer, write_tokenizer

TINY = ZooBudget(
    num_training_prompts=10,
    num_evaluation_prompts=3,
    max_new_tokens=12,
    hidden_size=16,
    pretraining=PretrainBudget(steps=2, batch_size=4),
    head=TrainParams(inner=4, max_epochs=2, validation_share=0.4),
)


@pytest.fixture
def weights_dir(tiny_models: Path, tmp_path: Path) -> Path:
    """Random models under the embedded models' names, with a tokenizer of their world."""
    tokenizer = train_tokenizer(num_documents=30, vocab_size=400)
    for name in ("target", "general", "code", "math", "law", "medical"):
        shutil.copytree(tiny_models / ("target" if name in ("target", "law") else "far"), tmp_path / "w" / name)
    _widen(tmp_path / "w", tokenizer.get_vocab_size())
    for directory in (tmp_path / "w").iterdir():
        write_tokenizer(tokenizer, directory)
    return tmp_path / "w"


def _widen(root: Path, vocab_size: int) -> None:
    from safetensors.torch import load_file, save_file

    for directory in root.iterdir():
        weights = load_file(directory / "model.safetensors")
        generator = torch.Generator().manual_seed(len(directory.name))
        for name in ("model.embed_tokens.weight", "lm_head.weight"):
            weights[name] = torch.randn(vocab_size, weights[name].shape[1], generator=generator)
        save_file(weights, directory / "model.safetensors", metadata={"format": "pt"})
        config = json.loads((directory / "config.json").read_text())
        (directory / "config.json").write_text(json.dumps(config | {"vocab_size": vocab_size}))


def test_the_embedded_predictor_is_built_in_one_go_and_its_encoder_kept(weights_dir: Path, tmp_path: Path) -> None:
    told: list[str] = []
    figures = build_for_zoo(weights_dir, lambda what, *_: told.append(what), budget=TINY, traces_dir=tmp_path)
    assert list(dict.fromkeys(told)) == ["pretrain", "collect", "train", "evaluate"]
    assert {"top1", "top2", "by_input", "latency_us", "share_of_interval"} <= set(figures)
    encoder = weights_dir / "encoder"
    assert json.loads((encoder / "head.json").read_text())["provenance"]["evaluation"]["top1"] == figures["top1"]
    assert json.loads((encoder / "pretraining.json").read_text())["budget"]["steps"] == 2
    names = ("general", "code", "math", "law", "medical")
    ranking = PredictorRanker.open(encoder, names).rank(RankingContext(prompt_ids=(1, 50, 60)))
    assert sorted(ranking.order) == sorted(names)
    before = (encoder / "model.safetensors").read_bytes()
    told.clear()
    build_for_zoo(weights_dir, lambda what, *_: told.append(what), budget=TINY)
    assert "pretrain" not in told
    assert (encoder / "model.safetensors").read_bytes() == before
    tokenizer = weights_dir / "target" / "tokenizer.json"
    tokenizer.write_bytes(tokenizer.read_bytes() + b"\n")
    for name in names:
        shutil.copyfile(tokenizer, weights_dir / name / "tokenizer.json")
    told.clear()
    build_for_zoo(weights_dir, lambda what, *_: told.append(what), budget=TINY)
    assert "pretrain" in told, "an encoder over other ids must not be kept"
