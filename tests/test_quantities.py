"""Sizes and rates as people write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memspec_actors.errors import ConfigError
from memspec_actors.quantities import parse_bandwidth, parse_bytes


@pytest.mark.parametrize(
    ("text", "num_bytes"),
    [
        ("1", 1),
        (1, 1),
        (123456, 123456),
        ("7B", 7),
        ("500MB", 500_000_000),
        ("500 mb", 500_000_000),
        ("1.2GiB", 1_288_490_188),
        ("0.5KiB", 512),
        ("2k", 2000),
        ("3TB", 3 * 10**12),
        ("3TiB", 3 * 2**40),
    ],
)
def test_sizes(text: str | int, num_bytes: int) -> None:
    """A budget or a rotation size would be another than the one written."""
    assert parse_bytes(text) == num_bytes


@pytest.mark.parametrize("text", ["", "MB", "-1", -1, "1.2.3GB", "1e3", "12 PB", "1GiBs", "0.1", "0", 0, "½GB", "١MB"])
def test_no_sizes(text: str | int) -> None:
    """A mistyped size would be taken for some other one, or the message would not say which key is wrong."""
    with pytest.raises(ConfigError, match=r"\[memory\] budget"):
        parse_bytes(text, "[memory] budget")


@given(st.integers(1, 2**53))
def test_plain_numbers_are_bytes(num_bytes: int) -> None:
    """Large sizes would be rounded on their way through a float."""
    assert parse_bytes(num_bytes) == parse_bytes(str(num_bytes)) == num_bytes


def test_bandwidths() -> None:
    """Storage would be throttled to another speed than the one written."""
    assert parse_bandwidth("200MB/s") == 200e6
    assert parse_bandwidth("1.5 GiB / s") == 1.5 * 2**30
    for text in ("200MB", "200MB/h", "fast", "/s", "0/s", "200MB/s/s"):
        with pytest.raises(ConfigError, match="bandwidth"):
            parse_bandwidth(text)
