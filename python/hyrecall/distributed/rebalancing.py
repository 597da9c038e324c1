"""Changes the number of shards of a folder, or evens out their sizes, by moving cells."""

from __future__ import annotations

import shutil
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hyrecall import _core
from hyrecall.base import disk
from hyrecall.base.arguments import check_keywords, read_path
from hyrecall.base.progress import ProgressFunction, read_progress
from hyrecall.base.runtime import choose_threads
from hyrecall.distributed.building import read_memory, read_sizes
from hyrecall.distributed.row_places import (
    RowCounts,
    pack,
    place_counts,
    rows_of,
)
from hyrecall.distributed.shards_file import (
    GENERATOR,
    N_PARTS,
    PlacedShards,
    Placement,
    ShardEntry,
    Shards,
    described,
    folder_name,
    opened,
    remove_unused,
    write_shards,
)
from hyrecall.segments.manifest import Lineage
from hyrecall.segments.opening import OpenOptions, open_index
from hyrecall.segments.parts import unfinished_folder
from hyrecall.segments.saving import save_index
from hyrecall.segments.segments import IndexFacts, Segment, State, seqs_of
from hyrecall.segments.writer import merge_order, take_rows

_BASE_BYTES = 160 * 2**20
_PEAK_PER_SAVED_BYTE = 3.0  # the rows of a segment during a merge, and the memory of sorting
_COUNTED_ROWS = 1_000_000

Rows = npt.NDArray[np.uint32]


@check_keywords
def rebalance(
    folder: str | Path,
    *,
    shards: int | None = None,
    shard_rows: int | None = None,
    memory_limit: int | None = None,
    threads: int | None = None,
    progress: ProgressFunction | None = None,
) -> Shards:
    """Change the number of shards of a folder, or even out their sizes.

    Cells move, not documents: the rows of a slot, or of a part of a split cell, move to another
    shard together, with their insertion numbers, analyzed texts, and vectors. Only shards that gain
    or lose rows are written, beside the old ones. Then ``shards.json`` is replaced, and the old
    folders are removed. Replies stay the same, bit for bit. If the call is killed at any time, the
    folder holds the old generation or the new one; call it again then.

    A process that has opened the old generation still reads the files that it opened, until
    :meth:`ShardedIndex.reload`.

    Parameters
    ----------
    folder : path-like
        A folder that :func:`build_shards` wrote.
    shards : int, optional
        Number of shards, up to 4,096; the present number evens out their sizes.
    shard_rows : int, optional
        Instead of ``shards``: the approximate number of rows of a shard.
    memory_limit : int, optional
        Bytes that the call may use, without pages of mapped files, at least 256 MiB; default:
        2 GiB. A lower limit makes more segments.
    threads : int, optional
        Default: all that the machine allows.
    progress : callable, optional
        ``progress(done, total)`` in rows of the written shards.

    Returns
    -------
    Shards
        The new generation; the old one if nothing moves.

    Raises
    ------
    OptionError
        Both or none of ``shards`` and ``shard_rows``, or one out of range.
    IndexNotFoundError, CorruptIndexError
        There are no shards, or they are damaged.
    WriterBusyError
        Another build or rebalancing of the folder is running.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> import pyarrow as pa, pyarrow.parquet as pq
    >>> import hyrecall as hr
    >>> from hyrecall.distributed import build_shards, rebalance
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> rows = {"id": [1, 2, 3], "user": ["ann", "bob", "cyd"], "text": ["tea", "milk", "hot tea"]}
    >>> pq.write_table(pa.table(rows), folder / "rows.parquet")
    >>> schema = hr.Schema(key="id", cell="user", text="text")
    >>> build_shards(folder, schema, folder / "shards", shards=1).generation
    1
    >>> moved = rebalance(folder / "shards", shards=3)
    >>> moved.generation, sorted(one.rows for one in moved.shards)
    (2, [1, 1, 1])
    """
    read_sizes(shards, shard_rows)
    limit = read_memory(memory_limit)
    count, tell = choose_threads(threads), read_progress(progress)
    path = read_path(folder)
    PlacedShards.read(path)  # first: no lock file is made in a folder without shards
    with disk.writer_lock(path):
        placed = PlacedShards.read(path)
        remove_unused(path, placed.shards.shards)
        n_shards = read_sizes(shards, shard_rows, placed.shards.rows)
        made = _Move(placed, n_shards, limit, count, tell).run()
        if made is not placed.shards:
            write_shards(path, made)
            remove_unused(path, made.shards)
    return made


@dataclass(frozen=True, eq=False)
class _Source:
    """An open shard, and the new shard of each of its rows."""

    facts: IndexFacts
    state: State
    shards: tuple[npt.NDArray[np.uint16], ...]  # for each segment, the new shard of each row


class _Move:
    """One rebalancing."""

    def __init__(
        self,
        placed: PlacedShards,
        n_shards: int,
        limit: int,
        threads: int,
        tell: ProgressFunction | None,
    ) -> None:
        self._placed = placed
        self._n = n_shards
        self._limit = limit
        self._tell = tell
        self._opened = [opened(one, threads) for one in placed.folders]
        placed.check(self._opened, None)
        self._facts = self._opened[0][0]

    def run(self) -> Shards:
        """Write the shards that change; return the new generation, or the old one."""
        before = self._placed.shards
        placement = self._place(before.placement)
        if placement == before.placement and self._n == len(before.shards):
            return before
        sources = [self._source(placement, *one) for one in self._opened]
        changed = [one for one in range(self._n) if self._changes(one, sources)]
        total = sum(self._rows_for(one, sources) for one in changed)
        generation, done = before.generation + 1, 0
        entries: list[ShardEntry] = []
        for shard in range(self._n):
            if shard not in changed:
                entries.append(before.shards[shard])
                continue
            folder = self._placed.folder / folder_name(shard, generation)
            self._write(folder, shard, sources)
            entries.append(described(folder, shard)[0])
            done += entries[-1].rows
            if self._tell is not None:
                self._tell(done, total)
        return replace(
            before, generation=generation, placement=placement, shards=tuple(entries),
            generator=GENERATOR,
        )  # fmt: skip

    def _place(self, before: Placement) -> Placement:
        """Choose the shard of each slot and part by counts of rows."""
        n_rows = self._placed.shards.rows
        counts = place_counts(self._counted, n_rows, self._n, before.parts)
        for cell, values in ((before.encode(one), one) for one, _ in before.split):
            if cell not in counts.parts:  # all of its documents were deleted
                counts.parts[cell] = np.zeros(N_PARTS, np.int64)
                counts.values[cell] = values
        return pack(before.columns, counts, self._n, before)

    def _counted(self, heavy: Collection[int], large: Collection[bytes]) -> RowCounts:
        counts = RowCounts()
        for facts, state in self._opened:
            for segment in state.segments:
                for table in _tables(segment, facts):
                    counts.add(rows_of(table, facts.schema), heavy, large)
        return counts

    def _source(self, placement: Placement, facts: IndexFacts, state: State) -> _Source:
        def of(segment: Segment) -> npt.NDArray[np.uint16]:
            rows = (rows_of(one, facts.schema) for one in _tables(segment, facts))
            found = [one.shards(placement).astype(np.uint16) for one in rows]
            return np.concatenate([*found, np.zeros(0, np.uint16)])

        return _Source(facts, state, tuple(map(of, state.segments)))

    def _rows_for(self, shard: int, sources: Sequence[_Source]) -> int:
        return sum(int((own == shard).sum()) for one in sources for own in one.shards)

    def _changes(self, shard: int, sources: Sequence[_Source]) -> bool:
        """Whether a shard is new, or gains or loses rows."""
        if shard >= len(sources):
            return True
        keeps = all(bool((own == shard).all()) for own in sources[shard].shards)
        gets = any(
            bool((own == shard).any())
            for number, one in enumerate(sources)
            if number != shard
            for own in one.shards
        )
        return gets or not keeps

    def _write(self, folder: Path, shard: int, sources: Sequence[_Source]) -> None:
        """Write the rows of a shard from their present shards, in pieces within the limit."""
        segments: list[Segment] = []
        of_rows: list[npt.NDArray[np.uint16]] = []
        for source in sources:
            for segment, own in zip(source.state.segments, source.shards, strict=True):
                if bool((own == shard).any()):
                    segments.append(segment)
                    of_rows.append(own)
        if not segments:
            segments, of_rows = [self._opened[0][1].segments[0]], []
        order = self._order(shard, segments, of_rows)
        begun = unfinished_folder(folder)
        shutil.rmtree(begun, ignore_errors=True)
        next_seq = 0
        if len(order[0]):
            next_seq = int(seqs_of(segments, *order).max()) + 1
        for begin, end in self._pieces(len(order[0])):
            piece = take_rows(
                segments, order[0][begin:end], order[1][begin:end], self._facts.schema
            )
            self._append(begun, piece, next_seq)
        begun.rename(folder)
        disk.sync_folder(folder.parent)

    def _order(
        self, shard: int, segments: Sequence[Segment], of_rows: Sequence[npt.NDArray[np.uint16]]
    ) -> tuple[Rows, Rows]:
        """Return the rows of a shard, in the order of one segment."""
        views = [_core.SegmentView(one.core) for one in segments]
        source, row = merge_order(segments, views, self._facts.schema)
        kept = np.zeros(len(source), np.bool_)
        for number, own in enumerate(of_rows):
            here = source == number
            kept[here] = own[row[here]] == shard
        return source[kept], row[kept]

    def _pieces(self, n_rows: int) -> Iterator[tuple[int, int]]:
        """Yield the range of rows of each new segment; without rows, one empty range."""
        n_bytes = sum(one.bytes for one in self._placed.shards.shards)
        a_row = max(1.0, n_bytes / max(1, self._placed.shards.rows))
        step = max(4096, int((self._limit - _BASE_BYTES) / (a_row * _PEAK_PER_SAVED_BYTE)))
        for begin in range(0, n_rows, step):
            yield begin, min(begin + step, n_rows)
        if not n_rows:
            yield 0, 0

    def _append(self, folder: Path, piece: Segment, next_seq: int) -> None:
        """Add a segment to a saved index, whose other segments are mapped."""
        lineage = Lineage()
        segments, views = [piece], [_core.SegmentView(piece.core)]
        if folder.exists():
            _, state, seal = open_index(folder, OpenOptions(verify="structure"))
            lineage.settle(folder, seal)
            segments, views = [*state.segments, piece], [*state.views, *views]
        state = State.of(segments, views, next_seq)
        save_index(folder, self._facts, state, lineage, overwrite=False)


def _tables(segment: Segment, facts: IndexFacts) -> Iterator[pa.Table]:
    """Yield the cells, keys and threads of a segment, in batches of rows."""
    schema = facts.schema
    thread = () if schema.thread is None else (schema.thread,)
    names = list(dict.fromkeys((*schema.cell_columns, schema.key, *thread)))
    table = segment.columns(names)
    for begin in range(0, table.num_rows, _COUNTED_ROWS):
        yield table.slice(begin, _COUNTED_ROWS)
