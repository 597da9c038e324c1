"""One file of a segment that is open: what was checked of it, and what is left for later."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from hyrecall import _core
from hyrecall.table.arrow_read import check_column

__all__ = ["LateBytes", "OpenedFile"]

LateBytes = tuple[_core.files.BlockChecks, int, int]
"""(checks, address, size) of a part of a file that is compared before it is first read."""


@dataclass(frozen=True)
class OpenedFile:
    """One file of a segment."""

    path: Path
    batch: pa.RecordBatch
    checks: _core.files.BlockChecks | None = None
    address: int = 0
    mapped: _core.files.MappedFile | None = None
    ends: tuple[int, int] = (0, 0)

    def check_outside(self, file: pa.Buffer) -> None:
        """Check all of the file that lies before and behind the columns: what Arrow follows."""
        if self.checks is None:
            return
        parts = [part for array in self.batch.columns for part in array.buffers() if part]
        begin = min((part.address for part in parts), default=file.address)
        end = max((part.address + part.size for part in parts), default=file.address)
        first, last = self.ends
        if begin - file.address > first:
            self.checks.ensure(file.address, begin - file.address)
        if file.address + file.size - end > last:
            self.checks.ensure(end, file.address + file.size - end)

    def late(self, *columns: int) -> list[LateBytes]:
        """Return what was not checked of columns that the engine checks before it reads rows."""
        if self.checks is None:
            return []
        return [(self.checks, part.address, part.size) for part in self._parts(columns)]

    def read_in_order(self, *columns: int) -> None:
        """Tell the system that all of some columns will be read, by default of all columns."""
        if self.mapped is not None:
            for part in self._parts(columns):
                self.mapped.read_in_order(part.address, part.size)

    def read_apart(self, *columns: int) -> None:
        """Tell the system that a few rows of columns will be read, by default of all columns."""
        # A page fault then brings one page. Else it brings as much as the device reads ahead, which
        # may be megabytes, and drives out what scans read.
        if self.mapped is not None:
            for part in self._parts(columns):
                self.mapped.read_apart(part.address, part.size)

    def _parts(self, columns: Sequence[int]) -> list[pa.Buffer]:
        arrays = [self.batch.column(at) for at in columns or range(self.batch.num_columns)]
        return [part for array in arrays for part in array.buffers() if part and part.size]

    def check(self, *columns: int) -> None:
        """Check columns before they are first read, by default all."""
        if self.checks is None:
            return
        self.read_in_order(*columns)
        for at in columns or range(self.batch.num_columns):
            for part in self._parts((at,)):
                self.checks.ensure(part.address, part.size)
            check_column(self.path, self.batch.column(at))
