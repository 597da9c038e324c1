"""Shows a store as read-only files, for agents that know ``ls``, ``cat`` and ``grep``."""

from __future__ import annotations

import errno
import json
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import translate
from itertools import islice
from typing import Any, Final, Literal, NoReturn, TypeAlias
from urllib.parse import quote, unquote

import apsw
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hyrecall.arm.regex import PATTERN_WISH, pattern_fault, pattern_matcher, text_matcher
from hyrecall.ask.filter_json import FilterLike
from hyrecall.base.arguments import as_int, check_keywords
from hyrecall.errors import DTypeError, OptionError, error
from hyrecall.memory.data.types import Edge, Episode, Fact
from hyrecall.memory.derived.row_filters import passing_in_order, read_narrowing
from hyrecall.memory.recall.audience import AskedBy, Audience, audience
from hyrecall.memory.recall.recalling import warn_of_isolation
from hyrecall.memory.sql.codec import cells_by_number, is_text, rows, to_json
from hyrecall.memory.sql.database import Database
from hyrecall.memory.sql.edge_rows import incident
from hyrecall.memory.sql.fact_rows import KIND, valid_facts
from hyrecall.memory.sql.reading import (
    episodes_of_rows,
    head_row,
    newest,
    newest_rows,
    text_sizes,
    texts_of_rows,
)
from hyrecall.memory.sql.schema import HEAD, LISTED, LIVE

__all__ = ["Browse", "Line"]

# ---- Lists the folders of a browsed store: kinds, users, sessions, subjects, linked ids ----

_LIVE = f"{HEAD} WHERE d.cell IN {LISTED} AND {LIVE}"


def kinds(connection: apsw.Connection, cells: Collection[int], limit: int) -> list[str]:
    """Return the kinds of live memories, by name."""
    select = f"SELECT DISTINCT v.kind FROM {_LIVE} ORDER BY 1 LIMIT ?"
    return _column(connection, select, cells, limit)


def sharers(connection: apsw.Connection, cells: Collection[int]) -> list[str | None]:
    """Return the users whose cells have live memories, sorted so that the order tells nothing."""
    select = f"SELECT DISTINCT d.cell FROM {_LIVE}"
    numbers = [row[0] for row in connection.execute(select, (to_json(tuple(cells)),))]
    users = {cell.user for cell in cells_by_number(connection, numbers).values()}
    return sorted(users, key=lambda user: (user is not None, user or ""))


def sessions(connection: apsw.Connection, cells: Collection[int], limit: int) -> list[str]:
    """Return the sessions, the one with the newest memory first."""
    select = (
        f"SELECT v.session_id FROM {_LIVE} AND v.session_id IS NOT NULL "
        "GROUP BY v.session_id ORDER BY max(v.occurred_at) DESC, 1 LIMIT ?"
    )
    return _column(connection, select, cells, limit)


def subjects(connection: apsw.Connection, cells: Collection[int], limit: int) -> list[str]:
    """Return the subjects of facts, by name."""
    select = (
        "SELECT DISTINCT f.subject FROM facts f JOIN versions v USING (row) "
        "JOIN documents d ON d.cell = v.cell AND d.id = v.id AND d.version = v.version "
        f"WHERE d.cell IN {LISTED} AND {LIVE} ORDER BY 1 LIMIT ?"
    )
    return _column(connection, select, cells, limit)


def rows_about(
    connection: apsw.Connection, cells: Collection[int], subject: str
) -> list[tuple[int, str]]:
    """Return row and id of the facts about a subject, newest first."""
    select = (
        "SELECT v.row, v.id FROM facts f JOIN versions v USING (row) "
        "JOIN documents d ON d.cell = v.cell AND d.id = v.id AND d.version = v.version "
        f"WHERE d.cell IN {LISTED} AND {LIVE} AND f.subject = ? "
        "ORDER BY v.occurred_at DESC, v.row DESC"
    )
    found = rows(connection, select, (to_json(tuple(cells)), subject))
    return [(row, key) for row, key in found]


def linked(connection: apsw.Connection, cells: Collection[int], limit: int) -> list[str]:
    """Return the ids that take part in edges, by name."""
    select = (
        "SELECT DISTINCT p.node FROM edges e JOIN participants p ON p.cell = e.cell "
        f"AND p.edge = e.id WHERE e.cell IN {LISTED} AND e.status = 'live' ORDER BY 1 LIMIT ?"
    )
    return _column(connection, select, cells, limit)


def _column(
    connection: apsw.Connection, select: str, cells: Collection[int], limit: int
) -> list[Any]:
    found = rows(connection, select, (to_json(tuple(cells)), limit))
    return [name for (name,) in found if is_text(name)]


# ---- Maps memories to paths and back, and ids to names of files ----
# /index.md /memories/<kind>/<id>.md one's own, private /shared/<user>/<kind>/<id>.md global ones,
# of oneself and of whom a read policy admits /sessions/<session_id>.md /facts/<subject>.md
# /graph/<id>.md the edges of a memory /pinned/ lists where the pinned ones are

PlaceKind: TypeAlias = Literal["folder", "index", "memory", "session", "fact", "graph"]

FOLDERS: Final = ("memories", "shared", "sessions", "facts", "graph", "pinned")
_FILES: Final[dict[str, PlaceKind]] = {"sessions": "session", "facts": "fact", "graph": "graph"}
_LONGEST: Final = 8_192
_MOUNT: Final = "memory"
_NO_MOUNT: Final = "%6Demory"

# Names that no quoted id has: quote() leaves neither a bare percent sign nor a NUL an id may hold.
_NOBODY: Final = "%00"
_EMPTY: Final = "%"


@dataclass(frozen=True)
class Place:
    """The parts of a path, whether or not the path exists."""

    kind: PlaceKind
    top: str = ""
    user: str | None = None
    memory_kind: str | None = None
    id: str | None = None
    has_user: bool = False


def read_place(path: object) -> Place:  # noqa: PLR0911
    """Return what a path names; ignores the mount point up to the last ``/memory/``."""
    if not isinstance(path, str):
        raise error(DTypeError, "path", "a str", type(path).__name__)
    if len(path) > _LONGEST:
        raise error(OptionError, "path", f"at most {_LONGEST} characters", len(path))
    try:
        path.encode()
    except UnicodeEncodeError as fault:
        raise error(OptionError, "path", "valid Unicode", fault.reason) from None
    inside = path.rpartition(f"/{_MOUNT}/")[2]
    parts = [part for part in inside.split("/") if part not in ("", ".")]
    if not parts:
        return Place("folder")
    top, *rest = parts
    if top == "index.md" and not rest:
        return Place("index")
    if top == "memories":
        return _memory(top, rest)
    if top == "shared":
        if not rest:
            return Place("folder", top)
        return _memory(top, rest[1:], user=_user_of(rest[0]), has_user=True)
    if top in FOLDERS and not rest:
        return Place("folder", top)
    if top in _FILES and len(rest) == 1 and rest[0].endswith(".md"):
        return Place(_FILES[top], top, id=_named(rest[0]))
    return Place("memory", top)  # there is none: it reads as empty


def _memory(top: str, rest: list[str], *, user: str | None = None, has_user: bool = False) -> Place:
    match rest:
        case []:
            return Place("folder", top, user, has_user=has_user)
        case [kind]:
            return Place("folder", top, user, unquote(kind), has_user=has_user)
        case [kind, name] if name.endswith(".md"):
            return Place("memory", top, user, unquote(kind), _named(name), has_user=has_user)
    return Place("memory", top, user, has_user=has_user)


def memory_path(episode: Episode) -> str:
    """Return the path of a memory."""
    inside = f"{folder_name(episode.kind)}/{name_of(episode.id)}"
    if episode.visibility == "private":
        return f"/memories/{inside}"
    return f"/shared/{user_name(episode.user_id)}/{inside}"


def path_of(place: Place) -> str:
    """Return the path of a file."""
    if place.kind == "index" or place.id is None:
        return "/index.md"
    name = name_of(place.id)
    if place.kind != "memory":
        return f"/{place.top}/{name}"
    folder = "/memories" if not place.has_user else f"/shared/{user_name(place.user)}"
    return f"{folder}/{folder_name(place.memory_kind or '')}/{name}"


def name_of(key: str) -> str:
    """Return the name of the file of an id."""
    return f"{quote(key, safe='')}.md"


def _named(name: str) -> str:
    """Return the id that a file is named after."""
    return unquote(name.removesuffix(".md"))


def user_name(user: str | None) -> str:
    """Return the folder of a user; the anonymous one and the one without a letter have theirs."""
    if user is None:
        return _NOBODY
    return folder_name(user) or _EMPTY


def _user_of(folder: str) -> str | None:
    if folder == _NOBODY:
        return None
    return "" if folder == _EMPTY else unquote(folder)


def folder_name(name: str) -> str:
    """Quote a name; one of dots alone would be a way out of the folder, and "memory" a mount."""
    if name == _MOUNT:
        return _NO_MOUNT
    quoted = quote(name, safe="")
    return quoted.replace(".", "%2E") if not quoted.strip(".") else quoted


# ---- Finds the memories below a path of a browsed store, and lines in them, for one caller ----

AT_A_TIME = 1_000
"""Memories that are read together."""

BYTES_AT_A_TIME = 1 << 20
"""Of the texts that are searched together; a longer one is searched alone."""

_LINE_ENDS = r"\r\n|[\n\r\x0b\x0c\x1c-\x1e\x{85}\x{2028}\x{2029}]"  # those of str.splitlines


@dataclass(frozen=True)
class Line:
    """A line that :meth:`hyrecall.memory.Browse.grep` found.

    Attributes
    ----------
    path : str
        The memory's.
    number : int
        Of the line in the texts, from 1.
    text : str
        The line.
    """

    path: str
    number: int
    text: str


@dataclass(frozen=True)
class Seen:
    """One read transaction, with the cells that its caller may see."""

    connection: apsw.Connection
    audience: Audience

    @property
    def cells(self) -> tuple[int, ...]:
        """All cells that the caller may see."""
        return tuple(self.audience.cells)

    @property
    def private(self) -> tuple[int, ...]:
        """The caller's private cells."""
        cells = self.audience.cells.items()
        return tuple(n for n, cell in cells if cell.visibility == "private")

    def shared(self, place: Place) -> tuple[int, ...]:
        """The global cells, or those of the user in the path."""
        return tuple(
            number
            for number, cell in self.audience.cells.items()
            if cell.visibility == "global" and (not place.has_user or cell.user == place.user)
        )

    def below(self, place: Place) -> tuple[int, ...]:
        """The cells whose memories lie in the folder of a path."""
        if place.top == "memories":
            return self.private
        return self.shared(place) if place.top == "shared" else self.cells


def rows_below(seen: Seen, place: Place) -> list[tuple[int, str]]:
    """Return row and id of the memories that lie below a path, newest first."""
    connection, cells = seen.connection, seen.below(place)
    if place.kind == "memory":
        # A file lies in one cell. A path without an id names no file.
        found = [
            (row, place.id)
            for cell in cells
            if place.id is not None and (row := head_row(connection, cell, place.id)) is not None
        ]
        kept = episodes_of_rows(connection, [row for row, _ in found], cells)
        there = [one for one in found if one[0] in kept]  # a damaged one is not
        return [one for one in there if kept[one[0]].kind == place.memory_kind]
    if place.kind == "session":
        return newest_rows(connection, cells, session_id=place.id)
    if place.kind == "fact":
        return rows_about(connection, cells, place.id or "")
    if place.kind != "folder" or place.top == "graph":
        return []
    return newest_rows(
        connection,
        cells,
        kind=KIND if place.top == "facts" else place.memory_kind,
        pinned=True if place.top == "pinned" else None,
        in_session=place.top == "sessions",
    )


def memories(seen: Seen, rows: Sequence[int]) -> Iterator[Episode]:
    """Read the memories of rows, in pages."""
    for begin in range(0, len(rows), AT_A_TIME):
        part = rows[begin : begin + AT_A_TIME]
        found = episodes_of_rows(seen.connection, part, seen.cells)
        yield from (found[row] for row in part if row in found)


def matching_lines(
    seen: Seen, rows: Iterable[int], matcher: Callable[[Any], Any], *, within_lines: bool
) -> Iterator[Line]:
    """Yield the matching lines of memories, in the order of the rows."""
    # ``within_lines``: what matches a line matches the text around it, so that other texts are not
    # split. Lines are Arrow's; only those that match become Python's.
    for page in _pages(seen.connection, iter(rows)):
        texts = texts_of_rows(seen.connection, page)
        kept = [  # a damaged one is not
            (row, is_second, text)
            for row in page
            for is_second, text in enumerate(texts.pop(row, ()))
            if text and not text.isspace()
        ]
        column = pa.array([text for _, _, text in kept], pa.large_string())
        if within_lines:
            mask = _mask(matcher(column))
            split = mask.copy()
            for at, (row, is_second, _) in enumerate(kept):  # numbers count the first text's lines
                if is_second and mask[at] and at and kept[at - 1][0] == row:
                    split[at - 1] = True
            column = column.filter(pa.array(split))
            kept = [one for one, is_split in zip(kept, split, strict=True) if is_split]
        from pyarrow.compute import split_pattern_regex

        owners = [(row, is_second) for row, is_second, _ in kept]
        del kept
        yield from _matching_lines(seen, owners, split_pattern_regex(column, _LINE_ENDS), matcher)


def _matching_lines(
    seen: Seen, owners: Sequence[tuple[int, int]], split: Any, matcher: Callable[[Any], Any]
) -> Iterator[Line]:
    import pyarrow.compute as pc  # a function of each kernel: too much for each command

    ends = np.cumsum(pc.list_value_length(split).to_numpy(), dtype=np.int64)
    lines = split.flatten()
    # As splitlines: what follows the last end of a line is a line only if it is not empty.
    n_own = np.diff(ends, prepend=0) - (pc.binary_length(lines.take(ends - 1)).to_numpy() == 0)
    hits = np.flatnonzero(_mask(matcher(lines)))
    for begin in range(0, len(hits), AT_A_TIME):  # the caller takes a few of perhaps millions
        found = hits[begin : begin + AT_A_TIME]
        texts = np.searchsorted(ends, found, "right")
        places = found - np.concatenate([[0], ends])[texts]
        is_line = places < n_own[texts]
        wanted = list({owners[at][0] for at in np.unique(texts[is_line])})
        episodes = episodes_of_rows(seen.connection, wanted, seen.cells)
        for line, at, place in zip(found[is_line], texts[is_line], places[is_line], strict=True):
            row, is_second = owners[at]
            if row in episodes:
                before = n_own[at - 1] if is_second and at and owners[at - 1][0] == row else 0
                number = int(before + place) + 1
                yield Line(memory_path(episodes[row]), number, lines[line].as_py())


def _pages(connection: apsw.Connection, rows: Iterator[int]) -> Iterator[list[int]]:
    """Yield rows whose texts are read together: as many as their bytes allow, at least one."""
    page: list[int] = []
    n_bytes = 0
    while part := list(islice(rows, AT_A_TIME)):
        sizes = text_sizes(connection, part)
        for row in part:
            size = sizes.get(row, 0)
            if page and (n_bytes + size > BYTES_AT_A_TIME or len(page) == AT_A_TIME):
                yield page
                page, n_bytes = [], 0
            page.append(row)
            n_bytes += size
    if page:
        yield page


def _mask(matches: Any) -> npt.NDArray[np.bool_]:
    mask: npt.NDArray[np.bool_] = matches.to_numpy().astype(bool, copy=False)
    return mask


# ---- Renders the files of a browsed store: a memory, a session, facts, edges, the index ----

IN_A_SECTION = 50
_TITLE = 80  # characters


def memory_page(episode: Episode) -> str:
    """Show a memory: what is known of it between two lines of dashes, then what it says."""
    known: dict[str, Any] = {
        "id": episode.id,
        "kind": episode.kind,
        "user": episode.user_id,
        "visibility": episode.visibility,
        "occurred_at": episode.occurred_at.isoformat(),
        "source": episode.source,
        "session": episode.session_id,
        "importance": episode.importance,
        "pinned": episode.pinned or None,
        "tags": list(episode.tags) or None,
        "metadata": episode.metadata or None,
    }
    lines = [f"{name}: {_json(value)}" for name, value in known.items() if value is not None]
    return "\n".join(["---", *lines, "---", "", *_texts(episode)]) + "\n"


def session_page(turns: Sequence[Episode]) -> str:
    """Show turns, given newest first, as they were spoken; none give no page."""
    parts = []
    for turn in reversed(turns):
        parts.append(f"## {turn.occurred_at.isoformat()} {memory_path(turn)}")
        parts.append("\n\n".join(_texts(turn)))
    return "".join(f"{part}\n\n" for part in parts)


def facts_page(facts: Iterable[Fact]) -> str:
    """Show facts, a line each, with the time in which they hold."""
    return "".join(
        f"- {_line(one.predicate)}: {_line(one.object)} "
        f"(from {one.valid_from.isoformat()}{_until(one)})\n"
        for one in facts
    )


def edges_page(edges: Iterable[Edge]) -> str:
    """Show the edges of a memory, a line each: relationship, ends with their parts, description."""
    lines = []
    for edge in edges:
        ends = ", ".join(
            _line(end.id) + (f" ({_line(end.role)})" if end.role else "")
            for end in edge.participants
        )
        told = f": {_line(edge.description)}" if edge.description.strip() else ""
        lines.append(f"- {_line(edge.relationship)} [{ends}]{told}\n")
    return "".join(lines)


def index_page(
    pinned: Sequence[Episode], newest: Sequence[Episode], sessions: Sequence[str]
) -> str:
    """Show what there is to browse; a 51st of a section only says that there are more."""
    parts = ["# Memories\n"]
    sections = (
        ("Pinned", [_entry(one) for one in pinned[: IN_A_SECTION + 1]], "/pinned"),
        ("Newest", [_entry(one) for one in newest[: IN_A_SECTION + 1]], "/memories and /shared"),
        ("Sessions", [_session(one) for one in sessions[: IN_A_SECTION + 1]], "/sessions"),
    )
    for title, lines, folder in sections:
        if not lines and title == "Pinned":
            continue
        shown = "".join(f"- {line}\n" for line in lines[:IN_A_SECTION]) or "Nothing yet.\n"
        parts.append(f"## {title}\n\n{shown}")
        if len(lines) > IN_A_SECTION:
            parts[-1] += f"\nOnly the newest {IN_A_SECTION} are shown; see {folder}.\n"
    return "\n".join(parts)


def _entry(episode: Episode) -> str:
    return f"{episode.occurred_at.date()} [{_title(episode)}]({memory_path(episode)})"


def _session(key: str) -> str:
    return f"[{_line(key)}](/sessions/{name_of(key)})"


def _title(episode: Episode) -> str:
    line = _line(episode.text.strip() or episode.input.strip() or episode.id)
    return line if len(line) <= _TITLE else f"{line[:_TITLE]}..."


def _line(text: str) -> str:
    """Put a text on one line, where brackets would end a link."""
    return " ".join(text.split()).replace("[", "(").replace("]", ")")


def _texts(episode: Episode) -> list[str]:
    return [text for text in (episode.input, episode.text) if text.strip()]


def _until(fact: Fact) -> str:
    return "" if fact.valid_to is None else f" to {fact.valid_to.isoformat()}"


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


# ---- Shows a store as read-only files, for agents that know ``ls``, ``cat`` and ``grep`` ----

MOSTLISTED = 200
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

    def ls(self, path: str = "/", *, limit: int = MOSTLISTED) -> list[str]:
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
        limit: int = MOSTLISTED,
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
            more = IN_A_SECTION + 1
            return index_page(
                newest(connection, cells, pinned=True, limit=more),
                newest(connection, cells, limit=more),
                sessions(connection, cells, more),
            )
        if place.id is None:
            return ""
        if place.kind == "session":
            turns = newest(connection, cells, session_id=place.id, limit=MOST_TURNS)
            return session_page(turns)
        if place.kind == "fact":
            return facts_page(valid_facts(connection, cells, subject=place.id))
        if place.kind == "graph":
            return edges_page(incident(connection, cells, place.id))
        found = memories(seen, [row for row, _ in rows_below(seen, place)])
        return "".join(memory_page(one) for one in found)

    def _entries(self, seen: Seen, place: Place, limit: int) -> Iterator[str]:
        connection, cells = seen.connection, seen.below(place)
        if place.kind != "folder":
            if self._text(seen, place):
                yield path_of(place)
        elif not place.top:
            yield from ("/index.md", *(f"/{folder}/" for folder in FOLDERS))
        elif place.top == "shared" and not place.has_user:
            users = sharers(connection, cells)
            yield from (f"/shared/{user_name(user)}/" for user in users)
        elif place.top in ("memories", "shared") and place.memory_kind is None:
            base = "/memories" if place.top == "memories" else f"/shared/{user_name(place.user)}"
            for kind in kinds(connection, cells, limit):
                yield f"{base}/{folder_name(kind)}/"
        elif place.top in _NAMES:
            for name in _NAMES[place.top](connection, cells, limit):
                yield f"/{place.top}/{name_of(name)}"
        else:
            found = [row for row, _ in rows_below(seen, place)[:limit]]
            yield from map(memory_path, memories(seen, found))


# Folders whose files are generated when they are read.
_NAMES = {"sessions": sessions, "facts": subjects, "graph": linked}


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
