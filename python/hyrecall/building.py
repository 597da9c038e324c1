"""Builds an index that is larger than memory, from a stream of rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

from hyrecall.base.arguments import as_int, check_methods, read_path
from hyrecall.base.progress import ProgressFunction, read_progress
from hyrecall.base.runtime import choose_threads
from hyrecall.errors import DTypeError, OptionError, error
from hyrecall.table.schema import Schema
from hyrecall.text.analyzer import Analyzer
from hyrecall.text.bm25 import BM25

__all__ = ["IndexBuilds"]


@check_methods
class IndexBuilds:
    """The method of an index that builds it from more rows than memory holds."""

    @classmethod
    def open(cls, *args: Any, **options: Any) -> Any:
        """Open a saved index."""
        raise NotImplementedError  # Index, the one class that is made of this, has it

    @classmethod
    def build_in_parts(
        cls,
        batches: object,
        schema: Schema,
        path: str | Path,
        *,
        memory_limit: int,
        analyzer: Analyzer | None = None,
        bm25: BM25 | None = None,
        threads: int | None = None,
        resume: bool = False,
        join: bool = True,
        total_rows: int | None = None,
        progress: ProgressFunction | None = None,
        join_progress: ProgressFunction | None = None,
    ) -> Self:
        """Index a stream of rows in parts that fit a limit of memory, and open the saved index.

        Replies are those of :meth:`build` of all rows, to the last bit. Each part becomes a
        segment. At the end the parts are joined by cell, within the same limit: the rows of a cell
        come to lie in one segment, or in as few as the limit allows. So a query of one cell reads
        one segment.

        Parameters
        ----------
        batches : object
            With ``__arrow_c_stream__``, such as a ``pyarrow.RecordBatchReader``, or an iterable of
            tables or record batches. Vectors are columns. It is read once, batch after batch.
        schema : Schema
            As in :meth:`build`.
        path : path-like
            The folder to write; it must not exist. Until the end the index lies beside it, in
            ``PATH.unfinished``.
        memory_limit : int
            Bytes of memory that the process may take, at least 256 MiB, beside pages of mapped
            files, which the system drops when it needs them. A part is as large as fits; a batch
            that is larger is not cut.
        analyzer, bm25, threads
            As in :meth:`build`.
        resume : bool, default False
            Go on where an earlier call with the same rows was interrupted, if there was one. Rows
            that are saved are read again, to see that they are the same documents, and not indexed
            again. A join goes on, too.
        join : bool, default True
            Join the parts by cell. It needs the disk space of a second copy until it is done, and
            reads and writes each part once more. With False the parts stay as they are.
        total_rows : int, optional
            How many rows there are, for ``progress``.
        progress : callable, optional
            ``progress(done, total)`` after each part, in rows; ``total`` is ``total_rows``, or
            ``done`` without it.
        join_progress : callable, optional
            ``join_progress(done, total)`` while the parts are joined, in rows: first with what an
            earlier call had joined. It is not called where joining would not help.

        Returns
        -------
        Index
            Mapped, on the CPU.

        Raises
        ------
        OptionError
            ``path`` exists; an unfinished build is there and ``resume`` is False, or it was of
            other rows; there is no batch; the limit is too small.
        DTypeError, ShapeError
            A column that the schema cannot take.
        KeyConflictError
            A null key, or one that comes twice in a cell; the row is counted within its part.

        Examples
        --------
        >>> import tempfile, pathlib
        >>> import pyarrow as pa
        >>> import hyrecall as hr
        >>> rows = [{"id": n, "text": "tea"} for n in range(6)]
        >>> reader = pa.Table.from_pylist(rows).to_reader(max_chunksize=2)
        >>> folder = pathlib.Path(tempfile.mkdtemp()) / "index"
        >>> schema = hr.Schema(key="id", cell=None, text="text")
        >>> index = hr.Index.build_in_parts(reader, schema, folder, memory_limit=2**30)
        >>> index.recall_one(text="tea", limit=2).keys
        [0, 1]
        """
        from hyrecall.segments.parts import LEAST_MEMORY, PartsBuild, batches_of

        if not isinstance(schema, Schema):
            raise error(DTypeError, "schema", "an hr.Schema", type(schema).__name__)
        limit = as_int(memory_limit)
        if limit is None or limit < LEAST_MEMORY:
            wish = f"an int of at least {LEAST_MEMORY} bytes"
            raise error(OptionError, "memory_limit", wish, repr(memory_limit))
        for option, value in (("resume", resume), ("join", join)):
            if not isinstance(value, bool):
                raise error(DTypeError, option, "True or False", repr(value))
        total = None if total_rows is None else as_int(total_rows)
        if total_rows is not None and (total is None or total < 0):
            raise error(OptionError, "total_rows", "an int of at least 0", repr(total_rows))
        folder, count = read_path(path), choose_threads(threads)
        tell = read_progress(progress)
        build = PartsBuild(
            folder, schema, limit, analyzer, bm25, count, total, tell, join=join,
            join_progress=read_progress(join_progress, "join_progress"),
        )  # fmt: skip
        build.run(batches_of(batches), resume=resume)
        given = build.callables() or None
        made: Self = cls.open(
            folder, analyzer=given, verify="structure", device="cpu", threads=threads
        )
        return made
