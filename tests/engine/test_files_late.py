"""What ``verify="structure"`` leaves unchecked is checked by the first call that reads it."""

import contextlib
import json
import random
import re
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
import xxhash

import hyrecall as hr
from engine.saved_index import DIM, ask, build, everyone, question, schema, table
from hyrecall import _core
from hyrecall.distributed import Request, Statistics
from seams import arrow_files, disk, parts
from seams import segments_opening_module as opening

BLOCK = 512
ALICE = ("alice",)


def shorten(patch: pytest.MonkeyPatch, how: str) -> None:
    """Make files many blocks long; an open compares some blocks, or ends."""
    patch.setattr(disk, "BLOCK_BYTES", BLOCK)
    if how == "ends":
        patch.setattr(disk, "SMALL_BYTES", 0)


@pytest.fixture(scope="module", params=["blocks", "ends"])
def whole(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A saved index, in a folder of that name."""
    folder = tmp_path_factory.mktemp("late") / request.param
    with pytest.MonkeyPatch.context() as patch:
        shorten(patch, request.param)
        build(600).save(folder)
    return folder


@pytest.fixture
def folder(whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it."""
    shorten(monkeypatch, whole.name)
    return Path(shutil.copytree(whole, tmp_path / "index"))


def opened(folder: Path) -> hr.Index:
    """The index, of which only the structure is checked."""
    return hr.Index.open(folder, verify="structure", device="cpu")


def damage(folder: Path, role: str, block: int) -> str:
    """Turn a bit of a block of a role's file; return the file's path."""
    file = next(iter(sorted(folder.glob(f"*-{role}.arrow"))))
    content = bytearray(file.read_bytes())
    assert 1 <= block < len(content) // BLOCK - 2, "a block that opening leaves"
    content[block * BLOCK + BLOCK // 2] ^= 4
    file.unlink()
    file.write_bytes(content)
    return str(file)


def refused(call: Callable[[], object], path: str, block: int) -> None:
    """The call raises the damage, each time."""
    for _ in range(2):
        with pytest.raises(hr.CorruptIndexError) as caught:
            call()
        assert str(caught.value).startswith(f"{path}: expected checksum")
        assert f"of the block at byte {block * BLOCK}, got" in str(caught.value)


def texts(index: hr.Index) -> Callable[[], object]:
    return lambda: index.recall(text={"body": ["oak tea"]}, scope=everyone(index))


def vectors(index: hr.Index) -> Callable[[], object]:
    query = np.ones((1, DIM), np.float32)
    return lambda: index.recall(vectors=query, scope=everyone(index), limit=600, depth=600)


def counted(index: hr.Index) -> Callable[[], object]:
    return lambda: index.statistics(Request(text={"body": ["oak tea"]}, scope=everyone(index)))


def found(index: hr.Index) -> Callable[[], object]:
    query = np.ones((1, DIM), np.float32)
    request = Request(vectors=query, scope=everyone(index), limit=600, depth=600)
    return lambda: index.candidates(request, Statistics.sum([index.statistics(request)]))


CALLS: dict[str, tuple[str, Callable[[hr.Index], Callable[[], object]]]] = {
    "texts read documents": ("documents-0", texts),
    "texts read terms": ("terms-0", texts),
    "vectors read rows": ("vectors-0", vectors),
    "statistics of a shard read terms": ("terms-0", counted),
    "candidates of a shard read rows": ("vectors-0", found),
    "candidates of a shard read whether rows have a text": ("documents-1", found),
    "a save reads vectors": ("vectors-0", lambda index: lambda: index.save("other")),
    "a save reads documents": ("documents-1", lambda index: lambda: index.save("other")),
    "a delete reads documents": (
        "documents-1",
        lambda index: lambda: index.delete([3], scope=everyone(index)),
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_damage_is_met_by_the_first_call_that_reads_it(
    folder: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder.parent)
    role, make = CALLS[name]
    block = 8  # behind the lengths of documents, which opening reads
    path = damage(folder, role, block)
    index = opened(folder)
    refused(make(index), path, block)
    with pytest.raises(hr.CorruptIndexError):
        hr.Index.open(folder, verify="full", device="cpu")


def test_an_arm_that_is_not_asked_does_not_meet_its_damage(folder: Path) -> None:
    right = opened(folder)
    expected = {name: question(right, name) for name in ("text", "vector")}
    damage(folder, "vectors-0", 3)
    assert question(opened(folder), "text").equals(expected["text"])
    shutil.rmtree(folder)
    build(600).save(folder)
    damage(folder, "terms-0", 3)
    assert question(opened(folder), "vector").equals(expected["vector"])


def test_a_stored_column_is_checked_when_it_is_first_read(folder: Path) -> None:
    file = next(folder.glob("*-rows.arrow"))
    content = file.read_bytes()
    place = content.index(b"OAK")  # the stored titles are in capital letters
    path, block = str(file), place // BLOCK
    damage(folder, "rows", block)
    index = opened(folder)
    hits = index.recall(text=["tea"], scope=everyone(index))
    assert hits[0].keys
    key = hits[0].keys[0]
    refused(lambda: index.get([key], scope=everyone(index), columns=["title"]), path, block)
    assert index.get([key], scope=everyone(index), columns=["body"]).num_rows == 1


def test_texts_of_a_tenant_do_not_read_the_segments_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Damage of a segment without a cell of the scope is not met; with one, it is."""
    monkeypatch.setattr(disk, "BLOCK_BYTES", BLOCK)
    monkeypatch.setattr(parts, "_LEAST_PART", 1)
    monkeypatch.setattr(parts, "_PEAK_PER_INPUT_BYTE", 1e12)
    rows = table(0, 900)
    each = [rows.filter(pc.equal(rows["tenant"], tenant)) for tenant in ("alice", "bob")]
    made = hr.Index.build_in_parts(
        each, schema(), tmp_path / "index", memory_limit=parts.LEAST_MEMORY
    )
    manifest = (tmp_path / "index" / "MANIFEST").read_text().splitlines()[0]
    names = [segment["name"] for segment in json.loads(manifest)["segments"]]
    assert len(names) == 2
    expected = made.recall(text={"body": ["oak tea"]}, scope=ALICE).to_arrow()
    file = tmp_path / "index" / f"{names[1]}-terms-0.arrow"
    content = bytearray(file.read_bytes())
    content[3 * BLOCK + 7] ^= 4
    file.unlink()
    file.write_bytes(content)
    held = opened(tmp_path / "index")
    ask_alice = partial(held.recall, text={"body": ["oak tea"]}, scope=ALICE)
    assert ask_alice().to_arrow().equals(expected)
    refused(texts(held), str(file), 3)
    assert ask_alice().to_arrow().equals(expected)


def test_stored_rows_are_checked_block_by_block(folder: Path) -> None:
    """Only the rows that lie in a damaged block, or need its offsets, are refused."""
    right = opened(folder)
    keys = list(range(600))
    scope = everyone(right)
    titles = right.get(keys, scope=scope, columns=["title"])["title"].to_pylist()
    file = next(folder.glob("*-rows.arrow"))
    content = file.read_bytes()
    places = [found.start() for found in re.finditer(b"OAK", content)]
    block = places[len(places) // 2] // BLOCK
    path = damage(folder, "rows", block)
    index = opened(folder)
    good = 0
    for key, title in zip(keys, titles, strict=True):
        with contextlib.suppress(hr.CorruptIndexError):
            assert index.get([key], scope=scope, columns=["title"])["title"].to_pylist() == [title]
            good += 1
    assert 0 < good < 600
    refused(lambda: index.get(keys, scope=scope, columns=["title"]), path, block)


# ---- pieces of vectors, smaller than blocks ----

PIECE = 1024


@pytest.fixture
def pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A saved index whose vectors have checksums of pieces."""
    monkeypatch.setattr(disk, "BLOCK_BYTES", 8 * PIECE)
    monkeypatch.setattr(arrow_files, "PIECE_BYTES", PIECE)
    build(2000).save(tmp_path / "index")
    return tmp_path / "index"


def test_a_row_is_compared_with_the_checksum_of_its_piece(pieces: Path) -> None:
    """Damage is found where it lies, and not by queries that read other pieces of its block."""
    file = next(pieces.glob("*-vectors-0.arrow"))
    content = bytearray(file.read_bytes())
    right = opened(pieces)
    query = np.ones((1, DIM), np.float32)
    carol = ("carol",)
    expected = right.recall(vectors=query, scope=ALICE, limit=50).to_arrow()
    batch = pa.ipc.open_file(pa.py_buffer(bytes(content))).get_batch(0)
    values = batch.column(0).storage.values.buffers()[1]
    begin = bytes(content).index(values.to_pybytes())
    piece = values.size // PIECE * 3 // 4  # of the last cell: shorter names come first
    content[begin + piece * PIECE + 5] ^= 4
    file.unlink()
    file.write_bytes(content)
    index = opened(pieces)
    assert index.recall(vectors=query, scope=ALICE, limit=50).to_arrow().equals(expected)
    for _ in range(2):
        with pytest.raises(hr.CorruptIndexError) as caught:
            index.recall(vectors=query, scope=carol, limit=2000, depth=2000)
        told = f"{file}: expected checksum"
        assert str(caught.value).startswith(told)
        assert f"of the block at byte {begin + piece * PIECE}, got" in str(caught.value)
    with pytest.raises(hr.CorruptIndexError):
        hr.Index.open(pieces, verify="full", device="cpu")


def test_replies_over_pieces_are_those_of_a_whole_check(pieces: Path) -> None:
    assert ask(opened(pieces)) == ask(hr.Index.open(pieces, verify="full", device="cpu"))
    opened(pieces).save(pieces.with_name("copy"))
    assert ask(opened(pieces.with_name("copy"))) == ask(opened(pieces))


@pytest.mark.parametrize(
    "told", [b"1024", b"1024 AAAA", b"0 ", b"x AAAAAAAAAAA=", b"1024 ???", b"1 2 3"]
)
def test_checksums_that_no_save_writes_are_refused(pieces: Path, told: bytes) -> None:
    index = opened(pieces)
    given = next(pieces.glob("*-vectors-0.arrow"))
    batch = pa.ipc.open_file(given).get_batch(0)
    with pytest.raises(ValueError, match="no save writes"):
        arrow_files.piece_sums(batch.replace_schema_metadata({b"pieces": told}))
    found = arrow_files.piece_sums(batch)
    assert found is not None
    assert found[0] == PIECE
    assert len(index) == 2000


@pytest.mark.slow
def test_segments_are_opened_on_several_threads_as_on_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = build(300)
    for first in range(1000, 1000 + 5 * 4200, 4200):
        index.add(table(first, 4200))
    index.delete([1000, 5], scope=everyone(index))
    index.save(tmp_path / "index")
    assert index.stats()["n_segments"] > 2
    plain = hr.Index.open(tmp_path / "index", device="cpu", threads=1)
    monkeypatch.setattr(opening, "ALONE_BELOW", 0)
    for verify in ("structure", "full"):
        made = hr.Index.open(tmp_path / "index", device="cpu", threads=3, verify=verify)
        assert ask(made) == ask(plain) == ask(index)
    file = sorted((tmp_path / "index").glob("*-documents-0.arrow"))[1]
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 4
    file.unlink()
    file.write_bytes(content)
    with pytest.raises(hr.CorruptIndexError, match=file.name):
        hr.Index.open(tmp_path / "index", device="cpu", threads=3, verify="full")


def test_replies_are_those_of_a_whole_check(folder: Path) -> None:
    assert ask(opened(folder)) == ask(hr.Index.open(folder, verify="full", device="cpu"))


def test_a_key_that_comes_twice_is_found_by_the_first_look() -> None:
    """A segment that no build makes: two rows of one cell with one key."""
    cells = [pa.array(["a", "a"], pa.large_string())]
    seqs, keys = np.arange(2, dtype=np.int64), pa.array([1, 1], pa.int64())
    core = _core.Segment(seqs, _core.CellDirectory(cells, 2), keys, [], [], [])
    snapshot = _core.Snapshot([_core.SegmentView(core)])
    with pytest.raises(hr.CorruptIndexError, match="keys unique within a cell"):
        snapshot.locate_rows(cells, keys)
    assert core.duplicate == (0, 1)


def test_checksums_of_blocks_are_those_of_the_manifest() -> None:
    draw = random.Random(4)
    for block_bytes in (241, 512, 1024, 1025, 5000, 65_536):
        content = draw.randbytes(block_bytes * 5)
        sums = [
            xxhash.xxh3_64_intdigest(content[at : at + block_bytes])
            for at in range(0, len(content), block_bytes)
        ]
        buffer = pa.py_buffer(content)
        checks = _core.files.BlockChecks("file", buffer, sums, block_bytes, [0, 4])
        assert checks.n_left == 3
        checks.ensure(buffer.address + 2 * block_bytes - 1, 2)
        assert checks.n_left == 1
        checks.ensure_all()
        assert checks.n_left == 0
        sums[3] ^= 1
        wrong = _core.files.BlockChecks("file", buffer, sums, block_bytes, [])
        wrong.ensure(buffer.address, 3 * block_bytes)
        with pytest.raises(hr.CorruptIndexError, match=f"byte {3 * block_bytes}"):
            wrong.ensure(buffer.address + 3 * block_bytes, 1)


def test_an_index_in_memory_has_nothing_to_pin(folder: Path) -> None:
    with pytest.raises(hr.OptionError, match='pin: expected nothing with memory="ram"'):
        hr.Index.open(folder, memory="ram", pin="plane")


def test_pinned_parts_are_locked_and_others_are_not(folder: Path) -> None:
    index = hr.Index.open(folder, pin=("plane", "terms"), device="cpu")
    locked: dict[str, bool] = {}
    name = ""
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if line.endswith(".arrow"):
            name = line.rsplit("/", 1)[1].split("-", 1)[1] if str(folder) in line else ""
        elif line.startswith("VmFlags:") and name:
            locked[name] = " lo" in line
            name = ""
    assert locked["terms-0.arrow"]
    assert locked["terms-1.arrow"]
    assert not locked["vectors-0.arrow"]
    assert not locked["rows.arrow"]
    assert ask(index) == ask(opened(folder))


def test_a_limit_on_locked_memory_is_told(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_core.files.MappedFile, "lock", lambda _: 12)
    with pytest.raises(hr.OptionError, match=r"room to lock the .* bytes of .*Cannot allocate"):
        hr.Index.open(folder, pin="terms", device="cpu")
