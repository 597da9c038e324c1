"""Keys: integers and strings at their ends, one key in many cells, and one that comes again."""

from typing import Any

import pyarrow as pa
import pytest

import hyrecall as hr
from small_index import said

LOW, HIGH = -(2**63), 2**63 - 1
SCHEMA = hr.Schema(key="id", cell="user", text="text")

INTEGERS = [LOW, LOW + 1, -1, 0, 1, 2**31, 2**32, 2**53 + 1, HIGH - 1, HIGH]
STRINGS = [
    "",
    "a",
    "A",
    "a ",
    "0",
    "00",
    "é",
    "e\u0301",
    "日本",
    "👩\u200d👧",
    "a\0b",
    "a\0",
    "null",
    "k" * 1024,
    "k" * 1023 + "l",
    "\n\t",
    "' OR 1=1 --",
]


def rows(keys: list[Any], text: str = "tea", user: str = "ana") -> pa.Table:
    kind = pa.int64() if isinstance(keys[0], int) else pa.string()
    n = len(keys)
    return pa.table({"id": pa.array(keys, kind), "user": [user] * n, "text": [text] * n})


def keys_of(index: hr.Index, text: str = "tea", scope: Any = "ana") -> list[Any]:
    return index.recall_one(text=text, scope=scope, limit=1000).keys


@pytest.mark.parametrize("keys", [INTEGERS, STRINGS], ids=["integers", "strings"])
def test_every_key_is_kept_found_replaced_and_deleted_by_itself(keys: list[Any]) -> None:
    index = hr.Index.build(rows(keys), SCHEMA)
    assert keys_of(index) == keys
    for key in keys:
        with pytest.raises(hr.KeyConflictError) as caught:
            index.add(rows([key]))
        assert repr(key) in str(caught.value)
    for number, key in enumerate(keys):
        index.upsert(rows([key], f"milk{number}"))
        assert keys_of(index, f"milk{number}") == [key]
        assert keys_of(index) == keys[number + 1 :]
    for number, key in enumerate(keys):
        assert index.delete([key], scope="ana") == 1
        assert index.delete([key], scope="ana") == 0
        assert len(index) == len(keys) - number - 1
    index.add(rows(keys))  # a key may come again after it went
    assert keys_of(index) == keys


def test_keys_of_narrower_and_unsigned_integers_are_int64() -> None:
    for kind in (pa.int8(), pa.uint8(), pa.int32(), pa.uint32(), pa.uint64()):
        table = rows([0, 1, 100]).set_column(0, "id", pa.array([0, 1, 100], kind))
        index = hr.Index.build(table, SCHEMA)
        assert index.recall(text=["tea"], scope="ana").to_arrow()["key"].type == pa.int64()
        assert keys_of(index) == [0, 1, 100]
    table = rows([0]).set_column(0, "id", pa.array([2**63], pa.uint64()))
    with pytest.raises(hr.OptionError, match=f"^id: expected integers of at most {HIGH}"):
        hr.Index.build(table, SCHEMA)


def test_the_same_key_in_many_cells_is_many_documents() -> None:
    users = [f"user{i}" for i in range(300)]
    table = pa.table({"id": ["same"] * 300, "user": users, "text": ["tea"] * 300})
    index = hr.Index.build(table, SCHEMA)
    assert len(index) == 300
    hits = index.recall(text=["tea"] * 300, scope=users)
    assert [(hit.key, hit.cell) for one in hits for hit in one] == [("same", (u,)) for u in users]
    assert index.delete(["same"] * 10, scope=users[:10]) == 10
    assert index.delete(["same"], scope=hr.Scope(users)) == 290
    assert len(index) == 0


def test_the_last_write_of_a_key_wins_and_takes_a_new_place() -> None:
    index = hr.Index.build(rows(["a", "b", "c"]), SCHEMA)
    for number in range(50):
        index.upsert(rows(["b"], f"tea v{number}"))
        assert index.recall_one(text=f"v{number}", scope="ana").keys == ["b"]
        assert index.recall_one(text=f"v{number - 1}", scope="ana").keys == []
    index.upsert(rows(["b"]))
    assert keys_of(index) == ["a", "c", "b"]
    assert len(index) == 3


def test_a_key_twice_in_one_table_is_refused_with_both_rows() -> None:
    for keys in (["x", "y", "x"], [5, 6, 5]):
        index = hr.Index.build(rows([keys[1]]), SCHEMA)
        for write in (index.upsert, index.add):
            with pytest.raises(hr.KeyConflictError) as caught:
                write(rows(keys))
            wish = "id: expected keys unique within a cell, got"
            known = "id: expected keys that their cells do not hold yet"
            assert said(caught.value) == f"{wish} {keys[0]!r} in rows 0 and 2" or (
                write == index.add and str(caught.value).startswith(known)
            )
        assert keys_of(index) == [keys[1]]
    table = pa.concat_tables([rows(["x"]), rows(["x"], user="bob")])
    assert len(hr.Index.build(table, SCHEMA)) == 2


def test_a_row_that_moves_to_another_cell_is_a_delete_and_an_add() -> None:
    index = hr.Index.build(rows([1, 2]), SCHEMA)
    index.upsert(rows([1], user="bob"))
    assert (keys_of(index), keys_of(index, scope="bob")) == ([1, 2], [1])
    assert index.delete([1], scope="ana") == 1
    assert (keys_of(index), keys_of(index, scope="bob")) == ([2], [1])
