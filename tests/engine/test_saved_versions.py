"""A save never loses what another writer saved, and readers follow a writer's saves."""

import multiprocessing
import shutil
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hyrecall as hr
from engine.saved_index import ask, build, everyone, table
from seams import disk, saving


def keys(index: hr.Index) -> set[int]:
    """The keys of all documents of an index made by `notes`."""
    return set(index.recall_one(text="tea", limit=1000, depth=1000).keys)


def notes(first: int, n_rows: int = 1) -> pa.Table:
    """Rows that all hold the word tea."""
    return pa.table({"id": range(first, first + n_rows), "text": ["tea"] * n_rows})


def note_index(path: Path) -> hr.Index:
    """A saved index of one note."""
    index = hr.Index.build(notes(0), hr.Schema(key="id", cell=None, text="text"), device="cpu")
    index.save(path)
    return index


# Two writers


def test_the_later_of_two_saves_is_refused_and_nothing_is_lost(tmp_path: Path) -> None:
    note_index(tmp_path)
    first, second = hr.Index.open(tmp_path), hr.Index.open(tmp_path)
    first.add(notes(1))
    second.add(notes(2))
    first.save(tmp_path)
    with pytest.raises(
        hr.SaveConflictError,
        match=r"path: expected the version of .* that this index was opened from or last saved "
        r"to, got version 2 of another writer; load it: index.reload\(\)",
    ) as caught:
        second.save(tmp_path)
    assert caught.value.argument == "path"
    assert keys(hr.Index.open(tmp_path)) == {0, 1}
    assert keys(second) == {0, 2}, "the refused index stays as it was"
    second.reload(discard_changes=True)
    second.add(notes(2))
    second.save(tmp_path)
    assert keys(hr.Index.open(tmp_path)) == {0, 1, 2}


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


def test_a_new_or_empty_folder_needs_no_overwrite(tmp_path: Path) -> None:
    index = note_index(tmp_path / "new" / "index")
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "README").write_text("mine")
    index.save(tmp_path / "empty")
    index.save(tmp_path / "new" / "index")  # both are known now
    shutil.rmtree(tmp_path / "empty")
    index.save(tmp_path / "empty")


def test_a_folder_that_moved_or_was_restored_is_still_known(tmp_path: Path) -> None:
    index = note_index(tmp_path / "a")
    shutil.copytree(tmp_path / "a", tmp_path / "copy")
    (tmp_path / "a").rename(tmp_path / "b")
    index.add(notes(1))
    index.save(tmp_path / "b")
    assert keys(hr.Index.open(tmp_path / "b")) == {0, 1}
    opened = hr.Index.open(tmp_path / "b")
    opened.add(notes(2))
    with pytest.raises(hr.SaveConflictError):
        opened.save(tmp_path / "copy")  # an older version, which this index did not see


def test_a_damaged_manifest_is_not_overwritten(tmp_path: Path) -> None:
    index = note_index(tmp_path)
    (tmp_path / "MANIFEST").write_bytes(b"{}\n")
    for overwrite in (False, True):
        with pytest.raises(hr.CorruptIndexError, match="MANIFEST"):
            index.save(tmp_path, overwrite=overwrite)
    assert (tmp_path / "MANIFEST").read_bytes() == b"{}\n"


def _add_until_kept(folder: str, first: int, n_rows: int) -> None:
    """Add rows one by one; after a conflict take up what is there and try again."""
    index = hr.Index.open(folder)
    for number in range(first, first + n_rows):
        while True:
            index.reload(discard_changes=True)
            index.add(notes(number))
            try:
                index.save(folder)
            except (hr.SaveConflictError, hr.WriterBusyError):
                continue
            break


def rows_after_a_race(folder: Path) -> set[int]:
    """What is kept of rows that three writers, in threads, save to one folder."""
    note_index(folder)
    writers = [
        threading.Thread(target=_add_until_kept, args=(str(folder), 100 * at, 3))
        for at in range(1, 4)
    ]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    return keys(hr.Index.open(folder))


ALL_ROWS = {0} | {100 * at + i for at in range(1, 4) for i in range(3)}


def test_writers_that_retry_lose_no_row(tmp_path: Path) -> None:
    assert rows_after_a_race(tmp_path) == ALL_ROWS


@pytest.mark.slow
def test_writers_in_two_processes_lose_no_row(tmp_path: Path) -> None:
    note_index(tmp_path)
    context = multiprocessing.get_context("spawn")
    writers = [
        context.Process(target=_add_until_kept, args=(str(tmp_path), first, 4))
        for first in (100, 200)
    ]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
        assert writer.exitcode == 0
    wanted = {0, *range(100, 104), *range(200, 204)}
    assert keys(hr.Index.open(tmp_path)) == wanted


def test_the_check_and_the_commit_are_under_one_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    note_index(tmp_path)
    first, second = hr.Index.open(tmp_path), hr.Index.open(tmp_path)
    for number, index in enumerate((first, second), 1):
        index.add(notes(number))
    refused: list[Exception] = []
    write = saving._write

    def other_saves_first(*args: Any) -> Any:
        if not refused:
            with pytest.raises(hr.WriterBusyError) as caught:
                second.save(tmp_path)
            refused.append(caught.value)
        return write(*args)

    monkeypatch.setattr(saving, "_write", other_saves_first)
    first.save(tmp_path)
    assert len(refused) == 1
    with pytest.raises(hr.SaveConflictError):
        second.save(tmp_path)


# Readers


def test_a_reload_reads_only_the_segments_it_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = build()
    writer.save(tmp_path)
    reader = hr.Index.open(tmp_path)
    writer.add(table(1000, 10))
    writer.delete([3], scope=everyone(writer))
    writer.save(tmp_path)
    read, opened = disk.read_file, []

    def counted(path: Path, *rest: Any) -> Any:
        opened.append(path.name.split("-", 1))
        return read(path, *rest)

    monkeypatch.setattr(disk, "read_file", counted)
    assert reader.reload()
    old, new = (segment.name for segment in writer._state.segments)
    assert {role.split("-")[0] for name, role in opened if name == old} == {"dead"}
    assert sum(name == new for name, _ in opened) == 6
    assert ask(reader) == ask(writer)


def test_hits_keep_their_version_over_a_reload(tmp_path: Path) -> None:
    writer = note_index(tmp_path)
    reader = hr.Index.open(tmp_path)
    hits = reader.recall(text=["tea"])
    writer.delete([0])
    writer.add(notes(1))
    writer.compact()
    writer.save(tmp_path)
    assert reader.reload()
    assert keys(reader) == {1}
    assert hits[0][0].text == "tea"
    assert hits[0].keys == [0]


def test_an_index_without_a_folder_is_not_stale_and_cannot_reload() -> None:
    index = build(9)
    assert not index.is_stale
    with pytest.raises(hr.OptionError, match="index: expected one that was opened or saved"):
        index.reload()
    index.close()
    with pytest.raises(hr.OptionError, match="an open index"):
        _ = index.is_stale


def test_a_reader_of_a_folder_that_is_gone_is_told(tmp_path: Path) -> None:
    note_index(tmp_path / "index")
    reader = hr.Index.open(tmp_path / "index")
    shutil.rmtree(tmp_path / "index")
    assert reader.is_stale
    with pytest.raises(hr.IndexNotFoundError):
        reader.reload()
    assert keys(reader) == {0}


def test_an_index_of_another_schema_is_not_taken_up(tmp_path: Path) -> None:
    note_index(tmp_path)
    reader = hr.Index.open(tmp_path)
    build(9).save(tmp_path, overwrite=True)
    assert reader.is_stale
    with pytest.raises(hr.OptionError, match=r"same schema, analyzers and dimensions"):
        reader.reload()
    assert keys(reader) == {0}


def test_a_reload_that_finds_damage_leaves_the_index_as_it_was(tmp_path: Path) -> None:
    writer = note_index(tmp_path)
    reader = hr.Index.open(tmp_path)
    writer.add(notes(1))
    writer.save(tmp_path)
    newest = max(tmp_path.glob("*-terms-0.arrow"), key=lambda file: file.stat().st_mtime_ns)
    newest.unlink()
    with pytest.raises(hr.CorruptIndexError, match="terms-0"):
        reader.reload()
    assert keys(reader) == {0}
    assert reader.is_stale


def test_a_callable_analyzer_serves_reloads_too(tmp_path: Path) -> None:
    def words(text: str) -> list[str]:
        return text.split()

    analyzer = hr.Analyzer.from_callable(words, name="words", version="1")
    schema = hr.Schema(key="id", cell=None, text="text")
    writer = hr.Index.build(notes(0), schema, analyzer=analyzer)
    writer.save(tmp_path)
    reader = hr.Index.open(tmp_path, analyzer=analyzer)
    writer.add(notes(1))
    writer.save(tmp_path)
    assert reader.reload()
    assert keys(reader) == {0, 1}
    reader.add(notes(2))
    reader.save(tmp_path)
    assert writer.reload(), "an index that was built follows the folder it was saved to"
    assert keys(writer) == {0, 1, 2}


# Paths


@pytest.mark.parametrize(
    ("name", "wish"),
    [
        ("a\0b", "a path without NUL"),
        ("\ud800", "a path of valid Unicode"),
        ("x" * 256, "names of at most 255 bytes, got a name of 256 bytes"),
        ("\u00e9" * 128, "names of at most 255 bytes"),
        ("x/" * 2100, "at most 4000 bytes"),
    ],
    ids=["NUL", "surrogate", "256 bytes", "256 bytes of UTF-8", "too deep"],
)
def test_a_path_that_no_folder_can_have_is_refused(tmp_path: Path, name: str, wish: str) -> None:
    index = build(9)
    path = f"{tmp_path}/{name}"
    for call in (lambda: index.save(path), lambda: hr.Index.open(path)):
        with pytest.raises(hr.OptionError, match=rf"^path: expected {wish}") as caught:
            call()
        assert caught.value.argument == "path"
        str(caught.value).encode()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("path", ["s3://bucket/notes", "file:///srv/notes", Path("gs://b/notes")])
def test_a_url_is_no_folder_of_that_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str | Path
) -> None:
    monkeypatch.chdir(tmp_path)
    index = build(9)
    for call in (lambda: index.save(path), lambda: hr.Index.open(path)):
        with pytest.raises(hr.OptionError, match=r"^path: expected a path of this machine"):
            call()
    assert list(tmp_path.iterdir()) == []


def test_the_longest_name_works(tmp_path: Path) -> None:
    index = build(9)
    index.save(tmp_path / ("x" * 255))
    assert ask(hr.Index.open(tmp_path / ("x" * 255))) == ask(index)
