"""What the lean runner does not do, it leaves to the generic runner, saying why."""

from typing import Any

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from memspec_actors.models.checkpoints.architecture import NotLean, decoder_shape, expected_tensors
from memspec_actors.models.checkpoints.rope_config import Rope

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


COMMON: dict[str, Any] = {"hidden_act": "silu", "torch_dtype": "bfloat16", "use_cache": True, "attention_dropout": 0.0}
# As they were published; sizes are facts about the models.
PUBLISHED: dict[str, dict[str, Any]] = {
    "Llama-2-7b": {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096, "intermediate_size": 11008,
        "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 32, "vocab_size": 32000,
        "max_position_embeddings": 4096, "rms_norm_eps": 1e-05, "rope_scaling": None, "pretraining_tp": 1,
        "tie_word_embeddings": False,
    },
    "Llama-3.2-1B": {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 2048, "intermediate_size": 8192,
        "num_hidden_layers": 16, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 64,
        "vocab_size": 128256, "max_position_embeddings": 131072, "rms_norm_eps": 1e-05, "rope_theta": 500000.0,
        "rope_scaling": {
            "factor": 32.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0, "rope_type": "llama3",
            "original_max_position_embeddings": 8192,
        },
        "attention_bias": False, "mlp_bias": False, "tie_word_embeddings": True,
    },
    "Mistral-7B-v0.1": {
        "architectures": ["MistralForCausalLM"], "model_type": "mistral", "hidden_size": 4096,
        "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
        "vocab_size": 32000, "max_position_embeddings": 32768, "rms_norm_eps": 1e-05, "rope_theta": 10000.0,
        "sliding_window": 4096, "tie_word_embeddings": False,
    },
    "Qwen2.5-0.5B": {
        "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "hidden_size": 896, "intermediate_size": 4864,
        "num_hidden_layers": 24, "num_attention_heads": 14, "num_key_value_heads": 2, "vocab_size": 151936,
        "max_position_embeddings": 32768, "rms_norm_eps": 1e-06, "rope_theta": 1000000.0, "sliding_window": 32768,
        "max_window_layers": 24, "use_sliding_window": False, "use_mrope": False, "tie_word_embeddings": True,
    },
    "Qwen3-0.6B": {
        "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_size": 1024, "intermediate_size": 3072,
        "num_hidden_layers": 28, "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128,
        "vocab_size": 151936, "max_position_embeddings": 40960, "rms_norm_eps": 1e-06, "rope_theta": 1000000,
        "rope_scaling": None, "sliding_window": None, "max_window_layers": 28, "use_sliding_window": False,
        "attention_bias": False, "tie_word_embeddings": True,
    },
}  # fmt: skip


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_models_are_lean_and_have_the_tensors_that_transformers_gives_them(name: str) -> None:
    """Else the models that most people have would be run slowly, or refused."""
    config = {**COMMON, **PUBLISHED[name]}
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(AutoConfig.for_model(**config))
    theirs = {name: tuple(parameter.shape) for name, parameter in model.named_parameters()}
    shape = decoder_shape(config)
    assert expected_tensors(shape) == theirs
    assert shape.window == (4096 if name.startswith("Mistral") else shape.max_positions)
