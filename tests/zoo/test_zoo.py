"""The embedded models that are shipped."""

import struct

import msgspec
import pytest

from memspec_actors import zoo
from memspec_actors.errors import CheckpointError

SHIPPED = ("code", "general", "law", "math", "medical", "target")


def test_all_models_are_there() -> None:
    """`memspec run` without a configuration would not start."""
    assert set(SHIPPED) <= set(zoo.names())


def test_unknown_name_lists_the_known_ones() -> None:
    """The user would have to guess."""
    with pytest.raises(CheckpointError, match=r"'poetry'.*code.*target"):
        zoo.path("poetry")


@pytest.mark.parametrize("name", SHIPPED)
def test_tokenizers_are_the_same(name: str) -> None:
    """A draft would speak another language than the target."""
    for file in ("tokenizer.json", "tokenizer_config.json"):
        assert (zoo.path(name) / file).read_bytes() == (zoo.path("target") / file).read_bytes()


@pytest.mark.parametrize("name", SHIPPED)
def test_drafts_are_float32_and_the_target_bfloat16(name: str) -> None:
    """Drafts could not be mapped as they are; the target would take twice its space."""
    with (zoo.path(name) / "model.safetensors").open("rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = msgspec.json.decode(file.read(length), type=dict[str, dict[str, object]])
    kinds = {entry["dtype"] for key, entry in header.items() if key != "__metadata__"}
    assert kinds == ({"BF16"} if name == "target" else {"F32"})


def test_weights_fit_their_allowance() -> None:
    """Every clone and wheel carries them."""
    size = sum(file.stat().st_size for name in zoo.names() for file in zoo.path(name).iterdir())
    assert size <= 64e6
