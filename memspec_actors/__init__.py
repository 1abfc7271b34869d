"""Speculative decoding with more drafts than fast memory holds: keep the right ones resident, never wait for any."""

from typing import TYPE_CHECKING

from memspec_actors.config import Config
from memspec_actors.errors import MemSpecError
from memspec_actors.protocols.requests import SamplingParams

if TYPE_CHECKING:
    from memspec_actors.engine import MemSpec
    from memspec_actors.stream import TextStream

__version__ = "0.1.0"

__all__ = ["Config", "MemSpec", "MemSpecError", "SamplingParams", "TextStream", "__version__"]


def __getattr__(name: str) -> object:
    # torch comes in with the engine, and only when somebody asks for it
    if name == "MemSpec":
        from memspec_actors.engine import MemSpec

        return MemSpec
    if name == "TextStream":
        from memspec_actors.stream import TextStream

        return TextStream
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
