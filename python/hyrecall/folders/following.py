"""Builds an index of a folder's chunks, and brings it to what the folder holds now."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hyrecall.base.arguments import check_keywords
from hyrecall.base.malformed import MALFORMED
from hyrecall.base.progress import ProgressFunction, read_progress
from hyrecall.errors import CorruptIndexError, DTypeError, KeyConflictError, OptionError, error
from hyrecall.folders.reading import FolderRead, FolderSettings, read_changed, read_settings
from hyrecall.index import Index
from hyrecall.segments import writer
from hyrecall.segments.lookup import rows_where
from hyrecall.segments.segments import IndexFacts, State, gather, one_array
from hyrecall.table.schema import Schema, Text
from hyrecall.text.analyzer import Analyzer
from hyrecall.text.bm25 import BM25

if TYPE_CHECKING:
    from hyrecall.embed.choose import Embeds

Rows = npt.NDArray[np.uint32]


@check_keywords
def build(
    chunks: FolderRead,
    *,
    embed: Embeds = None,
    analyzer: Analyzer | None = None,
    bm25: BM25 | None = None,
    device: str = "auto",
    threads: int | None = None,
    progress: ProgressFunction | None = None,
) -> Index:
    """Index the chunks of a folder, so that :func:`sync` can follow it.

    The index has one audience (no scope), the text arm ``text`` of heading and text, each file as a
    thread, and ``path``, ``place`` and ``modified`` to filter by. ``heading``, ``text``, ``line``
    and ``hash`` are stored.

    Parameters
    ----------
    chunks : FolderRead
        What :func:`read` returned; how it was read is saved with the index.
    embed : embedder, str or EmbedBy, or mapping of str to those, optional
        What makes vectors of heading and text, as in :meth:`hyrecall.Index.build`. The arm is
        called ``embedding``, unless a mapping names it.
    analyzer, bm25, device, threads, progress
        As in :meth:`hyrecall.Index.build`.

    Returns
    -------
    Index

    Raises
    ------
    DTypeError
        Not what :func:`read` returned.
    OptionError
        The folder has no file to read, or an option cannot be one.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from hyrecall import folders
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "tea.md").write_text("# Tea\\n\\nHot water.\\n")
    >>> index = build(folders.read(folder))
    >>> index.recall_one(text="hot").keys
    ['tea.md#0']
    """
    if not isinstance(chunks, FolderRead):
        wish, got = "what hyrecall.folders.read returned", type(chunks).__name__
        raise error(DTypeError, "chunks", wish, got, "build(read(folder))")
    if not chunks.table.num_rows:
        wish = f"a folder with a file that fits {', '.join(chunks.patterns)}"
        raise error(OptionError, "chunks", wish, "none that could be read")
    if embed is not None and not isinstance(embed, Mapping):
        embed = {"embedding": embed}
    schema = Schema(
        key="id",
        cell=None,
        text={"text": Text("heading", "text", analyzer=analyzer, bm25=bm25)},
        vector=tuple(embed or ()),
        attributes="modified",
        stored=("heading", "text", "line", "hash"),
        thread="path",
        place="place",
    )
    made = Index.build(
        chunks.table, schema, embed=embed, device=device, threads=threads, progress=progress
    )
    read = FolderSettings(chunks.patterns, chunks.chunk_tokens, chunks.overlap)
    made._facts = replace(made._facts, folder=read._asdict())
    return made


@dataclass(frozen=True)
class Synced:
    """What :func:`sync` found; true if it changed the index.

    Attributes
    ----------
    new, changed, removed : tuple of str
        Paths of files. One counts as removed if it is gone, or if what it holds now is no text.
    unchanged : int
        How many files have the bytes that they had.
    embedded : int
        How many chunks were embedded: those whose text the changed and removed files did not have.
    skipped : tuple of (str, str)
        As in :class:`FolderRead`. The chunks of a file that cannot be read now (an I/O error, no
        permission, a PDF without the extra), or that lies in such a folder, stay as they are.
    """

    new: tuple[str, ...]
    changed: tuple[str, ...]
    removed: tuple[str, ...]
    unchanged: int
    embedded: int
    skipped: tuple[tuple[str, str], ...]

    def __bool__(self) -> bool:
        """Return whether the index was changed."""
        return bool(self.new or self.changed or self.removed)


@check_keywords
def sync(
    index: Index,
    folder: str | os.PathLike[str],
    *,
    progress: ProgressFunction | None = None,
) -> Synced:
    """Bring an index to what its folder holds now, in one step: readers see before or after.

    Files are compared by their bytes. Chunks of a file that changed or is gone leave, and those of
    new and changed files come in; the settings are those that the index was built with. A chunk
    keeps its vector if its file, or another one that leaves, had the same text. Rows that were
    added without a path stay, and so do the chunks of what cannot be read now. Save the index
    afterwards, to keep it.

    Parameters
    ----------
    index : Index
        From :func:`build`, or opened from where one was saved.
    folder : path-like
        The same folder, wherever it lies now.
    progress : callable, optional
        As in :func:`read`.

    Returns
    -------
    Synced

    Raises
    ------
    DTypeError
        Not an index.
    OptionError
        Not an index of a folder; no folder, or one that has no file any more (a disk that is not
        mounted looks so); or chunks are to be embedded and the index has no embedder.
    KeyConflictError
        A row that was added without a path has the key of a new chunk.
    EmbedError
        The embedder failed; the index is as it was.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from hyrecall import folders
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "tea.md").write_text("# Tea\\n\\nHot water.\\n")
    >>> index = folders.build(folders.read(folder))
    >>> _ = (folder / "milk.md").write_text("# Milk\\n\\nCold.\\n")
    >>> sync(index, folder).new, len(index)
    (('milk.md',), 2)
    """
    if not isinstance(index, Index):
        raise error(DTypeError, "index", "an hr.Index", type(index).__name__)
    settings, tell = settings_of(index), read_progress(progress)
    with index._writer() as state:
        facts = index._facts
        at = rows_where(facts, state, None)
        held = gather(state.segments, *at, ["path", "hash"])
        paths = held["path"].to_pylist()  # null in a row that somebody else has added
        known = {
            a: b for a, b in zip(paths, held["hash"].to_pylist(), strict=True) if a is not None
        }
        found, same, unread = read_changed(folder, settings, known, tell)
        entered = set(found.table["path"].to_pylist())
        gone = {one for one in known.keys() - same if not _is_in(one, unread)}
        if known and len(gone) == len(known) and not entered:
            patterns = ", ".join(settings.patterns)
            wish = f"a file that fits {patterns} (to forget them all, delete the index)"
            raise error(OptionError, "folder", wish, "none that could be read")
        embedded = 0
        if gone or entered:
            segments, rows = (one[[path in gone for path in paths]] for one in at)
            keys = gather(state.segments, segments, rows, [facts.schema.key]).column(0)
            kept, _ = writer.delete(facts, state, keys, None)
            _check_keys(kept, found.table, facts.schema.key)
            vectors, embedded = _vectors(index, facts, state, found.table, segments, rows)
            index._state = writer.append(facts, kept, found.table, vectors)
    return Synced(
        tuple(sorted(entered - gone)), tuple(sorted(entered & gone)), tuple(sorted(gone - entered)),
        len(same), embedded, found.skipped,
    )  # fmt: skip


def _is_in(path: str, unread: set[str]) -> bool:
    """Say whether a file, or a folder that it lies in, is one of those that cannot be read."""
    return not unread.isdisjoint((path, *map(str, PurePosixPath(path).parents)))


def _check_keys(kept: State, table: pa.Table, name: str) -> None:
    """Refuse chunks whose key a row of somebody else has."""
    keys = one_array(table.column(name).cast(pa.large_string()))
    taken = kept.snapshot.locate_rows([], keys)[0] >= 0
    if taken.any():
        key = keys[int(np.argmax(taken))].as_py()
        wish = "keys of chunks that no row without a path has"
        got = f"{key!r}: give that row another key"
        raise error(KeyConflictError, name, wish, got, f"remove it: index.delete([{key!r}])")


def settings_of(index: Index) -> FolderSettings:
    """Return how the folder of an index is read."""
    told = index._facts.folder
    if told is None:
        wish = "an index of a folder (hyrecall.folders.build, hyrecall index FOLDER)"
        raise error(OptionError, "index", wish, "one of a table")
    try:
        return read_settings(**told)
    except MALFORMED as fault:
        raise error(CorruptIndexError, "MANIFEST", "the settings of a folder", fault) from fault


def _vectors(
    index: Index, facts: IndexFacts, state: State, table: pa.Table, segments: Rows, rows: Rows
) -> tuple[dict[str, object] | None, int]:
    """Return the vectors of new chunks, and how many were made: others had rows that leave."""
    if not facts.dims:
        return None, 0
    columns = sorted({name for one in facts.embedded.values() for name in one.columns})
    before = gather(state.segments, segments, rows, columns).to_pylist() if columns else []
    places = {tuple(one.values()): at for at, one in enumerate(before)}
    wanted = table.select(columns).to_pylist() if columns else [{}] * table.num_rows
    kept = np.array([places.get(tuple(one.values()), -1) for one in wanted], np.int64)
    rest = np.flatnonzero(kept < 0)
    made: Mapping[str, Any] = {}
    if len(rest):
        if index._embedders is None or not index._embedders.embedded.keys() >= facts.dims.keys():
            models = ", ".join(one.model for one in facts.embedded.values()) or "its embedder"
            wish = f"an index opened with {models}, to embed {len(rest)} chunks"
            raise error(OptionError, "index", wish, "none", "hr.Index.open(path, embed=)")
        made = index._embedders.of_documents(table.take(rest), facts.schema, None)[1] or {}
    vectors: dict[str, object] = {}
    for arm, dim in facts.dims.items():
        out = np.zeros((table.num_rows, dim), np.float32)
        for at in np.flatnonzero(kept >= 0):
            column = state.segments[segments[kept[at]]].dense[arm]
            out[at] = np.frombuffer(column.row(int(rows[kept[at]])), np.float32)
        if len(rest):
            out[rest] = made[arm]
        vectors[arm] = out
    return vectors, len(rest)
