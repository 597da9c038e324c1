"""``hyrecall export`` and ``import``: write a store as JSON lines and read it back."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from hyrecall.base.arguments import home_path
from hyrecall.cli.memory_options import AsJson, Org, StorePath, User, Workspace, bar, opened
from hyrecall.cli.migrate_options import MigrateOptions, migrate
from hyrecall.cli.show import print_json, say
from hyrecall.errors import OptionError, error

__all__ = ["export", "import_"]

_SYSTEMS = ("chroma", "lancedb", "qdrant", "mem0", "langchain")


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
        str,
        typer.Argument(
            metavar="SOURCE",
            help="The lines of an export, or a database of l0; a folder of chroma, lancedb or "
            "qdrant; a snapshot of qdrant, or the URL of its server; a file of mem0 (the JSON of "
            "get_all) or langchain (a dump of InMemoryVectorStore).",
        ),
    ],
    path: StorePath = None,
    source: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="SYSTEM",
            help="The program that wrote it: hyrecall, l0, chroma, lancedb, qdrant, mem0 or "
            "langchain. The options below are for the last five.",
        ),
    ] = "hyrecall",
    user: Annotated[
        str | None,
        typer.Option(
            "--user",
            metavar="NAME",
            help="The user of all records. Either this or --user-from is required.",
        ),
    ] = None,
    user_from: Annotated[
        str | None,
        typer.Option(
            "--user-from",
            metavar="FIELD",
            help="The field of a record that names its user, or its path with dots.",
        ),
    ] = None,
    org: Org = None,
    workspace: Workspace = None,
    collection: Annotated[
        str | None,
        typer.Option(
            "--collection",
            metavar="NAME",
            show_default="the only one",
            help="The collection of chroma or qdrant, or the table of lancedb.",
        ),
    ] = None,
    id_field: Annotated[
        str | None,
        typer.Option(
            "--id-field", metavar="COLUMN", show_default="id", help="The ids; of lancedb."
        ),
    ] = None,
    text_field: Annotated[
        str | None,
        typer.Option(
            "--text-field",
            metavar="FIELD",
            show_default="text",
            help="The texts; of lancedb and qdrant.",
        ),
    ] = None,
    vector_field: Annotated[
        str | None,
        typer.Option(
            "--vector-field",
            metavar="FIELD",
            show_default="the only one",
            help="The vectors; of lancedb and qdrant.",
        ),
    ] = None,
    time_from: Annotated[
        str | None,
        typer.Option(
            "--time-from",
            metavar="FIELD",
            show_default="that of the system, or now",
            help="The time of a record: ISO 8601, or seconds from 1970 on.",
        ),
    ] = None,
    vector_model: Annotated[
        str | None,
        typer.Option(
            "--vector-model",
            metavar="NAME",
            help="The model that made the vectors, as the embedder of the store names it. "
            "Without it no vector comes along.",
        ),
    ] = None,
    into_index: Annotated[
        Path | None,
        typer.Option(
            "--into-index",
            metavar="DIR",
            help="Write into the index of documents in this folder, instead of a store; it is "
            "made if there is none.",
        ),
    ] = None,
    attribute: Annotated[
        list[str] | None,
        typer.Option(
            "--attribute",
            metavar="NAME=TYPE",
            help="A field of the records to filter by, of a new index: str, int, float, bool, "
            "datetime, date, or list[str]. Repeat the option for several.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Merge an export, or the records of another system, into the store; memories there stay.

    Exit code 1 if lines have errors, or records are left out.
    """
    options = MigrateOptions(
        user, user_from, org, workspace, collection, id_field, text_field, vector_field,
        time_from, vector_model, into_index, attribute or None,
    )  # fmt: skip
    if source not in ("hyrecall", "l0"):
        if source not in _SYSTEMS:
            raise error(OptionError, "--from", f"hyrecall, l0, {', '.join(_SYSTEMS)}", repr(source))
        if not migrate(source, file, path, options, as_json=as_json):
            raise typer.Exit(1)
        return
    options.refuse_all(source)
    file = home_path("FILE", file)
    Path(file).stat()  # raises for a missing file before a store is made
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
