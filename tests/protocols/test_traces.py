"""If these fail, other programs read other numbers in a trace's free runs than a replay goes by."""

import base64
import struct

import msgspec
import pytest

from memspec_actors.protocols.traces import FreeRun

RUN = FreeRun.of(7, [0.5, 0.1, 1.0], [0.25, 2.5, 0.0])


def test_a_run_is_little_endian_float32_in_base64() -> None:
    start, confidences, entropies = msgspec.json.decode(msgspec.json.encode(RUN))
    assert start == 7
    assert base64.b64decode(confidences) == struct.pack("<3f", 0.5, 0.1, 1.0)
    assert base64.b64decode(entropies) == struct.pack("<3f", 0.25, 2.5, 0.0)


def test_numbers_are_read_from_any_token_on_as_far_as_there_are_some() -> None:
    assert list(RUN.confidences_from(0, 2)) == pytest.approx([0.5, 0.1])
    assert list(RUN.confidences_from(1, 40)) == pytest.approx([0.1, 1.0])
    assert list(RUN.entropies_from(1, 1)) == [2.5]
    assert not RUN.entropies_from(3, 1)


def test_a_run_is_shortened_to_its_first_tokens() -> None:
    assert RUN.shortened(2) == FreeRun.of(7, [0.5, 0.1], [0.25, 2.5])
    assert RUN.shortened(9) == RUN and RUN.num_tokens == 3


@pytest.mark.parametrize("lacks", ["confidences", "entropies"])
@pytest.mark.parametrize("num_bytes", [1, 4])
def test_a_run_that_lacks_bytes_is_not_whole(lacks: str, num_bytes: int) -> None:
    assert RUN.is_whole
    assert not msgspec.structs.replace(RUN, **{lacks: getattr(RUN, lacks)[:-num_bytes]}).is_whole
    broken = FreeRun(7, RUN.confidences[:-1], RUN.entropies[:-1])
    assert not broken.is_whole
