"""Builds a saved index of the records of other systems."""

from __future__ import annotations

import json
from os import PathLike

import numpy as np
import pyarrow as pa

from hyrecall.base.arguments import read_path
from hyrecall.base.keywords import check_keywords
from hyrecall.base.progress import ProgressFunction, read_progress
from hyrecall.errors import OptionError, error
from hyrecall.index import Index
from hyrecall.migrate.mapping import Mapped, Mapper, check_source, map_records
from hyrecall.migrate.owners import Owners
from hyrecall.migrate.records import Source, Vector
from hyrecall.migrate.report import Migrated, Tally
from hyrecall.segments.manifest import MANIFEST
from hyrecall.table.schema import Schema

__all__ = ["into_index"]

_TIME = pa.timestamp("us", tz="UTC")


@check_keywords
def into_index(
    folder: str | PathLike[str],
    source: Source,
    *,
    user: str | None = None,
    user_from: str | None = None,
    time_from: str | None = None,
    progress: ProgressFunction | None = None,
) -> Migrated:
    """Build an index of the records of another system and save it to a new folder.

    Its columns are ``id`` (the key), ``user`` (the cell), ``text``, ``vector`` (if a record has
    one), ``created_at`` (a time in UTC, or null), ``session_id`` and ``metadata`` (JSON).

    Parameters
    ----------
    folder : path
        The folder of the index, which has none yet.
    source : Source
        From :func:`open_source`.
    user, user_from, time_from : str, optional
        As in :func:`into_store`. A time that nobody says is null.
    progress : callable, optional
        ``progress(done, total)``, in records, then in rows that are indexed.

    Returns
    -------
    Migrated

    Raises
    ------
    ScopeError
        Neither or both of ``user`` and ``user_from``.
    OptionError, DTypeError
        Another argument; a folder that holds an index; vectors of several lengths; no record
        that can come.
    OSError
        The folder cannot be written.

    Notes
    -----
    All records are in memory, as in every index. A record whose id comes twice for a user comes
    once: the same one is skipped, another one is left out.

    Examples
    --------
    >>> import json, pathlib, tempfile
    >>> from hyrecall import Index
    >>> from hyrecall.migrate import into_index, open_source
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> memories = [{"id": "m1", "memory": "Tea at four", "user_id": "ann"}]
    >>> _ = (folder / "mem0.json").write_text(json.dumps(memories))
    >>> with open_source("mem0", folder / "mem0.json") as source:
    ...     done = into_index(folder / "index", source, user_from="user_id")
    >>> with Index.open(folder / "index") as index:
    ...     index.recall_one(text="tea", scope="ann")[0].key
    'm1'
    """
    place = read_path(folder)
    check_source(source)
    read_progress(progress)
    mapper = Mapper(Owners(user, user_from), time_from)
    if (place / MANIFEST).exists():
        raise error(OptionError, "folder", "a folder without an index", repr(str(place)))
    tally = Tally(source.system, source.dropped)
    rows: dict[tuple[str, str], Mapped] = {}
    for one in map_records(source, mapper, tally):
        _add(rows, one, tally)
        if progress is not None and tally.n_read % 500 == 0:
            progress(tally.n_read, max(source.n_records, tally.n_read))
    if not rows:
        raise error(OptionError, "source", "a record that can come", _told(tally))
    kept = list(rows.values())
    vectors = _vectors(kept)
    arms: tuple[str, ...] = () if vectors is None else ("vector",)
    schema = Schema(
        key="id", cell="user", text="text", vector=arms,
        attributes=("created_at", "session_id"), stored=("text", "metadata"),
    )  # fmt: skip
    table = _table(kept)
    if vectors is not None:
        table = table.append_column("vector", vectors)
    with Index.build(table, schema, progress=progress) as index:
        index.save(place)
    for one in kept:
        tally.keep(one.key, one.dropped, one.vector_fault, is_searched=True)
    return tally.report()


def _add(rows: dict[tuple[str, str], Mapped], one: Mapped, tally: Tally) -> None:
    known = rows.setdefault((one.user, one.key), one)
    if known is one:
        return
    if (known.text, known.metadata, known.at) == (one.text, one.metadata, one.at):
        tally.skip()
    else:
        tally.leave_out("id: the source has another record of this id", one.key)


def _told(tally: Tally) -> str:
    reasons = [f"{one.count} left out ({one.reason})" for one in tally.report().left_out]
    return "; ".join(reasons) or "none"


def _vectors(kept: list[Mapped]) -> pa.FixedSizeListArray | None:
    """Return the vectors as one column; None if no record has one."""
    found: list[Vector] = [one.vector for one in kept if one.vector is not None]
    lengths = sorted({len(row) for row in found})
    if len(lengths) > 1:
        got = " and ".join(map(str, lengths[:3]))
        raise error(OptionError, "source", "vectors of one length", f"lengths {got}")
    if not lengths:
        return None
    flat = np.zeros((len(kept), lengths[0]), np.float32)
    is_null = np.array([one.vector is None for one in kept])
    flat[~is_null] = found
    return pa.FixedSizeListArray.from_arrays(
        pa.array(flat.ravel()), lengths[0], mask=pa.array(is_null)
    )


def _table(kept: list[Mapped]) -> pa.Table:
    return pa.table(
        {
            "id": pa.array([one.key for one in kept], pa.large_string()),
            "user": pa.array([one.user for one in kept], pa.large_string()),
            "text": pa.array([one.text for one in kept], pa.large_string()),
            "created_at": pa.array([one.at for one in kept], _TIME),
            "session_id": pa.array([one.session_id for one in kept], pa.large_string()),
            "metadata": pa.array(
                [json.dumps(one.metadata, ensure_ascii=False) for one in kept], pa.large_string()
            ),
        }
    )
