"""Reply models for the API's description, and functions that make the same data.

Replies are encoded on the thread that found them, so that the event loop only sends bytes.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from typing import Any, TypeAlias

from pydantic import BaseModel, ConfigDict, Field
from pydantic_core import PydanticSerializationError, to_json
from starlette.responses import JSONResponse

from hyrecall import recipes
from hyrecall.ask.filters import Filter
from hyrecall.ask.queries import TextQuery
from hyrecall.ask.recipe import Recipe
from hyrecall.ask.scope import Scope
from hyrecall.base.joining import Joiner
from hyrecall.base.threads import off_thread
from hyrecall.distributed import ShardedIndex
from hyrecall.distributed.sharded import NewerVersions
from hyrecall.errors import OptionError, ShardLostError, error
from hyrecall.hits.dropped import Dropped
from hyrecall.hits.hits import Hit, Hits, QueryHits
from hyrecall.hits.reply import facets_data
from hyrecall.hits.trace import Trace
from hyrecall.index import Index
from hyrecall.memory import Edge, Episode, Matches, MatchParts
from hyrecall.memory.data.matches import is_answerable, known_confidences
from hyrecall.memory.replies import Reason, reasons_data
from hyrecall.serve.errors import ErrorBody, check_size, naming_query
from hyrecall.serve.metrics import index_numbers

ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": ErrorBody, "description": text}
    for status, text in (
        (400, "No JSON, or a wrong header."),
        (401, "No token, or an unknown one."),
        (403, "Outside the token's scope or rights."),
        (413, "Too large."),
        (422, "A value that is not taken; the message names the field."),
        (429, "The token has too many requests, or long searches, under way."),
        (503, "Busy, or not ready; Retry-After says when to come again."),
    )
}
"""The errors of every route, for the API's description."""


class _Reply(BaseModel):
    model_config = ConfigDict(extra="forbid")


class MatchReply(_Reply):
    """A recalled memory; a score that is null was not computed."""

    episode: Episode
    score: float
    vector_score: float | None
    bm25_score: float | None
    rerank_score: float | None
    parts: MatchParts | None
    is_fill: bool
    is_exact: bool
    valid_to: datetime | None
    confidence: float | None = None
    explanation: dict[str, Any] | None = None
    highlights: list[tuple[int, int]] | None = None
    snippet: str | None = None


_OF_A_MATCH = tuple(name for name, one in MatchReply.model_fields.items() if one.is_required())


class RecallReply(_Reply):
    """The reply to a recall of a store."""

    items: list[MatchReply]
    degraded: bool
    reasons: list[Reason]
    lexical_mode: str
    trace: dict[str, Any] | None
    tiers: dict[str, int]
    phase: dict[str, Any] | None
    related: list[Episode]
    edges: list[Edge]
    context: list[list[Episode]]
    around: list[list[Episode]]
    confidence: float | None = None
    answerable: bool | None = None
    now: datetime
    took_ms: float


class BatchReply(_Reply):
    """The replies to a batch, in its order."""

    replies: list[RecallReply]


class ThreadRowReply(_Reply):
    """A row of the thread that a hit stands for."""

    key: str | int
    score: float


class NearRowReply(_Reply):
    """A row around a hit in its thread, so many places behind it; before it: negative."""

    key: str | int
    step: int
    text: str | None
    columns: dict[str, Any]


class HitReply(_Reply):
    """A document that an index found."""

    key: str | int
    cell: list[Any]
    rank: int
    score: float | None
    scores: dict[str, float | None]
    ranks: dict[str, int | None]
    columns: dict[str, Any]
    thread_rows: list[ThreadRowReply] | None = None
    surrounding: list[NearRowReply] | None = None
    confidence: float | None = None
    explanation: dict[str, Any] | None = None
    highlights: dict[str, list[tuple[int, int]]] | None = None
    snippet: str | None = None


class FacetReply(_Reply):
    """How many of the matching rows have a value, or one in a range; which, its ends say."""

    value: Any = None
    from_: Any = Field(None, alias="from")
    to: Any = None
    count: int


class IndexReply(_Reply):
    """The reply to a recall of an index."""

    hits: list[HitReply]
    total: int | None = None
    facets: dict[str, list[FacetReply]] | None = None
    confidence: float | None = None
    answerable: bool | None = None
    degraded: bool
    reasons: list[Reason]
    trace: dict[str, Any]
    now: datetime
    took_ms: float


class JsonResponse(JSONResponse):
    """A reply whose content is encoded already."""

    def render(self, content: bytes) -> bytes:
        """Return the content."""
        return content


def encode(data: Any) -> bytes:
    """Return data as JSON; NaN and infinity, which JSON lacks, become null."""
    try:
        return to_json(data, inf_nan_mode="null", fallback=str)
    except PydanticSerializationError:  # a lone surrogate in stored JSON
        plain = json.loads(json.dumps(data, default=_plain))
        return json.dumps(plain).encode()


def encode_within(data: dict[str, Any], most: int) -> bytes:
    """Return an object as JSON of at most so many bytes."""
    # Lists and iterators are encoded item by item, so that too long a reply never lies in memory.
    parts: list[bytes] = []
    n_bytes = 0

    def add(part: bytes) -> None:
        nonlocal n_bytes
        n_bytes += len(part)
        check_size("reply", n_bytes, most, "bytes")
        parts.append(part)

    add(b"{")
    for at, (name, value) in enumerate(data.items()):
        add(b"," * (at > 0) + encode(name) + b":")
        if not isinstance(value, list | Iterator):
            add(encode(value))
            continue
        add(b"[")
        for place, one in enumerate(value):
            add(b"," * (place > 0) + encode(one))
        add(b"]")
    add(b"}")
    return b"".join(parts)


def _plain(value: Any) -> Any:
    return value.model_dump(mode="json") if isinstance(value, BaseModel) else str(value)


# ---- stores ----


def recall_data(
    matches: Matches,
    *,
    explain: bool,
    began: float,
    highlight: bool = False,
    confidence: bool = False,
) -> dict[str, Any]:
    """Return the reply to a recall as plain data; `began` is of ``time.perf_counter``."""
    is_explained = explain and matches._ranked is not None
    dropped = matches.explain_dropped() if is_explained else None
    sure, sure_of = known_confidences(matches) if confidence else (None, [])
    shown = []
    for at, match in enumerate(matches):
        one: dict[str, Any] = {name: getattr(match, name) for name in _OF_A_MATCH}
        if confidence:
            one["confidence"] = sure_of[at]
        if is_explained:
            one["explanation"] = _explanation(match)
        if highlight:
            one |= {"highlights": match.highlights(), "snippet": match.snippet()}
        shown.append(one)
    return {
        "items": shown,
        "degraded": matches.degraded,
        "reasons": reasons_data(matches.reasons),
        "lexical_mode": matches.lexical_mode,
        "trace": None if matches.trace is None else _trace(matches.trace, dropped),
        "tiers": matches.tiers,
        "phase": None if matches.phase is None else asdict(matches.phase),
        "related": list(matches.related),
        "edges": list(matches.edges),
        "context": [list(near) for near in matches.context],
        "around": [list(near) for near in matches.around],
        **(_sure(sure) if confidence else {}),
        "now": matches.now,
        "took_ms": (time.perf_counter() - began) * 1e3,
    }


def _sure(confidence: float | None) -> dict[str, Any]:
    """Return how sure a reply is."""
    return {"confidence": confidence, "answerable": is_answerable(confidence)}


def _explanation(one: Any) -> dict[str, Any]:
    made = one.explain()
    data = asdict(made)
    return {"text": str(made), "parts": data.pop("components"), **data}


def _trace(trace: Trace, dropped: Dropped | None) -> dict[str, Any]:
    data = asdict(replace(trace, feedback={}))
    data["feedback"] = {str(query): asdict(one) for query, one in trace.feedback.items()}
    data["exact"] = {str(query): n for query, n in trace.exact.items()}
    if dropped is not None:
        data["dropped"] = dropped.to_list()
    return data


# ---- indexes ----


def index_data(hits: Hits, query: QueryHits, asked: IndexQuery) -> dict[str, Any]:
    """Return the reply to one query of a batch as plain data, whose hits are read one by one."""
    trace = hits.trace.of_query(query.query)
    return {
        "hits": (_hit(hit, trace.arms, asked) for hit in query),
        **({"total": query.total} if asked.total else {}),
        **({"facets": facets_data(query.facets)} if query.facets else {}),
        **(_sure(query.confidence) if asked.confidence else {}),
        "degraded": bool(trace.degraded),
        "reasons": [{"reason": "degraded", "detail": one} for one in trace.degraded],
        "trace": _trace(trace, query.explain_dropped() if asked.explain else None),
        "now": hits.now,
        "took_ms": (time.perf_counter() - asked.began) * 1e3,
    }


def _hit(hit: Hit, arms: tuple[str, ...], asked: IndexQuery) -> dict[str, Any]:
    columns = asked.columns
    one: dict[str, Any] = {
        "key": hit.key,
        "cell": list(hit.cell),
        "rank": hit.rank,
        "score": hit.score,
        "scores": {arm: hit.arm_score(arm) for arm in arms},
        "ranks": {arm: hit.arm_rank(arm) for arm in arms},
        "columns": {name: hit[name] for name in columns},
    }
    if hit.thread_rows:
        one["thread_rows"] = [{"key": row.key, "score": row.score} for row in hit.thread_rows]
    if hit.surrounding:
        one["surrounding"] = [
            {
                "key": row.key,
                "step": row.step,
                "text": row.text,
                "columns": {name: one for name, one in row.values.items() if name in columns},
            }
            for row in hit.surrounding
        ]
    if asked.confidence:
        one["confidence"] = hit.confidence
    if asked.explain:
        one["explanation"] = _explanation(hit)
    if asked.highlight:
        texts = hit._reply.facts.schema.text_columns
        one["highlights"] = {name: hit.highlights(name) for name in columns if name in texts}
        one["snippet"] = hit.snippet()
    return one


# ---- An index that is served: read-only, the newest version of its folder, in joined batches ----

AnyIndex: TypeAlias = Index | ShardedIndex

_log = logging.getLogger("hyrecall.serve")


@dataclass(frozen=True)
class IndexQuery:
    """One query, read and checked; queries of one ``key`` are answered as a batch."""

    text: dict[str, TextQuery]
    vector: dict[str, list[float]]
    scope: Scope | None
    filter: Filter | None
    shared: dict[str, Any]
    key: object
    columns: tuple[str, ...] = ()
    explain: bool = False
    highlight: bool = False
    total: bool = False
    confidence: bool = False
    began: float = field(default_factory=time.perf_counter)


class ServedIndex:
    """Answers queries of an index."""

    def __init__(self, index: AnyIndex, *, join: bool, max_joined: int, max_reply: int) -> None:
        self.index, self._max_reply = index, max_reply
        self._pool = ThreadPoolExecutor(4, thread_name_prefix="hyrecall-serve")
        self._joiner: Joiner[IndexQuery, bytes] = Joiner(
            self._answer, self._pool, max_joined=max_joined if join else 1,
            fails_all=lambda fault: isinstance(fault, ShardLostError),
        )  # fmt: skip
        self._versions = NewerVersions(index, self._pool, _log)

    async def recall(self, query: IndexQuery) -> bytes:
        """Return the reply to one query as JSON."""
        await self._versions.look_again()
        return await self._joiner.call(query, query.key)

    async def recall_batch(self, queries: Sequence[IndexQuery], *, most_bytes: int) -> list[bytes]:
        """Return the replies to a batch of a caller's own, as if each were alone."""
        await self._versions.look_again()
        n_bytes = 0

        async def reply(at: int, one: IndexQuery) -> bytes:
            nonlocal n_bytes
            with naming_query(at):
                made = await self._joiner.call(one, one.key)
            n_bytes += len(made)
            check_size("reply", n_bytes, most_bytes, "bytes")
            return made

        return list(await asyncio.gather(*map(reply, range(len(queries)), queries)))

    async def run(self, options: dict[str, Any]) -> Hits:
        """Answer a batch with arguments of :meth:`hyrecall.Index.recall`."""
        await self._versions.look_again()
        return await off_thread(self._pool, lambda: self.index.recall(**options))

    def counts(self) -> dict[str, float]:
        """Return how many queries and batches there were."""
        return {"queries": self._joiner.n_calls, "batches": self._joiner.n_batches}

    def unembedded(self) -> str:
        """Say which arms lack the embedder that the files name; empty: none."""
        own = self.index._embedders
        had = () if own is None else own.embedded
        return "; ".join(
            f"texts are not embedded for {arm}, whose vectors are of {one.model!r}"
            for arm, one in self.index._facts.embedded.items()
            if arm not in had
        )

    def numbers(self) -> dict[str, float]:
        """Return the numbers of the index: those of its stats, or how many shards it has."""
        if not isinstance(self.index, ShardedIndex):
            return index_numbers(self.index.stats())
        return {"n_shards": float(len(self.index))}

    def close(self) -> None:
        """End the threads; the index is its owner's to close."""
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _answer(self, queries: Sequence[IndexQuery]) -> list[bytes]:
        """Answer a batch of queries with one key."""
        first = queries[0]
        hits = self.index.recall(
            text={arm: [one.text[arm] for one in queries] for arm in first.text} or None,
            vectors={arm: [one.vector[arm] for one in queries] for arm in first.vector} or None,
            scope=None if first.scope is None else [one.scope for one in queries],
            filter=[one.filter for one in queries],
            **first.shared,
        )
        return [
            encode_within(index_data(hits, hits[at], one), self._max_reply)
            for at, one in enumerate(queries)
        ]


def recipe_named(name: str) -> Recipe:
    """Return a recipe by its name."""
    if name not in recipes.__all__:
        raise error(OptionError, "recipe", f"one of {', '.join(recipes.__all__)}", "another")
    found: Recipe = getattr(recipes, name)
    return found
