"""Builds a saved index from a stream of rows in parts, each within a limit of memory.

Each part becomes a segment of a folder beside the final one. Each save there is a whole version, so
that a build that was interrupted goes on behind the rows that are saved. At the end the parts are
joined by cell (``joining``), where that helps, and the folder with the result gets its name.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from hyrecall.base import disk
from hyrecall.base.progress import ProgressFunction
from hyrecall.errors import DTypeError, OptionError, error
from hyrecall.segments import writer
from hyrecall.segments.facts import IndexFacts
from hyrecall.segments.joining import Joining
from hyrecall.segments.manifest import MANIFEST, Manifest
from hyrecall.segments.opening import Opening, open_index
from hyrecall.segments.saved_versions import Lineage
from hyrecall.segments.saving import save_index
from hyrecall.segments.segments import State, one_array
from hyrecall.table.columns import read_table
from hyrecall.table.schema import Schema
from hyrecall.text.analyzer import Analyzer
from hyrecall.text.bm25 import BM25

__all__ = ["LEAST_MEMORY", "UNFINISHED", "PartsBuild", "unfinished_folder"]

LEAST_MEMORY = 256 * 2**20
"""The smallest limit: the program itself takes some 150 MB."""

UNFINISHED = ".unfinished"
"""What the name of a folder ends in while the index of the name before it is built there."""

_BASE_BYTES = 160 * 2**20
_BYTES_A_ROW_HELD = 16  # the table of keys of rows that are saved already
_PEAK_PER_INPUT_BYTE = 3.5  # input, its permuted copy, postings, plane, and what sorting takes
_LEAST_PART = 8 * 2**20
_JOINED = "joined"  # the folder of the result, among the parts
_FINISHED = "FINISHED"  # an empty file: when the result has its name, the parts are of no use


def unfinished_folder(path: Path) -> Path:
    """Return the folder in which the index of a path is built."""
    return path.with_name(path.name + UNFINISHED)


def _remove(folder: Path) -> None:
    """Remove the parts of a build that is finished; the file that says so goes last."""
    for place in folder.iterdir():
        if place.is_dir():
            shutil.rmtree(place)
        elif place.name != _FINISHED:
            place.unlink()
    shutil.rmtree(folder)


@dataclass(frozen=True)
class PartsBuild:
    """The options of one build in parts."""

    path: Path
    schema: Schema
    memory_limit: int
    analyzer: Analyzer | None
    bm25: BM25 | None
    threads: int
    total: int | None = None
    progress: ProgressFunction | None = None
    seq_column: str | None = None
    dims: Mapping[str, int] = field(default_factory=dict)
    join: bool = True
    join_progress: ProgressFunction | None = None
    _opened: dict[Path, tuple[IndexFacts, State]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def run(self, batches: Iterable[pa.RecordBatch], *, resume: bool) -> None:
        """Build, save and name the index."""
        folder = unfinished_folder(self.path)
        if resume and self.path.exists() and (folder / _FINISHED).exists():
            _remove(folder)  # an earlier call was interrupted when it had named its result
            return
        for place in (self.path, *(() if resume else (folder,))):
            if place.exists():
                got = f"{place}, which exists"
                remedy = "remove it" + (", or pass resume=True" if place == folder else "")
                raise error(OptionError, "path", "a folder that is not there yet", got, remedy)
        found = (folder / MANIFEST).exists()
        held = self._open(folder) if found else None
        done = 0 if held is None else held[1].n_docs
        left = _without_first(batches, done, None if held is None else _Checker(*held[:2]))
        is_empty = held is None
        for part in _parts(left, self._part_bytes):
            self._add(folder, part)
            is_empty = False
            self._tell(folder)
        held = None  # its tables of keys are of no more use
        if is_empty:
            raise error(OptionError, "batches", "at least one batch", "none")
        made = self._join(folder) if self.join else folder
        if made != folder:
            (folder / _FINISHED).touch()
            disk.sync_folder(folder)
        os.replace(made, self.path)
        disk.sync_folder(self.path.absolute().parent)
        if made != folder:
            _remove(folder)

    def _join(self, folder: Path) -> Path:
        """Join the parts, and return the folder of the result: that of the parts, or one in it."""
        self._opened.clear()  # with the tables of keys
        room = self.memory_limit - _BASE_BYTES
        made = folder / _JOINED
        how = (self.callables(), self.threads, room, _LEAST_PART, self.join_progress)
        joining = Joining(folder, made, *how)
        if joining.run():
            return made
        shutil.rmtree(made, ignore_errors=True)
        return folder

    def _part_bytes(self, n_rows_held: int) -> int:
        room = self.memory_limit - _BASE_BYTES - _BYTES_A_ROW_HELD * n_rows_held
        return max(_LEAST_PART, int(room / _PEAK_PER_INPUT_BYTE))

    def _open(self, folder: Path) -> tuple[IndexFacts, State, str]:
        """Open the folder's version; segments that were open already stay so."""
        how = Opening(self.callables(), "mmap", "structure", self.threads)
        facts, state, seal = open_index(folder, how, self._opened.get(folder))
        self._opened[folder] = facts, state
        return facts, state, seal

    def callables(self) -> dict[str, Analyzer]:
        """Return the analyzers of arms that were named; opening needs those with callables."""
        named = {arm: text.analyzer for arm, text in self.schema.text_arms.items()}
        given = {arm: one if one is not None else self.analyzer for arm, one in named.items()}
        return {arm: one for arm, one in given.items() if one is not None}

    def _add(self, folder: Path, part: pa.Table) -> None:
        """Add a part to the folder. What is in memory of it is let go at the end."""
        lineage = Lineage()
        seqs = None
        if self.seq_column is not None:
            seqs = one_array(part.column(self.seq_column)).to_numpy()
            part = part.drop_columns([self.seq_column])
        if not (folder / MANIFEST).exists():
            options = (self.analyzer, self.bm25, self.threads, 0)
            facts, state = writer.build(
                part, self.schema, None, *options, seqs=seqs, dims=self.dims
            )
        else:
            facts, before, seal = self._open(folder)
            lineage.settle(folder, seal)
            state = writer.append(facts, before, part, None, merge=False, seqs=seqs)
        save_index(folder, facts, state, lineage, overwrite=False)

    def _tell(self, folder: Path) -> None:
        if self.progress is not None:
            manifest = Manifest.from_bytes(disk.read_bytes(folder / MANIFEST), folder / MANIFEST)
            done = sum(segment.n_rows for segment in manifest.segments)
            self.progress(done, done if self.total is None else self.total)


class _Checker:
    """Refuses to resume a build with other rows than it began with."""

    def __init__(self, facts: IndexFacts, state: State) -> None:
        """Keep what is saved."""
        self._facts, self._state = facts, state

    def check(self, batch: pa.RecordBatch) -> None:
        """Look for the documents of a batch of rows that should be saved."""
        facts = self._facts
        columns = read_table(
            pa.table(batch), facts.schema, vectors=None, dims=facts.dims, types=facts.row_types
        )
        cells = [one_array(columns.rows.column(name)) for name in facts.schema.cell_columns]
        keys = one_array(columns.rows.column(facts.schema.key))
        segments, _ = self._state.snapshot.locate_rows(cells, keys)
        if (segments < 0).any():
            wish, got = "the rows that the unfinished build began with", "others"
            raise error(OptionError, "resume", wish, got, "remove its folder and build again")


def _without_first(
    batches: Iterable[pa.RecordBatch], n_rows: int, checker: _Checker | None
) -> Iterator[pa.RecordBatch]:
    """Yield the rows behind the first ones, which are saved already."""
    for batch in batches:
        skipped = min(n_rows, batch.num_rows)
        if skipped and checker is not None:
            checker.check(batch.slice(0, skipped))
        n_rows -= skipped
        if skipped < batch.num_rows:
            yield batch.slice(skipped)
    if n_rows:
        wish = "the rows that the unfinished build began with"
        raise error(OptionError, "resume", wish, f"{n_rows} fewer")


def _parts(batches: Iterable[pa.RecordBatch], room: Any) -> Iterator[pa.Table]:
    """Gather batches to tables of about so many bytes as there is room for."""
    held: list[pa.RecordBatch] = []
    n_bytes = n_rows = 0
    for batch in batches:
        held.append(batch)
        n_bytes += batch.nbytes
        n_rows += batch.num_rows
        if n_bytes >= room(n_rows):
            yield pa.Table.from_batches(held)
            held, n_bytes = [], 0
            pa.default_memory_pool().release_unused()
    if held:
        yield pa.Table.from_batches(held)


def batches_of(source: object) -> Iterable[pa.RecordBatch]:
    """Return the batches of an Arrow stream, or of an iterable of tables and batches."""
    if hasattr(source, "__arrow_c_stream__"):
        return _flat([source])
    if not isinstance(source, Iterable) or isinstance(source, str | bytes | Mapping):
        wish = "an Arrow stream, or an iterable of tables or record batches"
        raise error(DTypeError, "batches", wish, type(source).__name__)
    return _flat(source)


def _flat(tables: Iterable[object]) -> Iterator[pa.RecordBatch]:
    for at, one in enumerate(tables):
        if isinstance(one, pa.RecordBatch):
            yield one
        elif hasattr(one, "__arrow_c_stream__"):
            yield from pa.RecordBatchReader.from_stream(one)
        else:
            wish = "a table or record batch"
            raise error(DTypeError, f"batches[{at}]", wish, type(one).__name__)
