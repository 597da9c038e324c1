"""Lists the Parquet files of a folder, and reads their rows in the order of the files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hyrecall.errors import DTypeError, OptionError, error
from hyrecall.table.schema import MaxSim, Schema, Sparse

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


def nothing_of(file: SourceFile, schema: Schema) -> pa.Table:
    """Return an empty table with the columns of a file that a build reads."""
    with opened(Path(file.path)) as one:
        found = one.schema_arrow
    return pa.table({name: pa.nulls(0, found.field(name).type) for name in columns_of(schema)})


def dims_of(files: Sequence[SourceFile], schema: Schema) -> dict[str, int]:
    """Return the length of the first vector of each arm whose lists have no fixed length."""
    out: dict[str, int] = {}
    for arm, vector in schema.vector_arms.items():
        kind = nothing_of(files[0], schema).schema.field(vector.column).type
        if isinstance(vector, Sparse):
            continue
        has_many = isinstance(vector, MaxSim)
        if has_many:
            kind = getattr(kind, "value_type", kind)
        if not (pa.types.is_list(kind) or pa.types.is_large_list(kind)):
            continue
        for batch in batches_of(files, schema, [vector.column]):
            vectors = batch.column(0).flatten() if has_many else batch.column(0)
            lengths = pc.list_value_length(vectors).drop_null()
            if len(lengths):
                out[arm] = int(lengths[0].as_py())
                break
    return out


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


def described_files(paths: Sequence[Path], schema: Schema) -> list[SourceFile]:
    """Describe files, whose columns must have the same types."""
    names = columns_of(schema)
    files: list[SourceFile] = []
    types: dict[str, pa.DataType] | None = None
    for path in paths:
        with opened(path) as file:
            found = _types(path, file.schema_arrow, names)
            types = types or found
            _check_types(path, paths[0], types, found)
            files.append(SourceFile.of(path, file))
    return files


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


def batches_of(
    files: Sequence[SourceFile], schema: Schema, names: Sequence[str] | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of files, in their order."""
    for one in files:
        with opened(Path(one.path)) as file:
            yield from file.iter_batches(BATCH_ROWS, columns=list(names or columns_of(schema)))
