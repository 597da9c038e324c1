"""Reads the files of a folder and cuts them into chunks, as an Arrow table."""

from __future__ import annotations

import errno
import os
import stat
import time
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import pyarrow as pa
import xxhash

from hyrecall.base.arguments import as_items, check_keywords, read_path
from hyrecall.base.progress import ProgressFunction, read_progress
from hyrecall.errors import DTypeError, MissingExtraError, OptionError, error
from hyrecall.folders.cutting import CHUNK_TOKENS, Parsed, cut, read_sizes
from hyrecall.folders.parsing import UnreadableError, parse

PATTERNS = ("**/*.md", "**/*.markdown", "**/*.rst", "**/*.txt", "**/*.html", "**/*.htm", "**/*.pdf")
"""The files that are read by default."""

MOST_BYTES = 64 << 20
"""A larger file is skipped."""

COLUMNS = pa.schema(
    {
        "id": pa.string(),
        "path": pa.string(),
        "place": pa.int64(),
        "heading": pa.string(),
        "text": pa.string(),
        "modified": pa.timestamp("us", tz="UTC"),
        "hash": pa.string(),
        "line": pa.int64(),
    }
)


class FolderSettings(NamedTuple):
    """Which files are read, and how they are cut."""

    patterns: tuple[str, ...]
    chunk_tokens: int
    overlap: int


@dataclass(frozen=True)
class FolderRead:
    """The chunks of a folder's files; a table wherever one is taken.

    Attributes
    ----------
    table : pyarrow.Table
        A row per chunk, by path and place: ``id`` (the path, # and the place), ``path`` (relative,
        with /), ``place`` (from 0), ``heading`` (``"Guide > Setup"``), ``text``, ``modified`` (of
        the file), ``hash`` (of the file's bytes, xxh3_128), ``line`` (where the chunk begins in the
        file, from 1; null in a PDF).
    skipped : tuple of (str, str)
        The path of each file or folder that was not read, and the reason.
    patterns : tuple of str
    chunk_tokens, overlap : int
        How it was read.
    """

    table: pa.Table
    skipped: tuple[tuple[str, str], ...]
    patterns: tuple[str, ...]
    chunk_tokens: int
    overlap: int

    def __repr__(self) -> str:
        """Say how much was read."""
        n_files = len(set(self.table["path"].to_pylist()))
        read = f"{self.table.num_rows} chunks of {n_files} files"
        return f"<FolderRead: {read}, {len(self.skipped)} skipped>"

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Export the table."""
        return self.table.__arrow_c_stream__(requested_schema)


@check_keywords
def read(
    folder: str | os.PathLike[str],
    *,
    patterns: str | Sequence[str] = PATTERNS,
    chunk_tokens: int = CHUNK_TOKENS,
    overlap: int | None = None,
    progress: ProgressFunction | None = None,
) -> FolderRead:
    """Read the files of a folder and cut them into chunks.

    Nothing outside of the folder is read. A file that cannot be read is skipped and told: one of
    more than 64 MiB, one that is not UTF-8, a symbolic link (none is followed), a hidden file or
    folder, a file without a text.

    Parameters
    ----------
    folder : path-like
    patterns : str or sequence of str, default PATTERNS
        Which files, by their path in the folder: ``**`` is any folders, ``*`` any part of a name;
        case does not count. By default Markdown, reStructuredText, text, HTML and PDF, of which
        PDF needs the extra ``[pdf]``, and is skipped without it. A file of any other name is read
        as plain text.
    chunk_tokens, overlap
        As ``tokens`` and ``overlap`` in :func:`chunks`.
    progress : callable, optional
        ``progress(done, total)``, called now and then, in files.

    Returns
    -------
    FolderRead

    Raises
    ------
    OptionError, DTypeError
        No folder, or an option that cannot be one.
    MissingExtraError
        ``patterns`` asks for a PDF, and pypdf is not installed.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "tea.md").write_text("# Tea\\n\\nHot water.\\n")
    >>> read(folder).table.select(["id", "heading", "line"]).to_pylist()
    [{'id': 'tea.md#0', 'heading': 'Tea', 'line': 1}]
    """
    settings = read_settings(patterns, chunk_tokens, overlap)
    return read_changed(folder, settings, {}, read_progress(progress)).found


def read_settings(patterns: object, chunk_tokens: object, overlap: object) -> FolderSettings:
    """Check the options of a reading."""
    given = as_items((patterns,) if isinstance(patterns, str) else patterns)
    wish = 'paths with * and **, relative to the folder, such as "**/*.md"'
    if given is None or not all(isinstance(one, str) for one in given):
        raise error(DTypeError, "patterns", wish, repr(patterns))
    for one in given or ("",):
        if not one or one.startswith("/") or {".", ".."} & set(one.split("/")):
            raise error(OptionError, "patterns", wish, repr(one) if given else "none")
    return FolderSettings(tuple(given), *read_sizes(chunk_tokens, overlap, "chunk_tokens"))


class ChangedRead(NamedTuple):
    """What was read of a folder whose files are known by their hashes."""

    found: FolderRead  # without the files of ``same``
    same: set[str]  # paths of files whose bytes are known
    unread: set[str]  # paths of files and folders that are there, and cannot be read now


def read_changed(
    folder: str | os.PathLike[str],
    settings: FolderSettings,
    known: Mapping[str, str],
    tell: ProgressFunction | None = None,
) -> ChangedRead:
    """Read a folder, without the files whose hash is known."""
    top = read_path(folder)
    try:
        got = None if stat.S_ISDIR(os.stat(top).st_mode) else f"the file {top}"
    except OSError as fault:
        got = f"nothing at {top}" if fault.errno in _GONE else f"{top}: {fault.strerror}"
    if got is not None:
        raise error(OptionError, "folder", "a folder of documents", got)
    skipped, same, unread = list[tuple[str, str]](), set[str](), set[str]()
    found = sorted(_walk(top, settings.patterns, skipped, unread))
    rows = {name: list[Any]() for name in COLUMNS.names}
    told = time.monotonic()
    for done, path in enumerate(found):
        if tell is not None and time.monotonic() - told > 1:
            tell(done, len(found))
            told = time.monotonic()
        try:
            content, modified = _content(top, path)
            digest = xxhash.xxh3_128_hexdigest(content)
            if known.get(path) == digest:
                same.add(path)
                continue
            parsed = parse(PurePosixPath(path), content)
        except UnreadableError as fault:
            skipped.append((path, str(fault)))
            if isinstance(fault, _InputError):
                unread.add(path)
            continue
        except MissingExtraError:
            if settings.patterns != PATTERNS:
                raise
            skipped.append((path, "a PDF: pip install 'hyrecall[pdf]' reads it"))
            unread.add(path)
            continue
        if not _add(rows, path, parsed, settings, (modified, digest)):
            skipped.append((path, "no text in it"))
    if tell is not None:
        tell(len(found), len(found))
    table = pa.table(rows, schema=COLUMNS)
    return ChangedRead(FolderRead(table, tuple(sorted(skipped)), *settings), same, unread)


# ---- The files of a folder ----


class _InputError(UnreadableError):
    """A file is there, and its bytes cannot be had now."""


_GONE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)  # no file, or a link that is not followed


def _walk(
    top: Path, patterns: Sequence[str], skipped: list[tuple[str, str]], unread: set[str]
) -> Iterator[str]:
    """Yield the paths of the files that fit, with /; tell of what is not followed or read."""

    def tell_fault(fault: OSError) -> None:
        path = _relative(top, fault.filename)
        skipped.append((path, f"not readable: {fault.strerror}"))
        if fault.errno not in _GONE:
            unread.add(path)

    wanted = [tuple(one.casefold().split("/")) for one in patterns]
    for where, folders, files in os.walk(top, onerror=tell_fault):
        for name in list(folders):
            full = os.path.join(where, name)
            reason = _why_not(name, is_link=os.path.islink(full))
            if reason is not None:
                folders.remove(name)
                skipped.append((_relative(top, full), reason))
        for name in files:
            full = os.path.join(where, name)
            path = _relative(top, full)
            if not any(_fits(tuple(path.casefold().split("/")), one) for one in wanted):
                continue
            reason = _why_not(name, is_link=os.path.islink(full))
            if reason is None:
                yield path
            else:
                skipped.append((path, reason))


def _relative(top: Path, path: str) -> str:
    """Return a path in the folder; bytes that are not UTF-8 are shown as \\xNN."""
    return os.fsencode(os.path.relpath(path, top)).decode("utf-8", "backslashreplace")


def _why_not(name: str, *, is_link: bool) -> str | None:
    """Return why a file or folder is not read, as far as its name says."""
    if is_link:
        return "a symbolic link"
    if name.startswith("."):
        return "hidden"
    try:
        name.encode()
    except UnicodeEncodeError:
        return "a name that is not UTF-8"
    return None


def _fits(names: Sequence[str], pattern: Sequence[str]) -> bool:
    """Return whether the names of a path fit a pattern; ** fits any number of them."""
    if not pattern:
        return not names
    if pattern[0] == "**":
        return any(_fits(names[at:], pattern[1:]) for at in range(len(names) + 1))
    return bool(names) and fnmatchcase(names[0], pattern[0]) and _fits(names[1:], pattern[1:])


def _content(top: Path, path: str) -> tuple[bytes, int]:
    """Return the bytes of a file and its time in microseconds; no link on the way is followed."""
    *folders, name = path.split("/")
    held = -1
    try:
        held = os.open(top, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        for one in folders:
            outer = held
            held = os.open(one, _FOLDER, dir_fd=outer)
            os.close(outer)
        with open(os.open(name, _FILE, dir_fd=held), "rb") as file:
            facts = os.fstat(file.fileno())
            if not stat.S_ISREG(facts.st_mode):
                raise UnreadableError("not a file")
            content = file.read(MOST_BYTES + 1)
    except OSError as fault:
        kind = UnreadableError if fault.errno in _GONE else _InputError
        raise kind(f"not readable: {fault.strerror}") from None
    finally:
        if held >= 0:
            os.close(held)
    if len(content) > MOST_BYTES:
        raise UnreadableError(f"more than {MOST_BYTES >> 20} MiB")
    return content, min(max(facts.st_mtime_ns // 1000, _FIRST_TIME), _LAST_TIME)


_MICROSECOND, _EPOCH = timedelta(microseconds=1), datetime(1970, 1, 1)
_FIRST_TIME = (datetime.min - _EPOCH) // _MICROSECOND  # a file system may hold times beyond
_LAST_TIME = (datetime.max - _EPOCH) // _MICROSECOND
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # a pipe is not waited for


# ---- The rows of a file ----


def _add(
    rows: dict[str, list[Any]],
    path: str,
    parsed: Parsed,
    settings: FolderSettings,
    facts: tuple[int, str],
) -> int:
    """Add the chunks of a file to the columns; return how many there are."""
    modified, digest = facts
    made = cut(parsed, settings.chunk_tokens, settings.overlap)
    line, counted = 1, 0
    for place, one in enumerate(made):
        at: int | None
        if parsed.lines is None:  # a chunk begins before the one before it ends
            line += parsed.text.count("\n", counted, one.begin)
            line -= parsed.text.count("\n", one.begin, counted)
            at, counted = line, one.begin
        else:
            part = bisect_right(parsed.lines, one.begin, key=lambda part: part[0])
            at = parsed.lines[part - 1][1] if part else None
        values = (f"{path}#{place}", path, place, one.heading, one.text, modified, digest, at)
        for name, value in zip(COLUMNS.names, values, strict=True):
            rows[name].append(value)
    return len(made)
