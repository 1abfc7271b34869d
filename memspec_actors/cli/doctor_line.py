"""One line of what ``memspec doctor`` tells."""

from typing import Literal

import msgspec

__all__ = ["Check"]


class Check(msgspec.Struct, frozen=True):
    """One line: what was looked at, how it stands, and what to do if it is not ok."""

    name: str
    status: Literal["ok", "warn", "fail"]
    found: str
    advice: str = ""
