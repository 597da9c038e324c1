"""Saved indexes with heads of 8 bits, of 4 bits, or an int8 plane alone still open and reply alike.

The folders and the replies were written once (engine/golden_planes.py) and are committed.
"""

import json
import shutil
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import hyrecall as hr
from engine import forge
from engine.golden_planes import DIM, FOLDERS, N_ROWS, REPLIES, USERS, ask, golden_index
from engine.head_definition import Plane
from engine.planted_planes import ChangePlane, lost_rows, shifted_rows
from engine.test_files_golden import layout
from hyrecall import _core
from laws.planes import PLANES, VARIABLE, held_plane

HEADS = ("head8", "head4")


def committed() -> list[list[object]]:
    """The replies of a scan without planes."""
    return list(json.loads(REPLIES.read_text()))


def dense_column(index: hr.Index) -> _core.DenseColumn:
    (segment,) = index._state.segments
    return segment.dense["v"]


@pytest.mark.slow
@pytest.mark.parametrize("memory", ["mmap", "ram"])
@pytest.mark.parametrize("held", FOLDERS)
@pytest.mark.parametrize("front", [None, *PLANES])
def test_planes_written_before_open_and_reply_as_committed(
    front: str | None, held: str, memory: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever a scan reads first; a front that a folder lacks is not made when it opens."""
    monkeypatch.delenv(VARIABLE, raising=False)
    if front is not None:
        monkeypatch.setenv(VARIABLE, front)
    folder = Path(shutil.copytree(FOLDERS[held], tmp_path / "index"))
    index = hr.Index.open(folder, memory=memory, verify="full", device="cpu")
    assert held_plane(dense_column(index)) == held
    assert ask(index) == committed()
    index.delete(["k7"], scope="ben")
    index.compact()
    assert held_plane(dense_column(index)) == merged(held, front)
    assert ask(index) == plain_replies(without="k7", of="ben")


def merged(held: str, front: str | None) -> str:
    """The plane after a merge of so few rows: none unless one is forced, else the one there was."""
    if front in (None, "rows"):
        return "rows"
    return held if held in HEADS or front == "int8" else str(front)


def plain_replies(*, without: str, of: str) -> list[list[object]]:
    """The replies of a new build, less a document, that scans without planes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(VARIABLE, "rows")
        fresh = golden_index()
        fresh.delete([without], scope=of)
        return ask(fresh)


@pytest.mark.parametrize("held", FOLDERS)
def test_the_layout_of_planes_changes_only_with_its_number(
    held: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, held)
    golden_index().save(tmp_path)
    assert layout(tmp_path) == layout(FOLDERS[held])


# ---- planted: planes that were changed, with checksums that fit ----


def changed(held: str, folder: Path, change: ChangePlane, *, is_sealed: bool = True) -> Path:
    """A copy of a golden folder whose smallest plane is another."""
    shutil.copytree(FOLDERS[held], folder)
    column = dense_column(hr.Index.open(folder, memory="ram"))
    before = column.int8_plane if column.head is None else column.head[1]
    assert before is not None
    after = change((before[0].copy(), before[1].copy(), before[2].copy()))
    data = forge.read_manifest(folder)
    file = data["segments"][0]["files"]["plane-0" if column.head is None else "heads-0"]
    content = (folder / file["name"]).read_bytes()
    for old, new in zip(before, after, strict=True):
        assert content.count(old.tobytes()) == 1
        content = content.replace(old.tobytes(), new.tobytes())
    if is_sealed:
        forge.reseal(folder, data, file, content)
    else:
        (folder / file["name"]).write_bytes(content)
    return folder


def replies(folder: Path, front: str, monkeypatch: pytest.MonkeyPatch) -> list[list[object]]:
    monkeypatch.setenv(VARIABLE, front)
    return ask(hr.Index.open(folder, verify="full", device="cpu"))


def turned(plane: Plane, row: int, element: int, held: str) -> Plane:
    """The plane with a code of a row at the other end of what codes can say."""
    codes, scales, residuals = plane
    blocks = codes.reshape(len(scales) // 16, -1, 16, 4)
    at = row // 16, element // (8 if held == "head4" else 4), row % 16, element % 4
    byte = int(blocks[at])
    if held != "head4":
        blocks[at] = 1 if byte >= 128 else 255
    elif element % 8 < 4:
        blocks[at] = byte & 0xF0 | (0 if byte & 0xF >= 8 else 0xF)
    else:
        blocks[at] = byte & 0xF | (0 if byte >> 4 >= 8 else 0xF0)
    return codes, scales, residuals


@pytest.mark.slow
@pytest.mark.parametrize("held", FOLDERS)
def test_one_code_that_lowers_the_reach_of_a_hit_is_seen(
    held: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No check of an open can tell such a code: replies do, and only where the plane is read.

    Codes and residual bound how far a row may reach. A code that is turned round lowers the reach
    of a row, without its residual saying so: then the row falls below the threshold that it
    passes. Scores come from the vectors, so nothing else of a reply can change.
    """
    whole = committed()
    key = str([hit for hit in whole if hit[0] == 0][-1][2])  # the last hit of the first query
    number = int(key[1:])
    row = number % len(USERS) * (N_ROWS // len(USERS)) + number // len(USERS)  # by cell, then seq
    seen = 0
    for element in range(DIM // 2):  # of the directions, or of the vector
        folder = changed(
            held, tmp_path / str(element), partial(turned, row=row, element=element, held=held)
        )
        found = replies(folder, held, monkeypatch)
        lost = {str(hit[2]) for hit in whole if hit not in found}
        assert lost <= {key}
        seen += key in lost
        others = ("int8", "rows") if held in HEADS else ("rows",)
        for other in others:
            assert replies(folder, other, monkeypatch) == whole
    assert seen > 0


@pytest.mark.parametrize("held", FOLDERS)
@pytest.mark.parametrize("bug", [shifted_rows, lost_rows], ids=lambda bug: bug.__name__)
def test_codes_or_bounds_of_other_rows_are_seen(
    bug: ChangePlane, held: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = changed(held, tmp_path / "index", bug)
    assert replies(folder, held, monkeypatch) != committed()


def looser(plane: Plane) -> Plane:
    """Residuals that say more than codes leave: more rows pass, and are scored."""
    codes, scales, residuals = plane
    return codes, scales, residuals + np.float32(0.1)


def beyond_the_rows(plane: Plane) -> Plane:
    """Other codes in the empty blocks at the end, which stand there for reads ahead."""
    codes, scales, residuals = plane
    blocks = codes.reshape(len(scales) // 16, -1)
    blocks[-(-N_ROWS // 16) :] = 255
    return codes, scales, residuals


@pytest.mark.parametrize("held", FOLDERS)
@pytest.mark.parametrize("change", [looser, beyond_the_rows], ids=lambda change: change.__name__)
def test_a_change_that_loosens_bounds_or_touches_no_row_changes_no_reply(
    change: ChangePlane, held: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = changed(held, tmp_path / "index", change)
    assert replies(folder, held, monkeypatch) == committed()


@pytest.mark.parametrize("held", FOLDERS)
def test_a_changed_plane_whose_checksum_tells_is_refused(held: str, tmp_path: Path) -> None:
    folder = changed(held, tmp_path / "index", looser, is_sealed=False)
    with pytest.raises(hr.CorruptIndexError):
        hr.Index.open(folder, verify="full")
