"""No call of the native module crashes, whatever it is given, and every refusal has a type."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import hyrecall as hr
from engine.hostile_calls import stub_targets
from hyrecall import _core
from laws.effort import Effort

SCRIPT = Path(__file__).with_name("hostile_calls.py")


@pytest.mark.parametrize("seed", [1, 2])
def test_hostile_calls_neither_crash_nor_raise_untyped_errors(
    seed: int, tmp_path: Path, effort: Effort
) -> None:
    told = tmp_path / "call"
    n_calls = effort.cases(quick=400, full=20_000)
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(seed), str(n_calls), str(told)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{told.read_text()}\n{done.stderr}"


def test_the_walk_knows_every_public_name_of_the_native_module() -> None:
    known = {target.name.split(".")[0] for target in stub_targets()}
    modules = {"arithmetic", "arms", "device", "rows", "shaping"}
    errors = {name for name in dir(_core) if name.endswith("Error")}
    named = {name for name in dir(_core) if not name.startswith("_")} - modules - errors
    assert named - known <= {"Candidates"}  # without a method
    assert len(list(stub_targets())) > 100


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


def test_valid_has_a_byte_for_each_query(index: hr.Index) -> None:
    scopes = _core.Scopes([], hr.Scope, lambda scope, argument: [b""])
    scopes.add(None, 2)
    request = _core.Request(
        scopes=scopes, filters=[], filter_of=None, depth=1, limit=1, offset=0, threads=1
    )
    with pytest.raises(_core.HyrecallError):
        request.add_dense(0, "v", np.ones((2, 2), np.float32), np.ones(1, np.uint8), None)
    request.add_dense(0, "v", np.ones((2, 2), np.float32), np.ones(2, np.uint8), None)
    assert request.n_arms == 1
    assert index.device == "cpu"


def test_a_filter_of_more_levels_than_the_stack_holds_is_refused() -> None:
    program = _core.FilterProgram.is_null(0)
    for _ in range(999):
        program = _core.FilterProgram.complement(program)
    with pytest.raises(hr.OptionError, match="^filter: expected at most 1000 levels, got more$"):
        _core.FilterProgram.complement(program)
