"""Those who only look on: they are told, and no error of theirs stops what they look at."""

import logging
from collections.abc import Callable
from typing import TypeVarTuple

__all__ = ["show"]

Ts = TypeVarTuple("Ts")

_log = logging.getLogger(__name__)


def show(onlooker: Callable[[*Ts], object], *args: *Ts) -> None:
    """Call an onlooker; an exception that it raises is logged, and that is all."""
    try:
        onlooker(*args)
    except Exception:  # noqa: BLE001 - it is logged, and whoever only looks on must not stop the rest
        _log.exception("an observer failed on %r", args)
