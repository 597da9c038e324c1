"""Merges the candidates of the shards of an index: the reply is that of a single index."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hyrecall import _core
from hyrecall.arm.arm import FoundDocs, no_candidates
from hyrecall.ask.scope import scope_of
from hyrecall.base.arguments import as_items, check_keywords
from hyrecall.errors import DTypeError, InternalError, KeyConflictError, OptionError, error
from hyrecall.hits.hits import Hits
from hyrecall.hits.joined_reply import JoinedReply
from hyrecall.hits.reply import Reply
from hyrecall.hits.trace import BatchNotes
from hyrecall.parts.messages import Array, Part, ReadRequest, Request, RunPart, check_alike, hash_of
from hyrecall.parts.shard import named_runs, narrowed, nothing_found
from hyrecall.recall.answer import answer
from hyrecall.recall.arms import make_batch, scope_request
from hyrecall.recall.batch import Ran, Steps
from hyrecall.recall.exact import Exact, ExactTexts, asked_whole
from hyrecall.segments.segments import (
    IndexFacts,
    Segment,
    State,
    gather,
    one_array,
    segment_from_parts,
    seqs_of,
)
from hyrecall.table.attributes import attribute_column

if TYPE_CHECKING:
    from hyrecall.ask.recipe import Recipe
    from hyrecall.ask.request import CallOptions, Search
    from hyrecall.hits.reply import ReplyBase, ReplySource
    from hyrecall.recall.plan import Plan
    from hyrecall.table.schema import Schema
    from hyrecall.text.bm25 import BM25


# ---- Arms over parts whose scores are ranks among the rows of all parts, as those of Newest ----
# A part lists the best rows of its shard, so the best rows of all shards are among them.


def with_ranks(
    pools: Sequence[dict[str, Array]],
    facts: IndexFacts,
    state: State,
    plan: Plan,
    request: _core.BatchRequest,
) -> list[dict[str, Array]]:
    """Return the pools of the parts, with the lists of such arms computed over all parts."""
    # ``request`` has all arms; the rows of the pools are those of ``state``.
    out = list(pools)
    if plan.searches is None:
        return out
    n_exact = 0 if plan.exact is None else len(plan.exact.lists)
    first = request.n_arms - n_exact - len(plan.searches.asked)
    for at, (arm, asked) in enumerate(plan.searches.asked):
        if not arm._ranks_all:
            continue
        batch = make_batch(facts, state, request, plan.scope, {}, plan.depth)
        found = _above(arm._search(batch, asked), plan.searches.floors.get(arm.name))
        out = [
            _listed(pool, part, found, first + at, request.n_arms) for part, pool in enumerate(out)
        ]
    return out


def _above(found: FoundDocs, floor: tuple[float, bool] | None) -> FoundDocs:
    """Return the entries that pass a floor, which is rounded to float32 once."""
    if floor is None:
        return found
    least = np.float32(floor[0])
    kept = found.score > least if floor[1] else found.score >= least
    sums = np.concatenate([[0], np.cumsum(kept)])
    return FoundDocs(sums[found.offsets], found.segment[kept], found.row[kept], found.score[kept])


def _listed(
    pool: dict[str, Array], part: int, found: FoundDocs, arm: int, n_arms: int
) -> dict[str, Array]:
    """Return the pool of a part with the rows that an arm found as lists and scores of that arm."""
    # The part lists its own newest rows, so those that are among the newest of all come first.
    sizes = np.diff(pool["list_ends"])
    n_queries = len(sizes) // n_arms
    here = found.segment == part
    query = np.repeat(np.arange(n_queries), np.diff(found.offsets))[here]
    kept = sizes.copy()
    kept[arm::n_arms] = np.bincount(query, minlength=n_queries)
    place = np.arange(len(pool["listed"])) - np.repeat(pool["list_ends"][:-1], sizes)
    listed = pool["listed"][place < np.repeat(kept, sizes)]
    ends = np.concatenate([[0], np.cumsum(np.minimum(kept, sizes))])
    of_arm = np.repeat(np.arange(len(sizes)) % n_arms == arm, np.diff(ends))
    docs = pool["doc_ends"][query] + listed[of_arm] if (kept <= sizes).all() else query[:0]
    if not np.array_equal(pool["row"][docs], found.row[here]):
        raise error(OptionError, "parts", "the newest documents of each shard", "others")
    scores = pool["scores"].reshape(-1, n_arms).copy()
    scores[:, arm] = -np.inf
    scores[docs, arm] = found.score[here]
    return {**pool, "scores": scores.reshape(-1), "listed": listed, "list_ends": ends}


# ---- Checks the placement of documents in shards: a key once in a cell, a thread in one shard ----

_SHARD = "shard of a row"  # beside columns of the index; users do not choose such names


def check_shards(shards: Sequence[tuple[str, IndexFacts, State]]) -> None:
    """Check that indexes are shards of one index; each has a name for messages."""
    first, facts, _ = shards[0]
    for name, own, _ in shards[1:]:
        if hash_of(own) != hash_of(facts):
            wish = f"the schema, analyzers, BM25 constants, dimensions and types of {first}"
            raise error(OptionError, name, wish, "others")
    schema = facts.schema
    names = [schema.key, *schema.cell_columns]
    names += [] if schema.thread is None else [schema.thread]
    tables, seqs = [], []
    for number, (_, _, state) in enumerate(shards):
        if not state.segments:
            continue
        segment, row = _core.rows.merge_order(list(state.views), [])
        with state.reading():
            table = gather(state.segments, segment, row, list(dict.fromkeys(names)))
        tables.append(_numbered(table, number))
        seqs.append(seqs_of(state.segments, segment, row))
    if not tables:
        return
    _check_seqs(np.concatenate(seqs))
    rows = pa.concat_tables(tables)
    keyed = rows.group_by([*schema.cell_columns, schema.key]).aggregate(
        [(_SHARD, "min"), (_SHARD, "max")]
    )
    ends = keyed[f"{_SHARD}_min"], keyed[f"{_SHARD}_max"]
    twice = keyed.filter(pc.not_equal(*ends))
    if twice.num_rows:
        first, last = (shards[twice[f"{_SHARD}_{one}"][0].as_py()][0] for one in ("min", "max"))
        got = f"{twice[schema.key][0].as_py()!r} in {first} and {last}"
        raise error(KeyConflictError, schema.key, "keys that no other shard has in that cell", got)
    _check_threads(rows, schema)


def _numbered(table: pa.Table, number: int) -> pa.Table:
    return table.append_column(_SHARD, pa.array(np.full(table.num_rows, number, np.int32)))


def _check_seqs(seqs: np.ndarray) -> None:
    values, counts = np.unique(seqs, return_counts=True)
    if (counts > 1).any():
        wish = "insertion numbers that no other shard has"
        remedy = "give each shard numbers of its own: Index.build(..., first_seq=)"
        got = f"{int(values[counts > 1][0])} in two of them"
        raise error(OptionError, "first_seq", wish, got, remedy)


def _check_threads(rows: pa.Table, schema: Schema) -> None:
    """Refuse a thread with rows in two shards; the table has the shard of each row."""
    if schema.thread is None:
        return
    kept = rows.filter(pc.is_valid(rows[schema.thread]))
    keys = list(dict.fromkeys((*schema.cell_columns, schema.thread)))
    found = kept.group_by(keys).aggregate([(_SHARD, "count_distinct")])
    torn = found.filter(pc.greater(found[f"{_SHARD}_count_distinct"], 1))
    if torn.num_rows:
        wish = "all rows of a thread in one shard"
        got = f"those of {torn[schema.thread][0].as_py()!r} in two"
        raise error(OptionError, schema.thread, wish, got)


def check_found_threads(tables: Sequence[pa.Table], schema: Schema) -> None:
    """Refuse rows of a thread in several parts of a request, as :func:`check_shards` does."""
    if schema.thread is None:
        return
    names = list(dict.fromkeys((*schema.cell_columns, schema.thread)))
    numbered = [_numbered(one.select(names), number) for number, one in enumerate(tables)]
    _check_threads(pa.concat_tables(numbered), schema)


# ---- Makes a small state of the rows of all parts, which the stages of the merge read ----
# The state has no postings: scores come with the parts. Each part is a segment, with its rows in
# the order of a segment. Texts are only marked as present; vectors exist only if a stage compares
# them.


class Pools(NamedTuple):
    """The candidates of all parts of a request, joined for the merge."""

    facts: IndexFacts
    brought: IndexFacts
    state: State
    runs: Sequence[dict[str, RunPart]]


def pools_of(parts: Sequence[Part]) -> Pools:
    """Make the state from the rows of parts, in the order of the parts."""
    facts = narrowed(parts[0].facts, parts[0].rows.schema.names)
    kept = {arm: dim for arm, dim in facts.dims.items() if arm in parts[0].vectors}
    facts = replace(facts, dims=kept)
    segments = []
    runs = []
    for number, part in enumerate(parts):
        order = _order(part, facts)
        segments.append(_segment(part, facts, order))
        place = np.empty(len(order), np.uint32)
        place[order] = np.arange(len(order), dtype=np.uint32)
        runs.append({name: _placed(run, number, place) for name, run in part.runs.items()})
    views = [_core.SegmentView(segment.core) for segment in segments]
    return Pools(parts[0].facts, facts, State.of(segments, views, 0), runs)


def _order(part: Part, facts: IndexFacts) -> npt.NDArray[np.uint32]:
    """Return the order of the rows in a segment: by cell, cluster and insertion number."""
    schema = facts.schema
    cells = [one_array(part.rows.column(name)) for name in schema.cell_columns]
    cluster = np.zeros(0, np.int64)
    if schema.cluster is not None:
        cluster = attribute_column(part.rows.column(schema.cluster)).sort_codes
    seqs = np.ascontiguousarray(part.seqs, np.int64)
    return np.asarray(_core.sort_rows(cells, part.n_rows, cluster, seqs), np.uint32)


def _segment(part: Part, facts: IndexFacts, order: npt.NDArray[np.uint32]) -> Segment:
    schema, n = facts.schema, part.n_rows
    rows = part.rows.take(pa.array(order)).combine_chunks()
    lexical = {}
    for arm, has_text in part.has_text.items():
        texts = pa.array([""] * n, pa.large_string(), mask=~np.asarray(has_text, np.bool_))
        lexical[arm] = _core.LexicalColumn.build(
            arm, [[texts]], [1], order, facts.analyzers[arm].native, facts.threads, None
        )
    dense = {}
    for arm in facts.vector_arms:
        own = part.vectors.get(arm)
        if own is None:
            parts = "float32", 1, np.zeros(4 * n, np.uint8), np.zeros(n, np.float32)
        else:
            kept = np.ascontiguousarray(own.rows[order]).reshape(-1) if n else np.zeros(0, np.uint8)
            parts = own.dtype, own.dim, kept, np.ascontiguousarray(own.inverse_norms[order])
        dense[arm] = _core.DenseColumn.from_parts(arm, *parts)
    return segment_from_parts(rows, part.seqs[order], schema, lexical, dense)


def _placed(run: RunPart, segment: int, place: Array) -> RunPart:
    """Return a run whose documents are named by rows of the state."""
    arrays = dict(run.arrays)
    docs = arrays.pop("doc")
    arrays["row"] = place[docs] if len(docs) else np.zeros(0, np.uint32)
    arrays["segment"] = np.full(len(docs), segment, np.uint32)
    return run._replace(arrays=arrays)


# ---- The arrays of a run: those of some of its queries, and its exact-match lists ----


def list_sizes(part: RunPart) -> npt.NDArray[np.int64]:
    """Return the number of documents in each list: [n_queries, n_arms]."""
    return np.diff(part.arrays["list_ends"]).reshape(-1, part.n_arms)


def piece(part: RunPart, begin: int, end: int) -> dict[str, Array]:
    """Return the arrays of some queries of a run."""
    given = part.arrays
    ends = given["doc_ends"]
    n_queries, n_docs = len(ends) - 1, int(ends[-1])
    first, last = int(ends[begin]), int(ends[end])
    lists = given["list_ends"][begin * part.n_arms : end * part.n_arms + 1]
    out = {"doc_ends": ends[begin : end + 1] - first, "list_ends": lists - lists[0]}
    out["listed"] = given["listed"][int(lists[0]) : int(lists[-1])]
    of_queries = ("found", "length_shares", "refused")
    for name, array in given.items():
        if name in out or name == "holds":
            continue
        per, low, high = (n_queries, begin, end) if name in of_queries else (n_docs, first, last)
        width = len(array) // per if per else 0
        out[name] = array[low * width : high * width]
    return {name: np.ascontiguousarray(array) for name, array in out.items()}


def without_exact(part: RunPart) -> RunPart:
    """Return a run without its last arms, whose lists are empty."""
    if not part.n_exact:
        return part
    n_arms, kept = part.n_arms, part.n_arms - part.n_exact
    arrays = dict(part.arrays)
    ends = arrays["list_ends"][1:].reshape(-1, n_arms)[:, :kept]
    arrays["list_ends"] = np.concatenate([[0], ends.reshape(-1)]).astype(np.int64)
    arrays["scores"] = arrays["scores"].reshape(-1, n_arms)[:, :kept].reshape(-1)
    return RunPart(kept, 0, arrays)


def cut_exact(parts: Sequence[RunPart], n_exact: int, depth: int) -> list[RunPart]:
    """Cut the lists of the last arms at a depth, over all parts together."""
    kept = [np.ones(len(part.arrays["listed"]), np.bool_) for part in parts]
    for arm in range(parts[0].n_arms - n_exact, parts[0].n_arms):
        entries = [_entries(part, arm) for part in parts]
        query, score, seq = (np.concatenate([one[at] for one in entries]) for at in (1, 2, 3))
        order = np.lexsort((seq, -score, query))
        firsts = np.searchsorted(query[order], query[order])
        inside = np.empty(len(order), np.bool_)
        inside[order] = np.arange(len(order)) - firsts < depth
        ends = np.cumsum([0, *(len(one[0]) for one in entries)])
        for mask, one, begin, end in zip(kept, entries, ends[:-1], ends[1:], strict=True):
            mask[one[0]] = inside[begin:end]
    return [_kept(part, mask) for part, mask in zip(parts, kept, strict=True)]


def _entries(part: RunPart, arm: int) -> tuple[Array, Array, Array, Array]:
    """Return the entries of an arm's lists: their places in ``listed``, queries, scores, seqs."""
    arrays, n_arms = part.arrays, part.n_arms
    of_list = np.repeat(np.arange(len(arrays["list_ends"]) - 1), np.diff(arrays["list_ends"]))
    places = np.flatnonzero(of_list % n_arms == arm)
    query = of_list[places] // n_arms
    docs = arrays["doc_ends"][query] + arrays["listed"][places]
    return places, query, arrays["scores"][docs * n_arms + arm], arrays["seq"][docs]


def _kept(part: RunPart, mask: npt.NDArray[np.bool_]) -> RunPart:
    if mask.all():
        return part
    sums = np.concatenate([[0], np.cumsum(mask)])
    arrays = {**part.arrays, "list_ends": sums[part.arrays["list_ends"]].astype(np.int64)}
    arrays["listed"] = part.arrays["listed"][mask]
    return part._replace(arrays=arrays)


# ---- Merges the candidates of the shards of an index: the reply is that of a single index ----


@check_keywords
def merge(request: Request, parts: Sequence[Part], *, degraded: Sequence[str] = ()) -> Hits:
    """Merge the candidates that the shards of an index found for a request.

    The lists of each arm are merged by (score, insertion number), cut at the depth, then ranked.
    All later steps are those of :meth:`hyrecall.Index.recall`, so the reply equals that of a single
    index with the documents of all shards, bit for bit.

    Parameters
    ----------
    request : Request
    parts : sequence of Part
        One for each shard that :meth:`hyrecall.distributed.Statistics.sum` summed, in any order.
    degraded : sequence of str
        Messages for ``degraded`` of the reply, such as the name of a shard that did not answer.
        If there are any, parts may be missing.

    Returns
    -------
    Hits
        ``hit.text`` works only if ``columns`` of the request names it. ``explain()`` is refused:
        the postings stay in the shards.

    Raises
    ------
    OptionError, DTypeError
        No part, parts of several requests or indexes, a shard whose part is missing, or a thread
        with rows from two shards.

    Examples
    --------
    >>> import pyarrow as pa
    >>> import hyrecall as hr
    >>> from hyrecall.distributed import Request, Statistics, merge
    >>> schema = hr.Schema(key="id", cell=None, text="text")
    >>> tables = pa.table({"id": [0], "text": ["tea"]}), pa.table({"id": [1], "text": ["hot tea"]})
    >>> shards = [hr.Index.build(table, schema, first_seq=n) for n, table in enumerate(tables)]
    >>> request = Request(text=["hot tea"])
    >>> summed = Statistics.sum([shard.statistics(request) for shard in shards])
    >>> hits = merge(request, [shard.candidates(request, summed) for shard in shards])
    >>> hits[0].keys
    [1, 0]
    """
    _check(request, parts, degraded)
    pools = pools_of(parts)
    if any(len(run.arrays["found"]) for part in parts for run in part.runs.values()):
        check_found_threads([part.rows for part in parts], parts[0].facts.schema)
    facts, state = pools.facts, pools.state
    call = request.read(facts)
    sees = parts[0].sees_threads
    steps = _MergedSteps(call, pools.runs, bool(sees[0]) if len(sees) == 1 else sees)
    device = ", ".join(sorted({part.device for part in parts}))
    told = BatchNotes(degraded=(*degraded, *_unembedded(facts, request, call)))
    given = call.asked, call.options, call.recipe
    return Hits(_narrow(answer(facts, state, device, *given, None, told, steps), pools.brought))


def _unembedded(facts: IndexFacts, request: Request, call: ReadRequest) -> list[str]:
    """Say which arms do not run because shards embed no texts."""
    if not facts.embedded or request.given["vectors"] is not None:
        return []
    from hyrecall.recall.embedders import unembedded  # loads clients of endpoints

    asked = call.asked._replace(vectors=None)
    return [
        f"{arm} did not run: its vectors are of {model!r}, and shards embed no texts: pass vectors="
        for arm, model in unembedded(facts, asked, call.recipe, call.options).items()
    ]


def _narrow(reply: ReplyBase, brought: IndexFacts) -> ReplyBase:
    """Return a reply that knows only the columns that the parts have."""
    if isinstance(reply, JoinedReply):
        replies = tuple(replace(one, facts=brought) for one in reply.replies)
        return replace(reply, facts=brought, replies=replies)
    assert isinstance(reply, Reply)
    return replace(reply, facts=brought)


def _check(request: Request, parts: Sequence[Part], degraded: Sequence[str]) -> None:
    if not isinstance(request, Request):
        raise error(DTypeError, "request", "a Request", repr(request)[:80])
    if not parts:
        raise error(OptionError, "parts", "the part of at least one shard", "none")
    for one in as_items(parts) or (parts,):
        if not isinstance(one, Part):
            raise error(
                DTypeError, "parts", "parts, as Index.candidates returns them", repr(one)[:80]
            )
        check_alike(parts[0], one)
        is_like = one.versions == parts[0].versions and one.request == request.id
        is_like &= one.rows.schema.names == parts[0].rows.schema.names
        if not is_like or one.vectors.keys() != parts[0].vectors.keys():
            raise error(OptionError, "parts", "those of this request and one sum", "others")
    counted, found = Counter(parts[0].versions), Counter(part.version for part in parts)
    if found - counted or (counted - found and not degraded):
        wish = f"the parts of all {counted.total()} shards that were counted"
        raise error(OptionError, "parts", wish, f"{len(parts)} parts, or other states of theirs")


class _MergedSteps(Steps):
    """The native steps of a recall whose statistics and candidates came from shards."""

    def __init__(
        self,
        call: ReadRequest,
        runs: Sequence[dict[str, RunPart]],
        sees: bool | npt.NDArray[np.bool_],
    ) -> None:
        self._runs = runs
        self._n = len(runs)
        self._sees = sees
        self._left = iter(named_runs(call, sees))

    def of(self, how: Recipe | CallOptions) -> Steps:
        """Return the steps of the next run that uses this recipe or these options."""
        for name, known in self._left:
            if known == how:
                own = [runs[name] for runs in self._runs if name in runs]
                return _RunSteps(own, self._n)
        return _RunSteps([], self._n)

    def sees_threads(
        self, facts: IndexFacts, state: State, request: Search
    ) -> bool | npt.NDArray[np.bool_]:
        """Say which queries see threads in any shard."""
        del facts, state, request
        return self._sees


class _RunSteps(Steps):
    """The steps of one run: its pools come from the parts and are merged here."""

    def __init__(self, parts: Sequence[RunPart], n_parts: int) -> None:
        self._parts = list(parts)
        self._n_parts = n_parts
        self._held: dict[tuple[int, int, int], int] = {}

    def find_exact(
        self,
        facts: IndexFacts,
        state: State,
        request: Search,
        wanted: ExactTexts | None,
        bm25: Mapping[str, BM25],
        n_queries: int,
        depth: int,
    ) -> Exact | None:
        """Return the rows that contain a query as a whole, from the last arms of the parts."""
        del state, request
        asked = asked_whole(facts, wanted, bm25)
        if asked is None:
            return None
        queries, texts = asked
        n_exact = len(texts)
        for part in self._parts:
            is_like = part.n_exact == n_exact and "holds" in part.arrays
            if not is_like or len(part.arrays["doc_ends"]) != n_queries + 1:
                raise error(OptionError, "parts", "those of this request", "others")
        none = np.zeros((n_queries, n_exact), np.int64)  # for a run that only lost shards have
        sizes = sum((list_sizes(one)[:, one.n_arms - n_exact :] for one in self._parts), none)
        is_cut = np.asarray(sizes)[queries] >= depth
        if not np.asarray(sizes).any():
            self._parts = [without_exact(part) for part in self._parts]
            return Exact(queries, texts, depth, {}, is_cut, self._matches)
        self._parts = cut_exact(self._parts, n_exact, depth)
        self._keep_held(queries)
        nothing = {arm: no_candidates(n_queries) for arm in texts}
        return Exact(queries, texts, depth, nothing, is_cut, self._matches)

    def _keep_held(self, queries: npt.NDArray[np.int64]) -> None:
        for part in self._parts:
            arrays = part.arrays
            for own, query in enumerate(queries.tolist()):
                begin, end = int(arrays["doc_ends"][query]), int(arrays["doc_ends"][query + 1])
                for doc in range(begin, end):
                    place = own, int(arrays["segment"][doc]), int(arrays["row"][doc])
                    self._held[place] = int(arrays["holds"][doc])

    def _matches(self, arm: int, query: int, segment: int, row: int) -> bool:
        return bool(self._held.get((query, segment, row), 0) >> arm & 1)

    def run(
        self,
        facts: IndexFacts,
        state: State,
        plan: Plan,
        request: _core.BatchRequest,
        first_query: int,
        known: Mapping[str, FoundDocs] | None,
    ) -> Ran:
        """Merge the pools of some queries of a call."""
        del known
        if len(self._parts) < self._n_parts:  # after the plan, which may refuse a query first
            wish, got = "those of this request", "parts without one of its runs"
            raise error(OptionError, "parts", wish, got)
        began = time.perf_counter()
        n = request.n_queries
        found = plan.complete(request, first_query, nothing_found(plan, n))
        end = first_query + n
        for part in self._parts:
            is_like = part.n_arms == request.n_arms
            is_like &= len(part.arrays["doc_ends"]) == plan.n_queries + 1
            refused = part.arrays.get("refused")
            is_like &= refused is None or len(refused) == plan.n_queries * plan.n_lexical
            if not is_like:
                raise error(OptionError, "parts", "those of this request", "others")
        pieces = [piece(part, first_query, end) for part in self._parts]
        told = [one.pop("refused") for one in pieces if "refused" in one]
        if told and n:  # each part says it of the queries that it was asked
            reasons = np.maximum.reduce(told).reshape(n, -1)
            request.refuse_texts(np.ascontiguousarray(reasons.T).reshape(-1))
        pieces = with_ranks(pieces, facts, state, plan, request)
        try:
            pools = [_core.Candidates.from_arrays(one, request) for one in pieces]
        except InternalError as fault:  # the arrays are another process's, not ours
            raise error(OptionError, "parts", "arrays that fit each other", "others") from fault
        reads = _core.Execution(_core.Snapshot([], None), request)
        started = time.perf_counter()
        arrays = _core.merge(request, pools)
        arrays = arrays if plan.evidence is None else plan.evidence.with_columns(arrays)
        fused = time.perf_counter()
        scope = scope_of(plan.scope, first_query, end)
        execution = _core.Execution(state.snapshot, scope_request(facts, state, scope, n))
        seconds = {"candidates": started - began, "fusion": fused - started}
        return Ran(reads, execution, arrays, found, seconds)

    def source(self, plan: Plan, state: State, *_: Any) -> ReplySource:
        """Return a source that only has columns, and what was asked."""
        return _PartsSource(state, plan.request)


class _PartsSource:
    """Provides the columns of merged hits; explanations need data that stays in the shards."""

    def __init__(self, state: State, asked: _core.BatchRequest) -> None:
        self.state, self._asked = state, asked

    def text_query(self, place: int, query: int) -> _core.queries.TextQuery | None:
        """Return what a text arm was asked, by its place among the arms that ran."""
        return self._asked.text_query(place, query)

    @property
    def request(self) -> NoReturn:
        """Raise an error: the documents that a query sees stay in the shards."""
        self._refuse()

    def _refuse(self, *_: Any) -> NoReturn:
        wish, got = "hits of one index", "hits of several shards, which keep their postings"
        remedy = "recall from the shard that holds the document"
        raise error(OptionError, "hits", wish, got, remedy)

    evidence = explain = explain_dropped = totals = judge = _refuse
