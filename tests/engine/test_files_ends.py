"""An open compares the two ends of each file, and the first call that reads rows compares these."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import hyrecall as hr
from engine import forge
from engine.saved_index import DIM, ask, everyone, schema, table
from seams import OpenedFile, arrow_files, disk, file_ends

BLOCK = 512
PIECE = 1024
ROWS = 600
CAROL = ("carol",)
OPTIONS: dict[str, Any] = {"verify": "structure", "device": "cpu"}


def rows(first: int, n_rows: int) -> pa.Table:
    """Rows with a time, which an open leaves in the file."""
    created = pa.array(np.arange(first, first + n_rows), pa.timestamp("us"))
    return table(first, n_rows).append_column("created", created)


def made(**changes: object) -> hr.Index:
    """An index of one segment."""
    attributes = ("kind", "tags", "created")
    return hr.Index.build(rows(0, ROWS), schema(attributes=attributes, **changes), device="cpu")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A saved index whose files are many blocks long."""
    folder = tmp_path_factory.mktemp("ends") / "index"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(disk, "BLOCK_BYTES", BLOCK)
        patch.setattr(disk, "SMALL_BYTES", 0)
        made().save(folder)
    return folder


@pytest.fixture
def folder(whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it."""
    monkeypatch.setattr(disk, "BLOCK_BYTES", BLOCK)
    monkeypatch.setattr(disk, "SMALL_BYTES", 0)
    return Path(shutil.copytree(whole, tmp_path / "index"))


def entries(folder: Path) -> dict[str, dict[str, Any]]:
    """The files of the last segment by role."""
    found: dict[str, dict[str, Any]] = forge.read_manifest(folder)["segments"][-1]["files"]
    return found


def damage(folder: Path, role: str, place: int, bit: int = 4) -> str:
    """Turn a bit of a role's file; return the file's path."""
    path = folder / entries(folder)[role]["name"]
    content = bytearray(path.read_bytes())
    content[place] ^= bit
    path.unlink()  # an open index may have it mapped
    path.write_bytes(content)
    return str(path)


def place_of(folder: Path, role: str, column: int, row: int, part: int = 1) -> int:
    """Where the value of a row lies in a role's file; part: which buffer of the column."""
    content = pa.py_buffer((folder / entries(folder)[role]["name"]).read_bytes())
    array = pa.ipc.open_file(content).get_batch(0).column(column)
    buffer = array.buffers()[part]
    width = buffer.size // len(array) if part == 1 else 1
    return int(buffer.address - content.address + row * width)


ROLES = ("rows", "vectors-0", "plane-0", "documents-0", "documents-1", "terms-0", "terms-1")


@pytest.mark.parametrize("memory", ["mmap", "ram"])
@pytest.mark.parametrize("end", [0, 1])
@pytest.mark.parametrize("role", ROLES)
def test_damage_of_an_end_is_found_by_the_open(
    folder: Path, role: str, end: int, memory: str
) -> None:
    file = entries(folder)[role]
    size = file["ends"][end][0]
    begin = 0 if end == 0 else file["size"] - size
    for place in (begin, begin + size // 2, begin + size - 1):
        path = damage(folder, role, place)
        with pytest.raises(hr.CorruptIndexError, match="expected checksum") as caught:
            hr.Index.open(folder, memory=memory, **OPTIONS)
        assert str(caught.value).startswith(f"{path}: ")
        assert f"of the {size} bytes at byte {begin}, got" in str(caught.value)
        damage(folder, role, place)  # as it was
    assert len(hr.Index.open(folder, memory=memory, **OPTIONS)) == ROWS


def test_an_end_that_is_not_compared_gives_wrong_replies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The planted bug: a bit of where the norms lie shifts them, and nobody notices."""
    monkeypatch.setattr(disk, "SMALL_BYTES", 0)
    monkeypatch.setattr(disk, "BLOCK_BYTES", 8 * PIECE)
    monkeypatch.setattr(arrow_files, "PIECE_BYTES", PIECE)  # so that no row needs the first block
    folder = tmp_path / "index"
    made().save(folder)
    right = ask(hr.Index.open(folder, **OPTIONS))
    file = entries(folder)["vectors-0"]
    content = (folder / file["name"]).read_bytes()
    first = file["ends"][0][0]
    norms = place_of(folder, "vectors-0", 1, 0)
    assert first < 8 * PIECE < norms
    told = (norms - first).to_bytes(8, "little")
    assert told[0] & 32, "so that the bit takes 32 from it"
    damage(folder, "vectors-0", content.rindex(told, 0, first), 32)
    with pytest.raises(hr.CorruptIndexError, match="expected checksum"):
        hr.Index.open(folder, **OPTIONS)
    monkeypatch.setattr(disk, "_check_ends", lambda *_: None)
    assert ask(hr.Index.open(folder, **OPTIONS)) != right


# ---- rows ----


def vectors(index: hr.Index, scope: object = None) -> Callable[[], object]:
    query = np.ones((1, DIM), np.float32)
    scope = everyone(index) if scope is None else scope
    return lambda: index.recall(vectors=query, scope=scope, limit=3)


def counted(index: hr.Index) -> Callable[[], object]:
    return lambda: index.count(scope=everyone(index))


def filtered(index: hr.Index) -> Callable[[], object]:
    recent = hr.Filter(created=(np.datetime64(5, "us"), None))
    return lambda: index.count(scope=everyone(index), filter=recent)


def texts(index: hr.Index) -> Callable[[], object]:
    return lambda: index.recall(text={"all": ["tea"]}, scope=everyone(index))


def shard(index: hr.Index) -> Callable[[], object]:
    from hyrecall.distributed import Request

    request = Request(text={"body": ["oak tea"]}, scope=everyone(index))
    return lambda: index.statistics(request)


def got(index: hr.Index) -> Callable[[], object]:
    return lambda: index.get([7], scope=everyone(index))


def deleted(index: hr.Index) -> Callable[[], object]:
    return lambda: index.delete([7], scope=everyone(index))


def upserted(index: hr.Index) -> Callable[[], object]:
    return lambda: index.upsert(rows(ROWS, 1))


def compacted(index: hr.Index) -> Callable[[], object]:
    def compact() -> None:
        index.add(rows(ROWS, 1))
        index.compact()

    return compact


def saved(index: hr.Index) -> Callable[[], object]:
    return lambda: index.save("other")


COLUMNS: dict[str, tuple[str, str | int]] = {
    "seq": ("rows", 0),
    "an attribute": ("rows", "created"),
    "norms": ("vectors-0", 1),
    "lengths of texts": ("documents-1", 0),
    "keys": ("rows", "id"),
}


def damage_column(folder: Path, name: str) -> tuple[str, int]:
    """Turn a bit of a value in the middle of a column; return the path and the place."""
    role, column = COLUMNS[name]
    number = column if isinstance(column, int) else 1 + made().schema.row_columns.index(column)
    place = place_of(folder, role, number, ROWS // 2) + 2  # no other row has such a key
    return damage(folder, role, place), place


READERS = (vectors, counted, filtered, texts, shard, got, deleted, saved)
KEY_READERS = (got, deleted, upserted, compacted, saved)

CASES = [(name, call) for name in COLUMNS if name != "keys" for call in READERS]
CASES += [("keys", call) for call in KEY_READERS]


@pytest.mark.parametrize(("name", "call"), CASES, ids=lambda one: getattr(one, "__name__", one))
def test_damage_of_rows_is_found_by_the_first_call_that_reads_some(
    folder: Path,
    name: str,
    call: Callable[[hr.Index], Callable[[], object]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(folder.parent)
    path, place = damage_column(folder, name)
    index = hr.Index.open(folder, **OPTIONS)
    for _ in range(2):
        with pytest.raises(hr.CorruptIndexError) as caught:
            call(index)()
        assert str(caught.value).startswith(f"{path}: expected checksum")
        assert f"of the block at byte {place // BLOCK * BLOCK}, got" in str(caught.value)
    with pytest.raises(hr.CorruptIndexError):
        hr.Index.open(folder, verify="full", device="cpu")


@pytest.mark.parametrize("name", COLUMNS)
def test_the_check_above_notices_rows_that_are_not_compared(
    folder: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The planted bug: the engine gets no checks of rows and keys, and reads damaged ones."""
    damage_column(folder, name)
    monkeypatch.setattr(OpenedFile, "late", lambda *_: [])
    index = hr.Index.open(folder, **OPTIONS)
    call = upserted if name == "keys" else counted
    call(index)()  # which the test above wants refused


def test_a_scope_without_rows_of_a_segment_does_not_meet_its_damage(folder: Path) -> None:
    damage(folder, "rows", place_of(folder, "rows", 0, ROWS // 2))
    index = hr.Index.open(folder, **OPTIONS)
    assert index.stats()["n_segments"] == 1
    assert len(index) == ROWS
    assert index.count(scope=("nobody",)) == 0
    with pytest.raises(hr.CorruptIndexError):
        index.count(scope=CAROL)
    with pytest.raises(hr.CorruptIndexError):
        vectors(index, CAROL)()


def test_what_reads_threads_of_all_segments_compares_them(folder: Path) -> None:
    """A segment without a cell of the scope is left out, but by a stage that counts all threads."""
    folder = folder.with_name("threads")
    options = schema(attributes=("session",), cluster=None, thread="session")

    def of(tenant: str, first: int, n_rows: int) -> pa.Table:
        given = rows(first, n_rows).drop_columns(["tenant"])
        given = given.append_column("tenant", pa.array([tenant] * n_rows))
        return given.append_column("session", pa.array(np.arange(n_rows) // 4))

    index = hr.Index.build(of("alice", 0, ROWS), options, device="cpu")
    index.add(of("bob", 5000, 4200))
    assert index.stats()["n_segments"] == 2
    index.save(folder)
    number = 1 + options.row_columns.index("session")
    path = damage(folder, "rows", place_of(folder, "rows", number, 2000))
    late = hr.Index.open(folder, **OPTIONS)
    asked: dict[str, Any] = {
        "text": {"body": ["tea"]}, "vectors": np.ones((1, DIM), np.float32), "scope": ("alice",),
    }  # fmt: skip
    assert late.recall(**asked).to_arrow().equals(index.recall(**asked).to_arrow())
    for call in (
        lambda: late.recall(**asked, shaping=hr.Around(thread=0.5)),
        lambda: late.count(scope=("bob",)),
    ):
        with pytest.raises(hr.CorruptIndexError, match="expected checksum") as caught:
            call()
        assert str(caught.value).startswith(path)
    again = late.recall(**asked).to_arrow()
    assert again.equals(index.recall(**asked).to_arrow())


def test_numbers_of_rows_beyond_the_next_one_are_refused_by_the_first_call(folder: Path) -> None:
    """A forged MANIFEST: rows have insertion numbers that it says were never given."""
    data = forge.read_manifest(folder)
    data["next_seq"] = ROWS - 1
    forge.seal(folder, json.dumps(data).encode() + b"\n")
    index = hr.Index.open(folder, **OPTIONS)
    told = rf"insertion numbers in \[0, {ROWS - 1}\), got 0 to {ROWS - 1}"
    for _ in range(2):
        with pytest.raises(hr.CorruptIndexError, match=told) as caught:
            counted(index)()
        assert str(caught.value).startswith(str(folder / entries(folder)["rows"]["name"]))
    with pytest.raises(hr.CorruptIndexError, match="insertion numbers"):
        hr.Index.open(folder, verify="full", device="cpu")


def text_keys(folder: Path) -> None:
    """Save an index with strings as keys."""
    given = rows(0, ROWS)
    keys = pa.array([f"k{key}" for key in range(ROWS)])
    given = given.set_column(given.schema.names.index("id"), "id", keys)
    hr.Index.build(given, schema(), device="cpu").save(folder)


@pytest.mark.parametrize("value", [-8, 2**40, 0])
def test_forged_offsets_of_keys_are_refused_before_they_are_followed(
    folder: Path, value: int
) -> None:
    folder = folder.with_name("texts")
    text_keys(folder)
    number = 1 + schema().row_columns.index("id")
    at = place_of(folder, "rows", number, 0) + 8 * (ROWS // 2)
    data = forge.read_manifest(folder)
    file = data["segments"][0]["files"]["rows"]
    content = bytearray((folder / file["name"]).read_bytes())
    content[at : at + 8] = value.to_bytes(8, "little", signed=True)
    forge.reseal(folder, data, file, bytes(content))
    index = hr.Index.open(folder, **OPTIONS)
    with pytest.raises(hr.CorruptIndexError, match="expected rising offsets of keys") as caught:
        index.delete(["k7"], scope=everyone(index))
    assert str(caught.value).startswith(str(folder / file["name"]))


# ---- files with and without ends ----


def test_replies_are_those_of_a_whole_check(folder: Path) -> None:
    assert ask(hr.Index.open(folder, **OPTIONS)) == ask(made())
    text_keys(folder.with_name("texts"))
    late = hr.Index.open(folder.with_name("texts"), **OPTIONS)
    assert ask(late) == ask(hr.Index.open(folder.with_name("texts"), verify="full", device="cpu"))


def test_a_file_with_long_ends_has_none(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then blocks are compared instead."""
    monkeypatch.setattr(file_ends, "MOST_BYTES", 1000)
    made().save(folder.with_name("long"))
    found = {role: "ends" in file for role, file in entries(folder.with_name("long")).items()}
    assert not found["rows"], "eleven columns"
    assert found["documents-0"]
    assert ask(hr.Index.open(folder.with_name("long"), **OPTIONS)) == ask(made())


def test_small_files_have_no_ends(tmp_path: Path) -> None:
    hr.Index.build(rows(0, 4 * ROWS), schema(), device="cpu").save(tmp_path / "index")
    for file in entries(tmp_path / "index").values():
        assert ("ends" in file) == (file["size"] > 2**16)
    assert any("ends" in file for file in entries(tmp_path / "index").values())


@pytest.mark.parametrize(
    ("ends", "told"),
    [
        ([[8, "0" * 16]], "1 ends of"),
        ([[8, "0" * 16], [0, "0" * 16]], "size of an end of"),
        ([[8, "0" * 16], [8, "x"]], "checksum of an end of"),
        ([[8, "0" * 16], [2**50, "0" * 16]], "expected checksum 0000000000000000"),
        ([[2**50, "0" * 16], [8, "0" * 16]], f"an end of {2**50} bytes"),
    ],
)
def test_ends_that_no_save_writes_are_refused(folder: Path, ends: object, told: str) -> None:
    data = forge.read_manifest(folder)
    data["segments"][0]["files"]["rows"]["ends"] = ends
    forge.seal(folder, json.dumps(data).encode() + b"\n")
    with pytest.raises(hr.CorruptIndexError, match=told):
        hr.Index.open(folder, **OPTIONS)


def test_ends_are_what_arrow_reads_beside_the_columns(folder: Path) -> None:
    """They reach as far as the columns do, and hardly further."""
    for role, file in entries(folder).items():
        content = pa.py_buffer((folder / file["name"]).read_bytes())
        columns = pa.ipc.open_file(content).get_batch(0).columns
        parts = [part for column in columns for part in column.buffers() if part and part.size]
        begin = min(part.address for part in parts) - content.address
        end = max(part.address + part.size for part in parts) - content.address
        (first, _), (last, _) = file["ends"]
        assert first == begin, role
        assert 0 <= last - (content.size - end) <= 64, role
