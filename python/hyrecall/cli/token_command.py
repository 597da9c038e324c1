"""``hyrecall token``: make, list and revoke the tokens of callers of ``hyrecall serve``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from hyrecall.base.text_tables import Column, Row, clean
from hyrecall.cli.help import Command, Group
from hyrecall.cli.memory_options import AsJson, Org, Workspace
from hyrecall.cli.show import print_json, print_table, say
from hyrecall.errors import NotFoundError, OptionError, error

if TYPE_CHECKING:
    from hyrecall.serve.identity import Caller
    from hyrecall.serve.tokens import TokenInfo

__all__ = ["token"]

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
    from hyrecall.serve.identity import Caller

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
