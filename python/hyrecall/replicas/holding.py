"""Returns which generation a replica holds, and turns a replica into a source."""

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
        URL of the place that it was pulled from, without a password.
    generation : int
    pushed_at : datetime
        When that generation was published, by the clock of the machine that pushed it.
    age : timedelta
        Time since then. Changes pushed since are missing here; if nothing was pushed since, the
        age grows too, and nothing is missing.
    """

    url: str
    generation: int
    pushed_at: datetime
    age: timedelta


@check_keywords
def held(path: str | os.PathLike[str]) -> Held | None:
    """Return which generation a replica holds; None: not a replica, or one without content yet.

    Parameters
    ----------
    path : path-like
        The folder of a replica.

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
    """Turn a replica into an index or a store that may be written and pushed.

    Use it if the source folder is lost: the next push follows the generation that the replica
    holds. If another generation was pushed by then, that push is refused.

    Parameters
    ----------
    path : path-like
        The folder of a replica that holds a generation. It is not a replica afterwards.

    Raises
    ------
    IndexNotFoundError
        The folder does not exist.
    OptionError
        The folder is not a replica, or holds nothing yet.
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
        # An index that was saved here follows the generation that was here before. The newest
        # note may be of an interrupted pull, whose generation the next push must not replace.
        noted = mark.holds(version) or mark.noted[0]
        drop_parts(folder)
        write_mark(folder, Mark(SOURCE, (noted,)))


def version_of(folder: Path) -> str | None:
    """Return the version that a folder holds, as a generation names it; None: it holds nothing."""
    kind = kind_of(folder)
    if kind is None:
        return None
    if kind == INDEX:
        return read_seal(folder / MANIFEST)
    from hyrecall.memory.sql.copying import state_of

    state = state_of(folder)
    return None if state is None else str(state.sequence)
