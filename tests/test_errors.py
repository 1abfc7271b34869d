"""The tree of errors is what is drawn, and other libraries' errors are quoted in one line."""

import inspect

import pytest

from memspec_actors import errors
from memspec_actors.errors import MemSpecError, first_line


def test_the_tree_is_drawn_as_it_is() -> None:
    """Who catches a family of errors by the drawing would miss some, or wait for one that is gone."""
    branches: list[str] = []
    drawn: dict[str, str] = {}
    for line in (errors.__doc__ or "").splitlines():
        name = line.lstrip(" │├└─").split(" ")[0]
        if name not in errors.__all__:
            continue
        depth = line.index(name) // 4 - 1  # each level is four columns wide, like the margin
        branches[depth:] = [name]
        drawn[name] = branches[depth - 1] if depth else "Exception"
    classes = [each for _, each in inspect.getmembers(errors, inspect.isclass) if issubclass(each, MemSpecError)]
    assert drawn == {each.__name__: each.__mro__[1].__name__ for each in classes}


@pytest.mark.parametrize(
    ("error", "quoted"),
    [
        (ValueError("one line"), "one line"),
        (RuntimeError("what happened\n  where\n"), "what happened"),
        (RuntimeError("\n \nafter blank lines"), "after blank lines"),
        (KeyboardInterrupt(), "KeyboardInterrupt"),
        (OSError("\n"), "OSError"),
    ],
)
def test_an_error_of_any_length_is_quoted_in_one_line(error: BaseException, quoted: str) -> None:
    """A message of ours would break over lines, or end in a colon with nothing behind it."""
    assert first_line(error) == quoted
