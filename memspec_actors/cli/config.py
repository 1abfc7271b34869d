"""``memspec config``: show, write and check a configuration."""

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from memspec_actors.config import Config

__all__ = ["ConfigOption", "app", "load_config"]

app = typer.Typer(help="Show, write and check a configuration.", rich_markup_mode=None)

ConfigOption = Annotated[
    Path | None, typer.Option("--config", metavar="FILE", help="A memspec.toml; without it the embedded models run.")
]


def load_config(path: Path | None) -> "Config":
    """Read the configuration at ``path``, or give the default one."""
    from memspec_actors.config import Config

    return Config() if path is None else Config.load(path)


@app.command("show")
def show(config: ConfigOption = None) -> None:
    """Print the whole configuration as TOML. Defaults are filled in, the secret is left out."""
    from msgspec.structs import replace

    loaded = load_config(config)
    if loaded.serve.api_key is not None:
        loaded = replace(loaded, serve=replace(loaded.serve, api_key="***"))
    typer.echo(loaded.to_toml(), nl=False)


@app.command("init")
def init(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="The file to write.")] = Path("memspec.toml"),
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it is there.")] = False,
) -> None:
    """Write a commented memspec.toml with every key at its default."""
    from memspec_actors.cli.config_template import TEMPLATE
    from memspec_actors.errors import ConfigError

    try:
        with path.open("w" if force else "x", encoding="utf-8") as file:
            file.write(TEMPLATE)
    except FileExistsError as error:
        raise ConfigError(f"{path} exists already; use --force to replace it") from error
    except OSError as error:
        if not force:
            with suppress(OSError):
                path.unlink()  # half a file would be in the way of the next attempt
        raise ConfigError(f"{path} cannot be written: {error.strerror}") from error
    typer.echo(f"wrote {path}")


@app.command("check")
def check(config: ConfigOption = None) -> None:
    """Check a configuration: keys, values, rules, directories."""
    from memspec_actors.cli.config_check import check_config
    from memspec_actors.errors import ConfigError, UsageError

    loaded = load_config(config)
    try:
        check_config(loaded)
    except UsageError as error:
        if config is None:
            raise
        raise ConfigError(f"{config}: {error}") from error
    names = ", ".join(draft.name for draft in loaded.drafts) or "none"
    typer.echo(f"ok: target {loaded.target.model}, drafts {names}, policy {loaded.schedule.policy}")
