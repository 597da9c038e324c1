"""No call of the native module crashes, whatever it is given, and every refusal has a type."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import hyrecall as hr
from engine import hostile_calls
from engine.hostile_calls import LEFT_OUT, stub_targets
from hyrecall import _core
from laws.effort import Effort

SCRIPT = Path(__file__).with_name("hostile_calls.py")


@pytest.mark.plain_cases(1)
@pytest.mark.parametrize("seed", [1, 2])
def test_hostile_calls_neither_crash_nor_raise_untyped_errors(
    seed: int, tmp_path: Path, effort: Effort
) -> None:
    told = tmp_path / "call"
    n_calls = effort.cases(quick=270, full=20_000)
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(seed), str(n_calls), str(told)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{told.read_text()}\n{done.stderr}"
    n_targets = len(list(stub_targets())) - len(LEFT_OUT)
    assert done.stdout.startswith(f"{n_calls} calls of {n_targets} targets:")


def test_what_is_never_called_is_a_target_of_the_stubs() -> None:
    assert set(LEFT_OUT) <= {target.name for target in stub_targets()}


def test_the_walk_fails_if_a_target_is_never_called(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pool = hostile_calls.objects()
    del pool["Adjacency"]
    monkeypatch.setattr(hostile_calls, "objects", lambda: pool)
    targets = [t for t in stub_targets() if t.owner in (None, "Adjacency")]
    monkeypatch.setattr(hostile_calls, "stub_targets", lambda: iter(targets))
    monkeypatch.setattr(hostile_calls.Target, "find", lambda _: lambda *_, **__: None)
    never = [t.name for t in targets if t.owner is not None]
    assert hostile_calls.main(1, len(targets), tmp_path / "call") == len(never) > 0
    assert capsys.readouterr().err == f"never called: {', '.join(sorted(never))}\n"


def test_the_walk_knows_every_public_name_of_the_native_module() -> None:
    known = {target.name.split(".")[0] for target in stub_targets()}
    modules = {"arithmetic", "arms", "device", "queries", "rows", "shaping"}
    errors = {name for name in dir(_core) if name.endswith("Error")}
    numbers = {name for name, value in vars(_core).items() if isinstance(value, int)}
    named = {name for name in dir(_core) if not name.startswith("_")} - modules - errors - numbers
    assert named <= known
    assert len(list(stub_targets())) > 100


def offered(module: ModuleType) -> Iterator[tuple[str, Any]]:
    """Functions, classes, and their methods and properties, by name; no errors."""
    for name, thing in vars(module).items():
        where = f"{module.__name__}.{name}"
        if isinstance(thing, ModuleType):
            if thing.__name__.startswith(_core.__name__):
                yield from offered(thing)
        elif isinstance(thing, type):
            if issubclass(thing, BaseException):
                continue
            yield where, thing
            for member, held in vars(thing).items():
                if callable(held) or isinstance(held, property | staticmethod):
                    if member in {"__new__", "_pybind11_conduit_v1_"}:
                        continue
                    yield f"{where}.{member}", held
        elif callable(thing):
            yield where, thing


def own_words(thing: Any) -> str:
    """Return a docstring without the signatures that pybind11 writes above it."""
    text = getattr(thing, "__func__", thing).__doc__ or ""
    name = getattr(thing, "__name__", "")
    lines = (line for line in text.splitlines() if not (name and line.startswith(f"{name}(")))
    return " ".join(lines).strip()


def test_every_native_name_has_a_docstring() -> None:
    names = dict(offered(_core))
    assert len(names) > 150
    assert [name for name, thing in names.items() if not own_words(thing)] == []


@pytest.fixture(scope="module")
def index() -> hr.Index:
    table = pa.table({"id": [1, 2], "text": ["tea", None]})
    schema = hr.Schema(key="id", cell=None, text="text", vector="v")
    return hr.Index.build(table, schema, vectors={"v": np.eye(2, dtype=np.float32)}, device="cpu")


def test_rows_that_are_not_there_are_refused(index: hr.Index) -> None:
    state = index._state
    lexical = state.segments[0].lexical["text"]
    view = state.views[0]
    none = np.zeros(0, np.uint32)
    with pytest.raises(_core.HyrecallError):
        lexical.doc_length(2**31)
    with pytest.raises(_core.HyrecallError):
        _core.LexicalColumn.merge([], none, none)
    with pytest.raises(_core.HyrecallError):
        _core.LexicalColumn.merge([lexical], np.zeros(1, np.uint32), np.full(1, 2, np.uint32))
    with pytest.raises(_core.HyrecallError):
        _core.DenseColumn.merge([], none, none)
    with pytest.raises(_core.HyrecallError):
        _core.Statistics.add([])
    for rows in ([2**31], [2], [0, 0]):
        with pytest.raises(_core.HyrecallError):
            view.without(np.array(rows, np.uint32))
    with pytest.raises(_core.HyrecallError):
        view.without(np.array([1], np.uint32)).without(np.array([1], np.uint32))


def a_request(n_queries: int) -> _core.BatchRequest:
    scopes = _core.Scopes([], hr.Scope, lambda scope, argument: [b""])
    scopes.add(None, n_queries)
    return _core.BatchRequest(
        scopes=scopes, filters=[], filter_of=None, depth=1, limit=1, offset=0, threads=1
    )


def test_valid_has_a_byte_for_each_query(index: hr.Index) -> None:
    request = a_request(2)
    with pytest.raises(_core.HyrecallError):
        request.add_dense(0, "v", np.ones((2, 2), np.float32), np.ones(1, np.uint8), None)
    request.add_dense(0, "v", np.ones((2, 2), np.float32), np.ones(2, np.uint8), None)
    assert request.n_arms == 1
    assert index.device == "cpu"


def test_a_filter_of_more_levels_than_the_stack_holds_is_refused() -> None:
    program = _core.FilterProgram.is_null(0)
    for _ in range(999):
        program = _core.FilterProgram.complement(program)
    with pytest.raises(hr.OptionError, match=r"^filter: expected at most 1000 levels, got more$"):
        _core.FilterProgram.complement(program)


def test_offsets_that_fall_back_are_refused_before_they_are_followed(index: hr.Index) -> None:
    request = a_request(2)
    rows, scores = np.zeros(8, np.uint32), np.zeros(8, np.float32)
    with pytest.raises(_core.HyrecallError, match="rising offsets"):
        request.add_listed("l", np.array([0, 10**10, 8]), rows, rows, scores, None)


def test_a_request_that_an_execution_has_taken_grows_no_more(index: hr.Index) -> None:
    request = a_request(1)
    _core.Execution(index._state.snapshot, request)
    none = np.zeros(0, np.uint32)
    with pytest.raises(_core.HyrecallError, match="no execution has taken"):
        request.add_listed("l", np.array([0, 0]), none, none, np.zeros(0, np.float32), None)
    with pytest.raises(_core.HyrecallError, match="no execution has taken"):
        request.add_dense(7000, "v", np.ones((1, 2), np.float32), np.zeros(0, np.uint8), None)


def test_an_arrow_array_is_taken_once() -> None:
    class Twice:
        def __init__(self) -> None:
            self.made = pa.array([1, 2, 3]).__arrow_c_array__()

        def __arrow_c_array__(self, requested_schema: object = None) -> object:
            return self.made

    twice = Twice()
    held = _core.rows.Column(twice)
    with pytest.raises(hr.DTypeError, match="got one that is released"):
        _core.rows.Column(twice)
    del held


def test_a_dense_column_has_a_dimension() -> None:
    nothing, norms = np.zeros(0, np.uint8), np.ones(5, np.float32)
    with pytest.raises(_core.HyrecallError, match="a dimension"):
        _core.DenseColumn.from_parts("v", "float32", 0, nothing, norms)


def test_offsets_of_a_pool_are_its_own() -> None:
    offsets, scores, rows = np.array([0, 2, 3]), np.zeros(3), np.zeros(3, np.uint32)
    pools = _core.shaping.FusedLists(offsets, scores, rows, rows)
    offsets[1] = 10**12
    ordered, entries = _core.shaping.order(pools, [], 2**31 - 1)
    assert (ordered.tolist(), entries.tolist()) == ([0, 2, 3], [0, 1, 2])
