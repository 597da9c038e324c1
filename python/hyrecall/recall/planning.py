"""Makes the plan of one batch, with its native request, from a request and its ranking."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from hyrecall import _core
from hyrecall.ask.filter_program import read_filters, value_codes
from hyrecall.ask.queries import check_texts, lower
from hyrecall.ask.request import CallOptions, Search, is_empty, read_grouping
from hyrecall.ask.scope import encode_part, read_scopes
from hyrecall.ask.scoring import DBSF, DEFAULT_FUSION, RRF, Fusion, Max, WeightedSum, read_floor
from hyrecall.base.arguments import as_int, as_list
from hyrecall.errors import OptionError, ShapeError, error
from hyrecall.hits.trace import Notes
from hyrecall.recall.graph_views import BoundGraphs
from hyrecall.recall.plan import Plan, Ranking, is_shaped, whole_list
from hyrecall.segments.segments import IndexFacts
from hyrecall.table.schema import MaxSim, Sparse
from hyrecall.table.tensors import check_finite, query_vectors, row_count, take_guest
from hyrecall.text.bm25 import BM25

if TYPE_CHECKING:
    from hyrecall.ask.recipe import Tables
    from hyrecall.recall.arms import CallArms
    from hyrecall.recall.exact import Exact
    from hyrecall.segments.segments import State
    from hyrecall.stages.evidence import Evidence
    from hyrecall.stages.session import Session
    from hyrecall.stages.stage import Stage
    from hyrecall.table.bundles import QueryBundles
    from hyrecall.table.sparse import SparseRows


# ---- ``vectors=`` -> the dense arms of a request, their queries on the host or on a device ----

_ALL_VALID = np.zeros(0, np.uint8)

Matrix: TypeAlias = (
    "tuple[npt.NDArray[np.float32], npt.NDArray[np.bool_] | None] | QueryBundles | SparseRows"
)


def check_arms(argument: str, given: Mapping[str, object], arms: Sequence[str]) -> None:
    """Check that every arm a call names is one of these."""
    for arm in given:
        if arm not in arms:
            raise error(OptionError, argument, f"arms of {list(arms)}", repr(arm))


def name_vectors(facts: IndexFacts, vectors: object) -> dict[str, tuple[Any, str]]:
    """Return (value, what to call it in messages) of each arm."""
    if vectors is None:
        return {}
    names = facts.vector_arms
    if not isinstance(vectors, list) and isinstance(vectors, Mapping):
        sparse = [arm for arm, one in facts.schema.vector_arms.items() if isinstance(one, Sparse)]
        if sparse and vectors and not set(names) & set(vectors):  # terms of a query, say
            remedy = f"{{{sparse[0]!r}: ...}} names the arm of a sparse vector"
            got = repr(next(iter(vectors)))
            raise error(OptionError, "vectors", f"arms of {[*names]}", got, remedy)
        check_arms("vectors", vectors, names)
        return {arm: (vectors[arm], f"vectors[{arm!r}]") for arm in names if arm in vectors}
    if len(names) != 1:
        wish = (
            f"{{arm: array}} for arms of {list(names)}"
            if names
            else "None (the index has no vector arm)"
        )
        raise error(OptionError, "vectors", wish, type(vectors).__name__)
    return {names[0]: (vectors, "vectors")}


def read_vectors(
    facts: IndexFacts,
    snapshot: _core.Snapshot,
    given: Mapping[str, tuple[Any, str]],
    *,
    may_stay: bool,
) -> tuple[dict[str, _core.Guest], dict[str, Matrix]]:
    """Return, by arm, the queries that the search reads where they lie, and those on the host."""
    # ``may_stay`` False: all are read to the host and checked. Else :func:`add_dense` looks for NaN
    # as it copies them, and :func:`check_idle` in the vectors of arms that will not run.
    guests: dict[str, _core.Guest] = {}
    if snapshot.device is not None and may_stay:
        folder, ordinal = snapshot.device
        for arm in [one for one in given if one in facts.schema.one_vector_arms]:
            guest = take_guest(given[arm][0], folder=folder, ordinal=ordinal, dim=facts.dims[arm])
            if guest is not None:
                guests[arm] = guest
    arms = [arm for arm in given if arm not in guests]
    return guests, _on_host(facts, given, arms, are_checked_later=may_stay)


def check_idle(
    facts: IndexFacts,
    given: Mapping[str, tuple[Any, str]],
    guests: Mapping[str, _core.Guest],
    vectors: Mapping[str, Matrix],
    running: Sequence[str],
) -> None:
    """Check the vectors of arms that will not run."""
    if guests:
        _on_host(facts, given, [arm for arm in guests if arm not in running])
    for arm, read in vectors.items():
        if arm not in running and len(read) != 4:
            check_finite(read[0], given[arm][1])


def _on_host(
    facts: IndexFacts,
    given: Mapping[str, tuple[Any, str]],
    arms: Sequence[str],
    *,
    are_checked_later: bool = False,
) -> dict[str, Matrix]:
    """Read the vectors of these arms in host memory; check their values, or leave it for later."""
    out: dict[str, Matrix] = {}
    for arm in arms:
        value, argument = given[arm]
        if isinstance(facts.schema.vector_arms[arm], MaxSim):
            from hyrecall.table.bundles import query_bundles

            out[arm] = query_bundles(value, dim=facts.dims[arm], argument=argument)
        elif isinstance(facts.schema.vector_arms[arm], Sparse):
            from hyrecall.table.sparse import query_sparse

            out[arm] = query_sparse(value, argument=argument)
        else:
            out[arm] = query_vectors(
                value, dim=facts.dims[arm], argument=argument, is_checked_later=are_checked_later
            )
    return out


def add_dense(
    facts: IndexFacts,
    request: _core.BatchRequest,
    weights: Mapping[str, float],
    vectors: Mapping[str, Matrix],
    guests: Mapping[str, _core.Guest],
    given: Mapping[str, tuple[Any, str]],
    floors: Mapping[str, tuple[float, bool] | None],
    tables: Sequence[int | None],
) -> None:
    """Add the dense arms with their queries, each for every table; weight 0: it lists nothing."""
    for column, arm in enumerate(facts.vector_arms):
        if arm not in weights:
            continue
        if arm in guests:
            request.add_guest(column, arm, guests[arm], given[arm][1], floors.get(arm))
        elif arm in vectors and isinstance(facts.schema.vector_arms[arm], Sparse):
            rows: Any = vectors[arm]
            for table in tables:
                request.add_sparse(
                    column, arm, rows.terms, rows.begins, rows.numbers, rows.weights,
                    given[arm][1], floors.get(arm), table, completes_only=weights[arm] == 0,
                )  # fmt: skip
        elif arm in vectors:
            read = vectors[arm]
            matrix, valid = read[0], read[1]
            begins = read[2] if len(read) == 3 else None
            present = _ALL_VALID if valid is None else valid.view(np.uint8)
            try:
                for table in tables:
                    request.add_dense(
                        column, arm, matrix, present, floors.get(arm), table,
                        begins, completes_only=weights[arm] == 0,
                    )  # fmt: skip
            except OptionError:  # of a norm, which NaN and infinity have too
                check_finite(matrix, given[arm][1])
                raise


# ---- ``text=`` -> the lexical arms of a request, and the texts of other arms ----


def read_texts(
    facts: IndexFacts, text: object, readers: tuple[str, ...]
) -> dict[str, Sequence[object]]:
    """Return the queries of each arm that reads texts: lists, whose entries are valid Unicode."""
    # Their types are not checked yet.
    if text is None:
        return {}
    names = (*facts.text_arms, *readers)
    if not names:
        raise error(OptionError, "text", "None (the index has no text arm)", type(text).__name__)
    # Checks against abstract classes are slow, so lists come first.
    if isinstance(text, list):
        check_texts(text)
        return dict.fromkeys(names, text)
    given: Mapping[str, Any] = text if isinstance(text, Mapping) else dict.fromkeys(names, text)
    check_arms("text", given, names)
    given = {arm: as_list(queries) for arm, queries in given.items()}
    for arm, queries in given.items():
        if isinstance(queries, list):
            check_texts(queries)
            continue
        is_list = isinstance(queries, Sequence) and not isinstance(queries, str | bytes)
        if not is_list and not (isinstance(queries, np.ndarray) and queries.ndim == 1):
            argument = f"text[{arm!r}]" if isinstance(text, Mapping) else "text"
            got = f"{type(queries).__name__} (recall_one takes one query)"
            raise error(OptionError, argument, "a list with one entry per query", got)
        check_texts(queries)
    return {arm: given[arm] for arm in names if arm in given}


def add_lexical(
    facts: IndexFacts,
    request: _core.BatchRequest,
    arms: Sequence[str],
    texts: Mapping[str, Sequence[object]],
    bm25: Mapping[str, BM25],
    floors: Mapping[str, tuple[float, bool] | None],
    tables: Sequence[int | None],
) -> None:
    """Add the lexical arms with their queries, each for every table."""
    for arm in arms:
        column, native = facts.text_arms.index(arm), facts.analyzers[arm].native
        how, floor = bm25[arm].numbers, floors.get(arm)
        for table in tables:
            request.add_lexical(column, arm, how, native, texts[arm], lower, floor, table)


# ---- A request and its ranking -> the plan of one batch, with its native request ----

_KINDS = {RRF: "rrf", WeightedSum: "weighted_sum", Max: "max", DBSF: "weighted_sum"}


def _count(argument: str, value: object, low: int) -> int:
    number = as_int(value)
    if number is None:
        raise error(OptionError, argument, f"an int >= {low}", repr(value))
    if not low <= number < 2**31:
        raise error(OptionError, argument, f"an int in [{low}, 2^31)", number)
    return number


def _depth(depth: int, limit: int, offset: int, *, is_free: bool) -> int:
    """Return how many documents an arm hands on; where it is free, as many as are asked for."""
    if is_free:
        return max(depth, offset + limit)
    if offset + limit > depth:
        wish = f"<= {depth} (depth)"
        argument = "offset + limit" if offset else "limit"
        raise error(OptionError, argument, wish, offset + limit, "pass depth=")
    return depth


def read_page(request: Search) -> tuple[int, int]:
    """Return the limit and the offset of a call."""
    return _count("limit", request.limit, 0), _count("offset", request.offset, 0)


def make_plan(
    facts: IndexFacts, state: State, request: Search, ranking: Ranking, graphs: BoundGraphs,
    look_up: Callable[..., Exact | None],
) -> Plan:  # fmt: skip
    """Check every argument once and freeze the batch; ``look_up`` is called as find_exact is."""
    snapshot, how = state.snapshot, ranking.how
    candidates: Any = request.candidates
    stages = _stages(how.shaping)
    feedback: Any = next((stage for stage in stages if stage._acts == "queries"), None)
    others = _call_arms(facts, how.more, candidates)
    texts = read_texts(facts, ranking.text, () if others is None else others.readers)
    given = name_vectors(facts, ranking.vectors)
    # Counted before anything of that size is made.
    n_queries = _query_count(facts, texts, given, request, ranking, others)
    _check_keys(request, n_queries)
    selected, tables = ranking.selected, ranking.tables
    # Else it must be known before which queries an arm gets, or several arms read them.
    may_stay = selected is None and ranking.fill is None and tables is None and feedback is None
    guests, vectors = read_vectors(facts, snapshot, given, may_stay=may_stay)
    limit, offset = read_page(request)
    given_depth = _count("depth", ranking.depth, 1)
    texts, vectors = _only(selected, n_queries, texts, vectors)
    own = [arm for arm in facts.arms if arm in texts or arm in given]
    extra = () if others is None else others.names
    running = [] if others is None else others.running(texts, candidates)
    evidence, stages, told = _read_evidence(facts, ranking, stages)
    arms, weights, fusion, left_out = _choose_arms(
        facts, ranking.fusion, (*own, *running), extra, fuses_one=evidence is not None,
        scores_only=_reranked(facts, stages),
    )  # fmt: skip
    check_idle(facts, given, guests, vectors, arms)
    lexical = [arm for arm in arms if arm in facts.text_arms]
    bm25 = _read_bm25(facts, ranking.bm25, lexical, joins_by_default=fusion is not ranking.fusion)
    grouping = read_grouping(
        request.group,
        request.per_group,
        request.surrounding,
        has_threads=facts.schema.thread is not None,
        types=facts.attribute_types,
    )
    shaped = is_shaped(stages, how.tie_break, ranking.fill, grouping)
    # Ranks that a fusion weighs end at the depth, which then must not follow the limit.
    ranks_lead = ranking.exact_texts is not None and ranking.fusion is not None
    is_free = len(arms) == 1 and not (shaped or ranks_lead or evidence or feedback)
    depth = _depth(given_depth, limit, offset, is_free=is_free)
    floors = _read_floors(ranking.min_score, _weighed(arms, weights))
    _check_joined(facts, ranking, fusion, arms, feedback)
    scopes = read_scopes(facts.cell_types, snapshot, request.scope, n_queries)
    filters, filter_of = read_filters(facts.attribute_types, request.filter, n_queries)
    exact = look_up(facts, state, request, ranking.exact_texts, bm25, n_queries, given_depth)
    bases, arms, weights = _by_table(facts, arms, weights, tables)
    n_lists = len(arms) + (0 if exact is None else len(exact.lists))
    whole = shaped or n_lists > len(arms)

    native = _core.BatchRequest(
        scopes=scopes,
        filters=filters,
        filter_of=filter_of,
        depth=depth,
        limit=whole_list(depth, n_lists, evidence) if whole else limit,
        offset=0 if whole else offset,
        threads=facts.threads,
        host_postings=facts.host_postings,
    )
    _divide(facts, native, tables)
    numbers = _numbers(tables)
    add_lexical(facts, native, lexical, texts, bm25, floors, numbers)
    add_dense(
        facts, native, dict(zip(bases, weights, strict=True)), vectors, guests, given, floors,
        numbers,
    )  # fmt: skip
    searches = None if others is None else others.searches(
        facts, state, bases, texts, candidates, n_queries, floors, request.scope, graphs, depth
    )  # fmt: skip
    joining = _joining(ranking, fusion, bases, weights, exact)
    n_lexical = len(lexical) * len(numbers)
    balance = _balance_notes(ranking.fusion, n_lexical, len(given.keys() & set(bases)))
    idle = [f"{arm} did not run: nothing was asked" for arm in extra if arm not in running]
    told = (*idle, *left_out, *told, *(() if evidence is None else evidence.notes(lexical)))
    of_arms = [] if searches is None else [one.notes for _, one in searches.asked]
    notes = _joined(told, of_arms, ranking.notes, balance)
    return Plan(
        native, n_queries, arms, n_lexical, bm25, fusion, joining["normalize"], depth, notes,
        limit, offset, stages, how.tie_break, searches, joining, extra=extra,
        fill=ranking.fill, blank_queries=ranking.blank_queries,
        sessions=_sessions(facts, request.session, stages, n_queries),
        scope=request.scope, graphs=graphs, selected=selected, exact=exact,
        has_query=None if ranking.fill is None else _has_query(
            bases, _weighed(bases, weights), n_queries, texts, vectors
        ),
        tables=tables, evidence=evidence, feedback=feedback, bases=bases, grouping=grouping,
        confidence=getattr(how, "confidence", None),
    )  # fmt: skip


# ---- Parts that few calls have: half of the modules of a recall, imported by these calls ----


def _stages(shaping: object) -> tuple[Stage, ...]:
    if is_empty(shaping):
        return ()
    from hyrecall.stages.stage import check_stages

    return check_stages(shaping)


def _call_arms(facts: IndexFacts, given: object, candidates: object) -> CallArms | None:
    if candidates is None and is_empty(given):
        return None
    from hyrecall.recall.arms import read_arms

    return read_arms(facts, given, candidates)


def _read_evidence(
    facts: IndexFacts, ranking: Ranking, stages: tuple[Stage, ...]
) -> tuple[Evidence | None, tuple[Stage, ...], tuple[str, ...]]:
    """Return what comes right behind the fusion, the stages after it, and notes for the trace."""
    rest = tuple(stage for stage in stages if stage._acts == "lists")
    if len(rest) == len(stages):
        return None, rest, ()
    from hyrecall.stages.evidence import Evidence

    evidence, notes = Evidence.read(
        stages, facts.schema, facts.attribute_types, value_codes,
        is_recipe=not isinstance(ranking.how, CallOptions), normalize=ranking.how.normalize,
    )  # fmt: skip
    return evidence, rest, notes


def _sessions(
    facts: IndexFacts, given: object, stages: Sequence[Stage], n_queries: int
) -> tuple[Session | None, ...]:
    if given is None:
        return (None,) * n_queries
    from hyrecall.stages.session_signals import read_sessions

    return read_sessions(facts, given, stages, n_queries)


# ---- The parts of every plan ----


def _joining(
    ranking: Ranking,
    fusion: Fusion | None,
    bases: Sequence[str],
    weights: Sequence[float],
    exact: Exact | None,
) -> dict[str, Any]:
    """Say how a request joins its arms; rows that come first are brought by arms of weight 0."""
    n_exact = 0 if exact is None else len(exact.lists)
    return {
        "kind": _kind(fusion, n_exact),
        "weights": [*weights, *[0.0] * n_exact],
        "rank_constant": fusion.rank_constant if isinstance(fusion, RRF) else 60.0,
        "scales": [*[_scale(fusion, arm) for arm in bases], *["none"] * n_exact],
        "complete": getattr(fusion, "complete", True),
        "balance": getattr(fusion, "balance", None),
        "min_fused": read_floor("min_fused", ranking.min_fused),
        "normalize": _bool("normalize", ranking.how.normalize),
        "ranks_by_place": isinstance(fusion, RRF) and fusion.alpha_mode == "votes",
    }


def _check_joined(
    facts: IndexFacts, ranking: Ranking, fusion: Fusion | None, arms: Sequence[str], feedback: Any
) -> None:
    """Refuse a floor without a fusion, and moved queries of an arm of many vectors."""
    if ranking.min_fused is not None and fusion is None:
        wish = "a fusion to act after (with one arm, min_score)"
        raise error(OptionError, "min_fused", wish, "one arm")
    plain, all_arms = facts.schema.one_vector_arms, facts.schema.vector_arms
    many = [arm for arm in arms if arm in all_arms and arm not in plain]
    if many and feedback is not None and feedback.dense > 0:
        wish = f"0 beside {many[0]!r} (whose rows have many or sparse vectors)"
        raise error(OptionError, "Feedback.dense", wish, feedback.dense)


def _joined(
    told: Sequence[str], of_arms: Sequence[Notes], of_ranking: Notes, balance: Sequence[str]
) -> Notes:
    """Put notes together; those of a sequence hold for the whole batch."""
    notes: dict[str, Mapping[int, str] | None] = dict.fromkeys(told)
    for one in (*of_arms, of_ranking):
        notes.update(one)
    return notes | dict.fromkeys(balance)


def _balance_notes(fusion: object, n_lexical: int, n_dense: int) -> tuple[str, ...]:
    """Say that a balance that the call names has no effect."""
    if getattr(fusion, "balance", None) is None or (n_lexical and n_dense):
        return ()
    return ("balance has no effect: arms of one kind run",)


def _has_query(
    arms: Sequence[str],
    weighed: Sequence[str],
    n_queries: int,
    texts: Mapping[str, Sequence[object]],
    vectors: Mapping[str, Matrix],
) -> npt.NDArray[np.bool_]:
    """Say of each query for which arms it has a text or a vector; a zero vector counts as none."""
    # Only of arms that list documents.
    out = np.ones((n_queries, len(arms)), np.bool_)
    for at, arm in enumerate(arms):
        if arm not in weighed:
            out[:, at] = False
        elif arm in vectors:
            read = vectors[arm]
            out[:, at] = read[0].any(axis=1) if len(read) == 2 else read.any()
        elif arm in texts:
            out[:, at] = [text is not None for text in texts[arm]]
    return out


def _by_table(
    facts: IndexFacts,
    arms: tuple[str, ...],
    weights: tuple[float, ...],
    tables: Tables | None,
) -> tuple[tuple[str, ...], tuple[str, ...], tuple[float, ...]]:
    """Return each arm of the index once for each table, as "table.arm", and the others once."""
    if tables is None:
        return arms, arms, weights
    bases, names, shares = [], [], []
    for arm, weight in zip(arms, weights, strict=True):
        own = [f"{table}.{arm}" for table in tables.all_names] if arm in facts.arms else [arm]
        names += own
        bases += [arm] * len(own)
        shares += [weight] * len(own)
    return tuple(bases), tuple(names), tuple(shares)


def _numbers(tables: Tables | None) -> Sequence[int | None]:
    return [None] if tables is None else range(len(tables.all_names))


def _divide(facts: IndexFacts, request: _core.BatchRequest, tables: Tables | None) -> None:
    """Divide every query's scope into tables, by a part of its cells."""
    if tables is None:
        return
    kind = facts.cell_types[tables.column]
    values = [encode_part(one, tables.column, kind, "tables") for one in tables.names]
    request.divide(facts.schema.cell_columns.index(tables.column), values)


def _only(
    selected: npt.NDArray[np.bool_] | None,
    n_queries: int,
    texts: dict[str, Sequence[object]],
    vectors: dict[str, Matrix],
) -> tuple[dict[str, Sequence[object]], dict[str, Matrix]]:
    """Leave the other queries without text and vector: no arm spends time on them."""
    if selected is None:
        return texts, vectors
    if len(selected) != n_queries:
        raise error(ShapeError, "recipe", f"{n_queries} entries, one per query", len(selected))
    kept: dict[str, Sequence[object]] = {
        arm: [text if one else None for text, one in zip(queries, selected, strict=True)]
        for arm, queries in texts.items()
    }
    masked: dict[str, Matrix] = {}
    for arm, read in vectors.items():
        if len(read) > 2:
            masked[arm] = read.only(selected)
        else:
            matrix, valid = read
            masked[arm] = (matrix, selected if valid is None else valid & selected)
    return kept, masked


def _scale(fusion: Fusion | None, arm: str) -> str:
    if isinstance(fusion, WeightedSum | Max):
        return fusion.scale_of(arm)
    return "distribution" if isinstance(fusion, DBSF) else "none"


def _kind(fusion: Fusion | None, n_exact: int) -> str:
    if fusion is None:  # a sum of one arm's scores and of addends of 0 is that arm's scores
        return "none" if not n_exact else "weighted_sum"
    return _KINDS[type(fusion)]


def _bool(argument: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise error(OptionError, argument, "a bool", repr(value))
    return value


def _check_keys(request: Search, n_queries: int) -> None:
    if request.query_keys is not None and len(request.query_keys) != n_queries:
        wish = f"{n_queries} keys, one per query"
        raise error(ShapeError, "query_keys", wish, len(request.query_keys))


def _rows_of_vectors(facts: IndexFacts, arm: str, value: Any, argument: str) -> int:
    form = type(facts.schema.vector_arms[arm])
    if form is Sparse:
        from hyrecall.table.sparse import sparse_count

        return sparse_count(value, argument)
    if form is not MaxSim:
        return row_count(value, argument=argument)
    from hyrecall.table.bundles import bundle_count

    return bundle_count(value, argument)


def _query_count(
    facts: IndexFacts,
    texts: Mapping[str, Sequence[object]],
    vectors: Mapping[str, tuple[Any, str]],
    request: Search,
    ranking: Ranking,
    others: CallArms | None,
) -> int:
    counts = {("text", arm): len(queries) for arm, queries in texts.items()}
    for arm, (value, argument) in vectors.items():
        counts["vectors", arm] = _rows_of_vectors(facts, arm, value, argument)
    candidates: Any = request.candidates
    if candidates is not None:
        for arm, lists in candidates.items():
            counts["candidates", arm] = len(lists)
    if not counts:
        if request.sort is not None:  # all rows that a scope holds
            columns = [one for one in (request.scope, request.filter) if isinstance(one, list)]
            return len(columns[0]) if columns else 1
        if others is not None and others.ask_by_themselves:
            if ranking.n_queries is not None:
                return ranking.n_queries
            return len(request.scope) if isinstance(request.scope, list) else 1
        raise error(OptionError, "text", "text= or vectors=, or both", "neither")
    first, n_queries = next(iter(counts.items()))
    if len(counts) > 1:
        for (argument, arm), count in counts.items():
            if count != n_queries:
                wish = f"{n_queries} queries as {first[0]}[{first[1]!r}] has"
                raise error(ShapeError, f"{argument}[{arm!r}]", wish, count)
    if n_queries >= 2**31:  # a hit's query is an int32
        raise error(ShapeError, f"{first[0]}[{first[1]!r}]", "fewer than 2^31 queries", n_queries)
    return n_queries


def _read_bm25(
    facts: IndexFacts, bm25: object, texts: Sequence[str], *, joins_by_default: bool
) -> dict[str, BM25]:
    """Choose each arm's BM25: that of the call, else of the index, else of the default fusion."""
    of_arms = facts.joined_bm25 if joins_by_default else facts.bm25
    chosen = {arm: of_arms[arm] for arm in texts}
    if bm25 is None:
        return chosen
    if not texts:
        raise error(OptionError, "bm25", "None where no text arm runs", repr(bm25))
    given = bm25 if isinstance(bm25, Mapping) else dict.fromkeys(texts, bm25)
    check_arms("bm25", given, texts)
    for arm, how in given.items():
        if not isinstance(how, BM25):
            raise error(OptionError, "bm25", "an hr.BM25 or {arm: hr.BM25}", repr(how))
        chosen[arm] = how
    return chosen


def _choose_arms(
    facts: IndexFacts,
    fusion: object,
    arms: tuple[str, ...],
    extra: tuple[str, ...],
    *,
    fuses_one: bool,
    scores_only: Collection[str] = (),
) -> tuple[tuple[str, ...], tuple[float, ...], Fusion | None, tuple[str, ...]]:
    """Return the arms that run, their weights, what joins them, and what the trace should say."""
    # ``scores_only``: arms that a stage reads, which may run without weight.
    if fusion is None:
        is_fused = len(arms) > 1 or fuses_one
        return arms, (1.0,) * len(arms), DEFAULT_FUSION if is_fused else None, ()
    if not isinstance(fusion, RRF | WeightedSum | Max | DBSF):
        wish = "hr.RRF, hr.WeightedSum, hr.Max or hr.DBSF"
        raise error(OptionError, "fusion", wish, repr(fusion))
    weights = dict(fusion.weights or ())
    check_arms("weights", weights, (*facts.arms, *extra))
    for arm, weight in weights.items():
        if weight > 0 and arm not in arms:
            wish = f"no weight for an arm that does not run ({list(arms)} do)"
            raise error(OptionError, "weights", wish, repr(arm))
    if isinstance(fusion, RRF) and fusion.alpha is not None:
        texts, vectors = facts.text_arms, facts.vector_arms
        if len(texts) != 1 or len(vectors) != 1:
            wish = "an index with one text and one vector arm (else weights=)"
            raise error(OptionError, "alpha", wish, f"{len(texts)} and {len(vectors)}")
        if len(arms) == 1:
            return arms, (1.0,), fusion, (f"alpha has no effect: only {arms[0]} runs",)
        weights = dict(zip((texts[0], vectors[0]), fusion.shares, strict=True))
    if all(weights.get(arm, 1.0) == 0 for arm in arms):
        raise error(OptionError, "weights", f"a weight above 0 for one of {list(arms)}", weights)
    read = () if isinstance(fusion, Max) else scores_only  # 0 may be the largest part
    kept = tuple(arm for arm in arms if weights.get(arm, 1.0) > 0 or arm in read)
    notes = tuple(f"{arm} left out: weight 0" for arm in arms if arm not in kept)
    return kept, tuple(weights.get(arm, 1.0) for arm in kept), fusion, notes


def _reranked(facts: IndexFacts, stages: Sequence[Stage]) -> list[str]:
    """Return the arms of many or sparse vectors by whose scores a stage orders."""
    named = [getattr(stage, "vector", None) for stage in stages if stage.name == "Rerank"]
    many = [arm for arm in facts.vector_arms if arm not in facts.schema.one_vector_arms]
    return [arm for arm in many if arm in named or (None in named and len(facts.vector_arms) == 1)]


def _weighed(arms: Sequence[str], weights: Sequence[float]) -> list[str]:
    """Return the arms that list documents; one without weight only scores them."""
    return [arm for arm, weight in zip(arms, weights, strict=True) if weight > 0]


def _read_floors(min_score: object, arms: Sequence[str]) -> dict[str, tuple[float, bool] | None]:
    if min_score is None:
        return {}
    if not isinstance(min_score, Mapping):
        if len(arms) != 1:
            raise error(
                OptionError,
                "min_score",
                f"{{arm: floor}} for arms of {list(arms)}",
                repr(min_score),
            )
        min_score = {arms[0]: min_score}
    check_arms("min_score", min_score, arms)
    return {arm: read_floor(f"min_score[{arm!r}]", floor) for arm, floor in min_score.items()}
