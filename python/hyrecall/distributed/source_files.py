"""Lists the Parquet files of a folder, cuts them into units, and numbers their rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hyrecall.errors import DTypeError, OptionError, error
from hyrecall.table.schema import Schema

UNIT_ROWS = 1_000_000
"""A unit ends with the row group that reaches this number of rows."""

BATCH_ROWS = 4096

PARQUET = ".parquet"
TABLES = (".jsonl", ".ndjson", ".csv", ".tsv", ".arrow", ".feather", ".orc")
"""Endings of table files that a build does not read."""

PACKED = (".gz", ".zst", ".bz2", ".xz")
"""Endings of compressed files, after their own."""

_FLATTEN = (
    "write the tables of its folders into one folder, with their partitions as columns: "
    "pyarrow.dataset.write_dataset(pyarrow.dataset.dataset(source, partitioning='hive'), ...)"
)


@dataclass(frozen=True)
class SourceFile:
    """One Parquet file, and what a resumed build compares to recognise it."""

    path: str
    size: int
    modified: int  # nanoseconds
    rows: int

    @classmethod
    def of(cls, path: Path, file: pq.ParquetFile) -> SourceFile:
        """Describe an open file."""
        about = path.stat()
        n_rows = file.metadata.num_rows
        return cls(str(path.absolute()), about.st_size, about.st_mtime_ns, n_rows)

    def check_same(self) -> None:
        """Refuse a file that was written or removed since it was described."""
        path = Path(self.path)
        about = path.stat() if path.exists() else None
        if about is None or (about.st_size, about.st_mtime_ns) != (self.size, self.modified):
            wish, got = "files that do not change", f"{self.path}, which did during the build"
            raise error(OptionError, "source", wish, got, "remove the output and build again")


@dataclass(frozen=True)
class Unit:
    """Row groups of one file, which are read in one step."""

    path: str
    first_group: int
    end_group: int
    first_seq: int
    rows: int


def columns_of(schema: Schema) -> tuple[str, ...]:
    """Return the columns that a build reads."""
    vectors = [one.column for one in schema.vector_arms.values()]
    return tuple(dict.fromkeys((*schema.row_columns, *schema.text_columns, *vectors)))


@contextmanager
def opened(path: Path) -> Iterator[pq.ParquetFile]:
    """Open a Parquet file."""
    try:
        with pq.ParquetFile(path, pre_buffer=False) as file:
            yield file
    except pa.ArrowException as fault:
        raise error(DTypeError, str(path), "a parquet file", fault) from fault


def nothing_of(path: Path, names: Sequence[str]) -> pa.Table:
    """Return an empty table with columns of a file."""
    with opened(path) as file:
        found = file.schema_arrow
    return pa.table({name: pa.nulls(0, found.field(name).type) for name in names})


def dims_of(units: Sequence[Unit], schema: Schema) -> dict[str, int]:
    """Return the length of the first vector of each arm whose lists have no fixed length."""
    out: dict[str, int] = {}
    for arm, vector in schema.vector_arms.items():
        for unit in units:
            length = _first_length(unit, vector.column)
            if length is not None:
                out[arm] = length
                break
    return out


def _first_length(unit: Unit, name: str) -> int | None:
    """Return the length of the first list of a column, or None without lists of variable length."""
    for _, batch in batches_of_unit(unit, [name]):
        column = batch.column(0)
        if not (pa.types.is_list(column.type) or pa.types.is_large_list(column.type)):
            return None
        lengths = pc.list_value_length(column).drop_null()
        if len(lengths):
            return int(lengths[0].as_py())
    return None


def source_files(source: Path) -> list[Path]:
    """Return the Parquet files of a folder, sorted by name, or the single file given."""
    # Other table files, and sub-folders with tables, are refused, since their rows would be
    # missing. Names that begin with a dot or an underscore are skipped.
    if not source.is_dir():
        found = [source] if source.is_file() else []
    else:
        shown = (one for one in source.iterdir() if not one.name.startswith((".", "_")))
        found = sorted(shown, key=lambda one: one.name)
        others = [one for one in found if not one.is_file() or has_rows(one)]
        found = [one for one in found if one not in others and ending(one) == PARQUET]
        _check_others(others)
    if not found:
        wish = "a .parquet file, or a folder with some"
        raise error(OptionError, "source", wish, f"none at {source}")
    return found


def ending(path: Path) -> str:
    """Return the ending of a file's name, in lower case."""
    return path.suffix.lower()


def has_rows(path: Path) -> bool:
    """Say whether a name is that of a table in another format, or of a compressed table."""
    if ending(path) not in PACKED:
        return ending(path) in TABLES
    return ending(path.with_suffix("")) in (*TABLES, PARQUET)


def _check_others(paths: Sequence[Path]) -> None:
    """Refuse the first file that is not Parquet, and the first folder with tables."""
    wish = "a folder whose rows are all in its own .parquet files"
    for path in paths:
        if not path.is_dir():
            if has_rows(path) or ending(path) == PARQUET:
                got = f"{path}" if path.is_file() else f"the link {path} to nothing"
                raise error(OptionError, "source", wish, got)
            continue
        inner = (one for one in path.rglob("*") if ending(one) == PARQUET or has_rows(one))
        data = next((one for one in inner if one.is_file()), None)
        if data is not None:
            got = f"the folder {path} with {data.name}"
            raise error(OptionError, "source", wish, got, _FLATTEN)


def units_of(paths: Sequence[Path], schema: Schema) -> tuple[list[SourceFile], list[Unit]]:
    """Return the files and the units in which they are read, in the order of their rows."""
    names = columns_of(schema)
    files: list[SourceFile] = []
    units: list[Unit] = []
    types: dict[str, pa.DataType] | None = None
    first_seq = 0
    for path in paths:
        with opened(path) as file:
            found = _types(path, file.schema_arrow, names)
            if types is None:
                types = found
            _check_types(path, paths[0], types, found)
            files.append(SourceFile.of(path, file))
            for begin, end, n_rows in _groups(file, UNIT_ROWS):
                units.append(Unit(files[-1].path, begin, end, first_seq, n_rows))
                first_seq += n_rows
    return files, units


def _types(path: Path, found: pa.Schema, names: Sequence[str]) -> dict[str, pa.DataType]:
    for name in names:
        if len(found.get_all_field_indices(name)) != 1:
            wish = f"one column of {path} ({', '.join(found.names)})"
            raise error(OptionError, name, wish, "none or several")
    return {name: found.field(name).type for name in names}


def _check_types(
    path: Path,
    first: Path,
    wanted: Mapping[str, pa.DataType],
    found: Mapping[str, pa.DataType],
) -> None:
    for name, kind in wanted.items():
        if found[name] != kind:
            wish = f"{kind} in {path}, as in {first}"
            raise error(OptionError, name, wish, found[name], "write the files with the same types")


def _groups(file: pq.ParquetFile, most: int) -> Iterator[tuple[int, int, int]]:
    """Yield the first row group, the end and the number of rows of each unit of a file."""
    begin, n_rows, n_groups = 0, 0, file.metadata.num_row_groups
    for group in range(n_groups):
        n_rows += file.metadata.row_group(group).num_rows
        if n_rows >= most or group == n_groups - 1:
            yield begin, group + 1, n_rows
            begin, n_rows = group + 1, 0


def batches_of_unit(unit: Unit, names: Sequence[str]) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield the batches of a unit, each with the insertion number of its first row."""
    seq = unit.first_seq
    with opened(Path(unit.path)) as file:
        groups = list(range(unit.first_group, unit.end_group))
        for batch in file.iter_batches(BATCH_ROWS, row_groups=groups, columns=list(names)):
            yield seq, batch
            seq += batch.num_rows
