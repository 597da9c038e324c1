"""An index that follows a folder is that of a fresh build, whatever happened between."""

import errno
import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hyrecall as hr
from engine import forge
from folders.test_reading import write
from hyrecall import folders
from hyrecall.embed import EmbedBy, EmbedError, HashEmbedder
from laws.effort import Effort
from seams import following

WORDS = ["tea", "milk", "hot", "cup"]


class Counting(HashEmbedder):
    """Counts the texts that it embeds."""

    texts: tuple[str, ...] = ()
    fails = False

    def embed(self, texts: Any) -> Any:
        if self.fails:
            raise EmbedError("down")
        self.texts += tuple(texts)
        return super().embed(texts)


def built(folder: Path, embedder: Any = None, **options: Any) -> hr.Index:
    return folders.build(folders.read(folder, **options), embed=embedder, device="cpu")


def differences(index: hr.Index, folder: Path, **options: Any) -> list[str]:
    """Return in what an index differs from a fresh one of the folder."""
    told = []
    fresh = folders.read(folder, **options).table.drop_columns("modified").to_pylist()
    names = [name for name in index.schema.row_columns if name not in ("id", "modified")]
    rows = index.get([row["id"] for row in fresh], columns=names).rename_columns({"key": "id"})
    if rows.select(list(fresh[0]) if fresh else []).to_pylist() != fresh or len(index) != len(
        fresh
    ):
        told.append("other rows")
    if fresh:
        again = built(folder, HashEmbedder(8) if index.schema.vector_arms else None, **options)
        for word in WORDS:
            one, other = (
                {
                    hit.key: (hit.score, hit.bm25_score)
                    for hit in some.recall_one(text=word, limit=99)
                }
                for some in (index, again)
            )
            told += [word] if one != other else []
    return told


CONTENT = st.lists(st.sampled_from([*WORDS, "\n\n", "\n# A\n", "."]), min_size=0, max_size=20).map(
    " ".join
)
STEPS = st.lists(
    st.tuples(st.sampled_from(["a.md", "b.md", "s/c.md"]), st.none() | CONTENT), max_size=6
)


@pytest.mark.parametrize("has_vectors", [False, True])
def test_after_any_changes_an_index_is_that_of_a_fresh_build(
    tmp_path: Path, effort: Effort, has_vectors: bool
) -> None:
    numbers = iter(range(10**6))

    @settings(max_examples=effort.cases(quick=15, full=500), deadline=None)
    @given(st.lists(STEPS, min_size=1, max_size=3))
    def check(rounds: list[list[tuple[str, str | None]]]) -> None:
        folder = write(tmp_path / str(next(numbers)), {"z.md": "tea and milk"})
        options = {"chunk_tokens": 6, "overlap": 2}
        index = built(folder, HashEmbedder(8) if has_vectors else None, **options)
        for steps in rounds:
            for name, content in steps:
                if content is None:
                    (folder / name).unlink(missing_ok=True)
                else:
                    write(folder, {name: content})
            folders.sync(index, folder)
            assert differences(index, folder, **options) == []
            assert not folders.sync(index, folder)

    check()


def test_a_planted_sync_that_forgets_what_is_gone_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write(tmp_path, {"a.md": "tea", "b.md": "milk"})
    index = built(folder)
    (folder / "b.md").unlink()
    with monkeypatch.context() as patch:
        patch.setattr(following.writer, "delete", lambda facts, state, *_: (state, 0))
        folders.sync(index, folder)
    assert differences(index, folder) == ["other rows", "tea", "milk"]


def test_sync_tells_what_it_found_and_embeds_only_new_texts(tmp_path: Path) -> None:
    docs = write(tmp_path / "docs", {"a.md": "# A\ntea\n# B\nmilk", "b.md": "cup", "c.md": "hot"})
    embedder = Counting(8)
    built(docs, EmbedBy(embedder)).save(tmp_path / "index")
    index = hr.Index.open(tmp_path / "index", embed=EmbedBy(embedder))
    before = index.recall_one(text="milk tea", limit=9)
    embedder.texts = ()
    os.utime(docs / "b.md", (0, 0))  # of the same bytes
    assert not folders.sync(index, docs)
    write(docs, {"a.md": "# New\nhot tea\n# B\nmilk", "d.md": "new"})
    (docs / "c.md").rename(docs / "moved.md")
    found = folders.sync(index, docs)
    assert (found.new, found.changed, found.removed, found.unchanged, found.embedded) == (
        ("d.md", "moved.md"), ("a.md",), ("c.md",), 1, 2
    )  # fmt: skip
    assert sorted(embedder.texts) == ["New\n# New\nhot tea", "new"]
    assert {hit.key: hit.vector_score for hit in before}["a.md#1"] == next(
        hit.vector_score
        for hit in index.recall_one(text="milk tea", limit=9)
        if hit.key == "a.md#1"
    )
    assert differences(index, docs) == []


def test_what_fails_leaves_the_index_and_its_folder_as_they_were(tmp_path: Path) -> None:
    docs, embedder = write(tmp_path / "docs", {"a.md": "tea", "b.md": "milk"}), Counting(8)
    built(docs, EmbedBy(embedder)).save(tmp_path / "index")
    reader = hr.Index.open(tmp_path / "index", embed={})
    index = hr.Index.open(tmp_path / "index", embed=EmbedBy(embedder))
    write(docs, {"a.md": "coffee"})
    (docs / "b.md").unlink()
    embedder.fails = True
    with pytest.raises(EmbedError):
        folders.sync(index, docs)
    assert sorted(index.recall_one(text="tea milk", vector=np.ones(8, "f")).keys) == [
        "a.md#0",
        "b.md#0",
    ]
    with pytest.raises(hr.OptionError, match="index: expected an index opened with hash-8"):
        folders.sync(reader, docs)
    embedder.fails = False
    assert folders.sync(index, docs)
    assert not reader.is_stale  # nothing is saved yet
    index.save(tmp_path / "index")
    assert reader.reload()
    assert reader.recall_one(text="coffee").keys == ["a.md#0"]


def test_a_row_of_somebody_else_stays(tmp_path: Path) -> None:
    docs = write(tmp_path, {"a.md": "tea"})
    index = built(docs)
    row = {**folders.read(docs).table.to_pylist()[0], "id": "mine", "path": None, "hash": None}
    index.add(pa.Table.from_pylist([row], schema=folders.read(docs).table.schema))
    assert not folders.sync(index, docs)
    (docs / "a.md").rename(docs / "b.md")
    assert folders.sync(index, docs).removed == ("a.md",)
    assert sorted(index.recall_one(text="tea").keys) == ["b.md#0", "mine"]


def test_how_a_folder_is_read_is_saved_with_the_index(tmp_path: Path) -> None:
    docs = write(tmp_path / "docs", {"a.md": "tea " * 9, "b.txt": "milk"})
    built(docs, patterns="*.md", chunk_tokens=5, overlap=1).save(tmp_path / "index")
    reader = hr.Index.open(tmp_path / "index")
    write(docs, {"c.md": "hot " * 9})
    with hr.Index.open(tmp_path / "index") as index:
        folders.sync(index, docs)
        assert index.count(filter=hr.Filter(path="c.md")) == 3
        assert differences(index, docs, patterns="*.md", chunk_tokens=5, overlap=1) == []
        index.save(tmp_path / "index")
    built(docs).save(tmp_path / "index", overwrite=True)  # with other settings
    assert reader.reload()
    assert not folders.sync(reader, docs)
    hits = reader.recall_one(text="milk", columns=["path", "line"])
    assert hits.to_list()[0]["path"] == "b.txt"


@pytest.mark.parametrize("folder", [{"patterns": "*.md"}, {"patterns": [], "chunk_tokens": 9,
                                    "overlap": 1}, {"x": 1}])  # fmt: skip
def test_settings_that_no_build_has_saved_are_damage(tmp_path: Path, folder: Any) -> None:
    built(write(tmp_path / "docs", {"a.md": "tea"})).save(tmp_path / "index")
    data = forge.read_manifest(tmp_path / "index")
    forge.seal(tmp_path / "index", json.dumps({**data, "folder": folder}).encode() + b"\n")
    with (
        hr.Index.open(tmp_path / "index") as index,
        pytest.raises(hr.CorruptIndexError, match="the settings of a folder"),
    ):
        folders.sync(index, tmp_path / "docs")


def test_a_folder_without_files_is_refused_and_an_empty_index_fills_again(tmp_path: Path) -> None:
    docs = write(tmp_path / "docs", {"a.md": "tea"})
    index = built(docs, Counting(8))
    (docs / "a.md").unlink()  # a disk that is not mounted looks so
    told = (
        r"folder: expected a file that fits \*\*/\*.md, .* \(to forget them all, delete the index\)"
    )
    with pytest.raises(hr.OptionError, match=told + ", got none that could be read"):
        folders.sync(index, docs)
    assert index.recall_one(text="tea").keys == ["a.md#0"]
    index.delete(["a.md#0"])
    assert not folders.sync(index, docs)
    index.save(tmp_path / "index")
    again = hr.Index.open(tmp_path / "index", embed=HashEmbedder(8))
    write(docs, {"b.md": "milk"})
    assert folders.sync(again, docs).new == ("b.md",)
    assert differences(again, docs) == []


def failing(what: Any, name: str, number: int) -> Any:
    """Return a function of the system that fails for one name."""

    def call(path: Any, *args: Any, **options: Any) -> Any:
        if os.path.basename(path) == name:
            raise OSError(number, os.strerror(number), path)
        return what(path, *args, **options)

    return call


@pytest.mark.parametrize("number", [errno.EIO, errno.EACCES])
@pytest.mark.parametrize(
    ("call", "name", "stays"),
    [("open", "b.md", ["s/b.md"]), ("scandir", "s", ["s/b.md", "s/t/c.md"]),
     ("scandir", "docs", ["a.md", "s/b.md", "s/t/c.md", "so.md"])],
)  # fmt: skip
def test_what_cannot_be_read_now_stays_and_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, call: str, name: str,
    stays: list[str],
) -> None:  # fmt: skip
    files: dict[str, str | bytes] = dict.fromkeys(["a.md", "s/b.md", "s/t/c.md", "so.md"], "tea")
    docs = write(tmp_path / "docs", files)
    index = built(docs)
    for path in files:
        (docs / path).write_text("milk")
    (docs / "so.md").unlink()
    with monkeypatch.context() as patch:
        patch.setattr(os, call, failing(getattr(os, call), name, number))
        found = folders.sync(index, docs)
    fault = {"b.md": "s/b.md", "s": "s", "docs": "."}[name]
    assert found.skipped == ((fault, f"not readable: {os.strerror(number)}"),)
    assert found.unchanged == 0
    assert sorted(index.recall_one(text="tea").keys) == [f"{path}#0" for path in stays]
    assert folders.sync(index, docs)
    assert differences(index, docs) == []


def test_a_folder_that_cannot_be_looked_at_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    docs = write(tmp_path / "docs", {"a.md": "tea"})
    index = built(docs)
    monkeypatch.setattr(os, "stat", failing(os.stat, "docs", errno.EIO))
    with pytest.raises(hr.OptionError, match=r"folder: expected .*, got .*/docs: Input/output err"):
        folders.sync(index, docs)


def test_a_changed_pdf_stays_while_its_extra_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    docs = write(tmp_path, {"a.md": "milk", "b.pdf": b"one"})
    page = SimpleNamespace(extract_text=lambda: "tea")
    pypdf = SimpleNamespace(PdfReader=lambda _: SimpleNamespace(pages=[page]))
    monkeypatch.setitem(sys.modules, "pypdf", pypdf)
    index = built(docs)
    monkeypatch.setitem(sys.modules, "pypdf", None)
    write(docs, {"b.pdf": b"other"})
    found = folders.sync(index, docs)
    assert not found
    assert [path for path, _ in found.skipped] == ["b.pdf"]
    assert index.recall_one(text="tea").keys == ["b.pdf#0"]


def test_a_file_that_holds_no_text_any_more_leaves_and_is_told(tmp_path: Path) -> None:
    docs = write(tmp_path, {"a.md": "tea", "b.md": "tea"})
    index = built(docs)
    write(docs, {"b.md": b"tea\0"})
    found = folders.sync(index, docs)
    assert (found.removed, found.skipped) == (("b.md",), (("b.md", "binary: it has a zero byte"),))
    assert index.recall_one(text="tea").keys == ["a.md#0"]


def test_a_row_of_somebody_else_with_the_key_of_a_chunk_is_named(tmp_path: Path) -> None:
    docs, embedder = write(tmp_path, {"a.md": "tea"}), Counting(8)
    index = built(docs, embedder)
    row = {**folders.read(docs).table.to_pylist()[0], "id": "b.md#0", "path": None, "hash": None}
    index.add(pa.Table.from_pylist([row], schema=folders.read(docs).table.schema))
    write(docs, {"b.md": "milk"})
    embedder.texts = ()
    with pytest.raises(hr.KeyConflictError) as told:
        folders.sync(index, docs)
    assert str(told.value) == (
        "id: expected keys of chunks that no row without a path has, got 'b.md#0': give that row "
        "another key; remove it: index.delete(['b.md#0'])"
    )
    assert not embedder.texts
    index.delete(["b.md#0"])
    assert folders.sync(index, docs).new == ("b.md",)
