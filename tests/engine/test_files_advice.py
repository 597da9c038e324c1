"""What the system is told of mapped pages: a few rows are read, or all in order."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hyrecall as hr
from engine.saved_index import DIM, ask, build, everyone, grown, table
from seams import Segment, disk

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
