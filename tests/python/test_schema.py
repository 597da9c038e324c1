"""The schema: one form for every way to say it, and no name with two meanings."""

import dataclasses
import json
import pickle
from typing import Any

import pytest

from hyrecall.errors import OptionError
from seams import Schema, Text, Vector


class Options:
    """Stands for an analyzer or BM25 options: hashable, compared by identity."""


def test_cell_has_no_default() -> None:
    with pytest.raises(TypeError, match="cell"):
        Schema(key="id", text="text")  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("cell", "columns"), [("org", ("org",)), (("org", "user"), ("org", "user")), (None, ())]
)
def test_cell_is_a_column_several_or_none(cell: Any, columns: tuple[str, ...]) -> None:
    assert Schema(key="id", cell=cell, text="text").cell_columns == columns


def test_a_str_is_one_arm_of_that_name() -> None:
    schema = Schema(key="id", cell=None, text="body", vector="embedding")
    assert schema.text_arms == {"body": Text("body")}
    assert schema.vector_arms == {"embedding": Vector("embedding")}


@pytest.mark.parametrize(
    "text",
    ["body", ["body"], Text("body"), (Text("body"),), {"body": "body"}, {"body": Text("body")}],
)
def test_schemas_that_mean_the_same_are_equal_and_hash_alike(text: Any) -> None:
    plain = Schema(key="id", cell=("org",), text="body", attributes=("kind",))
    other = Schema(key="id", cell="org", text=text, attributes="kind")
    assert other == plain
    assert hash(other) == hash(plain)


def test_arms_keep_their_declared_order_names_and_options() -> None:
    analyzer, bm25 = Options(), Options()
    body = Text("title", "text", analyzer=analyzer, bm25=bm25)  # type: ignore[arg-type]
    schema = Schema(
        key="id",
        cell=None,
        text={"z": body, "a": "text"},
        vector={"small": Vector("e1", dtype="bfloat16"), "large": "e2"},
    )
    assert list(schema.text_arms.items()) == [("z", body), ("a", Text("text"))]
    assert schema.text_arms["z"].analyzer is analyzer
    assert schema.text_arms["z"].bm25 is bm25
    assert list(schema.vector_arms) == ["small", "large"]
    assert schema.vector_arms["small"].dtype == "bfloat16"
    assert schema.text_columns == ("title", "text")


def test_several_columns_in_a_sequence_are_an_arm_each() -> None:
    schema = Schema(key="id", cell=None, text=["title", "text"], vector=("a", Vector("b")))
    assert list(schema.text_arms) == ["title", "text"]
    assert list(schema.vector_arms) == ["a", "b"]


def test_changing_the_views_does_not_change_the_schema() -> None:
    schema = Schema(key="id", cell=None, text="body")
    schema.text_arms.clear()
    assert list(schema.text_arms) == ["body"]
    with pytest.raises(dataclasses.FrozenInstanceError):
        schema.key = "other"  # type: ignore[misc]


def test_stored_defaults_to_the_text_columns_and_empty_means_none() -> None:
    text = {"body": Text("title", "text"), "t": "title"}
    assert Schema(key="id", cell=None, text=text).stored_columns == ("title", "text")
    assert Schema(key="id", cell=None, text=text, stored=()).stored_columns == ()
    assert Schema(key="id", cell=None, text=text, stored="url").stored_columns == ("url",)


def test_row_columns_are_each_once_in_the_order_of_their_roles() -> None:
    schema = Schema(
        key="id",
        cell=("org", "user"),
        text="text",
        attributes=("kind", "org", "at"),
        cluster="at",
        stored=("text", "kind", "url", "id"),
    )
    assert schema.row_columns == ("id", "org", "user", "kind", "at", "text", "url")
    clustered = Schema(key="id", cell=None, vector="e", cluster="at")
    assert clustered.row_columns == ("id", "at")


def test_replace_and_pickle_keep_the_schema() -> None:
    schema = Schema(key="id", cell="org", text={"b": Text("x", "y")}, vector=Vector("e"))
    assert dataclasses.replace(schema, key="uid").text_arms == schema.text_arms
    assert dataclasses.replace(schema, key="uid").key == "uid"
    assert pickle.loads(pickle.dumps(schema)) == schema


def test_reprs_of_text_read_as_the_call() -> None:
    assert repr(Text("title", "text")) == "Text('title', 'text')"
    assert repr(Text("a", bm25=3)) == "Text('a', bm25=3)"  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "schema",
    [
        Schema(key="id", cell=None, text="text"),
        Schema(
            key="id",
            cell=("org", "user"),
            text={"body": Text("title", "text"), "alone": "title"},
            vector={"e": Vector("embedding", dtype="float16"), "f": "g"},
            attributes=("kind", "at"),
            cluster="at",
            stored=(),
        ),
    ],
)
def test_to_dict_survives_json(schema: Schema) -> None:
    assert Schema.from_dict(json.loads(json.dumps(schema.to_dict()))) == schema


def test_to_dict_leaves_analyzers_and_bm25_to_the_caller() -> None:
    schema = Schema(key="id", cell=None, text={"b": Text("t", analyzer=Options())})  # type: ignore[arg-type]
    assert schema.to_dict()["text"] == {"b": ["t"]}
    assert Schema.from_dict(schema.to_dict()).text_arms["b"].analyzer is None


@pytest.mark.parametrize(
    "change",
    [
        {"text": ["t"]},
        {"text": {"b": 3}},
        {"vector": {"e": {"columns": "e"}}},
        {"vector": {"e": "e"}},
        {"key": None},
        {"cell": []},
        {"surplus": 1},
    ],
)
def test_from_dict_refuses_what_to_dict_never_writes(change: dict[str, Any]) -> None:
    data = Schema(key="id", cell=None, text="text").to_dict() | change
    with pytest.raises(OptionError, match="expected"):
        Schema.from_dict(data)


def test_from_dict_refuses_a_missing_field_and_a_list() -> None:
    data = Schema(key="id", cell=None, text="text").to_dict()
    del data["stored"]
    with pytest.raises(OptionError, match="schema: expected a mapping with exactly"):
        Schema.from_dict(data)
    with pytest.raises(OptionError, match="got list"):
        Schema.from_dict([])  # type: ignore[arg-type]


def test_a_key_column_called_key_is_the_result_column_itself() -> None:
    schema = Schema(key="key", cell="org", text="text", stored=("key", "text"))
    assert schema.row_columns == ("key", "org", "text")


def test_a_name_that_only_some_results_have_is_called_reserved() -> None:
    wanted = "'origin', reserved for a column of results"
    with pytest.raises(OptionError, match=rf"got {wanted}$"):
        Schema(key="id", cell=None, text="text", attributes="origin")


def test_a_text_column_named_query_needs_another_stored() -> None:
    with pytest.raises(OptionError, match=r"got 'query', reserved for .+; .+ stored=$"):
        Schema(key="id", cell=None, text="query")
    assert list(Schema(key="id", cell=None, text="query", stored=()).text_arms) == ["query"]
