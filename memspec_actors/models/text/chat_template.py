"""Render a model's chat template, untrusted text from a model directory, in jinja2's sandbox."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any, NoReturn

from memspec_actors.errors import InvalidRequest

__all__ = ["render_chat"]


def render_chat(
    template: str, messages: Sequence[Mapping[str, Any]], *, add_generation_prompt: bool, **variables: Any
) -> str:
    """Return the prompt text for ``messages``, as transformers' ``apply_chat_template`` renders it.

    Raises InvalidRequest if the template is broken or refuses the messages.
    """
    import jinja2

    try:
        return str(
            _compiled(template).render(
                messages=[dict(message) for message in messages],
                tools=None,
                documents=None,
                add_generation_prompt=add_generation_prompt,
                **variables,
            )
        )
    except (jinja2.TemplateError, TypeError, KeyError, ValueError) as error:
        raise InvalidRequest(f"the chat template cannot render these messages: {error}") from error


@lru_cache(maxsize=16)
def _compiled(template: str) -> Any:
    import jinja2.ext
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Generation(jinja2.ext.Extension):
        """Accept ``{% generation %}`` marks, which only matter for training: the body is rendered as it is."""

        tags = {"generation"}  # noqa: RUF012  (jinja2 declares it so)

        def parse(self, parser: Any) -> Any:
            next(parser.stream)
            return parser.parse_statements(("name:endgeneration",), drop_needle=True)

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols]
    )
    environment.filters["tojson"] = _to_json
    environment.globals["raise_exception"] = _raise
    environment.globals["strftime_now"] = lambda layout: datetime.now().strftime(layout)
    return environment.from_string(template)


def _to_json(
    value: Any, ensure_ascii: bool = False, indent: Any = None, separators: Any = None, sort_keys: bool = False
) -> str:
    """Encode plainly: jinja2's own filter would escape HTML characters."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _raise(message: str) -> NoReturn:
    import jinja2

    raise jinja2.TemplateError(message)
