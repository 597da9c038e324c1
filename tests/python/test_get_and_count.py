"""Rows by key, numbers of documents, and deletes by filter or of a whole scope."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import hyrecall as hr
from small_index import N, built, documents, refused

EVERYONE = hr.Scope(["ana", "bob", None])
KIND_0, KIND_1 = hr.Filter(kind=0), hr.Filter(kind=1)


@pytest.fixture
def index() -> hr.Index:
    return built()


# ---- get ----


def test_get_returns_rows_in_the_order_of_the_keys(index: hr.Index) -> None:
    table = index.get(["k2", "k0"], scope="ana")
    assert table.schema.names == ["key", "user"]
    assert table.to_pydict() == {"key": ["k2", "k0"], "user": ["ana", "ana"]}
    more = index.get(["k2", "k0"], scope="ana", columns=["text", "kind", "user"])
    assert more.schema.names == ["key", "user", "text", "kind"]
    assert more["text"].to_pylist() == ["green tea", "hot tea"]
    assert more.select(["key", "user"]).equals(table)


def test_get_takes_a_scope_per_key(index: hr.Index) -> None:
    asked = ["k3", "k0", "k0", "k5"]
    scopes = ["bob", "ana", "bob", hr.Scope([None])]
    assert index.get(asked, scope=scopes)["key"].to_pylist() == ["k3", "k0", "k5"]
    column = pd.Series(["bob", "ana", "bob", "bob"])
    assert index.get(asked, scope=column)["key"].to_pylist() == ["k3", "k0"]


def test_a_key_of_several_cells_has_a_row_for_each_and_one_asked_twice_comes_twice() -> None:
    index = built()
    index.add(
        documents().slice(0, 1).set_column(1, "user", pa.array(["bob"])), vectors=one_vector()
    )
    table = index.get(["k1", "k0", "k1"], scope=EVERYONE, columns=["user"])
    assert table["key"].to_pylist() == ["k1", "k0", "k0", "k1"]
    assert table["user"].to_pylist() == ["ana", "ana", "bob", "ana"]


def one_vector() -> dict[str, Any]:
    return {"embedding": np.ones((1, 3), np.float32)}


def test_get_takes_keys_in_the_forms_that_delete_takes(index: hr.Index) -> None:
    for given in (("k0",), np.array(["k0"]), pa.array(["k0"]), iter(["k0"])):
        assert index.get(given, scope="ana").num_rows == 1
    numbers = hr.Index.build(
        pa.table({"id": [5, 6], "text": ["tea", "milk"]}),
        hr.Schema(key="id", cell=None, text="text"),
    )
    assert numbers.get(np.array([6, 5])).to_pydict() == {"key": [6, 5]}


REFUSED: list[tuple[Callable[[hr.Index], object], type[hr.HyrecallError], str]] = [
    (
        lambda index: index.get("k0", scope="ana"),
        hr.DTypeError,
        "keys: expected a sequence of str keys, got str 'k0'",
    ),
    (
        lambda index: index.get(["k0"], scope=["ana", "bob"]),
        hr.ShapeError,
        "scope: expected 1 entries, one per key, got 2",
    ),
    (
        lambda index: index.get(["k0"], scope="ana", columns="text"),
        hr.OptionError,
        "columns: expected a sequence of columns of ['id', 'user', 'kind', 'text'], got 'text'",
    ),
    (
        lambda index: index.count(scope=["ana"]),
        hr.OptionError,
        "scope: expected one scope (several cells are hr.Scope([...])), got a list",
    ),
    (
        lambda index: index.count(scope=pd.Series(["ana"])),
        hr.OptionError,
        "scope: expected one scope (several cells are hr.Scope([...])), got a column (Series)",
    ),
    (
        lambda index: index.count(scope="ana", filter=[KIND_0]),
        hr.OptionError,
        "filter: expected one filter, got a list",
    ),
    (
        lambda index: index.delete(scope="ana"),
        hr.OptionError,
        "keys: expected keys, a filter, or everything=True for the whole scope, got none of them",
    ),
    (
        lambda index: index.delete(None, scope="ana", filter=None),
        hr.OptionError,
        "keys: expected keys, a filter, or everything=True for the whole scope, got none of them",
    ),
    (
        lambda index: index.delete(scope="ana", filter=hr.Filter() & hr.Filter()),
        hr.OptionError,
        "filter: expected at least one condition, or everything=True for the whole scope, "
        "got Filter() & Filter()",
    ),
    (
        lambda index: index.delete(["k0"], scope="ana", everything=True),
        hr.OptionError,
        "everything: expected False with keys or a filter, got True",
    ),
    (
        lambda index: index.delete(scope="ana", filter=KIND_0, everything=True),
        hr.OptionError,
        "everything: expected False with keys or a filter, got True",
    ),
    (
        lambda index: index.delete(scope="ana", everything=1),
        hr.DTypeError,
        "everything: expected True or False, got 1",
    ),
    (
        lambda index: index.delete(scope=["ana"], everything=True),
        hr.OptionError,
        "scope: expected one scope (several cells are hr.Scope([...])), got a list",
    ),
    (
        lambda index: index.delete(scope="ana", filter=hr.Filter(colour="red")),
        hr.OptionError,
        "colour: expected an attribute column (kind), got an unknown column",
    ),
]


@pytest.mark.parametrize(
    ("call", "kind", "message"), REFUSED, ids=[message[:60] for *_, message in REFUSED]
)
def test_wrong_arguments_are_refused_by_name_and_change_nothing(
    index: hr.Index,
    call: Callable[[hr.Index], object],
    kind: type[hr.HyrecallError],
    message: str,
) -> None:
    refused(lambda: call(index), kind, message, None)
    assert len(index) == N


# ---- count ----


def test_count_is_of_a_scope_and_a_filter(index: hr.Index) -> None:
    assert [index.count(scope=cell) for cell in ("ana", "bob", hr.Scope([None]))] == [3, 2, 1]
    assert index.count(scope=EVERYONE) == len(index) == 6
    assert index.count(scope=EVERYONE, filter=KIND_0) == 3
    assert index.count(scope="ana", filter=pc.field("kind") == 1) == 1
    assert index.count(scope="ana", filter=hr.Filter(kind=9)) == 0
    assert index.count(scope="nobody") == index.count(scope=hr.Scope([])) == 0
    assert index.count(scope=hr.Scope.matching(user=hr.ANY)) == 6
    index.delete(["k0"], scope="ana")
    assert index.count(scope="ana") == 2


def test_an_index_of_one_audience_needs_no_scope() -> None:
    schema = hr.Schema(key="id", cell=None, text="text", attributes="kind")
    index = hr.Index.build(documents(), schema)
    assert (index.count(), index.count(filter=KIND_1)) == (6, 3)
    assert index.get(["k5"]).to_pydict() == {"key": ["k5"]}
    with pytest.raises(hr.ScopeError):
        index.count(scope="ana")
    assert index.delete(filter=KIND_1) == 3
    with pytest.raises(hr.OptionError, match="everything=True"):
        index.delete()
    assert index.delete(everything=True) == 3
    assert (len(index), index.count()) == (0, 0)


# ---- delete by filter, and of a whole scope ----


def test_keys_and_a_filter_must_both_hold(index: hr.Index) -> None:
    assert index.delete(["k0", "k1", "k2"], scope="ana", filter=KIND_1) == 1
    assert index.delete(["k3", "k4"], scope=["bob", "ana"], filter=KIND_1) == 1
    assert index.get([f"k{at}" for at in range(N)], scope=EVERYONE)["key"].to_pylist() == [
        *("k0", "k2", "k4", "k5")
    ]
    assert index.delete([], scope="ana", filter=KIND_0) == 0
