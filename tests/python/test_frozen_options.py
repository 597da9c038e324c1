"""Options are frozen dataclasses for those who use them, and set their fields in one place."""

import ast
import dataclasses
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hyrecall as hr
from hyrecall import arms
from hyrecall.distributed import Placement
from hyrecall.embed import EmbedBy
from hyrecall.errors import OptionError
from hyrecall.evaluate import Setting
from hyrecall.recipe import Dense, Fill, Lexical, Tables, TieBreak
from seams import ServiceOptions, ShardOpening, convert_field

PACKAGE = Path(hr.__file__).parent
MODULES = sorted(PACKAGE.rglob("*.py"))
PLAIN_SETTER = "object.__setattr__"
SETTERS = ("set_fields", "convert_field")
HOME = "base/arguments.py"
# Immutable in their own ways.
NO_DATACLASSES = {"Analyzer", "Filter", "Predicate", "Request"}

OPTIONS: tuple[Any, ...] = (
    hr.BM25("bm25+", k1=1),
    hr.Above(1),
    hr.RRF(alpha=0.25),
    hr.WeightedSum(balance=0.85),
    hr.Max(complete=False),
    hr.DBSF(),
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
