"""recall()'s arguments -> one frozen native request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from hyrecall import _core
from hyrecall.ask.arms import Arm
from hyrecall.ask.defaults import DEFAULT_FUSION
from hyrecall.ask.filter_program import read_filters
from hyrecall.ask.queries import lower
from hyrecall.ask.scope import encode_part, read_scopes
from hyrecall.ask.scoring import DBSF, RRF, Fusion, Max, WeightedSum, read_floor
from hyrecall.ask.shaping import check_stages
from hyrecall.base.arguments import listed, whole
from hyrecall.errors import OptionError, ShapeError, error
from hyrecall.recall.arms.run import Searches, read_arms, read_asked, runs, text_readers
from hyrecall.recall.exact import Exact, find_exact
from hyrecall.recall.plan import Options, Plan, is_shaped
from hyrecall.recall.request_vectors import (
    Matrix,
    add_dense,
    check_arms,
    name_vectors,
    on_host,
    read_vectors,
)  # fmt: skip
from hyrecall.recall.session_signals import read_sessions
from hyrecall.segments.facts import IndexFacts
from hyrecall.table.tensors import row_count
from hyrecall.text.bm25 import BM25

if TYPE_CHECKING:
    from hyrecall.ask.recipe import Tables
    from hyrecall.segments.segments import State

__all__ = ["make_plan"]

_KINDS = {RRF: "rrf", WeightedSum: "weighted_sum", Max: "max", DBSF: "weighted_sum"}


def _count(argument: str, value: object, low: int) -> int:
    number = whole(value)
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


def make_plan(facts: IndexFacts, state: State, options: Options) -> Plan:
    """Check every argument once and freeze the batch."""
    snapshot = state.snapshot
    extra = read_arms(facts, options.arms, options.candidates)
    texts = _read_texts(facts, options.text, text_readers(extra))
    given = name_vectors(facts, options.vectors)
    n_queries = _query_count(texts, given, options, extra)  # before anything of that size is made
    if options.n_keys is not None and options.n_keys != n_queries:
        wish = f"{n_queries} keys, one per query"
        raise error(ShapeError, "query_keys", wish, options.n_keys)
    guests, vectors = read_vectors(facts, snapshot, options, given)
    limit = _count("limit", options.limit, 0)
    offset = _count("offset", options.offset, 0)
    given_depth = _count("depth", options.depth, 1)
    if options.asked is not None:
        texts, vectors = _only(options.asked, n_queries, texts, vectors)
    arms = tuple(arm for arm in facts.arms if arm in texts or arm in given)
    ready = [arm for arm in extra if runs(extra[arm], texts, options.candidates)]
    notes = tuple(f"{arm} did not run: nothing was asked" for arm in extra if arm not in ready)
    arms, weights, fusion, left_out = _choose_arms(
        facts, options.fusion, (*arms, *ready), tuple(extra)
    )
    on_host(facts, given, [arm for arm in guests if arm not in arms])  # no search will check them
    lexical = [arm for arm in arms if arm in facts.text_arms]
    bm25 = _read_bm25(facts, options, lexical, joins_by_default=fusion is not options.fusion)
    stages = check_stages(options.shaping)
    shaped = is_shaped(stages, options.tie_break, options.fill)
    # Ranks that a fusion weighs end at the depth, which then must not follow the limit.
    ranks_lead = options.exact is not None and options.fusion is not None
    is_free = len(arms) == 1 and not (shaped or ranks_lead)
    depth = _depth(given_depth, limit, offset, is_free=is_free)
    floors = _read_floors(options.min_score, arms)
    if options.min_fused is not None and fusion is None:
        raise error(
            OptionError, "min_fused", "a fusion to act after (with one arm, min_score)", "one arm"
        )
    scopes = read_scopes(facts.cell_types, snapshot, options.scope, n_queries)
    filters, filter_of = read_filters(facts.attribute_types, options.filter, n_queries)
    exact = find_exact(facts, state, options, bm25, n_queries, given_depth)
    bases, arms, weights = _by_table(facts, arms, weights, options.tables)
    n_lists = len(arms) + (0 if exact is None else len(exact.lists))
    whole = shaped or n_lists > len(arms)

    request = _core.Request(
        scopes=scopes,
        filters=filters,
        filter_of=filter_of,
        depth=depth,
        limit=depth * n_lists if whole else limit,
        offset=0 if whole else offset,
        threads=facts.threads,
    )
    if options.tables is not None:
        _divide(facts, request, options.tables)
    tables = _numbers(options.tables)
    _add_lexical(facts, request, lexical, texts, bm25, floors, tables)
    add_dense(facts, request, bases, vectors, guests, given, floors, tables)
    asked = [
        (arm, read_asked(facts, arm, texts.get(name), options.candidates, n_queries))
        for name, arm in extra.items()
        if name in bases
    ]
    searches = Searches(facts, state, asked, floors, options.scope, options.bound, depth)
    joining = _joining(options, fusion, list(zip(bases, weights, strict=True)), exact)
    n_lexical, normalize = len(lexical) * len(tables), options.normalize
    notes += (*left_out, *(note for _, one in asked for note in one.notes))
    n_dense = len(given.keys() & set(bases))
    notes += (*options.notes, *_balance_notes(options.fusion, n_lexical, n_dense))
    return Plan(
        request, n_queries, arms, n_lexical, bm25, fusion, weights, normalize, depth, notes,
        limit, offset, stages, options.tie_break, searches, joining, extra=tuple(extra),
        fill=options.fill, blank=options.blank,
        sessions=read_sessions(facts, options.session, stages, n_queries),
        scope=options.scope, bound=options.bound, asked=options.asked, exact=exact,
        asks=None if options.fill is None else _asks(bases, n_queries, texts, vectors),
        tables=options.tables, bases=bases,
    )  # fmt: skip


def _joining(
    options: Options,
    fusion: Fusion | None,
    arms: Sequence[tuple[str, float]],
    exact: Exact | None,
) -> dict[str, Any]:
    """Say how a request joins its arms; rows that come first are brought by arms of weight 0."""
    n_exact = 0 if exact is None else len(exact.lists)
    return {
        "kind": _kind(fusion, n_exact),
        "weights": [*(weight for _, weight in arms), *[0.0] * n_exact],
        "rank_constant": fusion.rank_constant if isinstance(fusion, RRF) else 60.0,
        "scales": [*(_scale(fusion, arm) for arm, _ in arms), *["none"] * n_exact],
        "complete": getattr(fusion, "complete", True),
        "balance": getattr(fusion, "balance", None),
        "min_fused": read_floor("min_fused", options.min_fused),
        "normalize": _bool("normalize", options.normalize),
    }


def _balance_notes(fusion: Fusion | None, n_lexical: int, n_dense: int) -> tuple[str, ...]:
    """Say that a balance that the call names has no effect."""
    if getattr(fusion, "balance", None) is None or (n_lexical and n_dense):
        return ()
    return ("balance has no effect: arms of one kind run",)


def _asks(
    arms: Sequence[str],
    n_queries: int,
    texts: Mapping[str, Sequence[object]],
    vectors: Mapping[str, Matrix],
) -> npt.NDArray[np.bool_]:
    """Say of each query which arms it asks something; a zero vector asks nothing."""
    out = np.ones((n_queries, len(arms)), np.bool_)
    for at, arm in enumerate(arms):
        if arm in vectors:
            out[:, at] = vectors[arm][0].any(axis=1)
        elif arm in texts:
            out[:, at] = [text is not None for text in texts[arm]]
    return out


def _by_table(
    facts: IndexFacts,
    arms: tuple[str, ...],
    weights: tuple[float, ...],
    tables: Tables | None,
) -> tuple[tuple[str, ...], tuple[str, ...], tuple[float, ...]]:
    """Return each arm of the index once for each table, as "table.arm", and the others once.

    Returns
    -------
    tuple
        The arm without its table, its name, and its weight, of each.
    """
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


def _add_lexical(
    facts: IndexFacts,
    request: _core.Request,
    arms: Sequence[str],
    texts: Mapping[str, Sequence[object]],
    bm25: Mapping[str, BM25],
    floors: Mapping[str, tuple[float, bool] | None],
    tables: Sequence[int | None],
) -> None:
    for arm in arms:
        column, native = facts.text_arms.index(arm), facts.analyzers[arm].native
        how, floor = bm25[arm].numbers, floors.get(arm)
        for table in tables:
            request.add_lexical(column, arm, how, native, texts[arm], lower, floor, table)


def _divide(facts: IndexFacts, request: _core.Request, tables: Tables) -> None:
    """Let every query's scope fall into tables, by a part of its cells."""
    kind = facts.cell_types[tables.column]
    values = [encode_part(one, tables.column, kind, "tables") for one in tables.names]
    request.divide(facts.schema.cell_columns.index(tables.column), values)


def _only(
    asked: npt.NDArray[np.bool_],
    n_queries: int,
    texts: dict[str, Sequence[object]],
    vectors: dict[str, Matrix],
) -> tuple[dict[str, Sequence[object]], dict[str, Matrix]]:
    """Leave the other queries without text and vector: no arm spends time on them."""
    if len(asked) != n_queries:
        raise error(ShapeError, "recipe", f"{n_queries} entries, one per query", len(asked))
    kept: dict[str, Sequence[object]] = {
        arm: [text if one else None for text, one in zip(queries, asked, strict=True)]
        for arm, queries in texts.items()
    }
    masked: dict[str, Matrix] = {
        arm: (matrix, asked if valid is None else valid & asked)
        for arm, (matrix, valid) in vectors.items()
    }
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


def _read_texts(
    facts: IndexFacts, text: object, readers: tuple[str, ...]
) -> dict[str, Sequence[object]]:
    if text is None:
        return {}
    names = (*facts.text_arms, *readers)
    if not names:
        raise error(OptionError, "text", "None (the index has no text arm)", type(text).__name__)
    given: Mapping[str, Any] = text if isinstance(text, Mapping) else dict.fromkeys(names, text)
    check_arms("text", given, names)
    given = {arm: listed(queries) for arm, queries in given.items()}
    for arm, queries in given.items():
        is_list = isinstance(queries, Sequence) and not isinstance(queries, str | bytes)
        if not is_list and not (isinstance(queries, np.ndarray) and queries.ndim == 1):
            argument = f"text[{arm!r}]" if isinstance(text, Mapping) else "text"
            got = f"{type(queries).__name__} (recall_one takes one query)"
            raise error(OptionError, argument, "a list with one entry per query", got)
    return {arm: given[arm] for arm in names if arm in given}


def _query_count(
    texts: Mapping[str, Sequence[object]],
    vectors: Mapping[str, tuple[Any, str]],
    options: Options,
    extra: Mapping[str, Arm],
) -> int:
    counts = {("text", arm): len(queries) for arm, queries in texts.items()}
    for arm, (value, argument) in vectors.items():
        counts["vectors", arm] = row_count(value, argument=argument)
    for arm, lists in (options.candidates or {}).items():
        counts["candidates", arm] = len(lists)
    if not counts:
        if any(runs(arm, {}, None) for arm in extra.values()):
            if options.n_queries is not None:
                return options.n_queries
            return len(options.scope) if isinstance(options.scope, list) else 1
        raise error(OptionError, "text", "text= or vectors=, or both", "neither")
    first, n_queries = next(iter(counts.items()))
    for (argument, arm), count in counts.items():
        if count != n_queries:
            wish = f"{n_queries} queries as {first[0]}[{first[1]!r}] has"
            raise error(ShapeError, f"{argument}[{arm!r}]", wish, count)
    if n_queries >= 2**31:  # a hit's query is an int32
        raise error(ShapeError, f"{first[0]}[{first[1]!r}]", "fewer than 2^31 queries", n_queries)
    return n_queries


def _read_bm25(
    facts: IndexFacts, options: Options, texts: Sequence[str], *, joins_by_default: bool
) -> dict[str, BM25]:
    """Choose each arm's BM25: that of the call, else of the index, else of the default fusion."""
    of_arms = facts.joined_bm25 if joins_by_default else facts.bm25
    chosen = {arm: of_arms[arm] for arm in texts}
    bm25 = options.bm25
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
    facts: IndexFacts, fusion: object, arms: tuple[str, ...], extra: tuple[str, ...]
) -> tuple[tuple[str, ...], tuple[float, ...], Fusion | None, tuple[str, ...]]:
    """Return the arms that run, their weights, what joins them, and what the trace should say."""
    if fusion is None:
        return arms, (1.0,) * len(arms), DEFAULT_FUSION if len(arms) > 1 else None, ()
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
    kept = tuple(arm for arm in arms if weights.get(arm, 1.0) > 0)
    if not kept:
        raise error(OptionError, "weights", f"a weight above 0 for one of {list(arms)}", weights)
    notes = tuple(f"{arm} left out: weight 0" for arm in arms if arm not in kept)
    return kept, tuple(weights.get(arm, 1.0) for arm in kept), fusion, notes


def _read_floors(min_score: object, arms: tuple[str, ...]) -> dict[str, tuple[float, bool] | None]:
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
