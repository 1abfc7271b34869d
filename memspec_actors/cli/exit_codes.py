"""The way out: exit codes, and one line on standard error for everything that went wrong."""

import os
import sys
import traceback
from collections.abc import Callable
from typing import cast

import typer

from memspec_actors.errors import MemSpecError, UsageError

__all__ = ["DEBUG_VARIABLE", "exit_code_of"]

DEBUG_VARIABLE = "MEMSPEC_DEBUG"

# Newer versions of typer carry click inside them, under no public name.
_CommandLineError = cast(type[Exception], typer.BadParameter.__base__)

FAILURE, BAD_USE, INTERRUPTED = 1, 2, 130


def exit_code_of(work: Callable[[], object]) -> int:
    """Do some work and return the exit code that it ends in: a number that it returns itself, else 0.

    What goes wrong ends in one line and 1, bad use or input in one line and 2, an interrupt in 130. MEMSPEC_DEBUG=1
    shows tracebacks.
    """
    try:
        code = work()
        sys.stdout.flush()
    except (Exception, BaseExceptionGroup, KeyboardInterrupt) as error:  # noqa: BLE001 - all end in an exit code
        return _exit_code(_cause(error))
    return code if isinstance(code, int) else 0


def _exit_code(error: BaseException) -> int:
    match error:
        case KeyboardInterrupt() | typer.Abort():
            return INTERRUPTED
        case BrokenPipeError():
            return _closed_pipe()
        case UsageError():
            return _report(str(error), BAD_USE)
        case MemSpecError():
            return _report(str(error), FAILURE)
        case _CommandLineError():
            return _report(_with_help(error), BAD_USE)
        case OSError(filename=str() | bytes() | os.PathLike()):
            return _report(f"{os.fsdecode(error.filename)}: {error.strerror}; give another path", BAD_USE)
        case OSError(strerror=str()):
            return _report(f"{error.strerror}; put that right and run the same again", FAILURE)
    return _report(f"unexpected {type(error).__name__}: {error}; run with --debug to see where", FAILURE)


def _cause(error: BaseException) -> BaseException:
    """Find in what tasks raised together the error that says most."""
    if not isinstance(error, BaseExceptionGroup):
        return error
    causes = [_cause(each) for each in error.exceptions]
    return next((cause for cause in causes if isinstance(cause, MemSpecError)), causes[0])


def _report(message: str, code: int) -> int:
    if os.environ.get(DEBUG_VARIABLE) == "1":
        traceback.print_exc()
    sys.stderr.write(f"memspec: error: {' '.join(message.split())}\n")
    return code


def _with_help(error: BaseException) -> str:
    message = str(getattr(error, "format_message", error.__str__)()).rstrip(".")
    context = getattr(error, "ctx", None)
    return f"{message} (see {context.command_path} --help)" if context else message


def _closed_pipe() -> int:
    # The reader of our output has gone, as in `memspec zoo list | head -1`. Python would complain again at exit.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return FAILURE
