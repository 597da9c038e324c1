"""Moves the records of another system for ``hyrecall import``, and shows the report."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hyrecall.cli.memory_options import bar, opened
from hyrecall.cli.show import print_json, say
from hyrecall.errors import HyrecallError, OptionError, error

if TYPE_CHECKING:
    from hyrecall.adapters.document_table import AttributeType
    from hyrecall.migrate import Migrated

__all__ = ["MigrateOptions", "migrate"]


@dataclass(frozen=True)
class MigrateOptions:
    """What the command line says of the records of another system; None: nothing."""

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
        """Refuse every option that is given: an export says these things itself.

        Raises
        ------
        OptionError
            One of them is given.
        """
        for name, value in vars(self).items():
            if value is not None:
                raise error(OptionError, _option(name), f"none with --from {system}", repr(value))

    def refuse_for_an_index(self, path: Path | None) -> None:
        """Refuse what concerns a store alone.

        Raises
        ------
        OptionError
            One of these options is given.
        """
        of_stores = {
            "path": path, "org": self.org, "workspace": self.workspace,
            "time_from": self.time_from, "vector_model": self.vector_model,
        }  # fmt: skip
        for name, value in of_stores.items():
            if value is not None:
                got = repr(str(value))
                raise error(OptionError, _option(name), "none with --into-index", got)

    def attributes(self) -> dict[str, AttributeType] | None:
        """Return the types of the fields to filter by; None if none is named.

        Raises
        ------
        OptionError
            One of them is not ``NAME=TYPE``.
        """
        from hyrecall.adapters.document_folder import read_types

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
    from hyrecall.migrate.owners import Owners

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
