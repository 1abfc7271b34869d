"""If these fail, the scheduler gets rankings that it cannot use, or a damaged predictor goes unnoticed."""

import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from memspec_actors.errors import CheckpointError, TraceError
from memspec_actors.models.text.tokenizer import Tokenizer
from memspec_actors.predictor.ranker import PredictorRanker
from memspec_actors.predictor.training import TrainParams, train
from memspec_actors.scheduling.rankers import RankingContext

TraceMaker = Callable[..., Path]
NAMES = ("stranger", "c", "a", "another")


@pytest.fixture
def artefact(make_trace: TraceMaker, encoder_dir: Path, tmp_path: Path) -> Path:
    train(make_trace("train", 30), encoder_dir, tmp_path / "out", params=TrainParams(max_epochs=3, max_tokens=96))
    return tmp_path / "out"


ids = st.lists(st.integers(-3, 40), max_size=150).map(tuple)


@settings(max_examples=60)
@given(prompt=ids, recent=ids, interval=st.integers(0, 5))
def test_any_context_gives_a_finite_permutation(
    artefact: Path, prompt: tuple[int, ...], recent: tuple[int, ...], interval: int
) -> None:
    ranker = PredictorRanker.open(artefact, NAMES)
    ranking = ranker.rank(RankingContext(prompt_ids=prompt, recent_ids=recent, interval=interval))
    assert sorted(ranking.order) == sorted(NAMES)
    assert ranking.order[2:] == ("stranger", "another"), "drafts without training must come last"
    assert len(ranking.scores) == len(NAMES)
    assert all(math.isfinite(score) and 0 <= score <= 1 for score in ranking.scores)
    assert list(ranking.scores) == sorted(ranking.scores, reverse=True)


def test_scores_of_all_drafts_are_probabilities(artefact: Path) -> None:
    ranking = PredictorRanker.open(artefact, ("a", "b", "c")).rank(RankingContext(prompt_ids=(4, 5, 7), interval=0))
    assert sum(ranking.scores) == pytest.approx(1.0)


def test_the_first_interval_reads_the_prompt_alone(artefact: Path) -> None:
    ranker = PredictorRanker.open(artefact, NAMES)
    bare = ranker.rank(RankingContext(prompt_ids=(4, 5, 7)))
    assert ranker.rank(RankingContext(prompt_ids=(4, 5, 7), recent_ids=(12, 13), interval=0)) == bare
    assert ranker.rank(RankingContext(prompt_ids=(4, 5, 7), recent_ids=(12, 13), interval=1)) != bare


def test_a_long_prompt_is_read_from_its_end(artefact: Path) -> None:
    ranker = PredictorRanker.open(artefact, NAMES)
    tail = tuple(3 + index % 20 for index in range(96 - 3))
    long = ranker.rank(RankingContext(prompt_ids=(9,) * 500 + tail))
    assert long == ranker.rank(RankingContext(prompt_ids=tail))
    assert long != ranker.rank(RankingContext(prompt_ids=(9,) * 500))


def test_ids_of_another_tokenizer_are_translated(artefact: Path, tmp_path: Path) -> None:
    """The target may number its tokens differently; then its ids must not be read as the encoder's."""
    words = json.loads((artefact / "tokenizer.json").read_text())["model"]["vocab"]
    turned = {word: len(words) - 1 - index for word, index in words.items()}
    backend = tokenizers.Tokenizer(tokenizers.models.WordLevel(turned, unk_token="<pad>"))
    backend.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    foreign = Tokenizer(backend, {}, None)
    own = Tokenizer.open(artefact)
    text, recent = "w1 w2 w5 w20", "w8 w9 w10"
    context = RankingContext(prompt_ids=tuple(own.encode(text)), recent_ids=tuple(own.encode(recent)), interval=2)
    translated = RankingContext(
        prompt_ids=tuple(foreign.encode(text)), recent_ids=tuple(foreign.encode(recent)), interval=2
    )
    expected = PredictorRanker.open(artefact, NAMES).rank(context)
    assert PredictorRanker.open(artefact, NAMES, own).rank(context) == expected
    assert PredictorRanker.open(artefact, NAMES, foreign).rank(translated) == expected
    assert PredictorRanker.open(artefact, NAMES).rank(translated) != expected


def test_a_head_that_knows_no_configured_draft_is_refused(artefact: Path) -> None:
    with pytest.raises(TraceError, match="knows a, b, c"):
        PredictorRanker.open(artefact, ("x", "y"))


def _damage_json(file: Path, key: str, value: object) -> None:
    data = json.loads(file.read_text())
    data[key] = value
    file.write_text(json.dumps(data))


@pytest.mark.parametrize(
    ("key", "value"),
    [("format", "other"), ("drafts", []), ("drafts", ["a", "b"]), ("inner", "many"), ("inner", 3), ("extra", 1)],
)
def test_a_damaged_description_is_refused(artefact: Path, key: str, value: object) -> None:
    _damage_json(artefact / "head.json", key, value)
    with pytest.raises(TraceError, match="head"):
        PredictorRanker.open(artefact, NAMES)


@pytest.mark.parametrize("damage", ["absent", "truncated", "not finite", "no json", "missing tensor"])
def test_a_damaged_head_is_refused(artefact: Path, damage: str) -> None:
    weights = artefact / "head.safetensors"
    tensors = load_file(weights)
    if damage == "absent":
        weights.unlink()
    elif damage == "truncated":
        weights.write_bytes(weights.read_bytes()[:-1])
    elif damage == "no json":
        (artefact / "head.json").write_bytes(b"\xff{")
    elif damage == "missing tensor":
        del tensors["prompt+recent.outer.bias"]
        save_file(tensors, weights)
    else:
        tensors["prompt+recent.outer.bias"][0] = math.inf
        save_file(tensors, weights)
    with pytest.raises(TraceError, match="head"):
        PredictorRanker.open(artefact, NAMES)


def test_an_encoder_that_does_not_fit_the_head_is_refused(artefact: Path, tiny_models: Path) -> None:
    layout = json.loads((artefact / "head.json").read_text())["layout"]
    _damage_json(artefact / "head.json", "layout", layout | {"max_tokens": 97})
    with pytest.raises(CheckpointError, match="97 tokens"):
        PredictorRanker.open(artefact, NAMES)
    shutil.copyfile(tiny_models / "far" / "config.json", artefact / "config.json")
    with pytest.raises(CheckpointError, match=r"config\.json"):
        PredictorRanker.open(artefact, NAMES)
