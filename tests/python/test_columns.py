"""Reading a table: from any Arrow source, only what the schema names, without copies, each type
in one form.
"""

import datetime as dt
import itertools
from decimal import Decimal
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given

import hyrecall as hr
from hyrecall.errors import DTypeError, HyrecallError, KeyConflictError, OptionError
from seams import Columns, Schema, Text, read_table

PLAIN = Schema(key="id", cell=None, text="text")


class Only:
    """An object with one protocol method and nothing else."""

    def __init__(self, method: str, value: Any) -> None:
        setattr(self, method, getattr(value, method))


BATCH = pa.record_batch({"other": [1, 2], "id": ["a", "b"], "text": ["one", None]})
TABLE = pa.Table.from_batches([BATCH])
SOURCES = {
    "table": lambda: TABLE,
    "batch": lambda: BATCH,
    "reader": lambda: pa.RecordBatchReader.from_batches(BATCH.schema, [BATCH[:1], BATCH[1:]]),
    "stream protocol": lambda: Only("__arrow_c_stream__", TABLE),
    "array protocol": lambda: Only("__arrow_c_array__", BATCH),
    "polars": lambda: pl.DataFrame({"id": ["a", "b"], "text": ["one", None]}),
    "pandas": lambda: pd.DataFrame({"id": ["a", "b"], "text": ["one", None]}, index=[7, 7]),
    "struct array": BATCH.to_struct_array,
}


@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES.keys())
def test_every_arrow_source_reads_alike(source: Any) -> None:
    read = read_table(source(), PLAIN)
    assert read.n_rows == 2
    assert read.rows.column_names == ["id", "text"]
    assert read.rows["id"].to_pylist() == ["a", "b"]
    assert read.texts["text"][0].to_pylist() == ["one", None]
    assert read.vectors == {}


def test_a_missing_and_an_ambiguous_column_are_refused_by_name() -> None:
    with pytest.raises(OptionError) as caught:
        read_table(pa.table({"id": [1], "body": ["x"]}), PLAIN)
    assert (
        str(caught.value) == "text: expected one column of the table, got none among 'id', 'body'"
    )
    twice = pa.table([[1], ["x"], ["y"]], names=["id", "text", "text"])
    with pytest.raises(OptionError, match=r"text: expected one column .* got 2 of that name"):
        read_table(twice, PLAIN)


def test_columns_outside_the_schema_may_have_any_type_or_name() -> None:
    odd = pa.array([{"a": 1}, None])
    table = pa.table([[1, 2], ["x", "y"], odd, odd], names=["id", "text", "odd", "odd"])
    assert read_table(table, PLAIN).rows.column_names == ["id", "text"]


def test_a_stream_is_read_once_and_keeps_its_batches() -> None:
    reader = pa.RecordBatchReader.from_batches(BATCH.schema, [BATCH, BATCH.slice(1), BATCH[:0]])
    assert [len(chunk) for chunk in read_table(reader, PLAIN).rows["id"].chunks] == [2, 1, 0]


def test_numbers_are_not_copied() -> None:
    ids = pa.array(range(100))
    at = pa.array(np.linspace(0, 1, 100))
    table = pa.table({"id": ids, "at": at, "text": ["x"] * 100})
    read = read_table(table, Schema(key="id", cell=None, text="text", attributes="at"))
    for name, given_column in (("id", ids), ("at", at)):
        assert read.rows[name].chunk(0).buffers()[1].address == given_column.buffers()[1].address, (
            name
        )


def test_the_bytes_of_strings_are_not_copied_and_roles_share_one_column() -> None:
    texts = pa.array(["some", "words"] * 50)
    read = read_table(pa.table({"id": range(100), "text": texts}), PLAIN)
    chunk = read.texts["text"][0].chunk(0)
    assert chunk.buffers()[2].address == texts.buffers()[2].address
    assert chunk.buffers()[1].address == read.rows["text"].chunk(0).buffers()[1].address


def test_zero_rows_and_zero_chunks_have_their_types() -> None:
    schema = pa.schema(
        [
            ("id", pa.dictionary(pa.int8(), pa.string_view())),
            ("text", pa.string()),
            ("tags", pa.list_(pa.dictionary(pa.int8(), pa.string()))),
        ]
    )
    wanted = Schema(key="id", cell=None, text="text", attributes="tags", stored=())
    for table in (schema.empty_table(), pa.Table.from_batches([], schema)):
        read = read_table(table, wanted)
        assert read.n_rows == 0
        assert read.rows.schema.types == [pa.large_string(), pa.large_list(pa.large_string())]
        assert read.texts["text"][0].type == pa.large_string()


def test_an_arm_of_several_columns_has_them_in_order() -> None:
    table = pa.table({"id": [1], "title": ["T"], "body": ["B"]})
    schema = Schema(key="id", cell=None, text={"all": Text("body", "title"), "t": "title"})
    read = read_table(table, schema)
    assert [column.to_pylist() for column in read.texts["all"]] == [["B"], ["T"]]
    assert read.texts["t"][0] is read.texts["all"][1]
    assert read.rows.column_names == ["id", "body", "title"]


def test_the_word_for_a_row_can_be_chosen() -> None:
    with pytest.raises(KeyConflictError, match="got null in line 1"):
        read_table(pa.table({"id": [1, None], "text": ["", ""]}), PLAIN, row_name="line")


def only(role: str, column: Any) -> pa.ChunkedArray:
    """Read one column in one role."""
    fields: dict[str, Any] = {"key": "id", "cell": None, "text": "text", "stored": (), role: "x"}
    n = len(column)
    table = {"id": np.arange(n), "text": ["t"] * n, "x": column}
    read = read_table(pa.table(table), Schema(**fields))
    return read.texts["x"][0] if role == "text" else read.rows["x"]


def refusal(role: str, column: Any) -> HyrecallError:
    with pytest.raises(HyrecallError) as caught:
        only(role, column)
    assert caught.value.argument == "x"
    return caught.value


# ---- keys ----

STRING_FORMS = [
    pa.string(),
    pa.large_string(),
    pa.string_view(),
    pa.dictionary(pa.int8(), pa.string()),
    pa.dictionary(pa.uint32(), pa.string_view()),
    pa.dictionary(pa.int32(), pa.large_string()),
    pa.run_end_encoded(pa.int32(), pa.string()),
]


def as_type(values: list[Any], kind: pa.DataType) -> pa.Array:
    """Build an array of any type, also of those that pyarrow only builds from parts."""
    if pa.types.is_dictionary(kind):
        array = pa.array(values, pa.string()).dictionary_encode()
        return pa.DictionaryArray.from_arrays(
            array.indices.cast(kind.index_type), array.dictionary.cast(kind.value_type)
        )
    if pa.types.is_run_end_encoded(kind):
        return pc.run_end_encode(pa.array(values, kind.value_type))
    return pa.array(values, kind)


@pytest.mark.parametrize("kind", STRING_FORMS, ids=str)
@pytest.mark.parametrize("role", ["key", "cell", "attributes", "stored", "text"])
def test_every_string_form_becomes_large_string_in_every_role(kind: pa.DataType, role: str) -> None:
    values: list[Any] = ["b", "", "a", "b", "ü" * 400]
    if role != "key":
        values[3] = None
    column = only(role, as_type(values, kind))
    assert column.type == pa.large_string()
    assert column.to_pylist() == values
    sliced = only(role, as_type(values, kind)[2:])
    assert sliced.to_pylist() == values[2:]


def test_a_null_key_is_refused_with_its_row() -> None:
    for column in (
        pa.chunked_array([["a", "b"], ["c", None, None]]),
        pa.chunked_array([[1, 2], [3, None]]),
        pa.array(["a", "b", "c", None]).dictionary_encode(),
        pa.DictionaryArray.from_arrays(pa.array([0, 0, 0, 1]), pa.array(["x", None])),
    ):
        fault = refusal("key", column)
        assert isinstance(fault, KeyConflictError)
        assert str(fault) == (
            "x: expected a key in every row, got null in row 3; "
            "drop such rows: table.filter(table['x'].is_valid())"
        )
    assert "null in row 0" in str(refusal("key", pa.nulls(2)))


# ---- cells ----


@pytest.mark.parametrize(
    ("column", "cure"),
    [
        (pa.array([1.0]), "double; cast it: pc.cast(table['x'], pa.int64())"),
        (pa.array([Decimal("1.0")]), "cast it: pc.cast(table['x'], pa.int64())"),
        (pa.array([Decimal("1.5")]), "cast it: pc.cast(table['x'], pa.string())"),
        (pa.array([dt.date(2020, 1, 1)]), "date32[day]; cast it: pc.cast(table['x'], pa.string())"),
        (pa.array([b"x"]), "cast it: pc.cast(table['x'], pa.string())"),
        (pa.array([["a"]]), "write it as text: pa.array(["),
        (pa.nulls(1), "null; cast it: pc.cast(table['x'], pa.string())"),
    ],
)
def test_other_cells_are_refused_with_the_cast(column: pa.Array, cure: str) -> None:
    fault = refusal("cell", column)
    assert isinstance(fault, DTypeError)
    assert str(fault).startswith("x: expected a string, integer or boolean cell, got ")
    assert cure in str(fault)


# ---- attributes ----

NOW = dt.datetime(2024, 2, 29, 12, 30)
LIST_FORMS = [pa.list_, pa.large_list, pa.list_view, pa.large_list_view]


def test_a_list_of_dictionaries_is_decoded() -> None:
    tags = pa.array(["a", "b", None, "a"]).dictionary_encode()
    column = only("attributes", pa.ListArray.from_arrays([0, 2, 2, 4], tags))
    assert column.type == pa.large_list(pa.large_string())
    assert column.to_pylist() == [["a", "b"], [], [None, "a"]]


@pytest.mark.parametrize(
    ("column", "cure"),
    [
        (pa.array([Decimal("1.5")]), "cast it: pc.cast(table['x'], pa.float64())"),
        (pa.array([{"a": 1}]), "struct<a: int64>; write it as text: pa.array(["),
        (pa.array([b"x"]), "large_binary; cast it: pc.cast(table['x'], pa.string())"),
        (pa.array([[["a"]]]), "write it as text: pa.array(["),
        (pa.array([[Decimal("1.5")]]), "cast it: pc.cast(table['x'], pa.list_(pa.float64()))"),
        (pa.nulls(1), "null; cast it: "),
        (pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int8())), "map<"),
        (pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [pa.array([1])]), "sparse_union<"),
        (pa.array([b"0" * 16], pa.uuid()), "extension<arrow.uuid>"),
    ],
)
def test_other_attributes_are_refused_with_the_cast(column: pa.Array, cure: str) -> None:
    fault = refusal("attributes", column)
    assert isinstance(fault, DTypeError)
    assert str(fault).startswith("x: expected an attribute (boolean, number, string, date, time")
    assert cure in str(fault)


@pytest.mark.parametrize(
    "values", [["a"], [True], [b"x"], [dt.time(1)], [dt.timedelta(1)], [[1]], [Decimal(1)]]
)
def test_a_cluster_is_a_number_a_date_or_a_timestamp(values: list[Any]) -> None:
    fault = refusal("cluster", pa.array(values))
    assert str(fault).startswith("x: expected a number, date or timestamp to cluster by, got ")
    for good in ([1], [1.5], [NOW.date()], [NOW]):
        assert only("cluster", pa.array(good)).to_pylist() == good


def test_a_cluster_that_is_also_the_cell_is_checked_and_keeps_the_form_of_the_cell() -> None:
    table = pa.table({"id": [1], "org": pa.array([1], pa.int8()), "name": ["x"], "text": ["t"]})
    read = read_table(table, Schema(key="id", cell="org", text="text", cluster="org"))
    assert read.rows["org"].type == pa.int64()
    with pytest.raises(DTypeError, match="name: expected a number, date or timestamp"):
        read_table(table, Schema(key="id", cell="name", text="text", cluster="name"))


# ---- texts and stored columns ----


def test_a_column_of_none_only_is_a_column_of_missing_texts() -> None:
    column = only("text", pa.nulls(3))
    assert column.type == pa.large_string()
    assert column.null_count == 3


@pytest.mark.parametrize("column", [[1], [b"x"], [["a"]], [True]], ids=str)
def test_other_texts_are_refused_with_the_cast(column: list[Any]) -> None:
    fault = refusal("text", pa.array(column))
    assert str(fault).startswith("x: expected a text column, got ")
    is_list = column == [["a"]]
    told = (
        "table['x'].to_pylist()], pa.string())" if is_list else "pc.cast(table['x'], pa.string())"
    )
    assert str(fault).endswith(told)


def test_a_dictionary_inside_a_struct_is_decoded_and_inside_a_map_refused() -> None:
    words = pa.array(["a", "b"]).dictionary_encode()
    struct = only("stored", pa.StructArray.from_arrays([words], names=["w"]))
    assert struct.type == pa.struct([("w", pa.large_string())])
    assert struct.to_pylist() == [{"w": "a"}, {"w": "b"}]
    fault = refusal("stored", pa.MapArray.from_arrays([0, 1, 2], pa.array(["k", "l"]), words))
    assert str(fault).startswith("x: expected a stored column of Arrow's own types, without nested")


def test_a_type_of_another_library_is_refused_as_stored() -> None:
    periods = pd.DataFrame(
        {"id": [1], "text": ["t"], "x": pd.period_range("2020", periods=1, freq="D")}
    )
    with pytest.raises(
        DTypeError,
        match="x: expected a stored column of Arrow's own types, without nested",
    ):
        read_table(periods, Schema(key="id", cell=None, text="text", stored="x"))


# ---- any chunking and slicing reads as the plain lists do ----

ROWS = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", "ü", "long" * 5]),
        st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1)),
        st.one_of(st.none(), st.lists(st.one_of(st.none(), st.sampled_from("xyz")), max_size=3)),
        st.one_of(st.none(), st.text(max_size=5)),
    ),
    max_size=30,
)


@given(
    rows=ROWS,
    cuts=st.lists(st.integers(0, 30), max_size=4),
    skip=st.integers(0, 5),
    string=st.sampled_from(STRING_FORMS),
    form=st.sampled_from(LIST_FORMS),
)
def test_chunks_slices_and_layouts_do_not_show(
    rows: list[Any], cuts: list[int], skip: int, string: pa.DataType, form: Any
) -> None:
    keys, cells, tags, texts = ([row[i] for row in rows] for i in range(4))
    edges = sorted({0, len(rows), *(min(cut, len(rows)) for cut in cuts)})
    parts = list(itertools.pairwise(edges))

    def chunked(values: list[Any], kind: pa.DataType) -> pa.ChunkedArray:
        whole = as_type(values, kind)
        return pa.chunked_array([whole[low:high] for low, high in parts], whole.type)

    table = pa.table(
        {
            "id": chunked(keys, string),
            "org": chunked(cells, pa.int64()),
            "tags": chunked(tags, form(pa.string())),
            "text": chunked(texts, string),
        }
    )[skip:]
    schema = Schema(key="id", cell="org", text="text", attributes="tags")
    for source in (table, pa.RecordBatchReader.from_stream(table)):
        read: Columns = read_table(source, schema)
        assert read.n_rows == len(keys[skip:])
        assert read.rows.to_pydict() == {
            "id": keys[skip:],
            "org": cells[skip:],
            "tags": tags[skip:],
            "text": texts[skip:],
        }
        assert read.texts["text"][0].to_pylist() == texts[skip:]
        read.rows.validate(full=True)


# ---- a filter does not follow an array that is written to later ----


N = 2_000
WANTED = hr.Filter(at=(0, 4))


def table_of(at: np.ndarray, first: int) -> pa.Table:
    times = at.view("datetime64[us]") if at.dtype.kind == "i" else at
    keys = np.arange(first, first + len(at))
    return pa.table({"id": keys, "user": ["ann"] * len(at), "at": at, "time": pa.array(times)})


def found(index: hr.Index, vector: np.ndarray) -> list[list[object]]:
    times = hr.Filter(time=(np.datetime64(0, "us"), np.datetime64(4, "us")))
    return [
        sorted(index.recall(vectors=vector, scope="ann", filter=one, limit=20)[0].keys)
        for one in (WANTED, times)
    ]


@pytest.mark.parametrize("is_added", [False, True], ids=["build", "add"])
def test_a_filter_does_not_follow_an_array_that_is_written_to_later(is_added: bool) -> None:
    schema = hr.Schema(key="id", cell="user", vector="v", attributes=("at", "time"), stored=())
    rng = np.random.default_rng(1)
    vectors = rng.standard_normal((2 * N, 8)).astype(np.float32)
    before, at = np.arange(N) + 100, np.arange(N)
    if is_added:
        index = hr.Index.build(table_of(before, N), schema, vectors={"v": vectors[N:]})
        index.add(table_of(at, 0), vectors={"v": vectors[:N]})
    else:
        index = hr.Index.build(table_of(at, 0), schema, vectors={"v": vectors[:N]})
    at[:] = 7  # before and after the first filter, which makes zone maps
    assert found(index, vectors[:1]) == [[0, 1, 2, 3, 4]] * 2
    at[:] = 9
    assert found(index, vectors[:1]) == [[0, 1, 2, 3, 4]] * 2
