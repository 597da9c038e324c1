"""Arguments as NumPy, pandas and polars have them mean what Python's own mean."""

import datetime as dt
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import hyrecall as hr
import hyrecall.distributed
import hyrecall.serve
from small_index import TEXT, built, documents, refused


def table(**columns: Any) -> pa.Table:
    n = len(next(iter(columns.values())))
    return pa.table({"id": range(n), "text": ["tea"] * n, **columns})


# ---- NumPy's scalars ----


@pytest.mark.parametrize(
    ("cells", "scalar", "value"),
    [
        (pa.array([1, 0, None]), np.int64(1), 1),
        (pa.array([1, 0, None]), np.uint8(0), 0),
        (pa.array([True, False, None]), np.bool_(True), True),
        (pa.array(["ana", "1", None]), np.str_("ana"), "ana"),
    ],
)
def test_a_numpy_scalar_names_the_cell_of_its_value(cells: Any, scalar: Any, value: Any) -> None:
    index = hr.Index.build(table(u=cells), hr.Schema(key="id", cell="u", text="text"))
    wanted = index.recall_one(text="tea", scope=value).keys
    assert len(wanted) == 1
    forms: list[Any] = [scalar, (scalar,), hr.Scope([scalar]), hr.Scope(np.array([scalar]))]
    for scope in [*forms, hr.Scope.matching(u=scalar)]:
        assert index.recall_one(text="tea", scope=scope).keys == wanted
    assert index.recall(text=["tea"] * 2, scope=[scalar, value])[0].keys == wanted
    assert index.delete(wanted, scope=scalar) == 1


def test_a_numpy_scalar_of_another_kind_is_still_no_cell() -> None:
    index = hr.Index.build(table(u=[1, 0]), hr.Schema(key="id", cell="u", text="text"))
    for bad in (np.bool_(True), np.float64(1), np.str_("1"), np.datetime64(1, "s")):
        for scope in (bad, hr.Scope([bad])):
            with pytest.raises(hr.ScopeError):
                index.recall(text=["tea"] * 2, scope=[1, scope])
    assert index.recall_one(text="tea", scope=hr.Scope(np.array([1, 0]))).keys == [0, 1]
    with pytest.raises(hr.ScopeError):
        index.recall_one(text="tea", scope=hr.Scope(np.array([[1, 0]])))


def test_numpy_numbers_are_taken_wherever_numbers_are() -> None:
    index = built(threads=np.int64(2), first_seq=np.uint8(5))
    assert (index.stats()["threads"], index.stats()["next_seq"]) == (2, 11)
    assert hr.Boost("tea", np.float32(2)) == hr.Boost("tea", 2.0)  # type: ignore[arg-type]
    assert repr(hr.Boost("tea", np.int8(2))) == "Boost(query='tea', factor=2)"
    assert repr(hr.Phrase("hot tea", slop=np.int64(1))) == "Phrase(text='hot tea', slop=1)"
    query = hr.Boost(hr.Phrase("hot tea", slop=np.int64(1)), np.float32(0.5))  # type: ignore[arg-type]
    assert index.recall_one(text=query, scope="ana").keys == ["k0"]
    for bad in (np.bool_(True), np.float64(2), np.array([2])):
        with pytest.raises(hr.OptionError, match=r"^threads: expected an int"):
            built(threads=bad)
        with pytest.raises(hr.OptionError, match=r"^slop: expected an int"):
            hr.Phrase("tea", slop=bad)  # type: ignore[arg-type]
    for bad in (np.bool_(True), np.float32("nan"), np.complex64(1), "2"):
        with pytest.raises(hr.OptionError, match=r"^factor: expected a number"):
            hr.Boost("tea", bad)  # type: ignore[arg-type]


# ---- series ----

WORDS = ["hot tea", None, "green"]
SERIES = {
    "polars": pl.Series(WORDS),
    "pandas": pd.Series(WORDS),
    "pandas of objects": pd.Series(WORDS, dtype=object),
    "pandas of arrow": pd.Series(WORDS, dtype=pd.ArrowDtype(pa.string())),
    "pandas index": pd.Index(WORDS),
}


@pytest.mark.parametrize("series", SERIES.values(), ids=SERIES.keys())
def test_texts_come_as_a_series(series: Any) -> None:
    index = built()
    wanted = index.recall(text=WORDS, scope="ana").to_arrow()
    assert wanted.num_rows == 4
    assert index.recall(text=series, scope="ana").to_arrow().equals(wanted)
    assert index.recall(text={"text": series}, scope="ana").to_arrow().equals(wanted)


def test_typed_queries_come_as_a_series_and_a_frame_is_refused() -> None:
    index = built()
    queries = [hr.Phrase("hot tea"), hr.Prefix("gre")]
    for series in (pd.Series(queries), pl.Series(queries, dtype=pl.Object)):
        assert [one.keys for one in index.recall(text=series, scope="ana")] == [["k0"], ["k2"]]
    for frame in (pd.DataFrame({"a": ["tea"]}), pl.DataFrame({"a": ["tea"]})):
        with pytest.raises(
            hr.OptionError, match=r"^text: expected a list with one entry per query"
        ):
            index.recall(text=frame, scope="ana")


# ---- scopes ----

USERS = ["ana", "bob", "ana"]
SCOPES = {
    "arrow": pa.array(USERS),
    "arrow in chunks": pa.chunked_array([USERS[:1], USERS[1:]]),
    "arrow dictionary": pa.array(USERS).dictionary_encode(),
    "numpy": np.array(USERS),
    "numpy of objects": np.array(USERS, object),
    "polars": pl.Series(USERS),
    "pandas": pd.Series(USERS),
    "pandas of arrow": pd.Series(USERS, dtype=pd.ArrowDtype(pa.string())),
    "pandas category": pd.Series(USERS, dtype="category"),
    "pandas index": pd.Index(USERS),
}


@pytest.mark.parametrize("column", SCOPES.values(), ids=SCOPES.keys())
def test_scopes_come_as_a_column_with_one_entry_per_query(column: Any) -> None:
    index = built()
    wanted = index.recall(text=["tea"] * 3, scope=USERS).to_arrow()
    assert wanted.num_rows > 3
    assert index.recall(text=["tea"] * 3, scope=column).to_arrow().equals(wanted)
    with pytest.raises(hr.ShapeError, match=r"^scope: expected 2 entries, one per query, got 3"):
        index.recall(text=["tea"] * 2, scope=column)
    with pytest.raises(hr.OptionError, match=r"^scope: expected one scope .*, got a column \("):
        index.recall_one(text="tea", scope=column)
    assert index.delete(["k0", "k0", "none"], scope=column) == 1


@pytest.mark.parametrize(
    "column",
    [
        pa.array([*USERS[:2], None]),
        np.array([*USERS[:2], None], object),
        pl.Series([*USERS[:2], None]),
        pd.Series([*USERS[:2], None]),
    ],
    ids=["arrow", "numpy", "polars", "pandas"],
)
def test_a_null_in_a_column_of_scopes_is_refused_with_its_row(column: Any) -> None:
    with pytest.raises(
        hr.ScopeError, match=r"^scope\[2\]: .*got None \(the null cell is hr\.Scope"
    ):
        built().recall(text=["tea"] * 3, scope=column)


def test_cells_of_several_columns_come_as_a_column_of_structs() -> None:
    cells = {"org": ["x", "x", None], "team": [1, 2, 1]}
    index = hr.Index.build(table(**cells), hr.Schema(key="id", cell=("org", "team"), text="text"))
    wanted = [[one.key for one in hits] for hits in index.recall(
        text=["tea"] * 3, scope=[("x", 1), ("x", 2), (None, 1)]
    )]  # fmt: skip
    assert wanted == [[0], [1], [2]]
    asked = pa.table(cells)
    for column in (
        asked.to_struct_array(),
        asked.select(["team", "org"]).to_struct_array(),
        pl.from_arrow(asked).to_struct("cell"),  # type: ignore[union-attr]
    ):
        hits = index.recall(text=["tea"] * 3, scope=column)
        assert [one.keys for one in hits] == wanted
    with pytest.raises(
        hr.ScopeError, match=r"^scope\[0\]: expected a struct with the fields \(org, t"
    ):
        index.recall(text=["tea"] * 3, scope=asked.select(["org"]).to_struct_array())
    with pytest.raises(hr.ShapeError, match=r"got a table; scope=table.to_struct_array\(\)$"):
        index.recall(text=["tea"] * 3, scope=asked)


def test_an_array_of_several_axes_or_another_type_is_no_column_of_scopes() -> None:
    index = built()
    with pytest.raises(
        hr.ShapeError, match=r"^scope: expected one dimension, .* got shape \(1, 3\)"
    ):
        index.recall(text=["tea"], scope=np.array([USERS]))
    with pytest.raises(
        hr.ScopeError, match=r"^scope\[0\]: expected a str or None for user, got int 1"
    ):
        index.recall(text=["tea"], scope=np.array([1]))
    for frame in (pd.DataFrame({"user": ["ana"]}), pl.DataFrame({"user": ["ana"]})):
        with pytest.raises(hr.ShapeError, match=r"^scope: expected one column.*got a data frame$"):
            index.recall(text=["tea"], scope=frame)


DAY = dt.date(2024, 2, 29)
ANY_OF = [
    ("n", [2, 3]),
    ("price", [0.5, 1.5]),
    ("kind", ["b", "c"]),
    ("day", [DAY]),
    ("at", [dt.datetime(2024, 2, 29, 12)]),
    ("flag", [True]),
]


@pytest.mark.parametrize(("name", "values"), ANY_OF, ids=str)
@pytest.mark.parametrize(
    "make", [pl.Series, pd.Series, pa.array, np.array], ids=lambda m: m.__module__
)
def test_any_of_a_series_is_any_of_its_values(name: str, values: list[Any], make: Any) -> None:
    given = table(
        n=[1, 2, 3],
        price=[0.5, 1.0, 1.5],
        kind=["a", "b", "c"],
        day=[DAY, None, dt.date(2020, 1, 1)],
        at=[None, dt.datetime(2024, 2, 29, 12), None],
        flag=[True, False, None],
    )
    names = ("n", "price", "kind", "day", "at", "flag")
    index = hr.Index.build(given, hr.Schema(key="id", cell=None, text="text", attributes=names))
    wanted = index.recall_one(text="tea", filter=hr.Filter(**{name: values})).keys
    assert 0 < len(wanted) < 3
    asked = hr.Filter(**{name: make(values)})
    assert index.recall_one(text="tea", filter=asked).keys == wanted


def test_a_missing_value_in_a_series_is_no_value_to_look_for() -> None:
    for series in (pd.Series(["a", None]), pl.Series(["a", None]), pd.Series([1.5, None])):
        with pytest.raises(hr.OptionError, match=r"use hr.IsNull"):
            hr.Filter(kind=series)


# ---- paths and places ----


def test_a_path_comes_as_str_or_path(tmp_path: Path) -> None:
    index = built()
    for path in (tmp_path / "a", str(tmp_path / "b")):
        index.save(path)
        assert len(hr.Index.open(path)) == documents().num_rows


@pytest.mark.parametrize("bad", ["a", None, 1.0, True, (0,), np.array([0])], ids=str)
def test_what_is_no_place_in_the_hits_is_refused_by_name(bad: Any) -> None:
    hits = built().recall(**TEXT)
    for held, what in ((hits, "query"), (hits[0], "hit")):
        message = (
            f"index: expected the number of a {what}, or a slice, got {type(bad).__name__} {bad!r}"
        )
        refused(lambda held=held: held[bad], hr.DTypeError, message)
        with pytest.raises(TypeError):
            held[bad]
    for bad_column in (5, None, "\0score\0text"):
        with pytest.raises(hr.OptionError, match=r"^columns: expected columns of"):
            hits[0][0][bad_column]  # type: ignore[index]


def test_a_list_of_values_is_the_values_of_none_of_and_all_of() -> None:
    for values in (["x", "y"], ("x", "y")):
        assert hr.NoneOf(values) == hr.NoneOf("x", "y")  # type: ignore[arg-type]
        assert hr.AllOf(values) == hr.AllOf("x", "y")  # type: ignore[arg-type]
    assert hr.NoneOf([]) == hr.NoneOf()
    for numbers in (range(1, 3), {1, 2}, pa.array([1, 2]), pd.Series([1, 2]), np.array([1, 2])):
        for test in (hr.NoneOf(numbers), hr.AllOf(numbers), numbers):
            (column,) = hr.Filter(n=test).predicates
            assert column[1].values == (1, 2)
    with pytest.raises(hr.OptionError, match=r"^n: expected a str, bool, int"):
        hr.Filter(n=hr.NoneOf(np.array([[1, 2]])))


def test_a_test_for_null_takes_no_value() -> None:
    for call, told in (
        (lambda: hr.IsNull("k"), "IsNull: expected no value, and the column before it"),
        (lambda: hr.NotNull("k"), "NotNull: expected no value, and the column before it"),
    ):
        with pytest.raises(hr.OptionError) as caught:
            call()
        assert str(caught.value).startswith(told)


@pytest.mark.parametrize("module", [hr, hyrecall.distributed, hyrecall.serve])
def test_dir_lists_the_public_names(module: ModuleType) -> None:
    assert {name for name in dir(module) if not name.startswith("__")} == {
        name for name in module.__all__ if not name.startswith("__")
    }


@pytest.mark.parametrize("group", [hr.All, hr.Any])
@pytest.mark.parametrize("parts", [["disk", hr.Prefix("fu")], ("disk", "full")])
def test_a_list_of_parts_is_told_how_to_be_given(group: Any, parts: Any) -> None:
    with pytest.raises(hr.DTypeError, match=rf"^{group.__name__}: expected a str, hr.Ph") as caught:
        group(parts)
    assert eval(caught.value.remedy, {"hr": hr, "Prefix": hr.Prefix}) == group(*parts)
