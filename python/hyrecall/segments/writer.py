"""The writer's operations: build, add, delete and compact make a new state from the old one.

The order of the segments affects only cost, never replies.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from hyrecall import _core
from hyrecall.ask.filters import Filter, has_predicates
from hyrecall.ask.scope import read_scopes, scope_entries
from hyrecall.base.arguments import as_int
from hyrecall.base.progress import ProgressFunction
from hyrecall.errors import DTypeError, KeyConflictError, OptionError, error
from hyrecall.segments.lookup import read_keys, rows_of_keys, rows_where
from hyrecall.segments.segments import (
    IndexFacts,
    Segment,
    State,
    build_segment,
    directory_of,
    gather,
    one_array,
    segment_from_parts,
)
from hyrecall.table.attributes import attribute_column
from hyrecall.table.columns import read_table
from hyrecall.table.schema import Schema
from hyrecall.text.analyzer import Analyzer
from hyrecall.text.bm25 import BM25

# ---- Merges segments: rows of several become one segment, without analyzing texts again ----

Rows = npt.NDArray[np.uint32]


def merge_segments(
    segments: Sequence[Segment],
    views: Sequence[_core.SegmentView],
    schema: Schema,
    threads: int = 1,
) -> Segment:
    """Merge the live rows of several segments into one, without analyzing texts again."""
    return take_rows(segments, *merge_order(segments, views, schema), schema, threads)


def merge_order(
    segments: Sequence[Segment],
    views: Sequence[_core.SegmentView],
    schema: Schema,
    part: Sequence[tuple[int, int]] | None = None,
) -> tuple[Rows, Rows]:
    """Return (segment, row) of the live rows of several segments, in the order of one segment."""
    # ``part`` has the first row of each segment that is wanted, and the one behind the last.
    cluster: list[npt.NDArray[np.int64]] = []
    if schema.cluster is not None:
        cluster = [attribute_column(s.column(schema.cluster)).sort_codes for s in segments]
    source, row = _core.rows.merge_order(list(views), cluster, part)
    return source, row


def take_rows(
    segments: Sequence[Segment], source: Rows, source_row: Rows, schema: Schema, threads: int = 1
) -> Segment:
    """Make a segment of the rows (source[i], source_row[i]), which are in the order of one."""
    # Heads of vectors are learnt and made on up to ``threads`` threads.
    for segment in segments:
        for arm in (*schema.text_arms, *schema.vector_arms):
            segment.check_whole(arm)  # damaged rows must not be saved with a new checksum
    rows = gather(segments, source, source_row, schema.row_columns)
    seqs = np.empty(len(source), np.int64)
    for number, segment in enumerate(segments):
        here = source == number
        seqs[here] = segment.core.seqs[source_row[here]]
    directory = directory_of(rows, schema)
    lexical = {
        arm: _core.LexicalColumn.merge([s.lexical[arm] for s in segments], source, source_row)
        for arm in schema.text_arms
    }
    dense = {
        arm: _core.DenseColumn.merge([s.dense[arm] for s in segments], source, source_row, threads)
        for arm in schema.vector_arms
    }
    return segment_from_parts(rows, seqs, schema, lexical, dense, directory)


# ---- The writer's operations: build, add, delete and compact make a new state from the old one

CRUMB_ROWS = 128
"""A segment with fewer rows is a crumb, such as a one-row add."""

SEALED_ROWS = 4096
"""Segments with at least so many rows are in tiers; smaller ones are crumbs or collect crumbs."""

TIER_FACTOR = 8
"""The size ratio of neighbouring tiers; a tier has fewer segments than this."""

DEAD_SHARE = 0.10
"""A segment with a larger share of dead rows is rewritten: its dead statistics would grow."""

Pair = tuple[Segment, _core.SegmentView]
T_ = TypeVar("T_")


def tier(n_rows: int) -> int:
    """Return the tier of a segment: 0 crumb, 1 collecting, 2 from 4,096 rows, 3 from 32,768, ..."""
    if n_rows < CRUMB_ROWS:
        return 0
    number, bound = 1, SEALED_ROWS
    while n_rows >= bound:
        number, bound = number + 1, bound * TIER_FACTOR
    return number


def settle(pairs: Sequence[Pair], facts: IndexFacts) -> list[Pair]:
    """Merge segments until no tier has too many and no segment has too many dead rows."""
    # At a factor of 8, at most 7 crumbs, one collecting segment and 7 segments of each tier remain:
    # 29 for two million documents.
    held = [pair for pair in pairs if pair[1].n_live > 0]
    while True:
        group = _next_merge(held)
        if not group:
            return held
        segments, views = [s for s, _ in group], [v for _, v in group]
        merged = merge_segments(segments, views, facts.schema, facts.threads)
        held = [pair for pair in held if pair not in group]
        held.append((merged, _core.SegmentView(merged.core)))


def _next_merge(pairs: Sequence[Pair]) -> list[Pair]:
    tiers: dict[int, list[Pair]] = {}
    for pair in pairs:
        if pair[1].n_dead > DEAD_SHARE * pair[1].n_rows and pair[1].n_dead > CRUMB_ROWS // 2:
            return [pair]
        tiers.setdefault(tier(pair[1].n_live), []).append(pair)
    for number, group in sorted(tiers.items()):
        if len(group) >= (2 if number == 1 else TIER_FACTOR):
            return group
    return []


def build(
    table: object,
    schema: Schema,
    vectors: Mapping[str, object] | None,
    analyzer: Analyzer | None,
    bm25: BM25 | None,
    threads: int,
    first_seq: int,
    progress: ProgressFunction | None = None,
    seqs: npt.NDArray[np.int64] | None = None,
    dims: Mapping[str, int] | None = None,
) -> tuple[IndexFacts, State]:
    """Build an index of one segment; analyzer and bm25 are for text arms without their own."""
    # ``seqs``: rising insertion numbers of the rows, in the place of those from ``first_seq`` on.
    # ``dims``: required dimensions of vector arms, which rows without vectors do not show.
    analyzers = _of_arms("analyzer", Analyzer, schema, analyzer)
    formulas = _of_arms("bm25", BM25, schema, bm25)
    columns = read_table(table, schema, vectors=vectors, dims=dims)
    segment = build_segment(
        columns, schema, analyzers, first_seq=first_seq, threads=threads, progress=progress,
        seqs=seqs,
    )  # fmt: skip
    # Rows that are added later get the precision of the first rows.
    vector_arms = {
        arm: replace(vector, dtype=segment.dense[arm].dtype)
        for arm, vector in schema.vector_arms.items()
    }
    facts = IndexFacts(
        schema=replace(schema, vector=vector_arms),
        analyzers=analyzers,
        bm25=formulas,
        dims={arm: column.dim for arm, column in segment.dense.items()},
        row_types={name: segment.rows.schema.field(name).type for name in schema.row_columns},
        threads=threads,
    )
    view = _core.SegmentView(segment.core)
    return facts, State.of([segment], [view], _next_seq(first_seq, columns.n_rows, seqs))


def _next_seq(first_seq: int, n_rows: int, seqs: npt.NDArray[np.int64] | None) -> int:
    return first_seq + n_rows if seqs is None or not n_rows else int(seqs[-1]) + 1


def _of_arms(option: str, kind: type[T_], schema: Schema, default: T_ | None) -> dict[str, T_]:
    """Return each text arm's own option, or the default; refuse a default that is not used."""
    own = {arm: getattr(text, option) for arm, text in schema.text_arms.items()}
    if default is not None and None not in own.values():
        wish = f"None (there is no text arm without {option}= of its own)"
        raise error(OptionError, option, wish, repr(default))
    plain = kind() if default is None else default
    made = {arm: plain if given is None else given for arm, given in own.items()}
    for given in made.values():
        if not isinstance(given, kind):
            raise error(DTypeError, option, f"an hr.{kind.__name__}", repr(given))
    return made


def read_seq(value: object) -> int:
    """Check the insertion number of a first row."""
    seq = as_int(value)
    if seq is None or not 0 <= seq < 2**62:
        raise error(OptionError, "first_seq", "an int in [0, 2^62)", repr(value))
    return seq


def first_of(state: State, first_seq: object) -> int:
    """Return the insertion number of the first of new rows."""
    begin = state.next_seq if first_seq is None else read_seq(first_seq)
    if begin < state.next_seq:
        raise error(OptionError, "first_seq", f"at least {state.next_seq} (the next)", begin)
    return begin


def append(
    facts: IndexFacts,
    state: State,
    table: object,
    vectors: Mapping[str, object] | None,
    *,
    replace_existing: bool = False,
    first_seq: int | None = None,
    merge: bool = True,
    progress: ProgressFunction | None = None,
    seqs: npt.NDArray[np.int64] | None = None,
    remedy: str = "replace it: index.upsert(table)",
) -> State:
    """Add rows with the next insertion numbers, or from ``first_seq`` on, or with rising
    ``seqs``.
    """
    # Documents that exist are refused or replaced. Without ``merge`` the rows stay a segment of
    # their own, whatever segments there are.
    if seqs is not None and len(seqs):
        first_seq = int(seqs[0])
    begin = first_of(state, first_seq)
    columns = read_table(
        table, facts.schema, vectors=vectors, dims=facts.dims, types=facts.row_types
    )
    if columns.n_rows == 0:
        return state
    schema = facts.schema
    cells = [one_array(columns.rows.column(name)) for name in schema.cell_columns]
    keys = one_array(columns.rows.column(schema.key))
    segments, rows = state.snapshot.locate_rows(cells, keys)
    found = segments >= 0
    if not replace_existing and found.any():
        row = int(np.argmax(found))
        wish, got = "keys that their cells do not hold yet", f"{keys[row].as_py()!r} in row {row}"
        raise error(KeyConflictError, schema.key, wish, got, remedy)
    added = build_segment(
        columns,
        schema,
        facts.analyzers,
        first_seq=begin,
        threads=facts.threads,
        progress=progress,
        seqs=seqs,
    )
    pairs = _without(state, segments[found], rows[found])
    pairs.append((added, _core.SegmentView(added.core)))
    return _state_of(state, pairs, facts, _next_seq(begin, columns.n_rows, seqs), merge=merge)


def delete(
    facts: IndexFacts,
    state: State,
    keys: object,
    scope: object,
    where: object = None,
    *,
    everything: object = False,
) -> tuple[State, int]:
    """Delete documents by key, filter or both within a scope; return the new state and the
    number.
    """
    _check_which(keys, where, everything)
    if keys is None:
        segments, rows = rows_where(facts, state, scope, where)
    elif where is None:
        wanted = read_keys(keys, facts.row_types[facts.schema.key])
        scope = scope_entries(facts.cell_types, scope, "key")
        scopes = read_scopes(facts.cell_types, state.snapshot, scope, len(wanted), per="key")
        found, rows = state.snapshot.locate_keys(wanted, scopes)
        segments = found.astype(np.uint32)
    else:
        _, segments, rows = rows_of_keys(facts, state, keys, scope, where)
    if not len(rows):
        return state, 0
    made = _state_of(state, _without(state, segments, rows), facts, state.next_seq)
    return made, state.n_docs - made.n_docs


def replace_where(
    facts: IndexFacts,
    state: State,
    table: object,
    vectors: Mapping[str, object] | None,
    scope: object,
    where: object,
    progress: ProgressFunction | None = None,
) -> tuple[State, int]:
    """Delete what a scope holds and a filter passes, and add rows; return the new state and how
    many documents went.
    """
    if where is None or (isinstance(where, Filter) and not has_predicates(where)):
        wish = "a filter with a condition, which says what is replaced"
        raise error(OptionError, "filter", wish, repr(where))
    without, n_deleted = delete(facts, state, None, scope, where)
    made = append(facts, without, table, vectors, progress=progress, remedy="")
    return made, n_deleted


def _check_which(keys: object, where: object, everything: object) -> None:
    """Refuse a delete of a whole scope without ``everything``."""
    # Keys or a filter that are None or empty by mistake must not remove all documents of a scope.
    if not isinstance(everything, bool):
        raise error(DTypeError, "everything", "True or False", repr(everything))
    is_narrow = keys is not None or where is not None
    if everything and is_narrow:
        raise error(OptionError, "everything", "False with keys or a filter", True)
    if not everything and not is_narrow:
        wish = "keys, a filter, or everything=True for the whole scope"
        raise error(OptionError, "keys", wish, "none of them")
    if keys is None and isinstance(where, Filter) and not has_predicates(where):
        wish = "at least one condition, or everything=True for the whole scope"
        raise error(OptionError, "filter", wish, repr(where))


def compact(facts: IndexFacts, state: State) -> State:
    """Merge all segments into one without dead rows."""
    if len(state.segments) == 1 and state.views[0].n_dead == 0:
        return state
    merged = merge_segments(state.segments, state.views, facts.schema, facts.threads)
    return State.of([merged], [_core.SegmentView(merged.core)], state.next_seq)


def _without(state: State, segments: npt.NDArray[Any], rows: npt.NDArray[np.uint32]) -> list[Pair]:
    """Return the state's segments with the named rows deleted."""
    pairs = list(zip(state.segments, state.views, strict=True))
    for number in np.unique(segments) if len(segments) else ():
        segment, view = pairs[number]
        segment.check_texts()  # the statistics of dead rows are counted from their tokens
        pairs[number] = (segment, view.without(np.unique(rows[segments == number])))
    return pairs


def _state_of(
    before: State, pairs: list[Pair], facts: IndexFacts, next_seq: int, *, merge: bool = True
) -> State:
    # An index keeps at least one segment, even an empty one, which has the columns' types.
    held = (settle(pairs, facts) or pairs[:1]) if merge else pairs
    segments, views = [segment for segment, _ in held], [view for _, view in held]
    return State.of(segments, views, next_seq, before)
