"""Saving an index to a folder and opening it again.

A folder holds immutable Arrow IPC files and one MANIFEST that names those that count. Writers take
a lock; readers take none: they read the MANIFEST and map its files, and if a writer removed one of
them in between, they start over with the MANIFEST that took its place. The format: docs/format.md.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from hyrecall import _core, disk
from hyrecall.analyzer import Analyzer
from hyrecall.arrow_files import (
    batches_of,
    dead_batch,
    dead_rows,
    optional_roles,
    read_batch,
    roles,
    segment_of,
    write_batch,
)
from hyrecall.errors import (
    CorruptIndexError,
    DTypeError,
    IndexNotFoundError,
    OptionError,
    error,
)
from hyrecall.manifest import FILE_NAME, MANIFEST, FileEntry, Manifest, SegmentEntry, TextFacts
from hyrecall.plan import IndexFacts
from hyrecall.schema import Schema, Text
from hyrecall.scoring import BM25
from hyrecall.segments import Segment, State, renamed

__all__ = ["open_index", "save_index"]

FULL_CHECK_BELOW = 8 * 10**9
"""Bytes up to which every block is checked at open: a second or so."""


# ---- saving ----


def save_index(path: Path, facts: IndexFacts, state: State) -> State:
    """Make the folder hold this state: write what it lacks, then put a new MANIFEST in place.

    Parameters
    ----------
    path : Path
        Made if it is not there. An index that it already holds is replaced as a whole.
    facts : IndexFacts
    state : State

    Returns
    -------
    State
        The same, with every segment under the name it was saved by.

    Raises
    ------
    WriterBusyError
        Another thread or process is saving there.
    CorruptIndexError
        The folder's MANIFEST is damaged or of a newer format (the folder is left as it is), or
        vectors of this index, not read since it was opened, turn out to be damaged.
    OSError
        From the disk. The folder then holds the version it held before, or, if only the last sync
        failed, the new one.
    """
    disk.make_folder(path)
    with disk.writer_lock(path):
        before = _version_to_replace(path)
        named = [s if s.name else renamed(s, secrets.token_hex(8)) for s in state.segments]
        written: list[Path] = []
        try:
            entries = tuple(
                _save_segment(path, facts.schema, segment, view, before, written)
                for segment, view in zip(named, state.views, strict=True)
            )
            manifest = _describe(facts, state, entries, version=before.version + 1 if before else 1)
            disk.prepare(path, MANIFEST, manifest.to_bytes())
        except BaseException:
            disk.remove(written)  # a full disk should not stay full of what nobody can use
            raise
        disk.commit(path, MANIFEST)
        ours = (file for file in path.iterdir() if FILE_NAME.fullmatch(file.name))
        disk.remove([file for file in ours if file.name not in manifest.files])
    return replace(state, segments=tuple(named))


def _version_to_replace(path: Path) -> Manifest | None:
    """Read the MANIFEST that a save replaces."""
    try:
        text = (path / MANIFEST).read_bytes()
    except FileNotFoundError:
        return None
    return Manifest.from_bytes(text, path / MANIFEST)


def _save_segment(
    path: Path,
    schema: Schema,
    segment: Segment,
    view: _core.SegmentView,
    before: Manifest | None,
    written: list[Path],
) -> SegmentEntry:
    """Write the files of a segment that the folder lacks; note what was written."""
    assert segment.name is not None
    known = {s.name: s for s in before.segments}.get(segment.name) if before else None
    held = dict(known.files) if known else {}
    dead = held.pop("dead", None)
    if not held or not all(_is_there(path, file) for file in held.values()):
        held = {}
        for role, batch in batches_of(segment, schema):
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
    size, blocks = disk.write_file(file, partial(write_batch, batch=batch))
    return FileEntry(file.name, size, blocks)


def _describe(
    facts: IndexFacts, state: State, segments: tuple[SegmentEntry, ...], *, version: int
) -> Manifest:
    from hyrecall import __version__

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
    )


# ---- opening ----


def open_index(
    path: Path,
    *,
    analyzer: Analyzer | Mapping[str, Analyzer] | None,
    memory: str,
    verify: str | None,
    threads: int,
) -> tuple[IndexFacts, State]:
    """Open the version that a folder holds now.

    Parameters
    ----------
    path : Path
    analyzer : Analyzer or mapping of str to Analyzer, optional
        For arms whose analyzer has a callable, or all if none has; its hash must be the stored one.
    memory : {"mmap", "ram"}
        With "ram" nothing of the folder is needed afterwards.
    verify : {"full", "structure"} or None
        Check everything now, or vectors when an arm first reads them; None: full below 8 GB.
    threads : int

    Raises
    ------
    IndexNotFoundError
        There is nothing at ``path``.
    CorruptIndexError
        A file is missing, damaged or of a newer format, or an analyzer is no longer what it was.
    OptionError
        An unknown option; an analyzer that is missing, or not the one the index was built with.
    """
    _one_of("memory", memory, ("mmap", "ram"))
    if verify is not None:
        _one_of("verify", verify, ("full", "structure"))
    manifest = _read_manifest(path)
    while True:
        try:
            return _open_version(path, manifest, analyzer, memory, verify, threads)
        except CorruptIndexError:
            # A save may have replaced this version and removed its files while we opened them.
            newer = _read_manifest(path)
            if newer == manifest:
                raise
            manifest = newer


def _one_of(argument: str, value: object, known: tuple[str, ...]) -> None:
    if value not in known:
        raise error(OptionError, argument, f"one of {known}", repr(value))


def _read_manifest(path: Path) -> Manifest:
    if not path.exists():
        raise error(IndexNotFoundError, "path", "the folder of a saved index", f"nothing at {path}")
    try:
        text = (path / MANIFEST).read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        wish = "the MANIFEST of a saved index"
        raise error(CorruptIndexError, str(path / MANIFEST), wish, "no such file") from None
    return Manifest.from_bytes(text, path / MANIFEST)


def _open_version(
    path: Path,
    manifest: Manifest,
    analyzer: Analyzer | Mapping[str, Analyzer] | None,
    memory: str,
    verify: str | None,
    threads: int,
) -> tuple[IndexFacts, State]:
    analyzers = _analyzers(path, manifest, analyzer)
    bm25 = {arm: BM25(**text.bm25) for arm, text in manifest.texts.items()}
    schema = _schema(manifest, analyzers, bm25)
    full = verify == "full" or (verify is None and manifest.n_bytes < FULL_CHECK_BELOW)
    segments, views = [], []
    for entry in manifest.segments:
        segment, view = _open_segment(path, entry, schema, manifest.dims, memory, full)
        segments.append(segment)
        views.append(view)
    facts = IndexFacts(
        schema=schema,
        analyzers=analyzers,
        bm25=bm25,
        dims=dict(manifest.dims),
        row_types={name: segments[0].rows.schema.field(name).type for name in schema.row_columns},
        threads=threads,
    )
    return facts, State.of(segments, views, manifest.next_seq)


def _open_segment(
    path: Path,
    entry: SegmentEntry,
    schema: Schema,
    dims: Mapping[str, int],
    memory: str,
    full: bool,
) -> tuple[Segment, _core.SegmentView]:
    wanted = {*roles(schema), *(["dead"] if entry.n_dead else [])}
    if entry.files.keys() - set(optional_roles(schema)) != wanted:
        where = f"{path / MANIFEST}: segment {entry.name}"
        raise error(CorruptIndexError, where, f"files {sorted(wanted)}", sorted(entry.files))
    arms = {
        f"{role}-{at}": arm
        for role in ("vectors", "plane")
        for at, arm in enumerate(schema.vector_arms)
    }
    late: dict[str, list[disk.LateCheck]] = {}

    def open_role(role: str) -> tuple[Path, pa.RecordBatch]:
        file = entry.files[role]
        where = path / file.name
        buffer = disk.read_file(where, file.size, memory)
        left = range(0) if full or role not in arms else disk.late_blocks(file)
        now = [number for number in range(len(file.blocks)) if number not in left]
        disk.check_blocks(where, file, buffer, now)
        if left:
            late.setdefault(arms[role], []).append(disk.LateCheck(where, file, buffer))
        return where, read_batch(where, buffer)

    has_role = entry.files.__contains__
    segment = segment_of(entry.name, entry.n_rows, open_role, has_role, schema, dims)
    segment = replace(segment, late={arm: partial(_run, checks) for arm, checks in late.items()})
    view = _core.SegmentView(segment.core)
    if entry.n_dead:
        dead = dead_rows(*open_role("dead"), entry.n_rows, entry.n_dead)
        view = view.without(dead)
    return segment, view


def _run(checks: list[disk.LateCheck]) -> None:
    for check in checks:
        check()


# ---- what is not in the files ----


def _schema(
    manifest: Manifest, analyzers: Mapping[str, Analyzer], bm25: Mapping[str, BM25]
) -> Schema:
    """Make the schema as it was given, with the options that it named itself."""
    plain = Schema.from_dict(manifest.schema)
    texts = {}
    for arm, text in plain.text_arms.items():
        own = manifest.texts[arm].in_schema
        texts[arm] = Text(
            *text.columns,
            analyzer=analyzers[arm] if "analyzer" in own else None,
            bm25=bm25[arm] if "bm25" in own else None,
        )
    return replace(plain, text=texts)


def _analyzers(
    path: Path, manifest: Manifest, given: Analyzer | Mapping[str, Analyzer] | None
) -> dict[str, Analyzer]:
    """Give each arm the analyzer it was built with, and make sure that it still is."""
    passed = _passed(manifest, given)
    made: dict[str, Analyzer] = {}
    for arm, text in manifest.texts.items():
        stored = f"{text.analyzer_hash} (as stored by {manifest.generator})"
        if arm in passed:
            if passed[arm].hash != text.analyzer_hash:
                wish = f"the analyzer the index was built with, hash {stored}"
                got = f"{passed[arm].hash} of {passed[arm]!r}"
                raise error(OptionError, f"analyzer[{arm!r}]", wish, got)
            made[arm] = passed[arm]
            continue
        if _has_callable(text.analyzer):
            named = text.analyzer.get("token_function", text.analyzer)
            wish = f"the one with the callable {named['name']!r} version {named['version']!r}"
            got = "None (callables are not stored)"
            remedy = "pass it to open(analyzer=)"
            raise error(OptionError, f"analyzer[{arm!r}]", wish, got, remedy)
        made[arm] = Analyzer.from_dict(text.analyzer)
        if made[arm].hash != text.analyzer_hash:
            got = f"{made[arm].hash} of {made[arm]!r} in this installation; build the index again"
            raise error(CorruptIndexError, f"{path}: analyzer of {arm!r}", f"hash {stored}", got)
    return made


def _passed(
    manifest: Manifest, given: Analyzer | Mapping[str, Analyzer] | None
) -> Mapping[str, Analyzer]:
    if given is None:
        return {}
    if isinstance(given, Analyzer):
        callables = [arm for arm, text in manifest.texts.items() if _has_callable(text.analyzer)]
        given = dict.fromkeys(callables or manifest.texts, given)
        if not given:
            raise error(OptionError, "analyzer", "None (the index has no text arm)", "an Analyzer")
        return given
    if not isinstance(given, Mapping):
        raise error(DTypeError, "analyzer", "an hr.Analyzer or {arm: hr.Analyzer}", repr(given))
    for arm, analyzer in given.items():
        if arm not in manifest.texts:
            raise error(OptionError, "analyzer", f"arms of {list(manifest.texts)}", repr(arm))
        if not isinstance(analyzer, Analyzer):
            raise error(DTypeError, f"analyzer[{arm!r}]", "an hr.Analyzer", repr(analyzer))
    return given


def _has_callable(stored: Mapping[str, Any]) -> bool:
    return stored["kind"] == "callable" or "token_function" in stored
