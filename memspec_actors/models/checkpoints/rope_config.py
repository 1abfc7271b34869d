"""Read from a config.json how a model turns positions into rotations; needs no torch."""

from collections.abc import Mapping
from math import log
from typing import Any, Literal

import msgspec

__all__ = ["Rope", "read_rope"]


class Rope(msgspec.Struct, frozen=True):
    """Rotary position embedding, as its table is computed from it.

    ``low_freq_factor`` and ``high_freq_factor`` are llama3's; the fields below ``original_max_positions`` are yarn's.
    """

    kind: Literal["default", "linear", "llama3", "yarn"] = "default"
    theta: float = 10000.0
    factor: float = 1.0
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0
    original_max_positions: int = 8192
    attention_factor: float = 1.0  # scales cos and sin
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    truncate: bool = True


class _Raw(msgspec.Struct):
    """What a config may say about scaling, under ``rope_parameters`` or, before transformers 5, ``rope_scaling``."""

    rope_theta: float | None = None
    factor: float | None = None
    low_freq_factor: float | None = None
    high_freq_factor: float | None = None
    original_max_position_embeddings: int | None = None
    attention_factor: float | None = None
    beta_fast: float | None = None
    beta_slow: float | None = None
    mscale: float | None = None
    mscale_all_dim: float | None = None
    truncate: bool = True


def read_rope(config: Mapping[str, Any]) -> Rope:
    """Return the rotary embedding of a config.json's contents, whichever version of transformers wrote it.

    Raises ValueError, saying what stands in the way, for one that is not the same at every length of text, or unknown.
    """
    fields = config.get("rope_scaling") or config.get("rope_parameters") or {}
    kind = fields.get("rope_type", fields.get("type", "default"))
    partial = fields.get("partial_rotary_factor", config.get("partial_rotary_factor"))
    if kind not in ("default", "dynamic", "linear", "llama3", "yarn") or partial not in (None, 1):
        raise ValueError(f"kind {kind!r}" if partial in (None, 1) else f"partial_rotary_factor {partial}")
    if any(isinstance(value, Mapping) for value in fields.values()):
        raise ValueError("a kind for each type of layer")
    raw = msgspec.convert(fields, _Raw)
    theta = float(raw.rope_theta or config.get("rope_theta") or 10000.0)
    # "dynamic" scales only beyond max_position_embeddings, where no text goes.
    if kind in ("default", "dynamic"):
        return Rope(theta=theta)
    if raw.factor is None or raw.factor <= 0:
        raise ValueError(f"kind {kind!r} with factor {raw.factor}")
    if kind == "linear":
        return Rope("linear", theta, raw.factor)
    original = config.get("original_max_position_embeddings") or raw.original_max_position_embeddings
    original = original or config.get("max_position_embeddings")
    if not isinstance(original, int) or original < 1:
        raise ValueError(f"kind {kind!r} with original_max_position_embeddings {original!r}")
    return (_llama3 if kind == "llama3" else _yarn)(raw, theta, raw.factor, original)


def _llama3(raw: _Raw, theta: float, factor: float, original: int) -> Rope:
    low, high = raw.low_freq_factor, raw.high_freq_factor
    if low is None or high is None or high <= low:
        raise ValueError(f"kind 'llama3' with low_freq_factor {low} and high_freq_factor {high}")
    return Rope("llama3", theta, factor, low, high, original)


def _yarn(raw: _Raw, theta: float, factor: float, original: int) -> Rope:
    attention = raw.attention_factor
    if attention is None and raw.mscale and raw.mscale_all_dim:
        attention = _yarn_scale(factor, raw.mscale) / _yarn_scale(factor, raw.mscale_all_dim)
    return Rope(
        "yarn",
        theta,
        factor,
        original_max_positions=original,
        attention_factor=_yarn_scale(factor) if attention is None else attention,
        beta_fast=raw.beta_fast or 32.0,
        beta_slow=raw.beta_slow or 1.0,
        truncate=raw.truncate,
    )


def _yarn_scale(factor: float, mscale: float = 1.0) -> float:
    """Return how much longer contexts sharpen attention (Peng et al. 2023, section 3.4)."""
    return 0.1 * mscale * log(factor) + 1.0 if factor > 1 else 1.0
