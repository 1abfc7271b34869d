"""Check that a draft reads and writes the target's token ids; needs neither torch nor the tokenizers package."""

from pathlib import Path
from typing import Any

import msgspec

from memspec_actors.errors import CheckpointError, IncompatibleDraft
from memspec_actors.models.checkpoints.checkpoint import Checkpoint
from memspec_actors.models.text.tokenizer_json import tokenizer_json

__all__ = ["CommonVocabulary", "TokenizerFile", "check_compatible"]


class CommonVocabulary(msgspec.Struct, frozen=True):
    """Count the ids that mean the same to target and draft: 0 to ``num_common - 1``.

    Logits of both are cut to them; an id beyond is never drafted, emitted or fed to the draft.
    """

    num_common: int


class _AddedToken(msgspec.Struct):
    id: int
    content: str


class _Model(msgspec.Struct):
    vocab: dict[str, int] | list[tuple[str, float]]
    merges: list[Any] = []


class _RawTokenizer(msgspec.Struct):
    model: _Model
    added_tokens: list[_AddedToken] = []


class TokenizerFile(msgspec.Struct, frozen=True):
    """Hold what a tokenizer.json says about ids: the token of each (None in a gap) and the merges in order."""

    path: Path
    tokens: tuple[str | None, ...]
    merges: tuple[tuple[str, ...], ...]

    @property
    def num_ids(self) -> int:
        """Number of real ids; a model's logits may be wider."""
        return len(self.tokens)

    @classmethod
    def open(cls, directory: str | Path) -> "TokenizerFile":
        """Read ``directory``/tokenizer.json; raises CheckpointError naming the file if that is impossible."""
        path = Path(directory) / "tokenizer.json"
        try:
            raw = msgspec.json.decode(tokenizer_json(Path(directory)), type=_RawTokenizer)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise CheckpointError(f"{path}: is not a tokenizer file ({error})") from error
        vocab = raw.model.vocab
        ids = vocab if isinstance(vocab, dict) else {token: index for index, (token, _) in enumerate(vocab)}
        by_id = {index: token for token, index in ids.items()}
        by_id.update((token.id, token.content) for token in raw.added_tokens)
        if min(by_id, default=0) < 0 or max(by_id, default=-1) > 2 * len(by_id) + 1_000_000:
            raise CheckpointError(f"{path}: token ids run from {min(by_id)} to {max(by_id)}; the file is damaged")
        tokens = tuple(by_id.get(index) for index in range(max(by_id, default=-1) + 1))
        return cls(path, tokens, tuple(_merge(merge) for merge in raw.model.merges))


def check_compatible(target: Checkpoint, draft: Checkpoint) -> CommonVocabulary:
    """Compare two models' tokenizers id by id; padding of the logits does not matter.

    Raises IncompatibleDraft naming the first id (or merge) that differs, CheckpointError if a tokenizer cannot be read.
    """
    ours, theirs = TokenizerFile.open(target.path), TokenizerFile.open(draft.path)
    for index, (token, other) in enumerate(zip(ours.tokens, theirs.tokens, strict=False)):
        if token != other:
            raise IncompatibleDraft(
                f"draft {draft.path} has another tokenizer than target {target.path}: id {index} is {other!r} "
                f"in the draft and {token!r} in the target; use a draft trained with the target's tokenizer"
            )
    _check_merges(target, draft, ours, theirs)
    num_common = min(ours.num_ids, theirs.num_ids, target.vocab_size, draft.vocab_size)
    if num_common == 0:
        raise IncompatibleDraft(f"draft {draft.path} has no token id in common with target {target.path}")
    return CommonVocabulary(num_common)


def _check_merges(target: Checkpoint, draft: Checkpoint, ours: TokenizerFile, theirs: TokenizerFile) -> None:
    """Same ids but other merges would mean that the draft has seen text cut in another way."""
    if ours.merges == theirs.merges:
        return
    pairs = zip(ours.merges, theirs.merges, strict=False)
    shorter = min(len(ours.merges), len(theirs.merges))
    first = next((index for index, (merge, other) in enumerate(pairs) if merge != other), shorter)
    raise IncompatibleDraft(
        f"draft {draft.path} has the ids of target {target.path} but cuts text differently: merge {first} is "
        f"{_at(theirs.merges, first)} in the draft and {_at(ours.merges, first)} in the target; "
        "use a draft trained with the target's tokenizer"
    )


def _at(merges: tuple[tuple[str, ...], ...], index: int) -> str:
    return repr(" ".join(merges[index])) if index < len(merges) else "absent"


def _merge(merge: Any) -> tuple[str, ...]:
    """Return a merge as a pair: files of old write "a b", newer ones ["a", "b"]."""
    return tuple(merge.split(" ")) if isinstance(merge, str) else tuple(merge)
