"""The schema: one form for every way to say it, and no name with two meanings."""

import ast
import dataclasses
import datetime as dt
import json
import pickle
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import hyrecall as hr
from hyrecall import arms
from hyrecall.distributed import Placement
from hyrecall.embed import EmbedBy
from hyrecall.errors import OptionError
from hyrecall.evaluate import Setting
from hyrecall.recipe import Coefficients, Dense, Fill, Lexical, Tables, TieBreak
from seams import Schema, ServiceOptions, ShardOpening, Text, Vector, age_seconds, convert_field

# ---- the schema ----


class Options:
    """Stands for an analyzer or BM25 options: hashable, compared by identity."""


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


def test_one_text_of_several_columns_alone_is_the_arm_text() -> None:
    assert list(Schema(key="id", cell=None, text=Text("title", "body")).text_arms) == ["text"]


def test_weights_of_one_say_nothing() -> None:
    weighted = Text("title", "body", weights={"body": np.int64(2), "title": 1})
    assert weighted.weights == (("body", 2),)
    assert weighted.column_weights == (1, 2)
    assert repr(weighted) == "Text('title', 'body', weights={'body': 2})"
    assert Text("title", "body", weights={"title": 1}) == Text("title", "body")


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
            text={"body": Text("title", "text", weights={"title": 3}), "alone": "title"},
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


def test_a_key_column_called_key_is_the_result_column_itself() -> None:
    schema = Schema(key="key", cell="org", text="text", stored=("key", "text"))
    assert schema.row_columns == ("key", "org", "text")


def test_a_text_column_named_query_needs_another_stored() -> None:
    with pytest.raises(OptionError, match=r"got 'query', reserved for .+; .+ stored=$"):
        Schema(key="id", cell=None, text="query")
    assert list(Schema(key="id", cell=None, text="query", stored=()).text_arms) == ["query"]


# ---- options are frozen dataclasses, and set their fields in one place ----

PACKAGE = Path(hr.__file__).parent
MODULES = sorted(PACKAGE.rglob("*.py"))
PLAIN_SETTER = "object.__setattr__"
SETTERS = ("set_fields", "convert_field")
HOME = "base/arguments.py"
# Immutable in their own ways; statistics keep their bytes once these are asked for.
NO_DATACLASSES = {"Analyzer", "Filter", "Predicate", "Request"}

OPTIONS: tuple[Any, ...] = (
    hr.BM25("bm25+", k1=1),
    hr.Above(1),
    hr.RRF(alpha=0.25),
    hr.WeightedSum(balance=0.85),
    hr.Max(complete=False),
    hr.DBSF(),
    hr.Buckets("price", [0, 10, None]),
    hr.Feedback(terms=5),
    hr.Around([0.5]),
    hr.Prior("kind", {"note": 1}),
    hr.Dedup(0.9),
    hr.MMR(0.7),
    hr.Budget(100),
    hr.Recency("day", half_life="30d"),
    hr.Composite(time="day", half_life="69h", rating="importance"),
    hr.Linear({"fused": 1}),
    hr.Provenance("kind", {"note": 1}),
    hr.Rerank(window=5),
    hr.RerankBy(len, window=5),
    EmbedBy("off", columns=["text"]),  # type: ignore[arg-type]
    hr.Gate(0.6),
    hr.Phase("only", 0, 1, 0, 0),
    hr.SessionSignals("graph", hops=2),
    Lexical(stopwords=["the"], weight=2),  # type: ignore[arg-type]
    Dense(min_score=0),
    Coefficients(query={"base": 1, "names": 2}, hit={"base": 2}),
    TieBreak("day", prefer=["a"]),  # type: ignore[arg-type]
    Tables("table", ["facts"]),  # type: ignore[arg-type]
    Fill("day"),
    hr.Context("graph", n=2),
    hr.SharedTags("tags"),
    dataclasses.replace(hr.recipes.loom, depth=20),
    hr.Schema(key="id", cell="user", text="text"),
    Placement({"user": "large_string"}, [0] * 4096, {("ann",): [1] * 256}),
    ShardOpening("cpu", 2, pin=["plane"]),
    hr.Text("title", "text"),
    hr.GraphSchema(key="id", cell="user"),
    hr.Scope(["alice", "bob"]),
    hr.Session(n_recalls=3),
    hr.Phrase("disk full", slop=1),
    hr.Fuzzy("mosue", edits=1),
    hr.All("disk", "full"),
    hr.Any("disk", "full"),
    hr.Boost("disk", 2),
    arms.Tags("tags"),
    arms.Regex("code"),
    arms.EdgeLexical("graph"),
    Setting("mine", {"limit": 3}),
    ServiceOptions(allowed_hosts=["a.example"]),  # type: ignore[arg-type]
)
NOT_REPLACED = (hr.Text, hr.All, hr.Any)  # positional parameters, *args
NOT_HASHED = (hr.Session, Setting)  # hold a mapping


@pytest.mark.parametrize("option", OPTIONS, ids=lambda one: type(one).__name__)
def test_an_option_is_a_frozen_dataclass(option: Any) -> None:
    assert dataclasses.is_dataclass(option)
    first, *_ = dataclasses.fields(option)
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(option, first.name, None)
    copies = [pickle.loads(pickle.dumps(option))]
    if not isinstance(option, NOT_REPLACED):
        copies.append(dataclasses.replace(option))
    for copy in copies:
        assert copy == option
        assert repr(copy) == repr(option)
        assert isinstance(option, NOT_HASHED) or hash(copy) == hash(option)


def test_a_replaced_field_is_checked_and_converted_again() -> None:
    fusion = dataclasses.replace(hr.BM25(), b=np.float32(0.5))
    assert fusion.b == 0.5
    assert type(fusion.b) is float
    with pytest.raises(OptionError, match=r"b: expected a number in \[0, 1\], or two, got 2"):
        dataclasses.replace(fusion, b=2.0)


def _setting_classes(source: str) -> Iterator[str]:
    """The classes of a module whose methods set fields of a frozen instance."""
    if not any(name in source for name in SETTERS):
        return
    for node in ast.parse(source).body:
        if isinstance(node, ast.ClassDef) and any(
            isinstance(one, ast.Name) and one.id in SETTERS for one in ast.walk(node)
        ):
            yield node.name


def test_every_class_that_sets_its_fields_is_tried_here() -> None:
    tried = {kind.__name__ for one in OPTIONS for kind in type(one).__mro__}
    found = {name for path in MODULES for name in _setting_classes(path.read_text())}
    assert found - tried == NO_DATACLASSES


def _plain_setters(sources: dict[str, str]) -> list[str]:
    """The modules that set fields of a frozen instance by other means than the two functions."""
    return [name for name, source in sources.items() if PLAIN_SETTER in source and name != HOME]


def test_one_module_knows_how_a_field_of_a_frozen_instance_is_set() -> None:
    sources = {path.relative_to(PACKAGE).as_posix(): path.read_text() for path in MODULES}
    assert PLAIN_SETTER in sources[HOME]
    assert _plain_setters(sources) == []
    planted = sources | {"ask/scoring.py": 'object.__setattr__(self, "k1", 1.0)\n'}
    assert _plain_setters(planted) == ["ask/scoring.py"]


def test_a_field_is_replaced_by_what_its_reader_returns() -> None:
    def doubled(name: str, value: int, times: int = 2) -> int:
        assert name == "slop"
        return value * times

    phrase = hr.Phrase("disk full", slop=3)
    convert_field(phrase, "slop", doubled)
    assert phrase.slop == 6
    convert_field(phrase, "slop", doubled, 5)
    assert phrase.slop == 30


# ---- ages are exact for every time and every `now` ----

EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
NANOSECONDS = {"D": 86_400 * 10**9, "s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
KINDS = [(pa.date32(), "D"), (pa.date64(), "ms")]
KINDS += [(pa.timestamp(unit), unit) for unit in ("s", "ms", "us", "ns")]
NOWS = [
    EPOCH,
    dt.datetime.min.replace(tzinfo=dt.UTC),
    dt.datetime.max.replace(tzinfo=dt.UTC),
    dt.datetime.max.replace(tzinfo=dt.timezone(dt.timedelta(hours=-23))),
    dt.datetime(1677, 1, 1, tzinfo=dt.UTC),
    dt.datetime(2024, 2, 29, 12, 30, 1, 123457, tzinfo=dt.UTC),
    dt.datetime(2500, 1, 1, tzinfo=dt.UTC),
]


def expected(count: int, unit: str, now: dt.datetime) -> float:
    """now - time in Python's integers, in the finer of the unit and microseconds."""
    fine = min(NANOSECONDS[unit], NANOSECONDS["us"])
    instant = (now - EPOCH) // dt.timedelta(microseconds=1) * (NANOSECONDS["us"] // fine)
    return float(instant - count * (NANOSECONDS[unit] // fine)) / (10**9 // fine)


def counts_of(kind: pa.DataType, unit: str, now: dt.datetime) -> list[int]:
    """Extremes, the places where a difference leaves int64, and random counts of every size."""
    bits = kind.bit_width - 1
    rng = random.Random(f"{kind} {now}")
    counts = [sign * (2**bits - near) for sign in (1, -1) for near in (0, 1, 2)]
    counts += [0, 1, -1, 2**62, -(2**62)]
    fine = min(NANOSECONDS[unit], NANOSECONDS["us"])
    instant = (now - EPOCH) // dt.timedelta(microseconds=1) * (NANOSECONDS["us"] // fine)
    for edge in (instant, instant - 2**63, instant + 2**63):
        counts += [edge // (NANOSECONDS[unit] // fine) + near for near in range(-2, 3)]
    counts += [rng.randrange(-(2**bits), 2**bits) >> rng.randrange(bits) for _ in range(50)]
    return [count for count in counts if -(2**bits) <= count < 2**bits]


@pytest.mark.parametrize("now", NOWS, ids=str)
@pytest.mark.parametrize(("kind", "unit"), KINDS, ids=str)
def test_an_age_is_exact_whatever_the_unit_and_the_time(
    kind: pa.DataType, unit: str, now: dt.datetime
) -> None:
    counts = counts_of(kind, unit, now)
    raw = pa.array([*counts, None], pa.int32() if kind.bit_width == 32 else pa.int64())
    ages = age_seconds(raw.view(kind), now)
    assert ages[:-1].tolist() == [expected(count, unit, now) for count in counts]
    assert np.isnan(ages[-1])
    assert age_seconds(raw.view(kind).slice(3), now)[:-1].tolist() == ages[3:-1].tolist()


@pytest.mark.parametrize(
    ("kind", "count", "now", "factor"),
    [
        (pa.timestamp("ns"), -9_214_560_000 * 10**9, dt.datetime(2024, 1, 1), 0.0),  # 1678
        (pa.timestamp("s"), 2**62, dt.datetime(2024, 1, 1), 1.0),
        (pa.timestamp("ms"), 2**62, dt.datetime(2024, 1, 1), 1.0),
        (pa.timestamp("s"), -(2**62), dt.datetime(2024, 1, 1), 0.0),
        (pa.timestamp("ns"), 0, dt.datetime(9999, 1, 1), 0.0),
        (pa.timestamp("ns"), 0, dt.datetime(1600, 1, 1), 1.0),
        (pa.timestamp("ns"), -(2**63), dt.datetime(2024, 1, 1), 0.0),
        (pa.date64(), 0, dt.datetime(2024, 1, 1), 0.0),
    ],
    ids=str,
)
def test_recency_of_extreme_times(
    kind: pa.DataType, count: int, now: dt.datetime, factor: float
) -> None:
    at = pa.array([count], pa.int64()).view(kind)
    schema = hr.Schema(key="id", cell=None, text="text", attributes="at")
    index = hr.Index.build(pa.table({"id": [1], "text": ["tea"], "at": at}), schema)
    for stage in (
        hr.Recency("at", half_life="1d"),
        hr.Composite(time="at", half_life="1d", rating="id"),
    ):
        hits = index.recall(text=["tea"], shaping=stage, now=now)
        table = hits.to_arrow()
        name = "recency_factor" if isinstance(stage, hr.Recency) else "recency_score"
        assert table[name].to_pylist() == [factor]
        assert hits[0][0].explain().score == hits[0][0].score


# ---- nanoseconds, and moments beyond datetime, with and without pandas ----


EXACT_NS, ODD_NS = 1_709_208_000_123_456_000, 1_709_208_000_123_456_789
EXACT_TIME = dt.datetime(2024, 2, 29, 12, 0, 0, 123456)
PARIS = "Europe/Paris"
FINE: list[tuple[pa.DataType, int, Any]] = [
    (pa.timestamp("ns"), EXACT_NS, EXACT_TIME),
    (pa.timestamp("ns"), ODD_NS, np.datetime64(ODD_NS, "ns")),
    (pa.timestamp("ns", PARIS), EXACT_NS, EXACT_TIME.replace(tzinfo=dt.UTC)),
    (pa.timestamp("ns", PARIS), ODD_NS, np.datetime64(ODD_NS, "ns")),
    (pa.duration("ns"), 2_000, dt.timedelta(microseconds=2)),
    (pa.duration("ns"), -2_001, np.timedelta64(-2_001, "ns")),
    (pa.time64("ns"), 3_000, dt.time(microsecond=3)),
    (pa.time64("ns"), 3_001, np.timedelta64(3_001, "ns")),
    (pa.timestamp("s"), 10**12, np.datetime64(10**12, "s")),
    (pa.timestamp("us", PARIS), 10**18, np.datetime64(10**18, "us")),
    (pa.date32(), 10**7, np.datetime64(10**7, "D")),
]
NESTINGS: dict[str, tuple[Any, Any]] = {  # the type and a value of it, from an inner one
    "flat": (lambda kind: kind, lambda value: value),
    "list": (pa.list_, lambda value: [None, value]),
    "fixed list": (lambda kind: pa.list_(kind, 2), lambda value: [value, None]),
    "struct": (lambda kind: pa.struct({"a": kind, "b": pa.int8()}), lambda v: {"a": v, "b": 1}),
    "map": (lambda kind: pa.map_(pa.string(), kind), lambda value: [("k", value)]),
    "structs": (lambda kind: pa.list_(pa.struct({"a": kind})), lambda value: [{"a": value}]),
}


def recalled(array: pa.Array) -> hr.Hits:
    table = pa.table({"id": range(len(array)), "text": ["tea"] * len(array), "x": array})
    schema = hr.Schema(key="id", cell=None, text="text", stored="x")
    return hr.Index.build(table, schema).recall(text=["tea"], columns=["x"])


def innermost(value: Any) -> Any:
    while isinstance(value, list | tuple | dict):
        parts = value.values() if isinstance(value, dict) else value
        value = next(part for part in parts if part is not None and part != "k")
    return value


@pytest.mark.parametrize(("kind", "raw", "wanted"), FINE, ids=str)
def test_a_time_is_datetimes_where_that_is_exact_and_numpys_elsewhere(
    kind: pa.DataType, raw: int, wanted: Any
) -> None:
    for nesting, (outer, wrap) in NESTINGS.items():
        hits = recalled(pa.array([None, wrap(raw)], outer(kind)))
        for values in ([row["x"] for row in hits.to_list()[0]], [hit["x"] for hit in hits[0]]):
            assert values == [None, wrap(wanted)], nesting
            assert type(innermost(values[1])) is type(wanted), nesting


def test_a_column_of_nanoseconds_needs_no_pandas() -> None:
    code = f"""
import sys
class NoPandas:
    def find_spec(self, name, *rest):
        if name.partition(".")[0] == "pandas":
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, NoPandas())
import pyarrow as pa, hyrecall as hr
x = pa.array([{ODD_NS}, {EXACT_NS}, None], pa.timestamp("ns"))
y = pa.StructArray.from_arrays([x], ["a"])
table = pa.table({{"id": [1, 2, 3], "text": ["tea"] * 3, "x": x, "y": y}})
schema = hr.Schema(key="id", cell=None, text="text", attributes="x", stored=("text", "y"))
hits = hr.Index.build(table, schema).recall(text=["tea"], columns=["x", "y"])
print([hit["x"] for hit in hits[0]], [row["y"] for row in hits.to_list()[0]])
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    odd, exact = np.datetime64(ODD_NS, "ns"), EXACT_TIME
    assert done.stdout == f"{[odd, exact, None]} {[{'a': odd}, {'a': exact}, {'a': None}]}\n"
