"""Models by their id on the Hugging Face hub: ``org/name``, or ``org/name@revision``."""

import re
from pathlib import Path
from typing import NamedTuple

from memspec_actors.errors import CheckpointError, first_line

__all__ = ["HubModel", "cached_snapshot", "hub_model", "snapshot"]

_PART = r"[A-Za-z0-9](?:[\w.-]*\w)?"
_ID = re.compile(rf"(?P<repo>{_PART}/{_PART})(?:@(?P<revision>\w[\w./-]*))?")
_SHARD = re.compile(r"-\d+-of-(?P<of>\d+)\.safetensors$")
WANTED = ("*.json", "*.safetensors", "*.jinja", "*.txt", "tokenizer.model")
UNWANTED = ("*/*", "consolidated*")  # the same weights once more, in formats of their makers
TOKENIZERS = ("tokenizer.json", "tokenizer.model", "vocab.json")


class HubModel(NamedTuple):
    """Name a repository on the hub and a branch, tag or commit of it; None is its main branch."""

    repo: str
    revision: str | None = None

    @property
    def name(self) -> str:
        """Return the repository's name without its owner."""
        return self.repo.rpartition("/")[2]

    def __str__(self) -> str:
        return self.repo if self.revision is None else f"{self.repo}@{self.revision}"


def hub_model(model: str) -> HubModel | None:
    """Return what ``model`` names on the hub, or None for what can only be a path."""
    match = _ID.fullmatch(model)
    return None if match is None else HubModel(match["repo"], match["revision"])


def cached_snapshot(model: HubModel) -> Path | None:
    """Return the directory of a model in the local cache, whole or not; never asks the network."""
    from huggingface_hub import snapshot_download  # only who names a hub id waits for it

    try:
        return Path(snapshot_download(model.repo, revision=model.revision, local_files_only=True))
    except (OSError, ValueError):
        return None


def snapshot(model: HubModel) -> Path:
    """Return the directory of a model: from the local cache if all of it is there, else fetched into it.

    Raises CheckpointError, saying how to fetch it, if neither works.
    """
    cached = cached_snapshot(model)
    if cached is not None and _is_whole(cached):
        return cached
    import httpx2
    from huggingface_hub import constants, snapshot_download

    try:
        return Path(
            snapshot_download(
                model.repo, revision=model.revision, allow_patterns=list(WANTED), ignore_patterns=list(UNWANTED)
            )
        )
    except (OSError, ValueError, httpx2.HTTPError) as error:
        if cached is not None:
            return cached  # who opens it names the file that is not there
        why = "offline" if constants.HF_HUB_OFFLINE else first_line(error)
        revision = "" if model.revision is None else f" --revision {model.revision}"
        raise CheckpointError(
            f"{model}: is no directory and not in the Hugging Face cache {constants.HF_HUB_CACHE}, and cannot be "
            f"fetched ({why}); run `hf download {model.repo}{revision}` where the hub can be reached"
        ) from error


def _is_whole(directory: Path) -> bool:
    """Tell whether there is what a model needs: other programs fetch only the files that they use."""
    weights = [file.name for file in directory.glob("*.safetensors")]
    shards = [match for name in weights if (match := _SHARD.search(name))]
    return (
        (directory / "config.json").exists()
        and any((directory / name).exists() for name in TOKENIZERS)
        and bool(weights)
        and all(len(shards) >= int(shard["of"]) for shard in shards)
    )
