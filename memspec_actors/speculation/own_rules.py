"""Rules of a user's own, named ``module:Class`` where the name of a rule is expected."""

from importlib import import_module
from typing import Any

from memspec_actors.errors import ConfigError

__all__ = ["own_rule"]


def own_rule(what: str, spec: str, *arguments: object) -> Any:
    """Make an object of the class that ``module:Class`` names; None for a spec of another form.

    Raises ConfigError, naming ``what`` it was given for, if the module cannot be imported or has no such class, if that
    takes other ``arguments``, or if either fails.
    """
    module_name, _, class_name = spec.partition(":")
    if not class_name.isidentifier() or not all(part.isidentifier() for part in module_name.split(".")):
        return None
    try:
        rule = getattr(import_module(module_name), class_name)
    except (ImportError, AttributeError) as error:
        raise ConfigError(
            f"{what} is {spec!r}, but {error}; name a class as module:Class, in a module that Python can import"
        ) from error
    except Exception as error:
        raise ConfigError(f"{what} is {spec!r}, but its module fails: {type(error).__name__}: {error}") from error
    try:
        return rule(*arguments)
    except TypeError as error:
        raise ConfigError(f"{what} is {spec!r}, but that makes no {what} rule: {error}") from error
    except Exception as error:
        raise ConfigError(f"{what} is {spec!r}, but that fails: {type(error).__name__}: {error}") from error
