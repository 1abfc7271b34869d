"""Rank drafts with a trained predictor: encoder, then ranking head."""

from array import array
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from memspec_actors import zoo
from memspec_actors.errors import CheckpointError, ConfigError, TraceError
from memspec_actors.models.kernels.script import as_written, traced
from memspec_actors.models.text.tokenizer import Tokenizer
from memspec_actors.predictor.context import Context, ContextLayout
from memspec_actors.predictor.context_scores import ContextScores
from memspec_actors.predictor.encoder import BertEncoder
from memspec_actors.predictor.head import HeadFile, InputKind, RankingHead, load_heads, ranked
from memspec_actors.protocols.feedback import Feedback
from memspec_actors.scheduling.rankers import Ranking, RankingContext

__all__ = ["ContextReader", "PredictorRanker", "open_artefact", "open_tokenizer", "predictor_directory"]


class ContextReader:
    """Turn the ids of prompt and text into contexts for the encoder, re-tokenised where the tokenizers differ.

    ``tokenizer`` made the ids and ``own`` belongs to the encoder; with either missing the ids are taken as they are.
    """

    def __init__(self, layout: ContextLayout, tokenizer: Tokenizer | None, own: Tokenizer | None) -> None:
        self._layout = layout
        self._foreign = None if tokenizer is None or own is None or _same_ids(tokenizer, own) else (tokenizer, own)
        self._prompt: tuple[tuple[int, ...], list[int]] = ((), [])  # one request asks many times about one prompt

    def read(self, prompt_ids: Sequence[int], recent_ids: Sequence[int]) -> Context:
        """Give the ids and token types of one context."""
        recent = recent_ids[-self._layout.recent_tokens :]
        if self._foreign is None:
            return self._layout.arrange(prompt_ids, recent)
        key = tuple(prompt_ids)
        if self._prompt[0] != key:
            self._prompt = (key, self._retokenize(key))
        return self._layout.arrange(self._prompt[1], self._retokenize(recent))

    def _retokenize(self, ids: Sequence[int]) -> list[int]:
        assert self._foreign is not None
        tokenizer, own = self._foreign
        return own.encode(tokenizer.decode(ids), add_special_tokens=False)


class PredictorRanker:
    """Rank the draft that probably serves the text best first, and behind it those that will be needed next.

    Drafts that the head was not trained on come last, in the order of configuration, with score 0. Synchronous, and
    used by one thread at a time.
    """

    def __init__(
        self, encoder: BertEncoder, head: RankingHead, known: Sequence[str], names: Sequence[str], reader: ContextReader
    ) -> None:
        self._scores = traced(ContextScores(encoder, head), *torch.zeros(2, 8, dtype=torch.long))
        self._reader = reader
        self._known = [name for name in names if name in known]
        self._columns = [known.index(name) for name in self._known]
        self._unknown = tuple(name for name in names if name not in known)

    @classmethod
    def open(
        cls, path: str | Path, draft_names: Sequence[str], tokenizer: Tokenizer | None = None
    ) -> "PredictorRanker":
        """Read an encoder directory with a trained head; ``tokenizer`` is the target's.

        Raises CheckpointError or TraceError naming the file and what is wrong, or the drafts if the head knows none.
        """
        encoder, file, heads, own = open_artefact(path)
        known = [name for name in draft_names if name in file.drafts]
        if draft_names and not known:
            wanted, trained = ", ".join(draft_names), ", ".join(file.drafts)
            raise TraceError(f"{path}: the ranking head knows {trained}, but none of {wanted}; train one for them")
        reader = ContextReader(file.layout, tokenizer, own)
        return cls(encoder, heads["prompt+recent"], file.drafts, draft_names, reader)

    @torch.inference_mode()
    def rank(self, context: RankingContext) -> Ranking:
        """Order the drafts, best first; at interval 0 the prompt alone is read."""
        recent = context.recent_ids if context.interval > 0 else ()
        ids, token_types = self._reader.read(context.prompt_ids, recent)
        with as_written():
            now, coming = self._scores(_tensor(ids), _tensor(token_types)).tolist()
        order, scores = ranked([now[column] for column in self._columns], [coming[column] for column in self._columns])
        names = (*(self._known[draft] for draft in order), *self._unknown)
        return Ranking(names, (*(scores[draft] for draft in order), *(0.0 for _ in self._unknown)))

    def observe(self, feedback: Feedback) -> None:
        """Learn nothing: training is over."""


def _tensor(numbers: Sequence[int]) -> Tensor:
    return torch.frombuffer(array("q", numbers), dtype=torch.long)  # in a tenth of the time that torch.tensor takes


def predictor_directory(path: str | None) -> Path:
    """Return the directory that ``[predictor] path`` means. Raises ConfigError if there is none."""
    if path is None:
        raise ConfigError("a predictor is needed, and [predictor] path is none; set it, or choose another policy")
    return zoo.path("encoder") if path == "zoo" else Path(path)


def open_artefact(
    path: str | Path,
) -> tuple[BertEncoder, HeadFile, dict[InputKind, RankingHead], Tokenizer | None]:
    """Open encoder, heads and (if there is one) the tokenizer of a predictor directory."""
    directory = Path(path)
    encoder = BertEncoder.open(directory)
    file, heads = load_heads(directory, encoder.config.hidden_size)
    _check_layout(directory, file.layout, encoder)
    return encoder, file, heads, open_tokenizer(directory)


def open_tokenizer(directory: Path) -> Tokenizer | None:
    """Open an encoder directory's own tokenizer, or give None if it has none."""
    return Tokenizer.open(directory) if (directory / "tokenizer.json").exists() else None


def _check_layout(directory: Path, layout: ContextLayout, encoder: BertEncoder) -> None:
    positions, vocabulary = encoder.config.max_position_embeddings, encoder.config.vocab_size
    fits = layout.recent_tokens + 3 < layout.max_tokens <= positions and layout.vocab_size <= vocabulary
    if not fits or encoder.config.type_vocab_size < 2:
        raise CheckpointError(
            f"{directory}: head.json reads {layout.max_tokens} tokens of {layout.vocab_size} ids, the encoder has "
            f"{positions} positions and {vocabulary} ids; train the head with this encoder"
        )


def _same_ids(a: Tokenizer, b: Tokenizer) -> bool:
    return a.num_ids == b.num_ids and a.vocab == b.vocab
