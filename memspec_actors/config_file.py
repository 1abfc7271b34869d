"""Decode a TOML file of sections strictly: what is unknown or of the wrong type is refused by section and key."""

import re
import tomllib
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path
from types import NoneType
from typing import Any, TypeVar, cast, get_args

import msgspec

from memspec_actors.errors import ConfigError

__all__ = ["decode"]

_Document = TypeVar("_Document", bound=msgspec.Struct)
_AT = re.compile(
    r"(?P<complaint>.*) - at `\$\.(?P<section>\w+)(?:\[(?P<index>\d+)\])?(?:\.(?P<key>\w+))?.*`", re.DOTALL
)


def decode(path: Path, document: type[_Document]) -> _Document:
    """Read ``path`` as a ``document``, a struct whose fields are section structs or tuples of them.

    Raises ConfigError whose message does not name the file yet.
    """
    data = _parse(path)
    _refuse_unknown_keys(data, document)
    try:
        return msgspec.convert(data, document)
    except msgspec.ValidationError as error:
        raise ConfigError(_explain(str(error), data, document)) from error


def _parse(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            return tomllib.load(file)
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:  # an integer of thousands of digits, thousands of brackets
        raise ConfigError(f"is not valid TOML: {error}") from error


def _refuse_unknown_keys(data: dict[str, Any], document: type[msgspec.Struct]) -> None:
    for section, value in data.items():
        if section not in document.__struct_fields__:
            raise ConfigError(f"unknown section or key {section!r}; {_nearest(section, document.__struct_fields__)}")
        known = _section_type(document, section).__struct_fields__
        for table in value if isinstance(value, list) else [value]:
            for key in table if isinstance(table, dict) else ():
                if key not in known:
                    raise ConfigError(f"unknown key {key!r} in {_header(section, value)}; {_nearest(key, known)}")


def _nearest(word: str, known: Iterable[str]) -> str:
    close = get_close_matches(word, known, n=1)
    return f"did you mean {close[0]!r}?" if close else f"known are {', '.join(known)}"


def _section_type(document: type[msgspec.Struct], section: str) -> type[msgspec.Struct]:
    annotation = next(field.type for field in msgspec.structs.fields(document) if field.name == section)
    return cast(type[msgspec.Struct], (get_args(annotation) or (annotation,))[0])


def _header(section: str, value: object) -> str:
    return f"[[{section}]]" if isinstance(value, list) else f"[{section}]"


def _choices(annotation: object) -> list[Any]:
    """List the values of a Literal, beside None or not; or the types that a union is of."""
    alternatives = [each for each in get_args(annotation) if each is not NoneType]
    return [choice for each in alternatives for choice in get_args(each) or (each,)]


def _explain(message: str, data: dict[str, Any], document: type[msgspec.Struct]) -> str:
    """Turn msgspec's ``Expected `int`, got `str` - at `$.memory.capacity` `` into one about ``[memory] capacity``."""
    at = _AT.fullmatch(message)
    if at is None:
        return message
    section, index, key = at["section"], at["index"], at["key"]
    value: Any = data[section]
    place = _header(section, value)
    expectation = at["complaint"].replace("`", "").replace("Expected", "expected").replace("Object m", "m")
    if index:
        value = value[int(index)]
        place += f" number {int(index) + 1}"
    if key:
        value = value[key]
        place += f" {key}"
        choices = _choices(_section_type(document, section).__annotations__[key])
        if value not in choices and all(isinstance(choice, str) for choice in choices):
            expectation = f"expected one of {', '.join(choices)}" if choices else expectation
    return f"{place} is {value!r}: {expectation}"
