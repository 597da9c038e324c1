"""Saves an index to a folder: writes new files, then makes them valid with one rename.

A folder holds immutable Arrow IPC files and a MANIFEST that lists the valid ones. A lock keeps
other writers from changing the folder during a save. The format is in docs/format.md.
"""

from __future__ import annotations

import io
import secrets
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import xxhash

from hyrecall import _core
from hyrecall.base import disk
from hyrecall.base.disk import FILE_NAME, FileEnd, FileEntry
from hyrecall.base.version import __version__
from hyrecall.segments.manifest import MANIFEST, Lineage, Manifest, SegmentEntry, TextFacts, seal_of
from hyrecall.segments.segment_files import batches_of, dead_batch, write_batch
from hyrecall.segments.segments import IndexFacts, Segment, State, renamed

# ---- The two ends of an Arrow IPC file, which say where its columns lie, and their checksums ----
# A reader that compares these two checksums may follow what Arrow reads, and leave the columns for
# later. The layout is in docs/format.md.

MOST_BYTES = 4 * 2**20
"""The longest end that is kept: a file with longer ones has no checksums of them."""

_MAGIC_BYTES = 8  # before the first message
_MESSAGES = 2  # before the columns: the schema, and where the columns of the batch lie
_CONTINUED = 0xFFFFFFFF  # what each message begins with
_LAST_BYTES = 10  # the length of the footer, and six letters
_STOP_BYTES = 8  # before the footer: that no message follows
_PADDING = 64  # at most, behind the last column


class EndsSink(io.RawIOBase):
    """Passes a file on as it is written, and keeps both of its ends."""

    def __init__(self, to: BinaryIO) -> None:
        self._to = to
        self._first, self._last = bytearray(), bytearray()

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, data: Any) -> int:
        """Pass bytes on."""
        view = memoryview(data).cast("B")
        self._first += view[: MOST_BYTES - len(self._first)]
        self._last += view[-MOST_BYTES:]
        if len(self._last) > 2 * MOST_BYTES:
            del self._last[:-MOST_BYTES]
        self._to.write(view)
        return len(view)

    def ends(self) -> tuple[FileEnd, ...]:
        """Return the first and the last bytes of the file that was written; () if they are long."""
        first, last = _first_bytes(self._first), _last_bytes(self._last)
        if max(first, last) > MOST_BYTES:
            return ()
        head, tail = bytes(self._first[:first]), bytes(self._last[-last:])
        return tuple(FileEnd(len(end), xxhash.xxh3_64_hexdigest(end)) for end in (head, tail))


def _first_bytes(first: bytearray) -> int:
    """Return how many bytes of a file lie before its columns."""
    at = _MAGIC_BYTES
    for _ in range(_MESSAGES):
        if at + 8 > len(first):
            return MOST_BYTES + 1
        mark, size = struct.unpack_from("<Ii", first, at)
        assert mark == _CONTINUED, "an Arrow message"
        at += 8 + size
    return at


def _last_bytes(last: bytearray) -> int:
    """Return how many bytes of a file lie behind its columns, or a few more."""
    (footer,) = struct.unpack_from("<i", last, len(last) - _LAST_BYTES)
    return int(footer) + _LAST_BYTES + _STOP_BYTES + _PADDING


# ---- Saves an index to a folder: writes new files, then makes them valid with one rename ----


def save_index(
    path: Path, facts: IndexFacts, state: State, lineage: Lineage, *, overwrite: bool
) -> State:
    """Save a state to a folder: write the files that it lacks, then replace its MANIFEST."""
    disk.make_folder(path)
    with disk.writer_lock(path):
        before = _version_to_replace(path, lineage, overwrite=overwrite)
        named = [s if s.name else renamed(s, secrets.token_hex(8)) for s in state.segments]
        written: list[Path] = []
        try:
            entries = tuple(
                _save_segment(path, facts, segment, view, before, written)
                for segment, view in zip(named, state.views, strict=True)
            )
            state.files.check_reads()  # else zeros of a lost page would be saved
            manifest = _describe(facts, state, entries, version=before.version + 1 if before else 1)
            content = manifest.to_bytes()
            disk.prepare(path, MANIFEST, content)
        except BaseException:
            disk.remove(written)  # useless files must not keep a full disk full
            raise
        seal = seal_of(content, path / MANIFEST)
        lineage.expect(path, seal)
        disk.commit(path, MANIFEST)
        lineage.settle(path, seal)
        ours = (file for file in path.iterdir() if FILE_NAME.fullmatch(file.name))
        disk.remove([file for file in ours if file.name not in manifest.files])
    return replace(state, segments=tuple(named))


def _version_to_replace(path: Path, lineage: Lineage, *, overwrite: bool) -> Manifest | None:
    """Return the MANIFEST that a save replaces, if any; refuse one that it must not replace."""
    try:
        text = disk.read_bytes(path / MANIFEST)
    except FileNotFoundError:
        return None
    before = Manifest.from_bytes(text, path / MANIFEST)
    if not overwrite:
        lineage.check(path, seal_of(text, path / MANIFEST), before.version)
    return before


def _save_segment(
    path: Path,
    facts: IndexFacts,
    segment: Segment,
    view: _core.SegmentView,
    before: Manifest | None,
    written: list[Path],
) -> SegmentEntry:
    """Write the files of a segment that the folder lacks, and add their paths to `written`."""
    assert segment.name is not None
    known = {s.name: s for s in before.segments}.get(segment.name) if before else None
    held = dict(known.files) if known else {}
    dead = held.pop("dead", None)
    if not held or not all(_is_there(path, file) for file in held.values()):
        held = {}
        for role, batch in batches_of(segment, facts.schema, facts.embedded):
            held[role] = _write(path / f"{segment.name}-{role}.arrow", batch, written)
    if view.n_dead:
        batch = dead_batch(view)
        if dead is None or not _is_there(path, dead) or not _would_equal(dead, batch):
            name = f"{segment.name}-dead-{secrets.token_hex(8)}.arrow"
            dead = _write(path / name, batch, written)
        held["dead"] = dead
    return SegmentEntry(segment.name, view.n_rows, view.n_dead, held)


def _is_there(path: Path, file: FileEntry) -> bool:
    try:
        return (path / file.name).stat().st_size == file.size
    except FileNotFoundError:
        return False


def _would_equal(file: FileEntry, batch: pa.RecordBatch) -> bool:
    sink = pa.BufferOutputStream()
    write_batch(sink, batch)
    content = sink.getvalue()
    return file.size == content.size and file.blocks == disk.block_checksums(content)


def _write(file: Path, batch: pa.RecordBatch, written: list[Path]) -> FileEntry:
    written.append(file)
    ends: list[FileEnd] = []

    def write(to: BinaryIO) -> None:
        sink = EndsSink(to)
        write_batch(sink, batch)
        ends.extend(sink.ends())

    size, blocks = disk.write_file(file, write)
    return FileEntry(file.name, size, blocks, tuple(ends) if size > disk.SMALL_BYTES else ())


def _describe(
    facts: IndexFacts, state: State, segments: tuple[SegmentEntry, ...], *, version: int
) -> Manifest:
    texts = {}
    for arm, text in facts.schema.text_arms.items():
        analyzer = facts.analyzers[arm]
        own = [n for n in ("analyzer", "bm25") if getattr(text, n) is not None]
        bm25 = facts.bm25[arm].to_dict()
        texts[arm] = TextFacts(analyzer.to_dict(), analyzer.hash, bm25, tuple(own))
    return Manifest(
        generator=f"hyrecall {__version__}",
        version=version,
        next_seq=state.next_seq,
        schema=facts.schema.to_dict(),
        texts=texts,
        dims=dict(facts.dims),
        segments=segments,
        folder=facts.folder,
    )
