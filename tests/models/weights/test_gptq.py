"""A GPTQ checkpoint runs as the weights that its codes stand for, in every variant of the format."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import GPTNeoXConfig, LlamaConfig, Qwen2Config, Qwen3Config

from memspec_actors.errors import CheckpointError, LoadError
from memspec_actors.models.checkpoints.checkpoint import Checkpoint
from memspec_actors.models.drafting.arena import WeightArena
from memspec_actors.models.drafting.reader import ArenaReader
from memspec_actors.models.kernels import int4
from memspec_actors.models.runner import Runner
from memspec_actors.models.weights import plan
from memspec_actors.models.weights.loading import load_into
from memspec_actors.models.weights.opening import open_runner
from memspec_actors.models.weights.plan import LoadPlan
from memspec_actors.protocols.messages import Placement
from tests.models.gptq_writer import Variant, write_gptq

SIZES: dict[str, Any] = {
    "hidden_size": 128,
    "intermediate_size": 96,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 16,
    "vocab_size": 97,
    "max_position_embeddings": 200,
}
VARIANTS = [
    Variant(group_size, version, sym, desc_act)
    for group_size in (32, 64, 128, -1)
    for version, sym in ((1, True), (1, False), (2, False))
    for desc_act in (False, True)
]
IDS = torch.arange(40) * 7 % 97
EXACT = 1e-4  # float32 on both sides
NARROW = 0.04  # of the logits' size: the kernel rounds activations and scales to bfloat16


def logits(runner: Runner, sizes: list[int]) -> Tensor:
    cache = runner.new_cache(len(IDS))
    return torch.cat([runner.forward(piece, cache) for piece in torch.split(IDS, sizes)]).float()


@torch.no_grad()
def expected(model: Any) -> Tensor:
    whole: Tensor = model(IDS[None]).logits[0]
    return whole


def distance(got: Tensor, wanted: Tensor) -> float:
    return float((got - wanted).norm() / wanted.norm())


@pytest.fixture
def without_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "int4_works", lambda: False)


@pytest.fixture
def written(tmp_path: Path) -> Callable[..., tuple[Path, Any]]:
    """Return a function that writes a checkpoint of a variant."""
    return lambda variant=Variant(), **sizes: write_gptq(  # noqa: B008
        tmp_path / "model", LlamaConfig(**{**SIZES, **sizes}), variant
    )


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
@pytest.mark.usefixtures("without_kernel")
def test_dequantised_weights_are_exact(written: Callable[..., tuple[Path, Any]], variant: Variant) -> None:
    """Else a zero, a scale or a group would be read wrong, and the model would merely seem a poor one."""
    directory, model = written(variant)
    runner = open_runner(Checkpoint.open(directory), dtype="float32")
    torch.testing.assert_close(logits(runner, [30, 1, 5, 1, 3]), expected(model), atol=EXACT, rtol=0)


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_the_kernel_runs_what_the_codes_stand_for(written: Callable[..., tuple[Path, Any]], variant: Variant) -> None:
    """Else repacking would mix up weights that a dequantised run has right."""
    assert int4.int4_works(), "this torch has no int4 kernel for the CPU"
    directory, model = written(variant)
    for dtype in ("float32", "bfloat16"):
        runner = open_runner(Checkpoint.open(directory), dtype=dtype)
        assert runner.dtype == getattr(torch, dtype)
        assert distance(logits(runner, [30, 1, 5, 1, 3]), expected(model)) < NARROW


def test_biases_and_a_tied_head_stay_what_they_are(tmp_path: Path) -> None:
    """Else a Qwen2 checkpoint would lose what is beside its codes."""
    config = Qwen2Config(**SIZES, tie_word_embeddings=True)
    directory, model = write_gptq(tmp_path / "qwen2", config, Variant(sym=False))
    assert distance(logits(open_runner(Checkpoint.open(directory), dtype="float32"), [40]), expected(model)) < NARROW


def test_biases_that_the_config_does_not_tell_of_are_added(written: Callable[..., tuple[Path, Any]]) -> None:
    """Else checkpoints by older versions, which store a bias with every weight, would be refused or run without."""
    directory, model = written(attention_bias=True, mlp_bias=True)
    config = directory / "config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), "attention_bias": False, "mlp_bias": False}))
    assert distance(logits(open_runner(Checkpoint.open(directory), dtype="float32"), [40]), expected(model)) < NARROW


def test_heads_are_normalised_after_the_kernel(tmp_path: Path) -> None:
    """Else a GPTQ checkpoint of Qwen3 would run without its head norms."""
    directory, model = write_gptq(tmp_path, Qwen3Config(**SIZES), Variant())
    assert distance(logits(open_runner(Checkpoint.open(directory), dtype="float32"), [40]), expected(model)) < NARROW


def test_a_draft_is_loaded_into_the_arena_as_codes(written: Callable[..., tuple[Path, Any]]) -> None:
    """Else a GPTQ draft would take the memory of an unquantised one, or more than was planned."""
    directory, model = written(Variant(32, desc_act=True))
    checkpoint = Checkpoint.open(directory)
    draft = LoadPlan.of(checkpoint, "bfloat16")
    num_codes = 128 * (32 + 16 + 16 + 32) + 3 * 128 * 96  # q, k, v, o; gate, up, down
    orders = 4 * (5 * 128 + 32 + 96)  # the place of each input of each map, int32
    others = 2 * (2 * 97 * 128 + 3 * 128)
    planned = num_codes // 2 + 4 * num_codes // 32 + orders + others
    assert planned <= draft.nbytes < planned + 64 * 16
    arena = WeightArena(draft.nbytes + 128)
    arena.view(0, arena.nbytes).fill_(0xAB)
    seen: list[tuple[int, int]] = []
    reader = ArenaReader(arena, {"d": draft}, {"d": 97})
    place = Placement(artefact="d", offset=64, nbytes=draft.nbytes, present=False)
    read = reader.read("d", [place], lambda: False, lambda *at: seen.append(at))
    assert read.runner is not None
    assert read.runner.nbytes == draft.nbytes
    assert distance(logits(read.runner, [40]), expected(model)) < NARROW
    assert seen[-1] == (draft.file_nbytes, draft.file_nbytes)
    assert arena.view(0, 64).eq(0xAB).all()
    assert arena.view(64 + draft.nbytes, 64).eq(0xAB).all()


def test_a_load_of_codes_stops_at_every_chunk(written: Callable[..., tuple[Path, Any]]) -> None:
    """Else revoking a GPTQ draft would have to wait until it is repacked."""
    draft = LoadPlan.of(Checkpoint.open(written()[0]), "float32")
    asked = 0

    def cancelled() -> bool:
        nonlocal asked
        asked += 1
        return asked > stop

    stop = 10_000
    memory = torch.zeros(draft.nbytes, dtype=torch.uint8)
    load_into(draft, memory, chunk_bytes=4096, cancelled=cancelled)
    for stop in range(0, asked, 5):
        asked = 0
        assert load_into(draft, memory, chunk_bytes=4096, cancelled=cancelled).cancelled
        assert asked == stop + 1


@pytest.mark.usefixtures("without_kernel")
def test_sizes_that_the_kernel_does_not_take_are_dequantised(tmp_path: Path) -> None:
    """Else a model of unusual sizes would crash in the kernel."""
    config = LlamaConfig(**{**SIZES, "intermediate_size": 104})
    directory, model = write_gptq(tmp_path, config, Variant(-1))
    got = logits(open_runner(Checkpoint.open(directory), dtype="float32"), [40])
    torch.testing.assert_close(got, expected(model), atol=EXACT, rtol=0)


def test_only_the_maps_that_fit_run_on_the_kernel(tmp_path: Path) -> None:
    """Else one odd size would cost the whole model its kernel, or crash."""
    config = LlamaConfig(**{**SIZES, "intermediate_size": 104})
    directory, model = write_gptq(tmp_path, config, Variant(-1))
    assert distance(logits(open_runner(Checkpoint.open(directory), dtype="float32"), [40]), expected(model)) < NARROW


class TestWhereThingsAre:
    @pytest.mark.parametrize("name", ["gptq_model-4bit-32g.safetensors", "model.safetensors"])
    @pytest.mark.parametrize("inside", [False, True])
    def test_names_and_configs_of_both_libraries(
        self, written: Callable[..., tuple[Path, Any]], name: str, inside: bool
    ) -> None:
        """Else a checkpoint by AutoGPTQ, or one that transformers has saved again, would not be found."""
        directory, model = written(Variant(version=2, sym=False))
        (directory / "model.safetensors").rename(directory / name)
        if inside:
            fields = json.loads((directory / "config.json").read_text())
            fields["quantization_config"] = json.loads((directory / "quantize_config.json").read_text())
            (directory / "config.json").write_text(json.dumps(fields))
            (directory / "quantize_config.json").unlink()
        runner = open_runner(Checkpoint.open(directory), dtype="float32")
        assert distance(logits(runner, [40]), expected(model)) < NARROW

    def test_codes_and_their_scales_in_different_shards(self, written: Callable[..., tuple[Path, Any]]) -> None:
        """Else a large GPTQ checkpoint would not load."""
        directory, model = written()
        tensors = load_file(directory / "model.safetensors")
        (directory / "model.safetensors").unlink()
        weight_map = {name: f"gptq_model-{index % 3}.safetensors" for index, name in enumerate(sorted(tensors))}
        for shard in set(weight_map.values()):
            save_file({name: tensors[name] for name in tensors if weight_map[name] == shard}, directory / shard)
        index = directory / "gptq_model-4bit-32g.safetensors.index.json"
        index.write_text(json.dumps({"weight_map": weight_map}))
        runner = open_runner(Checkpoint.open(directory), dtype="float32")
        assert distance(logits(runner, [40]), expected(model)) < NARROW

    def test_auto_is_bfloat16_beside_codes(self, written: Callable[..., tuple[Path, Any]]) -> None:
        """Else int32 codes would be taken for full precision, and the rest would take twice its memory."""
        assert Checkpoint.open(written()[0]).run_dtype("auto") == "bfloat16"


class TestRefusals:
    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"bits": 3}, r"quantize_config\.json: bits is 3; GPTQ is read with 4 bits only"),
            ({"bits": None}, r"quantize_config\.json: .*bits"),
            ({"group_size": 0}, r"quantize_config\.json: group_size is 0"),
            ({"quant_method": "awq"}, r"quantize_config\.json: the weights are quantised by 'awq'"),
            ({"checkpoint_format": "marlin"}, r"checkpoint_format is 'marlin'"),
            ({"is_marlin_format": True}, r"checkpoint_format is 'marlin'"),
            ({"group_size": 64}, r"model\.safetensors: tensor '.*qzeros' has shape .* in groups of 64"),
        ],
    )
    def test_a_format_that_is_not_read_is_named(
        self, written: Callable[..., tuple[Path, Any]], changes: dict[str, Any], message: str
    ) -> None:
        """Else codes would be read by the wrong rule, and the model would babble."""
        directory, _ = written()
        config = directory / "quantize_config.json"
        config.write_text(json.dumps({**json.loads(config.read_text()), **changes}))
        with pytest.raises(CheckpointError, match=message):
            Checkpoint.open(directory)

    def edited(self, directory: Path, edit: Callable[[dict[str, Tensor]], Any]) -> Path:
        tensors = load_file(directory / "model.safetensors")
        edit(tensors)
        save_file(tensors, directory / "model.safetensors")
        return directory

    @pytest.mark.parametrize("part", ["qzeros", "scales"])
    def test_an_absent_part_is_named(self, written: Callable[..., tuple[Path, Any]], part: str) -> None:
        """Else a download that broke off would fail in the middle of a load."""
        name = f"model.layers.0.mlp.up_proj.{part}"
        directory = self.edited(written()[0], lambda tensors: tensors.pop(name))
        with pytest.raises(CheckpointError, match=rf"{name}' is absent"):
            Checkpoint.open(directory)

    def test_a_part_of_another_kind_is_named(self, written: Callable[..., tuple[Path, Any]]) -> None:
        """Else the bytes of floats would be taken for codes."""
        name = "model.layers.0.mlp.up_proj.qweight"
        directory = self.edited(written()[0], lambda tensors: tensors.update({name: tensors[name].float()}))
        with pytest.raises(CheckpointError, match=rf"{name}' is stored as F32"):
            Checkpoint.open(directory)

    def test_codes_without_a_config_are_refused(self, written: Callable[..., tuple[Path, Any]]) -> None:
        """Else zeros would be guessed."""
        directory, _ = written()
        (directory / "quantize_config.json").unlink()
        with pytest.raises(CheckpointError, match=r"quantised, but there is no quantize_config\.json"):
            Checkpoint.open(directory)

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (lambda g_idx: g_idx + 1, "names a group outside 0..3"),
            (lambda g_idx: g_idx * 0 - 1, "names a group outside 0..3"),
            (lambda g_idx: g_idx.flip(0), "is out of order though desc_act is false"),
            (lambda g_idx: (torch.arange(len(g_idx)) > 5).int(), "does not make groups of equal size"),
        ],
    )
    def test_groups_that_make_no_sense_fail_the_load(
        self, written: Callable[..., tuple[Path, Any]], change: Callable[[Tensor], Tensor], message: str
    ) -> None:
        """Else scales would be read from another weight's memory, or inputs multiplied by the wrong ones."""
        name = "model.layers.0.self_attn.k_proj.g_idx"
        directory = self.edited(written()[0], lambda tensors: tensors.update({name: change(tensors[name])}))
        draft = LoadPlan.of(Checkpoint.open(directory), "bfloat16")
        with pytest.raises(LoadError, match=rf"model\.safetensors: the g_idx of .* {message}"):
            load_into(draft, torch.zeros(draft.nbytes, dtype=torch.uint8))

    def test_a_family_that_only_runs_unquantised_is_refused(self, tmp_path: Path) -> None:
        """Else memory would be taken before it turns out that nothing can run the codes."""
        config = GPTNeoXConfig(
            hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=64, vocab_size=50
        )
        config.architectures = ["GPTNeoXForCausalLM"]
        config.save_pretrained(tmp_path)
        (tmp_path / "quantize_config.json").write_text(json.dumps(Variant().fields))
        save_file({"gpt_neox.layers.0.attention.dense.qweight": torch.zeros(4, 32)}, tmp_path / "model.safetensors")
        with pytest.raises(CheckpointError, match=r"quantised by GPTQ and the architecture is GPTNeoX.*unquantised"):
            Checkpoint.open(tmp_path)
