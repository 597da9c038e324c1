"""``hyrecall serve``: serve a store or an index folder over HTTP, from one process or several."""

from __future__ import annotations

import json
import logging
import os
import sys
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hyrecall.cli.memory_options import SECONDS_FOR_A_WRITER, opening_options, store_path
from hyrecall.cli.settings import read_settings
from hyrecall.cli.show import say
from hyrecall.errors import OptionError, error

if TYPE_CHECKING:
    from hyrecall.serve import ServiceOptions

__all__ = ["app_of_a_worker", "serve"]

_ENVIRONMENT = "HYRECALL_SERVE"
"""How a worker learns the options: a process that is spawned gets nothing else."""

_OWNER_SECONDS = 10.0
"""So long a worker waits for an owner with too much to do; a third of a short deadline."""
_LEVELS = ("debug", "info", "warning", "error")


@dataclass(frozen=True)
class _Asked:
    """The options of a command line, all of which JSON can hold."""

    folder: str
    is_index: bool
    recipe: str | None
    read_only: bool
    threads: int | None
    log_level: str
    service: dict[str, Any]


def serve(
    folder: Annotated[
        Path | None,
        typer.Argument(metavar="DIR", help="A store, or the folder of a saved index."),
    ] = None,
    path: Annotated[
        Path | None,
        typer.Option(
            "--path",
            metavar="DIR",
            show_default="HYRECALL_PATH, the setting path, or ~/.local/share/hyrecall/memory",
            help="The same as DIR.",
        ),
    ] = None,
    host: Annotated[
        str,
        typer.Option(
            "--host",
            metavar="ADDRESS",
            help="The address to listen at; another one than loopback needs --tokens.",
        ),
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", metavar="N", help="The port to listen at; 0 is a free one.")
    ] = 8765,
    tokens: Annotated[
        Path | None,
        typer.Option(
            "--tokens",
            metavar="FILE",
            show_default="none: every caller on this machine may do everything",
            help="The tokens of callers, which hyrecall token makes.",
        ),
    ] = None,
    allowed_hosts: Annotated[
        list[str] | None,
        typer.Option(
            "--allowed-host",
            metavar="NAME",
            help="A name of the service, as the header Host has it; repeat for several.",
        ),
    ] = None,
    allowed_origins: Annotated[
        list[str] | None,
        typer.Option(
            "--allowed-origin",
            metavar="URL",
            help="An origin whose pages may call, as https://app.example; repeat for several.",
        ),
    ] = None,
    recipe: Annotated[
        str | None,
        typer.Option(
            "--recipe",
            metavar="NAME",
            show_default="the settings, or default",
            help="The recipe of a store.",
        ),
    ] = None,
    read_only: Annotated[
        bool, typer.Option("--read-only", help="Refuse every change of a store.")
    ] = False,
    workers: Annotated[
        int, typer.Option("--workers", metavar="N", help="Processes that answer.")
    ] = 1,
    threads: Annotated[
        int | None,
        typer.Option(
            "--threads",
            metavar="N",
            show_default="the processor's cores",
            help="Threads of the engine in each process.",
        ),
    ] = None,
    no_join: Annotated[
        bool, typer.Option("--no-join", help="Do not join searches that wait to a batch.")
    ] = False,
    options: Annotated[
        list[str] | None,
        typer.Option(
            "--option",
            metavar="NAME=VALUE",
            help="Another option of hyrecall.serve.ServiceOptions, as max_body=2000000; repeat for "
            "several.",
        ),
    ] = None,
    log_level: Annotated[
        str, typer.Option("--log-level", metavar="|".join(_LEVELS), help="What is logged.")
    ] = "info",
) -> None:
    """Serve a store or an index over HTTP until SIGTERM or an interrupt.

    The store is made if it does not exist. An index folder is served read-only, and is loaded again
    when it is saved anew.
    """
    if log_level not in _LEVELS:
        raise error(OptionError, "--log-level", f"one of {', '.join(_LEVELS)}", repr(log_level))
    if folder is not None and path is not None:
        raise typer.BadParameter("expected either DIR or --path")
    if workers < 1:
        raise error(OptionError, "--workers", ">= 1", workers)
    given = folder or path
    found = store_path(None, read_settings()) if given is None else given
    is_index = (found / "MANIFEST").exists()
    if is_index and (recipe is not None or read_only):
        wish = "no such option for an index (each request names its recipe)"
        raise error(OptionError, "--recipe" if recipe else "--read-only", wish, "one")
    asked = _Asked(
        folder=str(found),
        is_index=is_index,
        recipe=recipe,
        read_only=read_only,
        threads=threads,
        log_level=log_level,
        service={
            **_more_options(options),
            "host": host,
            "port": port,
            "tokens": None if tokens is None else str(tokens),
            "allowed_hosts": allowed_hosts or [],
            "allowed_origins": allowed_origins or [],
            "join": not no_join,
        },
    )
    if workers > 1:
        _serve_by_workers(asked, workers)
    else:
        _serve(asked)


def _more_options(given: list[str] | None) -> dict[str, Any]:
    """Read ``NAME=VALUE`` of numbers."""
    from hyrecall.serve import ServiceOptions

    known = [one.name for one in fields(ServiceOptions) if isinstance(one.default, int | float)]
    numbers = [name for name in known if name not in ("port", "join")]
    made: dict[str, Any] = {}
    for one in given or ():
        name, _, value = one.partition("=")
        if name not in numbers:
            raise error(OptionError, "--option", f"one of {', '.join(numbers)}", repr(name))
        try:
            made[name] = json.loads(value)
        except ValueError:
            raise error(OptionError, f"--option {name}", "a number", repr(value)) from None
    return made


def _options_of(asked: _Asked) -> ServiceOptions:
    from hyrecall.serve import ServiceOptions

    lists = {name: tuple(asked.service[name]) for name in ("allowed_hosts", "allowed_origins")}
    return ServiceOptions(**{**asked.service, **lists})


def _app_of(asked: _Asked) -> Any:
    """Make the app; a store opens when it starts, and an index now."""
    from hyrecall.index import Index
    from hyrecall.memory import Memory
    from hyrecall.serve import create_app

    _log_to_stderr(asked.log_level)
    options = _options_of(asked)
    if asked.is_index:
        return create_app(Index.open(asked.folder, threads=asked.threads), options)
    opening = Memory.open(
        asked.folder,
        read_only=asked.read_only,
        wait=0.0 if asked.read_only else SECONDS_FOR_A_WRITER,
        owner_timeout=min(_OWNER_SECONDS, options.deadline / 3),
        threads=asked.threads,
        **opening_options(asked.recipe, read_settings()),
    )
    return create_app(opening, options)


def _serve(asked: _Asked) -> None:
    from hyrecall.serve import run

    what = "index" if asked.is_index else "store"
    run(_app_of(asked), started=lambda url: say(f"serving the {what} {asked.folder} at {url}"))


# ---- several processes ----


def _serve_by_workers(asked: _Asked, workers: int) -> None:
    from hyrecall.serve.server import run_workers

    _log_to_stderr(asked.log_level)
    os.environ[_ENVIRONMENT] = json.dumps(asdict(asked))
    what = "index" if asked.is_index else "store"
    run_workers(
        f"{__name__}:{app_of_a_worker.__name__}", _options_of(asked), workers,
        started=lambda url: say(f"serving the {what} {asked.folder} at {url} by {workers} workers"),
    )  # fmt: skip


def app_of_a_worker() -> Any:
    """Make the app of one of several processes."""
    return _app_of(_Asked(**json.loads(os.environ[_ENVIRONMENT])))


def _log_to_stderr(level: str) -> None:
    logging.basicConfig(
        stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s %(message)s", level="WARNING"
    )
    for name in ("hyrecall", "uvicorn"):
        logging.getLogger(name).setLevel(level.upper())
