"""Options and pattern checks of the regular-expression arm, which runs Arrow's RE2."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Literal, TypeVar

import pyarrow as pa

from hyrecall.ask.arms.checks import read_arm_name, read_columns
from hyrecall.ask.graphs import GraphLike
from hyrecall.base.arguments import convert_field, is_one_of
from hyrecall.base.keywords import check_keywords
from hyrecall.errors import DTypeError, OptionError, error

__all__ = [
    "MOST_STATES",
    "PATTERN_WISH",
    "Edges",
    "Regex",
    "check_pattern",
    "is_pattern",
    "open_states",
    "pattern_fault",
    "without_edges",
]

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
    """Among the columns of :class:`Regex`: the texts of a document's edges in a graph.

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


def is_pattern(text: str) -> bool:
    """Return whether a text has a metacharacter and is a valid pattern.

    Examples
    --------
    >>> is_pattern("tea.*milk"), is_pattern("tea and milk"), is_pattern("(")
    (True, False, False)
    """
    return _METACHARACTERS.search(text) is not None and pattern_fault(text) is None
