"""Get a model's tokenizer as tokenizer.json: as it lies there, or made from the older files that some models have."""

from pathlib import Path

from memspec_actors.errors import CheckpointError, first_line

__all__ = ["tokenizer_json"]

OLDER = ("tokenizer.model", "vocab.json", "vocab.txt", "spiece.model")


def tokenizer_json(directory: Path) -> bytes:
    """Return the contents of ``directory``/tokenizer.json; raises CheckpointError naming the file at fault.

    Where there is none, transformers makes it from the older files.
    """
    file = directory / "tokenizer.json"
    older = next((path for name in OLDER if (path := directory / name).exists()), None)
    if older is not None and not file.exists():
        return _made_from(older)
    try:
        return file.read_bytes()
    except OSError as error:
        raise CheckpointError(f"{file}: cannot be read ({error.strerror}); add the model's tokenizer") from error


def _made_from(older: Path) -> bytes:
    from transformers import AutoTokenizer  # slow to import, and seldom needed

    try:
        tokenizer = AutoTokenizer.from_pretrained(older.parent, trust_remote_code=False)
        made: str = tokenizer.backend_tokenizer.to_str()
    except Exception as error:  # whatever the conversion of a damaged or unknown file ends in
        reason = first_line(error)
        raise CheckpointError(
            f"{older}: transformers cannot make a tokenizer.json of it ({reason}); "
            "save the tokenizer again with save_pretrained, and add the file"
        ) from error
    return made.encode()
