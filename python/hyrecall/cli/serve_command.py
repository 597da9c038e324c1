"""``hyrecall serve`` and ``hyrecall token``: a service over HTTP, and who may call it."""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from hyrecall.base.text_tables import Column, Row, clean
from hyrecall.cli.help import Command, Group
from hyrecall.cli.memory_options import (
    SECONDS_FOR_A_WRITER,
    AsJson,
    Org,
    Workspace,
    store_path,
)
from hyrecall.cli.options import OpenedMemory as Memory
from hyrecall.cli.options import Pin, Verify, kind_of_folder, opening_of
from hyrecall.cli.settings import opening_options, read_settings
from hyrecall.cli.show import print_json, print_table, say
from hyrecall.errors import NotFoundError, OptionError, error

if TYPE_CHECKING:
    from hyrecall.serve import ServiceOptions
    from hyrecall.serve.options import Caller
    from hyrecall.serve.tokens import TokenInfo


# ---- Options of the commands that serve over HTTP, and how they become those of the service ----

LEVELS = ("debug", "info", "warning", "error")

Host: TypeAlias = Annotated[
    str,
    typer.Option(
        "--host",
        metavar="ADDRESS",
        help="The address to listen at; another one than loopback needs --tokens.",
    ),
]
Port: TypeAlias = Annotated[
    int, typer.Option("--port", metavar="N", help="The port to listen at; 0 is a free one.")
]
Tokens: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--tokens",
        metavar="FILE",
        show_default="none: every caller on this machine may do everything",
        help="The tokens of callers, which hyrecall token makes.",
    ),
]
AllowedHosts: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--allowed-host",
        metavar="NAME",
        help="A name of the service, as the header Host has it; repeat for several.",
    ),
]
AllowedOrigins: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--allowed-origin",
        metavar="URL",
        help="An origin whose pages may call, as https://app.example; repeat for several.",
    ),
]
EngineThreads: TypeAlias = Annotated[
    int | None,
    typer.Option(
        "--threads",
        metavar="N",
        show_default="the processor's cores",
        help="Threads of the engine in each process.",
    ),
]
NoJoin: TypeAlias = Annotated[
    bool, typer.Option("--no-join", help="Do not join searches that wait to a batch.")
]
MoreOptions: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--option",
        metavar="NAME=VALUE",
        help="Another option of hyrecall.serve.ServiceOptions, as max_body=2000000; repeat for "
        "several.",
    ),
]
LogLevel: TypeAlias = Annotated[
    str, typer.Option("--log-level", metavar="|".join(LEVELS), help="What is logged.")
]


def check_log_level(level: str) -> None:
    """Refuse a level that is none."""
    if level not in LEVELS:
        raise error(OptionError, "--log-level", f"one of {', '.join(LEVELS)}", repr(level))


def service_fields(
    host: str,
    port: int,
    tokens: Path | None,
    allowed_hosts: list[str] | None,
    allowed_origins: list[str] | None,
    no_join: bool,
    options: list[str] | None,
) -> dict[str, Any]:
    """Return fields of the service's options, all of which JSON can hold."""
    return {
        **_more_options(options),
        "host": host,
        "port": port,
        "tokens": None if tokens is None else str(tokens),
        "allowed_hosts": allowed_hosts or [],
        "allowed_origins": allowed_origins or [],
        "join": not no_join,
    }


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


def options_of(given: dict[str, Any]) -> ServiceOptions:
    """Make the options of the service of :func:`service_fields`."""
    from hyrecall.serve import ServiceOptions

    lists = {name: tuple(given[name]) for name in ("allowed_hosts", "allowed_origins")}
    return ServiceOptions(**{**given, **lists})


def log_to_stderr(level: str) -> None:
    """Write the service's logs to standard error."""
    logging.basicConfig(
        stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s %(message)s", level="WARNING"
    )
    for name in ("hyrecall", "uvicorn"):
        logging.getLogger(name).setLevel(level.upper())


# ---- ``hyrecall serve``: serve a store or an index folder over HTTP, from one process or several

_ENVIRONMENT = "HYRECALL_SERVE"
"""How a worker learns the options: a process that is spawned gets nothing else."""

_OWNER_SECONDS = 10.0
"""So long a worker waits for an owner with too much to do; a third of a short deadline."""


@dataclass(frozen=True)
class _ServeOptions:
    """The options of ``hyrecall serve``, as plain values for JSON."""

    folder: str
    kind: str  # store, index or shards
    recipe: str | None
    read_only: bool
    threads: int | None
    opening: dict[str, Any]
    log_level: str
    service: dict[str, Any]

    @property
    def what(self) -> str:
        """What is served, for a message."""
        return f"the {self.kind}{' of' if self.kind == 'shards' else ''} {self.folder}"


def serve(
    folder: Annotated[
        Path | None,
        typer.Argument(metavar="DIR", help="A store, a saved index, or its shards."),
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

    The store is made if it does not exist. An index is served read-only, and is loaded again when
    it is saved anew; so is a folder of shards, whose replies are those of one index with all
    documents.
    """
    check_log_level(log_level)
    if folder is not None and path is not None:
        raise typer.BadParameter("expected either DIR or --path")
    if workers < 1:
        raise error(OptionError, "--workers", ">= 1", workers)
    given = folder or path
    found = store_path(None, read_settings()) if given is None else given
    kind = kind_of_folder(found)
    is_index = kind != "store"
    if is_index and (recipe is not None or read_only):
        wish = "no such option for an index (each request names its recipe)"
        raise error(OptionError, "--recipe" if recipe else "--read-only", wish, "one")
    for option, value in {"--memory": memory, "--verify": verify, "--pin": pin}.items():
        if value and not is_index:
            raise error(OptionError, option, "no such option for a store", repr(value))
    asked = _ServeOptions(
        folder=str(found),
        kind=kind,
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


def _app_of(asked: _ServeOptions) -> Any:
    """Make the app; a store opens when it starts, and an index now."""
    from hyrecall.index import Index
    from hyrecall.memory import Memory
    from hyrecall.serve import create_app

    log_to_stderr(asked.log_level)
    options = options_of(asked.service)
    if asked.kind == "index":
        return create_app(Index.open(asked.folder, **asked.opening), options)
    if asked.kind == "shards":
        from hyrecall.distributed import ShardedIndex

        return create_app(ShardedIndex.open(asked.folder, **asked.opening), options)
    opening = Memory.open(
        asked.folder,
        read_only=asked.read_only,
        wait=0.0 if asked.read_only else SECONDS_FOR_A_WRITER,
        owner_timeout=min(_OWNER_SECONDS, options.deadline / 3),
        threads=asked.threads,
        **opening_options(asked.recipe, read_settings()),
    )
    return create_app(opening, options)


def _serve(asked: _ServeOptions) -> None:
    from hyrecall.serve import run

    run(_app_of(asked), started=lambda url: say(f"serving {asked.what} at {url}"))


# ---- several processes ----


def _serve_by_workers(asked: _ServeOptions, workers: int) -> None:
    from hyrecall.serve.workers import run_workers

    log_to_stderr(asked.log_level)
    os.environ[_ENVIRONMENT] = json.dumps(asdict(asked))
    run_workers(
        f"{__name__}:{app_of_a_worker.__name__}", options_of(asked.service), workers,
        started=lambda url: say(f"serving {asked.what} at {url} by {workers} workers"),
    )  # fmt: skip


def app_of_a_worker() -> Any:
    """Make the app of one of several processes."""
    return _app_of(_ServeOptions(**json.loads(os.environ[_ENVIRONMENT])))


# ---- ``hyrecall token``: make, list and revoke the tokens of callers of ``hyrecall serve`` ----

TokenPath: TypeAlias = Annotated[
    Path, typer.Option("--tokens", metavar="FILE", help="The file of tokens; its owner's alone.")
]

_MOST_DAYS = 36_500

token = typer.Typer(
    name="token",
    cls=Group,
    help="Tokens of callers of hyrecall serve.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)


@token.command(cls=Command)
def make(
    tokens: TokenPath,
    user: Annotated[
        str | None,
        typer.Option(
            "--user",
            metavar="NAME",
            show_default="the anonymous user",
            help="The user whose memories it reads and writes.",
        ),
    ] = None,
    any_user: Annotated[
        bool, typer.Option("--any-user", help="Let requests name any user of the partition.")
    ] = False,
    org: Org = None,
    workspace: Workspace = None,
    any_partition: Annotated[
        bool, typer.Option("--any-partition", help="Let requests name any org and workspace.")
    ] = False,
    agent: Annotated[
        str | None,
        typer.Option(
            "--agent",
            metavar="NAME",
            help="An agent, with its read policy; needs --org and --workspace.",
        ),
    ] = None,
    rights: Annotated[
        str,
        typer.Option(
            "--rights",
            metavar="LIST",
            help="Of read, write and upkeep (the numbers of the service), with commas.",
        ),
    ] = "read,write",
    scope: Annotated[
        list[str] | None,
        typer.Option(
            "--scope",
            metavar="CELL",
            help="Of an index, a cell it reads: a value, or a JSON list with a value per cell "
            "column; repeat for several.",
        ),
    ] = None,
    days: Annotated[
        float | None,
        typer.Option(
            "--days", metavar="N", show_default="no end", help="How many days it is valid."
        ),
    ] = None,
    note: Annotated[
        str, typer.Option("--note", metavar="TEXT", help="What the list shows beside it.")
    ] = "",
) -> None:
    """Make a token. It is printed once: the file keeps its hash only."""
    from hyrecall.serve.tokens import make_token

    who = _caller(
        user_id=user, org=org, workspace=workspace, agent=agent, rights=rights,
        cells=_cells(scope), may_choose_user=any_user, may_choose_partition=any_partition,
    )  # fmt: skip
    ends = None
    if days is not None:
        if not 0 < days <= _MOST_DAYS:
            raise error(OptionError, "--days", f"in (0, {_MOST_DAYS}]", days)
        ends = datetime.now(UTC) + timedelta(days=days)
    print(make_token(tokens, who, expires_at=ends, note=note))
    say("note: keep it now: only its hash is stored")


def _caller(*, rights: str, cells: Any, **given: Any) -> Caller:
    from hyrecall.serve.options import Caller

    wanted: Any = frozenset(one.strip() for one in rights.split(",") if one.strip())
    if given["user_id"] is not None and given["may_choose_user"]:
        raise error(OptionError, "--any-user", "no --user with it", "one")
    partition = given["org"], given["workspace"]
    if given["may_choose_partition"] and partition != (None, None):
        raise error(OptionError, "--any-partition", "no --org and no --workspace with it", "one")
    return Caller(rights=wanted, cells=cells, **given)


def _cells(scope: Sequence[str] | None) -> tuple[tuple[Any, ...], ...]:
    cells = []
    for one in scope or ():
        if not one.startswith("["):
            cells.append((one,))
            continue
        try:
            cells.append(tuple(json.loads(one)))
        except ValueError:
            wish = "a JSON list with a value per cell column"
            raise error(OptionError, "--scope", wish, repr(one)) from None
    return tuple(cells)


@token.command("list", cls=Command)
def list_(tokens: TokenPath, as_json: AsJson = False) -> None:
    """List tokens by their ids, without secrets."""
    from hyrecall.serve.tokens import list_tokens

    found = list_tokens(tokens)
    if as_json:
        print_json({"tokens": [_shown(one) for one in found]})
        return
    columns = (Column("id", style="key"), Column("rights"), Column("for"), Column("until"))
    rows = [
        Row([one.id, ",".join(sorted(one.caller.rights)), clean(_whose(one)), _until(one)])
        for one in found
    ]
    print_table(columns, rows)


@token.command(cls=Command)
def revoke(
    key: Annotated[str, typer.Argument(metavar="ID", help="The id that the list shows.")],
    tokens: TokenPath,
) -> None:
    """Revoke a token; a running service refuses it within two seconds."""
    from hyrecall.serve.tokens import revoke_token

    if not revoke_token(tokens, key):
        raise error(NotFoundError, "ID", "the id of a token", repr(key))
    say(f"{key} is revoked")


def _shown(one: TokenInfo) -> dict[str, Any]:
    data = asdict(one)
    data["caller"]["rights"] = sorted(one.caller.rights)
    return data


def _whose(one: TokenInfo) -> str:
    who = one.caller
    if who.cells:
        told = "cells " + ", ".join(json.dumps(cell, ensure_ascii=False) for cell in who.cells)
    else:
        user = "the anonymous user" if who.user_id is None else f"user {who.user_id}"
        user = user if who.agent is None else f"agent {who.agent}"
        user = "any user" if who.may_choose_user else user
        names = {"org": who.org, "workspace": who.workspace}
        around = [f"{name} {value}" for name, value in names.items() if value is not None]
        around = ["any org and workspace"] if who.may_choose_partition else around
        told = ", ".join([user, *around])
    return f"{told}{f' ({one.note})' if one.note else ''}"


def _until(one: TokenInfo) -> str:
    return "-" if one.expires_at is None else one.expires_at.isoformat(" ", "minutes")
