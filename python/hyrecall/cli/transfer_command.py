"""``hyrecall export`` and ``import``: write a store as JSON lines and read it back."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import typer

from hyrecall.base.arguments import home_path
from hyrecall.cli.memory_options import bar, opened
from hyrecall.cli.options import refuse
from hyrecall.cli.show import print_json, say, show
from hyrecall.errors import HyrecallError, OptionError, error

if TYPE_CHECKING:
    from hyrecall.adapters.documents import AttributeType
    from hyrecall.migrate import Migrated


# ---- Moves the records of another system for ``hyrecall import``, and shows the report ----


Given: TypeAlias = dict[str, Any]


def _migrate(
    source: Any,
    path: Path | None,
    scope: Given,
    of_a_store: Given,
    index: Path | None,
    attribute: list[str] | None,
) -> Migrated:
    """Move the records of an opened source, with how far it is."""
    from hyrecall.migrate import into_index, into_store
    from hyrecall.migrate.records import Owners

    with source as records, bar() as progress:  # opened before a store is made
        if index is not None:
            fields = _attributes(attribute)
            return into_index(index, records, attributes=fields, progress=progress, **scope)
        Owners(scope["user"], scope["user_from"])  # refused before a store is made
        with opened(path, makes=True) as memory:
            return into_store(memory, records, progress=progress, **scope, **of_a_store)


def _attributes(given: list[str] | None) -> dict[str, AttributeType] | None:
    """Return the types of the fields to filter by, by name; None if none is named."""
    named: dict[str, AttributeType] = {}
    for one in given or ():
        name, _, kind = one.partition("=")
        if not name or not kind:
            raise error(OptionError, "--attribute", "NAME=TYPE, such as year=int", repr(one))
        named[name] = kind
    return named or None


def _show(done: Migrated, *, is_index: bool) -> None:
    for one in done.left_out:
        say(f"left out: {one.count:,} ({one.reason}), such as {one.example!r}")
    for name, n in done.dropped.items():
        say(f"not kept: {name} ({n:,})")
    for one in done.without_vector:
        say(f"without vector: {one.count:,} ({one.reason}), such as {one.example!r}")
    if done.n_other_vectors:
        say(f"vectors of another model or length than the store's: {done.n_other_vectors:,}")
    if done.needs_reembed and not is_index:
        say("note: hyrecall reembed makes the vectors that are missing")
    n_out = sum(one.count for one in done.left_out)
    print(
        f"{done.n_read:,} read, {done.imported:,} imported ({done.n_vectors:,} with vectors), "
        f"{done.skipped:,} skipped, {n_out:,} left out"
    )


@contextmanager
def _as_options(names: Iterable[str]) -> Iterator[None]:
    """Name the options of the command in errors about arguments."""
    flags = {name: f"--{name.replace('_', '-')}" for name in names}
    flags |= {"folder": "--into-index", "attributes": "--attribute"}
    try:
        yield
    except HyrecallError as fault:
        if fault.argument not in flags:
            raise
        named = flags[fault.argument]
        told = str(fault).replace("user= or user_from=", "--user or --user-from", 1)
        made = type(fault)(told.replace(fault.argument, named, 1))
        made.argument = named
        raise made from None


# ---- ``hyrecall export`` and ``import``: write a store as JSON lines and read it back ----

_SYSTEMS = ("chroma", "lancedb", "qdrant", "mem0", "langchain")


def export(
    *,
    path: Path | None = None,
    out: Path | None = None,
    user_id: str | None = None,
    everyone: bool = False,
    org: str | None = None,
    workspace: str | None = None,
    history: bool = False,
    as_json: bool = False,
) -> None:
    """Write memories, facts and edges as JSON lines.

    Options
    out -o --output FILE: The file to write. [default: stdout]
    everyone: The memories of all users, as for a backup.
    history: Write every version, also of deleted memories.
    as_json --json: Write the number of lines as one JSON object; needs -o.
    """
    from hyrecall.memory import EVERYONE

    if as_json and out is None:
        raise error(OptionError, "--json", "-o with it (the lines themselves are JSON)", "no -o")
    if everyone and user_id is not None:
        raise error(OptionError, "--everyone", "no --user with it", f"--user {user_id!r}")
    whose = EVERYONE if everyone else user_id
    with opened(path, read_only=True) as memory:
        n_lines = memory.export(
            sys.stdout if out is None else out, user_id=whose, org=org, workspace=workspace,
            history=history,
        )  # fmt: skip
    only = "" if everyone or user_id is not None else " (the anonymous ones; --everyone for all)"
    say(f"{n_lines:,} line{'' if n_lines == 1 else 's'}{only}")
    if as_json:
        print_json({"lines": n_lines})


def import_(
    ctx: typer.Context,
    file: str,
    *,
    path: Path | None = None,
    source: str = "hyrecall",
    user: str | None = None,
    user_from: str | None = None,
    org: str | None = None,
    workspace: str | None = None,
    collection: str | None = None,
    id_field: str | None = None,
    text_field: str | None = None,
    vector_field: str | None = None,
    time_from: str | None = None,
    vector_model: str | None = None,
    into_index: Path | None = None,
    attribute: list[str] | None = None,
    as_json: bool = False,
) -> None:
    """Merge an export, or the records of another system, into the store; memories there stay.

    Exit code 1 if lines have errors, or records are left out.

    Arguments
    file SOURCE: The lines of an export, or a database of l0; a folder of chroma, lancedb or qdrant,
        or the URL of a server of qdrant; a file of mem0 (the JSON of get_all) or langchain (a dump
        of InMemoryVectorStore).
    Options
    source --from SYSTEM: The program that wrote it: hyrecall, l0, chroma, lancedb, qdrant, mem0 or
        langchain. The options below are for the last five.
    user NAME: The user of all records. Either this or --user-from is required.
    user_from FIELD: The field of a record that names its user, or its path with dots.
    collection NAME: The collection of chroma or qdrant, or the table of lancedb. [default: the only
        one]
    id_field COLUMN: The ids; of lancedb. [default: id]
    text_field FIELD: The texts; of lancedb and qdrant. [default: text]
    vector_field FIELD: The vectors; of lancedb and qdrant. [default: the only one]
    time_from FIELD: The time of a record: ISO 8601, or seconds from 1970 on. [default: that of the
        system, or now]
    vector_model NAME: The model that made the vectors, as the embedder of the store names it.
        Without it no vector comes along.
    into_index DIR: Write into the index of documents in this folder, instead of a store; it is made
        if there is none.
    attribute NAME=TYPE: A field of the records to filter by, of a new index: str, int, float, bool,
        datetime, date, or list[str]. Repeat the option for several.
    """
    scope = {"user": user, "user_from": user_from}
    of_a_store: Given = {
        "org": org, "workspace": workspace, "time_from": time_from, "vector_model": vector_model,
    }  # fmt: skip
    fields = {
        "collection": collection, "id_field": id_field, "text_field": text_field,
        "vector_field": vector_field,
    }  # fmt: skip
    if source not in ("hyrecall", "l0"):
        if source not in _SYSTEMS:
            raise error(OptionError, "--from", f"hyrecall, l0, {', '.join(_SYSTEMS)}", repr(source))
        if into_index is None:
            refuse(ctx, "none without --into-index", "attribute")
        else:
            refuse(ctx, "none with --into-index", "path", *of_a_store)
        from hyrecall.migrate import open_source

        with _as_options({**scope, **of_a_store, **fields}):
            records = open_source(source, file, **fields)
            moved = _migrate(records, path, scope, of_a_store, into_index, attribute)
        if as_json:
            print_json({**asdict(moved), "needs_reembed": moved.needs_reembed})
        else:
            _show(moved, is_index=into_index is not None)
        if moved.left_out:
            raise typer.Exit(1)
        return
    of_records = (*scope, *of_a_store, *fields, "into_index", "attribute")
    refuse(ctx, f"none with --from {source}", *of_records)
    file = home_path("FILE", file)
    Path(file).stat()  # raises for a missing file before a store is made
    with opened(path, makes=True) as memory, bar() as progress:
        done = memory.import_(file, system=source, progress=progress)
    for one in done.errors:
        say(f"error: line {one.line}: {one.error}")
    counts = f"{done.imported:,} imported, {done.skipped:,} skipped"
    show(as_json, asdict(done), f"{counts}, {len(done.errors):,} errors")
    if done.errors:
        raise typer.Exit(1)
