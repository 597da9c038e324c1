"""Reads the bytes of a file as a text with headings: Markdown, reStructuredText, HTML, PDF."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from html import unescape
from pathlib import PurePosixPath

from hyrecall.errors import MissingExtraError, error
from hyrecall.folders.cutting import Heading, Marks, Parsed, markdown_marks, rst_marks


class UnreadableError(Exception):
    """A file cannot be read; the message is the reason that is told."""


def parse(path: PurePosixPath, content: bytes) -> Parsed:
    """Read a file's bytes by the ending of its name."""
    ending = path.suffix.lower()
    if ending == ".pdf":
        return _of_pdf(content)
    text = _decoded(content)
    if ending in (".html", ".htm"):
        return _of_html(text)
    marks = _MARKS.get(ending)
    return Parsed(text) if marks is None else Parsed(text, *marks(text))


_MARKS: dict[str, Callable[[str], Marks]] = {
    ".md": markdown_marks, ".markdown": markdown_marks, ".rst": rst_marks,
}  # fmt: skip


def _decoded(content: bytes) -> str:
    if b"\0" in content:
        raise UnreadableError("binary: it has a zero byte")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as fault:
        raise UnreadableError(f"not UTF-8: {fault.reason} at byte {fault.start}") from None
    return text.replace("\r\n", "\n").replace("\r", "\n")


# ---- HTML ----

_UNSEEN = {"script", "style", "template", "noscript", "svg"}
_BLOCKS = {
    *("address", "article", "aside", "blockquote", "body", "details", "dd", "div", "dl", "dt"),
    *("figcaption", "figure", "footer", "form", "h1", "h2", "h3", "h4", "h5", "h6", "header", "hr"),
    *("li", "main", "nav", "ol", "p", "pre", "section", "summary", "table", "title", "tr", "ul"),
}
_LEVELS = {"title": 0, **{f"h{level}": level for level in range(1, 7)}}
_BLANKS = re.compile(r"\s+")
# Nothing is given back once it is matched, and what is not closed ends with the file, so that every
# page takes linear time: 100 kB of "<a " take html.parser of Python 3.11 minutes.
_MARKUP = re.compile(
    r"<!--(?s:.*?)(?:-->|\Z)|<[!?][^>]*+(?:>|\Z)"
    r"""|<(/?)([a-zA-Z][^\s/>]*+)(?>[^>=]++|=\s*+(?:"[^"]*+"|'[^']*+')?+)*+(?:>|\Z)"""
)


def _of_html(text: str) -> Parsed:
    page, at, shown, line = _HtmlText(), 0, 0, 1
    while (at := text.find("<", at)) >= 0:
        found = _MARKUP.match(text, at)
        if found is None:  # a sign in the text
            at += 1
            continue
        page.add(text[shown:at], line)
        at, slash, tag = found.end(), found[1], (found[2] or "").lower()
        if slash:
            page.end(tag)
        elif tag in _UNSEEN and not found[0].endswith("/>"):
            end = re.compile(rf"</{tag}(?=[\s/>])", re.IGNORECASE).search(text, at)
            at = len(text) if end is None else end.start()
        elif tag:
            page.begin(tag)
        line += text.count("\n", shown, at)
        shown = at
    page.add(text[shown:], line)
    return Parsed(page.text, sorted(page.headings), page.whole, page.lines)


class _HtmlText:
    """Collects the text of a page, its headings, its ``pre`` blocks, and the lines of its parts."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._size = 0
        self._opened: dict[str, tuple[int, int]] = {}  # where a heading or pre began: size, part
        self.headings: list[Heading] = []
        self.whole: list[tuple[int, int]] = []
        self.lines: list[tuple[int, int]] = []

    @property
    def text(self) -> str:
        """What was collected."""
        return "".join(self._parts)

    def begin(self, tag: str) -> None:
        """Begin a block."""
        if tag in _BLOCKS:
            self._put("\n\n")
            if tag == "pre" or tag in _LEVELS:
                self._opened.setdefault(tag, (self._size, len(self._parts)))
        elif tag == "br":
            self._put("\n")
        elif tag in ("td", "th"):
            self._put(" ")

    def end(self, tag: str) -> None:
        """End a block."""
        if tag in self._opened:
            begin, part = self._opened.pop(tag)
            title = " ".join("".join(self._parts[part:]).split())
            if tag == "pre":
                self.whole.append((begin, self._size))
            elif title:
                self.headings.append(Heading(begin, self._size, _LEVELS[tag], title))
        if tag in _BLOCKS:
            self._put("\n\n")

    def add(self, data: str, line: int) -> None:
        """Add a text that begins in a line of the file."""
        if data:
            self.lines.append((self._size, line))
            data = unescape(data)
            self._put(data if "pre" in self._opened else _BLANKS.sub(" ", data))

    def _put(self, text: str) -> None:
        if text in (" ", "\n\n") and self._parts and self._parts[-1] == "\n\n":
            return
        self._parts.append(text)
        self._size += len(text)


# ---- PDF ----


def _of_pdf(content: bytes) -> Parsed:
    try:
        import pypdf
    except ImportError:
        wish = "pypdf, to read a PDF (pip install 'hyrecall[pdf]')"
        raise error(MissingExtraError, "patterns", wish, "no package pypdf") from None
    parts, headings, size = list[str](), list[Heading](), 0
    try:
        for number, page in enumerate(pypdf.PdfReader(io.BytesIO(content)).pages, 1):
            read = page.extract_text().encode("utf-8", "replace").decode().strip()
            headings.append(Heading(size, size, 1, f"page {number}"))
            parts.append(f"{read}\n\n")
            size += len(parts[-1])
    except Exception as fault:  # pypdf raises errors of many kinds for a file that is damaged
        raise UnreadableError(f"not a PDF that pypdf reads: {fault}") from None
    return Parsed("".join(parts), headings, lines=())
