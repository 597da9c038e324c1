"""Cuts a text into chunks: at headings, then at paragraphs, sentences, lines and words."""

from __future__ import annotations

import re
import unicodedata
from array import array
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from hyrecall.base.arguments import as_int, check_keywords
from hyrecall.errors import DTypeError, OptionError, error

CHUNK_TOKENS = 256
_MOST_TOKENS = 1_000_000

# ---- Tokens: words between blanks, and single characters of scripts without spaces ----

# Thai to Lao, Burmese, Khmer, then Chinese and Japanese with their punctuation and wide forms.
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u312f\u31a0-\ua4cf\uf900-\ufaff\ufe30-\ufe4f"
    "\uff00-\uffef\U00020000-\U0003ffff"
)
# A longer word is several tokens, so that a chunk has a size in characters, too.
_TOKEN = re.compile(rf"[^\s{_UNSPACED}]{{1,16}}|(?!\s)[{_UNSPACED}]")
_TOKEN_OF_ASCII = re.compile(r"\S{1,16}")

_PARAGRAPH = re.compile(r"\n[^\S\n]*\n")
_SENTENCE = re.compile(
    r"[.!?\u2026][\"'\u201d\u2019)\]*_]*\s+"
    r"|[\u3002\uff01\uff1f\uff61][\u300d\u300f\u201d\u2019\uff09]*"
    r"|\n(?=[^\S\n]*(?:[-*+>|]|\d+[.)])\s)"  # an item of a list, a row of a table
)
_LINE = re.compile(r"\n")
_MOST_MARKS = 32
"""A longer run of marks is no letter that somebody reads: it is cut anywhere."""


class Heading(NamedTuple):
    """A heading of a text: where it begins and ends, its level and its words."""

    begin: int
    end: int
    level: int
    title: str


@dataclass(frozen=True)
class Parsed:
    """What was read of a file: its text, headings, and the spans to keep whole where they fit."""

    text: str
    headings: Sequence[Heading] = ()
    whole: Sequence[tuple[int, int]] = ()
    lines: Sequence[tuple[int, int]] | None = None
    """(begin, line of the file) of parts of the text; None: the text is that of the file."""


@dataclass(frozen=True)
class Chunk:
    """A part of a text.

    Attributes
    ----------
    text : str
        ``text[begin:end]`` of what was cut; it neither begins nor ends with a blank line.
    heading : str
        The headings above it, outermost first: ``"Guide > Setup"``; "" if there is none.
    begin, end : int
        Its place in what was cut, in characters.
    """

    text: str
    heading: str
    begin: int
    end: int


@check_keywords
def chunks(
    text: str, *, tokens: int = CHUNK_TOKENS, overlap: int | None = None, markdown: bool = True
) -> list[Chunk]:
    """Cut a text into chunks that have at most so many tokens.

    A chunk lies within one section, and ends at the end of a paragraph, a sentence or a line where
    these fit. A block of code stays whole if it fits. Each character that is not blank is in a
    chunk.

    Parameters
    ----------
    text : str
        A token of it is a word between blanks, each 16 characters of a longer word, or one
        character of a script without spaces (Chinese, Japanese, Thai).
    tokens : int, default 256
        The most tokens of a chunk, in [1, 1000000].
    overlap : int, optional
        So many tokens from before a chunk also stand at its beginning, in [0, tokens): fewer at the
        beginning of a section, and where the chunk would be over its size. Default: an eighth of
        the tokens.
    markdown : bool, default True
        Whether the text has headings and blocks of code as in Markdown.

    Returns
    -------
    list of Chunk
        In the order of the text.

    Raises
    ------
    DTypeError, OptionError
        Not a text, or sizes that cannot be.

    Examples
    --------
    >>> found = chunks("# Tea\\n\\n## Green\\n\\nHot, not boiling.\\n\\n## Black\\n\\nBoiling.")
    >>> [(one.heading, one.text.split()[-1]) for one in found]
    [('Tea > Green', 'boiling.'), ('Tea > Black', 'Boiling.')]
    """
    if not isinstance(text, str):
        raise error(DTypeError, "text", "a str", type(text).__name__)
    if not isinstance(markdown, bool):
        raise error(DTypeError, "markdown", "True or False", repr(markdown))
    most, before = read_sizes(tokens, overlap, "tokens")
    parsed = Parsed(text, *markdown_marks(text)) if markdown else Parsed(text)
    return cut(parsed, most, before)


def read_sizes(tokens: object, overlap: object, name: str) -> tuple[int, int]:
    """Check the size of chunks, whose argument has the name, and their overlap."""
    most = as_int(tokens)
    if most is None or not 1 <= most <= _MOST_TOKENS:
        raise error(OptionError, name, f"an int in [1, {_MOST_TOKENS}]", repr(tokens))
    before = most // 8 if overlap is None else as_int(overlap)
    if before is None or not 0 <= before < most:
        raise error(OptionError, "overlap", f"an int in [0, {most}) ({name})", repr(overlap))
    return most, before


# ---- Cuts what was parsed ----

Span = tuple[int, int]  # of tokens


def cut(parsed: Parsed, tokens: int, overlap: int) -> list[Chunk]:
    """Cut the text of a file into chunks."""
    cutter = _Cutter(parsed, tokens, overlap)
    return [one for section in _sections(parsed) for one in cutter.of(*section)]


def _sections(parsed: Parsed) -> Iterator[tuple[int, int, str]]:
    """Yield begin, end and headings of each section, in characters."""
    text, path = parsed.text, list[Heading]()
    begin = 0
    for at, heading in enumerate(parsed.headings):
        if at == 0:
            yield 0, heading.begin, ""
            begin = heading.begin
        path = [*(one for one in path if one.level < heading.level), heading]
        follower = parsed.headings[at + 1] if at + 1 < len(parsed.headings) else None
        end = len(text) if follower is None else follower.begin
        is_bare = not text[heading.end : end].strip()
        if follower is not None and is_bare and follower.level > heading.level:
            continue  # a heading alone stands above the section in it
        yield begin, end, " > ".join(one.title for one in path if one.title)
        begin = end
    if not parsed.headings:
        yield 0, len(text), ""


class _Cutter:
    """Cuts the sections of one text."""

    def __init__(self, parsed: Parsed, tokens: int, overlap: int) -> None:
        self._text = parsed.text
        self._tokens, self._overlap = tokens, overlap
        token = _TOKEN_OF_ASCII if parsed.text.isascii() else _TOKEN
        self._begins, self._ends = array("q"), array("q")  # of each token
        for match in token.finditer(parsed.text):
            self._begins.append(match.start())
            self._ends.append(match.end())
        self._whole = [(self._at(begin), self._at(end)) for begin, end in parsed.whole]

    def of(self, begin: int, end: int, heading: str) -> Iterator[Chunk]:
        """Yield the chunks of a section."""
        first, last = self._at(begin), self._at(end)
        for start, stop in self._packed(self._blocks(first, last)):
            room = self._tokens - (stop - start)
            before = max(first, start - min(self._overlap, room))
            at = self._indented(self._unmarked(before, start), begin)
            yield Chunk(self._text[at : self._ends[stop - 1]], heading, at, self._ends[stop - 1])

    def _indented(self, token: int, begin: int) -> int:
        """Return where a chunk begins: code keeps the indent of its first line."""
        at, before = self._begins[token], max(begin, self._ends[token - 1] if token else 0)
        line = self._text.rfind("\n", before, at) + 1
        return line or (begin if before == begin else at)

    def _packed(self, pieces: Iterator[Span]) -> Iterator[Span]:
        """Join pieces that follow each other as long as they fit; later ones leave the overlap."""
        room, held = self._tokens, None
        for start, stop in pieces:
            if held is not None and stop - held[0] > room:
                yield held
                room, held = self._tokens - self._overlap, None
            held = (start if held is None else held[0], stop)
        if held is not None:
            yield held

    def _blocks(self, first: int, last: int) -> Iterator[Span]:
        """Yield pieces of at most the size, of the text around blocks of code and of these."""
        at = first
        for place in range(bisect_left(self._whole, (first,)), len(self._whole)):
            start, stop = self._whole[place]
            if start >= last:
                break
            if start < stop <= last:
                yield from self._pieces((at, start), _OF_TEXT)
                yield from self._pieces((start, stop), _OF_CODE)
                at = stop
        yield from self._pieces((at, last), _OF_TEXT)

    def _pieces(self, span: Span, ways: Sequence[re.Pattern[str] | None]) -> Iterator[Span]:
        """Yield a span that fits, or its parts by the first of the ways, cut by the next ones."""
        start, stop = span
        if start == stop:
            return
        if stop - start <= self._tokens and ways != _OF_TEXT:
            yield span
            return
        way, *rest = ways
        for part in self._words(span) if way is None else self._parts(span, way):
            yield from self._pieces(part, rest) if rest else iter((part,))

    def _parts(self, span: Span, way: re.Pattern[str]) -> Iterator[Span]:
        begin, end = self._begins[span[0]], self._ends[span[1] - 1]
        ends = (self._at(found.end()) for found in way.finditer(self._text, begin, end))
        yield from ((a, b) for a, b in pairwise([span[0], *ends, span[1]]) if a < b)

    def _words(self, span: Span) -> Iterator[Span]:
        """Yield parts that leave the overlap; a mark stays with its letter if that is possible."""
        start, stop = span
        while start < stop:
            full = min(stop, start + max(self._tokens - self._overlap, 1))
            places = range(full, max(start, full - _MOST_MARKS), -1) if full < stop else ()
            end = next((one for one in places if not self._is_mark(one)), full)
            yield start, end
            start = end

    def _unmarked(self, start: int, last: int) -> int:
        while start < last and self._is_mark(start):
            start += 1
        return start

    def _is_mark(self, token: int) -> bool:
        letter = self._text[self._begins[token]]
        return letter == "\u200d" or unicodedata.category(letter).startswith("M")

    def _at(self, place: int) -> int:
        """Return the first token that begins at a place or behind it."""
        return bisect_left(self._begins, place)


_OF_TEXT: list[re.Pattern[str] | None] = [_PARAGRAPH, _SENTENCE, _LINE, None]
_OF_CODE: list[re.Pattern[str] | None] = [_LINE, None]


# ---- Headings and blocks of code of Markdown and reStructuredText ----

Marks = tuple[list[Heading], list[tuple[int, int]]]
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_ATX = re.compile(r" {0,3}(#{1,6})(?=\s|$)")
_UNDERLINE = re.compile(r" {0,3}(=+|-{2,})[ \t\r]*")
_NO_TITLE = re.compile(r"\s*$|\s*(?:[-*+>|]|\d+[.)])\s| {4}|\t| {0,3}#{1,6}\s")
_LINK = re.compile(r"!?\[([^\]\[]*)\]\([^()]*\)|\{#[^{}]*\}")
_ADORNMENT = re.compile(r"([!-/:-@\[-`{-~])\1{2,}\s*")


def _lines(text: str) -> list[tuple[int, str]]:
    """Return where each line begins, and the line."""
    found, at = [], 0
    for line in text.split("\n"):
        found.append((at, line))
        at += len(line) + 1
    return found


def markdown_marks(text: str) -> Marks:
    """Return the headings and the fenced blocks of a text in Markdown."""
    headings: list[Heading] = []
    fences: list[tuple[int, int]] = []
    fence, opened, before = "", 0, ""
    lines = _lines(text)
    first = _front_matter(lines)
    for at, (begin, line) in enumerate(lines[first:], first):
        end = begin + len(line)
        mark = _FENCE.match(line)
        if fence:
            if mark and mark[1].startswith(fence) and not line[mark.end() :].strip():
                fences.append((opened, end))
                fence = ""
        elif mark and not (mark[1][0] == "`" and "`" in line[mark.end() :]):
            fence, opened, before = mark[1], begin, ""
        elif title := _ATX.match(line):
            headings.append(Heading(begin, end, len(title[1]), _plain(line[title.end() :])))
            before = ""
        elif (
            (rule := _UNDERLINE.fullmatch(line))
            and before
            and (at < first + 2 or not lines[at - 2][1].strip())
        ):
            level = 1 if rule[1][0] == "=" else 2
            headings.append(Heading(lines[at - 1][0], end, level, _plain(before)))
            before = ""
        else:
            before = "" if _NO_TITLE.match(line) else line
    if fence:
        fences.append((opened, len(text)))
    return headings, fences


def _front_matter(lines: Sequence[tuple[int, str]]) -> int:
    """Return how many lines stand between the two rules at the beginning of some files."""
    if lines[0][1].rstrip() != "---":
        return 0
    rules = (at for at, (_, line) in enumerate(lines[1:], 1) if line.rstrip() in ("---", "..."))
    return next(rules, -1) + 1


def _plain(title: str) -> str:
    """Return the words of a heading."""
    words = _LINK.sub(r"\1", title).replace("`", "").replace("**", "").split()
    return " ".join(words[:-1] if words and not words[-1].strip("#") else words)


def rst_marks(text: str) -> Marks:
    """Return the headings of a text in reStructuredText."""
    headings: list[Heading] = []
    levels: list[tuple[str, bool]] = []
    lines = _lines(text)
    at = 1
    while at < len(lines):
        begin, title = lines[at - 1]
        rule, words = _ADORNMENT.fullmatch(lines[at][1]), title.strip()
        starts = at < 2 or not lines[at - 2][1].strip()
        over = _ADORNMENT.fullmatch(lines[at - 2][1]) if at >= 2 else None
        is_boxed = bool(rule and over and over[1] == rule[1])
        is_title = words and not _ADORNMENT.fullmatch(title) and (is_boxed or title[0] != " ")
        if rule and is_title and (starts or is_boxed) and len(rule[0].rstrip()) >= len(words):
            style = (rule[1], is_boxed)
            if style not in levels:
                levels.append(style)
            begin = lines[at - 2][0] if is_boxed else begin
            end = lines[at][0] + len(lines[at][1])
            headings.append(Heading(begin, end, levels.index(style) + 1, " ".join(words.split())))
            at += 1
        at += 1
    return headings, []
