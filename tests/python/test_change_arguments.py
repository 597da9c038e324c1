"""What build, add and upsert refuse about keys and arms, and what a closed index refuses."""

import gc
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import hyrecall as hr
from small_index import TEXT, VECTORS, N, built, documents, refused


def test_build_refuses_options_of_an_arm_that_are_none() -> None:
    for schema in (
        hr.Schema(key="id", cell="user", text=hr.Text("text", analyzer="word")),  # type: ignore[arg-type]
        hr.Schema(key="id", cell="user", text=hr.Text("text", bm25="okapi")),  # type: ignore[arg-type]
    ):
        with pytest.raises(hr.DTypeError, match=r"expected an hr\.(Analyzer|BM25), got '"):
            hr.Index.build(documents(), schema)


def test_a_default_that_no_text_arm_takes_is_refused() -> None:
    only_vector = hr.Schema(key="id", cell="user", vector="embedding")
    given = hr.Text("text", analyzer=hr.Analyzer("word"), bm25=hr.BM25("okapi"))
    all_own = hr.Schema(key="id", cell="user", text={"a": given}, vector="embedding")
    some_own = hr.Schema(key="id", cell="user", text={"a": given, "b": "text"}, vector="embedding")
    defaults = {"analyzer": hr.Analyzer("porter"), "bm25": hr.BM25("fts5")}
    for name, default in defaults.items():
        for schema in (only_vector, all_own):
            refused(
                lambda schema=schema, name=name, default=default: built(schema, **{name: default}),
                hr.OptionError,
                f"{name}: expected None (there is no text arm without {name}= of its own), "
                f"got {default!r}",
                None,
            )
    index = built(some_own, **defaults)
    assert list(index._facts.analyzers.values()) == [given.analyzer, defaults["analyzer"]]
    assert list(index._facts.bm25.values()) == [given.bm25, defaults["bm25"]]


def test_a_falsy_value_of_another_type_is_no_default() -> None:
    message = "{0}: expected an hr.{1}, got {2!r}"
    for name, kind in (("analyzer", "Analyzer"), ("bm25", "BM25")):
        for bad in ("", {}, 0, False, ()):
            wanted = message.format(name, kind, bad)
            refused(lambda n=name, b=bad: built(**{n: b}), hr.DTypeError, wanted, None)
            arm = hr.Text("text", **{name: bad})  # type: ignore[arg-type]
            schema = hr.Schema(key="id", cell="user", text=arm, vector="embedding")
            refused(lambda schema=schema: built(schema), hr.DTypeError, wanted, None)


def test_keys_that_come_twice_are_named_with_both_rows() -> None:
    table = documents().set_column(0, "id", pa.array(["a", "b", "a", "c", "d", "e"]))
    message = (
        "id: expected keys unique within a cell, got 'a' in rows 0 and 2; "
        "keep one: pa.concat_tables([table[:2], table[3:]])"
    )
    refused(
        lambda: hr.Index.build(table, hr.Schema(key="id", cell="user", text="text")),
        hr.KeyConflictError,
        message,
        None,
    )
    index = built()
    for write in (index.add, index.upsert):
        refused(
            lambda write=write: write(table, vectors={"embedding": VECTORS}),
            hr.KeyConflictError,
            message,
            None,
        )


def test_add_names_the_key_that_its_cell_holds(index: hr.Index) -> None:
    table = documents(first=4)  # k4 was bob's and is now ana's: another document; k5 was null's
    moved = table.set_column(1, "user", pa.array(["ana", None, "ana", "bob", "bob", None]))
    refused(
        lambda: index.add(moved, vectors={"embedding": VECTORS}),
        hr.KeyConflictError,
        "id: expected keys that their cells do not hold yet, got 'k5' in row 1; "
        "replace it: index.upsert(table)",
        None,
    )


DELETE: list[tuple[Any, Any, type[hr.HyrecallError], str]] = [
    ("k1", "ana", hr.DTypeError, "keys: expected a sequence of str keys, got str 'k1'"),
    (b"k1", "ana", hr.DTypeError, "keys: expected a sequence of str keys, got bytes b'k1'"),
    (
        None,
        "ana",
        hr.OptionError,
        "keys: expected keys, a filter, or everything=True for the whole scope, got none of them",
    ),
    (["k1", 1], "ana", hr.DTypeError, "keys: expected a sequence of str keys, got int 1 at 1"),
    ([b"k1"], "ana", hr.DTypeError, "keys: expected a sequence of str keys, got bytes b'k1' at 0"),
    (["k1", None], "ana", hr.KeyConflictError, "keys: expected no null key, got None at 1"),
    (["k1"], ["ana", "bob"], hr.ShapeError, "scope: expected 1 entries, one per key, got 2"),
    (
        ["k1"],
        None,
        hr.ScopeError,
        "scope: expected a scope: a cell, hr.Scope([...]), or a list with one entry per key, "
        "got None (the null cell is hr.Scope([None]))",
    ),
]


@pytest.mark.parametrize(("keys", "scope", "kind", "message"), DELETE)
def test_delete_refuses_by_name_and_deletes_nothing(
    index: hr.Index, keys: Any, scope: Any, kind: type[hr.HyrecallError], message: str
) -> None:
    refused(lambda: index.delete(keys, scope=scope), kind, message, None)
    assert len(index) == N


def test_delete_takes_no_key_for_another_number() -> None:
    table = pa.table({"id": [0, 1, 2**63 - 1, -(2**63)], "text": ["tea"] * 4})
    index = hr.Index.build(table, hr.Schema(key="id", cell=None, text="text"))
    for keys in ([1.0], [1.5], [True], ["1"], np.array([1.0]), np.array([True])):
        with pytest.raises(hr.DTypeError, match=r"^keys: expected a sequence of int64 keys, got "):
            index.delete(keys)
    for keys in ([2**63], [-(2**63) - 1], np.array([2**63], np.uint64)):
        with pytest.raises(hr.OptionError, match=r"^keys: expected a sequence of int64 keys, got "):
            index.delete(keys)
    assert len(index) == 4
    assert index.delete(np.array([2**63 - 1, 7])) == 1
    assert index.delete(pa.array([-(2**63)])) == 1
    assert index.recall_one(text="tea").keys == [0, 1]


def test_a_closed_index_refuses_every_call(tmp_path: Path) -> None:
    with built() as index:
        assert len(index) == N
    for call in (
        lambda: index.recall(**TEXT),
        lambda: index.recall_one(text="tea", scope="ana"),
        lambda: index.add(documents()),
        lambda: index.upsert(documents()),
        lambda: index.delete(["k1"], scope="ana"),
        lambda: index.get(["k1"], scope="ana"),
        lambda: index.count(scope="ana"),
        index.compact,
        lambda: index.save(tmp_path / "i"),
        lambda: len(index),
        index.stats,
        index.__enter__,
    ):
        refused(call, hr.OptionError, "index: expected an open index, got a closed one", None)
    index.close()
    assert not (tmp_path / "i").exists()
    assert repr(index) == "<Index: closed, arms text, embedding, on cpu>"
    assert (index.device, index.schema.key) == ("cpu", "id")


def test_a_closed_index_lets_go_of_its_documents_and_given_hits_keep_theirs() -> None:
    index = built()
    held = weakref.ref(index._state)
    hits = index.recall(**TEXT, columns=["text"])
    index.close()
    assert held() is not None
    assert hits.to_arrow().num_rows == hits.n_hits == 3
    del hits
    gc.collect()
    assert held() is None


def test_a_write_that_ends_after_the_close_does_not_open_the_index_again() -> None:
    def closing(text: str) -> list[str]:
        if text == "last":
            index.close()
        return text.split()

    analyzer = hr.Analyzer.from_callable(closing, name="closing", version="1")
    schema = hr.Schema(key="id", cell=None, text="text")
    index = hr.Index.build(pa.table({"id": [1], "text": ["tea"]}), schema, analyzer=analyzer)
    index.add(pa.table({"id": [2], "text": ["last"]}))
    with pytest.raises(hr.OptionError, match="got a closed one"):
        len(index)
    assert index._held is None
