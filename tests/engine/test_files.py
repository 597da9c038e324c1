"""An index that was saved and opened replies as the one in memory did, bit for bit."""

import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import hyrecall as hr
from engine.saved_index import (
    DIM,
    Listing,
    ask,
    build,
    everyone,
    grown,
    question,
    schema,
    table,
)
from seams import Segment, disk, segment_files

# ---- replies and files ----

MODES = [("mmap", "full"), ("mmap", "structure"), ("ram", "full"), ("ram", "structure")]


def saved(index: hr.Index, path: Path, **options: str) -> hr.Index:
    """The index, saved and opened again."""
    index.save(path)
    return hr.Index.open(path, device="cpu", **options)


@pytest.mark.parametrize(("memory", "verify"), MODES)
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_replies_are_bit_equal_in_every_mode(
    tmp_path: Path, dtype: str, memory: str, verify: str
) -> None:
    index = grown(dtype=dtype)
    assert index.stats()["n_segments"] == 2
    assert index.stats()["n_dead"] > 0
    again = saved(index, tmp_path / "index", memory=memory, verify=verify)
    assert ask(again) == ask(index)
    assert question(again, "both").equals(question(index, "both"))
    assert again.schema == index.schema
    assert again.stats() | {"segments": 0} == index.stats() | {"segments": 0}


@pytest.mark.parametrize(
    "changes",
    [
        {"vector": ()},
        {"text": ()},
        {"cell": None},
        {"attributes": (), "cluster": None, "stored": ()},
        {"vector": {"v": hr.Vector("v"), "w": hr.Vector("v", dtype="float16")}},
    ],
    ids=["text only", "vectors only", "one audience", "nothing stored", "two dense arms"],
)
def test_an_index_of_any_shape_comes_back(tmp_path: Path, changes: dict[str, object]) -> None:
    index = build(**changes) if len(changes.get("vector", ())) > 1 else grown(**changes)
    again = saved(index, tmp_path)
    assert again.schema == index.schema
    if len(index.schema.vector) > 1:
        query = np.ones((1, 9), np.float32)
        options = {"vectors": {"v": query, "w": query}, "scope": everyone(index)}
        assert again.recall(**options).to_arrow().equals(index.recall(**options).to_arrow())
    else:
        assert ask(again) == ask(index)


def test_a_key_column_named_like_ours_does_not_clash(tmp_path: Path) -> None:
    rows = pa.table({"seq": ["a", "b"], "text": ["tea", "hot tea"]})
    index = hr.Index.build(rows, hr.Schema(key="seq", cell=None, text="text"))
    again = saved(index, tmp_path)
    assert again.recall_one(text="tea").keys == index.recall_one(text="tea").keys == ["a", "b"]


def test_stored_columns_keep_their_types(tmp_path: Path) -> None:
    n = 12
    stored = {
        "struct": pa.array([{"a": i, "b": [str(i)]} for i in range(n)]),
        "decimal": pa.array(range(n), pa.decimal128(12, 2)),
        "nothing": pa.nulls(n),
        "binary": pa.array([b"\xff" * i if i % 3 else None for i in range(n)], pa.large_binary()),
        "map": pa.array([[("k", i)] for i in range(n)], pa.map_(pa.string(), pa.int64())),
        "uuid": pa.array([bytes([i]) * 16 for i in range(n)], pa.uuid()),
        "when": pa.array(range(n), pa.timestamp("ns", tz="Europe/Paris")),
    }
    rows = pa.table({"id": pa.array(range(n)), "text": ["tea"] * n, **stored})
    index = hr.Index.build(rows, hr.Schema(key="id", cell=None, text="text", stored=tuple(stored)))
    again = saved(index, tmp_path)
    for one in (index, again):
        one.delete([4])
    options = {"text": ["tea"], "limit": n, "columns": tuple(stored)}
    assert again.recall(**options).to_arrow().equals(index.recall(**options).to_arrow())
    again.compact()
    assert again.recall(**options).to_arrow().equals(index.recall(**options).to_arrow())


def test_a_save_writes_only_what_is_new(tmp_path: Path) -> None:
    index = build()
    index.save(tmp_path)
    first = Listing.of(tmp_path)
    assert len([n for n in first.files if n.endswith(".arrow")]) == 6  # rows, v, 2 x (docs, terms)

    index.save(tmp_path)
    second = Listing.of(tmp_path)
    assert second.new_since(first) == {"MANIFEST"}

    index.delete([3], scope=everyone(index))
    index.save(tmp_path)
    third = Listing.of(tmp_path)
    new = third.new_since(second) - {"MANIFEST"}
    assert [name.split("-")[1] for name in new] == ["dead"]

    index.save(tmp_path)  # the same rows are dead
    assert Listing.of(tmp_path).new_since(third) == {"MANIFEST"}

    index.add(table(1000, 10))
    index.save(tmp_path)
    fourth = Listing.of(tmp_path)
    assert len(fourth.new_since(third)) == 1 + 6
    assert third.files.keys() <= fourth.files.keys()

    index.compact()
    index.save(tmp_path)
    fifth = Listing.of(tmp_path)
    assert set(fifth.files) == fifth.new_since(fourth) | {"LOCK"}  # the old ones are gone
    assert len(fifth.files) == 2 + 6


def test_an_opened_index_saved_back_writes_only_what_is_new(tmp_path: Path) -> None:
    index = saved(grown(), tmp_path)
    before = Listing.of(tmp_path)
    index.save(tmp_path)
    assert Listing.of(tmp_path).new_since(before) == {"MANIFEST"}


def test_a_second_folder_gets_everything_and_the_first_stays_known(tmp_path: Path) -> None:
    index = grown()
    index.save(tmp_path / "a")
    index.save(tmp_path / "b")
    assert len(list((tmp_path / "b").iterdir())) == len(list((tmp_path / "a").iterdir()))
    shutil.rmtree(tmp_path / "a")
    assert ask(hr.Index.open(tmp_path / "b")) == ask(index)
    index.save(tmp_path / "a")  # not there any more: everything is written again
    assert ask(hr.Index.open(tmp_path / "a")) == ask(index)
    before = Listing.of(tmp_path / "b")
    index.save(tmp_path / "b")
    assert Listing.of(tmp_path / "b").new_since(before) == {"MANIFEST"}


def test_a_save_puts_back_a_file_that_went_missing(tmp_path: Path) -> None:
    index = grown()
    index.save(tmp_path)
    next(tmp_path.glob("*-terms-0.arrow")).unlink()
    index.save(tmp_path)
    assert ask(hr.Index.open(tmp_path)) == ask(index)


def test_foreign_files_in_the_folder_stay(tmp_path: Path) -> None:
    (tmp_path / "notes.arrow").write_text("mine")
    (tmp_path / "folder").mkdir()
    index = grown()
    index.save(tmp_path)
    index.compact()
    index.save(tmp_path)
    assert (tmp_path / "notes.arrow").read_text() == "mine"
    assert (tmp_path / "folder").is_dir()


@pytest.mark.parametrize("memory", ["mmap", "ram"])
def test_an_open_index_outlives_its_folder(tmp_path: Path, memory: str) -> None:
    index = grown()
    again = saved(index, tmp_path / "index", memory=memory)
    shutil.rmtree(tmp_path / "index")
    assert ask(again) == ask(index)
    again.compact()
    assert ask(again) == ask(index)


def test_ram_holds_no_mapping_of_the_files(tmp_path: Path) -> None:
    grown().save(tmp_path)
    kept = hr.Index.open(tmp_path, memory="ram")
    assert str(tmp_path) not in Path("/proc/self/maps").read_text()
    mapped = hr.Index.open(tmp_path, memory="mmap")
    assert str(tmp_path) in Path("/proc/self/maps").read_text()
    assert ask(kept) == ask(mapped)


def test_a_mapped_plane_is_read_in_place(tmp_path: Path) -> None:
    index = saved(build(), tmp_path)
    rows = index._state.segments[0].dense["v"].rows
    maps = Path("/proc/self/maps").read_text().splitlines()
    (line,) = (line for line in maps if str(tmp_path) in line and "vectors" in line)
    begin, end = (int(part, 16) for part in line.split()[0].split("-"))
    assert begin <= rows.ctypes.data < end


@pytest.mark.parametrize("cell", [("tenant",), None])
def test_a_schema_comes_back_as_it_was_given(tmp_path: Path, cell: tuple[str, ...] | None) -> None:
    index = hr.Index.build(
        table(0, 9),
        schema(cell=cell),
        analyzer=hr.Analyzer("snowball:english", stopwords="english"),
        bm25=hr.BM25("fts5"),
    )
    again = saved(index, tmp_path)
    assert again.schema == index.schema
    assert again._facts.analyzers == index._facts.analyzers
    assert again._facts.bm25 == index._facts.bm25
    assert again._facts.row_types == index._facts.row_types


def test_a_delta_is_saved_where_the_variant_has_one_and_nowhere_else(tmp_path: Path) -> None:
    for variant, delta in (("bm25+", 0.25), ("bm25l", 0.5), ("lucene", None)):
        bm25 = hr.BM25(variant, delta=delta)
        index = hr.Index.build(table(0, 9), schema(), bm25=bm25)
        again = saved(index, tmp_path / variant)
        assert again._facts.bm25 == index._facts.bm25
        assert bm25 in again._facts.bm25.values()
        text = (tmp_path / variant / "MANIFEST").read_text()
        assert ('"delta"' in text) == (delta is not None)


def test_a_late_check_runs_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk, "BLOCK_BYTES", 512)
    index = build()
    checked: list[str] = []
    check = segment_files._check_lexical

    def counted(column: Any, documents: Any, *rest: Any) -> None:
        checked.append(documents.path.name)
        check(column, documents, *rest)

    monkeypatch.setattr(segment_files, "_check_lexical", counted)
    again = saved(index, tmp_path, verify="structure")
    assert question(again, "vector").equals(question(index, "vector"))
    assert checked == []
    for _ in range(2):
        assert question(again, "text").equals(question(index, "text"))
        names = [name.split("-", 1)[1] for name in checked]
        assert names == ["documents-0.arrow", "documents-1.arrow"]


# ---- what the system is told of mapped pages: a few rows are read, or all in order ----

BLOCK = 512
ROWS = 5000  # the lists, norms and keys of a file have pages of their own


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A saved index of one segment."""
    build(ROWS).save(tmp_path / "index")
    return tmp_path / "index"


def apart(folder: Path) -> dict[str, float]:
    """The share of each role's mapped bytes of which a page fault brings a single page."""
    found: dict[str, list[int]] = {}
    role, size = "", 0
    for line in Path("/proc/self/smaps").read_text().splitlines():
        mapping = re.match(r"([0-9a-f]+)-([0-9a-f]+) .*?(/.*)?$", line)
        if mapping:
            path = Path(mapping[3] or "none")
            named = re.match(r"[0-9a-f]{16}-([a-z]+-?\d*)\.arrow$", path.name)
            role = named[1] if named and path.parent == folder else ""
            size = int(mapping[2], 16) - int(mapping[1], 16)
        elif line.startswith("VmFlags:") and role:
            held = found.setdefault(role, [0, 0])
            held[0] += size if " rr" in line else 0
            held[1] += size
    return {role: told / whole for role, (told, whole) in found.items()}


def test_a_few_rows_are_read_without_the_rows_around_them(folder: Path) -> None:
    index = hr.Index.open(folder, verify="structure", device="cpu")
    told = apart(folder)
    assert told["plane-0"] == 0, "scans read planes in order"
    for role in ("vectors-0", "rows"):
        assert told[role] > 0.4, role
    rows = told["rows"]
    assert rows < 1, "filters read attributes in order"
    assert ask(index) == ask(hr.Index.open(folder, memory="ram", device="cpu"))
    asked = apart(folder)
    assert asked["vectors-0"] == told["vectors-0"]
    for role in ("rows", "documents-0", "terms-0"):
        assert asked[role] > 0.4, role


def test_an_open_reads_the_ends_of_files_without_the_pages_around_them(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compare, told = disk._check_ends, {}

    def look(path: Path, *more: Any) -> None:
        role = path.name.split("-", 1)[1].removesuffix(".arrow")
        told[role] = apart(folder)[role]
        compare(path, *more)

    monkeypatch.setattr(disk, "_check_ends", look)
    index = hr.Index.open(folder, verify="structure", device="cpu")
    assert {"rows", "vectors-0", "plane-0", "documents-0"} <= told.keys(), "longer than 64 KiB"
    assert set(told.values()) == {1.0}
    assert apart(folder)["terms-0"] == 0, "read in order, once it is read"
    assert ask(index) == ask(hr.Index.open(folder, memory="ram", device="cpu"))


@pytest.mark.parametrize("options", [{"verify": "full"}, {"verify": "structure", "memory": "ram"}])
def test_files_that_are_read_as_a_whole_keep_the_read_ahead(
    folder: Path, options: dict[str, str]
) -> None:
    index = hr.Index.open(folder, device="cpu", **options)  # type: ignore[arg-type]
    ask(index)
    assert set(apart(folder).values()) <= {0.0}


def test_postings_are_read_apart_from_the_first_query_of_texts_on(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of files of several blocks: the whole arm is read in order once, to compare it."""
    monkeypatch.setattr(disk, "BLOCK_BYTES", BLOCK)
    build(ROWS).save(folder.with_name("blocks"))
    folder = folder.with_name("blocks")
    index = hr.Index.open(folder, verify="structure", device="cpu")
    before = apart(folder)
    assert before["terms-0"] == 0
    assert before["documents-0"] == 0
    query = np.ones((1, DIM), np.float32)
    index.recall(vectors=query, scope=everyone(index))
    assert apart(folder)["terms-0"] == 0
    index.recall(text={"body": ["tea"]}, scope=everyone(index))
    after = apart(folder)
    assert after["terms-0"] > 0.4
    assert after["documents-0"] > 0.4


def test_a_save_reads_all_in_order_and_then_queries_read_apart_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = hr.Index.open(folder, verify="structure", device="cpu")
    ask(index)
    before = apart(folder)
    meanwhile: list[dict[str, float]] = []
    again = Segment.read_apart

    def look(segment: Segment) -> None:
        meanwhile.append(apart(folder))
        again(segment)

    monkeypatch.setattr(Segment, "read_apart", look)
    index.save(folder.with_name("other"))
    for role in ("rows", "documents-0", "documents-1", "terms-0", "terms-1"):
        assert meanwhile[-1][role] < 0.2, role  # what is left lies between the columns
        assert before[role] > 0.4, role
        assert apart(folder)[role] > 0.4, role
    right = hr.Index.open(folder, memory="ram", device="cpu")
    assert ask(hr.Index.open(folder.with_name("other"), device="cpu")) == ask(right)


def test_changes_of_a_mapped_index_are_those_of_one_in_memory(tmp_path: Path) -> None:
    """Deletes, adds and a merge, with the lists and keys of files in pages that come one by one."""
    grown().save(tmp_path / "index")
    mapped = hr.Index.open(tmp_path / "index", verify="structure", device="cpu")
    held = hr.Index.open(tmp_path / "index", memory="ram", device="cpu")
    for index in (mapped, held):
        assert index.delete([7, 8, 1001], scope=everyone(index)) == 3
        index.add(table(3000, 30))
    assert ask(mapped) == ask(held)
    for index in (mapped, held):
        index.compact()
    assert mapped.stats()["n_segments"] == 1
    assert ask(mapped) == ask(held)
