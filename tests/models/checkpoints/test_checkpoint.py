"""Opening a model directory finds everything that is wrong with it, and names the file."""

import json
import re
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import safetensors
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file

from memspec_actors.errors import CheckpointError
from memspec_actors.models.checkpoints.checkpoint import Checkpoint
from memspec_actors.models.checkpoints.header import read_header
from memspec_actors.models.weights.opening import open_runner
from tests.models.conftest import CONFIGS, save_random

FLOAT32 = torch.float32


@pytest.fixture
def copy(make_checkpoint: Callable[..., Path], tmp_path: Path) -> Path:
    return Path(shutil.copytree(make_checkpoint("llama"), tmp_path / "model"))


def edit_json(path: Path, **changes: Any) -> None:
    fields = json.loads(path.read_text())
    fields.update(changes)
    path.write_text(json.dumps({name: value for name, value in fields.items() if value is not None}))


@pytest.mark.parametrize("kind", CONFIGS)
def test_a_good_checkpoint_is_described_as_it_is(make_checkpoint: Callable[..., Path], kind: str) -> None:
    """Else weights would be looked for where they are not."""
    directory = make_checkpoint(kind)
    checkpoint = Checkpoint.open(directory)
    stored = load_file(directory / "model.safetensors")
    raw = (directory / "model.safetensors").read_bytes()
    assert set(checkpoint.tensors) == set(stored)
    for name, tensor in stored.items():
        entry = checkpoint.tensors[name]
        assert entry.shape == tuple(tensor.shape)
        assert raw[entry.offset : entry.offset + entry.nbytes] == tensor.numpy().tobytes()
    assert (checkpoint.vocab_size, checkpoint.max_positions) == (97, 600)
    assert (checkpoint.eos_ids, checkpoint.bos_id) == ((2,), 1)
    assert checkpoint.nbytes("float32") == sum(tensor.nbytes for tensor in stored.values())
    assert checkpoint.nbytes("bfloat16") * 2 == checkpoint.nbytes("float32")


def test_several_end_ids_are_read(copy: Path) -> None:
    """Else a model that ends with its second end id would never stop."""
    edit_json(copy / "generation_config.json", eos_token_id=[2, 7])
    assert Checkpoint.open(copy).eos_ids == (2, 7)


def test_without_a_generation_config_the_model_config_counts(copy: Path) -> None:
    """Else an older checkpoint would never stop."""
    (copy / "generation_config.json").unlink()
    assert Checkpoint.open(copy).eos_ids == (2,)


@pytest.mark.parametrize("stored", [torch.float32, torch.bfloat16])
def test_auto_runs_two_byte_weights_in_two_bytes(make_checkpoint: Callable[..., Path], stored: torch.dtype) -> None:
    """Else "auto" would double a checkpoint's memory or throw away its precision."""
    expected = str(stored).removeprefix("torch.")
    assert Checkpoint.open(make_checkpoint("llama", stored)).run_dtype("auto") == expected


@pytest.mark.parametrize(
    ("key", "value"),
    [("vocab_size", None), ("vocab_size", 0), ("vocab_size", "many"), ("max_position_embeddings", None)],
)
def test_a_config_without_a_size_is_refused(copy: Path, key: str, value: object) -> None:
    """Else the failure would come later and elsewhere."""
    edit_json(copy / "config.json", **{key: value})
    with pytest.raises(CheckpointError, match=rf"config\.json.*{key}"):
        Checkpoint.open(copy)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("architectures", "LlamaForCausalLM"),
        ("architectures", [3]),
        ("model_type", 3),
        ("rope_scaling", "linear"),
        ("rope_parameters", [1]),
    ],
)
def test_a_field_of_another_kind_is_named(copy: Path, key: str, value: object) -> None:
    """Else whoever reads it first would fail in a way that names no file."""
    edit_json(copy / "config.json", **{key: value})
    for read in (Checkpoint.open, Checkpoint.describe):
        with pytest.raises(CheckpointError, match=rf"config\.json.*{key}"):
            read(copy)


@pytest.mark.parametrize("changes", [{"num_attention_heads": 0}, {"hidden_size": "64"}, {"hidden_act": 5}])
def test_what_transformers_makes_no_model_of_is_refused_in_one_line(copy: Path, changes: dict[str, Any]) -> None:
    """Else an error of transformers' own would come out, without the directory's name."""
    edit_json(copy / "config.json", **changes)
    with pytest.raises(CheckpointError, match=re.escape(str(copy))):
        Checkpoint.describe(copy)
    with pytest.raises(CheckpointError, match=re.escape(str(copy))):
        open_runner(Checkpoint.open(copy), dtype="float32")


@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
def test_a_missing_file_is_named(copy: Path, name: str) -> None:
    """Else the user would not know what to fetch."""
    (copy / name).unlink()
    with pytest.raises(CheckpointError, match=name):
        Checkpoint.open(copy)


@pytest.mark.parametrize("name", ["config.json", "generation_config.json"])
@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"a": \xff}', b"[" * 100_000])
def test_a_damaged_json_file_is_named(copy: Path, name: str, content: bytes) -> None:
    """Else a half-written download would end in a traceback."""
    (copy / name).write_bytes(content)
    with pytest.raises(CheckpointError, match=name):
        Checkpoint.open(copy)


def test_a_file_cut_anywhere_is_refused(copy: Path) -> None:
    """Else a download that broke off would be run with garbage at its end."""
    path = copy / "model.safetensors"
    whole = path.read_bytes()
    header_end = 8 + struct.unpack("<Q", whole[:8])[0]
    classes = {*range(16), *range(header_end - 3, header_end + 3), *range(len(whole) - 40, len(whole))}
    for cut in sorted(classes | set(range(0, len(whole), 997))):
        path.write_bytes(whole[:cut])
        with pytest.raises(CheckpointError, match=r"model\.safetensors"):
            Checkpoint.open(copy)
    path.write_bytes(whole + b"\0")
    with pytest.raises(CheckpointError, match=r"model\.safetensors"):
        Checkpoint.open(copy)
    path.write_bytes(whole)
    Checkpoint.open(copy)


def test_an_absent_tensor_is_named(damaged: Callable[..., Path]) -> None:
    """Else the forward pass would fail, in the middle of an answer."""
    directory = damaged(lambda tensors: tensors.pop("model.layers.1.mlp.up_proj.weight"))
    with pytest.raises(CheckpointError, match=r"layers\.1\.mlp\.up_proj\.weight' is absent"):
        Checkpoint.open(directory)


def test_a_tensor_of_another_shape_is_named(damaged: Callable[..., Path]) -> None:
    """Else a config that belongs to another model would be believed."""
    directory = damaged(lambda tensors: tensors.update({"model.norm.weight": torch.ones(47)}))
    with pytest.raises(CheckpointError, match=r"model\.norm\.weight' has shape \[47\].*\[48\]"):
        Checkpoint.open(directory)


def test_integer_weights_are_refused(damaged: Callable[..., Path]) -> None:
    """Else a quantised file would be read as if its codes were weights."""
    directory = damaged(lambda tensors: tensors.update({"model.norm.weight": torch.ones(48, dtype=torch.int32)}))
    with pytest.raises(CheckpointError, match="I32"):
        Checkpoint.open(directory)


@pytest.mark.parametrize("name", ["self_attn.q_proj.bias", "self_attn.k_norm.weight", "mlp.extra.weight"])
def test_a_tensor_that_the_config_leaves_out_is_named(damaged: Callable[..., Path], name: str) -> None:
    """Else a model would run without a part of it, and merely seem poor."""
    directory = damaged(lambda tensors: tensors.update({f"model.layers.1.{name}": torch.ones(48)}))
    with pytest.raises(CheckpointError, match=rf"layers\.1\.{re.escape(name)}' has no place"):
        Checkpoint.open(directory)


@pytest.mark.parametrize(
    "name", ["model.layers.0.self_attn.rotary_emb.inv_freq", "model.layers.2.input_layernorm.weight"]
)
def test_what_no_layer_of_the_config_runs_does_no_harm(damaged: Callable[..., Path], name: str) -> None:
    """Else published Llama checkpoints with their rotary tables, and models cut to fewer layers, would be refused."""
    Checkpoint.open(damaged(lambda tensors: tensors.update({name: torch.ones(6)})))


@pytest.mark.parametrize("method", ["awq", "fp8", "bitsandbytes"])
def test_weights_quantised_in_an_unknown_way_are_refused_by_name(copy: Path, method: str) -> None:
    """Else codes would be taken for weights, or the failure would come once memory is taken."""
    edit_json(copy / "config.json", quantization_config={"quant_method": method})
    with pytest.raises(CheckpointError, match=rf"config\.json: the weights are quantised by '{method}'"):
        Checkpoint.open(copy)


@pytest.mark.parametrize("name", ["pytorch_model.bin", "pytorch_model.bin.index.json", "model-Q4_K_M.gguf"])
def test_weights_in_another_format_are_named(copy: Path, name: str) -> None:
    """Else the message would be about a file that the user never had."""
    (copy / "model.safetensors").rename(copy / name)
    with pytest.raises(CheckpointError, match=rf"{re.escape(name)}: .*save_pretrained"):
        Checkpoint.open(copy)


class TestShards:
    @pytest.fixture
    def sharded(self, tmp_path: Path) -> Path:
        return save_random(tmp_path / "model", CONFIGS["llama"](), FLOAT32, max_shard_size="40KB")

    def test_they_hold_what_one_file_holds(self, sharded: Path, make_checkpoint: Callable[..., Path]) -> None:
        """Else a large model could not be used."""
        checkpoint, whole = Checkpoint.open(sharded), Checkpoint.open(make_checkpoint("llama"))
        assert len(checkpoint.files) > 2
        assert {name: entry.shape for name, entry in checkpoint.tensors.items()} == {
            name: entry.shape for name, entry in whole.tensors.items()
        }

    def test_each_absent_shard_is_named(self, sharded: Path) -> None:
        """Else a model would be started without some of its layers."""
        for shard in sorted(sharded.glob("model-*.safetensors")):
            content = shard.read_bytes()
            shard.unlink()
            with pytest.raises(CheckpointError, match=shard.name):
                Checkpoint.open(sharded)
            shard.write_bytes(content[:-1])
            with pytest.raises(CheckpointError, match=shard.name):
                Checkpoint.open(sharded)
            shard.write_bytes(content)

    def test_a_tensor_listed_in_the_wrong_shard_is_named(self, sharded: Path) -> None:
        """Else an index of another version of the model would be believed."""
        index = sharded / "model.safetensors.index.json"
        weight_map = json.loads(index.read_text())["weight_map"]
        first = next(name for name, shard in weight_map.items() if "00001" not in shard)
        edit_json(index, weight_map={**weight_map, first: next(iter(sorted(weight_map.values())))})
        with pytest.raises(CheckpointError, match=first):
            Checkpoint.open(sharded)

    @pytest.mark.parametrize("shard", ["../model-00001.safetensors", "/etc/passwd"])
    def test_a_shard_outside_the_directory_is_refused(self, sharded: Path, shard: str) -> None:
        """Else a downloaded index could make us open any file."""
        edit_json(sharded / "model.safetensors.index.json", weight_map={"a": shard})
        with pytest.raises(CheckpointError, match="outside"):
            Checkpoint.open(sharded)


def with_header(header: bytes, data: bytes) -> bytes:
    return struct.pack("<Q", len(header)) + header + data


@pytest.mark.parametrize(
    ("first", "second"), [([0, 8], [0, 8]), ([0, 8], [4, 12]), ([0, 8], [12, 20]), ([4, 12], [12, 20])]
)
def test_tensors_that_overlap_or_leave_a_gap_are_refused(tmp_path: Path, first: list[int], second: list[int]) -> None:
    """Else two weights could share bytes, and hidden bytes could travel in the file."""
    entries = {
        "a": {"dtype": "F32", "shape": [2], "data_offsets": first},
        "b": {"dtype": "F32", "shape": [2], "data_offsets": second},
    }
    path = tmp_path / "crafted.safetensors"
    path.write_bytes(with_header(json.dumps(entries).encode(), bytes(second[1])))
    with pytest.raises(CheckpointError, match=r"crafted\.safetensors"):
        read_header(path)


def test_a_negative_size_is_refused(tmp_path: Path) -> None:
    """Else two negative sizes would pass for a positive number of elements."""
    entries = {"a": {"dtype": "F32", "shape": [-1, -2], "data_offsets": [0, 8]}}
    path = tmp_path / "crafted.safetensors"
    path.write_bytes(with_header(json.dumps(entries).encode(), bytes(8)))
    with pytest.raises(CheckpointError, match=r"impossible shape \[-1, -2\]"):
        read_header(path)


ENTRIES = st.dictionaries(
    st.text(max_size=3),
    st.fixed_dictionaries(
        {
            "dtype": st.sampled_from(["F32", "BF16", "U8", "X9"]),
            "shape": st.lists(st.integers(-1, 4), max_size=2),
            "data_offsets": st.lists(st.integers(-2, 24), min_size=2, max_size=2),
        }
    ),
    max_size=3,
)


@settings(max_examples=150)
@given(entries=ENTRIES, num_data=st.integers(0, 32))
def test_any_header_is_taken_only_if_safetensors_takes_it(
    tmp_path: Path, entries: dict[str, Any], num_data: int
) -> None:
    """Else a crafted header could point outside the file, or make two tensors share bytes."""
    check_against_safetensors(tmp_path / "any.safetensors", with_header(json.dumps(entries).encode(), bytes(num_data)))


@settings(max_examples=150)
@given(data=st.data())
def test_a_header_with_damaged_bytes_never_ends_in_another_error(tmp_path: Path, data: st.DataObject) -> None:
    """Else a flipped bit on disk would end in a traceback instead of a message that names the file."""
    good = {
        "a": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]},
        "b": {"dtype": "BF16", "shape": [4], "data_offsets": [24, 32]},
    }
    content = bytearray(with_header(json.dumps(good).encode(), bytes(32)))
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 33))] = data.draw(st.integers(0, 255))
    check_against_safetensors(tmp_path / "damaged.safetensors", bytes(content))


def check_against_safetensors(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    try:
        entries, _ = read_header(path)
    except CheckpointError as error:
        assert str(path) in str(error)
        return
    with safetensors.safe_open(path, "pt") as theirs:
        assert set(theirs.keys()) == set(entries)
    for entry in entries.values():
        assert 8 <= entry.offset <= entry.offset + entry.nbytes <= len(content)


def test_reading_checkpoints_and_text_needs_no_torch(make_checkpoint: Callable[..., Path]) -> None:
    """Else checking a draft from the command line would wait seconds for imports."""
    program = (
        "import sys, memspec_actors.models.text.tokenizer, memspec_actors.models.text.vocabulary\n"
        "from memspec_actors.models.checkpoints.checkpoint import Checkpoint\n"
        f"Checkpoint.open({str(make_checkpoint('llama'))!r})\n"
        "print([name for name in ('torch', 'transformers', 'scipy') if name in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
