"""The embedded models: a target, drafts for five domains, and how they are built.

Each module imports only from the lines above its own. The world that they know:

    domain                                          how a domain is written down
    domain_general, domain_code, domain_math        three of the five
    domain_law, domain_medical                      the other two
    world                                           requests of all five, and their answers
    tokenizer                                       the one tokenizer of all models

From nothing to model directories:

    network                                         a small Llama network, as it is trained
    induction                                       the copying circuit that it starts with
    checkpoint, generation, quality                 networks as directories; greedy text; whether answers are right
    batches                                         training batches
    training                                        one network's training
    distill                                         a target's answers, for drafts to learn from
    build                                           all models, stage by stage
"""

from __future__ import annotations

from pathlib import Path

from memspec_actors.errors import CheckpointError

_WEIGHTS = Path(__file__).parent / "weights"

__all__ = ["names", "path"]


def names() -> tuple[str, ...]:
    """List the embedded models that are installed, in alphabetical order."""
    if not _WEIGHTS.is_dir():
        return ()
    return tuple(sorted(entry.name for entry in _WEIGHTS.iterdir() if (entry / "config.json").is_file()))


def path(name: str) -> Path:
    """Give the Hugging Face directory of the embedded model `name`.

    Raises CheckpointError, naming the known ones, if there is no such model.
    """
    if name not in names():
        known = ", ".join(names()) or "none: build them with `memspec zoo build`"
        raise CheckpointError(f"no embedded model is called {name!r}; known: {known}")
    return _WEIGHTS / name
