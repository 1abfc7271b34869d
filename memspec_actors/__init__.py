"""Speculative decoding with more drafts than fast memory holds: keep the right ones resident, never wait for any.

What it is made of, each importing only from the lines above its own:

    errors, protocols, progress, cores          what goes wrong, what is said, how far work is, how many cores there are
    paths, quantities, config_file, hub         what people write: paths, sizes, TOML, ids on the Hugging Face hub
    output_files                                what people ask to be written
    runtime, speculation, scheduling, zoo       actors; one iteration's maths; which drafts to keep; embedded models
    models, telemetry                           weights, caches, runners, text; the event log, written and read
    predictor, prompts, config_sections         ranking drafts; a prompt's ids; the keys of memspec.toml
    config                                      what an engine is built from
    actors, methods, loadout                    the five actors; whole systems by name; opening what is configured
    wiring, stream                              who tells whom; what the caller holds of a generation
    sessions, resolution, engine_records        a request's decoding, its rules; what is logged of the engine itself
    admission, assembly                         what callers ask for, made a request; what the actors work with
    engine, comparison                          the public API; policies by what their generations report
    simulation                                  the engine in virtual time
    drafts, bench, daemon                       checking and making drafts; the papers' claims; HTTP
    cli                                         the `memspec` command
"""

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
