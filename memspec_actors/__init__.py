"""Speculative decoding with more drafts than fast memory holds: keep the right ones resident, never wait for any."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from memspec_actors.config import Config
    from memspec_actors.engine import MemSpec
    from memspec_actors.errors import MemSpecError
    from memspec_actors.protocols.requests import SamplingParams
    from memspec_actors.stream import TextStream

__version__ = "0.1.0"

__all__ = ["Config", "MemSpec", "MemSpecError", "SamplingParams", "TextStream", "__version__"]

_HOMES = {
    "Config": "config",
    "MemSpec": "engine",  # brings torch in
    "MemSpecError": "errors",
    "SamplingParams": "protocols.requests",
    "TextStream": "stream",
}


def __getattr__(name: str) -> object:
    """Import a public name when somebody asks for it, so that the command line starts at once."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
