"""The public face: what is there and documented, and what is not there yet."""

import dataclasses
import enum
import importlib
import inspect
from collections.abc import Mapping
from typing import Any

import pytest

import hyrecall as hr
from api.description import load
from api.test_baseline import MODULES, MORE
from docs.docstrings import faults

DEFAULTS = {
    "limit": 10,
    "offset": 0,
    "depth": 100,
    "normalize": False,
    "columns": (),
    "scope": None,
    "fusion": None,
}
LATER = ("Memory",)
TESTED_BY_VALUE = {"ANY", "__version__", "arms", "recipes"}

# What has its docstrings held against its signatures.
DOCUMENTED = (
    *("hyrecall.embed", "hyrecall.memory", "hyrecall.systems.loom", "hyrecall.serve"),
    "hyrecall.serve.mcp",
    *(
        "hyrecall.systems.loom.contract",
        "hyrecall.memory.faces.browse",
        "hyrecall.systems.hypergraph",
    ),
    *("hyrecall.systems.l0",),
    "hyrecall.adapters.documents",
    "hyrecall.folders",
)


def test_defaults_of_recall_are_those_of_the_contract() -> None:
    parameters = inspect.signature(hr.Index.recall).parameters
    assert {name: parameters[name].default for name in DEFAULTS} == DEFAULTS
    assert hr.RRF().rank_constant == 60
    assert (hr.BM25().variant, hr.BM25().k1, hr.BM25().b) == ("lucene", 1.2, 0.75)
    assert hr.Analyzer().name == "unicode"


def test_every_parameter_of_a_verb_is_documented() -> None:
    missing = []
    for name in ("build", "recall", "add", "delete", "save", "open"):
        verb = getattr(hr.Index, name)
        text = inspect.getdoc(verb) or ""
        entries = [line for line in text.splitlines() if line and not line.startswith(" ")]
        named = {word.strip(" *,") for line in entries for word in line.partition(" :")[0].split()}
        wanted = set(inspect.signature(verb).parameters) - {"self"}
        missing += [f"{name}: {parameter}" for parameter in wanted - {w.strip(",") for w in named}]
    assert missing == []


@pytest.mark.parametrize("name", sorted(set(hr.__all__) - TESTED_BY_VALUE))
def test_a_public_name_has_a_docstring_that_shows_or_lists(name: str) -> None:
    thing = getattr(hr, name)
    text = inspect.getdoc(thing) or ""
    assert len(text.split()) >= 3
    if isinstance(thing, type) and issubclass(thing, Exception):
        return
    # Parameters of a frozen value are its attributes.
    sections = ("Examples\n--------", "Attributes\n----------", "Parameters\n----------")
    assert any(section in text for section in sections)


@pytest.mark.parametrize(
    "value",
    [
        *(hr.BM25(), hr.RRF(), hr.WeightedSum(), hr.Max(), hr.DBSF(), hr.Above(0.5)),
        hr.Scope(["a"]),
        *(hr.Phrase("a"), hr.Prefix("a"), hr.All("a"), hr.Any("a"), hr.Boost("a", 2.0)),
        *(hr.Not("a"), hr.Fuzzy("a")),
        *(hr.Text("a"), hr.Vector("a"), hr.Schema(key="a", cell=None, text="b")),
    ],
    ids=repr,
)
def test_options_and_queries_are_frozen_and_hashable(value: object) -> None:
    hash(value)
    with pytest.raises(AttributeError):
        setattr(value, dataclasses.fields(value)[0].name, None)  # type: ignore[arg-type]


def test_the_wildcard_of_scopes_is_a_value_of_its_own() -> None:
    assert isinstance(hr.ANY, enum.Enum)
    assert repr(hr.ANY) == "hyrecall.ANY"


def test_every_error_is_also_the_builtin_that_a_caller_expects() -> None:
    builtin = {
        "ShapeError": ValueError,
        "DTypeError": TypeError,
        "OptionError": ValueError,
        "UnknownOptionError": TypeError,
        "ScopeError": LookupError,
        "KeyConflictError": ValueError,
        "WriterBusyError": RuntimeError,
        "TooManyScansError": RuntimeError,
        "SaveConflictError": RuntimeError,
        "DeviceUnavailableError": RuntimeError,
        "DeviceMemoryError": MemoryError,
        "CorruptIndexError": OSError,
        "IndexNotFoundError": FileNotFoundError,
        "MissingExtraError": ImportError,
        "NotFoundError": LookupError,
        "StoreError": OSError,
        "StoreNotFoundError": FileNotFoundError,
        "CorruptStoreError": OSError,
        "StoreFormatError": OSError,
        "OwnerError": OSError,
        "StoreBusyError": RuntimeError,
        "StoreMismatchError": ValueError,
        "IndexMismatchError": ValueError,
        "InternalError": RuntimeError,
    }
    errors = {name for name in hr.__all__ if name.endswith("Error")} - {"HyrecallError"}
    assert errors == builtin.keys()
    for name, parent in builtin.items():
        assert issubclass(getattr(hr, name), hr.HyrecallError)
        assert issubclass(getattr(hr, name), parent)


@pytest.mark.parametrize("name", LATER)
def test_what_belongs_to_later_work_is_absent_not_a_stub(name: str) -> None:
    assert not hasattr(hr, name)
    assert name not in hr.__all__


def documented_names() -> list[tuple[str, str]]:
    """Module and name of each public callable of the modules whose docstrings are whole."""
    return [
        (module, name)
        for module in DOCUMENTED
        for name in importlib.import_module(module).__all__
        if callable(getattr(importlib.import_module(module), name))
    ]


@pytest.mark.parametrize(("module", "name"), documented_names())
def test_a_docstring_says_what_is_taken_given_and_raised(module: str, name: str) -> None:
    assert faults(name, getattr(importlib.import_module(module), name)) == []


def undocumented(modules: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return the public names, and the public members of their classes, without a docstring."""
    out = []
    for module, names in modules.items():
        for name, thing in names.items():
            if not (inspect.isclass(thing) or inspect.isroutine(thing)):
                continue
            if not (thing.__doc__ or "").strip():
                out.append(f"{module}.{name}")
            for kind in inspect.getmro(thing) if inspect.isclass(thing) else ():
                if kind.__module__.partition(".")[0] != "hyrecall":
                    continue
                for member, value in vars(kind).items():
                    has_words = isinstance(value, property | classmethod | staticmethod)
                    if member.startswith("_") or not (has_words or inspect.isfunction(value)):
                        continue
                    if not (inspect.getdoc(getattr(kind, member)) or "").strip():
                        out.append(f"{module}.{name}.{member}")
    return sorted(set(out))


def test_every_public_name_and_member_has_a_docstring() -> None:
    for package in ("apsw", "pydantic", "fastapi", "uvicorn", "prometheus_client", "mcp"):
        pytest.importorskip(package, reason="the extra [serve] is not installed")
    assert undocumented(load(MODULES, MORE)) == []


def test_a_member_without_a_docstring_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hr.Index, "count", lambda _: 0)
    assert undocumented(load(("hyrecall",), {})) == ["hyrecall.Index.count"]
