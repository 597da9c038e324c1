"""``hyrecall export`` and ``import``: write a store as JSON lines and read it back."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from hyrecall.cli.memory_options import AsJson, Org, StorePath, User, Workspace, bar, opened
from hyrecall.cli.show import print_json, say
from hyrecall.errors import OptionError, error

__all__ = ["export", "import_"]


def export(
    path: StorePath = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", metavar="FILE", show_default="stdout", help="The file to write."
        ),
    ] = None,
    user: User = None,
    everyone: Annotated[
        bool, typer.Option("--everyone", help="The memories of all users, as for a backup.")
    ] = False,
    org: Org = None,
    workspace: Workspace = None,
    history: Annotated[
        bool, typer.Option("--history", help="Write every version, also of deleted memories.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Write the number of lines as one JSON object; needs -o.")
    ] = False,
) -> None:
    """Write memories, facts and edges as JSON lines."""
    from hyrecall.memory import EVERYONE

    if as_json and out is None:
        raise error(OptionError, "--json", "-o with it (the lines themselves are JSON)", "no -o")
    if everyone and user is not None:
        raise error(OptionError, "--everyone", "no --user with it", f"--user {user!r}")
    whose = EVERYONE if everyone else user
    with opened(path, read_only=True) as memory:
        n_lines = memory.export(
            sys.stdout if out is None else out, user_id=whose, org=org, workspace=workspace,
            history=history,
        )  # fmt: skip
    only = "" if everyone or user is not None else " (the anonymous ones; --everyone for all)"
    say(f"{n_lines:,} line{'' if n_lines == 1 else 's'}{only}")
    if as_json:
        print_json({"lines": n_lines})


def import_(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="The lines of an export, or a database of l0.")
    ],
    path: StorePath = None,
    source: Annotated[
        str, typer.Option("--from", metavar="hyrecall|l0", help="The program that wrote the file.")
    ] = "hyrecall",
    as_json: AsJson = False,
) -> None:
    """Merge an export into the store; existing memories stay. Exit code 1 if lines have errors."""
    if source not in ("hyrecall", "l0"):
        raise error(OptionError, "--from", "hyrecall or l0", repr(source))
    file.stat()  # raises for a missing file before a store is made
    with opened(path, makes=True) as memory, bar() as progress:
        done = memory.import_(file, source=source, progress=progress)
    for one in done.errors:
        say(f"error: line {one.line}: {one.error}")
    if as_json:
        print_json(asdict(done))
    else:
        print(f"{done.imported:,} imported, {done.skipped:,} skipped, {len(done.errors):,} errors")
    if done.errors:
        raise typer.Exit(1)
