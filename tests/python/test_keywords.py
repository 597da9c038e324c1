"""A keyword that a public call does not take is refused by name, with the one that is meant."""

import asyncio
import dataclasses
import importlib
import inspect
import sys
from collections.abc import Iterator, Mapping
from types import FrameType
from typing import Any, get_type_hints

import pyarrow as pa
import pytest

import hyrecall as hr
from hyrecall.embed import HashEmbedder
from hyrecall.memory import Episode, Memory, MemorySync
from hyrecall.systems.loom import VectorStore
from refused_keywords import awaited, of_a_store, of_an_index, of_options
from seams import (
    FIXED_FIELDS,
    Changes,
    EpisodeFields,
    OwnFields,
    RecipeSettings,
    Setting,
    check_keywords,
)

MODULES = (
    *(
        "hyrecall",
        "hyrecall.arms",
        "hyrecall.stages",
        "hyrecall.recipe",
        "hyrecall.embed",
    ),
    *("hyrecall.evaluate", "hyrecall.memory", "hyrecall.systems.loom", "hyrecall.systems.l0"),
    *("hyrecall.systems.hypergraph", "hyrecall.rerank", "hyrecall.adapters.documents"),
    *("hyrecall.migrate", "hyrecall.replicas", "hyrecall.distributed"),
    "hyrecall.distributed.ray_serve",
)
# What nobody calls with options: replies, and functions of one or two plain values.
REPLIES = {
    *("Held", "Pruned", "Pulled", "Pushed", "ShardHealth"),
    *(
        "Hit",
        "Explanation",
        "NearRow",
        "Neighbour",
        "Related",
        "StageTrace",
        "ThreadRow",
        "Trace",
        "Token",
        "Batch",
    ),
    *("Candidates", "Around", "EmbedFault", "Comparison", "Run"),
    *(
        *("Learnt", "LearntConfidence", "Calibration"),
        "Scores",
        "Study",
        "Tuned",
        "Degradation",
        "DegradedReason",
        "Facts",
        "Matches",
        "Reading",
    ),
    *("NoteHit", "ReadPolicyFault", "Remembered", "Version", "FoundDocument"),
    *("LeftOut", "Migrated", "Record", "Source", "DatasetHits"),
}
PLAIN_FUNCTIONS = {
    "study_text",
    *("is_pattern", "newest_rows", "check_stages"),
}
# Replies with methods that take options: our own calls make them, once a query.
MADE_BY_CALLS = {"Hits.__init__", "QueryHits.__init__"}
# What hands its options to a memory of any kind, or takes names that the caller chose.
OPEN = {
    *("AutoExtract", "Lazy", "RecallOnly", "default_recall_scored", "grid"),
    "FusedLists.with_arrays",
    *("Filter.__init__", "Scope.matching", "Setting.but"),
}


def public_callables() -> Iterator[tuple[str, Any]]:
    """Functions, constructors and public methods of what the modules export."""
    for module in map(importlib.import_module, MODULES):
        for name in module.__all__:
            thing = getattr(module, name)
            is_model = hasattr(thing, "model_fields")  # pydantic has its own errors
            if not callable(thing) or is_model or name in REPLIES | PLAIN_FUNCTIONS | OPEN:
                continue
            if not isinstance(thing, type):
                yield name, thing
            elif not issubclass(thing, BaseException) and not getattr(thing, "_is_protocol", False):
                yield from methods_of(name, thing)


def methods_of(name: str, kind: type) -> Iterator[tuple[str, Any]]:
    for method in ("__init__", *(one for one in dir(kind) if not one.startswith("_"))):
        static = inspect.getattr_static(kind, method)
        function = getattr(static, "__func__", static)
        is_ours = inspect.isfunction(function) and function.__module__.startswith("hyrecall")
        if is_ours and f"{name}.{method}" not in OPEN | MADE_BY_CALLS:
            yield f"{name}.{method}", function


CALLABLES = dict(public_callables())


@pytest.mark.parametrize("name", CALLABLES)
def test_every_public_call_refuses_an_unknown_keyword_before_it_runs(name: str) -> None:
    function = CALLABLES[name]
    kinds = {one.kind for one in inspect.signature(function).parameters.values()}
    assert inspect.Parameter.VAR_KEYWORD not in kinds  # a type checker sees all options
    is_awaited = inspect.iscoroutinefunction(function)
    with pytest.raises(hr.UnknownOptionError, match="got 'no_such_option'") as raised:
        asyncio.run(function(no_such_option=1)) if is_awaited else function(no_such_option=1)
    assert isinstance(raised.value, TypeError)
    assert isinstance(raised.value, hr.OptionError)
    assert raised.value.argument


@pytest.fixture(scope="module")
def index() -> hr.Index:
    import pyarrow as pa

    table = pa.table({"id": ["a"], "user": ["ana"], "text": ["tea"]})
    return hr.Index.build(table, hr.Schema(key="id", cell="user", text="text"))


def meant(call: Any) -> str:
    with pytest.raises(hr.UnknownOptionError) as raised:
        call()
    head, _, rest = str(raised.value).partition(": expected one of its options (did you mean ")
    return f"{head}: {rest.partition('=?')[0]}"


def test_the_option_that_is_meant_is_named(index: hr.Index) -> None:
    with MemorySync.in_memory(recipe=hr.recipes.loom, embedder=None) as memory:
        view = memory.agent("ann", org="o", workspace="w")
        calls = [
            *of_an_index(index),
            *of_options(hr.recipes.default),
            *of_a_store(memory, view, VectorStore(HashEmbedder(dim=4))),
        ]
        assert [meant(call) for _, call in calls] == [told for told, _ in calls]
        assert memory.list() == []


def test_awaited_calls_name_it_too(index: hr.Index) -> None:
    async def main() -> list[tuple[str, str]]:
        found = []
        async with Memory.in_memory(recipe=hr.recipes.loom, embedder=None) as memory:
            for told, call in awaited(index, memory):
                with pytest.raises(hr.UnknownOptionError) as raised:
                    await call()
                assert f"did you mean {told.split(': ')[1]}=?" in str(raised.value)
                found.append((told.split(": ")[0], str(raised.value).split(":")[0]))
        return found

    assert all(told == said for told, said in asyncio.run(main()))


def test_where_nothing_is_near_the_options_are_listed() -> None:
    with pytest.raises(hr.UnknownOptionError) as raised:
        hr.Dedup(0.9, zzz=1)  # type: ignore[call-arg]
    wish = "one of its options (threshold, scale, vector, keep, prefer)"
    assert str(raised.value) == f"Dedup: expected {wish}, got 'zzz'"
    assert raised.value.argument == "Dedup"


def test_a_call_without_options_says_so(index: hr.Index) -> None:
    with pytest.raises(hr.UnknownOptionError, match=r"^compact: expected no options, got 'force'$"):
        index.compact(force=True)  # type: ignore[call-arg]


def test_a_value_without_a_name_is_told_the_names(index: hr.Index) -> None:
    with pytest.raises(hr.UnknownOptionError) as raised:
        index.recall_one("tea")  # type: ignore[misc]
    wish = "options by name (text=, vector=, scope=, ...)"
    assert str(raised.value) == f"recall_one: expected {wish}, got 'tea' without a name"
    with pytest.raises(hr.UnknownOptionError, match=r"^compact: expected no more values, got 3 "):
        index.compact(3)  # type: ignore[call-arg]
    with pytest.raises(hr.UnknownOptionError, match=r"^delete: .*by name \(scope=, filter="):
        index.delete(["a"], "ann")  # type: ignore[misc]


def test_other_mistakes_stay_python_s_own() -> None:
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        hr.Dedup()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="multiple values for argument 'threshold'"):
        hr.Dedup(0.9, threshold=0.9)  # type: ignore[misc]


def test_signatures_are_those_of_the_functions_themselves() -> None:
    assert inspect.signature(hr.Index.arecall) == inspect.signature(hr.Index.recall).replace(
        return_annotation="Hits"
    )
    assert inspect.iscoroutinefunction(hr.Index.arecall)
    assert list(inspect.signature(hr.RRF).parameters) == [
        *("weights", "rank_constant", "alpha", "alpha_mode")
    ]
    shown = inspect.signature(MemorySync.remember).parameters["user_id"]
    assert (shown.kind, shown.default) == (inspect.Parameter.KEYWORD_ONLY, ...)


@pytest.mark.parametrize("call", [MemorySync.remember, Memory.update, hr.Recipe.replace])
def test_help_shows_the_types_of_fields_as_they_are_written(call: Any) -> None:
    assert "ForwardRef" not in str(inspect.signature(call))
    assert ": 'str | None' = " in str(inspect.signature(call))


def test_a_function_with_open_options_is_left_as_it_is() -> None:
    def open_ended(**options: object) -> Mapping[str, object]:
        return options

    assert check_keywords(open_ended) is open_ended


def names(kind: Any) -> set[str]:
    return set(kind.__annotations__)


def test_typed_options_are_those_of_what_they_stand_for() -> None:
    fields = set(Episode.model_fields)
    assert names(RecipeSettings) == {one.name for one in dataclasses.fields(hr.Recipe)}
    said = fields - {"stored_at", "version"}  # which the store sets
    assert names(EpisodeFields) == said - {"text"}
    assert names(Changes) == said - set(FIXED_FIELDS) | {"valid_to"}  # of a fact
    assert names(OwnFields) == said - {"text", "user_id", "org", "workspace", "visibility"}
    with pytest.raises(hr.UnknownOptionError, match=r"^options: .*did you mean limit="):
        Setting("other", {"top_k": 3})


def test_one_query_is_checked_once_and_makes_no_options_again() -> None:
    table = {"id": ["a"], "text": ["green tea"]}
    index = hr.Index.build(pa.table(table), hr.Schema(key="id", cell=None, text="text"))
    index.recall_one(text="tea")
    made: list[str] = []

    def note(frame: FrameType, event: str, _: object) -> None:
        name = frame.f_code.co_name
        if event == "call" and name in ("direct", "__post_init__"):
            made.append(name)

    sys.setprofile(note)
    try:
        index.recall_one(text="tea")
    finally:
        sys.setprofile(None)
    assert made == ["direct"]


def test_annotations_of_get_count_and_delete_can_be_evaluated() -> None:
    for call in (hr.Index.count, hr.Index.delete, hr.Index.get):
        assert "scope" in get_type_hints(call)
