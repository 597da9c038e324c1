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
from typing import TYPE_CHECKING, Any, Literal

import typer

from hyrecall.base.text_tables import Column, Row, clean
from hyrecall.cli.declare import group
from hyrecall.cli.memory_options import SECONDS_FOR_A_WRITER, store_path
from hyrecall.cli.options import kind_of_folder, opening_of, refuse
from hyrecall.cli.settings import opening_options, read_settings
from hyrecall.cli.show import print_json, print_table, say
from hyrecall.errors import NotFoundError, OptionError, error

if TYPE_CHECKING:
    from hyrecall.serve.options import Caller
    from hyrecall.serve.tokens import TokenInfo


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
    ctx: typer.Context,
    folder: Path | None = None,
    *,
    path: Path | None = None,
    host: str = "127.0.0.1",
    port: int = 8765,
    tokens: Path | None = None,
    allowed_hosts: list[str] | None = None,
    allowed_origins: list[str] | None = None,
    recipe: str | None = None,
    read_only: bool = False,
    workers: int = 1,
    threads: int | None = None,
    memory: Literal["mmap", "ram"] | None = None,
    verify: Literal["full", "structure"] | None = None,
    pin: list[str] | None = None,
    no_join: bool = False,
    options: list[str] | None = None,
    log_level: Literal["debug", "info", "warning", "error"] = "info",
) -> None:
    """Serve a store or an index over HTTP until SIGTERM or an interrupt.

    The store is made if it does not exist. An index is served read-only, and is loaded again when
    it is saved anew; so is a folder of shards, whose replies are those of one index with all
    documents.

    Arguments
    folder DIR: A store, a saved index, or its shards.
    Options
    path DIR: The same as DIR. [default: HYRECALL_PATH, the setting path, or
        ~/.local/share/hyrecall/memory]
    host ADDRESS: The address to listen at; another one than loopback needs --tokens.
    port N: The port to listen at; 0 is a free one.
    tokens FILE: The tokens of callers, which hyrecall token makes. [default: none: every caller on
        this machine may do everything]
    allowed_hosts --allowed-host NAME: A name of the service, as the header Host has it; repeat for
        several.
    allowed_origins --allowed-origin URL: An origin whose pages may call, as https://app.example;
        repeat for several.
    recipe NAME: The recipe of a store. [default: the settings, or default]
    read_only: Refuse every change of a store.
    workers N: Processes that answer.
    threads N: Threads of the engine in each process. [default: the processor's cores]
    no_join: Do not join searches that wait to a batch.
    options --option NAME=VALUE: Another option of hyrecall.serve.ServiceOptions, as
        max_body=2000000; repeat for several.
    log_level: What is logged.
    """
    if folder is not None and path is not None:
        raise typer.BadParameter("expected either DIR or --path")
    if workers < 1:
        raise error(OptionError, "--workers", ">= 1", workers)
    given = folder or path
    found = store_path(None, read_settings()) if given is None else given
    kind = kind_of_folder(found)
    is_index = kind != "store"
    if is_index:
        wish = "no such option for an index (each request names its recipe)"
        refuse(ctx, wish, "recipe", "read_only")
    else:
        refuse(ctx, "no such option for a store", "memory", "verify", "pin")
    service = {
        **_more_options(options), "host": host, "port": port, "join": not no_join,
        "tokens": None if tokens is None else str(tokens),
        "allowed_hosts": allowed_hosts or (), "allowed_origins": allowed_origins or (),
    }  # fmt: skip
    opening = opening_of(threads, memory, verify, pin).options if is_index else {}
    asked = _ServeOptions(str(found), kind, recipe, read_only, threads, opening, log_level, service)
    log_to_stderr(log_level)
    if workers == 1:
        from hyrecall.serve import run

        run(_app_of(asked), started=lambda url: say(f"serving {asked.what} at {url}"))
        return
    from hyrecall.serve import ServiceOptions
    from hyrecall.serve.workers import run_workers

    os.environ[_ENVIRONMENT] = json.dumps(asdict(asked))
    run_workers(
        f"{__name__}:{app_of_a_worker.__name__}", ServiceOptions(**service), workers,
        started=lambda url: say(f"serving {asked.what} at {url} by {workers} workers"),
    )  # fmt: skip


def _app_of(asked: _ServeOptions) -> Any:
    """Make the app; a store opens when it starts, and an index now."""
    from hyrecall.index import Index
    from hyrecall.memory import Memory
    from hyrecall.serve import ServiceOptions, create_app

    options = ServiceOptions(**asked.service)
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


def app_of_a_worker() -> Any:
    """Make the app of one of several processes."""
    asked = _ServeOptions(**json.loads(os.environ[_ENVIRONMENT]))
    log_to_stderr(asked.log_level)
    return _app_of(asked)


# ---- ``hyrecall token``: make, list and revoke the tokens of callers of ``hyrecall serve`` ----

SHARED = """
tokens FILE: The file of tokens; its owner's alone.
"""
_MOST_DAYS = 36_500


def make(
    *,
    tokens: Path,
    user_id: str | None = None,
    any_user: bool = False,
    org: str | None = None,
    workspace: str | None = None,
    any_partition: bool = False,
    agent: str | None = None,
    rights: str = "read,write",
    scope: list[str] | None = None,
    days: float | None = None,
    note: str = "",
) -> None:
    """Make a token. It is printed once: the file keeps its hash only.

    Options
    user_id --user NAME: The user whose memories it reads and writes. [default: the anonymous user]
    any_user: Let requests name any user of the partition.
    any_partition: Let requests name any org and workspace.
    agent NAME: An agent, with its read policy; needs --org and --workspace.
    rights LIST: Of read, write and upkeep (the numbers of the service), with commas.
    scope CELL: Of an index, a cell it reads: a value, or a JSON list with a value per cell column;
        repeat for several.
    days N: How many days it is valid. [default: no end]
    note TEXT: What the list shows beside it.
    """
    from hyrecall.serve.tokens import make_token

    who = _caller(
        user_id=user_id, org=org, workspace=workspace, agent=agent, rights=rights,
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


def list_(*, tokens: Path, as_json: bool = False) -> None:
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


def revoke(key: str, *, tokens: Path) -> None:
    """Revoke a token; a running service refuses it within two seconds.

    Arguments
    key ID: The id that the list shows.
    """
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


token = group("token", "Tokens of callers of hyrecall serve.", make, list_, revoke)
