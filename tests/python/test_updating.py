"""update() changes some columns of documents, replace() some documents, each in one step."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import hyrecall as hr
from hyrecall.embed import EmbedBy, HashEmbedder
from small_index import refused

SCHEMA = hr.Schema(
    key="id", cell="user", text={"title": "title", "body": "body"}, vector="e",
    attributes=("kind", "tags", "year"), stored=("title", "extra"), cluster="year",
)  # fmt: skip
ROWS: list[dict[str, Any]] = [
    {
        "id": n, "user": "ann" if n % 3 else None, "title": f"tea {n}", "body": f"hot {n}",
        "kind": "note", "tags": ["a", None] if n % 2 else None, "year": 2020 + n,
        "extra": {"x": n, "y": "z"}, "e": None if n == 4 else [1.0, n / 7],
    }
    for n in range(6)
]  # fmt: skip
SCOPE = hr.Scope(["ann", None])
BOTH: dict[str, Any] = {"scope": SCOPE, "columns": ["title", "kind", "tags", "year", "extra", "e"]}


def built(rows: list[dict[str, Any]] = ROWS, **options: Any) -> hr.Index:
    return hr.Index.build(rows, SCHEMA, **options)


def shown(index: hr.Index) -> pa.Table:
    """All that an index says of its documents, in the order of a tie."""
    asked = {"text": ["tea hot"], "vectors": [[0.0, 1.0]], "fusion": hr.RRF()}
    return index.recall(**asked, **BOTH).to_arrow()


def completed(changes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows that an upsert would get."""
    return [{**ROWS[one["id"]], **one} for one in changes]


BODY = {"body": "cold", "user": "ann"}
CHANGES: dict[str, list[dict[str, Any]]] = {
    "an attribute": [{"id": 1, "user": "ann", "kind": "x", **BODY}],
    "to null": [{"id": 1, "user": "ann", "kind": None, "tags": None, "e": None, **BODY}],
    "a stored column": [{"id": 2, "extra": {"x": 7, "y": None}, **BODY}],
    "a vector": [{"id": 4, "e": [0, 2], **BODY}, {"id": 5, "e": [3, 3], **BODY}],
    "columns of their own": [
        {"id": 5, "kind": "x", **BODY}, {"id": 1, "tags": ["n"], "title": "tea", **BODY},
        {"id": 2, "e": [0.5, 0.25], **BODY},
    ],
    "the null cell": [{"id": 3, "year": 1999, "body": "hot", "user": None}],
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("name", CHANGES)
def test_an_update_is_the_upsert_of_the_completed_rows(name: str, dtype: Any) -> None:
    schema = hr.Schema(**{**SCHEMA.to_dict(), "vector": hr.Vector("e", dtype=dtype), "text": {
        "title": "title", "body": "body"}})  # fmt: skip
    one, other = (hr.Index.build(ROWS[:3], schema) for _ in range(2))
    for index in (one, other):
        index.add(ROWS[3:])
    one.update(CHANGES[name])
    other.upsert(completed(CHANGES[name]))
    assert shown(one).equals(shown(other))
    assert one.stats()["next_seq"] == other.stats()["next_seq"]
    for index in (one, other):
        index.compact()
    assert shown(one).equals(shown(other))


def test_an_update_takes_tables_and_arrays_too() -> None:
    one, other = built(), built()
    body = {"user": ["ann"] * 2, "body": ["hot", "hot"]}
    one.update(pa.table({"id": [2.0, 1.0], **body}), vectors={"e": np.eye(2, dtype=np.float32)})
    other.update({"id": [2, 1], **body, "e": np.eye(2)})
    assert shown(one).equals(shown(other))
    one.update([])
    assert shown(one).equals(shown(other))


WRONG: dict[str, tuple[Any, type[hr.HyrecallError], str]] = {
    "a key that is not there": (
        [{"id": 1, "kind": "x", **BODY}, {"id": 0, "kind": "x", **BODY}], hr.NotFoundError,
        "id: expected keys of documents, got 0 in row 1, which its cell does not hold",
    ),
    "a text that is not stored": (
        [{"id": 1, "kind": "x", **BODY}, {"id": 2, "user": "ann", "kind": "x"}], hr.OptionError,
        "body: expected the texts of all rows (the index does not store them, and writes rows "
        "anew), got none in row 1",
    ),
    "nothing": (
        [{"id": 1, "user": "ann"}], hr.OptionError,
        "table: expected a column to change, beside those of key and cell, got only ['id', 'user']",
    ),
    "an unknown column": (
        [{"id": 1, "kind": "x", **BODY}, {"id": 2, "titel": "x", **BODY}], hr.OptionError,
        "table: expected columns of 'id', 'user', 'kind', 'tags', 'year', 'title', 'extra', "
        "'body', 'e', got 'titel' (did you mean 'title'?)",
    ),
    "no cell": (
        {"id": [1], "kind": ["x"]}, hr.OptionError,
        "user: expected one column of the table, got none among 'id', 'kind'",
    ),
    "a key that comes twice": (
        [{"id": 1, "kind": kind, **BODY} for kind in "xy"], hr.KeyConflictError,
        "id: expected keys unique within a cell, got 1 in rows 0 and 1",
    ),
    "a value of another type": (
        [{"id": 1, "year": 1.5, **BODY}], hr.DTypeError,
        "year: expected values that int64, the index's type, holds exactly, got 1.5 in row 0",
    ),
    "a vector of another length": (
        [{"id": 1, "e": [1.0], **BODY}], hr.ShapeError, "e: expected 2 values in every row, got 1 "
        "in row 0",
    ),
}  # fmt: skip


@pytest.mark.parametrize("fault", WRONG)
def test_a_wrong_update_is_refused_by_name_and_changes_nothing(fault: str) -> None:
    rows, kind, message = WRONG[fault]
    index = built()
    before = shown(index)
    refused(lambda: index.update(rows), kind, message)
    assert shown(index).equals(before)


class Counting(HashEmbedder):
    """Keeps the texts that it embedded."""

    def __init__(self) -> None:
        super().__init__(dim=16)
        self.texts: list[str] = []

    def embed(self, texts: Any) -> Any:
        self.texts += texts
        return super().embed(texts)


NOTES = [{"id": n, "text": f"tea {n}", "title": "t", "kind": "note"} for n in range(4)]


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_only_a_text_that_changes_is_embedded_again(dtype: Any, tmp_path: Path) -> None:
    vector = hr.Vector("e", dtype=dtype)
    schema = hr.Schema(key="id", cell=None, text="text", vector=vector, attributes="kind")
    embedder = Counting()
    index = hr.Index.build(NOTES, schema, embed=embedder)
    embedder.texts.clear()
    index.update([
        {"id": 0, "kind": "x"}, {"id": 1, "text": "tea 1", "kind": "y"}, {"id": 2, "text": "milk"},
        {"id": 3, "text": None},
    ])  # fmt: skip
    assert embedder.texts == ["milk"]
    changed = [{**NOTES[0], "kind": "x"}, {**NOTES[1], "kind": "y"}, {**NOTES[2], "text": "milk"}]
    fresh = hr.Index.build([*changed, {**NOTES[3], "text": None}], schema, embed=Counting())
    columns = ["text", "kind", "e"]
    keys = [0, 1, 2, 3]
    assert index.get(keys, columns=columns).equals(fresh.get(keys, columns=columns))
    index.update([{"id": 0, "text": "a", "e": [1.0] * 16}, {"id": 1, "text": "b"}])
    assert embedder.texts == ["milk", "b"]
    assert index.get([0], columns=["e"])["e"].to_pylist() == [[1.0] * 16]
    # Without its embedder, a changed text would keep the vector of the old one.
    index.save(tmp_path / "i")
    with hr.Index.open(tmp_path / "i", embed={}) as alone:
        alone.update([{"id": 0, "kind": "z"}, {"id": 1, "text": "b"}])
        refused(
            lambda: alone.update([{"id": 0, "text": "other"}]),
            hr.OptionError,
            "e: expected its vectors beside changed texts, or an index opened with embed= of "
            "'hash-16', got neither",
        )
        alone.update([{"id": 0, "text": "other"}], vectors={"e": np.ones((1, 16), np.float32)})
        assert alone.recall_one(text="other", fusion=hr.RRF()).keys == [0]


def test_embedded_columns_that_are_not_stored_must_all_be_given() -> None:
    schema = hr.Schema(key="id", cell=None, text="text", vector="e", attributes="kind")
    embedder = Counting()
    index = hr.Index.build(NOTES, schema, embed=EmbedBy(embedder, columns=("title", "text")))
    embedder.texts.clear()
    index.update([{"id": 0, "kind": "x"}])
    refused(
        lambda: index.update([{"id": 0, "kind": "x"}, {"id": 1, "text": "milk"}]),
        hr.OptionError,
        "title: expected the text of each row whose vector is made anew (the index does not store "
        "it), got none in row 1",
    )
    assert embedder.texts == []
    index.update([{"id": 0, "title": "u"}, {"id": 1, "title": "v", "text": "milk"}])
    assert embedder.texts == ["u\ntea 0", "v\nmilk"]


def test_a_failing_embedder_leaves_the_documents() -> None:
    schema = hr.Schema(key="id", cell=None, text="text", vector="e", attributes="kind")

    def fails(texts: list[str]) -> np.ndarray:
        if "milk" in texts:
            raise ValueError("no milk")
        return np.ones((len(texts), 3))

    index = hr.Index.build(NOTES, schema, embed=fails)
    before = index.get([0, 1], columns=["text", "kind", "e"])
    calls: list[Callable[[], object]] = [
        lambda: index.update([{"id": 0, "kind": "x"}, {"id": 1, "text": "milk"}]),
        lambda: index.replace([{"id": 0, "text": "milk"}], filter=hr.Filter(kind="note")),
    ]
    for call in calls:
        with pytest.raises(hr.embed.EmbedError):
            call()
        assert index.get([0, 1], columns=["text", "kind", "e"]).equals(before)
        assert len(index) == 4


# ---- replace ----


def chunks(file: str, n: int, user: str = "ann") -> list[dict[str, Any]]:
    return [
        {"id": f"{file}/{at}", "user": user, "file": file, "text": f"{file} tea {n}"}
        for at in range(n)
    ]


FILES = hr.Schema(key="id", cell="user", text="text", attributes="file")


def test_a_replacement_is_a_deletion_and_an_addition() -> None:
    rows = [*chunks("a", 5), *chunks("b", 3), *chunks("a", 2, "bob")]
    one, other = (hr.Index.build(rows, FILES) for _ in range(2))
    assert one.replace(chunks("a", 4), scope="ann", filter=hr.Filter(file="a")) == 5
    other.delete(scope="ann", filter=hr.Filter(file="a"))
    other.add(chunks("a", 4))
    asked: dict[str, Any] = {"text": ["a tea"] * 2, "scope": ["ann", "bob"], "columns": ["text"]}
    assert one.recall(**asked).to_arrow().equals(other.recall(**asked).to_arrow())
    assert one.replace([], scope="bob", filter=hr.Filter(file="a")) == 2
    assert one.replace(chunks("c", 1), scope="ann", filter=hr.Filter(file="nowhere")) == 0
    assert len(one) == 8


def test_a_replacement_that_fails_leaves_the_old_documents() -> None:
    index = hr.Index.build([*chunks("a", 3), *chunks("b", 3)], FILES)
    a = hr.Filter(file="a")
    refused(
        lambda: index.replace(chunks("b", 1), scope="ann", filter=a),
        hr.KeyConflictError,
        "id: expected keys that their cells do not hold yet, got 'b/0' in row 0",
    )
    refused(
        lambda: index.replace([{"id": "a/0", "user": "ann", "text": 5}], scope="ann", filter=a),
        hr.DTypeError,
        "text: expected large_string, the index's type, got int64",
    )
    with pytest.raises(ZeroDivisionError):
        index.replace(chunks("a", 1), scope="ann", filter=a, progress=lambda *_: 1 / 0)
    assert index.recall_one(text="tea", scope="ann").keys == [
        f"{name}/{n}" for name in "ab" for n in range(3)
    ]


def test_readers_see_all_old_documents_or_all_new_ones() -> None:
    index = hr.Index.build(chunks("a", 7), FILES)
    seen: set[tuple[int, ...]] = set()
    is_done = threading.Event()

    def read() -> None:
        while not is_done.is_set():
            texts = index.recall_one(text="tea", scope="ann", limit=50, columns=("text",))
            seen.add(tuple(sorted(int(hit.text.split()[-1]) for hit in texts)))

    reader = threading.Thread(target=read)
    reader.start()
    for n in range(1, 40):
        index.replace(chunks("a", n % 7 + 1), scope="ann", filter=hr.Filter(file="a"))
    is_done.set()
    reader.join()
    assert seen <= {(n,) * n for n in range(1, 8)}
