"""What a person types into a search box, as a typed query."""

from __future__ import annotations

import re
from typing import NamedTuple

from hyrecall.ask.queries import All, Any, Boost, Fuzzy, Not, Phrase, Prefix, TextQuery
from hyrecall.base.arguments import check_keywords
from hyrecall.errors import DTypeError, error

_MOST_GROUPS = 5  # each level of parentheses is up to five levels of queries, of 32 in all
_FUZZY = re.compile(r"(.+?)~([12]?)", re.DOTALL)


@check_keywords
def parse(text: str) -> TextQuery:
    """Read what a person typed as a query; never raises, whatever the text.

    ==================  ================================================================
    ``disk full``       either word, as in a plain text
    ``"disk full"``     the words in a row; ``"disk fu*"``: the last is the beginning of a word
    ``-brake``          documents that match it are left out
    ``+disk``           only documents that match it; other parts add to the score
    ``inv*``            words that begin so
    ``mosue~``          words one edit away; ``mosue~2``: up to two
    ``disk OR brake``   what stands on either side, with its own ``+`` and ``-``
    ``(...)``           a part of its own: ``+(disk OR brake) full``
    ==================  ================================================================

    Signs stand right before a word, a phrase or a parenthesis, ``*`` and ``~`` right behind a word.
    All else is read as words: ``a:b``, ``C++``, ``--``, a URL, ``AND``, a quote or parenthesis
    without its partner, ``OR`` with nothing on one side, and parentheses more than five deep.

    Parameters
    ----------
    text : str
        Any text. One without grammar is returned as it is.

    Returns
    -------
    str or typed query
        For ``text=``. A text of nothing but ``-`` parts finds nothing.

    Raises
    ------
    DTypeError
        A text that is not a str.

    Notes
    -----
    There are no fields: every text arm is searched by itself, so no arm could require a word of
    another. Give arms queries of their own: ``text={"title": [parse(a)], "body": [parse(b)]}``.

    Examples
    --------
    >>> parse("green tea")
    'green tea'
    >>> parse('"green tea" matc* -milk')
    Any(Phrase(text='green tea', slop=0), Prefix(text='matc'), Not(query='milk'))
    """
    if not isinstance(text, str):
        raise error(DTypeError, "text", "a str", type(text).__name__)
    reader = _Reader(text)
    query = reader.query(0, is_scored=True)
    return query if reader.has_grammar else text


class _Clause:
    """The parts between two ORs."""

    def __init__(self) -> None:
        self.words: list[str] = []
        self.parts: list[TextQuery] = []
        self.required: list[TextQuery] = []
        self.excluded: list[Not] = []

    def __bool__(self) -> bool:
        return bool(self.words or self.parts or self.required or self.excluded)

    def query(self, *, is_scored: bool) -> TextQuery:
        """Return the clause as one query."""
        parts = [*([" ".join(self.words)] if self.words else []), *self.parts]
        if not self.required:
            parts = parts or [""]
            return Any(*parts, *self.excluded) if len(parts) > 1 or self.excluded else parts[0]
        if not parts or not is_scored:
            return All(*self.required, *self.excluded)
        # What is required also stands among the parts that are not, so that none of these must
        # match. Both places together weigh as much as one.
        first = self.required[0]
        is_one = len(self.required) == 1 and not isinstance(first, str)
        half = Boost(first if is_one else All(*self.required), 0.5)
        return All(half, Any(*parts, half), *self.excluded)


class _Token(NamedTuple):
    sign: str
    word: str = ""
    query: TextQuery | None = None  # instead of a word


class _Reader:
    """Reads a text from left to right."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._last_closed = text.rfind(")")
        self.has_grammar = False

    def query(self, depth: int, *, is_scored: bool) -> TextQuery:
        """Read up to the end, or to the parenthesis that closes a group."""
        clauses = [_Clause()]
        while self._skip_space(depth):
            sign, word, query = self._token(depth, is_scored=is_scored)
            clause = clauses[-1]
            if (sign, word) == ("", "OR") and clause and self._skip_space(depth):
                self.has_grammar = True
                clauses.append(_Clause())
            elif sign == "+":
                clause.required.append(query or _whole(word))
            elif sign == "-":
                clause.excluded.append(Not(query or _whole(word)))
            elif query is not None:
                clause.parts.append(query)
            else:
                clause.words.append(word)
        made = [clause.query(is_scored=is_scored) for clause in clauses]
        return made[0] if len(made) == 1 else Any(*made)

    def _skip_space(self, depth: int) -> bool:
        """Go to the next token; return whether the group has one."""
        while self._at < len(self._text) and self._text[self._at].isspace():
            self._at += 1
        return self._at < len(self._text) and not (depth and self._text[self._at] == ")")

    def _token(self, depth: int, *, is_scored: bool) -> _Token:
        begin = self._at
        sign = self._text[begin] if self._text[begin] in "+-" else ""
        self._at += len(sign)
        query = self._phrase() or self._group(depth, is_scored=is_scored and sign != "-")
        if query is not None:
            self.has_grammar = True
            return _Token(sign, query=query)
        word = self._word(depth)
        if sign and (word[:1] in ("", "+", "-") or not _has_word(word)):
            sign, word = "", sign + word
        query = _pattern(word)
        self.has_grammar |= bool(sign) or query is not None
        return _Token(sign, word, query)

    def _phrase(self) -> TextQuery | None:
        """Read a phrase, if one begins here."""
        text, begin = self._text, self._at + 1
        end = text.find('"', begin) if text.startswith('"', self._at) else -1
        if end < 0 or not _has_word(text[begin:end]):
            return None
        self._at = end + 1
        words = text[begin:end].rstrip()
        return Phrase(words.rstrip("*"), prefix_last=words.endswith("*"))

    def _group(self, depth: int, *, is_scored: bool) -> TextQuery | None:
        """Read a group in parentheses, if one begins here."""
        is_open = self._text.startswith("(", self._at) and self._at < self._last_closed
        if not is_open or depth == _MOST_GROUPS:
            return None
        self._at += 1
        query = self.query(depth + 1, is_scored=is_scored)
        self._at += 1  # the parenthesis, or the end
        return Any(query) if isinstance(query, str) else query

    def _word(self, depth: int) -> str:
        """Read up to the next space, or to a parenthesis that closes a group."""
        begin, n_open = self._at, 0
        while self._at < len(self._text):
            one = self._text[self._at]
            n_open += (one == "(") - (one == ")")
            if one.isspace() or (depth and n_open < 0):
                break
            n_open = max(n_open, 0)
            self._at += 1
        return self._text[begin : self._at]


def _has_word(text: str) -> bool:
    return any(one.isalnum() for one in text)


def _whole(word: str) -> TextQuery:
    """Return the query of a word that may be several tokens, which must stand together."""
    return word if word.isascii() and word.isalnum() else Phrase(word)


def _pattern(word: str) -> TextQuery | None:
    """Return the query of a word that ends in ``*`` or ``~``."""
    if word.endswith("*") and _has_word(word):
        return Prefix(word.rstrip("*"))
    fuzzy = _FUZZY.fullmatch(word)
    if fuzzy is not None and _has_word(fuzzy[1]):
        return Fuzzy(fuzzy[1], int(fuzzy[2] or 1))
    return None
