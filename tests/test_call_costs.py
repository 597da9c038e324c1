"""How many Python functions one query calls, and what importing the package must not import.

A count is the same on a busy machine, where a time is not. Each bound has room for a tenth more:
who needs more than that has added a layer to every call.
"""

import ast
import importlib
import json
import pkgutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import hyrecall as hr
from hyrecall.embed import HashEmbedder
from hyrecall.memory import Episode, MemorySync

MOST_OF_RECALL_ONE = 10
MOST_OF_A_SEARCH = {
    "words": 150,
    "vectors": 185,
}  # a hash embedder has more calls than a static one
N_MATCHES = 10

# Loaded by the calls that need them: half of the package, and packages that take a third of the
# import. `pyarrow.compute` makes a function of each of its kernels when it is imported.
NOT_IMPORTED = {
    *("tokenizers", "huggingface_hub", "Stemmer" if find_spec("Stemmer") else "snowballstemmer"),
    *("asyncio", "concurrent.futures", "difflib", "html", "logging", "pydoc", "sysconfig"),
    *("pyarrow.compute", "pyarrow.dataset", "pyarrow.parquet", "pyarrow.pandas_compat"),
    *("hyrecall.arm", "hyrecall.arms", "hyrecall.ask.arrow_conditions"),
    *("hyrecall.ask.expansion", "hyrecall.ask.recipe"),
    *("hyrecall.base.text_tables", "hyrecall.embed", "hyrecall.evaluate", "hyrecall.graph"),
    *("hyrecall.hits.around", "hyrecall.hits.dropped", "hyrecall.hits.explain_text"),
    *("hyrecall.hits.hit_tables", "hyrecall.hits.joined_reply", "hyrecall.memory"),
    *("hyrecall.distributed", "hyrecall.folders", "hyrecall.parts.messages"),
    *("hyrecall.parts.merging", "hyrecall.parts.shard"),
    *("hyrecall.recall.arms", "hyrecall.recall.exact"),
    *("hyrecall.recall.explain", "hyrecall.recall.explain_dropped"),
    *("hyrecall.recall.grouping", "hyrecall.recall.recipe_answer"),
    *("hyrecall.recall.shaper", "hyrecall.recipe"),
    *("hyrecall.stages.evidence", "hyrecall.stages.feedback", "hyrecall.stages.lists"),
    *("hyrecall.stages.session", "hyrecall.stages.session_signals", "hyrecall.stages.stage"),
    *("hyrecall.recipes", "hyrecall.rerank", "hyrecall.segments.saving"),
}


def calls_of(call: Callable[[], object]) -> int:
    """Return how many Python functions a call calls on this thread, the least of three times."""
    counts = []
    for _ in range(3):
        count = 0

        def note(_frame: FrameType, event: str, _: object) -> None:
            nonlocal count
            count += event == "call"

        sys.setprofile(note)
        try:
            call()
        finally:
            sys.setprofile(None)
        counts.append(count)
    return min(counts)


@pytest.fixture(autouse=True)
def _records_no_spans(monkeypatch: pytest.MonkeyPatch) -> None:
    """Count what a program without OpenTelemetry pays, whatever other tests have imported."""
    monkeypatch.delitem(sys.modules, "opentelemetry.trace", raising=False)


@pytest.fixture(scope="module")
def index() -> hr.Index:
    rng = np.random.default_rng(0)
    table = pa.table(
        {
            "id": np.arange(40),
            "user": ["ann", "bob"] * 20,
            "year": [1, 1, 2, 2] * 10,
            "talk": [f"t{at // 4}" for at in range(40)],
            "text": [f"tea number {at}" for at in range(40)],
        }
    )
    rows = rng.normal(size=(40, 8)).astype(np.float32)
    schema = hr.Schema(
        key="id", cell="user", text="text", vector="embedding", attributes="year", thread="talk"
    )
    return hr.Index.build(table, schema, vectors={"embedding": rows}, device="cpu")


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"recipe": hr.recipes.default},
        {"recipe": hr.recipes.conversation},
        {"filter": hr.Filter(year=1)},
        {"group": "thread"},
    ],
    ids=str,
)
def test_one_hybrid_query_calls_few_python_functions(
    index: hr.Index, options: dict[str, Any]
) -> None:
    vector = np.ones(8, np.float32)

    def ask() -> object:
        return index.recall_one(text="tea number", vector=vector, scope="ann", **options)

    ask()
    assert calls_of(ask) <= MOST_OF_RECALL_ONE


@contextmanager
def store(embedder: HashEmbedder | None) -> Iterator[MemorySync]:
    with MemorySync.in_memory(embedder=embedder, recall_timeout=30.0) as memory:
        episodes = [
            Episode(id=f"e{at}", user_id="ann", text=f"tea number {at}") for at in range(40)
        ]
        memory.remember_batch(episodes)
        memory.search("tea", user_id="ann")  # the index is built
        yield memory


@pytest.mark.parametrize("by", MOST_OF_A_SEARCH)
def test_a_search_of_a_store_calls_few_python_functions_and_none_a_match(by: str) -> None:
    with store(HashEmbedder(dim=8) if by == "vectors" else None) as memory:

        def search(limit: int) -> int:
            def ask() -> None:
                assert len(memory.search("tea number", user_id="ann", limit=limit)) == limit

            return calls_of(ask)

        few, many = search(1), search(1 + N_MATCHES)
    assert few == many <= MOST_OF_A_SEARCH[by]


def loaded_by(code: str) -> set[str]:
    package = Path(hr.__file__).parent.parent
    env = {"PYTHONPATH": str(package), "PATH": "/usr/bin:/bin", "CUDA_VISIBLE_DEVICES": ""}
    code = f"{code}; import json, sys; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout))


def test_importing_loads_next_to_nothing_until_a_name_is_asked_for() -> None:
    loaded = loaded_by("import hyrecall")
    ours = {name for name in loaded if name.startswith("hyrecall.")}
    assert ours == {
        *("hyrecall.base", "hyrecall.base.starting"),
        *("hyrecall.base.version", "hyrecall.stages", "hyrecall.stages.registry"),
    }
    assert not loaded & {"numpy", "pyarrow", "dataclasses", "inspect"}


def test_importing_loads_what_an_index_needs_and_no_more() -> None:
    loaded = loaded_by("import hyrecall; hyrecall.Index")
    assert {"hyrecall.index", "hyrecall.recall.planning", "hyrecall._core"} <= loaded
    by_numpy = loaded_by("import numpy")  # 2.5: sysconfig
    assert (loaded - by_numpy) & NOT_IMPORTED == set()


def test_what_must_not_be_imported_is_there_to_be_imported() -> None:
    assert loaded_by(f"import {', '.join(sorted(NOT_IMPORTED))}") >= NOT_IMPORTED


def test_names_that_are_imported_later_are_listed_and_others_are_refused() -> None:
    assert set(hr.__all__) <= set(dir(hr))
    with pytest.raises(AttributeError, match=r"^module 'hyrecall' has no attribute 'Indexes'$"):
        _ = hr.Indexes


@pytest.mark.parametrize("module", ["__init__", "ask/__init__", "hits/__init__", "parts/__init__"])
def test_names_that_are_imported_later_are_those_that_a_type_checker_sees(module: str) -> None:
    package = Path(hr.__file__).parent
    tree = ast.parse((package / f"{module}.py").read_text())
    (seen,) = (
        node
        for node in tree.body
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    )
    wanted = {
        (f"{node.module}.{one.name}", one.asname or one.name)
        for node in seen.body
        if isinstance(node, ast.ImportFrom)
        for one in node.names
    }
    name = ".".join(("hyrecall", *Path(module).parts[:-1]))
    lazy = importlib.import_module(name)
    for home, own in wanted:
        assert getattr(lazy, own) is pkgutil.resolve_name(home), own
    later = {one for names in vars(lazy).get("_LATER", {}).values() for one in names}
    assert later <= {own for _, own in wanted}
