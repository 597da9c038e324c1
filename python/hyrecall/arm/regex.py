"""The arm of the documents whose texts a pattern matches: RE2, as Arrow brings it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hyrecall import _core
from hyrecall.arm.arm import (
    ArmQueries,
    Batch,
    FoundDocs,
    Rows,
    SearchArm,
    from_entries,
    no_candidates,
    plain_texts,
    read_arm_name,
)
from hyrecall.ask.scope import distinct_scopes, scope_of
from hyrecall.base import threads
from hyrecall.base.arguments import check_keywords, check_objects, convert_field, is_one_of
from hyrecall.base.options import GraphLike
from hyrecall.errors import DTypeError, OptionError, error
from hyrecall.table.attributes import RowTypes

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


CHUNK_ROWS = 65_536
"""Rows whose text is in memory at a time."""

SLICE_STEPS = 1 << 22
"""Bytes of text, times the states of the pattern, that are searched in one go."""

Mask = npt.NDArray[np.bool_]
Found = tuple[npt.NDArray[Any], ...]  # segment, row, place of the column
Matcher = Callable[[Any], Any]  # an Arrow column of strings -> which match


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
class Regex(SearchArm):
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
        convert_field(self, "columns", _read_columns)
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

    _is_slow = True

    @property
    def _takes(self) -> Literal["text", "nothing"]:
        return "text" if self.pattern is None else "nothing"

    @property
    def _columns(self) -> tuple[str, ...]:
        return tuple(column for column in self.columns if isinstance(column, str))

    @property
    def _graphs(self) -> tuple[tuple[str, GraphLike | str], ...]:
        edges = (column for column in self.columns if isinstance(column, Edges))
        return tuple((f"{self.name}.columns", column.graph) for column in edges)

    @property
    def _refused_over_shards(self) -> str | None:
        return "Regex in Edges" if self._graphs else None

    def _with_graphs(self, graphs: Mapping[str, GraphLike]) -> Self:
        columns = (
            Edges(graphs[c.graph]) if isinstance(c, Edges) and isinstance(c.graph, str) else c
            for c in self.columns
        )
        return replace(self, columns=tuple(columns))

    def _without_graphs(self) -> Self | None:
        return replace(self, columns=self._columns) if self._columns else None

    def _ask(self, facts: RowTypes, given: Sequence[object] | None, n_queries: int) -> ArmQueries:
        self._check_columns(facts)
        patterns = [self.pattern] * n_queries if given is None else plain_texts(self.name, given)
        if self.only_patterns:
            patterns = [p if p is not None and is_pattern(p) else None for p in patterns]
        faults: dict[str, str | None] = {}
        notes: dict[str, Mapping[int, str] | None] = {}
        for at, pattern in enumerate(patterns):
            if pattern is None:
                continue
            argument = f"text[{self.name!r}][{at}]" if self.pattern is None else "pattern"
            if pattern not in faults:
                faults[pattern] = check_pattern(self, pattern, argument)
            if faults[pattern] is not None:
                told = f": {pattern!r} is no pattern, searched as text"
                alone = {at: f"text[{self.name!r}]{told}"} if self.pattern is None else None
                notes[argument + told] = alone
        return ArmQueries(patterns, notes)

    def _check_columns(self, facts: RowTypes) -> None:
        argument = f"{self.name}.columns"
        for column in self._columns:
            if column not in facts.schema.row_columns:
                known = [one for one in facts.schema.row_columns if _is_text(facts.row_types[one])]
                raise error(OptionError, argument, f"stored text columns of {known}", repr(column))
            kind = facts.row_types[column]
            if not (_is_text(kind) or column == facts.schema.key):
                wish, got = "text columns, or the key", f"{column!r} of {kind}"
                raise error(DTypeError, argument, wish, got)

    def _search(self, batch: Batch, asked: ArmQueries) -> FoundDocs:
        # Each distinct (pattern, scope, filter) is searched once.
        patterns = list(asked.entries)
        distinct = dict.fromkeys(pattern for pattern in patterns if pattern is not None)
        matchers = {pattern: _matcher(self, pattern) for pattern in distinct}
        if not matchers:
            return no_candidates(batch.n_queries)
        groups = batch.audience.group_of
        # Scopes with the same documents may have other edges.
        scopes = distinct_scopes(batch.scope if self._graphs else None, batch.n_queries)
        query: list[npt.NDArray[Any]] = []
        found: list[Found] = []
        for group in range(batch.audience.n_groups):
            members = [q for q in np.flatnonzero(groups == group) if patterns[q] is not None]
            if not members:
                continue
            wanted: dict[tuple[str, int], int] = {}  # with a query of each
            for q in members:
                wanted.setdefault((str(patterns[q]), int(scopes[q])), int(q))
            own = [matchers[pattern] for pattern, _ in wanted]
            lists = _best_rows(self, batch, group, list(wanted.values()), own)
            by_pattern = dict(zip(wanted, lists, strict=True))
            for q in members:
                one = by_pattern[str(patterns[q]), int(scopes[q])]
                query.append(np.full(len(one[0]), q))
                found.append(one)
        nothing = (np.zeros(0, np.uint32),) * 2 + (np.zeros(0, np.int64),)
        segment, row, place = (np.concatenate(parts) for parts in zip(nothing, *found, strict=True))
        scores = np.array([_core.arms.place_score(at + 1) for at in range(len(self.columns))])
        names = pa.array([c if isinstance(c, str) else "edges" for c in self.columns])
        return from_entries(
            batch.n_queries,
            np.concatenate([np.zeros(0, np.int64), *query]),
            segment,
            row,
            scores[place],
            names.take(pa.array(place)),
        )


def _read_columns(argument: str, columns: object) -> tuple[Any, ...]:
    """Convert one column or a sequence of columns to a tuple."""
    if isinstance(columns, str) or not isinstance(columns, Sequence):
        columns = (columns,)
    if not columns:
        raise error(OptionError, argument, "at least one column", "none")
    return tuple(columns)


# ---- Patterns: their faults, and what finds them in texts ----


def check_pattern(arm: Regex, pattern: str, argument: str) -> str | None:
    """Return the fault of a pattern that the arm will search as text; None if it is valid."""
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
            counts = [int(count) for count in (part["counts"] or "1").split(",") if count]
            states = min(last[0] * max(1, *counts), _COUNTED)
            groups[-1][0] += states - last[0]
            groups[-1][1] += states - last[1]
            last = (states, states)
        elif kind == "one":
            last = (1, 0)
            groups[-1][0] += 1
    return min(sum(held for _, held in groups), _COUNTED)


@check_objects
def is_pattern(text: str) -> bool:
    """Return whether a text has a metacharacter and is a valid pattern.

    Examples
    --------
    >>> is_pattern("tea.*milk"), is_pattern("tea and milk"), is_pattern("(")
    (True, False, False)
    """
    return _METACHARACTERS.search(text) is not None and pattern_fault(text) is None


def _matcher(arm: Regex, pattern: str) -> Matcher:
    """Return what finds a pattern in texts; one that is no pattern is searched as text."""
    import pyarrow.compute as pc

    if pattern_fault(pattern) is None:
        return pattern_matcher(pattern, ignore_case=arm.ignore_case)
    if any("\ud800" <= letter <= "\udfff" for letter in pattern):  # a lone surrogate, in no text
        return lambda texts: pc.is_in(texts, pa.array([], texts.type))
    return text_matcher(pattern, ignore_case=arm.ignore_case)


def pattern_matcher(pattern: str, *, ignore_case: bool) -> Matcher:
    """Return what finds a valid pattern in texts, in slices between which the call may end."""
    import pyarrow.compute as pc

    match = partial(pc.match_substring_regex, pattern=pattern, ignore_case=ignore_case)
    return _in_slices(match, 1 + open_states(pattern))


def text_matcher(text: str, *, ignore_case: bool) -> Matcher:
    """Return what finds a text in texts, as :func:`pattern_matcher`."""
    import pyarrow.compute as pc

    return _in_slices(partial(pc.match_substring, pattern=text, ignore_case=ignore_case), 1)


def _in_slices(match_slice: Matcher, steps: int) -> Matcher:
    """Let a call end between slices of a column; ``steps`` is what a byte of text costs."""
    import pyarrow.compute as pc

    def match(texts: Any) -> Any:
        found = []
        for chunk in texts.chunks if isinstance(texts, pa.ChunkedArray) else [texts]:
            ends = np.cumsum(pc.fill_null(pc.binary_length(chunk), 0).to_numpy(), dtype=np.int64)
            begin = n_bytes = 0
            while begin < len(chunk):
                end = int(np.searchsorted(ends, n_bytes + SLICE_STEPS // steps, "right"))
                end = min(max(end, begin + 1), len(chunk))
                threads.spend(int(ends[end - 1] - n_bytes) * steps)
                found.append(match_slice(chunk.slice(begin, end - begin)))
                begin, n_bytes = end, int(ends[end - 1])
        return pa.chunked_array(found, pa.bool_())

    return match


def _best_rows(
    arm: Regex, batch: Batch, group: int, queries: Sequence[int], matchers: Sequence[Matcher]
) -> list[Found]:
    """Return per pattern (segment, row, place of the column) of a group's best documents."""
    # ``queries`` has one that asks for each pattern, in whose scope the edges are.
    segment, row = batch.audience.rows(group)
    n_columns = len(arm.columns)
    places = [np.full(len(row), n_columns) for _ in matchers]
    for begin in range(0, len(row), CHUNK_ROWS):
        here = slice(begin, begin + CHUNK_ROWS)
        texts = batch.gather(segment[here], row[here], list(arm._columns))
        for place, column in enumerate(arm.columns):
            if not isinstance(column, str):
                continue
            text = texts.column(column).cast(pa.large_string())
            for own, matcher in zip(places, matchers, strict=True):
                own[here] = np.where(_mask(matcher(text)), np.minimum(own[here], place), own[here])
    for place, column in enumerate(arm.columns):
        if isinstance(column, Edges):
            for own, query, matcher in zip(places, queries, matchers, strict=True):
                mask = _edge_mask(column, batch, query, matcher, segment, row)
                own[:] = np.where(mask, np.minimum(own, place), own)
    out: list[Found] = []
    for own in places:
        hit = np.flatnonzero(own < n_columns)
        order = np.lexsort((batch.seqs(segment[hit], row[hit]), own[hit]))
        best = hit[order[: batch.depth]]
        out.append((segment[best], row[best], own[best]))
    return out


def _mask(matches: Any) -> Mask:
    joined = matches.combine_chunks() if isinstance(matches, pa.ChunkedArray) else matches
    mask: Mask = joined.fill_null(False).to_numpy(zero_copy_only=False)
    return mask


def _edge_mask(
    edges: Edges, batch: Batch, query: int, matcher: Matcher, segment: Rows, row: Rows
) -> Mask:
    """Tell which of a group's rows take part in an edge whose text matches."""
    graph, scope = batch.graphs[edges.graph], scope_of(batch.scope, query, query + 1)
    keys = graph.participants_where(scope, lambda texts: _mask(matcher(texts)))
    _, s, r = batch.audience.locate(keys, np.full(len(keys), query, np.uint32))
    shift = np.uint64(32)
    own = (segment.astype(np.uint64) << shift) | row
    return np.isin(own, (s.astype(np.uint64) << shift) | r)


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))
