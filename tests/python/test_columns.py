"""Reading a table: from any Arrow source, only what the schema names, without copies."""

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from hyrecall.errors import KeyConflictError, OptionError
from seams import Schema, Text, read_table

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
