"""Every form of a scope: which cells it names, and that no value is taken for another."""

import weakref
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import hyrecall as hr
from seams import read_scopes


def index_of(cells: dict[str, pa.Array], *, threads: int | None = None) -> hr.Index:
    """One document a row with the text "tea"; its key is its row number."""
    n = len(next(iter(cells.values())))
    table = pa.table({"id": np.arange(n), **cells, "text": ["tea"] * n})
    schema = hr.Schema(key="id", cell=tuple(cells), text="text")
    return hr.Index.build(table, schema, threads=threads)


def seen(index: hr.Index, scope: Any, **options: Any) -> list[int]:
    return sorted(index.recall_one(text="tea", scope=scope, limit=100, **options).keys)


@pytest.fixture(scope="module")
def strings() -> hr.Index:
    users = ["ana", "1", "", None, "zoë", "naïve\0x", "True", "ana", "日本", "a" * 1000]
    return index_of({"user": pa.array(users)})


@pytest.fixture(scope="module")
def numbers() -> hr.Index:
    return index_of({"org": pa.array([1, 0, -1, None, 2**63 - 1, -(2**63), 1])})


@pytest.fixture(scope="module")
def flags() -> hr.Index:
    return index_of({"public": pa.array([True, False, None, True])})


@pytest.fixture(scope="module")
def pairs() -> hr.Index:
    return index_of(
        {
            "tenant": pa.array(["acme", "acme", "ana", None, "acme", "", "ab"]),
            "agent": pa.array([1, 2, 1, 1, None, 1, 1]),
            "shared": pa.array([True, False, True, True, True, None, True]),
        }
    )


def test_a_str_is_one_cell(strings: hr.Index) -> None:
    assert seen(strings, "ana") == [0, 7]
    assert seen(strings, "1") == [1]
    assert seen(strings, "") == [2]
    assert seen(strings, "zoë") == [4]
    assert seen(strings, "naïve\0x") == [5]
    assert seen(strings, "日本") == [8]
    assert seen(strings, "a" * 1000) == [9]


def test_int_cells(numbers: hr.Index) -> None:
    assert seen(numbers, 1) == [0, 6]
    assert seen(numbers, (0,)) == [1]
    assert seen(numbers, -1) == [2]
    assert seen(numbers, 2**63 - 1) == [4]
    assert seen(numbers, hr.Scope([-(2**63), 1])) == [0, 5, 6]
    for bad in (2**63, -(2**63) - 1):
        with pytest.raises(hr.ScopeError, match=r"^scope: expected an int64 for org, got -?\d+$"):
            seen(numbers, bad)


def test_bool_cells(flags: hr.Index) -> None:
    assert seen(flags, True) == [0, 3]
    assert seen(flags, False) == [1]
    assert seen(flags, hr.Scope([False, None])) == [1, 2]


CONFUSIONS: list[tuple[str, Any]] = [
    ("strings", 1),
    ("strings", True),
    ("strings", b"ana"),
    ("numbers", True),
    ("numbers", False),
    ("numbers", "1"),
    ("numbers", 1.0),
    ("flags", 1),
    ("flags", 0),
    ("flags", "True"),
    ("flags", 1.0),
]


@pytest.mark.parametrize(("name", "value"), CONFUSIONS)
def test_a_value_of_another_type_is_refused_alone_and_after_its_equal(
    request: pytest.FixtureRequest, name: str, value: Any
) -> None:
    index: hr.Index = request.getfixturevalue(name)
    column = index.schema.cell_columns[0]
    equal = {"strings": "ana", "numbers": 1, "flags": True}[name]
    if value in (0, False):
        equal = {"strings": "", "numbers": 0, "flags": False}[name]
    forms = (
        lambda v: v,
        lambda v: (v,),
        lambda v: hr.Scope([v]),
        lambda v: hr.Scope([(v,)]),
        lambda v: hr.Scope.matching(**{column: v}),
    )
    for form in forms:
        with pytest.raises(hr.ScopeError):
            seen(index, form(value))
        for first in forms:
            with pytest.raises(hr.ScopeError, match=r"^scope\[1\]: expected a"):
                index.recall(text=["tea"] * 2, scope=[first(equal), form(value)])


def test_encoded_cells_are_no_scope(strings: hr.Index) -> None:
    """The bytes that stand for a cell inside the engine must not be taken for it."""
    raw = b"\3" + (3).to_bytes(4, "little") + b"ana"
    for scope in (raw, (raw,), hr.Scope([raw])):
        with pytest.raises(hr.ScopeError):
            strings.recall(text=["tea"] * 2, scope=[hr.Scope(["ana"]), scope])


def test_every_form_of_the_same_cells_gives_the_same_bytes(pairs: hr.Index) -> None:
    cell = ("acme", 1, True)
    forms = [
        cell,
        hr.Scope([cell]),
        hr.Scope([cell, cell]),
        hr.Scope({cell}),
        hr.Scope(iter([cell])),
    ]
    forms.append(hr.Scope.matching(tenant="acme", agent=1, shared=True))
    expected = pairs.recall(text=["tea"], scope=cell).to_arrow()
    assert expected.num_rows == 1
    for form in forms:
        assert pairs.recall(text=["tea"], scope=form).to_arrow().equals(expected)
    batch = pairs.recall(text=["tea"] * len(forms), scope=forms)
    assert [one.keys for one in batch] == [[0]] * len(forms)


def test_cells_of_several_columns(pairs: hr.Index) -> None:
    assert seen(pairs, ("acme", 2, False)) == [1]
    assert seen(pairs, ("acme", None, True)) == [4]
    assert seen(pairs, ("", 1, None)) == [5]
    assert seen(pairs, hr.Scope([("acme", 1, True), (None, 1, True), ("x", 0, None)])) == [0, 3]
    for bad in ("acme", ("acme",), ("acme", 1), ("acme", 1, True, 0), hr.Scope(["acme"]), ()):
        with pytest.raises(hr.ScopeError, match="a value for each of \\(tenant, agent, shared\\)"):
            seen(pairs, bad)
    with pytest.raises(hr.ScopeError, match=r"^scope: expected an int or None for agent, got bool"):
        seen(pairs, ("acme", True, True))


def test_columns_of_a_cell_do_not_run_together() -> None:
    index = index_of({"a": pa.array(["x", "xy", "", "xyz"]), "b": pa.array(["yz", "z", "xyz", ""])})
    for row, cell in enumerate([("x", "yz"), ("xy", "z"), ("", "xyz"), ("xyz", "")]):
        assert seen(index, cell) == [row]


# ---- Scope.matching ----


def test_matching_takes_values_any_and_null(pairs: hr.Index) -> None:
    matching = hr.Scope.matching
    assert seen(pairs, matching(tenant="acme", agent=hr.ANY, shared=hr.ANY)) == [0, 1, 4]
    assert seen(pairs, matching(tenant=hr.ANY, agent=1, shared=True)) == [0, 2, 3, 6]
    assert seen(pairs, matching(tenant=None, agent=hr.ANY, shared=hr.ANY)) == [3]
    assert seen(pairs, matching(tenant="acme", agent=None, shared=hr.ANY)) == [4]
    assert seen(pairs, matching(tenant=hr.ANY, agent=hr.ANY, shared=None)) == [5]
    assert seen(pairs, matching(tenant=hr.ANY, agent=hr.ANY, shared=hr.ANY)) == list(range(7))
    assert seen(pairs, matching(tenant="a", agent=hr.ANY, shared=hr.ANY)) == []
    assert seen(pairs, matching(tenant="nobody", agent=1, shared=True)) == []


def test_matching_names_every_cell_column_and_no_other(pairs: hr.Index) -> None:
    wish = r"^scope: expected every cell column named: \['agent', 'shared', 'tenant'\], got "
    for parts in (
        {},
        {"tenant": "acme"},
        {"tenant": "acme", "agent": 1, "shared": True, "text": "tea"},
        {"tenant": "acme", "agent": 1, "visibility": True},
    ):
        with pytest.raises(hr.ScopeError, match=wish):
            seen(pairs, hr.Scope.matching(**parts))


def test_any_in_place_of_a_cell_is_refused_with_the_pattern_that_is_meant(
    strings: hr.Index, pairs: hr.Index
) -> None:
    every = "hr.Scope.matching(tenant=hr.ANY, agent=hr.ANY, shared=hr.ANY)"
    cases: list[tuple[hr.Index, Any, str]] = [
        (strings, hr.ANY, "hr.Scope.matching(user=hr.ANY)"),
        (strings, (hr.ANY,), "hr.Scope.matching(user=hr.ANY)"),
        (strings, hr.Scope([hr.ANY]), "hr.Scope.matching(user=hr.ANY)"),
        (pairs, hr.ANY, every),
        (pairs, ("acme", hr.ANY), every),
        (
            pairs,
            ("acme", hr.ANY, np.bool_(True)),
            "hr.Scope.matching(tenant='acme', agent=hr.ANY, shared=True)",
        ),
    ]
    for index, scope, remedy in cases:
        with pytest.raises(hr.ScopeError, match=r"got .*hyrecall\.ANY") as caught:
            seen(index, scope)
        assert caught.value.remedy == remedy  # type: ignore[attr-defined]
        assert seen(index, eval(remedy, {"hr": hr})) is not None
        with pytest.raises(hr.ScopeError, match=r"^scope\[0\]: "):
            index.recall(text=["tea"], scope=[scope])


def test_matching_sees_the_cells_of_the_call_and_statistics_follow(pairs: hr.Index) -> None:
    pattern = hr.Scope.matching(tenant="acme", agent=hr.ANY, shared=hr.ANY)
    by_name = hr.Scope([("acme", 1, True), ("acme", 2, False), ("acme", None, True)])
    first = pairs.recall(text=["tea"], scope=pattern)
    assert first.to_arrow().equals(pairs.recall(text=["tea"], scope=by_name).to_arrow())
    table = pa.table(
        {"id": [100], "tenant": ["acme"], "agent": [9], "shared": [False], "text": ["tea"]}
    )
    pairs.add(table)
    try:
        assert seen(pairs, pattern) == [0, 1, 4, 100]
        assert seen(pairs, by_name) == [0, 1, 4]
        assert len(first[0]) == 3
        assert pairs.delete([100], scope=pattern) == 1
        assert seen(pairs, pattern) == [0, 1, 4]
    finally:
        pairs.delete([100], scope=("acme", 9, False))


# ---- one audience, many cells ----


def test_an_index_with_one_audience_takes_no_scope() -> None:
    table = pa.table({"id": [1, 2], "text": ["tea", "tea"]})
    index = hr.Index.build(table, hr.Schema(key="id", cell=None, text="text"))
    assert index.recall_one(text="tea").keys == [1, 2]
    for scope in ("ana", (), hr.Scope([]), hr.Scope([()]), ["ana"], hr.Scope.matching()):
        with pytest.raises(hr.ScopeError, match=r"^scope: expected no scope") as caught:
            index.recall(text=["tea"], scope=scope)
        assert caught.value.argument == "scope"  # type: ignore[attr-defined]
    assert index.delete([1]) == 1
    with pytest.raises(hr.ScopeError, match=r"^scope: expected no scope"):
        index.delete([2], scope="ana")


def test_one_object_may_stand_for_many_queries_and_equal_ones_are_one(strings: hr.Index) -> None:
    both = hr.Scope(["ana", "1"])
    scopes = [both, "ana", hr.Scope(["ana", "1"]), np.str_("ana"), ("ana",), both, hr.Scope([])]
    hits = strings.recall(text=["tea"] * len(scopes), scope=scopes, limit=100)
    whole, one = [0, 1, 7], [0, 7]
    assert [sorted(h.keys) for h in hits] == [whole, one, whole, one, one, whole, []]


def test_an_entry_that_is_wrong_is_named_after_many_that_are_right(numbers: hr.Index) -> None:
    scopes: list[Any] = [1, np.int64(0), (1,), hr.Scope([0, np.int32(1)])] * 100
    for wrong in ("1", True, 2**63, (1, 1), hr.Scope([1, "1"]), None, [1]):
        with pytest.raises(hr.ScopeError, match=r"^scope\[400\]: expected "):
            numbers.recall(text=["tea"] * 401, scope=[*scopes, wrong])


def test_scopes_are_let_go_when_the_call_ends(strings: hr.Index) -> None:
    types = {"user": pa.large_string()}
    kept = read_scopes(types, strings._state.snapshot, ["ana", hr.Scope.matching(user="1")], 2)
    alive = weakref.ref(kept)
    del kept
    assert alive() is None
