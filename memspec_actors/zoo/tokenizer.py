"""Train the one tokenizer that all embedded models share, and write it in the Hugging Face layout."""

from __future__ import annotations

import random
from pathlib import Path

import msgspec
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, processors, trainers

from memspec_actors.zoo.world import ANCHORS, sample_phases, sample_request

__all__ = ["BOS", "BOS_ID", "EOS", "EOS_ID", "PAD_ID", "VOCAB_SIZE", "train_tokenizer", "write_tokenizer"]

PAD, BOS, EOS = "<pad>", "<s>", "</s>"
PAD_ID, BOS_ID, EOS_ID = 0, 1, 2
VOCAB_SIZE = 3584
NUM_DOCUMENTS = 12_000

_JINJA_ANCHORS = ", ".join(f"'{anchor}'" for anchor in ANCHORS)
# A plain prompt is cut at line ends and at "; "; every line gets its anchor and mark. A request is left alone.
CHAT_TEMPLATE = (
    "{%- set anchors = [" + _JINJA_ANCHORS + "] -%}"
    "{%- set text = messages[-1]['content'] | trim -%}"
    "{{- bos_token -}}"
    "{%- if text.startswith('Request:') -%}{{- text + '\\n' -}}{%- else -%}"
    "{{- 'Request:\\n' -}}"
    "{%- set ns = namespace(lines=[]) -%}"
    "{%- for line in text.replace('; ', '\n').split('\n') if line | trim -%}"
    "{%- set ns.lines = ns.lines + [(line | trim).rstrip(';.?')] -%}"
    "{%- endfor -%}"
    "{%- for line in ns.lines[:" + str(len(ANCHORS)) + "] -%}"
    "{{- anchors[loop.index0] + ' ' + line + ('?' if loop.last else ';') + '\n' -}}"
    "{%- endfor -%}"
    "{{- 'Answer:\\n' -}}{%- endif -%}"
)


def train_tokenizer(*, num_documents: int = NUM_DOCUMENTS, vocab_size: int = VOCAB_SIZE) -> Tokenizer:
    """Train a byte-level BPE with single digits on generated requests; encoding puts the begin token first."""
    rng = random.Random("tokenizer")
    requests = (sample_request(rng, sample_phases(rng)) for _ in range(num_documents))
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(r" ?[0-9]"), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=[PAD, BOS, EOS],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator((r.prompt_text + r.answer_text for r in requests), trainer)
    tokenizer.post_processor = processors.TemplateProcessing(single=f"{BOS} $A", special_tokens=[(BOS, BOS_ID)])
    return tokenizer


def write_tokenizer(tokenizer: Tokenizer, directory: Path) -> None:
    """Write `tokenizer.json` and `tokenizer_config.json` (special tokens, chat template) into `directory`."""
    directory.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(directory / "tokenizer.json"))
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": BOS,
        "eos_token": EOS,
        "pad_token": PAD,
        "clean_up_tokenization_spaces": False,
        "model_max_length": 1024,
        "chat_template": CHAT_TEMPLATE,
    }
    encoded = msgspec.json.format(msgspec.json.encode(config), indent=2)
    (directory / "tokenizer_config.json").write_bytes(encoded + b"\n")
