"""Whatever family a checkpoint is of, the engine writes what transformers writes: greedy, drafted, in shards or not."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest
import torch
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast

from memspec_actors import Config, MemSpec
from memspec_actors.config import DraftConfig, ScheduleConfig, TargetConfig
from memspec_actors.models.checkpoints.checkpoint import Checkpoint
from memspec_actors.protocols.results import GenerationResult
from tests.models.conftest import CONFIGS, GENERIC, byte_level, save_random

NUM_TOKENS = 332  # of the tokenizer
WIDTH = 352  # of the logits: ids beyond the tokenizer's are padding
PROMPT = tuple(range(3, 16))
LEAN = ("llama", "llama-tied", "llama-bias", "llama-llama3", "llama-yarn", "mistral", "qwen2", "qwen3")
KINDS: dict[str, Callable[[], Any]] = {**{kind: CONFIGS[kind] for kind in LEAN}, **GENERIC}


def save(directory: Path, kind: str, dtype: torch.dtype, **options: Any) -> Path:
    """Write a random model of a kind and a tokenizer that is smaller than its logits are wide."""
    max_positions = options.pop("max_positions", None)
    config = KINDS[kind]()
    config.vocab_size = WIDTH
    if max_positions is not None:
        config.max_position_embeddings = max_positions
    save_random(directory, config, dtype, **options)
    tokenizer = byte_level()
    tokenizer.add_tokens([f"<added {index}>" for index in range(NUM_TOKENS - tokenizer.get_vocab_size())])
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>").save_pretrained(directory)
    return directory


@torch.no_grad()
def expected(directory: Path, num: int) -> list[int]:
    model: Any = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32)
    output = model.generate(
        torch.tensor([PROMPT]),
        attention_mask=torch.ones(1, len(PROMPT), dtype=torch.int64),
        max_new_tokens=num,
        do_sample=False,
        pad_token_id=0,
        suppress_tokens=list(range(NUM_TOKENS, WIDTH)),
    )
    ids: list[int] = output[0, len(PROMPT) :].tolist()
    return ids


def generate(target: Path, drafts: Sequence[Path], num: int) -> GenerationResult:
    config = Config(
        target=TargetConfig(model=str(target)),
        drafts=tuple(DraftConfig(name=f"draft{index}", model=str(draft)) for index, draft in enumerate(drafts)),
        schedule=ScheduleConfig(policy="static:draft0"),
    )

    async def run() -> GenerationResult:
        async with MemSpec.open(config) as engine:
            # A policy that waits for loads: a short text could be over before the draft is there.
            return await engine.generate(PROMPT, max_new_tokens=num, policy="mab-sync")

    return anyio.run(run)


@pytest.mark.parametrize("kind", KINDS)
def test_greedy_text_is_that_of_transformers(tmp_path: Path, kind: str) -> None:
    """Else a checkpoint of this family would speak another text here than where its user got it from."""
    # In shards, as large models are published; the draft is the target in another format: mostly right, not always.
    target = save(tmp_path / "target", kind, torch.float32, max_shard_size="60KB")
    draft = save(tmp_path / "draft", kind, torch.bfloat16)
    assert len(Checkpoint.open(target).files) > 1
    result = generate(target, [draft], 45)
    assert list(result.token_ids) == expected(target, 45)
    assert (result.finish_reason == "length") == (len(result.token_ids) == 45)
    counts = result.metrics.speculative_decoding
    assert counts.num_accepted_draft_tokens > counts.num_draft_tokens / 2


def test_a_draft_falls_silent_beyond_its_context(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Else a short draft would end long texts, or spoil them; and nobody would know why it helps no more."""
    target = save(tmp_path / "target", "llama", torch.float32)
    draft = save(tmp_path / "draft", "llama", torch.bfloat16, max_positions=40)
    result = generate(target, [draft], 100)
    ids = expected(target, 100)
    assert list(result.token_ids) == ids
    drafted = result.metrics.speculative_decoding.num_draft_tokens
    assert 0 < drafted <= 40
    (note,) = [record.getMessage() for record in caplog.records if "context" in record.getMessage()]
    assert "'draft0'" in note
    assert "40" in note


def test_a_half_precision_checkpoint_runs_as_transformers_runs_it(tmp_path: Path) -> None:
    """Else float16 files, the most common ones, would be read wrongly."""
    target = save(tmp_path / "target", "qwen3", torch.float16)
    assert list(generate(target, [target], 30).token_ids) == expected(target, 30)
