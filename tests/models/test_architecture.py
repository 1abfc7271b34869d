"""What the lean runner does not do, it leaves to the generic runner, saying why."""

from typing import Any

import pytest

from memspec_actors.models.architecture import NotLean, decoder_shape
from memspec_actors.models.rope_config import Rope

LLAMA: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 48,
    "intermediate_size": 80,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "vocab_size": 97,
}


QWEN2 = {"architectures": ["Qwen2ForCausalLM"], "use_sliding_window": True, "sliding_window": 8}
SLIDING, FULL = "sliding_attention", "full_attention"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"architectures": ["Gemma2ForCausalLM"]}, "Gemma2ForCausalLM"),
        ({"architectures": []}, "unknown"),
        ({"model_type": "mistral"}, "mistral"),
        ({"hidden_act": "gelu"}, "gelu"),
        ({"rope_scaling": {"rope_type": "longrope", "factor": 2.0}}, "longrope"),
        ({"rope_scaling": {"rope_type": "su"}}, "su"),
        ({"rope_scaling": {"rope_type": "yarn", "factor": None}}, "yarn.*factor None"),
        ({"rope_scaling": {"rope_type": "yarn", "factor": 2.0, "original_max_position_embeddings": 0.5}}, "original"),
        ({"rope_parameters": {"rope_type": "default", "partial_rotary_factor": 0.5}}, "partial_rotary_factor 0.5"),
        ({"partial_rotary_factor": 0.5}, "partial_rotary_factor 0.5"),
        ({"rope_parameters": {FULL: {"rope_type": "default"}}}, "each type of layer"),
        ({"rope_scaling": {"type": "linear"}}, "factor"),
        (
            {"rope_scaling": {"rope_type": "llama3", "factor": 8.0, "original_max_position_embeddings": 64}},
            "low_freq_factor None",
        ),
        ({"num_key_value_heads": 3}, "multiple"),
        ({"hidden_size": 0}, "positive"),
        ({"hidden_size": "48"}, "hidden_size"),
        ({"head_dim": 7}, "even"),
        ({"architectures": ["MistralForCausalLM"], "sliding_window": 0}, "positive"),
        ({"architectures": ["MistralForCausalLM"], "layer_types": [FULL, SLIDING]}, "full_attention and sliding"),
        ({"architectures": ["MistralForCausalLM"], "layer_types": [FULL, FULL]}, "full_attention"),
        ({**QWEN2, "max_window_layers": 1}, "full_attention and sliding_attention"),
        ({**QWEN2, "layer_types": [SLIDING, FULL]}, "full_attention and sliding_attention"),
        ({**QWEN2, "layer_types": ["chunked_attention"] * 2}, "chunked"),
        ({**QWEN2, "use_sliding_window": False, "layer_types": [SLIDING] * 2}, "sliding"),
    ],
)
def test_what_is_not_covered_is_named(changes: dict[str, Any], reason: str) -> None:
    """Else a model would be run wrongly instead of slowly."""
    with pytest.raises(NotLean, match=reason):
        decoder_shape({**LLAMA, **changes})


@pytest.mark.parametrize(
    ("changes", "window"),
    [
        ({"sliding_window": 8}, 2048),  # Llama has none, whatever stands there
        ({"architectures": ["MistralForCausalLM"], "sliding_window": 8}, 8),
        ({"architectures": ["MistralForCausalLM"], "sliding_window": None}, 2048),
        ({"architectures": ["MistralForCausalLM"], "max_position_embeddings": 9000}, 4096),
        ({"architectures": ["MistralForCausalLM"]}, 2048),
        ({**QWEN2, "use_sliding_window": False}, 2048),
        ({**QWEN2, "max_window_layers": 0}, 8),
        ({**QWEN2, "max_window_layers": 2}, 2048),
        ({**QWEN2, "layer_types": [SLIDING] * 2}, 8),
        ({**QWEN2, "layer_types": [FULL] * 2}, 2048),
    ],
)
def test_a_window_is_read_as_the_family_means_it(changes: dict[str, Any], window: int) -> None:
    """Else a token would see more, or less, than in training."""
    assert decoder_shape({**LLAMA, **changes}).window == window


@pytest.mark.parametrize(
    ("changes", "rope"),
    [
        ({}, Rope()),
        ({"rope_theta": 5e5}, Rope(theta=5e5)),
        ({"rope_parameters": {"rope_type": "default", "rope_theta": 5e5}}, Rope(theta=5e5)),
        ({"rope_theta": 5e5, "rope_scaling": {"type": "linear", "factor": 2.0}}, Rope("linear", 5e5, 2.0)),
        ({"rope_theta": 5e5, "rope_scaling": None}, Rope(theta=5e5)),
        ({"rope_theta": 5e5, "rope_scaling": {"type": "dynamic", "factor": 2.0}}, Rope(theta=5e5)),
    ],
)
def test_both_spellings_of_rotary_embeddings_are_read(changes: dict[str, Any], rope: Rope) -> None:
    """Else checkpoints written by older or newer versions of transformers would be run with the wrong positions."""
    assert decoder_shape({**LLAMA, **changes}).rope == rope


def test_left_out_sizes_have_the_defaults_of_the_family() -> None:
    """Else small hand-written configurations would be refused."""
    shape = decoder_shape(LLAMA)
    assert (shape.num_kv_heads, shape.head_dim, shape.tied, shape.qkv_bias) == (4, 12, False, False)


def test_qwen2_has_biases_only_on_query_key_and_value() -> None:
    """Else the lean runner would ask for tensors that no Qwen2 checkpoint has."""
    shape = decoder_shape({**LLAMA, "architectures": ["Qwen2ForCausalLM"], "attention_bias": True})
    assert (shape.qkv_bias, shape.out_bias, shape.mlp_bias) == (True, False, False)
