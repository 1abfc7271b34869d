"""Other libraries' errors are quoted in one line."""

import pytest

from memspec_actors.errors import first_line


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
