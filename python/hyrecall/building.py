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
        """Index a stream of rows in parts that fit a limit of memory, and open the saved index."""
        # Replies are those of :meth:`build` of all rows, to the last bit. Each part becomes a
        # segment. At the end the parts are joined by cell, within the same limit: the
        # rows of a cell
        # come to lie in one segment, or in as few as the limit allows. So a query of one cell reads
        # one segment.
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
