"""Recalls of an index folder: one, or a batch, as JSON."""

from __future__ import annotations

from typing import Any

from fastapi import Request
from starlette.responses import Response

from hyrecall.ask.filter_json import filter_from_json
from hyrecall.ask.pages import Buckets
from hyrecall.ask.parsing import parse
from hyrecall.ask.recipe import is_joinable
from hyrecall.ask.scope import Scope
from hyrecall.distributed import ShardedIndex
from hyrecall.errors import OptionError, error
from hyrecall.hits.marks import are_marked
from hyrecall.serve.bodies import BucketsBody, IndexBatchBody, IndexQueryBody
from hyrecall.serve.errors import (
    ServiceError,
    check_hits,
    check_lists,
    check_page,
    check_query,
    check_size,
    naming_query,
    options_of,
)
from hyrecall.serve.options import Caller, ServiceOptions
from hyrecall.serve.replies import (
    ERRORS,
    AnyIndex,
    IndexQuery,
    IndexReply,
    JsonResponse,
    ServedIndex,
    recipe_named,
)
from hyrecall.serve.routing import Router
from hyrecall.serve.scoped_store import Reader

router = Router(prefix="/v1", tags=["index"], responses=ERRORS, default_response_class=JsonResponse)

_ANY_OF = "any_of"


def served_by(request: Request) -> ServedIndex:
    """Return the index that is served."""
    served: ServedIndex = request.app.state.served_index
    return served


@router.post("/recall", summary="Recall documents", responses={200: {"model": IndexReply}})
async def recall(request: Request, body: IndexQueryBody, who: Reader) -> Response:
    """Rank the documents of the caller's cells for one query."""
    served = served_by(request)
    check_all(options_of(request), [body])
    query = read_query(served.index, options_of(request), who, body)
    return JsonResponse(await served.recall(query))


@router.post("/recall/batch", summary="Recall documents for several queries")
async def recall_batch(request: Request, body: IndexBatchBody, who: Reader) -> Response:
    """Answer several queries together; each reply is what the query alone would get."""
    options, served = options_of(request), served_by(request)
    check_size("queries", len(body.queries), options.max_batch, "queries")
    check_all(options, body.queries)
    queries = []
    for at, one in enumerate(body.queries):
        with naming_query(at):
            queries.append(read_query(served.index, options, who, one))
    replies = await served.recall_batch(queries, most_bytes=options.max_reply)
    return JsonResponse(b'{"replies":[' + b",".join(replies) + b"]}")


def check_all(options: ServiceOptions, queries: list[IndexQueryBody]) -> None:
    """Refuse queries that ask for too much together."""
    check_hits(options.max_hits, (q.limit for q in queries), (q.surrounding for q in queries))


def read_query(
    index: AnyIndex, options: ServiceOptions, who: Caller, body: IndexQueryBody
) -> IndexQuery:
    """Check a query and its scope."""
    texts = _by_arm(body.text, tuple(index.schema.text_arms))
    for text in texts.values():
        check_query(options, text, "text")
    if body.parse and not texts:
        raise error(OptionError, "parse", "false without a text", "true")
    check_page(options, body.limit, body.offset)
    check_size("depth", body.depth, options.max_limit, "")
    check_lists(
        options, vector=body.vector, scope=body.scope, filter=body.filter, columns=body.columns,
        min_score=body.min_score, sort=body.sort, facets=_edges(body),
    )  # fmt: skip
    shared = _shared(body)
    columns = tuple(body.columns)
    is_apart = isinstance(index, ShardedIndex) and not index._is_whole
    if body.highlight and not are_marked(index._facts):
        wish = "false (the index does not store its texts, or does not tell where terms stand)"
        raise error(OptionError, "highlight", wish, "true")
    if body.surrounding or is_apart:  # whose hits have no other columns
        marked = index.schema.first_texts if body.highlight else ()
        shared["columns"] = tuple(dict.fromkeys((*columns, *marked)))
    for name in ("explain", "confidence"):
        if is_apart and getattr(body, name):  # alone, before it joins others
            wish = "false over shards on a GPU, which keep their postings"
            raise error(OptionError, name, wish, "true")
    if body.confidence and (body.sort or (body.text is None and body.vector is None)):
        wish = "false where columns order the rows (sort, or no text and no vector)"
        raise error(OptionError, "confidence", wish, "true")
    known = index.schema.row_columns
    for name in columns:
        if name not in known:
            raise ServiceError(422, "Invalid", "columns: expected columns that the index returns")
    types = index._facts.row_types
    vectors = _by_arm(body.vector, tuple(index.schema.vector_arms))
    # What queries of one batch have in common: options, and which arms are asked. A recipe whose
    # trace tells of a whole batch is answered alone, and so is a floor that may be refused.
    is_alone = "recipe" in shared and not is_joinable(shared["recipe"])
    is_alone |= body.min_confidence is not None
    told = body.model_dump_json(include=_SHARED)
    key = (told, shared.get("columns"), tuple(sorted(texts)), tuple(sorted(vectors)))
    return IndexQuery(
        text={arm: parse(text) for arm, text in texts.items()} if body.parse else texts,
        vector=vectors, scope=authorised(index, who, body.scope), columns=columns,
        filter=None if body.filter is None else filter_from_json(body.filter, types, "filter"),
        shared=shared, key=object() if is_alone else key, explain=body.explain,
        highlight=body.highlight, total=body.total, confidence=body.confidence,
    )  # fmt: skip


_FLOORS = "min_score", "min_confidence"
_PLAIN = "now", "group", "per_group", "surrounding", "normalize", "sort", *_FLOORS
_SHARED = {"limit", "offset", "depth", "recipe", "facets", *_PLAIN}
"""The fields that are options of a whole batch."""


def _shared(body: IndexQueryBody) -> dict[str, Any]:
    """Return the options that all queries of a batch share, as an index takes them."""
    made: dict[str, Any] = {"limit": body.limit, "offset": body.offset, "depth": body.depth}
    made |= {name: value for name in _PLAIN if (value := getattr(body, name)) not in (None, False)}
    if body.recipe is not None:
        made["recipe"] = recipe_named(body.recipe)
    if body.facets is not None:
        made["facets"] = [
            Buckets(one.column, one.edges) if isinstance(one, BucketsBody) else one
            for one in body.facets
        ]
    return made


def _edges(body: IndexQueryBody) -> list[Any]:
    """Return the lists of ``facets``."""
    return [one.edges if isinstance(one, BucketsBody) else one for one in body.facets or ()]


def _by_arm(given: Any, arms: tuple[str, ...]) -> dict[str, Any]:
    if given is None:
        return {}
    return dict(given) if isinstance(given, dict) else dict.fromkeys(arms, given)


# ---- scope ----


def authorised(index: AnyIndex, who: Caller, asked: Any) -> Scope | None:
    """Return the cells that a query may see: the token's, or those of them that it names."""
    names = index.schema.cell_columns
    if not names:
        if asked is not None:
            raise ServiceError(422, "Invalid", "scope: expected none (the index has one audience)")
        return None
    own = who.cells
    if asked is None:
        if own is None:
            wish = f"a cell of ({', '.join(names)})"
            raise ServiceError(422, "Invalid", f"scope: expected {wish}")
        return Scope(list(own))
    if isinstance(asked, dict):
        cells = asked.get(_ANY_OF)
        if set(asked) != {_ANY_OF} or not isinstance(cells, list):
            raise ServiceError(422, "Invalid", f'scope: expected {{"{_ANY_OF}": [cell, ...]}}')
    else:
        cells = [asked]
    wanted = [tuple(cell) if isinstance(cell, list) else (cell,) for cell in cells]
    for cell in wanted:
        if len(cell) != len(names) or any(isinstance(value, list | dict) for value in cell):
            wish = f"cells of ({', '.join(names)})"
            raise ServiceError(422, "Invalid", f"scope: expected {wish}")
        if own is not None and not any(_same(cell, one) for one in own):
            raise ServiceError(403, "ScopeError", "scope: expected cells of the token")
    return Scope(wanted)


def _same(first: tuple[Any, ...], second: tuple[Any, ...]) -> bool:
    """Compare cells by value and type: True is not 1."""
    return len(first) == len(second) and all(
        type(a) is type(b) and a == b for a, b in zip(first, second, strict=True)
    )
