"""The ``memspec`` command."""

from memspec_actors.cli.main import main

__all__ = ["main"]
