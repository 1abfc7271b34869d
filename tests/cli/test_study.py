"""The scripts of ``bench/`` end as `memspec` does, and begin nothing that cannot be kept."""

import sys
from argparse import Namespace

import pytest

from memspec_actors.cli.study import Measured, at_least_one, run_study
from memspec_actors.config import Config
from memspec_actors.errors import TraceError
from memspec_actors.progress import Progress


def ending(monkeypatch: pytest.MonkeyPatch, arguments: list[str], error: BaseException) -> object:
    """Return the exit code of a study that is run with these arguments and ends in an error."""

    def measure(config: Config, arguments: Namespace, progress: Progress) -> Measured:
        raise error

    monkeypatch.setattr(sys, "argv", ["bench/study.py", *arguments])
    with pytest.raises(SystemExit) as end:
        run_study("A claim.", measure, lambda parser: parser.add_argument("--prompts", type=at_least_one))
    return end.value.code


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (TraceError("the trace is torn"), 2, "memspec: error: the trace is torn\n"),
        (KeyboardInterrupt(), 130, ""),
        (OSError(28, "No space left"), 1, "memspec: error: No space left; put that right and run the same again\n"),
    ],
)
def test_what_goes_wrong_ends_in_one_line(
    error: BaseException,
    code: int,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A traceback says neither what is wrong nor what to do."""
    assert ending(monkeypatch, [], error) == code
    assert capsys.readouterr().err == said


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--config", "absent.toml"], "absent.toml"),
        (["--json", "taken/finding.json"], "taken"),
        (["--prompts", "-2"], "-2 is below 1"),
        (["--prompts", "few"], "few"),
    ],
)
@pytest.mark.usefixtures("untouched")
def test_bad_use_is_found_before_the_work(
    arguments: list[str], said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What an hour has measured would be lost."""
    assert ending(monkeypatch, arguments, AssertionError("the work has begun")) == 2
    assert said in capsys.readouterr().err.splitlines()[-1]
