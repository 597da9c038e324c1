"""Arrays, lone surrogates and other things that no argument takes: always a typed error."""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import hyrecall as hr
from hyrecall.errors import error

LONE = "\ud800"
HOSTILE: list[Any] = [
    np.array([1, 2]), np.array(["a", "b"]), np.array(3), np.array([]), np.array([[1]]),
    pa.array([1, 2]), {"a": np.array([1, 2])}, [np.array([1, 2])], b"\xff", LONE, object(),
    float("nan"), 10**400, np.datetime64("NaT"),
]  # fmt: skip
TABLE = pa.table({
    "id": range(4),
    "who": ["a", "a", "b", "b"],
    "text": ["tea cup"] * 4,
    "v": pa.array(np.eye(4, dtype=np.float32).tolist(), pa.list_(pa.float32(), 4)),
    "at": pa.array(range(4), pa.timestamp("us")),
    "k": ["x", "y", "x", "y"],
})  # fmt: skip
SCHEMA = hr.Schema(key="id", cell="who", text="text", vector="v", attributes=("at", "k"))
RECALL = (
    "arms", "columns", "bm25", "session", "expansion", "graphs", "shaping", "fusion", "min_score",
    "min_fused", "limit", "offset", "depth", "now", "normalize", "recipe", "candidates", "scope",
    "filter", "text", "vectors",
)  # fmt: skip
CALLS: dict[str, Callable[[Any], object]] = {
    "device": lambda v: hr.Index.build(TABLE, SCHEMA, device=v),
    "threads": lambda v: hr.Index.build(TABLE, SCHEMA, threads=v),
    "first_seq": lambda v: hr.Index.build(TABLE, SCHEMA, first_seq=v),
    "analyzer": lambda v: hr.Index.build(TABLE, SCHEMA, analyzer=v),
    "bm25": lambda v: hr.Index.build(TABLE, SCHEMA, bm25=v),
    "vectors": lambda v: hr.Index.build(TABLE.drop(["v"]), SCHEMA, vectors=v),
    "its vectors": lambda v: hr.Index.build(TABLE.drop(["v"]), SCHEMA, vectors={"v": v}),
    "BM25": hr.BM25,
    "k1": lambda v: hr.BM25(k1=v),
    "Scope": hr.Scope,
    "a cell": lambda v: index().recall(text=["tea"], scope=hr.Scope([v])),
    "a cell's part": lambda v: index().recall(text=["tea"], scope=(v,)),
    "delete": lambda v: fresh().delete(v, scope="a"),
    "delete a key": lambda v: fresh().delete([v], scope="a"),
    "delete's scope": lambda v: fresh().delete([1], scope=v),
    "key": lambda v: hr.Schema(key=v, cell=None, text="text"),
    "cell": lambda v: hr.Schema(key="id", cell=v, text="text"),
    "text": lambda v: hr.Schema(key="id", cell=None, text=v),
    "text arm": lambda v: hr.Schema(key="id", cell=None, text=[(v, hr.Text("text"))]),
    "vector": lambda v: hr.Schema(key="id", cell=None, vector=v),
    "attributes": lambda v: hr.Schema(key="id", cell=None, text="text", attributes=v),
    "stored": lambda v: hr.Schema(key="id", cell=None, text="text", stored=v),
    "cluster": lambda v: hr.Schema(key="id", cell=None, text="text", cluster=v),
    "stopwords": lambda v: hr.Analyzer("unicode", stopwords=v),
    "a stop word": lambda v: hr.Analyzer("unicode", stopwords=[v]),
    "dtype": lambda v: hr.Vector("v", dtype=v),
    "weights": lambda v: hr.RRF(weights=v),
    "alpha": lambda v: hr.RRF(alpha=v),
    "alpha_mode": lambda v: hr.RRF(alpha=0.5, alpha_mode=v),
    "normalize": lambda v: hr.WeightedSum(normalize=v),
    "scale": lambda v: hr.Dedup(0.5, scale=v),
    "relevance": lambda v: hr.MMR(0.5, relevance=v),
    "half_life": lambda v: hr.Recency("at", half_life=v),
    "half_lives": lambda v: hr.Recency("at", by="k", half_lives=v),
    "Prefix": lambda v: index().recall(text=[hr.Prefix(v)], scope="a"),
    "attribute": lambda v: index().recall(text=["tea"], scope="a", filter=hr.Filter(at=v)),
    "memory": lambda v: hr.Index.open("nowhere", memory=v),
    "verify": lambda v: hr.Index.open("nowhere", verify=v),
}
for option in RECALL:
    CALLS[f"recall {option}"] = lambda v, option=option: index().recall(
        **{"text": ["tea"], "scope": "a", option: v}
    )


def refusal(call: Callable[[Any], object], value: object) -> tuple[str | None, str]:
    """The message of a refusal and the argument that it names; None: the value was taken."""
    try:
        call(value)
    except hr.HyrecallError as fault:
        return str(fault), fault.argument  # type: ignore[attr-defined]
    return None, ""


def fresh() -> hr.Index:
    return hr.Index.build(TABLE, SCHEMA, device="cpu")


@cache
def index() -> hr.Index:
    return fresh()


@pytest.mark.parametrize("call", CALLS)
def test_what_an_argument_does_not_take_is_a_typed_error(call: str) -> None:
    for value in HOSTILE:
        said, argument = refusal(CALLS[call], value)
        assert said is None or (": expected " in said and ", got " in said), repr(value)
        assert said is None or argument
        assert (said or "").encode() is not None  # it can be printed


def test_a_lone_surrogate_is_no_word_to_complete() -> None:
    with pytest.raises(hr.OptionError, match=r"text\[0\]: expected valid Unicode"):
        index().recall(text=[hr.Prefix(LONE)], scope="a")


def test_an_error_of_a_name_with_a_lone_surrogate_can_be_printed() -> None:
    with pytest.raises(hr.OptionError) as caught:
        index().recall(text=["tea"], scope="a", filter=hr.Filter(**{f"é{LONE}": 1}))
    message, argument = str(caught.value), caught.value.argument  # type: ignore[attr-defined]
    assert argument == "é\\ud800"
    assert message.encode().decode().startswith(f"{argument}: expected an attribute column")


def test_all_parts_of_an_error_can_be_printed() -> None:
    made = error(hr.OptionError, f"a{LONE}", f"b{LONE}", f"c{LONE}", f"d{LONE}")
    parts = (str(made), made.argument, made.remedy)  # type: ignore[attr-defined]
    shown = r"a\ud800: expected b\ud800, got c\ud800; d\ud800"
    assert parts == (shown, r"a\ud800", r"d\ud800")


class Dlpack:
    """An array that has nothing but DLPack."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self._array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self._array.__dlpack_device__()


def test_a_dlpack_array_without_axes_is_refused() -> None:
    one = Dlpack(np.array(1.0, np.float32))
    for given in (one, {"v": one}, [one]):
        with pytest.raises(hr.ShapeError, match=r"^vectors.*: expected "):
            index().recall(vectors=given, scope="a")
    with pytest.raises(hr.ShapeError, match="expected"):
        hr.Index.build(TABLE.drop(["v"]), SCHEMA, vectors={"v": one})


def test_texts_of_a_numpy_array_live_as_long_as_they_are_read() -> None:
    # The array makes a str when it is asked for one, and nobody else holds it.
    words = np.array(["tea " * 50 + str(at) for at in range(200)])
    numbers = np.arange(200)
    hits = index().recall(text=words, scope="a")
    assert hits.to_arrow() == index().recall(text=words.tolist(), scope="a").to_arrow()
    with pytest.raises(hr.DTypeError, match=r"^text\[0\]: expected a str"):
        index().recall(text=numbers, scope="a")
