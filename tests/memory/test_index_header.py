"""The HEADER says of what a snapshot is, and nothing damaged passes for one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from seams import HEADER, PARTS, Header, StaleError, read_header, write_header
from seams import index_header as headers

MADE = Header("store", 7, 1, "layout", "model", 4)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for part in PARTS:
        (tmp_path / part).mkdir()
        (tmp_path / part / "MANIFEST").write_bytes(part.encode())
    write_header(tmp_path, MADE)
    return tmp_path


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"store_id": "other"}, "of another store"),
        ({"layout": "other"}, "of another layout or model"),
        ({"model": None}, "of another layout or model"),
        ({"dim": 5}, "of another layout or model"),
        ({"sequence": 6}, "of a later state (7) than the store's (6)"),
        ({"erasures": 2}, "from before an erasure"),
        ({"erasures": 0}, "from before an erasure"),
        ({}, None),
        ({"sequence": 8}, None),
    ],
)
def test_it_is_compared_with_the_store(change: dict[str, object], reason: str | None) -> None:
    assert MADE.reason_against(replace(MADE, **change)) == reason  # type: ignore[arg-type]


def test_every_bit_counts(folder: Path) -> None:
    whole = (folder / HEADER).read_bytes()
    for at in range(len(whole) * 8):
        flipped = bytearray(whole)
        flipped[at // 8] ^= 1 << at % 8
        (folder / HEADER).write_bytes(flipped)
        with pytest.raises(StaleError, match="HEADER is damaged"):
            read_header(folder)


def test_none_at_all_and_one_that_is_newer_are_told_apart(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(headers, "FORMAT", 2)
        write_header(folder, MADE)
    with pytest.raises(StaleError, match="HEADER is of format 2"):
        read_header(folder)
    (folder / HEADER).unlink()
    with pytest.raises(StaleError, match="none there"):
        read_header(folder)
    (folder / HEADER).mkdir()
    with pytest.raises(StaleError, match="cannot be read"):
        read_header(folder)
