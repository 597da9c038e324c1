"""Options of the commands that open a saved index, or the shards of one, to answer queries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

import typer

from hyrecall.cli.values import names
from hyrecall.segments.pinning import PINNED_PARTS

if TYPE_CHECKING:
    from hyrecall.distributed.shard_opening import ShardOpening

__all__ = ["Memory", "Pin", "Verify", "opening_of"]

Memory: TypeAlias = Annotated[
    Literal["mmap", "ram"] | None,
    typer.Option(
        "--memory",
        metavar="mmap|ram",
        show_default="mmap",
        help="Map the files of the index, or read them whole into memory.",
    ),
]
Verify: TypeAlias = Annotated[
    Literal["full", "structure"] | None,
    typer.Option(
        "--verify",
        metavar="full|structure",
        show_default="full below 8 GB",
        help="Compare all checksums of the index at the start, or most of them when they are "
        "first read.",
    ),
]
Pin: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--pin",
        metavar="PART",
        help=f"Lock a part of the mapped index in memory: {', '.join(PINNED_PARTS)}; repeat the "
        "option or use commas for several.",
    ),
]


def opening_of(
    threads: int | None, memory: str | None, verify: str | None, pin: list[str] | None
) -> ShardOpening:
    """Return how a command opens an index.

    Raises
    ------
    OptionError
        Wrong threads or parts.
    """
    from hyrecall.distributed.shard_opening import ShardOpening

    return ShardOpening(threads=threads, memory=memory or "mmap", verify=verify, pin=names(pin))
