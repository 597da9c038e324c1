"""Searches texts by patterns, for :class:`hyrecall.arms.Regex`: RE2, as Arrow brings it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hyrecall import _core
from hyrecall.ask.arms.regex import (
    Edges,
    Regex,
    check_pattern,
    is_pattern,
    open_states,
    pattern_fault,
)
from hyrecall.ask.scope import distinct_scopes, scope_of
from hyrecall.base import scans
from hyrecall.errors import DTypeError, OptionError, error
from hyrecall.recall.arms.batch import (
    ArmQueries,
    Batch,
    FoundDocs,
    from_entries,
    no_candidates,
    plain_texts,
)
from hyrecall.recall.graph_views import Matches
from hyrecall.segments.facts import IndexFacts
from hyrecall.segments.segments import gather

__all__ = ["edge_matcher", "pattern_matcher", "read_regex", "search_regex", "text_matcher"]

CHUNK_ROWS = 65_536
"""Rows whose text is in memory at a time."""

SLICE_STEPS = 1 << 22
"""Bytes of text, times the states of the pattern, that are searched in one go."""

Mask = npt.NDArray[np.bool_]
Found = tuple[npt.NDArray[Any], ...]  # segment, row, place of the column
Matcher = Callable[[Any], Any]  # an Arrow column of strings -> which match


def read_regex(
    arm: Regex, facts: IndexFacts, texts: Sequence[object] | None, n_queries: int
) -> ArmQueries:
    """Check the columns and the queries: an entry is a pattern."""
    check_columns(arm, facts)
    patterns = [arm.pattern] * n_queries if texts is None else plain_texts(arm.name, texts)
    if arm.only_patterns:
        patterns = [p if p is not None and is_pattern(p) else None for p in patterns]
    faults: dict[str, str | None] = {}
    notes: dict[str, Mapping[int, str] | None] = {}
    for at, pattern in enumerate(patterns):
        if pattern is None:
            continue
        argument = f"text[{arm.name!r}][{at}]" if arm.pattern is None else "pattern"
        if pattern not in faults:
            faults[pattern] = check_pattern(arm, pattern, argument)
        if faults[pattern] is not None:
            told = f": {pattern!r} is no pattern, searched as text"
            alone = {at: f"text[{arm.name!r}]{told}"} if arm.pattern is None else None
            notes[argument + told] = alone
    return ArmQueries(patterns, notes)


def search_regex(arm: Regex, batch: Batch, asked: ArmQueries) -> FoundDocs:
    """Search the texts that each query may see, once per distinct (pattern, scope, filter)."""
    patterns = list(asked.entries)
    distinct = dict.fromkeys(pattern for pattern in patterns if pattern is not None)
    matchers = {pattern: _matcher(arm, pattern) for pattern in distinct}
    if not matchers:
        return no_candidates(batch.n_queries)
    groups = batch.audience.group_of
    # Scopes with the same documents may have other edges.
    has_edges = any(isinstance(column, Edges) for column in arm.columns)
    scopes = distinct_scopes(batch.scope if has_edges else None, batch.n_queries).number
    query: list[npt.NDArray[Any]] = []
    found: list[Found] = []
    for group in range(batch.audience.n_groups):
        members = [q for q in np.flatnonzero(groups == group) if patterns[q] is not None]
        if not members:
            continue
        wanted: dict[tuple[str, int], int] = {}  # with a query of each
        for q in members:
            wanted.setdefault((str(patterns[q]), int(scopes[q])), int(q))
        lists = _search(arm, batch, group, wanted, [matchers[p] for p, _ in wanted])
        by_pattern = dict(zip(wanted, lists, strict=True))
        for q in members:
            one = by_pattern[str(patterns[q]), int(scopes[q])]
            query.append(np.full(len(one[0]), q))
            found.append(one)
    nothing = (np.zeros(0, np.uint32),) * 2 + (np.zeros(0, np.int64),)
    segment, row, place = (np.concatenate(parts) for parts in zip(nothing, *found, strict=True))
    names = pa.array([c if isinstance(c, str) else "edges" for c in arm.columns])
    return from_entries(
        batch.n_queries,
        np.concatenate([np.zeros(0, np.int64), *query]),
        segment,
        row,
        _scores(len(arm.columns))[place],
        names.take(pa.array(place)),
    )


def _matcher(arm: Regex, pattern: str) -> Matcher:
    """Return what finds a pattern in texts; one that is no pattern is searched as text."""
    import pyarrow.compute as pc

    if pattern_fault(pattern) is None:
        return pattern_matcher(pattern, ignore_case=arm.ignore_case)
    if not pattern.isascii() and not _is_unicode(pattern):  # a lone surrogate, in no text
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
                scans.spend(int(ends[end - 1] - n_bytes) * steps)
                found.append(match_slice(chunk.slice(begin, end - begin)))
                begin, n_bytes = end, int(ends[end - 1])
        return pa.chunked_array(found, pa.bool_())

    return match


def edge_matcher(arm: Regex, pattern: str) -> Matches:
    """Return what finds a pattern in the texts of edges."""
    matcher = _matcher(arm, pattern)
    return lambda texts: _mask(matcher(texts))


def _search(
    arm: Regex,
    batch: Batch,
    group: int,
    wanted: Mapping[tuple[str, int], int],
    matchers: Sequence[Matcher],
) -> list[Found]:
    """Return per pattern (segment, row, place of the column) of a group's best documents."""
    # ``wanted`` has the patterns, each with the number of a scope, and a query that asks for it.
    segment, row = batch.audience.rows(group)
    n_columns = len(arm.columns)
    places = [np.full(len(row), n_columns) for _ in matchers]
    for begin in range(0, len(row), CHUNK_ROWS):
        here = slice(begin, begin + CHUNK_ROWS)
        names = [column for column in arm.columns if isinstance(column, str)]
        texts = gather(batch.state.segments, segment[here], row[here], names)
        for place, column in enumerate(arm.columns):
            if not isinstance(column, str):
                continue
            text = texts.column(column).cast(pa.large_string())
            for own, matcher in zip(places, matchers, strict=True):
                own[here] = np.where(_mask(matcher(text)), np.minimum(own[here], place), own[here])
    for place, column in enumerate(arm.columns):
        if isinstance(column, Edges):
            for own, ((pattern, _), query) in zip(places, wanted.items(), strict=True):
                mask = _edge_mask(arm, batch, place, query, pattern, segment, row)
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
    arm: Regex,
    batch: Batch,
    place: int,
    query: int,
    pattern: str,
    segment: npt.NDArray[Any],
    row: npt.NDArray[Any],
) -> Mask:
    """Tell which of a group's rows take part in an edge whose text matches."""
    column = arm.columns[place]
    assert isinstance(column, Edges)
    graph, scope = batch.graphs[column.graph], scope_of(batch.scope, query, query + 1)
    keys = graph.matching(arm, place, query, scope, edge_matcher(arm, pattern))
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
