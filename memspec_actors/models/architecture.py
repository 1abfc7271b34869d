"""Tell from a config.json whether the lean runner can run a model, and which tensors it then needs."""

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

__all__ = ["DecoderShape", "LayerNames", "NotLean", "Rope", "decoder_shape", "expected_tensors"]

LEAN_ARCHITECTURES = ("LlamaForCausalLM", "Qwen2ForCausalLM")
ROPE_KINDS = ("default", "linear", "llama3")


class NotLean(Exception):
    """The lean runner cannot run this model; says why. The generic runner takes it."""


class Rope(msgspec.Struct, frozen=True):
    """Rotary position embedding; the fields below ``factor`` are llama3's."""

    kind: Literal["default", "linear", "llama3"] = "default"
    theta: float = 10000.0
    factor: float = 1.0
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0
    original_max_positions: int = 8192


class DecoderShape(msgspec.Struct, frozen=True, kw_only=True):
    """Describe a decoder of the Llama and Qwen2 family."""

    num_layers: int
    hidden_size: int
    intermediate_size: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    vocab_size: int
    max_positions: int
    rms_eps: float
    rope: Rope
    tied: bool
    qkv_bias: bool
    out_bias: bool
    mlp_bias: bool

    @property
    def q_size(self) -> int:
        return self.num_heads * self.head_dim

    @property
    def kv_size(self) -> int:
        return self.num_kv_heads * self.head_dim


class _Config(msgspec.Struct):
    """The part of config.json that decides; other keys are allowed."""

    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    vocab_size: int
    num_key_value_heads: int | None = None
    head_dim: int | None = None
    hidden_act: str = "silu"
    max_position_embeddings: int = 2048
    rms_norm_eps: float = 1e-6
    rope_theta: float | None = None
    rope_scaling: dict[str, Any] | None = None
    rope_parameters: dict[str, Any] | None = None
    tie_word_embeddings: bool = False
    attention_bias: bool = False
    mlp_bias: bool = False
    use_sliding_window: bool = False
    quantization_config: dict[str, Any] | None = None


class LayerNames:
    """Name the tensors of one layer as Hugging Face does."""

    def __init__(self, index: int) -> None:
        self._prefix = f"model.layers.{index}."

    def __getitem__(self, part: str) -> str:
        group = "self_attn" if part in ("q_proj", "k_proj", "v_proj", "o_proj") else "mlp"
        middle = "" if part.endswith("layernorm") else f"{group}."
        return f"{self._prefix}{middle}{part}"


def decoder_shape(config: Mapping[str, Any]) -> DecoderShape:
    """Read a config.json's contents; raises NotLean, saying why, for what the lean runner does not do."""
    architecture = (config.get("architectures") or ["unknown"])[0]
    if architecture not in LEAN_ARCHITECTURES:
        raise NotLean(f"the architecture is {architecture}")
    try:
        parsed = msgspec.convert(config, _Config)
    except msgspec.ValidationError as error:
        raise NotLean(f"config.json: {error}") from error
    if parsed.use_sliding_window:
        raise NotLean("it uses a sliding window")
    if parsed.hidden_act != "silu":
        raise NotLean(f"hidden_act is {parsed.hidden_act!r}")
    if parsed.quantization_config:
        raise NotLean("it is quantised")
    return _shape(parsed, qwen2=architecture == "Qwen2ForCausalLM")


def expected_tensors(shape: DecoderShape) -> dict[str, tuple[int, ...]]:
    """Name every tensor that such a model has, with its shape (weights are (out, in))."""
    hidden, inner, q, kv = shape.hidden_size, shape.intermediate_size, shape.q_size, shape.kv_size
    tensors: dict[str, tuple[int, ...]] = {
        "model.embed_tokens.weight": (shape.vocab_size, hidden),
        "model.norm.weight": (hidden,),
    }
    if not shape.tied:
        tensors["lm_head.weight"] = (shape.vocab_size, hidden)
    for index in range(shape.num_layers):
        names = LayerNames(index)
        for norm in ("input_layernorm", "post_attention_layernorm"):
            tensors[f"{names[norm]}.weight"] = (hidden,)
        for part, rows, columns, bias in (
            ("q_proj", q, hidden, shape.qkv_bias),
            ("k_proj", kv, hidden, shape.qkv_bias),
            ("v_proj", kv, hidden, shape.qkv_bias),
            ("o_proj", hidden, q, shape.out_bias),
            ("gate_proj", inner, hidden, shape.mlp_bias),
            ("up_proj", inner, hidden, shape.mlp_bias),
            ("down_proj", hidden, inner, shape.mlp_bias),
        ):
            tensors[f"{names[part]}.weight"] = (rows, columns)
            if bias:
                tensors[f"{names[part]}.bias"] = (rows,)
    return tensors


def _shape(config: _Config, *, qwen2: bool) -> DecoderShape:
    num_kv_heads = config.num_key_value_heads or config.num_attention_heads
    shape = DecoderShape(
        num_layers=config.num_hidden_layers,
        hidden_size=config.hidden_size,
        intermediate_size=config.intermediate_size,
        num_heads=config.num_attention_heads,
        num_kv_heads=num_kv_heads,
        head_dim=config.head_dim or config.hidden_size // max(1, config.num_attention_heads),
        vocab_size=config.vocab_size,
        max_positions=config.max_position_embeddings,
        rms_eps=config.rms_norm_eps,
        rope=_rope(config),
        tied=config.tie_word_embeddings,
        qkv_bias=qwen2 or config.attention_bias,
        out_bias=config.attention_bias and not qwen2,
        mlp_bias=config.mlp_bias and not qwen2,
    )
    sizes = (shape.num_layers, shape.hidden_size, shape.intermediate_size, shape.num_heads, num_kv_heads)
    if min(*sizes, shape.vocab_size, shape.max_positions, shape.head_dim) < 1 or shape.num_heads % num_kv_heads:
        raise NotLean("config.json: sizes must be positive and heads a multiple of key/value heads")
    if shape.head_dim % 2:
        raise NotLean(f"head_dim is {shape.head_dim}, rotary embeddings need an even one")
    return shape


def _rope(config: _Config) -> Rope:
    # transformers 5 writes rope_parameters; earlier versions rope_theta beside an optional rope_scaling.
    raw = {**(config.rope_scaling or {}), **(config.rope_parameters or {})}
    kind = raw.get("rope_type", raw.get("type", "default"))
    if kind not in ROPE_KINDS or float(raw.get("partial_rotary_factor", 1.0)) != 1.0:
        raise NotLean(f"its rotary embedding is of kind {kind!r}")
    theta = float(raw.get("rope_theta") or config.rope_theta or 10000.0)
    if kind == "default":
        return Rope(theta=theta)
    try:
        rope = Rope(kind=kind, theta=theta, factor=float(raw["factor"]))
        return rope if kind == "linear" else _llama3(rope, raw)
    except (KeyError, TypeError, ValueError) as error:
        raise NotLean(f"its {kind} rotary scaling lacks a usable {error}") from error


def _llama3(rope: Rope, raw: Mapping[str, Any]) -> Rope:
    return msgspec.structs.replace(
        rope,
        low_freq_factor=float(raw["low_freq_factor"]),
        high_freq_factor=float(raw["high_freq_factor"]),
        original_max_positions=int(raw["original_max_position_embeddings"]),
    )
