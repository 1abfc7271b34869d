"""``memspec simulate``: from a trace file to figures and plans, at the command line."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from rich.console import Console

from memspec_actors.cli import main
from memspec_actors.predictor.traces import TraceReader, open_trace_writer
from memspec_actors.protocols.traces import TraceHeader
from memspec_actors.scheduling.plans import read_plans
from tests.simulation.toys import Toys

NAMES = ("general", "law", "general-strict")


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two toy texts: "law" is nearly always right, "general" seldom, the strict general draft now and then."""
    path = tmp_path_factory.mktemp("traces") / "toys.trace"
    texts = [Toys(seed=seed, rates=[0.6, 0.02, 0.3], max_new_tokens=60, k=5, eos_ids=frozenset()) for seed in (1, 2)]
    traced = [toys.trace(free_runs=True) for toys in texts]
    with open_trace_writer(path, _renamed_header(traced[0][0])) as writer:
        for _, record in traced:
            runs, entropies = list(record.accepted.values()), list(record.entropies.values())
            assert record.free_runs is not None
            free_runs = list(record.free_runs.values())
            writer.write(
                msgspec.structs.replace(
                    record,
                    kind="law",
                    accepted=dict(zip(NAMES, runs, strict=True)),
                    entropies=dict(zip(NAMES, entropies, strict=True)),
                    free_runs=dict(zip(NAMES, free_runs, strict=True)),
                )
            )
    return path


def _renamed_header(header: TraceHeader) -> TraceHeader:
    drafts, nbytes = {name: name for name in NAMES}, dict.fromkeys(NAMES, 640)
    return msgspec.structs.replace(header, drafts=drafts, draft_nbytes=nbytes)


def _run(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    assert main(["simulate", *arguments, "--json"]) == 0
    return msgspec.json.decode(capsys.readouterr().out)


def test_json_has_the_figures_of_bench_policies(traces: Path, capsys: pytest.CaptureFixture[str]) -> None:
    policies = ["oracle-static", "mab-async", "oracle-dynamic"]
    figures = _run(capsys, "--traces", str(traces), *_each("--policy", policies))
    assert figures["load_ratio"] == pytest.approx(2.7)
    assert figures["emulated_storage"] is True
    assert {"versions", "threads", "dtype", "emulated", "device", "source"} <= set(figures)
    assert set(figures["geomean"]) == {"general-static", "static:general-strict", *policies}
    assert figures["geomean"]["general-static"] == 1.0
    assert figures["geomean"]["oracle-static"] > 1.1
    assert figures["geomean"]["oracle-dynamic"] >= figures["geomean"]["oracle-static"] - 0.02
    assert figures["geomean_strict"]["static:general-strict"] == 1.0
    row = next(row for row in figures["rows"] if row["policy"] == "mab-async")
    assert row["dataset"] == "law"
    assert {"tokens_per_second", "normalized", "share", "switches", "loads"} <= set(row)
    assert sum(row["share"].values()) == pytest.approx(1.0)


def test_figures_fit_a_narrow_terminal(
    traces: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cut off at 80 columns, a gain of 1.0… says nothing."""
    monkeypatch.setattr("memspec_actors.cli.policy_table.wide_console", lambda: Console(width=80))
    assert main(["simulate", "--traces", str(traces), "--limit", "1", "--policy", "mab-async"]) == 0
    out = capsys.readouterr().out
    speeds, shares = out.split("share of decode time")
    figures = _run(capsys, "--traces", str(traces), "--limit", "1", "--policy", "mab-async")
    assert "…" not in out
    for policy in ("general-static", "mab-async", "static:general-strict"):
        (line,) = (each for each in speeds.splitlines() if each.startswith(policy))
        gains = [f"{figures[name][policy]:.3f}" for name in ("steady", "steady_strict", "geomean", "latency")]
        assert line.split()[1:5] == gains
        (line,) = (each for each in shares.splitlines() if each.startswith(policy))
        (row,) = (each for each in figures["rows"] if each["policy"] == policy)
        kinds = ("desired", "fallback", "target_only", "catch_up", "prediction", "waited")
        assert line.split()[1:] == [f"{row['share'][kind]:.1%}" for kind in kinds]


def test_drafts_stop_by_the_rule_that_is_asked_for(traces: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A draft that is nearly always right is drafted on with, beyond five tokens."""
    policies = _each("--policy", ["oracle-static", "domain-oracle"])
    five = _run(capsys, "--traces", str(traces), *policies)
    same = _run(capsys, "--traces", str(traces), *policies, "--stop", "fixed:5")
    grows = _run(capsys, "--traces", str(traces), *policies, "--stop", "heuristic")
    gain = _run(capsys, "--traces", str(traces), *policies, "--stop", "gain")
    assert (five["stop"], same["stop"], grows["stop"], gain["stop"]) == ("fixed:5", "fixed:5", "heuristic", "gain")
    assert same == five
    assert _tokens_per_iteration(grows, "oracle-static") > 6 > _tokens_per_iteration(five, "oracle-static")
    assert _tokens_per_iteration(gain, "oracle-static") != _tokens_per_iteration(five, "oracle-static")


def test_oracle_dynamic_is_left_out_where_drafts_vary_in_length(
    traces: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--traces", str(traces), "--limit", "1", "--max-new-tokens", "20", "--stop"]
    assert "oracle-dynamic" in _run(capsys, *arguments, "fixed:2")["geomean"]
    gain = _run(capsys, *arguments, "gain")["geomean"]
    assert {"memspec", "memspec+", "domain-oracle"} <= set(gain)
    assert "oracle-dynamic" not in gain


def test_a_trace_without_free_runs_says_how_to_collect_them(
    traces: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    reader = TraceReader(traces)
    with open_trace_writer(tmp_path / "t", reader.header) as writer:
        for record in reader:
            writer.write(msgspec.structs.replace(record, free_runs=None))
    arguments = ["--traces", str(tmp_path / "t"), "--policy", "oracle-static", "--max-new-tokens", "20"]
    assert _run(capsys, *arguments, "--stop", "heuristic")["stop"] == "heuristic"
    assert main(["simulate", *arguments, "--stop", "entropy"]) == 2
    assert "memspec predictor collect --free-runs" in capsys.readouterr().err


def test_a_predictor_trained_for_other_weights_is_noted(traces: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The embedded predictor knows drafts of these names, but not these: its figures are not the policy's."""
    arguments = ["simulate", "--traces", str(traces), "--limit", "1", "--max-new-tokens", "20", "--json", "--policy"]
    assert main([*arguments, "mab-async"]) == 0
    assert not caplog.messages
    assert main([*arguments, "memspec", "--policy", "memspec+"]) == 0
    (noted,) = caplog.messages
    assert noted.startswith("the trace is of other weights of the target, draft 'general', draft 'law' than the pred")


def test_plans_are_written_for_an_oracle(traces: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "plans"
    options = ["--policy", "oracle-static", "--write-plan", str(path), "--capacity", "1", "--interval", "3"]
    assert main(["simulate", "--traces", str(traces), *options]) == 0
    plans = read_plans(path)["oracle-static"]
    assert (plans.header.policy, plans.header.capacity, plans.header.interval) == ("oracle-static", 1, 3)
    assert {plan.steps[0].order for plan in plans.by_prompt.values()} == {("law",)}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--profile", "pi"], "jetson-orin-nano"),
        (["--policy", "memspek"], "memspec"),
        (["--capacity", "0"], "capacity"),
        (["--interval", "0"], "interval"),
        (["--max-new-tokens", "0"], "max-new-tokens"),
        (["--limit", "0"], "--limit"),
        (["--write-plan", "no/such/place"], "no/such"),
        (["--stop", "gian"], "did you mean 'gain'"),
        (["--stop", "gain", "--policy", "oracle-dynamic"], "fixed:K"),
        (["--stop", "tests.simulation.toys:Toys"], "stop rule"),
        (["--write-plan", "p"], "one oracle"),
        (["--write-plan", "p", "--policy", "memspec"], "oracle"),
    ],
)
def test_bad_use_is_one_line(
    traces: Path, capsys: pytest.CaptureFixture[str], arguments: Sequence[str], said: str
) -> None:
    assert main(["simulate", "--traces", str(traces), *arguments]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


def _tokens_per_iteration(figures: Any, policy: str) -> float:
    (row,) = [row for row in figures["rows"] if row["policy"] == policy]
    return float(row["tokens_per_iteration"])


def _each(option: str, values: Sequence[str]) -> list[str]:
    return [word for value in values for word in (option, value)]
