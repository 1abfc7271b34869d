"""The way in."""

import atexit
import gc
import os
import signal
import sys
from collections.abc import Sequence
from functools import partial
from io import TextIOWrapper
from pathlib import Path

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run ``memspec`` with ``arguments`` (the process's own by default) and return its exit code.

    They are those of `exit_code_of`. ``--debug`` shows tracebacks.
    """
    try:  # to import the commands takes long enough to be interrupted
        from memspec_actors.cli.app import app
        from memspec_actors.cli.exit_codes import exit_code_of
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    _replace_closed_streams()
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a letter that a terminal lacks is no reason to end a text
    atexit.register(gc.freeze)  # or the interpreter looks at all of torch's objects once more: it exits 3 times later
    return exit_code_of(partial(app, arguments, prog_name="memspec", standalone_mode=False))


def _replace_closed_streams() -> None:
    """Give the process the standard streams that it was started without, as by ``>&-``: they lead nowhere.

    Else what is opened next, a log or a connection, would come to stand in their places.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115 - it stays open
