"""Tables of other libraries are indexed, and hits become such tables, without a copy.

Each program of ``examples/frameworks`` runs, and its functions show where the memory lies. A
library that is not installed is skipped by name.
"""

import importlib.util
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import hyrecall as hr
from seams import read_table

FOLDER = Path(__file__).parents[2] / "examples" / "frameworks"
LIBRARIES = ("polars", "datasets", "duckdb", "daft")
N, DIM = 64, 8


def example(library: str) -> ModuleType:
    """Load the program of a library, without running its main part."""
    pytest.importorskip(library, reason=f"{library} is not installed: .ci/frameworks tables")
    spec = importlib.util.spec_from_file_location(
        f"{library}_table", FOLDER / f"{library}_table.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("library", LIBRARIES)
def test_the_program_of_a_library_runs(library: str, tmp_path: Path) -> None:
    pytest.importorskip(library, reason=f"{library} is not installed: .ci/frameworks tables")
    if library == "daft" and version("daft").startswith("0.6."):
        pytest.skip("processes of daft 0.6 abort at their end now and then, also without hyrecall")
    done = subprocess.run(
        [sys.executable, FOLDER / f"{library}_table.py"],
        cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "tea" in done.stdout


# ---- addresses ----


def address(column: pa.ChunkedArray) -> int:
    """Return where the values of a column of one chunk lie."""
    (array,) = column.chunks
    values = array.values if pa.types.is_fixed_size_list(array.type) else array
    (*_, buffer) = values.buffers()
    assert buffer is not None
    return int(buffer.address)


def rows() -> pa.Table:
    vectors = np.random.default_rng(5).standard_normal((N, DIM), dtype=np.float32)
    return pa.table(
        {
            "id": [f"d{at}" for at in range(N)],
            "user": ["ann", "bob"] * (N // 2),
            "text": [f"tea {at % 5}" for at in range(N)],
            "year": pa.array(range(N), pa.int64()),
            "vector": pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), DIM),
        }
    )


def of_polars(table: pa.Table) -> tuple[Any, dict[str, int]]:
    import polars as pl

    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame)
    return frame, {
        name: frame[name].to_numpy(allow_copy=False).__array_interface__["data"][0]
        for name in ("year", "vector")
    }


def of_datasets(table: pa.Table) -> tuple[Any, dict[str, int]]:
    from datasets import Dataset

    given = example("datasets").as_table(Dataset(table))
    return given, {name: address(table[name]) for name in ("year", "vector")}


def of_duckdb(table: pa.Table) -> tuple[Any, dict[str, int]]:
    import duckdb

    given = pa.table(duckdb.from_arrow(table))  # the copy that DuckDB hands over
    return given, {name: address(given[name]) for name in ("year", "vector")}


def of_daft(table: pa.Table) -> tuple[Any, dict[str, int]]:
    import daft

    given = daft.from_arrow(table).to_arrow()
    vectors = given if version("daft").startswith("0.6.") else table  # 0.6 copies lists itself
    return given, {"year": address(table["year"]), "vector": address(vectors["vector"])}


TABLES: dict[str, Callable[[pa.Table], tuple[Any, dict[str, int]]]] = {
    "polars": of_polars,
    "datasets": of_datasets,
    "duckdb": of_duckdb,
    "daft": of_daft,
}


def read_addresses(source: object) -> dict[str, int]:
    """Return where the rows lie that an index is built from."""
    columns = read_table(source, example_schema())
    (chunk,) = columns.vectors["vector"].chunks
    return {"year": address(columns.rows["year"]), "vector": chunk.__array_interface__["data"][0]}


def example_schema() -> hr.Schema:
    return hr.Schema(key="id", cell="user", text="text", vector="vector", attributes="year")


@pytest.mark.parametrize("library", LIBRARIES)
def test_an_index_is_built_from_the_memory_of_the_table(library: str) -> None:
    pytest.importorskip(library, reason=f"{library} is not installed: .ci/frameworks tables")
    given, lies_at = TABLES[library](rows())
    assert read_addresses(given) == lies_at


@pytest.mark.parametrize("library", LIBRARIES)
def test_an_index_of_the_table_answers_as_one_of_arrow(library: str) -> None:
    module = example(library)
    given, _ = TABLES[library](rows())
    built = module.SCHEMA
    wish = hr.Index.build(rows(), built).recall(
        text=["tea 3", "tea 1"], scope=["ann", "bob"], columns=("year",), fusion=hr.RRF()
    )
    found = hr.Index.build(given, built).recall(
        text=["tea 3", "tea 1"], scope=["ann", "bob"], columns=("year",), fusion=hr.RRF()
    )
    assert found.to_list() == wish.to_list()
    assert len(found.to_list()[0]) > 0


def test_a_copy_on_the_way_would_be_seen() -> None:
    table = rows()
    copied = pa.table({**{n: table[n] for n in table.column_names}, "year": pa.array(range(N))})
    assert read_addresses(table)["year"] == address(table["year"])
    assert read_addresses(copied)["year"] != address(table["year"])


def hits() -> pa.Table:
    index = hr.Index.build(rows(), example_schema())
    found = index.recall(
        text=["tea 3", "tea 1"], scope=["ann", "bob"], columns=("year",), fusion=hr.RRF()
    )
    return found.to_arrow()


NUMBERS = ("query", "rank", "score", "year")


def test_hits_as_polars_lie_on_the_memory_of_the_reply() -> None:
    pytest.importorskip("polars", reason="polars is not installed")
    import polars as pl

    table = hits()
    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame)
    for name in NUMBERS:
        at = frame[name].to_numpy(allow_copy=False).__array_interface__["data"][0]
        assert at == address(table[name]), name


def test_hits_as_a_dataset_lie_on_the_memory_of_the_reply() -> None:
    module = example("datasets")
    from datasets import Dataset

    table = hits()
    back = module.as_table(Dataset(table))
    assert {n: address(back[n]) for n in NUMBERS} == {n: address(table[n]) for n in NUMBERS}
    assert address(back["key"]) == address(table["key"])  # texts too


def test_hits_as_a_daft_frame_lie_on_the_memory_of_the_reply() -> None:
    pytest.importorskip("daft", reason="daft is not installed: .ci/frameworks tables")
    import daft

    table = hits()
    back = daft.from_arrow(table).to_arrow()
    assert {n: address(back[n]) for n in NUMBERS} == {n: address(table[n]) for n in NUMBERS}


def test_hits_are_a_table_of_duckdb_with_the_same_numbers() -> None:
    pytest.importorskip("duckdb", reason="duckdb is not installed: .ci/frameworks tables")
    import duckdb

    table = hits()
    with duckdb.connect() as connection:
        connection.register("hits", table)
        found = connection.sql(f"SELECT {', '.join(NUMBERS)} FROM hits ORDER BY query, rank")
        assert found.fetchall() == [
            tuple(row.values()) for row in table.select(NUMBERS).to_pylist()
        ]
