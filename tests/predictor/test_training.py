"""If these fail, the head does not learn which draft serves best, or is judged on what it was trained on."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from memspec_actors.errors import TraceError, UsageError
from memspec_actors.predictor.examples import Point
from memspec_actors.predictor.ranker import PredictorRanker
from memspec_actors.predictor.traces import TraceReader, open_trace_writer
from memspec_actors.predictor.training import TrainParams, evaluate, train
from memspec_actors.scheduling.rankers import RankingContext

TraceMaker = Callable[..., Path]
PARAMS = TrainParams(
    max_epochs=100, patience=20, dropout=0.0, weight_decay=0.02, learning_rate=1e-2, max_tokens=96, stride=5
)


def test_a_separable_rule_is_learned(make_trace: TraceMaker, encoder_dir: Path, tmp_path: Path) -> None:
    """The words of a text say which draft is right now, and only the prompt says which one is next."""
    training, evaluation = make_trace("train", 120, 1), make_trace("eval", 25, 2)
    hashes = {record.prompt_ids for record in TraceReader(training)}
    with open_trace_writer(tmp_path / "other", TraceReader(evaluation).header) as writer:
        for record in TraceReader(evaluation):
            if record.prompt_ids not in hashes:
                writer.write(record)
    train(training, encoder_dir, tmp_path / "out", params=PARAMS)
    told: list[str] = []
    figures = evaluate(tmp_path / "other", tmp_path / "out", progress=lambda what, *_: told.append(what))
    by_input = figures["by_input"]
    assert by_input["prompt+recent"] == {"top1": figures["top1"], "top2": figures["top2"]}
    assert figures["top1"] > 0.7
    assert figures["top2"] > 0.95
    assert max(by_input[part]["top1"] for part in ("prompt", "recent")) < figures["top1"] - 0.1
    assert figures["utility_share2"] >= figures["utility_share1"] > 0.8
    shares = ("utility_share1", "utility_share2")
    assert set(figures["mixed"]) == set(figures["single"]) == {"top1", "top2", "by_input", *shares}
    assert figures["latency_us"] > 0
    assert figures["share_of_interval"] == pytest.approx(figures["latency_us"] / 40_000)
    assert told == ["evaluate"] * 3


def test_training_and_evaluation_must_not_share_a_prompt(
    make_trace: TraceMaker, encoder_dir: Path, tmp_path: Path
) -> None:
    training = make_trace("train", 30, 1)
    few = TrainParams(inner=4, max_epochs=1, max_tokens=96)
    with pytest.raises(TraceError, match=r"eval, line 2.*also in the training trace"):
        train(training, encoder_dir, tmp_path / "out", params=few, exclude=make_trace("eval", 30, 1))
    assert not (tmp_path / "out").exists()
    train(training, encoder_dir, tmp_path / "out", params=few)
    with pytest.raises(TraceError, match=r"train, line 2.*trained on this prompt"):
        evaluate(training, tmp_path / "out")


def test_a_predictor_trained_without_a_draft_does_not_find_it(
    make_trace: TraceMaker, encoder_dir: Path, tmp_path: Path
) -> None:
    """What a wrong predictor costs would be measured with one that knows."""
    training, evaluation = make_trace("train", 60, 1), TraceReader(make_trace("eval", 10, 2))
    without, *others = evaluation.header.drafts
    train(training, encoder_dir, tmp_path / "out", params=replace(PARAMS, without=without, max_epochs=20))
    ranker = PredictorRanker.open(tmp_path / "out", (without, *others))
    for record in evaluation:
        ranking = ranker.rank(
            RankingContext(prompt_ids=record.prompt_ids, recent_ids=record.output_ids[:12], interval=1)
        )
        assert ranking.order[0] != without
    with pytest.raises(TraceError, match="no draft 'latin' to do without"):
        train(training, encoder_dir, tmp_path / "out", params=replace(PARAMS, without="latin"))


@pytest.mark.parametrize(
    ("labels", "now", "coming", "speaks"),
    [
        ({0}, (0.2, 0.3, 0.5), (0.0, 1.0, 0.0), True),
        ({2}, (0.4, 0.1, 0.5), (0.0, 1.0, 0.0), True),
        ({2}, (0.3, 0.1, 0.6), (1.0, 0.0, 0.0), True),
        ({2}, (0.3, 0.1, 0.6), (0.0, 1.0, 0.0), False),
    ],
)
def test_a_point_speaks_for_the_best_draft_and_for_one_above_the_average_now_or_next(
    labels: set[int], now: tuple[float, ...], coming: tuple[float, ...], speaks: bool
) -> None:
    """A draft that is to be left out would be learned from the points around those at which it is the best."""
    point = Point(
        prompt_ids=(1,), recent_ids=(), kind="mixed", value=now, now=now, coming=coming, labels=frozenset(labels)
    )
    assert point.speaks_for(0) == speaks


def test_the_same_seed_gives_the_same_head(make_trace: TraceMaker, encoder_dir: Path, tmp_path: Path) -> None:
    training = make_trace("train", 20)
    heads = []
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        train(
            training, encoder_dir, tmp_path / name, params=TrainParams(inner=4, max_epochs=2, max_tokens=96, seed=seed)
        )
        heads.append((tmp_path / name / "head.safetensors").read_bytes())
    assert heads[0] == heads[1] != heads[2]


def test_provenance_says_what_the_head_was_made_from(make_trace: TraceMaker, encoder_dir: Path, tmp_path: Path) -> None:
    training = make_trace("train", 20)
    train(training, encoder_dir, tmp_path / "out", params=TrainParams(inner=4, max_epochs=2, max_tokens=96))
    written = json.loads((tmp_path / "out" / "head.json").read_text())
    provenance = written["provenance"]
    assert provenance["num_prompts"] == len(set(written["trained_on"])) == 20
    assert provenance["drafts"] == TraceReader(training).header.drafts
    assert provenance["params"]["max_epochs"] == 2
    assert (tmp_path / "out" / "model.safetensors").read_bytes() == (encoder_dir / "model.safetensors").read_bytes()


def test_a_trace_of_other_weights_is_judged_and_noted(
    make_trace: TraceMaker, encoder_dir: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """How a predictor does on a draft that was trained on since is worth knowing, but not what it was trained for."""
    train(make_trace("train", 20), encoder_dir, tmp_path / "out", params=TrainParams(max_epochs=1, max_tokens=96))
    other = make_trace("eval", 5, 9)
    assert evaluate(other, tmp_path / "out")["num_points"] > 0
    assert not caplog.messages
    header, rest = other.read_bytes().split(b"\n", 1)
    other.write_bytes(header.replace(b'"b":"b"', b'"b":"d"') + b"\n" + rest)
    assert evaluate(other, tmp_path / "out")["num_points"] > 0
    (noted,) = caplog.messages
    assert noted.startswith(f"the trace is of other weights of draft 'b' than the predictor {tmp_path / 'out'} was")


def test_too_little_data_is_reported(make_trace: TraceMaker, encoder_dir: Path, tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="too few prompts"):
        train(make_trace("train", 1), encoder_dir, tmp_path / "out", params=TrainParams(max_tokens=96))


def test_a_directory_that_cannot_be_written_is_refused_before_the_work(
    make_trace: TraceMaker, encoder_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Minutes of training would end in an error and no head."""
    monkeypatch.setattr("memspec_actors.predictor.training._fit_all", lambda *_: pytest.fail("the work has begun"))
    (tmp_path / "taken").write_text("a file")
    for out in (tmp_path / "taken", tmp_path / "taken" / "out"):
        with pytest.raises(UsageError, match="taken"):
            train(make_trace("train", 20), encoder_dir, out, params=TrainParams(max_tokens=96))


def test_an_encoder_without_special_tokens_is_refused(
    make_trace: TraceMaker, encoder_dir: Path, tmp_path: Path
) -> None:
    bare = tmp_path / "bare"
    bare.mkdir()
    for name in ("config.json", "model.safetensors"):
        (bare / name).write_bytes((encoder_dir / name).read_bytes())
    with pytest.raises(TraceError, match="tokenizer"):
        train(make_trace("train", 10), bare, tmp_path / "out")


def test_drafts_of_another_trace_are_refused(make_trace: TraceMaker, encoder_dir: Path, tmp_path: Path) -> None:
    train(make_trace("train", 20), encoder_dir, tmp_path / "out", params=TrainParams(max_epochs=1, max_tokens=96))
    other = make_trace("eval", 5, 9)
    other.write_bytes(other.read_bytes().replace(b'"a":', b'"z":'))
    with pytest.raises(TraceError, match="line 1"):
        evaluate(other, tmp_path / "out")
