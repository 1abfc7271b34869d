"""The embedded models that are shipped."""

import struct

import msgspec
import pytest
from tokenizers import Tokenizer

from memspec_actors import zoo
from memspec_actors.bench.zoo_quality import always, decode, evaluation_requests, trace_requests
from memspec_actors.errors import CheckpointError
from memspec_actors.protocols.traces import TraceRecord
from memspec_actors.zoo.quality import measure_quality
from memspec_actors.zoo.tokenizer import train_tokenizer

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


def test_shipped_tokenizer_is_what_a_build_makes() -> None:
    """A changed world or tokenizer recipe would give drafts that do not fit the shipped target."""
    assert train_tokenizer().to_str() == Tokenizer.from_file(str(zoo.path("target") / "tokenizer.json")).to_str()


@pytest.fixture(scope="module")
def traces() -> list[TraceRecord]:
    drafts = [name for name in SHIPPED if name != "target"]
    return trace_requests(zoo.path("target").parent, drafts, evaluation_requests(2, 0))


def test_shipped_target_answers_held_out_requests(traces: list[TraceRecord]) -> None:
    """The demonstration would show nonsense."""
    tokenizer = Tokenizer.from_file(str(zoo.path("target") / "tokenizer.json"))
    shares = measure_quality(
        [(r, trace.output_ids) for (_, r), trace in zip(evaluation_requests(2, 0), traces, strict=True)], tokenizer
    )
    assert shares["loops"] == 0.0
    assert shares["heading"] >= 0.9
    assert shares["slots"] >= 0.9


@pytest.mark.parametrize("domain", ["code", "math", "law", "medical"])
def test_shipped_specialists_are_the_best_drafts_at_home(traces: list[TraceRecord], domain: str) -> None:
    """There would be nothing to gain by choosing drafts."""
    at_home = [trace for trace in traces if trace.kind == domain]
    needed = {name: sum(decode(trace, always(name)).iterations for trace in at_home) for name in at_home[0].accepted}
    assert min(needed, key=needed.__getitem__) == domain
