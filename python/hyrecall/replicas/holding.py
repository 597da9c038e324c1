"""Says which generation a replica holds, and makes a replica a folder of its own."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from hyrecall.base.arguments import read_path
from hyrecall.base.keywords import check_keywords
from hyrecall.base.remote_mark import REPLICA, SOURCE, Mark, read_mark, write_mark
from hyrecall.errors import OptionError, error
from hyrecall.replicas.folder_lock import folder_lock
from hyrecall.replicas.generation import INDEX
from hyrecall.replicas.sources import kind_of
from hyrecall.replicas.targets import drop_parts
from hyrecall.segments.manifest import MANIFEST, read_seal

__all__ = ["Held", "held", "promote", "version_of"]


@dataclass(frozen=True)
class Held:
    """The generation that a replica holds.

    Attributes
    ----------
    url : str
        Of the place that it was pulled from, without a password.
    generation : int
    pushed_at : datetime
        When that generation was published, by the clock of the machine that pushed it.
    age : timedelta
        How long ago that was: what was written since is missing here. A place to which nothing was
        pushed since is as old, and nothing may be missing.
    """

    url: str
    generation: int
    pushed_at: datetime
    age: timedelta


@check_keywords
def held(path: str | os.PathLike[str]) -> Held | None:
    """Return which generation a replica holds; None: no replica, or one without content yet.

    Parameters
    ----------
    path : path-like
        Of a replica.

    Raises
    ------
    CorruptRemoteError
        The file REMOTE of the folder is damaged.
    CorruptIndexError, StoreError
        The folder itself cannot be read.

    Examples
    --------
    >>> import tempfile
    >>> held(tempfile.mkdtemp()) is None
    True
    """
    folder = read_path(path)
    mark = read_mark(folder)
    if mark is None or mark.role != REPLICA:
        return None
    version = version_of(folder)
    noted = None if version is None else mark.holds(version)
    if noted is None:
        return None
    return Held(noted.url, noted.number, noted.pushed, datetime.now(UTC) - noted.pushed)


@check_keywords
def promote(path: str | os.PathLike[str]) -> None:
    """Make a replica an index or a store of its own, which may be written and pushed.

    It takes the place of the folder that was pushed, if that one is lost: its next push follows the
    generation that it holds. If another generation is there by then, that push is refused.

    Parameters
    ----------
    path : path-like
        Of a replica that holds a generation. It is no replica afterwards.

    Raises
    ------
    IndexNotFoundError
        There is no folder.
    OptionError
        The folder is no replica, or holds nothing yet.
    WriterBusyError
        A pull is under way.
    """
    folder = read_path(path)
    with folder_lock(folder):
        mark = read_mark(folder)
        if mark is None or mark.role != REPLICA:
            raise error(OptionError, "path", "a replica", f"another folder: {folder}")
        version = version_of(folder)
        if version is None:
            raise error(OptionError, "path", "a replica that holds a generation", "an empty one")
        # An index that was saved here follows the generation that was here before. The newest one
        # noted may belong to a pull that was interrupted: the next push must not replace that.
        noted = mark.holds(version) or mark.noted[0]
        drop_parts(folder)
        write_mark(folder, Mark(SOURCE, (noted,)))


def version_of(folder: Path) -> str | None:
    """Return the version of what a folder holds, as a generation names it; None: nothing.

    Raises
    ------
    CorruptIndexError, StoreError
        The folder cannot be read.
    """
    kind = kind_of(folder)
    if kind is None:
        return None
    if kind == INDEX:
        return read_seal(folder / MANIFEST)
    from hyrecall.memory.sql.copying import state_of

    state = state_of(folder)
    return None if state is None else str(state.sequence)
