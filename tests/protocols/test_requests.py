"""What a caller may ask for."""

from typing import Any

import pytest

from memspec_actors.protocols.requests import SamplingParams

NAN = float("nan")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("temperature", value) for value in (-0.1, NAN, float("inf"), "1", None, True)),
        *(("top_k", value) for value in (-1, 2.5, NAN, "2", None)),
        *(("top_p", value) for value in (0.0, 1.5, NAN, "0.5", None)),
        *(("min_p", value) for value in (-0.1, 1.5, NAN, "0.5", None)),
        *(("seed", value) for value in (-1, 2**63, 1.5, "1", True)),
        *(("stop", value) for value in ("END", ("",), (1,), 5, None, ("\udc80",), ("a\ud800b",))),
        *(("stop_token_ids", value) for value in (5, ("5",), (5.0,), None)),
        *(("min_tokens", value) for value in (-1, 1.5, None)),
        *(("presence_penalty", value) for value in (1e308, -101, NAN, "1", None)),
        *(("frequency_penalty", value) for value in (1e308, -101, NAN, "1", None)),
        *(("repetition_penalty", value) for value in (0.0, 1e-300, 101, NAN, "1", None)),
        *(("logit_bias", value) for value in ({"1": 1.0}, {1: NAN}, {1: 1e308}, [1], None)),
        *(("logprobs", value) for value in (-1, 21, True, 1.5)),
    ],
)
def test_what_cannot_be_used_is_refused_by_name(name: str, value: Any) -> None:
    """A filter of a wrong type would crash the Decoder; ``stop="END"`` would end the text at the first "E"."""
    with pytest.raises(ValueError, match=f"^{name} is "):
        SamplingParams(**{name: value})


def test_whole_numbers_are_numbers() -> None:
    params = SamplingParams(temperature=1, top_p=1, min_p=0, stop=["a", "b"])  # type: ignore[arg-type]
    assert (params.temperature, params.greedy) == (1, False)
