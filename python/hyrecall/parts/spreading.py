"""Spreads statistics and parts of some queries of a batch to the whole batch, and back.

A shard that holds none of a query's cells need not be asked that query: its counts are 0 and its
lists are empty. So the results for its own queries are extended to those for all queries.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hyrecall import _core
from hyrecall.ask.arms import EdgeLexical, Edges, Regex, Tags
from hyrecall.ask.expansion import SharedTags, parts_of
from hyrecall.ask.recipe import Recipe
from hyrecall.ask.request import CallOptions
from hyrecall.ask.scope import CellTypes, distinct_scopes, scope_entries, scope_of
from hyrecall.base.arguments import as_list
from hyrecall.errors import OptionError, ShapeError, error
from hyrecall.parts.counts import MOST_COUNT, N_NUMBERS, Counts, Statistics, check_alike
from hyrecall.parts.lookups import QUERY, Ask, Lookup, sound_rows
from hyrecall.parts.part import Part, RunPart
from hyrecall.parts.request import KEY, PLACE, SCORE, TOLD, Request, Told, ToldLists, question_of
from hyrecall.parts.runs import REFUSALS, CallRun, accepted, again, runs_of
from hyrecall.recall.arms import edge_matcher, text_bytes
from hyrecall.recall.graph_views import BoundGraphs
from hyrecall.recall.planning import make_plan
from hyrecall.recall.recipe_answer import by_recipe
from hyrecall.segments.segments import IndexFacts, State

Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class Share:
    """The queries of a batch that a shard is asked."""

    queries: npt.NDArray[np.int64]
    n_queries: int
    recipes: Sequence[int]

    def named(self, run: str) -> str:
        """Return the name in the batch of a run of this share."""
        found = re.match(r"\d{1,9}", run)
        if found is None or int(found[0]) >= len(self.recipes):
            raise error(OptionError, "parts", "runs of this request", repr(run))
        return f"{self.recipes[int(found[0])]}{run[found.end() :]}"


# ---- statistics ----


def sum_shares(
    parts: Sequence[tuple[Statistics, Share]],
) -> tuple[Statistics, list[Statistics]]:
    """Sum the counts of shards, each for its own queries."""
    for statistics, share in parts:
        check_alike(parts[0][0], statistics)
        if len(statistics.sees_threads) not in (1, len(share.queries)):
            raise _other_queries("statistics")
    named: dict[str, list[tuple[Counts, Share]]] = {}
    for statistics, share in parts:
        for run, counts in statistics.runs.items():
            named.setdefault(share.named(run), []).append((counts, share))
    runs = {run: _sum(given) for run, given in named.items()}
    first, share = parts[0]
    sees = np.zeros(share.n_queries, np.bool_)
    for statistics, own in parts:
        sees[own.queries] |= statistics.sees_threads
    versions = tuple(version for one, _ in parts for version in one.versions)
    summed = Statistics(first.request, first.index, versions, _alike(sees), runs)
    shares = [
        replace(
            summed,
            sees_threads=_alike(sees[own.queries]),
            runs={
                run: _taken(runs[own.named(run)], counts, own)
                for run, counts in statistics.runs.items()
            },
        )
        for statistics, own in parts
    ]
    return summed, shares


def _other_queries(argument: str) -> ShapeError:
    return error(ShapeError, argument, "those of the queries that were asked", "others")


def _alike(sees: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Return a single entry if all queries have the same value."""
    return sees[:1] if len(sees) and (sees == sees[0]).all() else sees


def _sum(given: Sequence[tuple[Counts, Share]]) -> Counts:
    for own, share in given:
        if len(own.queries) and (own.queries[0] < 0 or own.queries[-1] >= len(share.queries)):
            raise _other_queries("statistics")
    queries = np.unique(np.concatenate([share.queries[own.queries] for own, share in given]))
    # A recipe with exact= counts a text arm only where a query of the share is asked as a whole.
    arms = tuple(dict.fromkeys(arm for own, _ in given for arm in own.arms))
    n = len(arms) * len(queries)
    entries = [_entries(own, share, arms, queries) for own, share in given]
    reasons = np.zeros(n, np.int64)
    for (own, _), at in zip(given, entries, strict=True):
        reasons[at] = np.maximum(reasons[at], own.refusals)
    counted = [
        own.without(reasons[at] > 0).arrays  # a text that one shard refuses has no counts
        for (own, _), at in zip(given, entries, strict=True)
    ]
    numbers = np.zeros((n, N_NUMBERS), np.int64)
    for own_arrays, at in zip(counted, entries, strict=True):
        _add(numbers, at, own_arrays["numbers"].reshape(-1, N_NUMBERS))
    numbers[:, -1] = reasons
    arrays: dict[str, Array] = {"numbers": numbers.reshape(-1)}
    for ends, values in (("freq_ends", "freqs"), ("thread_ends", "thread_freqs")):
        sizes = np.full(n, -1, np.int64)
        for own_arrays, at in zip(counted, entries, strict=True):
            found = np.diff(own_arrays[ends])
            if ((sizes[at] >= 0) & (sizes[at] != found)).any():
                raise error(ShapeError, "statistics", "those of one request", "others")
            sizes[at] = found
        arrays[ends] = np.concatenate([[0], np.cumsum(np.maximum(sizes, 0))]).astype(np.int64)
        arrays[values] = np.zeros(int(arrays[ends][-1]), np.int64)
        for own_arrays, at in zip(counted, entries, strict=True):
            _add(arrays[values], _places(arrays[ends], at), own_arrays[values])
    return Counts(queries, arms, arrays)


def _add(sums: Array, at: Array, counts: Array) -> None:
    """Add counts of one shard, each below 2^62, to sums; refuse sums that could wrap."""
    sums[at] += counts
    if (sums[at] >= MOST_COUNT).any():
        raise error(OptionError, "statistics", "sums in [0, 2^62)", "others")


def _entries(own: Counts, share: Share, arms: Sequence[str], queries: Array) -> Array:
    """Return the entries, arm by arm, of a share's queries among those of the batch."""
    at = np.searchsorted(queries, share.queries[own.queries])
    of_arms = np.array([arms.index(arm) for arm in own.arms], np.int64)
    return (of_arms[:, None] * len(queries) + at[None, :]).reshape(-1)


def _places(ends: Array, entries: Array) -> Array:
    """Return the places of the values of some entries, concatenated."""
    sizes = np.diff(ends)[entries]
    begins = np.concatenate([[0], np.cumsum(sizes)])
    return np.asarray(
        np.arange(begins[-1]) - np.repeat(begins[:-1], sizes) + np.repeat(ends[entries], sizes)
    )


def _taken(summed: Counts, own: Counts, share: Share) -> Counts:
    """Return the sum for the queries that a shard counted."""
    return Counts(own.queries, own.arms, summed.picked(share.queries[own.queries], own.arms))


# ---- parts ----


def joined_alone(parts: Sequence[tuple[Part, Share]]) -> list[Part]:
    """Return the parts of shards that were asked alone; no query went to two shards."""
    # The sums for a query are the counts of its only shard, so the parts get one common sum.
    sees = np.zeros(parts[0][1].n_queries, np.bool_)
    for part, share in parts:
        if len(part.sees_threads) not in (1, len(share.queries)):
            raise _other_queries("parts")
        sees[share.queries] = part.sees_threads
    versions = tuple(part.version for part, _ in parts)
    likes = widest_runs(parts)
    whole = _alike(sees)
    return [
        replace(spread_part(part, share, whole, likes), versions=versions) for part, share in parts
    ]


def spread_part(
    part: Part, share: Share, sees: npt.NDArray[np.bool_], likes: Mapping[str, RunPart]
) -> Part:
    """Return the part that a shard would return if it were asked all queries."""
    own = {share.named(name): run for name, run in part.runs.items()}
    runs = {
        name: _spread(own[name], like, share) if name in own else _nothing(like, share.n_queries)
        for name, like in likes.items()
    }
    return replace(part, runs=runs, sees_threads=sees)


def _spread(run: RunPart, like: RunPart, share: Share) -> RunPart:
    """Return a run with empty lists for the queries that are not in the share."""
    arrays = dict(run.arrays)
    n, queries = share.n_queries, share.queries
    added = like.n_arms - run.n_arms  # exact-match arms, which find nothing here
    if added != like.n_exact - run.n_exact:
        raise error(ShapeError, "parts", "those of one request", "others")
    sizes = np.zeros(n, np.int64)
    sizes[queries] = np.diff(arrays["doc_ends"])
    lists = np.zeros((n, like.n_arms), np.int64)
    lists[queries, : run.n_arms] = np.diff(arrays["list_ends"]).reshape(-1, run.n_arms)
    arrays["doc_ends"] = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    arrays["list_ends"] = np.concatenate([[0], np.cumsum(lists.reshape(-1))]).astype(np.int64)
    if len(arrays["found"]):  # for evidence
        found = np.zeros(n, np.int64)
        found[queries] = arrays["found"]
        arrays["found"], arrays["length_shares"] = found, like.arrays["length_shares"]
    if "refused" in arrays:
        refused = np.zeros((n, len(arrays["refused"]) // max(len(queries), 1)), np.uint8)
        refused[queries] = arrays["refused"].reshape(len(queries), -1)
        arrays["refused"] = refused.reshape(-1)
    if added:
        scores = arrays["scores"].reshape(-1, run.n_arms)
        unscored = np.full((len(scores), added), -np.inf, np.float32)
        arrays["scores"] = np.concatenate([scores, unscored], axis=1).reshape(-1)
        arrays["holds"] = np.zeros(len(scores), np.uint32)
    return RunPart(like.n_arms, like.n_exact, arrays)


def _nothing(like: RunPart, n_queries: int) -> RunPart:
    """Return a run without results, with the arms of another run."""
    arrays = {name: one[:0] for name, one in like.arrays.items() if name != "refused"}
    arrays["doc_ends"] = np.zeros(n_queries + 1, np.int64)
    arrays["list_ends"] = np.zeros(n_queries * like.n_arms + 1, np.int64)
    if len(like.arrays["found"]):
        arrays["found"] = np.zeros(n_queries, np.int64)
        arrays["length_shares"] = like.arrays["length_shares"]
    return RunPart(like.n_arms, like.n_exact, arrays)


def widest_runs(parts: Sequence[tuple[Part, Share]]) -> dict[str, RunPart]:
    """Return for each run, by its name in the batch, the part with the most arms."""
    # It has the values that the sums give for each query of the whole batch (``length_shares``).
    for part, share in parts:
        n = len(share.queries)
        for run in part.runs.values():
            arrays = run.arrays
            fits = len(arrays["doc_ends"]) == n + 1 and len(arrays["found"]) in (0, n)
            fits &= len(arrays.get("refused", ())) % n == 0
            if not fits or len(arrays["length_shares"]) % n:
                raise _other_queries("parts")
    named: dict[str, list[tuple[RunPart, Share]]] = {}
    for part, share in parts:
        for name, run in part.runs.items():
            named.setdefault(share.named(name), []).append((run, share))
    out = {}
    for name, given in named.items():
        widest, share = max(given, key=lambda one: one[0].n_arms)
        width = len(widest.arrays["length_shares"]) // max(len(share.queries), 1)
        shares = np.zeros((share.n_queries, width), np.float64)
        for run, own in given:
            if len(run.arrays["length_shares"]) != len(own.queries) * width:
                raise _other_queries("parts")
            shares[own.queries] = run.arrays["length_shares"].reshape(len(own.queries), width)
        arrays = {**widest.arrays, "length_shares": shares.reshape(-1)}
        out[name] = widest._replace(arrays=arrays)
    return out


# ---- Finds what arms read of graphs, for all queries of a request, before shards answer it ----

Arm = EdgeLexical | Regex


def tell_edges(facts: IndexFacts, request: Request, graphs: BoundGraphs) -> Told:
    """Search the edges of graphs for a request."""
    call = request.read(facts)
    asking = _Asking(facts, graphs)
    for run in runs_of(facts, call, None):
        try:
            n_queries = asking.add(run)
        except REFUSALS:
            if not run.is_for_threads:
                raise
            continue  # a shard that needs this form refuses it
        # Which queries need a second search is not known yet.
        asked = np.ones(n_queries, np.bool_) if run.selected is None else run.selected
        more = again(facts, call, run, accepted(facts, call, run, asked, asking.plan))
        if more is not None:
            asking.add(more)
    return {name: asking.answer(name, call.asked.scope) for name in asking.arms}


class _Asking:
    """The questions about edges that the runs of a request have."""

    def __init__(self, facts: IndexFacts, graphs: BoundGraphs) -> None:
        self._facts = facts
        self._graphs = graphs
        self._nothing = State.of((), (), 0)
        self._entries: dict[str, list[Any]] = {}  # by question, per query
        self.arms: dict[str, tuple[Arm, int]] = {}

    def plan(self, run: CallRun) -> tuple[int, int, Sequence[tuple[Any, Any]]]:
        """Return the number of queries of a run, its depth, and what its arms are asked."""
        with _core.arithmetic.RoundToNearest():
            given = self._facts, self._nothing, run.request, run.ranking, self._graphs
            plan = make_plan(*given, lambda *_: None)
        plan.request.release_guests()
        searches = plan.searches
        return plan.n_queries, plan.depth, () if searches is None else searches.asked

    def add(self, run: CallRun) -> int:
        """Add what a run asks; return its number of queries."""
        n_queries, depth, asked = self.plan(run)
        for arm, queries in asked:
            if isinstance(arm, EdgeLexical):
                most = arm.depth or depth
                self._add(question_of(arm, most), arm, most, queries.entries)
            elif isinstance(arm, Regex) and any(isinstance(one, Edges) for one in arm.columns):
                self._add(question_of(arm), arm, 0, queries.entries)
        return n_queries

    def _add(self, question: str, arm: Arm, depth: int, entries: Sequence[Any]) -> None:
        """Add the queries of an arm; two runs that ask the same have the same texts."""
        self.arms[question] = arm, depth
        known = self._entries.setdefault(question, [None] * len(entries))
        for at, entry in enumerate(entries):
            known[at] = entry if known[at] is None else known[at]

    def answer(self, question: str, scope: object) -> ToldLists:
        """Search the edges for all queries of a question."""
        (arm, depth), entries = self.arms[question], self._entries[question]
        if isinstance(arm, EdgeLexical):
            return self._best(arm, entries, scope, depth)
        return self._matching(arm, entries, scope)

    def _best(self, arm: EdgeLexical, texts: Sequence[Any], scope: object, depth: int) -> ToldLists:
        found = self._graphs[arm.graph].credits(arm, texts, scope, depth)
        kept = _firsts(found.query, found.keys)
        scores = found.scores[found.edge[kept]].astype(np.float32, copy=False)
        columns = {KEY: found.keys.take(pa.array(kept)), SCORE: pa.array(scores, pa.float32())}
        return ToldLists.of(len(texts), found.query[kept], pa.table(columns))

    def _matching(self, arm: Regex, patterns: Sequence[Any], scope: object) -> ToldLists:
        """Return the participants for each scope and pattern, found and told once."""
        import pyarrow.compute as pc

        scopes = distinct_scopes(scope, len(patterns)).number
        known: dict[tuple[int, str], int] = {}
        keys: list[pa.Array] = []
        places: list[npt.NDArray[np.int32]] = []
        number = np.zeros(len(patterns), np.int64)  # list 0 is that of queries without a pattern
        for query, pattern in enumerate(patterns):
            if pattern is None:
                continue
            group = int(scopes[query]), str(pattern)
            if group not in known:
                matches, own = edge_matcher(arm, pattern), scope_of(scope, query, query + 1)
                found = [
                    (place, pc.unique(graph.matching(arm, place, query, own, matches)))
                    for place, graph in self._edges_of(arm).items()
                ]
                at = [np.full(len(one), place, np.int32) for place, one in found]
                keys.append(pa.concat_arrays([one for _, one in found]))
                places.append(np.concatenate(at))
                known[group] = len(keys)
            number[query] = known[group]
        kind = self._facts.row_types[self._facts.schema.key]
        none = np.zeros(0, np.int32)
        rows = pa.table(
            {
                KEY: pa.concat_arrays([pa.array([], kind), *keys]),
                PLACE: pa.array(np.concatenate([none, *places]), pa.int32()),
            }
        )
        offsets = np.cumsum([0, 0, *map(len, keys)], dtype=np.int64)
        return ToldLists(offsets, rows, number)

    def _edges_of(self, arm: Regex) -> Mapping[int, Any]:
        return {
            place: self._graphs[one.graph]
            for place, one in enumerate(arm.columns)
            if isinstance(one, Edges)
        }


def _firsts(query: npt.NDArray[Any], keys: pa.Array) -> npt.NDArray[np.int64]:
    """Return the place of the first entry of each (query, key), by query."""
    if not len(keys):
        return np.zeros(0, np.int64)
    encoded = keys.dictionary_encode()
    codes = query.astype(np.int64) * len(encoded.dictionary) + encoded.indices.to_numpy()
    return np.sort(np.unique(codes, return_index=True)[1])


# ---- Follows the tags of :class:`hyrecall.arms.Tags` from shard to shard ----
# Each round is one look-up: first for the tags that the queries name, then for those one hop
# further. So a tag leads to the documents of another shard, as in a single index.

_TAGS = {QUERY: pa.int64(), "tag": pa.large_string()}
_BY_TAG = [(name, "ascending") for name in _TAGS]


def has_tags(given: Mapping[str, Any]) -> bool:
    """Say whether a call has a part that reads tags, which may lie in any shard."""
    recipe = given.get("recipe")
    recipes = recipe if isinstance(recipe, list) else [recipe]
    hows: list[Any] = [_options(given), *(one for one in recipes if isinstance(one, Recipe))]
    return any(isinstance(part, Tags | SharedTags) for how in hows for part in parts_of(how))


def _options(given: Mapping[str, Any]) -> CallOptions:
    named = {"more": "arms", "shaping": "shaping", "expansion": "expansion"}
    return CallOptions(**{field: given.get(name, ()) for field, name in named.items()})


def follow_tags(request: Request, ask: Ask, types: CellTypes) -> dict[str, ToldLists]:
    """Return the tags that the queries of a request reach, by the question of each arm ``Tags``."""
    scope = scope_entries(types, request.given["scope"])
    told = {}
    for arm, texts in _asking_arms(request).items():
        if any(one is not None for one in texts):
            asked = Lookup("named tags", request.id, len(texts), scope, _words(texts))
            told[question_of(arm)] = _reached(asked, arm, ask)
    return told


def _asking_arms(request: Request) -> dict[Tags, list[bytes | None]]:
    """Return each arm ``Tags`` of a request with the texts of its queries."""
    given = request.given
    recipe = given["recipe"]
    hows: list[Any] = [(_options(given), None)] if recipe is None else by_recipe(recipe)
    out: dict[Tags, list[bytes | None]] = {}
    for how, asked in hows:
        for arm in parts_of(how):
            if not isinstance(arm, Tags):
                continue
            texts = _texts(given["text"], arm, is_for_recipe=recipe is not None)
            own = out.setdefault(arm, [None] * len(texts))
            queries = range(len(texts)) if asked is None else np.flatnonzero(asked[: len(texts)])
            for at in queries:
                own[at] = texts[at]
    return out


def _texts(text: Any, arm: Tags, *, is_for_recipe: bool) -> list[bytes | None]:
    """Return the texts that an arm reads; entries that it refuses, and blank ones, are None."""
    if isinstance(text, Mapping):
        # In a recipe, an arm that is not one of the index reads the first texts by default.
        plain = next(iter(text.values()), None) if is_for_recipe else None
        text = text.get(arm.name, plain)
    queries = as_list(text)
    if isinstance(queries, np.ndarray):
        queries = queries.tolist()
    if not isinstance(queries, list | tuple):
        return []
    return [text_bytes(one) if isinstance(one, str) and one.strip() else None for one in queries]


def _words(texts: Sequence[bytes | None]) -> pa.Table:
    """Return the texts of those queries that have one."""
    asks = [at for at, text in enumerate(texts) if text is not None]
    words = pa.array([texts[at] for at in asks], pa.large_binary())
    return pa.table({QUERY: pa.array(asks, pa.int64()), "text": words})


def _reached(asked: Lookup, arm: Tags, ask: Ask) -> ToldLists:
    """Return the tags that an arm reaches, in all shards; ``asked`` has its texts."""
    n_queries, column = asked.n_queries, {"column": arm.column}
    settings = column | {"analyzer": arm.analyzer, "partial": arm.partial}
    found = ask(replace(asked, settings=settings))
    named = _grouped(found, "documents", "sum")
    most = np.zeros(n_queries, np.int64)
    np.maximum.at(most, named[QUERY].to_numpy(), named["documents"].to_numpy())
    reached = _at(named, 0)
    for hop in range(1, arm.depth + 1):
        last = reached.filter(pc.equal(reached["hops"], hop - 1)).select([QUERY, "tag"])
        if not last.num_rows:
            break
        question = replace(asked, kind="tags", rows=last, settings=column)
        beside = [_at(one, hop) for one in ask(question)]
        reached = _grouped([reached, *beside], "hops", "min")
    query = reached[QUERY].to_numpy()
    reached = reached.append_column("documents", pa.array(most[query], pa.int64()))
    return ToldLists.of(n_queries, query, reached.select(list(TOLD)).combine_chunks())


def _at(rows: pa.Table, hops: int) -> pa.Table:
    """Return the queries and tags of some rows, at a number of hops."""
    kept = sound_rows(rows, _TAGS)
    return kept.append_column("hops", pa.array(np.full(kept.num_rows, hops, np.uint8)))


def _grouped(found: Sequence[pa.Table], column: str, how: str) -> pa.Table:
    """Return each tag of each query once, with one number for those of a column."""
    kinds = _TAGS | {column: TOLD[column]}
    empty = pa.schema(list(kinds.items())).empty_table()
    rows = pa.concat_tables([empty, *(sound_rows(one, kinds) for one in found)])
    groups = rows.group_by(list(_TAGS), use_threads=False).aggregate([(column, how)])
    numbers = groups.column(f"{column}_{how}").cast(TOLD[column])
    return groups.select(list(_TAGS)).append_column(column, numbers).sort_by(_BY_TAG)
