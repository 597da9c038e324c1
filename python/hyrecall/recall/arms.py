"""Runs the arms of a call: reads the queries of each, and searches a batch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hyrecall import _core
from hyrecall.ask.arms import (
    Arm,
    EdgeLexical,
    Edges,
    Listed,
    Newest,
    Regex,
    Tags,
    check_pattern,
    is_pattern,
    open_states,
    pattern_fault,
)
from hyrecall.ask.queries import lower
from hyrecall.ask.scope import distinct_scopes, read_scopes, scope_of
from hyrecall.base import threads
from hyrecall.errors import DTypeError, OptionError, ShapeError, error
from hyrecall.hits.trace import Notes
from hyrecall.recall.graph_views import BoundGraphs
from hyrecall.segments.segments import IndexFacts, State, document_numbers, gather, seqs_of
from hyrecall.table.attributes import ordered_attribute, read_keys, tag_attribute
from hyrecall.text.analyzer import Analyzer

# ---- What an arm is asked and reads, and what it gives: documents with scores, per query ----


@dataclass(frozen=True, eq=False)
class ArmQueries:
    """The queries of an arm, checked."""

    entries: Sequence[Any]
    notes: Notes = field(default_factory=dict)

    def part(self, begin: int, end: int) -> ArmQueries:
        """Return what the queries [begin, end) ask."""
        return ArmQueries(self.entries[begin:end])


@dataclass(frozen=True, eq=False)
class Batch:
    """Some queries of a call on one state, each with its scope and filter."""

    facts: IndexFacts
    state: State
    audience: _core.arms.Audience
    scope: object
    graphs: BoundGraphs
    n_queries: int
    depth: int

    def attribute(self, argument: str, name: str) -> int:
        """Return the number of an attribute column."""
        known = list(self.facts.schema.attributes)
        if name not in known:
            raise error(OptionError, argument, f"an attribute column of {known}", repr(name))
        return known.index(name)

    def seqs(self, segment: npt.NDArray[Any], row: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        """Return the insertion numbers of rows."""
        return seqs_of(self.state.segments, segment, row)


@dataclass(frozen=True, eq=False)
class FoundDocs:
    """The documents of an arm: query q has the entries offsets[q] to offsets[q + 1], in any
    order.
    """

    offsets: npt.NDArray[np.int64]
    segment: npt.NDArray[np.uint32]
    row: npt.NDArray[np.uint32]
    score: npt.NDArray[np.float32]
    evidence: pa.Array | None = None

    def part(self, begin: int, end: int) -> FoundDocs:
        """Return those of the queries [begin, end)."""
        offsets = self.offsets[begin : end + 1]
        own = slice(int(offsets[0]), int(offsets[-1]))
        evidence = None if self.evidence is None else self.evidence[own]
        return FoundDocs(
            offsets - offsets[0], self.segment[own], self.row[own], self.score[own], evidence
        )

    def evidence_of(self, query: int, segment: int, row: int) -> Any:
        """Return the evidence of the best entry of a document; None where there is none."""
        if self.evidence is None:
            return None
        own = slice(int(self.offsets[query]), int(self.offsets[query + 1]))
        found = np.flatnonzero((self.segment[own] == segment) & (self.row[own] == row))
        if not len(found):
            return None
        best = found[np.argmax(self.score[own][found])]
        return self.evidence[own.start + int(best)].as_py()


def from_entries(
    n_queries: int,
    query: npt.NDArray[Any],
    segment: npt.NDArray[Any],
    row: npt.NDArray[Any],
    score: npt.NDArray[Any],
    evidence: pa.Array | None = None,
) -> FoundDocs:
    """Make candidates of entries in any order; a query's stay in the order given."""
    if (query[1:] < query[:-1]).any():
        order = np.argsort(query, kind="stable")
        query, segment, row, score = (one[order] for one in (query, segment, row, score))
        evidence = None if evidence is None else evidence.take(pa.array(order))
    counts = np.bincount(query, minlength=n_queries)
    return FoundDocs(
        np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        segment.astype(np.uint32, copy=False),
        row.astype(np.uint32, copy=False),
        score.astype(np.float32, copy=False),
        evidence,
    )


def join_candidates(parts: Sequence[FoundDocs]) -> FoundDocs:
    """Put the candidates of a call's parts together, in the order of their queries."""
    if len(parts) == 1:
        return parts[0]
    counts = [np.diff(one.offsets) for one in parts]
    evidence = [one.evidence for one in parts if one.evidence is not None]
    return FoundDocs(
        np.concatenate([[0], np.cumsum(np.concatenate(counts))]).astype(np.int64),
        np.concatenate([one.segment for one in parts]),
        np.concatenate([one.row for one in parts]),
        np.concatenate([one.score for one in parts]),
        pa.concat_arrays(evidence) if evidence else None,
    )


def no_candidates(n_queries: int) -> FoundDocs:
    """Return the candidates of an arm that found nothing."""
    rows = np.zeros(0, np.uint32)
    return FoundDocs(np.zeros(n_queries + 1, np.int64), rows, rows, np.zeros(0, np.float32))


def scope_request(facts: IndexFacts, state: State, scope: object, n: int) -> _core.BatchRequest:
    """Make a request of n queries without arms: scopes alone."""
    return _core.BatchRequest(
        scopes=read_scopes(facts.cell_types, state.snapshot, scope, n),
        filters=[],
        filter_of=None,
        depth=1,
        limit=0,
        offset=0,
        threads=facts.threads,
    )


def plain_texts(arm: str, texts: Sequence[object]) -> list[str | None]:
    """Read queries as plain text. A blank string counts as no query."""
    out: list[str | None] = []
    for at, text in enumerate(texts):
        if text is not None and not isinstance(text, str):
            wish = f"a str or None (arm {arm!r} reads plain text; pass text={{arm: [...]}})"
            raise error(DTypeError, f"text[{arm!r}][{at}]", wish, repr(text))
        out.append(text if text is not None and text.strip() else None)
    return out


# ---- Searches the edges of a graph by their texts, for :class:`hyrecall.arms.EdgeLexical` ----


def read_edge_lexical(arm: EdgeLexical, texts: Sequence[object]) -> ArmQueries:
    """Check the queries: texts or typed queries."""
    for at, text in enumerate(texts):
        if text is not None and not isinstance(text, str):
            lower(text, f"text[{arm.name!r}][{at}]")
    return ArmQueries(texts)


def search_edge_lexical(arm: EdgeLexical, batch: Batch, asked: ArmQueries) -> FoundDocs:
    """Find the best edges of each query and credit who takes part in them."""
    graph = batch.graphs[arm.graph]
    found = graph.credits(asked.entries, batch.scope, arm.depth or batch.depth)
    which, segment, row = batch.audience.locate(found.keys, found.query)
    query, edge = found.query[which], found.edge[which]
    # Edges come best first, and so do their participants: a document's first entry is its
    # best edge.
    documents = document_numbers(batch.state.segments, query, segment, row)
    kept = np.unique(documents, return_index=True)[1]
    return from_entries(
        batch.n_queries,
        query[kept],
        segment[kept],
        row[kept],
        found.scores[edge[kept]],
        found.names.take(pa.array(edge[kept])),
    )


# ---- Searches of the arms that need no text: what a call lists, and what is newest ----


def read_listed(arm: Listed, facts: IndexFacts, given: Sequence[object]) -> ListedKeys:
    """Check the keys and scores of each query."""
    keys: list[object] = []
    counts: list[int] = []
    scores: list[float] = []
    for at, one in enumerate(given):
        found, worth = _read_one(f"candidates[{arm.name!r}][{at}]", one)
        keys += found
        scores += worth
        counts.append(len(found))
    offsets = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
    read = read_keys(f"candidates[{arm.name!r}]", keys, facts)
    return ListedKeys(offsets, read, np.array(scores, np.float32))


def search_listed(batch: Batch, asked: ListedKeys) -> FoundDocs:
    """Find the keys of each query."""
    counts = np.diff(asked.offsets)
    query_of = np.repeat(np.arange(len(counts), dtype=np.uint32), counts)
    which, segment, row = batch.audience.locate(asked.keys, query_of)
    return from_entries(batch.n_queries, query_of[which], segment, row, asked.scores[which])


@dataclass(frozen=True, eq=False)
class ListedKeys:
    """Keys and scores that a call lists: query q has the entries offsets[q] to offsets[q + 1]."""

    offsets: npt.NDArray[np.int64]
    keys: pa.Array
    scores: npt.NDArray[np.float32]
    notes: Notes = field(default_factory=dict)

    def part(self, begin: int, end: int) -> ListedKeys:
        """Return those of the queries [begin, end)."""
        offsets = self.offsets[begin : end + 1]
        own = slice(int(offsets[0]), int(offsets[-1]))
        return ListedKeys(offsets - offsets[0], self.keys[own], self.scores[own])


def _read_one(argument: str, given: object) -> tuple[list[object], list[float]]:
    if given is None:
        return [], []
    if isinstance(given, Mapping):
        return list(given), [_score(argument, score) for score in given.values()]
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        wish = "a sequence of keys, {key: score}, or None"
        raise error(DTypeError, argument, wish, f"{type(given).__name__} {given!r}")
    keys = list(given)
    return keys, [_core.arms.place_score(place) for place in range(1, len(keys) + 1)]


def _score(argument: str, score: Any) -> float:
    is_number = isinstance(score, int | float | np.number) and not isinstance(score, bool)
    if not is_number or not abs(score) <= float(np.finfo(np.float32).max):
        raise error(OptionError, argument, "scores that float32 holds", repr(score))
    return float(score)


def read_newest(arm: Newest, facts: IndexFacts) -> ArmQueries:
    """Check the column; the queries ask nothing more."""
    _newest_attribute(arm, facts)
    return ArmQueries(())


def search_newest(arm: Newest, batch: Batch) -> FoundDocs:
    """Find the newest documents of each query."""
    found = batch.audience.newest(
        _newest_attribute(arm, batch.facts), batch.depth, with_missing=False
    )
    return FoundDocs(*found)


def _newest_attribute(arm: Newest, facts: IndexFacts) -> int:
    return ordered_attribute(f"{arm.name}.column", arm.column, facts)


def newest_rows(
    facts: IndexFacts, state: State, request: _core.BatchRequest, column: str, n: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint32], npt.NDArray[np.uint32]]:
    """Return each query's n newest documents: offsets, segment, row."""
    # What fills a reply that found too little: documents without a value come last, by seq, so that
    # there are n wherever the query may see n.
    if isinstance(n, bool) or not isinstance(n, int) or n < 0:
        raise error(ShapeError, "n", "an int >= 0", repr(n))
    attribute = ordered_attribute("column", column, facts)
    audience = _core.arms.Audience(state.snapshot, request)
    offsets, segment, row, _ = audience.newest(attribute, n, with_missing=True)
    return offsets, segment, row


# ---- Searches texts by patterns, for :class:`hyrecall.arms.Regex`: RE2, as Arrow brings it ----

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
    scopes = distinct_scopes(batch.scope if has_edges else None, batch.n_queries)
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
        lists = _search(arm, batch, group, list(wanted.values()), own)
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
                threads.spend(int(ends[end - 1] - n_bytes) * steps)
                found.append(match_slice(chunk.slice(begin, end - begin)))
                begin, n_bytes = end, int(ends[end - 1])
        return pa.chunked_array(found, pa.bool_())

    return match


def _search(
    arm: Regex,
    batch: Batch,
    group: int,
    queries: Sequence[int],
    matchers: Sequence[Matcher],
) -> list[Found]:
    """Return per pattern (segment, row, place of the column) of a group's best documents."""
    # ``queries`` has one that asks for each pattern, in whose scope the edges are.
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


def _scores(n: int) -> npt.NDArray[np.float64]:
    return np.array([_core.arms.place_score(place) for place in range(1, n + 1)])


def _is_unicode(text: str) -> bool:
    return not any("\ud800" <= letter <= "\udfff" for letter in text)


def _mask(matches: Any) -> Mask:
    joined = matches.combine_chunks() if isinstance(matches, pa.ChunkedArray) else matches
    mask: Mask = joined.fill_null(False).to_numpy(zero_copy_only=False)
    return mask


def _edge_mask(
    edges: Edges,
    batch: Batch,
    query: int,
    matcher: Matcher,
    segment: npt.NDArray[Any],
    row: npt.NDArray[Any],
) -> Mask:
    """Tell which of a group's rows take part in an edge whose text matches."""
    graph, scope = batch.graphs[edges.graph], scope_of(batch.scope, query, query + 1)
    keys = graph.participants_where(scope, lambda texts: _mask(matcher(texts)))
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


# ---- Searches by the tags that a query names, for :class:`hyrecall.arms.Tags` ----


def read_tags(arm: Tags, facts: IndexFacts, texts: Sequence[object]) -> ArmQueries:
    """Check the column, and the queries: plain texts."""
    _attribute(arm, facts)
    return ArmQueries(plain_texts(arm.name, texts))


def search_tags(arm: Tags, batch: Batch, asked: ArmQueries) -> FoundDocs:
    """Find the documents near each query's tags."""
    attribute, analyzer = _attribute(arm, batch.facts), Analyzer(arm.analyzer).native
    texts = [None if one is None else one.encode("utf-8", "surrogatepass") for one in asked.entries]
    found = batch.audience.tags(attribute, analyzer, texts, arm.depth, arm.partial, batch.depth)
    return FoundDocs(*found)


def _attribute(arm: Tags, facts: IndexFacts) -> int:
    return tag_attribute(f"{arm.name}.column", arm.column, facts)


# ---- The arms of a call: read once, searched for a part of its queries at a time ----

Arms: TypeAlias = "dict[str, Arm]"
Asked: TypeAlias = "Sequence[tuple[Arm, ArmQueries | ListedKeys]]"

_READERS = (EdgeLexical, Tags, Regex)


def read_arms(facts: IndexFacts, given: object, candidates: object) -> Arms:
    """Take ``arms=``: each by its name, which nothing else of a result has."""
    if candidates is None and (given is None or (isinstance(given, tuple) and not given)):
        return {}
    if given is None:
        given = ()
    arms = given if isinstance(given, Sequence) else (given,)
    out: Arms = {}
    for arm in arms:
        if not isinstance(arm, Arm):
            wish = "Regex, Newest, Listed, EdgeLexical or Tags of hr.arms"
            raise error(DTypeError, "arms", wish, repr(arm))
        if arm.name in facts.arms or arm.name in out:
            raise error(OptionError, "arms", "names that no other arm has", repr(arm.name))
        for column in (f"{arm.name}_score", f"{arm.name}_rank"):
            if column in facts.schema.row_columns:
                wish = "names whose result columns no column of the index has"
                raise error(OptionError, "arms", wish, f"{arm.name!r} ({column})")
        out[arm.name] = arm
    named = [arm.name for arm in out.values() if isinstance(arm, Listed)]
    if candidates is not None and not isinstance(candidates, Mapping):
        wish = "{arm: a list with one entry per query}"
        raise error(DTypeError, "candidates", wish, type(candidates).__name__)
    for name, lists in (candidates or {}).items():
        if name not in named:
            raise error(OptionError, "candidates", f"arms of {named} (arms.Listed)", repr(name))
        if isinstance(lists, str | Mapping) or not isinstance(lists, Sequence):
            argument, got = f"candidates[{name!r}]", type(lists).__name__
            raise error(DTypeError, argument, "a list with one entry per query", got)
    return out


def text_readers(arms: Arms) -> tuple[str, ...]:
    """Name the arms that read the queries' texts."""
    return tuple(
        name
        for name, arm in arms.items()
        if isinstance(arm, _READERS) and getattr(arm, "pattern", None) is None
    )


def runs(arm: Arm, texts: Mapping[str, object], candidates: Mapping[str, object] | None) -> bool:
    """Whether a call gives an arm what it needs."""
    if isinstance(arm, Listed):
        return arm.name in (candidates or {})
    return arm.name in texts or not text_readers({arm.name: arm})


def read_asked(
    facts: IndexFacts,
    arm: Arm,
    texts: Any,
    candidates: Mapping[str, Any] | None,
    n_queries: int,
) -> ArmQueries | ListedKeys:
    """Check what a call asks of an arm, and of the index for it; nothing is searched yet."""
    match arm:
        case Listed():
            return read_listed(arm, facts, (candidates or {})[arm.name])
        case Newest():
            return read_newest(arm, facts)
        case Regex():
            return read_regex(arm, facts, texts, n_queries)
        case Tags():
            return read_tags(arm, facts, texts)
        case EdgeLexical():
            return read_edge_lexical(arm, texts)


class CallArms(NamedTuple):
    """The arms of ``arms=`` by name, as :func:`read_arms` reads them."""

    arms: Arms

    @property
    def names(self) -> tuple[str, ...]:
        """The names, in the order of the call."""
        return tuple(self.arms)

    @property
    def readers(self) -> tuple[str, ...]:
        """The arms that read the queries' texts."""
        return text_readers(self.arms)

    @property
    def ask_by_themselves(self) -> bool:
        """Whether an arm runs where the call has neither texts nor candidates."""
        return any(runs(arm, {}, None) for arm in self.arms.values())

    def running(
        self, texts: Mapping[str, object], candidates: Mapping[str, object] | None
    ) -> list[str]:
        """Return the arms that a call gives what they need."""
        return [name for name, arm in self.arms.items() if runs(arm, texts, candidates)]

    def asked(
        self,
        facts: IndexFacts,
        running: Sequence[str],
        texts: Mapping[str, Any],
        candidates: Mapping[str, Any] | None,
        n_queries: int,
    ) -> Asked:
        """Check what the call asks of the running arms; nothing is searched yet."""
        return [
            (arm, read_asked(facts, arm, texts.get(name), candidates, n_queries))
            for name, arm in self.arms.items()
            if name in running
        ]


class Searches(NamedTuple):
    """The arms of ``arms=`` that search by themselves, with their queries."""

    facts: IndexFacts
    state: State
    asked: Asked
    floors: Mapping[str, tuple[float, bool] | None]
    scope: object
    graphs: BoundGraphs
    depth: int

    def add_to(self, request: _core.BatchRequest, first_query: int) -> dict[str, FoundDocs]:
        """Search for the queries of a request, which begin at ``first_query`` of the call."""
        # What each arm finds is put into the request, behind the arms that it has.
        if not self.asked:
            return {}
        with _core.arithmetic.RoundToNearest():  # some of their scores are computed here
            return self._add_to(request, first_query)

    def _add_to(self, request: _core.BatchRequest, first_query: int) -> dict[str, FoundDocs]:
        begin, n_queries = first_query, request.n_queries
        batch = Batch(
            self.facts,
            self.state,
            _core.arms.Audience(self.state.snapshot, request),
            scope_of(self.scope, begin, begin + n_queries),
            self.graphs,
            n_queries,
            self.depth,
        )
        out = {}
        for arm, asked in self.asked:
            found = out[arm.name] = _search_asked(arm, batch, asked.part(begin, begin + n_queries))
            if len(found.offsets) != n_queries + 1:
                raise error(ShapeError, arm.name, f"{n_queries} queries", len(found.offsets) - 1)
            floor = self.floors.get(arm.name)
            request.add_listed(
                arm.name, found.offsets, found.segment, found.row, found.score, floor
            )
        return out


def _search_asked(arm: Arm, batch: Batch, asked: Any) -> FoundDocs:
    match arm:
        case Listed():
            return search_listed(batch, asked)
        case Newest():
            return search_newest(arm, batch)
        case Regex():
            return search_regex(arm, batch, asked)
        case Tags():
            return search_tags(arm, batch, asked)
        case EdgeLexical():
            return search_edge_lexical(arm, batch, asked)
