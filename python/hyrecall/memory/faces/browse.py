"""Shows a store as read-only files, for agents that know ``ls``, ``cat`` and ``grep``."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from fnmatch import translate
from itertools import islice
from typing import NoReturn

from hyrecall.ask.arms.regex import PATTERN_WISH, pattern_fault
from hyrecall.ask.filter_like import FilterLike
from hyrecall.base.arguments import as_int
from hyrecall.base.keywords import check_keywords
from hyrecall.errors import DTypeError, OptionError, error
from hyrecall.memory.derived.row_filters import passing_in_order, read_narrowing
from hyrecall.memory.faces import folders, pages
from hyrecall.memory.faces.browsed_paths import (
    Line,
    Seen,
    matching_lines,
    memories,
    rows_below,
)
from hyrecall.memory.faces.paths import (
    FOLDERS,
    Place,
    PlaceKind,
    folder_name,
    memory_path,
    name_of,
    path_of,
    read_place,
    user_name,
)
from hyrecall.memory.recall.audience import AskedBy, audience
from hyrecall.memory.recall.recalling import warn_of_isolation
from hyrecall.memory.sql.database import Database
from hyrecall.memory.sql.edge_rows import incident
from hyrecall.memory.sql.fact_rows import valid_facts
from hyrecall.memory.sql.reading import newest
from hyrecall.recall.arms.regex import pattern_matcher, text_matcher

__all__ = ["Browse", "Line"]

MOST_LISTED = 200
MOST_FOUND = 50
MOST_TURNS = 2_000
_LONGEST_PATTERN = 512
_MOST = 2**31 - 1


@check_keywords
class Browse:
    """The memories that a user or an agent may see, as files to read.

    ``/index.md``, ``/memories/<kind>/<id>.md``, ``/shared/<user>/<kind>/<id>.md``,
    ``/sessions/<session>.md``, ``/facts/<subject>.md``, ``/graph/<id>.md``, ``/pinned/``. In names,
    what a path cannot hold is percent-encoded. A file that is not there reads as empty, whoever
    else may have one of that name; nothing can be written. Each call sees one state of the store.

    Parameters
    ----------
    database : Database
        Open.
    by : AskedBy
        Who browses.

    Notes
    -----
    No index is asked. A folder costs its live memories, of which ``grep`` reads the texts until it
    has enough lines, 1 MB or one memory at a time; a memory's file a look-up.

    Examples
    --------
    >>> import tempfile
    >>> from hyrecall.memory import MemorySync
    >>> from hyrecall.recipes import loom
    >>> folder = tempfile.mkdtemp()
    >>> with MemorySync.open(folder, recipe=loom, embedder=None) as memory:
    ...     kept = memory.remember("Tea at four", id="tea", user_id="ann")
    ...     files = memory.browse(user_id="ann")
    ...     files.ls("/memories/episodic"), files.grep("four")[0].text
    (['/memories/episodic/tea.md'], 'Tea at four')
    """

    def __init__(self, database: Database, by: AskedBy) -> None:
        """Hold an open store, and who browses."""
        self._database, self._by = database, by

    # ---- reading ----

    def classify(self, path: str) -> PlaceKind:
        """Return what a path names, whether or not it exists.

        Parameters
        ----------
        path : str

        Returns
        -------
        {"folder", "index", "memory", "session", "fact", "graph"}

        Raises
        ------
        OptionError, DTypeError
            No str, longer than 8,192 characters, or not valid Unicode.
        """
        return read_place(path).kind

    def cat(self, path: str) -> str:
        """Return a file's text; "" of one that is not there.

        Parameters
        ----------
        path : str

        Returns
        -------
        str

        Raises
        ------
        OptionError
            The path is a folder's, or the store is closed.
        OptionError, DTypeError, StoreError
            A path as in :meth:`classify`; the disk refuses.
        """
        place = read_place(path)
        if place.kind == "folder":
            if path.endswith(".md"):  # named as a file: no folder of a kind is meant
                return ""
            raise error(OptionError, "path", "a file", "a folder")
        with self._seen() as seen:
            return self._text(seen, place)

    def ls(self, path: str = "/", *, limit: int = MOST_LISTED) -> list[str]:
        """List a folder, newest first where things have a time; folders end in a slash.

        A file lists itself if it is there, and what is not there has nothing to list.

        Parameters
        ----------
        path : str, default "/"
        limit : int, default 200
            At most so many.

        Returns
        -------
        list of str
            Paths.

        Raises
        ------
        OptionError, DTypeError, StoreError
            As in :meth:`cat`, but for folders.
        """
        n = _count("limit", limit)
        place = read_place(path)
        with self._seen() as seen:
            return list(islice(self._entries(seen, place, n), n))

    def find(
        self,
        pattern: str = "*",
        path: str = "/",
        *,
        filter: FilterLike | None = None,  # noqa: A002
        metadata: Mapping[str, object] | None = None,
        limit: int = MOST_LISTED,
    ) -> list[str]:
        """Return the paths of memories whose file name matches, newest first.

        Parameters
        ----------
        pattern : str, default "*"
            Of the name as the id has it, with ``.md``: ``*`` is any text, ``?`` any character and
            ``[ab]`` one of these; upper and lower case differ.
        path : str, default "/"
            A folder, of which all that lies below is looked at, or a file.
        filter, metadata : optional
            As in :meth:`hyrecall.memory.MemorySync.search`.
        limit : int, default 200

        Returns
        -------
        list of str
            Paths.

        Raises
        ------
        OptionError, DTypeError, StoreError
            A pattern of no or more than 512 characters; else as in :meth:`ls`.
        """
        n, wanted = _count("limit", limit), read_narrowing(filter, metadata)
        matches = re.compile(translate(_pattern(pattern))).match
        with self._seen() as seen:
            found = rows_below(seen, read_place(path))
            named = [row for row, name in found if matches(f"{name}.md")]
            kept = list(islice(passing_in_order(seen.connection, named, wanted), n))
            return list(map(memory_path, memories(seen, kept)))

    def grep(
        self,
        pattern: str,
        path: str = "/",
        *,
        regex: bool = False,
        filter: FilterLike | None = None,  # noqa: A002
        metadata: Mapping[str, object] | None = None,
        limit: int = MOST_FOUND,
    ) -> list[Line]:
        """Return the lines of memories that hold a text, upper or lower case, newest memory first.

        Parameters
        ----------
        pattern : str
            The text as it is: no character of it means another.
        path : str, default "/"
            A folder, of which all that lies below is looked at, or a file.
        regex : bool, default False
            The pattern is a regular expression instead (RE2: linear in the text; no lookaround and
            no backreferences). Its repetitions may hold 256 states, as ``(.{0,60}a){4}`` does.
        filter, metadata : optional
            As in :meth:`hyrecall.memory.MemorySync.search`.
        limit : int, default 50

        Returns
        -------
        list of Line

        Raises
        ------
        OptionError, DTypeError, StoreError
            A regular expression that is none; else as in :meth:`find`.
        """
        n, narrow = _count("limit", limit), read_narrowing(filter, metadata)
        wanted = _pattern(pattern)
        fault = pattern_fault(wanted) if regex else None
        if fault is not None:
            raise error(OptionError, "pattern", PATTERN_WISH, f"{wanted!r}: {fault}")
        matcher = pattern_matcher if regex else text_matcher
        with self._seen() as seen:
            rows = [row for row, _ in rows_below(seen, read_place(path))]
            kept = passing_in_order(seen.connection, rows, narrow)
            match = matcher(wanted, ignore_case=True)
            return list(islice(matching_lines(seen, kept, match, within_lines=not regex), n))

    # ---- refused calls ----

    def write(self, path: str, text: str = "") -> NoReturn:
        """Refuse: ``remember`` and ``update`` write.

        Parameters
        ----------
        path, text : str

        Raises
        ------
        PermissionError
            Always, with the number EPERM.
        OptionError, DTypeError
            A path as in :meth:`classify`, first of all.
        """
        _refuse(path)

    def append(self, path: str, text: str = "") -> NoReturn:
        """Refuse, as :meth:`write`."""
        _refuse(path)

    def rm(self, path: str) -> NoReturn:
        """Refuse, as :meth:`write`; ``forget`` takes memories away."""
        _refuse(path)

    def cp(self, path: str, to: str) -> NoReturn:
        """Refuse, as :meth:`write`.

        Parameters
        ----------
        path, to : str
        """
        _refuse(to)

    def mv(self, path: str, to: str) -> NoReturn:
        """Refuse, as :meth:`cp`."""
        _refuse(path)

    # ---- parts ----

    @contextmanager
    def _seen(self) -> Iterator[Seen]:
        with self._database.reading() as connection:
            seen = audience(connection, self._by)
            warn_of_isolation(self._by, seen)
            yield Seen(connection, seen)

    def _text(self, seen: Seen, place: Place) -> str:
        connection, cells = seen.connection, seen.cells
        if place.kind == "index":
            more = pages.IN_A_SECTION + 1
            return pages.index_page(
                newest(connection, cells, pinned=True, limit=more),
                newest(connection, cells, limit=more),
                folders.sessions(connection, cells, more),
            )
        if place.id is None:
            return ""
        if place.kind == "session":
            turns = newest(connection, cells, session_id=place.id, limit=MOST_TURNS)
            return pages.session_page(turns)
        if place.kind == "fact":
            return pages.facts_page(valid_facts(connection, cells, subject=place.id))
        if place.kind == "graph":
            return pages.edges_page(incident(connection, cells, place.id))
        found = memories(seen, [row for row, _ in rows_below(seen, place)])
        return "".join(pages.memory_page(one) for one in found)

    def _entries(self, seen: Seen, place: Place, limit: int) -> Iterator[str]:
        connection, cells = seen.connection, seen.below(place)
        if place.kind != "folder":
            if self._text(seen, place):
                yield path_of(place)
        elif not place.top:
            yield from ("/index.md", *(f"/{folder}/" for folder in FOLDERS))
        elif place.top == "shared" and not place.has_user:
            users = folders.sharers(connection, cells)
            yield from (f"/shared/{user_name(user)}/" for user in users)
        elif place.top in ("memories", "shared") and place.memory_kind is None:
            base = "/memories" if place.top == "memories" else f"/shared/{user_name(place.user)}"
            for kind in folders.kinds(connection, cells, limit):
                yield f"{base}/{folder_name(kind)}/"
        elif place.top in _NAMES:
            for name in _NAMES[place.top](connection, cells, limit):
                yield f"/{place.top}/{name_of(name)}"
        else:
            found = [row for row, _ in rows_below(seen, place)[:limit]]
            yield from map(memory_path, memories(seen, found))


# Folders whose files are generated when they are read.
_NAMES = {"sessions": folders.sessions, "facts": folders.subjects, "graph": folders.linked}


def _count(argument: str, value: object) -> int:
    count = as_int(value)
    if count is None or not 0 <= count <= _MOST:
        raise error(OptionError, argument, f"an int in [0, {_MOST}]", repr(value))
    return count


def _pattern(value: object) -> str:
    if not isinstance(value, str):
        raise error(DTypeError, "pattern", "a str", type(value).__name__)
    if not 0 < len(value) <= _LONGEST_PATTERN:
        wish = f"1 to {_LONGEST_PATTERN} characters"
        raise error(OptionError, "pattern", wish, len(value))
    try:
        value.encode()
    except UnicodeEncodeError as fault:
        raise error(OptionError, "pattern", "valid Unicode", fault.reason) from None
    return value


def _refuse(path: object) -> NoReturn:
    read_place(path)
    raise PermissionError(errno.EPERM, os.strerror(errno.EPERM), path)
