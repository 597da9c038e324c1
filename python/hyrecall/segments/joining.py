"""Joins the parts of a build by cell, so that a query of one cell reads one segment of the result.

Flow: the segments of a folder -> their rows, cut between cells into pieces that fit a limit of
memory -> a segment of each piece, saved to another folder. Each save is a whole version of that
folder, so an interrupted run goes on behind the pieces that are saved.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hyrecall import _core
from hyrecall.base import disk
from hyrecall.base.progress import ProgressFunction
from hyrecall.segments.facts import IndexFacts
from hyrecall.segments.manifest import MANIFEST, Manifest
from hyrecall.segments.merging import merge_order, take_rows
from hyrecall.segments.opening import Opening, open_index
from hyrecall.segments.saved_versions import Lineage
from hyrecall.segments.saving import save_index
from hyrecall.segments.segments import State
from hyrecall.text.analyzer import Analyzer

__all__ = ["Joining"]

Rows = npt.NDArray[np.uint32]

_PEAK_PER_INPUT_BYTE = 2.5  # a piece's rows twice, its vectors, their planes, tokens and postings
_BYTES_A_ROW_HELD = 48  # directories of the parts, which a merge holds beside the mapped files


@dataclass(frozen=True)
class Joining:
    """The join of a folder's segments into another folder."""

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
        how = Opening(dict(self.analyzers), "mmap", "structure", self.threads)
        facts, state, _ = open_index(folder, how)
        return facts, state

    def _most_rows(self, state: State) -> int:
        """Return how many rows fit in a piece; 0 if the parts leave too little room."""
        room = self.room - _BYTES_A_ROW_HELD * state.n_docs
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
        return max(1, int(room / _PEAK_PER_INPUT_BYTE / (n_bytes / max(1, state.n_docs))))

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
            how = Opening(dict(self.analyzers), "mmap", "structure", self.threads)
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
