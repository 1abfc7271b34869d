"""The command as a process: exit codes, one-line errors, and how little ``--help`` costs."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from memspec_actors.cli import main
from memspec_actors.errors import ActorDied, ConfigError

MEMSPEC = "import sys; from memspec_actors.cli import main; sys.exit(main())"


def memspec(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {key: value for key, value in os.environ.items() if key != "MEMSPEC_DEBUG"} | variables
    command = [sys.executable, "-c", MEMSPEC, *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120, check=False)


def test_help_lists_commands_and_imports_nothing_heavy() -> None:
    """With torch on the way, ``--help`` would take seconds."""
    code = MEMSPEC.replace("sys.exit(main())", "main(); print(*sorted(sys.modules), file=sys.stderr)")
    for arguments in (["--help"], ["run", "--help"], ["--version"]):
        outcome = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True)
        loaded = set(outcome.stderr.split())
        assert loaded & {"torch", "transformers", "scipy", "numpy", "rich.console", "structlog", "anyio"} == set()
        assert "memspec_actors.cli.app" in loaded
        if arguments == ["--help"]:
            assert {"run", "config", "doctor", "zoo", "predictor"} <= set(outcome.stdout.split())


@pytest.mark.parametrize("group", [[], ["bench"], ["config"], ["drafts"], ["events"], ["predictor"], ["zoo"]])
def test_what_a_command_does_is_said_to_the_end(group: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Cut off in mid-sentence it leaves a newcomer guessing."""
    assert main([*group, "--help"]) == 0
    listed = capsys.readouterr().out.partition("Commands:")[2]
    assert listed
    assert "..." not in listed


@pytest.mark.parametrize("command", [[], ["run"], ["events"], ["events", "tail"]])
def test_short_option_shows_the_same_help(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Who tries ``-h`` first would be told that there is no such option."""
    assert main([*command, "--help"]) == 0
    shown = capsys.readouterr().out
    assert main([*command, "-h"]) == 0
    assert capsys.readouterr().out == shown


def test_version_is_the_distributions() -> None:
    from importlib.metadata import version

    assert memspec("--version").stdout == f"memspec {version('memspec-actors')}\n"


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ([], "memspec --help"),
        (["rum"], "'run'"),
        (["--colour"], "--colour"),
        (["run", "--top-k", "many"], "--top-k"),
        (["run", "a", "b"], "memspec run --help"),
        (["config"], "memspec config --help"),
        (["config", "show", "--config", "/no/such.toml"], "/no/such.toml"),
    ],
)
def test_bad_use_is_one_line_and_exit_code_2(
    arguments: list[str], named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith("memspec: error: ")
    assert output.err.count("\n") == 1
    assert named in output.err


def test_letters_that_a_terminal_lacks_do_not_end_a_text() -> None:
    """A model may write any; the command would end in the middle of what it shows."""
    code = "import sys; from memspec_actors.cli import main; main(['--version']); sys.stdout.write('caf\u00e9')"
    environment = os.environ | {"PYTHONIOENCODING": "ascii"}
    outcome = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False)
    assert (outcome.returncode, outcome.stdout.splitlines()[1:], outcome.stderr) == (0, ["caf?"], "")


def test_exit_code_leaves_the_process() -> None:
    outcome = memspec("config", "show", "--config", "/no/such.toml")
    assert (outcome.returncode, outcome.stdout) == (2, "")
    assert outcome.stderr == "memspec: error: /no/such.toml: cannot be read: No such file or directory\n"


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (ConfigError("key is wrong"), 2, "memspec: error: key is wrong\n"),
        (ActorDied("the\n  loader died"), 1, "memspec: error: the loader died\n"),
        (KeyboardInterrupt(), 130, ""),
        (
            ZeroDivisionError("by zero"),
            1,
            "memspec: error: unexpected ZeroDivisionError: by zero; run with --debug to see where\n",
        ),
        (
            FileExistsError(17, "File exists", "out"),
            2,
            "memspec: error: out: File exists; give another path\n",
        ),
        (OSError(28, "No space left"), 1, "memspec: error: No space left; put that right and run the same again\n"),
        (ExceptionGroup("tasks", [ConfigError("key is wrong")]), 2, "memspec: error: key is wrong\n"),
        (ExceptionGroup("tasks", [ExceptionGroup("more", [ActorDied("dead")])]), 1, "memspec: error: dead\n"),
    ],
)
def test_errors_become_exit_codes(
    error: BaseException, code: int, line: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever a command raises ends in one line and the code that scripts rely on."""

    def fail() -> None:
        raise error

    monkeypatch.setattr("memspec_actors.config.Config", fail)
    assert main(["config", "show"]) == code
    assert capsys.readouterr().err == line


@pytest.mark.parametrize(("options", "variables"), [(["--debug"], {}), ([], {"MEMSPEC_DEBUG": "1"})])
def test_debug_shows_the_traceback(options: list[str], variables: dict[str, str]) -> None:
    outcome = memspec(*options, "config", "show", "--config", "/no/such.toml", **variables)
    assert outcome.returncode == 2
    assert "Traceback" in outcome.stderr
    assert outcome.stderr.splitlines()[-1].startswith("memspec: error: /no/such.toml")


def test_closed_pipe_is_quiet(tmp_path: Path) -> None:
    """``memspec config show | head -1`` must not end in a traceback."""
    read_end, write_end = os.pipe()
    os.close(read_end)
    with os.fdopen(write_end, "w") as stdout:
        outcome = subprocess.run(
            [sys.executable, "-c", MEMSPEC, "config", "show"],
            stdout=stdout,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert (outcome.returncode, outcome.stderr) == (1, "")


@pytest.mark.parametrize(("closed", "code"), [(">&-", 0), ("2>&-", 0), ("<&- >&- 2>&-", 0), ("--wrong 2>&-", 2)])
def test_a_process_without_standard_streams_does_its_work(closed: str, code: int) -> None:
    """Under some init systems and cron jobs there are none: it would crash, or write into its own log."""
    script = f'"$0" -c "$1" config show {closed}'
    outcome = subprocess.run(["sh", "-c", script, sys.executable, MEMSPEC], capture_output=True, text=True, check=False)
    assert (outcome.returncode, outcome.stderr) == (code, "")
