"""How a domain is written down: its coined entities, their facts, and the tasks that ask for them."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

__all__ = ["Domain", "Task", "words"]


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of request line and the answer it deserves.

    `verbs` start the line and are unique in the whole world, so that a verb names its line. `title` and `sentences` are
    format strings over `verb`, `entity`, `name`, `number`, the domain's facts and computed values. Every sentence has
    alternative wordings; which one an entity uses is one more fact about it. `numbers` is the closed range of `number`.
    """

    verbs: tuple[str, ...]
    title: str
    sentences: tuple[tuple[str, ...], ...]
    joiner: str = " "
    numbers: tuple[int, int] | None = None


class Domain(msgspec.Struct, frozen=True, kw_only=True):
    """A subject: how its entities are coined, which facts each has, and its tasks.

    `facts` maps a fact to the values it may take. A template may also name `fact2` for a second, different value of the
    same list. `endings` are the last syllables of coined entity names; `capital` says whether they are proper nouns.
    """

    name: str
    endings: tuple[str, ...]
    capital: bool
    facts: Mapping[str, tuple[str, ...]]
    tasks: tuple[Task, ...]


def words(text: str) -> tuple[str, ...]:
    """Split a blank-separated list of values."""
    return tuple(text.split())
