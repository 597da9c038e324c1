"""A recall over parts in one shard: its runs, counts, then candidates with the counts of all.

A call has a run for its options, or one for each recipe and form. All shards and the merge name
them alike, so the results of a run are found by its name.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hyrecall import _core
from hyrecall.arm.arm import FoundDocs, no_candidates
from hyrecall.errors import DTypeError, OptionError, ShapeError, StaleStatisticsError, error
from hyrecall.parts.messages import Array, Counts, Part, RunPart, Statistics, Vectors, hash_of
from hyrecall.recall.exact import Exact, ExactTexts, asked_whole, found_whole, search_phrases
from hyrecall.recall.plan import Plan, Ranking, rank_by_options, whole_list
from hyrecall.recall.planning import make_plan
from hyrecall.recall.recipe_answer import Shares, by_recipe, fallback, with_lists, with_options
from hyrecall.recall.recipe_ranking import by_form, rank_by_recipe, sees_threads
from hyrecall.recall.shaper import check_shaping, newest_in_order, stage_plan
from hyrecall.segments.segments import State, gather, seqs_of

if TYPE_CHECKING:
    from hyrecall.ask.recipe import Recipe
    from hyrecall.ask.request import CallOptions, Search
    from hyrecall.parts.messages import ReadRequest, Request
    from hyrecall.segments.segments import IndexFacts
    from hyrecall.text.bm25 import BM25


Asked = npt.NDArray[np.bool_]

REFUSALS = (DTypeError, OptionError, ShapeError)
"""Errors about the arguments of a call."""

_THREADS = " threads"


class CallRun(NamedTuple):
    """One run of a call."""

    name: str
    how: Recipe | CallOptions
    request: Search
    ranking: Ranking

    @property
    def is_for_threads(self) -> bool:
        """Whether it runs the form of a recipe for queries that see threads."""
        return _THREADS in self.name


def has_forms(facts: IndexFacts, call: ReadRequest) -> bool:
    """Whether a recipe has another form for queries whose scope holds threads."""
    if call.recipe is None or facts.schema.thread is None:
        return False
    return any(one.with_threads is not None for one, _ in by_recipe(call.recipe))


def _recipe_runs(
    call: ReadRequest, sees: bool | Asked | None
) -> list[tuple[str, Recipe, Asked | None]]:
    """Return each recipe of a call with its name and its queries."""
    # ``sees``: which queries see threads; None: not known yet, so every recipe runs in both forms.
    chosen = [(with_options(one, call.options), own) for one, own in by_recipe(call.recipe)]
    if all(recipe.with_threads is None for recipe, _ in chosen):
        return [(str(number), *one) for number, one in enumerate(chosen)]
    out: list[tuple[str, Recipe, Asked | None]] = []
    for number, one in enumerate(chosen):
        if sees is None:
            forms = [(one[0], one[1]), (one[0].for_threads(), one[1])]
            names = ["", _THREADS]
        else:  # as a single index does: a recipe without such a form runs once for both
            forms = by_form([one], sees)
            names = [_THREADS if _is_for_threads(own, sees) else "" for _, own in forms]
        out += [(f"{number}{name}", *form) for name, form in zip(names, forms, strict=True)]
    return out


def _is_for_threads(selected: Asked | None, sees: bool | Asked) -> bool:
    """Whether a group of queries from by_form is that of queries that see threads."""
    if isinstance(sees, bool):
        return sees
    if selected is None or len(selected) != len(sees):
        return False
    return bool((selected & sees).any())


def runs_of(facts: IndexFacts, call: ReadRequest, sees: bool | Asked | None) -> Iterator[CallRun]:
    """Yield the runs of a call on one shard, in order, without those of :func:`again`."""
    if call.recipe is None:
        request = call.asked.with_own_scope()
        yield CallRun("0", call.options, request, rank_by_options(request, call.options))
        return
    request = with_lists(call.asked)
    chosen = _recipe_runs(call, sees)
    shares = Shares(request, [recipe for _, recipe, _ in chosen])
    for name, recipe, selected in chosen:
        own = shares.of(recipe)
        yield CallRun(name, recipe, own, rank_by_recipe(facts, own, recipe, selected))


def again(facts: IndexFacts, call: ReadRequest, run: CallRun, unanswered: Asked) -> CallRun | None:
    """Return the run for the queries that a run did not answer; None if the recipe has none."""
    if call.recipe is None or not run.how.on_no_match or not unanswered.any():
        return None
    request = with_lists(call.asked)
    recipes = [recipe for _, recipe, _ in _recipe_runs(call, None)]
    shares = Shares(request, recipes)
    if not shares.asks(run.how.on_no_match):
        return None
    recipe = fallback(run.how)  # type: ignore[arg-type]
    own = shares.of(recipe)
    ranking = rank_by_recipe(facts, own, recipe, unanswered)
    return CallRun(f"{run.name} again", recipe, own, ranking)


def named_runs(call: ReadRequest, sees: bool | Asked) -> list[tuple[str, Recipe | CallOptions]]:
    """Return the name of every run that a merge may need, in order."""
    if call.recipe is None:
        return [("0", call.options)]
    out: list[tuple[str, Recipe | CallOptions]] = []
    for name, recipe, _ in _recipe_runs(call, sees):
        out.append((name, recipe))
        if recipe.on_no_match:
            out.append((f"{name} again", fallback(recipe)))
    return out


def native(plan: Plan) -> _core.BatchRequest:
    """Return the plan's request with all arms; those of ``arms=`` have no documents."""
    plan.complete(plan.request, 0, nothing_found(plan, plan.n_queries))
    return plan.request


def nothing_found(plan: Plan, n_queries: int) -> dict[str, FoundDocs]:
    """Return empty lists for some queries, for each arm of ``arms=`` that runs."""
    asked = () if plan.searches is None else plan.searches.asked
    return {arm.name: no_candidates(n_queries) for arm, _ in asked}


def columns_read(facts: IndexFacts, plan: Plan, asked: Search) -> tuple[set[str], set[str]]:
    """Return which stored columns, and which vectors, a call or the stages of its plan read."""
    named = {tie.column for tie in plan.tie_break} | set(asked.columns)
    seen = stage_plan(facts, plan)
    reads = [stage.reads(seen) for stage in plan.stages]
    named.update(*(columns for columns, _ in reads))
    compared = {arm for _, vectors in reads for arm in vectors}
    compared |= (set(asked.columns) & set(facts.vector_arms)) - set(facts.schema.row_columns)
    return {name for name in facts.schema.stored_columns if name in named}, compared


def narrowed(facts: IndexFacts, stored: Collection[str]) -> IndexFacts:
    """Return the facts of rows that have only these of the stored columns."""
    kept = tuple(name for name in facts.schema.stored_columns if name in stored)
    schema = replace(facts.schema, stored=kept)
    kinds = {name: facts.row_types[name] for name in schema.row_columns}
    return replace(facts, schema=schema, row_types=kinds)


# ---- Counts and candidates of one shard ----

Rows = tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint32]]


def statistics_of(facts: IndexFacts, state: State, version: str, request: Request) -> Statistics:
    """Count what the scores of a request need from one index; see ``Index.statistics``."""
    call = request.read(facts)
    counted: dict[str, Counts] = {}
    sees: Any = False
    if has_forms(facts, call):
        sees = sees_threads(facts, state, call.asked)
    for run in runs_of(facts, call, None):
        phrases = _Phrases(run.name, counted, None)
        try:
            plan = _plan(facts, state, run, phrases)
        except REFUSALS:
            if not run.is_for_threads or np.any(sees):
                raise
            continue  # no query needs this form here; a shard that needs it refuses it
        if plan.n_lexical:
            state.check_texts(plan.request)  # before they are read
        try:
            execution = _core.Execution(state.snapshot, native(plan))
            queries, arms = np.arange(plan.n_queries), plan.arms[: plan.n_lexical]
            counted[run.name] = Counts.of(execution.statistics(), queries, arms)
        finally:
            plan.request.release_guests()
    return Statistics(
        request.id, hash_of(facts), (version,), np.atleast_1d(np.asarray(sees, np.bool_)),
        counted,
    )  # fmt: skip


def candidates_of(
    facts: IndexFacts,
    state: State,
    version: str,
    device: str,
    request: Request,
    statistics: Statistics,
) -> Part:
    """Return the best documents of each arm of one index; see ``Index.candidates``."""
    if statistics.request != request.id or statistics.index != hash_of(facts):
        wish = "those of this request and of an index with this schema"
        raise error(OptionError, "statistics", wish, "others")
    if version not in statistics.versions:
        wish = "those of the documents that the index holds now"
        remedy = "the index changed: count again"
        raise error(StaleStatisticsError, "statistics", wish, "those of an earlier state", remedy)
    call = request.read(facts)
    state.check_texts()  # a part records which of its rows have a text
    found = _Found(facts, state, call, statistics)
    found.search()
    return found.part(request, version, device)


def _plan(facts: IndexFacts, state: State, run: CallRun, phrases: _Phrases) -> Plan:
    with _core.arithmetic.RoundToNearest():  # weights and floors are computed here
        plan = make_plan(facts, state, run.request, run.ranking, {}, phrases.look_up)
    check_shaping(facts, plan)
    if plan.grouping is not None and plan.grouping.n_around:
        wish = "0 in a recall over parts of an index (it reads whole threads)"
        raise error(OptionError, "surrounding", wish, plan.grouping.n_around)
    return plan


class _Phrases:
    """Finds rows that contain a query as a whole: only counts them, or uses the sums to score."""

    def __init__(self, run: str, counted: dict[str, Counts], given: Statistics | None) -> None:
        self._name = f"{run} phrases"
        self._counted = counted
        self._given = given

    def look_up(
        self,
        facts: IndexFacts,
        state: State,
        request: Search,
        wanted: ExactTexts | None,
        bm25: Mapping[str, BM25],
        n_queries: int,
        depth: int,
    ) -> Exact | None:
        """Return the rows as ``find_exact`` does, with a (perhaps empty) list for each arm."""
        asked = asked_whole(facts, wanted, bm25)
        if asked is None:
            return None
        queries, texts = asked
        search = search_phrases(facts, state, request, texts, bm25, queries, depth)
        if self._given is None:
            self._counted[self._name] = Counts.of(search.execution.statistics(), queries, texts)
            summed = None
        else:
            summed = _counts(self._given, self._name).native(queries, [*texts], None)
        lists, is_cut = found_whole(search, texts, queries, n_queries, depth, summed)
        return Exact(queries, texts, depth, lists, is_cut, search.matches)


def _counts(statistics: Statistics, name: str) -> Counts:
    found = statistics.runs.get(name)
    if found is None:
        raise error(OptionError, "statistics", "those of this request", f"none of {name!r}")
    return found


class _Found:
    """The candidates of one shard for a call, run by run."""

    def __init__(
        self, facts: IndexFacts, state: State, call: ReadRequest, statistics: Statistics
    ) -> None:
        self._facts, self._state, self._call = facts, state, call
        self._statistics = statistics
        self._runs: dict[str, RunPart] = {}
        self._stored: set[str] = set()
        self._compared: set[str] = set()  # vector arms
        self._filling: list[Rows] = []

    def search(self) -> None:
        """Search with every run of the call, and again for recipes that find nothing."""
        sees = self._statistics.sees_threads
        alike = bool(sees[0]) if len(sees) == 1 else sees
        for run in runs_of(self._facts, self._call, alike):
            self._again(run, self._run(run))

    def _again(self, run: CallRun, unanswered: npt.NDArray[np.bool_]) -> None:
        """Search again for the queries for which a run finds nothing in this shard."""
        more = again(self._facts, self._call, run, self._accepted(run, unanswered))
        if more is not None:
            self._run(more)

    def _accepted(self, run: CallRun, selected: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        """Return those of some queries that a second search does not refuse."""
        # Another shard may answer the others, and if none does, the merge refuses them as a single
        # index does.
        try:
            more = again(self._facts, self._call, run, selected)
            if more is not None:
                phrases = _Phrases(more.name, {}, self._statistics)
                _plan(self._facts, self._state, more, phrases).request.release_guests()
        except REFUSALS:
            queries = np.flatnonzero(selected)
            if len(queries) == 1:
                return np.zeros_like(selected)
            halves = (np.isin(np.arange(len(selected)), half)
                      for half in np.array_split(queries, 2))  # fmt: skip
            first, rest = (self._accepted(run, half) for half in halves)
            return first | rest
        return selected

    def _run(self, run: CallRun) -> npt.NDArray[np.bool_]:
        """Search with one run; return the queries without any result."""
        phrases = _Phrases(run.name, {}, self._statistics)
        plan = _plan(self._facts, self._state, run, phrases)
        n = plan.n_queries
        try:
            plan.complete(plan.request, 0)
            lexical = plan.arms[: plan.n_lexical]
            reasons = np.zeros(0, np.uint8)
            if lexical and n:
                counts = _counts(self._statistics, run.name)
                reasons = counts.reasons(np.arange(n), lexical)
                plan.request.refuse_texts(reasons)
                plan.request.choose_terms(counts.chosen(np.arange(n), lexical))
            execution = _core.Execution(self._state.snapshot, plan.request)
            if lexical and n:
                summed = counts.native(np.arange(n), lexical, plan.selected)
            else:
                summed = execution.statistics()
            arrays = dict(execution.candidates(summed).arrays())
            if reasons.any():
                arrays["refused"] = np.ascontiguousarray(reasons.reshape(-1, n).T).reshape(-1)
        finally:
            plan.request.release_guests()
        n_exact = 0 if plan.exact is None else len(plan.exact.lists)
        self._runs[run.name] = RunPart(plan.request.n_arms, n_exact, arrays)
        if plan.exact is not None:
            arrays["holds"] = self._held(plan.exact, arrays)
        self._need(plan)
        if plan.fill is not None:
            self._filling.append(self._newest(plan))
        sizes = np.diff(arrays["list_ends"]).reshape(n, plan.request.n_arms)
        found = (sizes > 0).any(axis=1) | np.isin(np.arange(n), plan.blank_queries)
        asked = np.ones(n, np.bool_) if plan.selected is None else plan.selected
        return np.asarray(asked & ~found, np.bool_)

    def _held(self, exact: Exact, arrays: Mapping[str, Array]) -> npt.NDArray[np.uint32]:
        """Return for each document which texts it contains as a whole, one bit for each arm."""
        ends = arrays["doc_ends"]
        out = np.zeros(int(ends[-1]), np.uint32)
        for query in exact.queries.tolist():
            for doc in range(int(ends[query]), int(ends[query + 1])):
                place = int(arrays["segment"][doc]), int(arrays["row"][doc])
                held = exact.held(query, *place)
                out[doc] = sum(1 << at for at, arm in enumerate(exact.texts) if arm in held)
        return out

    def _need(self, plan: Plan) -> None:
        stored, compared = columns_read(self._facts, plan, self._call.asked)
        self._stored |= stored
        self._compared |= compared

    def _newest(self, plan: Plan) -> Rows:
        """Return documents that may fill a list: enough, even if others are in a list already."""
        assert plan.fill is not None
        wanted = plan.offset + plan.limit if plan.grouping is None else plan.depth
        most = wanted + whole_list(plan.depth, plan.request.n_arms, plan.evidence)
        _, segment, row = newest_in_order(
            self._facts, self._state, plan.request, plan.fill.column, most, plan
        )
        return segment, row

    def part(self, request: Request, version: str, device: str) -> Part:
        """Return the part, in which each row that any run found occurs once."""
        facts, state = self._facts, self._state
        segment, row = self._rows()
        self._number(segment, row)
        return Part(
            request.id, hash_of(facts), version, self._statistics.versions, device,
            self._statistics.sees_threads, facts, self._runs,
            self._gathered(narrowed(facts, self._stored).schema.row_columns, segment, row),
            seqs_of(state.segments, segment, row),
            {arm: self._has_text(arm, segment, row) for arm in facts.text_arms},
            {arm: self._vectors(arm, segment, row) for arm in sorted(self._compared)},
        )  # fmt: skip

    def _rows(self) -> Rows:
        """Return each row of the pools, and of the rows that may fill them, once."""
        pools = [(run.arrays["segment"], run.arrays["row"]) for run in self._runs.values()]
        pairs = [*pools, *self._filling]
        segments = np.concatenate([one for one, _ in pairs]).astype(np.int64)
        codes = segments << 32 | np.concatenate([one for _, one in pairs]).astype(np.int64)
        codes.sort()  # faster than np.unique, which hashes
        codes = codes[np.concatenate([[True], codes[1:] != codes[:-1]])[: len(codes)]]
        return (codes >> 32).astype(np.uint32), (codes & 0xFFFFFFFF).astype(np.uint32)

    def _number(self, segment: Array, row: Array) -> None:
        """Replace segment and row of the documents in the pools by rows of the part."""
        codes = segment.astype(np.int64) << 32 | row.astype(np.int64)
        for name, run in self._runs.items():
            arrays = dict(run.arrays)
            own = arrays.pop("segment").astype(np.int64) << 32 | arrays.pop("row").astype(np.int64)
            arrays["doc"] = np.searchsorted(codes, own).astype(np.uint32)
            self._runs[name] = run._replace(arrays=arrays)

    def _gathered(self, names: Sequence[str], segment: Array, row: Array) -> pa.Table:
        if len(row):
            return gather(self._state.segments, segment, row, names)
        kinds = self._facts.row_types
        return pa.table({name: pa.array([], kinds[name]) for name in names})

    def _has_text(self, arm: str, segment: Array, row: Array) -> npt.NDArray[np.bool_]:
        if not len(row):
            return np.zeros(0, np.bool_)
        columns = [part.lexical[arm] for part in self._state.segments]
        return np.asarray(_core.rows.has_text(columns, segment, row).view(np.bool_))

    def _vectors(self, arm: str, segment: Array, row: Array) -> Vectors:
        n, dim = len(row), self._facts.dims[arm]
        if not n:
            return Vectors("float32", dim, np.zeros((0, 1), np.uint8), np.zeros(0, np.float32))
        columns = [part.dense[arm] for part in self._state.segments]
        made = _core.DenseColumn.merge(columns, segment, row)
        rows = np.asarray(made.rows).reshape(n, -1)
        return Vectors(made.dtype, dim, rows, np.asarray(made.inverse_norms))
