"""``hyrecall browse``: shows the memories of a user as files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from hyrecall.cli.help import Command, Group
from hyrecall.cli.memory_options import (
    AsJson,
    Org,
    StoreFilters,
    StorePath,
    User,
    Workspace,
    opened,
    read_store_filter,
)
from hyrecall.cli.show import print_json, print_stored, say

if TYPE_CHECKING:
    from pathlib import Path

    from hyrecall.memory import Browse

__all__ = ["browse"]

browse = typer.Typer(
    name="browse",
    cls=Group,
    help="Read memories as files: /index.md, /memories, /shared, /sessions, /facts, /graph, "
    "/pinned. Read-only.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)

Where: TypeAlias = Annotated[
    str, typer.Argument(metavar="PATH", help="A folder or a file, such as /memories.")
]
Agent: TypeAlias = Annotated[
    str | None,
    typer.Option("--agent", metavar="NAME", help="Read as this agent of --org and --workspace."),
]
Limit: TypeAlias = Annotated[
    int, typer.Option("--limit", metavar="N", help="The most entries to show.")
]


@contextmanager
def _files(
    path: Path | None, user: str | None, org: str | None, workspace: str | None, agent: str | None
) -> Iterator[Browse]:
    if agent is not None and user is not None:
        raise typer.BadParameter("expected either --user or --agent")
    with opened(path, read_only=True) as memory:
        if agent is not None:
            yield memory.agent(agent, org=org or "", workspace=workspace or "").browse()
        else:
            yield memory.browse(user_id=user, org=org, workspace=workspace)


@browse.command(cls=Command)
def ls(
    where: Where = "/",
    path: StorePath = None,
    user: User = None,
    org: Org = None,
    workspace: Workspace = None,
    agent: Agent = None,
    limit: Limit = 200,
    as_json: AsJson = False,
) -> None:
    """List a folder, newest first."""
    with _files(path, user, org, workspace, agent) as files:
        _entries(files.ls(where, limit=limit), as_json)


@browse.command(cls=Command)
def cat(
    where: Where,
    path: StorePath = None,
    user: User = None,
    org: Org = None,
    workspace: Workspace = None,
    agent: Agent = None,
    as_json: AsJson = False,
) -> None:
    """Show a file; a missing file is empty."""
    with _files(path, user, org, workspace, agent) as files:
        text = files.cat(where)
    if as_json:
        print_json({"path": where, "text": text})
    else:
        print_stored(text)
        if not text:
            say("note: no such file")


@browse.command(cls=Command)
def grep(
    pattern: Annotated[
        str, typer.Argument(metavar="PATTERN", help="A text to find, ignoring case.")
    ],
    where: Where = "/",
    path: StorePath = None,
    user: User = None,
    org: Org = None,
    workspace: Workspace = None,
    agent: Agent = None,
    regex: Annotated[
        bool, typer.Option("--regex", help="Read the pattern as a regular expression (RE2).")
    ] = False,
    filters: StoreFilters = None,
    limit: Limit = 50,
    as_json: AsJson = False,
) -> None:
    """Show the lines that contain a text, newest memory first."""
    with _files(path, user, org, workspace, agent) as files:
        lines = files.grep(
            pattern, where, regex=regex, filter=read_store_filter(filters), limit=limit
        )
    if as_json:
        print_json({"lines": [asdict(line) for line in lines]})
        return
    if not lines:
        say("note: nothing found")
    for line in lines:
        print_stored(f"{line.path}:{line.number}:{line.text}\n")


@browse.command(cls=Command)
def find(
    pattern: Annotated[
        str, typer.Argument(metavar="PATTERN", help="File names to look for, with * ? [ab].")
    ] = "*",
    where: Where = "/",
    path: StorePath = None,
    user: User = None,
    org: Org = None,
    workspace: Workspace = None,
    agent: Agent = None,
    filters: StoreFilters = None,
    limit: Limit = 200,
    as_json: AsJson = False,
) -> None:
    """List the memories whose file name matches, newest first."""
    with _files(path, user, org, workspace, agent) as files:
        found = files.find(pattern, where, filter=read_store_filter(filters), limit=limit)
        _entries(found, as_json)


def _entries(entries: list[str], as_json: bool) -> None:
    if as_json:
        print_json({"entries": entries})
        return
    if not entries:
        say("note: nothing found")
    for entry in entries:
        print_stored(f"{entry}\n")
