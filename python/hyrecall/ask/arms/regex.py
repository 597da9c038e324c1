"""The regular-expression arm: RE2, which is linear in the text, as Arrow brings it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hyrecall import _core
from hyrecall.ask.arms.batch import (
    Asked,
    Batch,
    Candidates,
    from_entries,
    no_candidates,
    plain_texts,
    read_arm_name,
    read_columns,
)
from hyrecall.base.arguments import is_one_of
from hyrecall.base.keywords import check_keywords
from hyrecall.errors import DTypeError, OptionError, error
from hyrecall.segments.segments import gather

if TYPE_CHECKING:
    from hyrecall.graph.graph import Graph
    from hyrecall.segments.facts import IndexFacts

__all__ = ["Edges", "Regex", "is_pattern", "without_edges"]

ArmT = TypeVar("ArmT")

CHUNK_ROWS = 65_536
"""Rows whose text is in memory at a time."""

_METACHARACTERS = re.compile(r"[\\^$.|?*+()\[\]{}]")

Mask = npt.NDArray[np.bool_]
Found = tuple[npt.NDArray[Any], ...]  # segment, row, place of the column
Matcher = Callable[[Any], Any]  # an Arrow column of strings -> which match


@check_keywords
@dataclass(frozen=True)
class Edges:
    """In :class:`Regex`'s columns: the texts of the edges that a document takes part in.

    Parameters
    ----------
    graph : Graph or str
        A name stands for a graph that is put in its place before the arm runs.
    """

    graph: Graph | str


@check_keywords
@dataclass(frozen=True)
class Regex:
    """Documents with a column in which a pattern is found.

    The score is 1 / place of the first column that matches: 1 for the first, 1/2 for the second.
    Equal scores are ordered by seq.

    Parameters
    ----------
    columns : str, or sequence of str and Edges
        Stored text columns, the key among them, the most telling first. ``.`` matches no line
        break, and ``^`` and ``$`` stand for the ends of the text.
    name : str, default "regex"
        The arm's name.
    ignore_case : bool, default True
    on_bad : {"error", "literal"}, default "error"
        What becomes of a pattern that is none: an error that names it, or a search for it as text.
    pattern : str, optional
        In place of the queries' texts.
    only_patterns : bool, default False
        Leave a query alone whose text is no pattern: without a metacharacter, or none RE2 takes.

    Raises
    ------
    OptionError
        A pattern that RE2 does not take: ``(``, or what would need backtracking, as ``(?=a)``.

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
        object.__setattr__(self, "columns", read_columns("columns", self.columns))
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

    def read(self, facts: IndexFacts, texts: Sequence[object] | None, n_queries: int) -> Asked:
        """Check the columns and the queries: an entry is a pattern."""
        check_columns(self, facts)
        patterns = [self.pattern] * n_queries if texts is None else plain_texts(self.name, texts)
        if self.only_patterns:
            patterns = [p if p is not None and is_pattern(p) else None for p in patterns]
        seen: set[str] = set()
        notes = []
        for at, pattern in enumerate(patterns):
            if pattern is None or pattern in seen:
                continue
            seen.add(pattern)
            argument = f"text[{self.name!r}][{at}]" if self.pattern is None else "pattern"
            if check_pattern(self, pattern, argument):
                notes.append(f"{argument}: {pattern!r} is no pattern, searched as text")
        return Asked(patterns, tuple(notes))

    def candidates(self, batch: Batch, asked: Asked) -> Candidates:
        """Search the texts that each query may see, once per distinct (pattern, scope, filter)."""
        patterns = list(asked.entries)
        distinct = dict.fromkeys(pattern for pattern in patterns if pattern is not None)
        matchers = {pattern: self._matcher(pattern) for pattern in distinct}
        if not matchers:
            return no_candidates(batch.n_queries)
        groups = batch.audience.group_of
        query: list[npt.NDArray[Any]] = []
        found: list[Found] = []
        for group in range(batch.audience.n_groups):
            members = [q for q in np.flatnonzero(groups == group) if patterns[q] is not None]
            if not members:
                continue
            wanted = list(dict.fromkeys(str(patterns[q]) for q in members))
            lists = self._search(batch, group, int(members[0]), [matchers[p] for p in wanted])
            by_pattern = dict(zip(wanted, lists, strict=True))
            for q in members:
                one = by_pattern[str(patterns[q])]
                query.append(np.full(len(one[0]), q))
                found.append(one)
        nothing = (np.zeros(0, np.uint32),) * 2 + (np.zeros(0, np.int64),)
        segment, row, place = (np.concatenate(parts) for parts in zip(nothing, *found, strict=True))
        names = pa.array([c if isinstance(c, str) else "edges" for c in self.columns])
        return from_entries(
            batch.n_queries,
            np.concatenate([np.zeros(0, np.int64), *query]),
            segment,
            row,
            _scores(len(self.columns))[place],
            names.take(pa.array(place)),
        )

    def _matcher(self, pattern: str) -> Matcher:
        """Return what finds a pattern in texts; one that is no pattern is searched as text."""
        if pattern_fault(pattern) is None:
            return lambda texts: pc.match_substring_regex(
                texts, pattern, ignore_case=self.ignore_case
            )
        if not pattern.isascii() and not _is_unicode(pattern):  # a lone surrogate, in no text
            return lambda texts: pc.is_in(texts, pa.array([], texts.type))
        return lambda texts: pc.match_substring(texts, pattern, ignore_case=self.ignore_case)

    def _search(
        self, batch: Batch, group: int, query: int, matchers: Sequence[Matcher]
    ) -> list[Found]:
        """Return per pattern (segment, row, place of the column) of a group's best documents."""
        segment, row = batch.audience.rows(group)
        n_columns = len(self.columns)
        places = [np.full(len(row), n_columns) for _ in matchers]
        for begin in range(0, len(row), CHUNK_ROWS):
            here = slice(begin, begin + CHUNK_ROWS)
            names = [column for column in self.columns if isinstance(column, str)]
            texts = gather(batch.state.segments, segment[here], row[here], names)
            for place, column in enumerate(self.columns):
                if not isinstance(column, str):
                    continue
                text = texts.column(column).cast(pa.large_string())
                for own, matcher in zip(places, matchers, strict=True):
                    own[here] = np.where(
                        _mask(matcher(text)), np.minimum(own[here], place), own[here]
                    )
        for place, column in enumerate(self.columns):
            if isinstance(column, Edges):
                for own, matcher in zip(places, matchers, strict=True):
                    mask = _edge_mask(batch, column, query, matcher, segment, row)
                    own[:] = np.where(mask, np.minimum(own, place), own)
        out: list[Found] = []
        for own in places:
            hit = np.flatnonzero(own < n_columns)
            order = np.lexsort((batch.seqs(segment[hit], row[hit]), own[hit]))
            best = hit[order[: batch.depth]]
            out.append((segment[best], row[best], own[best]))
        return out


def _scores(n: int) -> npt.NDArray[np.float64]:
    return np.array([_core.arms.place_score(place) for place in range(1, n + 1)])


def _is_unicode(text: str) -> bool:
    return not any("\ud800" <= letter <= "\udfff" for letter in text)


def _mask(matches: Any) -> Mask:
    joined = matches.combine_chunks() if isinstance(matches, pa.ChunkedArray) else matches
    mask: Mask = joined.fill_null(False).to_numpy(zero_copy_only=False)
    return mask


def _edge_mask(
    batch: Batch,
    column: Edges,
    query: int,
    matcher: Matcher,
    segment: npt.NDArray[Any],
    row: npt.NDArray[Any],
) -> Mask:
    """Tell which of a group's rows take part in an edge whose text matches."""
    bound = batch.graphs[column.graph]
    keys = bound.participants_where(batch, query, lambda text: _mask(matcher(text)))
    _, s, r = batch.audience.locate(keys, np.full(len(keys), query, np.uint32))
    shift = np.uint64(32)
    own = (segment.astype(np.uint64) << shift) | row
    return np.isin(own, (s.astype(np.uint64) << shift) | r)


def check_columns(arm: Regex, facts: IndexFacts) -> None:
    """Refuse columns that the index cannot search."""
    argument = f"{arm.name}.columns"
    for column in arm.columns:
        if isinstance(column, Edges):
            continue
        if column not in facts.schema.row_columns:
            known = [name for name in facts.schema.row_columns if _is_text(facts.row_types[name])]
            raise error(OptionError, argument, f"stored text columns of {known}", repr(column))
        kind = facts.row_types[column]
        if not (_is_text(kind) or column == facts.schema.key):
            raise error(DTypeError, argument, "text columns, or the key", f"{column!r} of {kind}")


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def check_pattern(arm: Regex, pattern: str, argument: str) -> str | None:
    """Say what is wrong with a pattern that the arm searches as text then; None: nothing.

    Raises
    ------
    OptionError
        The arm takes no bad pattern.
    """
    fault = pattern_fault(pattern)
    if fault is not None and arm.on_bad == "error":
        raise error(OptionError, argument, "a regular expression (RE2)", f"{pattern!r}: {fault}")
    return fault


def pattern_fault(pattern: str) -> str | None:
    """Say what is wrong with a pattern; None: nothing."""
    try:
        pc.match_substring_regex(pa.array([""]), pattern)
    except (pa.ArrowInvalid, UnicodeEncodeError) as fault:
        return str(fault).removeprefix("Invalid regular expression: ")
    return None


def without_edges(arm: ArmT) -> ArmT | None:
    """Return an arm without the texts of edges among its columns; None: it searches nothing else.

    Another kind of arm stays as it is.
    """
    if not isinstance(arm, Regex):
        return arm
    columns = tuple(column for column in arm.columns if isinstance(column, str))
    return replace(arm, columns=columns) if columns else None


def is_pattern(text: str) -> bool:
    """Whether a text means more as a regular expression: it has a metacharacter and compiles.

    Examples
    --------
    >>> is_pattern("tea.*milk"), is_pattern("tea and milk"), is_pattern("(")
    (True, False, False)
    """
    return _METACHARACTERS.search(text) is not None and pattern_fault(text) is None
