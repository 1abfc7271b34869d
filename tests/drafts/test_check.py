"""A check tells of every draft whether it works, what it costs and what it gains."""

import json
import shutil
from pathlib import Path

import pytest

from memspec_actors import zoo
from memspec_actors.bench.zoo_quality import always, decode
from memspec_actors.drafts.check import CheckOptions, check_drafts
from memspec_actors.drafts.report import CheckReport
from memspec_actors.models.checkpoints.checkpoint import Checkpoint
from memspec_actors.models.devices.device import DeviceMemory
from memspec_actors.predictor.collect import open_tracer
from memspec_actors.predictor.prompts import Prompt, zoo_prompts
from tests.models.fake_device import FakeDevice

K, TOKENS = 5, 40


@pytest.fixture(scope="module")
def prompts() -> list[Prompt]:
    return [prompt for prompt in zoo_prompts("eval", 20, mixed_share=0.0) if prompt.kind in ("law", "code")][:4]


@pytest.fixture(scope="module")
def report(prompts: list[Prompt], tmp_path_factory: pytest.TempPathFactory) -> CheckReport:
    """Check a draft that works, one with another tokenizer, and one that is not there."""
    odd = tmp_path_factory.mktemp("odd") / "odd"
    shutil.copytree(zoo.path("code"), odd)
    tokenizer = json.loads((odd / "tokenizer.json").read_text())
    vocab = tokenizer["model"]["vocab"]
    first, second = (next(token for token, index in vocab.items() if index == wanted) for wanted in (700, 701))
    vocab[first], vocab[second] = 701, 700
    (odd / "tokenizer.json").write_text(json.dumps(tokenizer))
    drafts = {"law": zoo.path("law"), "code": zoo.path("code"), "odd": odd, "absent": odd / "absent"}
    return check_drafts(zoo.path("target"), drafts, prompts, CheckOptions(k=K, max_new_tokens=TOKENS))


def test_what_cannot_work_is_told_and_spoils_nothing_else(report: CheckReport) -> None:
    law, code, odd, absent = report.drafts
    assert law.problem is code.problem is None
    assert odd.problem is not None and "id 700" in odd.problem
    assert absent.problem is not None and "config.json" in absent.problem
    assert (odd.measured, absent.measured) == (None, None)
    assert not report.works


def test_acceptance_is_that_of_the_traces(report: CheckReport, prompts: list[Prompt]) -> None:
    """A draft would be bought or left for figures that decoding does not reach."""
    drafts = {name: zoo.path(name) for name in ("law", "code")}
    tracer, tokenizer = open_tracer(zoo.path("target"), drafts, K)
    chats = [[{"role": "user", "content": prompt.prompt}] for prompt in prompts]
    ids = [tokenizer.encode(tokenizer.apply_chat_template(chat), add_special_tokens=False) for chat in chats]
    traces = [tracer.trace(each, TOKENS, prompt.kind)[0] for each, prompt in zip(ids, prompts, strict=True)]
    for draft in report.drafts[:2]:
        assert draft.measured is not None
        runs = [decode(trace, always(draft.name)) for trace in traces]
        expected = sum(run.accepted for run in runs) / sum(run.iterations for run in runs)
        assert draft.measured.accepted["all"] == pytest.approx(expected)
        assert draft.measured.tokens_per_iteration == pytest.approx(expected + 1)
        own = [run for run, prompt in zip(runs, prompts, strict=True) if prompt.kind == "law"]
        law = sum(run.accepted for run in own) / sum(run.iterations for run in own)
        assert draft.measured.accepted["law"] == pytest.approx(law)


def test_loads_and_costs_are_measured(report: CheckReport) -> None:
    law = report.drafts[0]
    assert law.measured is not None and not law.load_estimated
    assert law.load_s == law.measured.load_s > 0
    assert law.measured.cost_ratio > 0
    assert law.file_nbytes == sum(entry.nbytes for entry in Checkpoint.open(zoo.path("law")).weights().values())


def test_without_weights_sizes_are_told_and_loads_estimated(tmp_path: Path) -> None:
    """Nobody could plan before a download."""
    for name in ("target", "law"):
        (tmp_path / name).mkdir()
        shutil.copy(zoo.path(name) / "config.json", tmp_path / name)
    options = CheckOptions(bytes_per_s=1e6)
    bare = check_drafts(tmp_path / "target", {"law": tmp_path / "law"}, [], options)
    full = check_drafts(zoo.path("target"), {"law": zoo.path("law")}, [], CheckOptions(plan_only=True))
    assert bare.plan == full.plan
    assert bare.works
    (law,) = bare.drafts
    assert (law.load_estimated, law.measured, law.num_common) == (True, None, None)
    assert law.load_s == pytest.approx((law.file_nbytes or 0) / 1e6)
    assert "tokenizers not compared: tokenizer.json is absent" in law.notes


def test_a_draft_beyond_the_budget_cannot_work() -> None:
    report = check_drafts(
        zoo.path("target"), {"law": zoo.path("law")}, [], CheckOptions(budget_bytes=10**5, plan_only=True)
    )
    assert not report.works
    assert report.drafts[0].problem is not None and "100000" in report.drafts[0].problem


def test_more_than_the_memory_does_not_work() -> None:
    """A plan that exceeds the device would be called a good one."""
    drafts = {name: zoo.path(name) for name in ("law", "code")}
    fits = check_drafts(zoo.path("target"), drafts, [], CheckOptions(memory_bytes=10**9, plan_only=True))
    assert (fits.works, fits.fitting_capacity) == (True, 2)
    tight = CheckOptions(memory_bytes=fits.total_bytes - 1, plan_only=True)
    assert (tight_report := check_drafts(zoo.path("target"), drafts, [], tight)).fitting_capacity == 1
    assert not tight_report.works


def test_a_device_that_is_not_there_is_planned_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody could plan on a laptop what is to run on a board."""
    monkeypatch.setattr("torch.cuda.device_count", lambda: 0)
    options = CheckOptions(device="cuda", dtype="bfloat16")
    report = check_drafts(zoo.path("target"), {"law": zoo.path("law")}, [], options)
    assert report.works
    assert (report.drafts[0].measured, report.memory_bytes) == (None, None)
    assert report.device_bytes == report.total_bytes - report.plan.base_bytes
    tight = CheckOptions(device="cuda", dtype="bfloat16", memory_bytes=report.device_bytes - 1)
    assert check_drafts(zoo.path("target"), {"law": zoo.path("law")}, [], tight).too_large


def test_on_a_device_drafts_are_measured_there(prompts: list[Prompt], monkeypatch: pytest.MonkeyPatch) -> None:
    """The CPU's figures would be printed as the device's."""
    device = FakeDevice(DeviceMemory(free=10**9, total=2 * 10**9))
    monkeypatch.setattr("memspec_actors.drafts.check.open_device", lambda name: device)
    options = CheckOptions(device="cuda", k=K, max_new_tokens=8)
    report = check_drafts(zoo.path("target"), {"law": zoo.path("law")}, prompts[:1], options)
    assert report.drafts[0].measured is not None
    assert (report.memory_bytes, report.works) == (10**9, True)
    assert device.num_copiers == 2  # one to load the target, one for the drafts
