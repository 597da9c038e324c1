"""Opens a saved index: reads and checks a folder's files and returns the index's state.

Readers take no lock. They read the MANIFEST and map its files; if a writer has removed a file in
the meantime, they start again with the new MANIFEST. The format is in docs/format.md.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hyrecall import _core
from hyrecall.base import disk
from hyrecall.base.arguments import as_items, is_one_of, one_of
from hyrecall.errors import (
    CorruptIndexError,
    DTypeError,
    IndexMismatchError,
    IndexNotFoundError,
    OptionError,
    error,
)
from hyrecall.segments.manifest import (
    MANIFEST,
    SHARDS,
    Lineage,
    Manifest,
    SegmentEntry,
    read_seal,
    seal_of,
)
from hyrecall.segments.segment_files import (
    dead_rows,
    embedded_by,
    optional_roles,
    roles,
    segment_of,
)
from hyrecall.segments.segments import EmbeddedArm, IndexFacts, OpenedFile, Segment, State
from hyrecall.table.arrow_read import damage_of, read_batch
from hyrecall.table.schema import Schema, Text
from hyrecall.text.analyzer import Analyzer
from hyrecall.text.bm25 import BM25

# ---- Locks the files of parts of an index in memory ----

PINNED_PARTS = ("plane", "terms", "documents", "rows", "vectors")
"""The parts that can be kept in memory: the roles of files in docs/format.md, without numbers."""


def read_pin(pin: object) -> tuple[str, ...]:
    """Return the parts to pin: a name of ``PINNED_PARTS``, or a sequence of names."""
    named = (pin,) if isinstance(pin, str) else as_items(pin)
    if named is None or not all(is_one_of(name, PINNED_PARTS) for name in named):
        raise error(OptionError, "pin", f"parts of {list(PINNED_PARTS)}", repr(pin))
    return tuple(dict.fromkeys(named))


def lock(where: Path, file: _core.files.MappedFile) -> None:
    """Keep a mapped file in memory, or refuse to if the system does."""
    fault = file.lock()
    if fault:
        limit = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
        got = f"{os.strerror(fault)} (this process may lock {limit} bytes)"
        remedy = "raise the limit (ulimit -l), or pin less"
        wish = f"room to lock the {file.size} bytes of {where}"
        raise error(OptionError, "pin", wish, got, remedy)


# ---- Opens a saved index: reads and checks a folder's files and returns the index's state ----

_MOST_GAPS = 8  # unused numbers per row, up to which duplicates are found by a table of flags

FULL_CHECK_BELOW = 8 * 10**9
"""The size of an index below which opening checks every block, in about a second."""

ALONE_BELOW = 1 << 28
"""The size of an index below which its segments are opened one after the other."""

T_ = TypeVar("T_")


@dataclass(frozen=True)
class OpenOptions:
    """The options of opening an index, which a reload uses again."""

    analyzer: Analyzer | Mapping[str, Analyzer] | None = None
    memory: str = "mmap"
    verify: str | None = None
    threads: int = 1
    pin: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Check the options."""
        one_of("memory", self.memory, ("mmap", "ram"))
        if self.pin and self.memory == "ram":
            raise error(OptionError, "pin", 'nothing with memory="ram"', repr(self.pin))
        if self.verify is not None:
            one_of("verify", self.verify, ("full", "structure"))


def open_index(
    path: Path, how: OpenOptions, held: tuple[IndexFacts, State] | None = None
) -> tuple[IndexFacts, State, str]:
    """Open the current version of a folder."""
    manifest, seal = _read_manifest(path)
    while True:
        try:
            return *_open_version(path, manifest, how, held), seal
        except CorruptIndexError:
            # A save may have replaced this version and removed its files during the opening.
            newer, newer_seal = _read_manifest(path)
            if newer_seal == seal:
                raise
            manifest, seal = newer, newer_seal


def is_current(path: Path, lineage: Lineage) -> bool:
    """Return whether a folder's current version is one that the index contains."""
    try:
        return lineage.holds(read_seal(path / MANIFEST))
    except (FileNotFoundError, NotADirectoryError, CorruptIndexError):
        return False


def _read_manifest(path: Path) -> tuple[Manifest, str]:
    """Return the MANIFEST of a folder and its seal."""
    if not path.exists():
        raise error(IndexNotFoundError, "path", "the folder of a saved index", f"nothing at {path}")
    wish = "the MANIFEST of a saved index"
    try:
        text = disk.read_bytes(path / MANIFEST)
    except NotADirectoryError:
        raise error(CorruptIndexError, str(path / MANIFEST), wish, "no such file") from None
    except FileNotFoundError:  # never saved, or the first save is at work
        if (path / SHARDS).is_file():
            got = f"a folder of shards, {path} (hyrecall shards info shows it)"
            remedy = f"ShardedIndex.open({str(path)!r})"
            raise error(
                IndexNotFoundError, "path", "the folder of a saved index", got, remedy
            ) from None
        raise error(IndexNotFoundError, str(path / MANIFEST), wish, "no such file") from None
    return Manifest.from_bytes(text, path / MANIFEST), seal_of(text, path / MANIFEST)


def _open_version(
    path: Path, manifest: Manifest, how: OpenOptions, held: tuple[IndexFacts, State] | None
) -> tuple[IndexFacts, State]:
    given = how.analyzer
    if held is not None:
        given = {arm: one for arm, one in held[0].analyzers.items() if arm in manifest.texts}
    analyzers = _analyzers(path, manifest, given)
    with damage_of(path / MANIFEST, "the options of an index"):
        bm25 = {arm: BM25(**text.bm25) for arm, text in manifest.texts.items()}
        schema = _schema(manifest, analyzers, bm25)
        arms = (schema.text_arms.keys(), schema.vector_arms.keys())
        if (manifest.texts.keys(), manifest.dims.keys()) != arms:
            raise ValueError("arms that the schema does not have")
    full = how.verify == "full" or (how.verify is None and manifest.n_bytes < FULL_CHECK_BELOW)
    if held is not None:
        _check_same(path, held[0], schema, analyzers, bm25, manifest.dims)
    known = {segment.name: segment for segment in held[1].segments} if held else {}
    embedded: dict[str, EmbeddedArm] = {}

    def open_segment(entry: SegmentEntry) -> tuple[Segment, _core.SegmentView]:
        one = known.get(entry.name)
        return _open_segment(path, entry, schema, manifest, how, full, one, embedded)

    segments, views = zip(*_in_turn(open_segment, manifest, how.threads), strict=True)
    _check_together(path, manifest, segments, full)
    state = State.of(segments, views, manifest.next_seq)
    state.files.check()  # none was cut while it was read
    if held is not None:
        _check_embedded(held[0].embedded, embedded)
        same = manifest.folder == held[0].folder
        return held[0] if same else replace(held[0], folder=manifest.folder), state
    types = {name: segments[0].rows.schema.field(name).type for name in schema.row_columns}
    dims = dict(manifest.dims)
    facts = (schema, analyzers, bm25, dims, types, how.threads, embedded, manifest.folder)
    return IndexFacts(*facts), state


def _in_turn(work: Callable[[SegmentEntry], T_], manifest: Manifest, threads: int) -> list[T_]:
    """Return what each segment gives; a large index's segments are read on several threads."""
    workers = min(threads, len(manifest.segments))
    if workers < 2 or manifest.n_bytes < ALONE_BELOW:
        return [work(entry) for entry in manifest.segments]
    from concurrent.futures import ThreadPoolExecutor  # half of its import is logging's

    with ThreadPoolExecutor(workers, "hyrecall-open") as pool:
        return list(pool.map(work, manifest.segments))


def _check_same(path: Path, facts: IndexFacts, *found: object) -> None:
    """Refuse a version whose schema, analyzers, BM25 or dimensions differ from the held index."""
    if found != (facts.schema, facts.analyzers, facts.bm25, facts.dims):
        wish = f"an index in {path} with the same schema, analyzers and dimensions"
        raise error(OptionError, "path", wish, "another index", "open it: hr.Index.open(path)")


def _check_embedded(held: Mapping[str, EmbeddedArm], found: Mapping[str, EmbeddedArm]) -> None:
    """Refuse a version with vectors of another embedder than the held index has."""
    for arm in held.keys() & found.keys():
        if found[arm] != held[arm]:
            wish, got = (
                f"{one.model!r} of {', '.join(one.columns)}" for one in (held[arm], found[arm])
            )
            told = f"the embedder {wish}, as the index has"
            raise error(IndexMismatchError, f"embed[{arm!r}]", told, got, "hr.Index.open(path)")


def _open_segment(
    path: Path,
    entry: SegmentEntry,
    schema: Schema,
    manifest: Manifest,
    how: OpenOptions,
    full: bool,
    known: Segment | None,
    embedded: dict[str, EmbeddedArm],
) -> tuple[Segment, _core.SegmentView]:
    wanted = {*roles(schema), *(["dead"] if entry.n_dead else [])}
    if entry.files.keys() - set(optional_roles(schema)) != wanted:
        where = f"{path / MANIFEST}: segment {entry.name}"
        raise error(CorruptIndexError, where, f"files {sorted(wanted)}", sorted(entry.files))
    arms = {f"vectors-{at}": arm for at, arm in enumerate(schema.vector_arms)}
    mapped: list[_core.files.MappedFile] = []

    def open_role(role: str) -> OpenedFile:
        file = entry.files[role]
        where = path / file.name
        is_late = not full and role != "dead"
        ends = disk.late_ends(file) if is_late else (0, 0)
        kept = None if role == "dead" else mapped  # deleted rows are copied
        buffer = disk.read_file(where, file.size, how.memory, kept, ends)
        part = role.split("-", maxsplit=1)[0]
        if ("plane" if part == "heads" else part) in how.pin:
            lock(where, mapped[-1])
        if not is_late:
            disk.check_blocks(where, file, buffer)
        checks = disk.late_checks(where, file, buffer) if is_late else None
        batch = read_batch(where, buffer, is_late=checks is not None)
        told = mapped[-1] if mapped and is_late else None
        opened = OpenedFile(where, batch, checks, buffer.address, told, ends)
        opened.check_outside(buffer)
        if told is not None and any(ends):
            told.read_in_order(buffer.address, buffer.size)  # where nobody says something else
        if role.startswith("vectors"):
            _note_embedder(where, batch, arms[role], embedded)
        return opened

    if known is not None and known.rows.num_rows == entry.n_rows:
        segment = known
    else:
        has_role = entry.files.__contains__
        segment = segment_of(
            entry.name, entry.n_rows, open_role, has_role, schema, manifest.dims, how.threads,
            mapped, manifest.next_seq,
        )  # fmt: skip
    view = _core.SegmentView(segment.core)
    if entry.n_dead:
        dead = dead_rows(open_role("dead"), entry.n_rows, entry.n_dead)
        segment.check_texts()  # the statistics of dead rows are counted from their tokens
        view = view.without(dead)
    return segment, view


def _note_embedder(
    where: Path, batch: pa.RecordBatch, arm: str, embedded: dict[str, EmbeddedArm]
) -> None:
    """Keep by what a file's vectors were made; files that say nothing agree with any."""
    with damage_of(where, "the name of an embedder"):
        found = embedded_by(batch)
        if found is not None and embedded.setdefault(arm, found) != found:
            raise ValueError(f"{found.model!r} beside {embedded[arm].model!r}")


def _check_together(
    path: Path, manifest: Manifest, segments: Sequence[Segment], full: bool
) -> None:
    """Check the segments together: equal types, and insertion numbers that are valid and unique."""
    where = str(path / MANIFEST)
    types = segments[0].rows.schema.types
    for segment in segments:
        if segment.rows.schema.types != types:
            got = f"others in {segment.name}"
            raise error(CorruptIndexError, where, "segments with columns of the same types", got)
    checked = [one for one in segments if one.row_checks is None and one.core.n_rows]
    each = [one.core.seqs for one in checked]  # of others, the first who reads a row checks them
    if not each:
        return
    low, high = min(int(one.min()) for one in each), max(int(one.max()) for one in each)
    if low < 0 or high >= manifest.next_seq:
        wish = f"insertion numbers in [0, {manifest.next_seq})"
        raise error(CorruptIndexError, where, wish, f"{low} to {high}")
    if full and not _are_distinct(np.concatenate(each), low, high):
        raise error(CorruptIndexError, where, "unique insertion numbers", "one twice")


def _are_distinct(seqs: npt.NDArray[np.int64], low: int, high: int) -> bool:
    if high - low > _MOST_GAPS * len(seqs):
        return len(np.unique(seqs)) == len(seqs)
    seen = np.zeros(high - low + 1, np.bool_)  # much cheaper than sorting
    seen[seqs - low] = True
    return int(np.count_nonzero(seen)) == len(seqs)


# ---- schema and analyzers ----


def _schema(
    manifest: Manifest, analyzers: Mapping[str, Analyzer], bm25: Mapping[str, BM25]
) -> Schema:
    """Make the original schema again, with the analyzers and BM25 options that it named."""
    plain = Schema.from_dict(manifest.schema)
    texts = {}
    for arm, text in plain.text_arms.items():
        own = manifest.texts[arm].in_schema
        texts[arm] = Text(
            *text.columns,
            weights=dict(text.weights),
            analyzer=analyzers[arm] if "analyzer" in own else None,
            bm25=bm25[arm] if "bm25" in own else None,
        )
    return replace(plain, text=texts)


def _analyzers(
    path: Path, manifest: Manifest, given: Analyzer | Mapping[str, Analyzer] | None
) -> dict[str, Analyzer]:
    """Return the analyzer of each arm; refuse one whose hash is not the stored hash."""
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
            with damage_of(path / MANIFEST, "an analyzer"):
                named = text.analyzer.get("token_function", text.analyzer)
                wish = f"the one with the callable {named['name']!r} version {named['version']!r}"
            got = "None (callables are not stored)"
            remedy = "pass it to open(analyzer=)"
            raise error(OptionError, f"analyzer[{arm!r}]", wish, got, remedy)
        with damage_of(path / MANIFEST, "an analyzer"):
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
    return stored.get("kind") == "callable" or "token_function" in stored
