"""``hyrecall export`` and ``import``: write a store as JSON lines and read it back."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hyrecall.base.arguments import home_path
from hyrecall.cli.memory_options import AsJson, Org, StorePath, User, Workspace, bar, opened
from hyrecall.cli.show import print_json, say
from hyrecall.errors import HyrecallError, OptionError, error

if TYPE_CHECKING:
    from hyrecall.adapters.documents import AttributeType
    from hyrecall.migrate import Migrated


# ---- Moves the records of another system for ``hyrecall import``, and shows the report ----


@dataclass(frozen=True)
class MigrateOptions:
    """Options that describe the records of another system; None: not given."""

    user: str | None
    user_from: str | None
    org: str | None
    workspace: str | None
    collection: str | None
    id_field: str | None
    text_field: str | None
    vector_field: str | None
    time_from: str | None
    vector_model: str | None
    into_index: Path | None
    attribute: list[str] | None

    def refuse_all(self, system: str) -> None:
        """Refuse every option that is given: an export says these things itself."""
        for name, value in vars(self).items():
            if value is not None:
                raise error(OptionError, _option(name), f"none with --from {system}", repr(value))

    def refuse_for_an_index(self, path: Path | None) -> None:
        """Refuse what concerns a store alone."""
        of_stores = {
            "path": path, "org": self.org, "workspace": self.workspace,
            "time_from": self.time_from, "vector_model": self.vector_model,
        }  # fmt: skip
        for name, value in of_stores.items():
            if value is not None:
                got = repr(str(value))
                raise error(OptionError, _option(name), "none with --into-index", got)

    def attributes(self) -> dict[str, AttributeType] | None:
        """Return the types of the fields to filter by; None if none is named."""
        from hyrecall.adapters.documents import read_types

        named = {}
        for one in self.attribute or ():
            name, _, kind = one.partition("=")
            if not name or not kind:
                wish = "NAME=TYPE, such as year=int"
                raise error(OptionError, "--attribute", wish, repr(one))
            named[name] = kind
        return read_types(named) or None


def migrate(
    system: str, source: str, path: Path | None, options: MigrateOptions, *, as_json: bool
) -> bool:
    """Move the records, show the report, and return whether all of them came."""
    from hyrecall.migrate import into_index, into_store, open_source

    user, user_from = options.user, options.user_from
    fields = ("collection", "id_field", "text_field", "vector_field")
    with _as_options():
        if options.into_index is not None:
            options.refuse_for_an_index(path)
        elif options.attribute:
            got = repr(", ".join(options.attribute))
            raise error(OptionError, "--attribute", "none without --into-index", got)
        opening = open_source(system, source, **{name: getattr(options, name) for name in fields})
        with opening as records, bar() as progress:  # opened before a store is made
            if options.into_index is not None:
                done = into_index(
                    options.into_index, records, user=user, user_from=user_from,
                    attributes=options.attributes(), progress=progress,
                )  # fmt: skip
            else:
                _check_scope(options)
                with opened(path, makes=True) as memory:
                    done = into_store(
                        memory, records, user=user, user_from=user_from, org=options.org,
                        workspace=options.workspace,
                        time_from=options.time_from, vector_model=options.vector_model,
                        progress=progress,
                    )  # fmt: skip
    if as_json:
        print_json({**asdict(done), "needs_reembed": done.needs_reembed})
    else:
        _show(done, is_index=options.into_index is not None)
    return not done.left_out


def _check_scope(options: MigrateOptions) -> None:
    """Refuse a scope that is not named before a store is made."""
    from hyrecall.migrate.records import Owners

    Owners(options.user, options.user_from)


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


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


@contextmanager
def _as_options() -> Iterator[None]:
    """Name the options of the command in errors about arguments."""
    names = {name: _option(name) for name in MigrateOptions.__dataclass_fields__}
    names |= {"folder": "--into-index", "attributes": "--attribute"}
    try:
        yield
    except HyrecallError as fault:
        if fault.argument not in names:
            raise
        named = names[fault.argument]
        told = str(fault).replace("user= or user_from=", "--user or --user-from", 1)
        made = type(fault)(told.replace(fault.argument, named, 1))
        made.argument = named
        raise made from None


# ---- ``hyrecall export`` and ``import``: write a store as JSON lines and read it back ----

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
            "qdrant, or the URL of a server of qdrant; a file of mem0 (the JSON of "
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
        done = memory.import_(file, system=source, progress=progress)
    for one in done.errors:
        say(f"error: line {one.line}: {one.error}")
    if as_json:
        print_json(asdict(done))
    else:
        print(f"{done.imported:,} imported, {done.skipped:,} skipped, {len(done.errors):,} errors")
    if done.errors:
        raise typer.Exit(1)
