"""Tell from a config.json whether the lean runner can run a model, and which tensors it then needs."""

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from memspec_actors.models.checkpoints.rope_config import Rope, read_rope

__all__ = ["DecoderShape", "LayerNames", "NotLean", "decoder_shape", "expected_tensors"]


class NotLean(Exception):
    """The lean runner cannot run this model; says why. The generic runner takes it."""


class _Family(msgspec.Struct, frozen=True, kw_only=True):
    """What an architecture fixes, whatever its config.json says; None leaves a bias to the config."""

    model_type: str
    qkv_bias: bool | None = None
    out_bias: bool | None = None
    mlp_bias: bool | None = None
    qk_norm: bool = False
    head_dim: int | None = None  # where the config gives none; None is hidden_size over heads
    slides: Literal["never", "if asked", "always"] = "if asked"  # attends to a window of tokens only


FAMILIES = {
    "LlamaForCausalLM": _Family(model_type="llama", slides="never"),
    "MistralForCausalLM": _Family(
        model_type="mistral", qkv_bias=False, out_bias=False, mlp_bias=False, slides="always"
    ),
    "Qwen2ForCausalLM": _Family(model_type="qwen2", qkv_bias=True, out_bias=False, mlp_bias=False),
    "Qwen3ForCausalLM": _Family(model_type="qwen3", mlp_bias=False, qk_norm=True, head_dim=128),
}
DEFAULT_WINDOW = 4096  # transformers' own, where a config leaves it out


class DecoderShape(msgspec.Struct, frozen=True, kw_only=True):
    """Describe a decoder of the Llama kind.

    ``window`` is how many tokens a token attends to, itself included: ``max_positions`` where there is no window.
    ``qk_norm``: each head of queries and keys is normalised before it is rotated.
    """

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
    qk_norm: bool
    window: int

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
    tie_word_embeddings: bool = False
    attention_bias: bool = False
    mlp_bias: bool = False
    use_sliding_window: bool = False
    sliding_window: int | None = DEFAULT_WINDOW
    max_window_layers: int = 28
    layer_types: list[str] | None = None


class LayerNames:
    """Name the tensors of one layer as Hugging Face does."""

    def __init__(self, index: int) -> None:
        self._prefix = f"model.layers.{index}."

    def __getitem__(self, part: str) -> str:
        group = "self_attn" if part[:2] in ("q_", "k_", "v_", "o_") else "mlp"
        middle = "" if part.endswith("layernorm") else f"{group}."
        return f"{self._prefix}{middle}{part}"


def decoder_shape(config: Mapping[str, Any]) -> DecoderShape:
    """Read a config.json's contents; raises NotLean, saying why, for what the lean runner does not do."""
    architecture = (config.get("architectures") or ["unknown"])[0]
    family = FAMILIES.get(architecture)
    if family is None or config.get("model_type", family.model_type) != family.model_type:
        raise NotLean(f"the architecture is {architecture}, the model_type {config.get('model_type')}")
    try:
        parsed = msgspec.convert(config, _Config)
        rope = read_rope(config)
    except msgspec.ValidationError as error:
        raise NotLean(f"config.json: {error}") from error
    except ValueError as error:
        raise NotLean(f"its rotary embedding is of {error}") from error
    if parsed.hidden_act not in ("silu", "swish"):
        raise NotLean(f"hidden_act is {parsed.hidden_act!r}")
    return _shape(parsed, family, rope)


def expected_tensors(shape: DecoderShape) -> dict[str, tuple[int, ...]]:
    """Name every tensor that such a model has, with its shape (weights are (out, in))."""
    hidden, inner, q, kv = shape.hidden_size, shape.intermediate_size, shape.q_size, shape.kv_size
    tensors: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (shape.vocab_size, hidden)}
    tensors["model.norm.weight"] = (hidden,)
    if not shape.tied:
        tensors["lm_head.weight"] = (shape.vocab_size, hidden)
    for index in range(shape.num_layers):
        names = LayerNames(index)
        for norm in ("input_layernorm", "post_attention_layernorm"):
            tensors[f"{names[norm]}.weight"] = (hidden,)
        for norm in ("q_norm", "k_norm") if shape.qk_norm else ():
            tensors[f"{names[norm]}.weight"] = (shape.head_dim,)
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


def _shape(config: _Config, family: _Family, rope: Rope) -> DecoderShape:
    num_kv_heads = config.num_key_value_heads or config.num_attention_heads
    shape = DecoderShape(
        num_layers=config.num_hidden_layers,
        hidden_size=config.hidden_size,
        intermediate_size=config.intermediate_size,
        num_heads=config.num_attention_heads,
        num_kv_heads=num_kv_heads,
        head_dim=config.head_dim or family.head_dim or config.hidden_size // max(1, config.num_attention_heads),
        vocab_size=config.vocab_size,
        max_positions=config.max_position_embeddings,
        rms_eps=config.rms_norm_eps,
        rope=rope,
        tied=config.tie_word_embeddings,
        qkv_bias=config.attention_bias if family.qkv_bias is None else family.qkv_bias,
        out_bias=config.attention_bias if family.out_bias is None else family.out_bias,
        mlp_bias=config.mlp_bias if family.mlp_bias is None else family.mlp_bias,
        qk_norm=family.qk_norm,
        window=min(_window(config, family), config.max_position_embeddings),
    )
    sizes = (shape.num_layers, shape.hidden_size, shape.intermediate_size, shape.num_heads, num_kv_heads)
    if min(*sizes, shape.vocab_size, shape.window, shape.head_dim) < 1 or shape.num_heads % num_kv_heads:
        raise NotLean("config.json: sizes must be positive and heads a multiple of key/value heads")
    if shape.head_dim % 2:
        raise NotLean(f"head_dim is {shape.head_dim}, rotary embeddings need an even one")
    return shape


def _window(config: _Config, family: _Family) -> int:
    """Return the window of every layer; raises NotLean where layers differ."""
    everything, window = config.max_position_embeddings, config.sliding_window
    if family.slides == "never":
        return everything
    if family.slides == "always" and config.layer_types is None:
        return everything if window is None else window
    asked = config.use_sliding_window and window is not None
    first = config.max_window_layers if asked else config.num_hidden_layers  # the layers from there on slide
    kinds = ["sliding_attention" if index >= first else "full_attention" for index in range(config.num_hidden_layers)]
    kinds = sorted(set(kinds if config.layer_types is None else config.layer_types))
    if kinds == ["full_attention"] and family.slides == "if asked":
        return everything
    if kinds == ["sliding_attention"] and asked and window is not None:
        return window
    raise NotLean(f"the attention of its layers is {' and '.join(kinds)}")
