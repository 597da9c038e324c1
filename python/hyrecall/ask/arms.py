"""Options of the arms other than text and vectors; see :mod:`hyrecall.arms`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias, TypeVar

import pyarrow as pa

from hyrecall.base.arguments import check_keywords, check_objects, convert_field, is_one_of, one_of
from hyrecall.base.graphs import GraphLike
from hyrecall.base.options import integer
from hyrecall.errors import DTypeError, OptionError, error

# ---- Checks arguments of arms' constructors ----


def read_arm_name(name: object) -> None:
    """Refuse a name that is not a non-empty str."""
    if not isinstance(name, str) or not name:
        raise error(OptionError, "name", "a name for the arm", repr(name))


def read_columns(argument: str, columns: object) -> tuple[Any, ...]:
    """Convert one column or a sequence of columns to a tuple."""
    if isinstance(columns, str) or not isinstance(columns, Sequence):
        columns = (columns,)
    if not columns:
        raise error(OptionError, argument, "at least one column", "none")
    return tuple(columns)


# ---- Options of the arm that retrieves documents by the texts of their edges in a graph ----


@check_keywords
@dataclass(frozen=True)
class EdgeLexical:
    """Retrieves the documents of a graph's edges by BM25 over the edges' texts.

    The best ``depth`` edges in the query's scope are read, with statistics of the edges in scope. A
    document has the score of its best edge among them; ``hit.evidence(name)`` is that edge's key.

    Parameters
    ----------
    graph : Graph or str
        A graph over the recalled index, or its name in ``graphs=``. With a name, the arm is plain
        data.
    name : str, default "edges"
        The arm's name.
    depth : int, optional
        Number of edges that are read; default: the recall's depth.

    Examples
    --------
    >>> EdgeLexical("knowledge").name
    'edges'
    """

    graph: GraphLike | str
    name: str = field(default="edges", kw_only=True)
    depth: int | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        """Check the options."""
        read_arm_name(self.name)
        if self.depth is not None:
            convert_field(self, "depth", integer, 1)


# ---- Options of the arms without query text: documents that the caller lists, and the newest ----


@check_keywords
@dataclass(frozen=True)
class Listed:
    """An arm whose candidates the caller passes with each call, as ``candidates={name: ...}``.

    The value has one entry per query: a sequence of keys, best first, a mapping of keys to scores,
    or None. Without scores, the n-th key scores 1 / n. Keys that are missing or outside the query's
    scope are ignored; a key in several cells of the scope means all of its documents.

    Parameters
    ----------
    name : str
        The arm's name.

    Examples
    --------
    >>> import pyarrow as pa
    >>> import hyrecall as hr
    >>> table = pa.table({"id": ["a", "b", "c"], "text": ["tea", "milk", "tea"]})
    >>> index = hr.Index.build(table, hr.Schema(key="id", cell=None, text="text"))
    >>> hints = {"hints": [["b", "nowhere", "a"]]}
    >>> index.recall(arms=hr.arms.Listed("hints"), candidates=hints)[0].keys
    ['b', 'a']
    """

    name: str

    def __post_init__(self) -> None:
        """Check the name."""
        read_arm_name(self.name)


@check_keywords
@dataclass(frozen=True)
class Newest:
    """Retrieves the documents with the largest values of an attribute, such as the newest.

    The score is 1 / n for the n-th largest distinct value. Documents with equal values have the
    same score and are ordered by seq. A document without a value is not in the arm.

    Parameters
    ----------
    column : str
        An attribute column of numbers, dates or times.
    name : str, default "newest"
        The arm's name.

    Examples
    --------
    >>> import pyarrow as pa
    >>> import hyrecall as hr
    >>> table = pa.table({"id": ["a", "b", "c"], "text": ["x", "y", "z"], "at": [3, None, 8]})
    >>> schema = hr.Schema(key="id", cell=None, text="text", attributes="at")
    >>> hr.Index.build(table, schema).recall(arms=hr.arms.Newest("at"))[0].keys
    ['c', 'a']
    """

    column: str
    name: str = field(default="newest", kw_only=True)

    def __post_init__(self) -> None:
        """Check the name."""
        read_arm_name(self.name)


# ---- Options and pattern checks of the regular-expression arm, which runs Arrow's RE2 ----

ArmT = TypeVar("ArmT")

MOST_STATES = 256
"""States that the repetitions of a pattern may hold open. RE2 takes up to 50 ns for each of them
and each byte of a text, and no text is left half searched."""

PATTERN_WISH = f"a regular expression (RE2) whose repetitions hold at most {MOST_STATES} states"

_COUNTED = 1 << 20
_PARTS = re.compile(
    r"""(?P<quote>\\Q.*?(?:\\E|\Z))
      | (?P<flags>\(\?[imsU-]+\))
      | (?P<open>\((?:\?(?:P?<\w*>|[imsU-]*:))?)
      | (?P<close>\))
      | (?P<repeat>[*+?]\??|\{(?P<counts>\d{1,9}(?:,\d{0,9})?)\}\??)
      | (?P<or>\|)
      | (?P<one>\\[pPx]\{[^}]*\}|\\.|\[\^?\]?(?:\[:\^?\w*:\]|\\.|[^\]\\])*\]|.)""",
    re.VERBOSE | re.DOTALL,
)

_METACHARACTERS = re.compile(r"[\\^$.|?*+()\[\]{}]")


@check_keywords
@dataclass(frozen=True)
class Edges:
    """Makes :class:`Regex` search the texts of a document's edges in a graph.

    Parameters
    ----------
    graph : Graph or str
        A graph over the recalled index, or its name in ``graphs=``.
    """

    graph: GraphLike | str


@check_keywords
@dataclass(frozen=True)
class Regex:
    """Retrieves documents with a column that a pattern matches, in time linear in the text.

    The score is 1 / n if the n-th column is the first that matches. Equal scores are ordered by
    seq.

    Parameters
    ----------
    columns : str, or sequence of str and Edges
        Stored text columns or the key, the most important first. ``.`` does not match a line break;
        ``^`` and ``$`` match only at the ends of the text.
    name : str, default "regex"
        The arm's name.
    ignore_case : bool, default True
    on_bad : {"error", "literal"}, default "error"
        For an invalid pattern: raise an error that names it, or search for it as plain text.
    pattern : str, optional
        One pattern for all queries, instead of their texts.
    only_patterns : bool, default False
        Skip a query whose text has no metacharacter or is not a valid pattern.

    Raises
    ------
    OptionError
        A pattern that is not valid in RE2: ``(``, or one that needs backtracking, such as
        ``(?=a)`` or ``(a)\\1``; one whose repetitions hold more than 256 states, such as
        ``(.{0,99}a){3}``.

    Examples
    --------
    >>> import hyrecall as hr
    >>> table = pa.table({"id": ["tea-1", "b"], "text": ["milk", "TEA for two"]})
    >>> index = hr.Index.build(table, hr.Schema(key="id", cell=None, text="text"))
    >>> arm = hr.arms.Regex(("id", "text"))
    >>> found = index.recall(text={"regex": ["t.a"]}, arms=arm)[0]
    >>> [(hit.key, hit.score) for hit in found]
    [('tea-1', 1.0), ('b', 0.5)]
    """

    columns: tuple[str | Edges, ...]
    name: str = field(default="regex", kw_only=True)
    ignore_case: bool = field(default=True, kw_only=True)
    on_bad: Literal["error", "literal"] = field(default="error", kw_only=True)
    pattern: str | None = field(default=None, kw_only=True)
    only_patterns: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        """Check the options."""
        read_arm_name(self.name)
        convert_field(self, "columns", read_columns)
        for column in self.columns:
            if not isinstance(column, str | Edges):
                raise error(DTypeError, "columns", "column names and arms.Edges", repr(column))
        for option in ("ignore_case", "only_patterns"):
            if not isinstance(getattr(self, option), bool):
                raise error(OptionError, option, "a bool", repr(getattr(self, option)))
        if not is_one_of(self.on_bad, ("error", "literal")):
            raise error(OptionError, "on_bad", "'error' or 'literal'", repr(self.on_bad))
        if self.pattern is not None and (
            not isinstance(self.pattern, str) or not self.pattern.strip()
        ):
            raise error(OptionError, "pattern", "a pattern that is not blank", repr(self.pattern))


def check_pattern(arm: Regex, pattern: str, argument: str) -> str | None:
    """Return the fault of an invalid pattern that the arm will search as text; None if it is
    valid.
    """
    fault = pattern_fault(pattern)
    if fault is not None and arm.on_bad == "error":
        raise error(OptionError, argument, PATTERN_WISH, f"{pattern!r}: {fault}")
    return fault


def pattern_fault(pattern: str) -> str | None:
    """Return the fault of a pattern that RE2 refuses or that is too large; None if it is valid."""
    import pyarrow.compute as pc

    try:
        pc.match_substring_regex(pa.array([""]), pattern)
    except (pa.ArrowInvalid, UnicodeEncodeError) as fault:
        return str(fault).removeprefix("Invalid regular expression: ")
    states = open_states(pattern)
    if states > MOST_STATES:
        return f"its repetitions hold {states:,} states"
    return None


def open_states(pattern: str) -> int:
    """Count the states that a pattern's repetitions can hold open at once."""
    # Each letter, class or dot under a repetition counts, as often as it is repeated at most: RE2's
    # time for a byte of text grows with their number, where many texts match in part.
    groups = [[0, 0]]  # of each open group: states, and those of them that are under a repetition
    last = (0, 0)  # of what a repetition would repeat
    for part in _PARTS.finditer(pattern):
        kind, text = part.lastgroup, part[0]
        if kind == "quote":
            last = (1, 0)
            groups[-1][0] += max(len(text) - 4, 0)
        elif kind == "open":
            groups.append([0, 0])
        elif kind == "close" and len(groups) > 1:
            states, held = groups.pop()
            last = (states, held)
            groups[-1][0] += states
            groups[-1][1] += held
        elif kind == "repeat":
            counts = (
                [int(count) for count in part["counts"].split(",") if count]
                if part["counts"]
                else [1]
            )
            states = min(last[0] * max(1, *counts), _COUNTED)
            groups[-1][0] += states - last[0]
            groups[-1][1] += states - last[1]
            last = (states, states)
        elif kind == "one":
            last = (1, 0)
            groups[-1][0] += 1
    return min(sum(held for _, held in groups), _COUNTED)


def without_edges(arm: ArmT) -> ArmT | None:
    """Return a regex arm without its :class:`Edges` columns, or None if no column is left."""
    # Arms of other kinds are returned unchanged.
    if not isinstance(arm, Regex):
        return arm
    columns = tuple(column for column in arm.columns if isinstance(column, str))
    return replace(arm, columns=columns) if columns else None


@check_objects
def is_pattern(text: str) -> bool:
    """Return whether a text has a metacharacter and is a valid pattern.

    Examples
    --------
    >>> is_pattern("tea.*milk"), is_pattern("tea and milk"), is_pattern("(")
    (True, False, False)
    """
    return _METACHARACTERS.search(text) is not None and pattern_fault(text) is None


# ---- Options of the arm that retrieves documents by their tags ----

_PRESETS = ("unicode", "word", "unicode61", "porter")
MOST_HOPS = 5


@check_keywords
@dataclass(frozen=True)
class Tags:
    """Retrieves documents by the tags that a query names, and by neighbouring tags.

    A query names a tag if they share a token. Tags of the same document are neighbours. A document
    scores ``base x 0.5^hops`` for its nearest tag, where base rises from 0.6 to 0.9 with the number
    of documents of the largest named tag (docs/scoring.md). Tags, counts and neighbours come from
    the query's scope; a filter only narrows the result.

    Parameters
    ----------
    column : str
        An attribute column of strings or lists of strings.
    name : str, default "tags"
        The arm's name.
    depth : int, default 1
        Most hops from a named tag, in [0, 5].
    partial : bool, default False
        Tokens also match if one contains the other and the shorter has at least three letters.
    analyzer : {"unicode", "word", "unicode61", "porter"}, default "unicode"
        Splits the query and the tags into tokens.

    Examples
    --------
    >>> import pyarrow as pa
    >>> import hyrecall as hr
    >>> tags = [["tea", "kettle"], ["kettle"], ["milk"]]
    >>> table = pa.table({"id": ["a", "b", "c"], "text": ["x", "y", "z"], "tags": tags})
    >>> schema = hr.Schema(key="id", cell=None, text="text", attributes="tags")
    >>> index = hr.Index.build(table, schema)
    >>> found = index.recall(text={"tags": ["more tea"]}, arms=hr.arms.Tags("tags"))
    >>> [(hit.key, round(hit.score, 3)) for hit in found[0]]
    [('a', 0.6), ('b', 0.3)]
    """

    column: str
    name: str = field(default="tags", kw_only=True)
    depth: int = field(default=1, kw_only=True)
    partial: bool = field(default=False, kw_only=True)
    analyzer: str = field(default="unicode", kw_only=True)

    def __post_init__(self) -> None:
        """Check the options."""
        read_arm_name(self.name)
        convert_field(self, "depth", integer, 0, MOST_HOPS)
        if not isinstance(self.partial, bool):
            raise error(OptionError, "partial", "a bool", repr(self.partial))
        one_of("analyzer", self.analyzer, _PRESETS)


# ---- Options of the arms other than text and vectors; see :mod:`hyrecall.arms` ----

Arm: TypeAlias = Regex | Newest | Listed | EdgeLexical | Tags
