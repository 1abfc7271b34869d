"""Turn text into token ids and back, as the model's tokenizer.json says. Needs no torch and no transformers."""

import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import tokenizers

from memspec_actors.errors import CheckpointError, InvalidRequest
from memspec_actors.models.checkpoints.model_json import read_json
from memspec_actors.models.text.chat_template import render_chat
from memspec_actors.models.text.tokenizer_json import tokenizer_json

__all__ = ["Tokenizer"]

_BYTE_TOKEN = re.compile(r"<0x[0-9A-Fa-f]{2}>")


class Tokenizer:
    """Encode, decode and render chats for one model; `open` reads a model directory."""

    def __init__(self, backend: tokenizers.Tokenizer, config: Mapping[str, Any], chat_template: str | None) -> None:
        self.backend = backend
        self.chat_template = chat_template
        self.bos_token = _special(config, "bos_token")
        self.eos_token = _special(config, "eos_token")
        self._config = config
        backend.no_truncation()
        backend.no_padding()

    @classmethod
    def open(cls, path: str | Path) -> "Tokenizer":
        """Read a model directory's tokenizer.json (or older files), tokenizer_config.json and chat_template.jinja.

        Raises CheckpointError naming the file that is missing or damaged.
        """
        directory = Path(path)
        raw = tokenizer_json(directory)
        try:
            backend = tokenizers.Tokenizer.from_buffer(raw)
        except Exception as error:  # the package raises no narrower one for a damaged file
            raise CheckpointError(f"{directory / 'tokenizer.json'}: is not a tokenizer file ({error})") from error
        special = _read_config(directory / "special_tokens_map.json")  # where versions before 4.40 kept them
        config = {**special, **_read_config(directory / "tokenizer_config.json")}
        return cls(backend, config, _chat_template(directory, config))

    @property
    def vocab(self) -> Mapping[str, int]:
        """Every token with its id, added tokens included."""
        return self.backend.get_vocab(with_added_tokens=True)

    # Looking through a large vocabulary takes longer than decoding a token: once is enough.

    @cached_property
    def num_ids(self) -> int:
        """Number of real ids: the highest plus one."""
        return max(self.vocab.values(), default=-1) + 1

    @cached_property
    def gap_ids(self) -> tuple[int, ...]:
        """Ids below ``num_ids`` that no token has."""
        return tuple(sorted(set(range(self.num_ids)).difference(self.vocab.values())))

    @cached_property
    def byte_ids(self) -> frozenset[int]:
        """Ids that stand for one byte each: of characters that have no token of their own."""
        return frozenset(index for token, index in self.vocab.items() if _BYTE_TOKEN.fullmatch(token))

    @cached_property
    def special_ids(self) -> frozenset[int]:
        """Ids that are no text: ``decode`` skips them."""
        return frozenset(index for index, token in self.backend.get_added_tokens_decoder().items() if token.special)

    @property
    def bos_id(self) -> int | None:
        return self._id(self.bos_token)

    @property
    def eos_id(self) -> int | None:
        return self._id(self.eos_token)

    def encode(self, text: str, *, add_special_tokens: bool = True) -> list[int]:
        """Return the ids of ``text``; ``add_special_tokens`` puts around it what tokenizer.json says, such as <s>."""
        return self.backend.encode(text, add_special_tokens=add_special_tokens).ids

    def decode(self, ids: Sequence[int], *, skip_special_tokens: bool = True) -> str:
        """Return the text of ``ids``; bytes that are no UTF-8 become U+FFFD."""
        return self.backend.decode(list(ids), skip_special_tokens=skip_special_tokens)

    def token_text(self, token_id: int) -> str:
        """Return the text of one token amid others, its leading space included; part of a character is U+FFFD."""
        once, twice = (self.decode([token_id] * times, skip_special_tokens=False) for times in (1, 2))
        return twice[len(once) :]

    def apply_chat_template(
        self, messages: Sequence[Mapping[str, Any]], *, add_generation_prompt: bool = True, **variables: Any
    ) -> str:
        """Return the prompt text for ``messages``; encode it with ``add_special_tokens=False``.

        Raises InvalidRequest if the model has no chat template or the template refuses the messages.
        """
        if self.chat_template is None:
            raise InvalidRequest("this model has no chat template; send a plain prompt instead of messages")
        known = {
            name: token for name in _special_names(self._config) if (token := _special(self._config, name)) is not None
        }
        return render_chat(
            self.chat_template, messages, add_generation_prompt=add_generation_prompt, **{**known, **variables}
        )

    def _id(self, token: str | None) -> int | None:
        return None if token is None else self.backend.token_to_id(token)


def _read_config(path: Path) -> dict[str, Any]:
    return read_json(path, dict[str, Any]) if path.exists() else {}


def _chat_template(directory: Path, config: Mapping[str, Any]) -> str | None:
    """Return the default template: a file of its own wins over the configuration's string or list of named ones."""
    file = directory / "chat_template.jinja"
    if file.exists():
        return file.read_text(encoding="utf-8")
    template = config.get("chat_template")
    if isinstance(template, list):
        named = {item["name"]: item["template"] for item in template}
        template = named.get("default")
    return template


def _special_names(config: Mapping[str, Any]) -> list[str]:
    return [name for name in config if name.endswith("_token")]


def _special(config: Mapping[str, Any], name: str) -> str | None:
    """Return a special token's text: a string, or an object with ``content`` in older files."""
    token = config.get(name)
    content = token.get("content") if isinstance(token, dict) else token
    return content if isinstance(content, str) else None
