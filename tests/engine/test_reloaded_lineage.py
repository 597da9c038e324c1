"""After a reload an index may only replace the version that it was read from."""

from pathlib import Path

import pytest

import hyrecall as hr
from engine.test_saved_versions import keys, note_index, notes


def test_after_a_reload_the_version_opened_first_is_not_replaced(tmp_path: Path) -> None:
    first, copy = tmp_path / "first", tmp_path / "copy"
    note_index(first)
    index = hr.Index.open(first)
    index.save(copy)
    other = hr.Index.build(notes(7), hr.Schema(key="id", cell=None, text="text"), device="cpu")
    other.save(copy, overwrite=True)
    assert index.reload()
    assert keys(index) == {7}
    with pytest.raises(hr.SaveConflictError, match="got version 1 of another index in"):
        index.save(first)
    assert keys(hr.Index.open(first)) == {0}
    index.add(notes(8))
    index.save(copy)
    assert keys(hr.Index.open(copy)) == {7, 8}
