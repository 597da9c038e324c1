"""Removes the objects that the newest generations of a place do not name."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from hyrecall.base.arguments import as_int
from hyrecall.base.keywords import check_keywords
from hyrecall.errors import DTypeError, OptionError, RemoteError, RemoteNotFoundError, error
from hyrecall.replicas.generation import (
    CHUNKS,
    GENERATIONS,
    Head,
    name_of,
    object_of,
    read_generation,
    read_head,
)
from hyrecall.replicas.places import open_remote
from hyrecall.replicas.remote import AbsentError, MovedError, Place, Remote

__all__ = ["Pruned", "prune"]

_TRIES = 5


@dataclass(frozen=True)
class Pruned:
    """The result of a prune.

    Attributes
    ----------
    n_kept : int
        Number of generations that can still be pulled.
    n_removed, bytes_removed : int
        Number of removed objects, and their bytes.
    """

    n_kept: int
    n_removed: int
    bytes_removed: int


@check_keywords
def prune(url: Place, *, keep: int = 2, older_than: timedelta = timedelta(days=1)) -> Pruned:
    """Remove objects that the newest generations do not name, such as those of interrupted pushes.

    Parameters
    ----------
    url : str or obstore store
        As in :func:`push`.
    keep : int, default 2
        Number of the newest generations that are kept; at least 1, the one that is pulled.
    older_than : timedelta, default one day
        Younger objects are kept, by the clock of the place and of this machine. With
        ``timedelta(0)`` no clock matters; together with ``keep=1``, this removes all text that was
        erased before the newest push.

    Returns
    -------
    Pruned

    Raises
    ------
    RemoteNotFoundError
        Nothing was pushed there yet.
    OptionError, DTypeError
        ``keep`` is below 1, or ``older_than`` is not a timedelta.
    RemoteError, CorruptRemoteError
        The place cannot be reached, refuses a request, or holds something damaged.

    Notes
    -----
    A push that is under way starts again, because chunks that it relies on may be removed. A pull
    whose generation is removed starts again with the newest one.
    """
    count = as_int(keep)
    if count is None or count < 1:
        raise error(OptionError, "keep", "an int >= 1", repr(keep))
    if not isinstance(older_than, timedelta):
        raise error(DTypeError, "older_than", "a timedelta", repr(older_than))
    remote = open_remote(url)
    for _ in range(_TRIES):
        found = read_head(remote)
        if found is None:
            wish = "a place to which something was pushed"
            raise error(RemoteNotFoundError, remote.url, wish, "an empty one", "push(path, url)")
        try:
            return _prune(remote, found[0], found[2], count, older_than)
        except MovedError:
            continue
    raise error(RemoteError, remote.url, "a HEAD that stays", "one that changed again and again")


def _prune(remote: Remote, head: Head, tag: str, keep: int, older_than: timedelta) -> Pruned:
    named, n_kept = _named(remote, head, keep)
    oldest_kept = _before_now(older_than)
    # Listed before HEAD changes: a push that may still be published has other names.
    gone = [
        one
        for prefix in (GENERATIONS, CHUNKS)
        for one in remote.listed(prefix)
        if one.name not in named and (oldest_kept is None or one.modified <= oldest_kept)
    ]
    if gone:
        remote.replace_head(replace(head, prunes=head.prunes + 1).to_bytes(), tag)
        remote.delete(one.name for one in gone)
    return Pruned(n_kept, len(gone), sum(one.size for one in gone))


def _before_now(age: timedelta) -> datetime | None:
    """Return the time that long ago; None: age 0, which ignores the clock of the place."""
    if age <= timedelta(0):
        return None
    try:
        return datetime.now(UTC) - age
    except OverflowError:  # before the first year
        return datetime.min.replace(tzinfo=UTC)


def _named(remote: Remote, head: Head, keep: int) -> tuple[set[str], int]:
    """Return the names of all objects of the newest generations, and their number."""
    named: set[str] = set()
    n_kept, number, manifest = 0, head.number, head.manifest
    while n_kept < keep:
        try:
            found = read_generation(remote, number, manifest)
        except AbsentError:
            if n_kept == 0:
                raise error(
                    RemoteError, remote.url, f"generation {number}, which HEAD names", "none"
                ) from None
            break  # an earlier prune removed it
        named.add(name_of(number, manifest))
        named.update(object_of(chunk) for chunk in found.chunks)
        n_kept += 1
        if found.parent is None:
            break
        number, manifest = number - 1, found.parent
    return named, n_kept
