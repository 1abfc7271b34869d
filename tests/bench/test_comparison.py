"""The comparison of AdaSD's systems: if wrong, published figures are."""

import json
import math
import random
from itertools import pairwise
from pathlib import Path

import pytest
from scipy.special import log_softmax

from memspec_actors.bench import adasd
from memspec_actors.bench.datasets import DataSet, Task, file_dataset, zoo_datasets
from memspec_actors.bench.quality import agreement, log_likelihoods, task_accuracy
from memspec_actors.cli import main
from memspec_actors.config import Config
from memspec_actors.errors import TraceError
from memspec_actors.models.testing import ToyRunner
from memspec_actors.zoo import path as zoo_path
from memspec_actors.zoo.tokenizer import EOS_ID
from memspec_actors.zoo.world import DOMAINS, sample_request


def test_datasets_are_one_of_each_domain_and_one_that_mixes() -> None:
    datasets = zoo_datasets(3)
    assert [dataset.name for dataset in datasets] == [*DOMAINS, "mixed"]
    for dataset in datasets:
        assert len(dataset.tasks) == 3
        for task in dataset.tasks:
            assert task.request is not None and task.prompt == task.request.prompt_text
            domains = [item.domain for item in task.request.items]
            if dataset.domain is None:
                assert all(one != other for one, other in pairwise(domains))
            else:
                assert set(domains) == {dataset.domain}


def test_a_file_of_prompts_is_a_dataset_without_answers(tmp_path: Path) -> None:
    path = tmp_path / "mine.jsonl"
    path.write_text('{"prompt": "one"}\n{"prompt": "two"}\n')
    assert file_dataset(path, 1) == DataSet("mine", None, (Task("one"),))
    with pytest.raises(TraceError, match=r"missing\.jsonl"):
        file_dataset(tmp_path / "missing.jsonl")


def test_true_answers_are_right_and_wrong_ones_are_not() -> None:
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(zoo_path("target") / "tokenizer.json"))
    rng = random.Random("eval:1")
    requests = [sample_request(rng, phases, split="eval") for phases in (("math", "code"), ("law",), ("medical",))]
    truth = [(request, [*tokenizer.encode(request.answer_text).ids, EOS_ID]) for request in requests]
    assert task_accuracy(truth, tokenizer) == 1.0
    swapped = [*truth[:2], (requests[2], truth[1][1])]
    assert task_accuracy(swapped, tokenizer) == pytest.approx(3 / 4)


def test_agreement_is_the_share_of_common_tokens() -> None:
    assert agreement([1, 2, 3], [1, 2, 3]) == 1.0
    assert agreement([1, 2, 3, 4], [1, 2, 9, 3, 4]) == pytest.approx(8 / 9)
    assert agreement([1], [2]) == 0.0


def test_log_likelihoods_are_those_of_each_token_after_all_before_it() -> None:
    target, prompt, ids = ToyRunner(seed=4), [5, 6, 7], [8, 10, 9, 11]
    expected = [
        float(log_softmax(target.logits([*prompt, *ids[:i]]).double().numpy())[token]) for i, token in enumerate(ids)
    ]
    assert log_likelihoods(target, prompt, ids) == pytest.approx(expected, abs=1e-6)


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_comparison_holds_every_system_over_its_own_vanilla(anyio_backend: str) -> None:
    datasets = [each for each in zoo_datasets(1, num_items=(1,)) if each.name in ("law", "mixed")]
    systems = ("vanilla", "adasd", "target", "draft")
    report = await adasd.compare(
        Config(), datasets, policy=None, systems=systems, max_new_tokens=12, progress=lambda what, done, total: None
    )
    cells = [("law", "static:law"), ("mixed", "memspec"), ("mixed", "general-static")]
    assert [(row.dataset, row.policy, row.method) for row in report.rows] == [(*c, s) for c in cells for s in systems]
    for row in report.rows:
        base = next(
            each
            for each in report.rows
            if (each.dataset, each.policy, each.method) == (row.dataset, row.policy, "vanilla")
        )
        assert row.speedup == pytest.approx(row.tokens_per_second / base.tokens_per_second)
        assert row.lossless == (row.method in ("vanilla", "target"))
        if row.lossless:
            assert row.quality.agreement == 1.0 and row.departure_share == 0.0
    for system in systems:
        speedups = [row.speedup for row in report.rows if row.method == system and row.policy != "general-static"]
        assert report.geomean[system] == pytest.approx(math.prod(speedups) ** 0.5)
    assert report.with_memspec["general-static"]["vanilla"] == 1.0


def test_the_command_writes_the_figures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    prompts, out, picture = tmp_path / "mine.txt", tmp_path / "out.json", tmp_path / "out.png"
    prompts.write_text("measure 3 grums for Tolin\n")
    arguments = ["bench", "adasd", "--quick", "--policy", "static:math", "--max-new-tokens", "6"]
    assert main([*arguments, "--prompts", str(prompts), "--json", str(out), "--figure", str(picture)]) == 0
    figures = json.loads(out.read_text())
    assert set(figures["geomean"]) == {row["method"] for row in figures["rows"]} == set(adasd.SYSTEMS)
    assert {
        "dataset", "method", "tokens_per_second", "drafted_per_step", "accepted_per_step", "acceptance_rate", "speedup",
        "quality",
    } <= set(figures["rows"][0])  # fmt: skip
    assert set(figures["rows"][0]["quality"]) == {"task_accuracy", "log_likelihood", "agreement"}
    assert figures["rows"][0]["quality"]["task_accuracy"] is None
    assert {"versions", "threads", "dtype"} <= set(figures)
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert "adasd*" in capsys.readouterr().out
