"""``hyrecall serve``: serve a store or an index folder over HTTP, from one process or several."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from hyrecall.cli.memory_options import SECONDS_FOR_A_WRITER, opening_options, store_path
from hyrecall.cli.opening_options import Memory, Pin, Verify, opening_of
from hyrecall.cli.service_options import (
    AllowedHosts,
    AllowedOrigins,
    EngineThreads,
    Host,
    LogLevel,
    MoreOptions,
    NoJoin,
    Port,
    Tokens,
    check_log_level,
    log_to_stderr,
    options_of,
    service_fields,
)
from hyrecall.cli.settings import read_settings
from hyrecall.cli.show import say
from hyrecall.errors import OptionError, error

__all__ = ["app_of_a_worker", "serve"]

_ENVIRONMENT = "HYRECALL_SERVE"
"""How a worker learns the options: a process that is spawned gets nothing else."""

_OWNER_SECONDS = 10.0
"""So long a worker waits for an owner with too much to do; a third of a short deadline."""


@dataclass(frozen=True)
class _Asked:
    """The options of a command line, all of which JSON can hold."""

    folder: str
    is_index: bool
    recipe: str | None
    read_only: bool
    threads: int | None
    opening: dict[str, Any]
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
    host: Host = "127.0.0.1",
    port: Port = 8765,
    tokens: Tokens = None,
    allowed_hosts: AllowedHosts = None,
    allowed_origins: AllowedOrigins = None,
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
    threads: EngineThreads = None,
    memory: Memory = None,
    verify: Verify = None,
    pin: Pin = None,
    no_join: NoJoin = False,
    options: MoreOptions = None,
    log_level: LogLevel = "info",
) -> None:
    """Serve a store or an index over HTTP until SIGTERM or an interrupt.

    The store is made if it does not exist. An index folder is served read-only, and is loaded again
    when it is saved anew.
    """
    check_log_level(log_level)
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
    for option, value in {"--memory": memory, "--verify": verify, "--pin": pin}.items():
        if value and not is_index:
            raise error(OptionError, option, "no such option for a store", repr(value))
    asked = _Asked(
        folder=str(found),
        is_index=is_index,
        recipe=recipe,
        read_only=read_only,
        threads=threads,
        opening=opening_of(threads, memory, verify, pin).options if is_index else {},
        log_level=log_level,
        service=service_fields(
            host, port, tokens, allowed_hosts, allowed_origins, no_join, options
        ),
    )
    if workers > 1:
        _serve_by_workers(asked, workers)
    else:
        _serve(asked)


def _app_of(asked: _Asked) -> Any:
    """Make the app; a store opens when it starts, and an index now."""
    from hyrecall.index import Index
    from hyrecall.memory import Memory
    from hyrecall.serve import create_app

    log_to_stderr(asked.log_level)
    options = options_of(asked.service)
    if asked.is_index:
        return create_app(Index.open(asked.folder, **asked.opening), options)
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
    from hyrecall.serve.workers import run_workers

    log_to_stderr(asked.log_level)
    os.environ[_ENVIRONMENT] = json.dumps(asdict(asked))
    what = "index" if asked.is_index else "store"
    run_workers(
        f"{__name__}:{app_of_a_worker.__name__}", options_of(asked.service), workers,
        started=lambda url: say(f"serving the {what} {asked.folder} at {url} by {workers} workers"),
    )  # fmt: skip


def app_of_a_worker() -> Any:
    """Make the app of one of several processes."""
    return _app_of(_Asked(**json.loads(os.environ[_ENVIRONMENT])))
