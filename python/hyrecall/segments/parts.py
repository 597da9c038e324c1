"""Builds a saved index from a stream of rows in parts, each within a limit of memory.

Each part becomes a segment of a folder beside the final one. Each save there is a whole version, so
that a build that was interrupted goes on behind the rows that are saved. At the end the parts are
joined by cell (``joining``), where that helps, and the folder with the result gets its name.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hyrecall import _core
from hyrecall.base import disk
from hyrecall.base.progress import ProgressFunction
from hyrecall.errors import DTypeError, OptionError, error
from hyrecall.segments import writer
from hyrecall.segments.manifest import MANIFEST, Lineage, Manifest
from hyrecall.segments.opening import OpenOptions, open_index
from hyrecall.segments.saving import save_index
from hyrecall.segments.segments import IndexFacts, State, one_array
from hyrecall.segments.writer import merge_order, take_rows
from hyrecall.table.columns import read_table
from hyrecall.table.schema import Schema
from hyrecall.text.analyzer import Analyzer
from hyrecall.text.bm25 import BM25

# ---- Joins the parts of a build by cell, so that a query of one cell reads one segment
# of the result
# Flow: the segments of a folder -> their rows, cut between cells into pieces that fit a limit of
# memory -> a segment of each piece, saved to another folder. Each save is a whole version of that
# folder, so an interrupted run goes on behind the pieces that are saved.

Rows = npt.NDArray[np.uint32]

_JOINED_PEAK_PER_INPUT_BYTE = (
    2.5  # a piece's rows twice, its vectors, their planes, tokens and postings
)
_JOINED_BYTES_A_ROW = 48  # directories of the parts, which a merge holds beside the mapped files


@dataclass(frozen=True)
class FolderJoin:
    """Joins the segments of a folder, cell by cell, into another folder."""

    parts: Path
    folder: Path
    analyzers: Mapping[str, Analyzer]
    threads: int
    room: int
    least: int
    progress: ProgressFunction | None = None

    def run(self) -> bool:
        """Join the parts; return False if cells would not lie in half as many segments as now."""
        facts, state = self._open(self.parts)
        most_rows = self._most_rows(state)
        if len(state.segments) < 2 or most_rows == 0:
            return False
        begins, n_cells = _core.rows.cut_merge(list(state.views), most_rows)
        cuts = begins.reshape(-1, len(state.views)).astype(np.int64)
        sizes = np.diff(cuts.sum(axis=1))
        n_pieces = int(np.sum(-(-sizes // most_rows)))
        if 2 * (n_cells + n_pieces - 1) > sum(s.core.n_cells for s in state.segments):
            return False
        done = self._n_saved(state, sizes, most_rows)
        if self.progress is not None:
            self.progress(done, state.n_docs)
        n_rows = 0
        for source, row in _pieces(facts, state, cuts, most_rows):
            n_rows += len(source)
            if n_rows > done:
                self._save(facts, state, source, row)
                if self.progress is not None:
                    self.progress(n_rows, state.n_docs)
        return True

    def _open(self, folder: Path) -> tuple[IndexFacts, State]:
        how = OpenOptions(dict(self.analyzers), "mmap", "structure", self.threads)
        facts, state, _ = open_index(folder, how)
        return facts, state

    def _most_rows(self, state: State) -> int:
        """Return how many rows fit in a piece; 0 if the parts leave too little room."""
        room = self.room - _JOINED_BYTES_A_ROW * state.n_docs
        if room < self.least:
            return 0
        manifest = Manifest.from_bytes(
            disk.read_bytes(self.parts / MANIFEST), self.parts / MANIFEST
        )
        n_bytes = sum(
            file.size
            for segment in manifest.segments
            for role, file in segment.files.items()
            if role == "rows" or role.startswith("vectors")
        )
        return max(1, int(room / _JOINED_PEAK_PER_INPUT_BYTE / (n_bytes / max(1, state.n_docs))))

    def _n_saved(self, state: State, sizes: Rows, most_rows: int) -> int:
        """Return how many rows an earlier run has saved; 0 if it cut the rows in another way."""
        if not (self.folder / MANIFEST).exists():
            shutil.rmtree(self.folder, ignore_errors=True)
            return 0
        held = self._open(self.folder)[1]
        found = [view.n_rows for view in held.views]
        if held.next_seq == state.next_seq and found == _lengths(sizes, most_rows)[: len(found)]:
            return sum(found)
        shutil.rmtree(self.folder)
        return 0

    def _save(self, facts: IndexFacts, state: State, source: Rows, row: Rows) -> None:
        """Save a piece beside those that are saved, and let go of it."""
        made = take_rows(state.segments, source, row, facts.schema, self.threads)
        lineage, segments, views = Lineage(), [], []
        if (self.folder / MANIFEST).exists():
            how = OpenOptions(dict(self.analyzers), "mmap", "structure", self.threads)
            _, before, seal = open_index(self.folder, how)
            lineage.settle(self.folder, seal)
            segments, views = list(before.segments), list(before.views)
        segments.append(replace(made, name=None))
        views.append(_core.SegmentView(made.core))
        joined = State.of(segments, views, state.next_seq)
        save_index(self.folder, facts, joined, lineage, overwrite=False)
        pa.default_memory_pool().release_unused()


def _lengths(sizes: Rows, most_rows: int) -> list[int]:
    """Return the number of rows of each piece."""
    return [
        min(most_rows, size - at) for size in sizes.tolist() for at in range(0, size, most_rows)
    ]


def _pieces(
    facts: IndexFacts, state: State, cuts: npt.NDArray[np.int64], most_rows: int
) -> Iterator[tuple[Rows, Rows]]:
    """Yield the rows of each piece as (segment, row); a cell that fits in no piece is cut."""
    for begins, ends in pairwise(cuts):
        part = list(zip(begins.tolist(), ends.tolist(), strict=True))
        source, row = merge_order(state.segments, state.views, facts.schema, part)
        for at in range(0, len(source), most_rows):
            yield source[at : at + most_rows], row[at : at + most_rows]


# ---- Builds a saved index from a stream of rows in parts, each within a limit of memory ----

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
        joining = FolderJoin(folder, made, *how)
        if joining.run():
            return made
        shutil.rmtree(made, ignore_errors=True)
        return folder

    def _part_bytes(self, n_rows_held: int) -> int:
        room = self.memory_limit - _BASE_BYTES - _BYTES_A_ROW_HELD * n_rows_held
        return max(_LEAST_PART, int(room / _PEAK_PER_INPUT_BYTE))

    def _open(self, folder: Path) -> tuple[IndexFacts, State, str]:
        """Open the folder's version; segments that were open already stay so."""
        how = OpenOptions(self.callables(), "mmap", "structure", self.threads)
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
