"""``memspec serve``: the daemon."""

import signal
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memspec_actors.cli.config import ConfigOption, load_config

if TYPE_CHECKING:
    from memspec_actors.config import Config

__all__ = ["serve"]


def serve(
    config: ConfigOption = None,
    host: Annotated[
        str | None, typer.Option(help="Listen on this address instead of the configured one, 127.0.0.1 if none is.")
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(help="Listen on this port instead of the configured one, 8000 if none is; 0 takes a free one."),
    ] = None,
    uds: Annotated[str | None, typer.Option(metavar="PATH", help="Listen on a Unix socket instead.")] = None,
    api_key: Annotated[
        str | None, typer.Option(envvar="MEMSPEC_API_KEY", help="Ask every caller for this key.")
    ] = None,
    without_key: Annotated[bool, typer.Option("--without-key", help="Let other machines in without a key.")] = False,
    policy: Annotated[str | None, typer.Option(help="How drafts are scheduled, e.g. memspec, target-only.")] = None,
    events: Annotated[str | None, typer.Option(metavar="FILE", help="Write the event log to this file.")] = None,
) -> None:
    """Serve OpenAI's API, metrics and a dashboard. A signal ends it."""
    given = {"host": host, "port": port, "uds": uds, "api_key": api_key}
    chosen = _with_overrides(load_config(config), given, policy, events)

    from memspec_actors.daemon.http.access import check_exposure

    check_exposure(chosen.serve, without_key=without_key)
    import anyio

    from memspec_actors.daemon.server import serve
    from memspec_actors.daemon.service import Service

    if anyio.run(serve, Service(chosen), _announce) == signal.SIGINT:
        raise typer.Exit(130)


def _with_overrides(config: "Config", serve: dict[str, Any], policy: str | None, events: str | None) -> "Config":
    from msgspec.structs import replace

    given = {key: value for key, value in serve.items() if value is not None}
    config = replace(config, serve=replace(config.serve, **given))
    if policy is not None:
        config = replace(config, schedule=replace(config.schedule, policy=policy))
    if events is not None:
        config = replace(config, events=replace(config.events, path=events))
    return config


def _announce(message: str) -> None:
    typer.echo(f"memspec: {message}", err=True)
