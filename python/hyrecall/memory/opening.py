"""Opens the database of a store: alone, beside other processes, or in memory."""

from __future__ import annotations

import os
from pathlib import Path

import apsw

from hyrecall.ask.recipe import Recipe
from hyrecall.base.arguments import read_path
from hyrecall.errors import OptionError, error
from hyrecall.memory.derived.layout import Layout
from hyrecall.memory.options import StoreOptions
from hyrecall.memory.sharing.asking import About
from hyrecall.memory.sharing.client import Connections
from hyrecall.memory.sharing.host import Host, find_owner
from hyrecall.memory.sharing.patience import Patience
from hyrecall.memory.sql.connecting import DATABASE
from hyrecall.memory.sql.database import Database
from hyrecall.memory.sql.in_memory import IN_MEMORY, MemoryDatabase
from hyrecall.memory.sql.lock import LOCK, make_folder
from hyrecall.memory.sql.schema import FORMAT
from hyrecall.memory.sql.sqlite_errors import check_sqlite, disk_named

__all__ = ["about_store", "open_database"]


def about_store(recipe: Recipe, layout: Layout, model: str | None, dim: int | None) -> About:
    """Return what processes that share a store compare."""
    return {
        "format": FORMAT,
        "layout": layout.hash,
        "recipe": recipe.name,
        "analyzer": f"{layout.analyzer!r} ({layout.analyzer.hash})",
        "model": model,
        "dim": dim,
    }


def open_database(
    path: str | os.PathLike[str], options: StoreOptions, about: About
) -> tuple[Database, Host | Connections | None]:
    """Open the database of a folder, or make one in memory."""
    folder = read_path(path)
    if str(folder) == IN_MEMORY:
        return _in_memory(options), None
    if options.read_only or not options.shared:
        database = Database.open(
            folder,
            read_only=bool(options.read_only),
            wait=options.wait,
            accept_loss=options.accept_loss,
        )
        return database, None
    return _shared(folder, options, about)


def _shared(
    folder: Path, options: StoreOptions, about: About
) -> tuple[Database, Host | Connections]:
    check_sqlite(apsw.sqlite_lib_version())
    with disk_named(str(folder)):
        make_folder(folder, {DATABASE, LOCK})
        patience = Patience(options.owner_timeout)
        place = patience.run(lambda: find_owner(folder, about, wait=options.wait))
    try:
        if isinstance(place, Host):
            database = Database.open(folder, lock=place.lock, accept_loss=options.accept_loss)
        else:
            database = Database.open(folder, beside_owner=True)
    except BaseException:
        place.stop()
        raise
    return database, place


def _in_memory(options: StoreOptions) -> Database:
    usual = type(options)(read_only=False)
    for name in ("read_only", "wait", "owner_timeout", "accept_loss", "snapshot_every"):
        value = getattr(options, name)
        if value != getattr(usual, name):
            wish = f"the default with the path {IN_MEMORY!r}: such a store is new and never saved"
            raise error(OptionError, name, wish, repr(value))
    return MemoryDatabase.make()
