"""Files that are mapped to be read, and the checksums of their blocks."""

from collections.abc import Sequence
from typing import final

@final
class MappedFile:
    """The first bytes of a file, mapped to be read. A read of a page that is lost sees zeros."""

    def __init__(self, path: str | bytes, descriptor: int, size: int) -> None: ...
    @property
    def size(self) -> int: ...
    def check(self) -> None: ...
    def lock(self) -> int: ...

@final
class MappedFiles:
    """Mapped files, checked with one call."""

    def __init__(self, files: Sequence[MappedFile]) -> None: ...
    def __len__(self) -> int: ...
    def check(self) -> None: ...
    def check_reads(self) -> None: ...

@final
class BlockChecks:
    """The checksums of a file's blocks, compared when a block is first read."""

    def __init__(
        self,
        path: str | bytes,
        content: object,
        sums: Sequence[int],
        block_bytes: int,
        done: Sequence[int],
    ) -> None: ...
    @property
    def n_left(self) -> int: ...
    def ensure(self, address: int, size: int) -> None: ...
    def ensure_all(self) -> None: ...
