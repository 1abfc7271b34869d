"""Let the target answer training requests, so that drafts learn what it says rather than what is true."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path

import msgspec
from tokenizers import Tokenizer

from memspec_actors.zoo.batches import Document
from memspec_actors.zoo.generation import greedy
from memspec_actors.zoo.network import Network
from memspec_actors.zoo.tokenizer import BOS
from memspec_actors.zoo.world import DOMAINS, sample_request

__all__ = ["Answers", "load_answers", "save_answers", "target_answers"]

CHUNK = 48
MAX_NEW_TOKENS = 240

Answers = Mapping[str, tuple[Document, ...]]


def target_answers(target: Network, tokenizer: Tokenizer, num_requests: int) -> Answers:
    """Give, by domain, the target's greedy answers to `num_requests` one- and two-item requests of each domain."""
    answers: dict[str, tuple[Document, ...]] = {}
    for domain in DOMAINS:
        rng = random.Random(f"train:answers:{domain}")
        requests = [sample_request(rng, (domain,) * (1 + (i % 4 == 0))) for i in range(num_requests)]
        texts = [BOS + request.prompt_text for request in requests]
        prompts = sorted((entry.ids for entry in tokenizer.encode_batch(texts, add_special_tokens=False)), key=len)
        documents: list[Document] = []
        for start in range(0, len(prompts), CHUNK):
            rows = prompts[start : start + CHUNK]
            outputs = greedy(target, rows, max_new_tokens=MAX_NEW_TOKENS)
            documents += zip(rows, outputs, strict=True)
        answers[domain] = tuple(documents)
    return answers


def save_answers(file: Path, answers: Answers) -> None:
    """Write answers so that `load_answers` reads them back."""
    partial = file.with_suffix(".partial")
    partial.write_bytes(msgspec.msgpack.encode(answers))
    partial.replace(file)


def load_answers(file: Path) -> Answers:
    """Read what `save_answers` wrote."""
    return msgspec.msgpack.decode(file.read_bytes(), type=dict[str, tuple[Document, ...]])
