"""Where the words of a query stand in a text, and the part of the text that shows most of them."""

from __future__ import annotations

import html
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from hyrecall import _core
from hyrecall.base.arguments import as_int
from hyrecall.errors import DTypeError, OptionError, error
from hyrecall.table.arrow_values import SEPARATOR

if TYPE_CHECKING:
    from hyrecall.hits.reply import Reply, ReplySource
    from hyrecall.segments.segments import IndexFacts
    from hyrecall.table.schema import Schema
    from hyrecall.text.analyzer import Analyzer

Mark: TypeAlias = tuple[int, int, object]
"""Start and end of a word in its text, and which term of the query it is."""

_ELLIPSIS = "…"
_UNSPACED = (("\u0e00", "\u0eff"), ("\u1000", "\u109f"), ("\u1780", "\u17ff"))  # Thai to Khmer


def find_marks(
    analyzer: Analyzer, query: str | _core.queries.TextQuery, texts: Sequence[str]
) -> list[list[Mark]]:
    """Return the words of each text that a query asks for, in text order."""
    found = _core.queries.find_marks(analyzer.native, query, list(texts))
    if found is None:
        wish = "an analyzer that tells where its terms stand"
        remedy = "use a preset or a tokenizer"
        raise error(OptionError, "highlights", wish, repr(analyzer), remedy)
    return [[*one] for one in found]


def tells_places(analyzer: Analyzer) -> bool:
    """Say whether words can be marked in the texts of an analyzer."""
    return _core.queries.find_marks(analyzer.native, "", []) is not None


def spans_of(marks: Iterable[Mark]) -> list[tuple[int, int]]:
    """Return the places of marked words; those that touch become one."""
    spans: list[tuple[int, int]] = []
    for start, end, _ in marks:
        if spans and start <= spans[-1][1]:
            spans[-1] = (spans[-1][0], max(end, spans[-1][1]))
        else:
            spans.append((start, end))
    return spans


class Cuts:
    """Says where a text can be cut; a run of letters of flags is measured once."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._run = range(0)  # the places of the last run that was measured

    def whole(self, start: int, end: int) -> tuple[int, int]:
        """Return a part of the text with all of the characters that it begins and ends in."""
        while start > 0 and self.splits(start):
            start -= 1
        while end < len(self.text) and self.splits(end):
            end += 1
        return start, end

    def splits(self, at: int) -> bool:
        """Say whether a cut at a place would divide what readers see as one character."""
        before, after = self.text[at - 1], self.text[at]
        if before.isascii() and after.isascii():
            return before == "\r" and after == "\n"
        joins = (
            unicodedata.category(after)[0] == "M" or unicodedata.combining(before) == 9
        )  # virama
        joins |= "\u200d" in (before, after) or "\U0001f3fb" <= after <= "\U0001f3ff"
        joins |= "\U000e0020" <= after <= "\U000e007f"
        joins |= "\u1160" <= after <= "\u11ff" or "\ud7b0" <= after <= "\ud7ff"  # Hangul by letters
        joins |= "\u1100" <= before <= "\u115f" and (
            "\u1100" <= after <= "\u115f" or "가" <= after <= "힣"
        )
        if joins or not (_is_flag(before) and _is_flag(after)):
            return joins
        if at not in self._run:
            self._run = self._run_at(at)
        return (at - self._run.start) % 2 == 1  # two letters make a flag

    def _run_at(self, at: int) -> range:
        start = end = at
        while start > 0 and _is_flag(self.text[start - 1]):
            start -= 1
        while end < len(self.text) and _is_flag(self.text[end]):
            end += 1
        return range(start, end)


def check_snippet(width: object, before: object, after: object, escape: object) -> int:
    """Refuse wrong options of a snippet; return the width."""
    number = as_int(width)
    if number is None:
        raise error(DTypeError, "width", "an int", repr(width))
    if number < 1:
        raise error(OptionError, "width", "an int >= 1", number)
    for argument, given in (("before", before), ("after", after)):
        if not isinstance(given, str):
            raise error(DTypeError, argument, "a str", type(given).__name__)
    if not isinstance(escape, bool):
        raise error(DTypeError, "escape", "a bool", type(escape).__name__)
    return number


def snippet(
    text: str, marks: Sequence[Mark], width: int, before: str, after: str, *, escape: bool
) -> str:
    """Return the part of a text with most of its marked words, and what stands around them."""
    begin, end = window(text, marks, width)
    cuts = Cuts(text)
    shown = html.escape if escape else str
    made = [_ELLIPSIS] if begin > 0 else []
    at = begin
    for span in spans_of(marks):
        if span[0] >= end or span[1] <= begin:
            continue
        first, last = cuts.whole(*span)
        start, stop = max(first, at), min(last, end)
        if start < stop:
            made += [shown(text[at:start]), before, shown(text[start:stop]), after]
            at = stop
    made.append(shown(text[at:end]))
    if end < len(text):
        made.append(_ELLIPSIS)
    return "".join(made)


def window(text: str, marks: Sequence[Mark], width: int) -> tuple[int, int]:
    """Return the part of a text to show, at most so many characters, cut between words."""
    if len(text) <= width:
        return 0, len(text)
    cuts = Cuts(text)
    first, last = cuts.whole(*_best(marks, width))
    last = min(last, first + width)
    begin = max(0, min(first - (width - (last - first)) // 2, len(text) - width))
    if begin > 0:
        begin = _cut(cuts, range(begin, first + 1), 0)
    end = min(begin + width, len(text))
    if end < len(text):
        end = _cut(cuts, range(end, max(last, begin + 1) - 1, -1), 1)
    return begin, end


def _best(marks: Sequence[Mark], width: int) -> tuple[int, int]:
    """Return the first and the last place of the marks that fit into a width.

    They are those with most distinct terms, then the most, then the earliest.
    """
    fitting = [one for one in marks if one[1] - one[0] <= width]
    if not fitting:
        return marks[0][:2] if marks else (0, 0)
    by_end = sorted(fitting, key=lambda one: one[1])
    best, first = (0, 0), 0
    held: Counter[object] = Counter()
    n_in = n_out = 0
    for begin in dict.fromkeys(start for start, _, _ in fitting):
        while n_in < len(by_end) and by_end[n_in][1] <= begin + width:
            held[by_end[n_in][2]] += 1
            n_in += 1
        while fitting[n_out][0] < begin:
            term = fitting[n_out][2]
            n_out += 1
            held[term] -= 1
            if not held[term]:
                del held[term]
        if (worth := (len(held), n_in - n_out)) > best:
            best, first = worth, begin
    return first, max(end for start, end, _ in fitting if start >= first and end <= first + width)


def _cut(cuts: Cuts, places: Iterable[int], side: int) -> int:
    """Return the first of the places that is between words, else beside one, else in one."""
    # ``side``: 0 where what is behind a place is kept, 1 where what is before it is.
    text = cuts.text
    between = whole = None
    last = 0
    for at in places:
        last = at
        if at == len(text) or cuts.splits(at):
            continue
        ends = not (_is_word(text[at - 1]) and _is_word(text[at]))
        if text[at - 1 + side].isspace() or (
            not ends and (_is_unspaced(text[at - 1]) or _is_unspaced(text[at]))
        ):
            return at
        if between is None and ends:
            between = at
        if whole is None:
            whole = at
    found = between if between is not None else whole
    return last if found is None else found


def _is_word(character: str) -> bool:
    return character.isalnum() or unicodedata.category(character)[0] == "M"


def _is_unspaced(character: str) -> bool:
    """Say whether a character is of a script without spaces between words."""
    if unicodedata.east_asian_width(character) in "WF":
        return not "가" <= character <= "힣"
    return any(one <= character <= other for one, other in _UNSPACED)


def _is_flag(character: str) -> bool:
    return "\U0001f1e6" <= character <= "\U0001f1ff"


# ---- The words of a hit ----


def marked_text(reply: Reply, query: int, at: int, column: str | None) -> tuple[str, list[Mark]]:
    """Return a text of a hit and its marked words; ``column`` None: of ``hit.text``."""
    columns = _columns(reply.facts.schema, column)
    source, texts = reply.source, [reply.cached("row", name)[at] for name in columns]
    if column is not None or len(columns) == 1:
        return texts[0] or "", _marks(reply, source, query, columns[0], texts[0])
    import pyarrow.compute as pc

    text: str = reply.cached("text", reply.facts.text_arms[0])[at] or ""
    marks: list[Mark] = []
    begin = 0
    for name, part in zip(columns, texts, strict=True):
        if part is None or pc.utf8_trim_whitespace(part).as_py() == "":
            continue  # as join_texts() leaves it out
        for start, end, term in _marks(reply, source, query, name, part):
            marks.append((begin + start, begin + end, term))
        begin += len(part) + len(SEPARATOR)
    return text, marks


def are_marked(facts: IndexFacts) -> bool:
    """Say whether the hits of an index have texts in which words can be marked."""
    schema = facts.schema
    is_stored = bool(schema.first_texts) and set(schema.first_texts) <= set(schema.row_columns)
    return is_stored and all(map(tells_places, facts.analyzers.values()))


def _columns(schema: Schema, column: object) -> tuple[str, ...]:
    """Return the columns of a text; refuse those that are of no text arm, or not stored."""
    if column is not None and not isinstance(column, str):
        raise error(DTypeError, "column", "a str", type(column).__name__)
    known = [name for name in schema.text_columns if name in schema.row_columns]
    columns = schema.first_texts if column is None else (column,)
    if not columns or not set(columns) <= set(known):
        got = "none" if column is None and not columns else repr(column or columns)
        raise error(OptionError, "column", f"a stored column of a text arm of {known}", got)
    return columns


def _marks(
    reply: Reply, source: ReplySource, query: int, column: str, text: str | None
) -> list[Mark]:
    """Return the words of a column that the queries of its arms ask for."""
    marks: list[Mark] = []
    arms = reply.bases or reply.trace.arms  # by columns no arm ranks, but each is asked
    for place, arm in enumerate(arms if text else ()):
        one = reply.facts.schema.text_arms.get(arm)
        if one is None or column not in one.columns:
            continue
        asked = source.text_query(place, query)
        if asked is not None:
            found = find_marks(reply.facts.analyzers[arm], asked, [text or ""])[0]
            marks += ((start, end, (place, term)) for start, end, term in found)
    return sorted(marks, key=lambda mark: mark[:2])
