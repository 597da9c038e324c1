"""Two writers change, save and reload an index; after each step it replies as the oracle does."""

import contextlib
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

import hyrecall as hr
from engine.disk_faults import FailingOs
from laws.checks import VERBS, draw_change, follow, live_after, report
from laws.effort import Effort
from laws.engine import EngineSubject, engine_filter, engine_scope
from machines import finds, run
from oracle.corpus import Draw, draw_call, draw_mix, draw_predicate, draw_rows, draw_shape
from oracle.documents import Row
from oracle.life import Life
from oracle.recall import Oracle
from oracle.scope import passes
from seams import Lineage, disk, updating
from seams import segments_lookup_module as lookup
from seams import segments_opening_module as opening

STEPS_OF_A_SAVE = 90  # of the operating system, at most
MANIFEST = "MANIFEST"

seeds = st.integers(0, 2**20)
writers = st.sampled_from((0, 1))
folders = st.sampled_from(("home", "home", "copy"))


def same(rows: Sequence[Row], others: Sequence[Row]) -> bool:
    return [id(row) for row in rows] == [id(row) for row in others]


@dataclass
class Writer:
    """An index, the rows that it holds, and the versions that it may replace."""

    subject: EngineSubject
    rows: list[Row]
    known: dict[Path, set[bytes]] = field(default_factory=dict)
    home: Path | None = None
    is_changed: bool = False

    def holds(self, version: bytes | None) -> bool:
        return any(version in versions for versions in self.known.values())

    def settle(self, folder: Path, version: bytes) -> None:
        """The folder holds what the writer holds."""
        self.known[folder], self.home, self.is_changed = {version}, folder, False


class IndexMachine(RuleBasedStateMachine):
    """A version of a folder is the bytes of its MANIFEST; the model knows the rows of each."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.versions: dict[bytes, list[Row]] = {}
        self.draw, self.who = Draw(0), 0

    @initialize(seed=seeds)
    def build(self, seed: int) -> None:
        self.draw = Draw(seed)
        self.shape = draw_shape(self.draw)
        rows = draw_rows(self.draw, self.shape, draw_mix(self.draw))
        self.writers = [Writer(EngineSubject(self.shape, rows), rows) for _ in range(2)]

    # ---- changes ----

    @rule(seed=seeds, who=writers, verb=st.sampled_from(sorted(VERBS)))
    def change(self, seed: int, who: int, verb: str) -> None:
        self.draw, self.who, writer = Draw(seed), who, self.writers[who]
        change = draw_change(self.draw, self.shape, writer.rows, verb=verb)
        stats = writer.subject.index.stats()
        is_whole = (stats["n_segments"], stats["n_dead"]) == (1, 0)
        follow(verb, writer.subject, Life(writer.rows), change)
        rows, writer.rows = writer.rows, live_after(writer.rows, change)
        is_same = is_whole if verb == "compact" else same(rows, writer.rows)
        writer.is_changed |= not is_same

    # ---- files ----

    def version(self, folder: Path) -> bytes | None:
        file = folder / MANIFEST
        return file.read_bytes() if file.exists() else None

    # One rule draws among them: hypothesis leaves whole rules out of most programs.
    @rule(
        what=st.sampled_from(("save", "save", "save_until_it_fails", "open", "open", "reload")),
        who=writers,
        name=folders,
        at=st.integers(1, STEPS_OF_A_SAVE),
        flag=st.booleans(),
    )
    def files(self, what: str, **given: Any) -> None:
        getattr(self, what)(**given)

    def save(self, who: int, name: str, at: int, flag: bool) -> None:
        """Save; with the flag, over whatever is there."""
        writer, folder = self.writers[who], self.folder / name
        before = self.version(folder)
        if not (flag or before is None or writer.holds(before)):
            with pytest.raises(hr.SaveConflictError):
                writer.subject.index.save(folder)
            assert self.version(folder) == before
            return
        writer.subject.index.save(folder, overwrite=flag)
        self.saved(writer, folder)

    def saved(self, writer: Writer, folder: Path) -> None:
        version = self.version(folder)
        assert version is not None
        assert same(self.versions.setdefault(version, writer.rows), writer.rows)
        writer.settle(folder, version)
        assert not writer.subject.index.is_stale

    def save_until_it_fails(self, who: int, name: str, at: int, flag: bool) -> None:
        """One step of a save fails, or all from there on, as in a process that is killed."""
        writer, folder = self.writers[who], self.folder / name
        before = self.version(folder)
        fake = FailingOs(at, for_ever=flag)
        with pytest.MonkeyPatch.context() as patch, contextlib.suppress(OSError):
            patch.setattr(disk, "os", fake)
            writer.subject.index.save(folder, overwrite=True)
            patch.undo()
            self.saved(writer, folder)
        if (version := self.version(folder)) is not None and version != before:
            assert same(self.versions.setdefault(version, writer.rows), writer.rows)
            writer.known.setdefault(folder, set()).add(version)
        if fake.failed and flag:
            self.open(who, name, at, flag)

    def open(self, who: int, name: str, at: int, flag: bool) -> None:
        folder, writer = self.folder / name, self.writers[who]
        version = self.version(folder)
        if version is None:
            with pytest.raises(hr.IndexNotFoundError):
                hr.Index.open(folder)
            return
        writer.subject.index.close()
        subject = writer.subject.opened(folder, "mmap" if flag else "ram")
        self.writers[who] = Writer(subject, self.versions[version])
        self.writers[who].settle(folder, version)

    def reload(self, who: int, name: str, at: int, flag: bool) -> None:
        """Reload; with the flag, giving changes up."""
        writer, index = self.writers[who], self.writers[who].subject.index
        if writer.home is None or (writer.is_changed and not flag):
            with pytest.raises(hr.OptionError, match=r"^index: expected"):
                index.reload(discard_changes=flag)
            return
        version = self.version(writer.home)
        is_news = not writer.holds(version)
        assert index.is_stale == is_news
        assert index.reload(discard_changes=flag) == (writer.is_changed or is_news)
        if writer.is_changed or is_news:
            assert version is not None
            writer.rows, writer.known = self.versions[version], {}
            writer.settle(writer.home, version)

    # ---- replies ----

    @invariant()
    def replies_are_those_of_the_oracle(self) -> None:
        for who, writer in enumerate(self.writers):
            check_rows(writer.subject, writer.rows, self.draw)
            oracle = Oracle(self.shape, writer.rows)
            call = draw_call(self.draw, oracle, 2 if who == self.who else 1)
            for query, reply in enumerate(writer.subject.recall(call)):
                expected = oracle.recall(call, query)
                assert reply == expected, report("machine", call, query, expected, reply)

    def teardown(self) -> None:
        shutil.rmtree(self.folder)


def check_rows(subject: EngineSubject, rows: Sequence[Row], draw: Draw) -> None:
    """Each cell counts and returns its own rows and vectors, and those that a filter passes."""
    assert len(subject.index) == len(rows)
    predicate = draw_predicate(draw)
    for cell in {row.cell: None for row in rows}:
        own = [row for row in rows if row.cell == cell]
        said = {"scope": engine_scope(frozenset([cell]))} if cell else {}
        keys = [row.key for row in own]
        found = subject.index.get(keys, **said, columns=list(subject.shape.dense))
        assert found["key"].to_pylist() == keys
        for arm in subject.shape.dense:  # a vector of zeros counts as none
            given = [row.vectors[arm] for row in own]
            told = [None if one is None or not one.any() else one.tolist() for one in given]
            assert found[arm].to_pylist() == told
        n_passing = sum(passes(predicate, row.attributes) for row in own)
        assert subject.index.count(**said, filter=engine_filter(predicate)) == n_passing


def test_an_index_replies_as_the_oracle_after_every_step(effort: Effort) -> None:
    programs, steps = effort.cases(quick=6, full=400), effort.cases(quick=15, full=40)
    run(IndexMachine, programs=programs, steps=steps)


# ---- planted bugs ----


def forgets_a_deletion(patch: pytest.MonkeyPatch) -> None:
    """An opening brings the rows back that were deleted from a segment."""
    patch.setattr(opening, "dead_rows", lambda *_: np.zeros(0, np.uint32))


def overwrites_another_writer(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Lineage, "check", lambda *_: None)


def commits_before_it_writes(patch: pytest.MonkeyPatch) -> None:
    """A save removes the files of the old version before the new one counts."""
    prepare = disk.prepare

    def too_early(folder: Path, name: str, content: bytes) -> None:
        disk.remove(folder.glob("*.arrow"))
        prepare(folder, name, content)

    patch.setattr(disk, "prepare", too_early)


def shows_zeros_for_no_vector(patch: pytest.MonkeyPatch) -> None:
    was = lookup.gather_values

    def without_nulls(*given: Any) -> pa.Array:
        found = was(*given)
        if not pa.types.is_fixed_size_list(found.type):
            return found
        return pa.FixedSizeListArray.from_arrays(found.values, type=found.type)

    patch.setattr(lookup, "gather_values", without_nulls)


def updates_keep_old_vectors(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(updating, "_chosen", lambda mask, new, old: old)


PLANTED = (
    forgets_a_deletion, overwrites_another_writer, commits_before_it_writes,
    shows_zeros_for_no_vector, updates_keep_old_vectors,
)  # fmt: skip


@pytest.mark.plain_cases(1)
@pytest.mark.parametrize("plant", PLANTED, ids=lambda plant: plant.__name__)
def test_the_machine_finds_a_planted_bug(
    plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    finds(IndexMachine, programs=60, steps=15)
