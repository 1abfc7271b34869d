"""Turn generated requests, extra text and a target's own answers into training batches."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import torch
from tokenizers import Tokenizer
from torch import Tensor

from memspec_actors.zoo.tokenizer import BOS, EOS, PAD_ID
from memspec_actors.zoo.world import sample_phases, sample_request

__all__ = ["IGNORED", "Document", "Source", "batches", "read_texts"]

IGNORED = -100
POOL = 256  # documents drawn, sorted by length and cut into batches at a time
SLACK = 1.15
EXTRA_CHARACTERS = 600  # length of one document cut from an extra text
EXTRA_SHARE = 0.25

Document = tuple[list[int], list[int]]  # token ids that are given, token ids to be learnt


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """Where a stage's documents come from.

    `domain` None draws all domains alike; otherwise a share of `replay` of the requests is drawn like that and the rest
    is of `domain` alone. `extra` are texts that are mixed in; `answers` are ready documents that a share of
    `answers_share` of the pool is drawn from.
    """

    seed: str
    domain: str | None = None
    replay: float = 0.0
    extra: tuple[str, ...] = ()
    answers: tuple[Document, ...] = ()
    answers_share: float = 0.0


def read_texts(files: Sequence[Path]) -> tuple[str, ...]:
    """Read extra text files and cut them into documents."""
    whole = [file.read_text(encoding="utf-8") for file in files]
    return tuple(text[i : i + EXTRA_CHARACTERS] for text in whole for i in range(0, len(text), EXTRA_CHARACTERS))


def batches(tokenizer: Tokenizer, source: Source, tokens: int, start: int = 0) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield (inputs, labels), both (B, T), of about `tokens` tokens, from batch number `start` on.

    A batch holds whole documents of like length; labels are IGNORED where a token is given or padding.
    """
    skip = start
    pool = 0
    while True:
        rng = random.Random(f"{source.seed}:{pool}")
        groups = _group(_documents(tokenizer, source, rng), tokens)
        rng.shuffle(groups)
        yield from (_pad(group) for group in groups[skip:])
        skip = max(0, skip - len(groups))
        pool += 1


def _documents(tokenizer: Tokenizer, source: Source, rng: random.Random) -> list[Document]:
    num_extra = round(POOL * EXTRA_SHARE) if source.extra else 0
    num_answers = round(POOL * source.answers_share) if source.answers else 0
    given = [BOS] * num_extra
    learnt = [rng.choice(source.extra) for _ in range(num_extra)]
    for _ in range(POOL - num_extra - num_answers):
        mixed = source.domain is None or rng.random() < source.replay
        request = sample_request(rng, sample_phases(rng, None if mixed else source.domain))
        given.append(BOS + request.prompt_text)
        learnt.append(request.answer_text + EOS)
    prompts, answers = (tokenizer.encode_batch(texts, add_special_tokens=False) for texts in (given, learnt))
    documents = [(prompt.ids, answer.ids) for prompt, answer in zip(prompts, answers, strict=True)]
    return documents + [rng.choice(source.answers) for _ in range(num_answers)]


def _group(documents: list[Document], tokens: int) -> list[list[Document]]:
    groups: list[list[Document]] = [[]]
    for document in sorted(documents, key=_width):
        if groups[-1] and (len(groups[-1]) + 1) * _width(document) > tokens * SLACK:
            groups.append([])
        groups[-1].append(document)
    return groups


def _width(document: Document) -> int:
    return len(document[0]) + len(document[1])


def _pad(group: Sequence[Document]) -> tuple[Tensor, Tensor]:
    width = max(_width(document) for document in group)
    ids = torch.full((len(group), width), PAD_ID)
    labels = torch.full((len(group), width), IGNORED)
    for row, (given, learnt) in enumerate(group):
        ids[row, : len(given) + len(learnt)] = torch.tensor(given + learnt)
        labels[row, len(given) : len(given) + len(learnt)] = torch.tensor(learnt)
    return ids[:, :-1], labels[:, 1:]
