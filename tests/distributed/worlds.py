"""One index and the same documents in shards: what each replies to the same calls."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any

import pyarrow as pa

import hyrecall as hr
from distributed.placed import placed_shards, placement_of
from distributed.placement import WireShard, index_of, laid_out
from distributed.subjects import AroundSubject, draw_said, schema_of
from hyrecall.distributed import Placement
from laws.checks import LawBroken, outcome
from laws.engine import EngineSubject, ipc_bytes, table
from oracle.corpus import Draw, Mix, draw_mix, draw_rows, draw_shape
from oracle.documents import Call, Row
from oracle.recall import Oracle
from seams import LocalShard

SHARDS = (1, 2, 3, 7)
CALLS = 6
QUERIES = 8

Bug = Callable[[Sequence[hr.Index]], Any]
"""Makes something that answers recall() from shards, wrongly."""

Route = Callable[[Sequence[hr.Index], Placement, type[LocalShard]], Any]
"""Makes something that answers recall() from shards that are placed by cell."""


class Whole:
    """One index of random rows, and its replies to random calls, each asked when it is needed."""

    def __init__(
        self, seed: int, subject: type[EngineSubject], mix: Callable[[Draw], Mix], deletes: bool
    ) -> None:
        self._draw = Draw(seed)
        self.shape = draw_shape(self._draw)
        self.rows = draw_rows(self._draw, self.shape, mix(self._draw))
        self.table = table(self.shape, self.rows)
        self._own = object.__new__(subject)
        self._own.shape = self.shape
        self.schema = schema_of(subject, self.shape)
        self._subject = subject
        self._own.index = self.built(self.table, 0)
        chance = random.Random(seed)
        self.gone = [row for row in self.rows if chance.random() < 0.4] if deletes else []
        self.delete(self._own.index)
        self._guide = Oracle(self.shape, self.rows)
        self._replies: list[tuple[Call, object]] = []

    def built(self, own: pa.Table, first: int) -> hr.Index:
        how = self.schema
        analyzer = hr.Analyzer("word") if how.text else None
        return hr.Index.build(own, how, analyzer=analyzer, first_seq=first, device="cpu")

    def delete(self, index: hr.Index) -> None:
        """Delete from some rows what is gone."""
        for cell in sorted({row.cell for row in self.gone}, key=repr):
            keys = [row.key for row in self.gone if row.cell == cell]
            index.delete(keys, **({"scope": hr.Scope([cell])} if cell else {}))

    def reply(self, number: int) -> tuple[Call, object]:
        """Return a call, and what the index replied or refused."""
        while len(self._replies) <= number:
            call = draw_said(self._subject, self._draw, self._guide, QUERIES)
            self._replies.append((call, said(self._own, call)))
        return self._replies[number]


whole_of = lru_cache(maxsize=64)(Whole)  # several tests compare other shards with its replies


def said(own: EngineSubject, call: Call) -> object:
    return outcome(lambda: ipc_bytes(own.hits(call).to_arrow()))


def same_replies(
    seeds: Iterable[int],
    subject: type[EngineSubject] = EngineSubject,
    mix: Callable[[Draw], Mix] = draw_mix,
    *,
    deletes: bool = False,
    bug: Bug | None = None,
    route: Route | None = None,
) -> int:
    """Every reply over shards is that of one index, errors included; return the calls seen.

    ``subject`` draws a call and makes a recall of it. ``bug`` answers in the place of the shards.
    With ``route``, rows lie where their cells are placed, and it makes the index that asks them.
    """
    calls = n_answered = 0
    for seed in seeds:
        whole = whole_of(seed, subject, mix, deletes)
        n_shards = SHARDS[seed % len(SHARDS)]
        placement = None
        if route is None:
            keys = _threads(whole.rows) if issubclass(subject, AroundSubject) else ()
            shards = laid_out(whole.table, whole.built, n_shards, random.Random(seed), keys)
        else:
            placement = placement_of(whole.table, whole.schema, n_shards)
            shards = placed_shards(whole.table, whole.schema, whole.built, placement, n_shards)
        for shard in shards:
            whole.delete(shard)
        made: Any
        if route is not None and placement is not None:
            made = route(shards, placement, WireShard if seed % 3 else LocalShard)
        else:
            made = index_of(shards, wire=bool(seed % 3)) if bug is None else bug(shards)
        sharded = object.__new__(subject)
        sharded.shape, sharded.index = whole.shape, made
        for number in range(CALLS):
            call, want = whole.reply(number)
            got = said(sharded, call)
            if got != want:
                told = f"seed {seed}, call {number}, {n_shards} shards: {call}"
                raise LawBroken(f"{told}\n{_shown(want)}\nagainst\n{_shown(got)}")
            calls += 1
            n_answered += isinstance(want, bytes)
    if n_answered < calls // 2:
        raise LawBroken(f"{calls - n_answered} of {calls} calls were refused")
    return calls


def _threads(rows: Sequence[Row]) -> list[object]:
    """Name the thread of each row; one without is alone."""
    return [
        at if row.attributes["kind"] is None else (row.cell, row.attributes["kind"])
        for at, row in enumerate(rows)
    ]


def _shown(result: object) -> str:
    if isinstance(result, bytes):
        return str(pa.ipc.open_stream(result).read_all().to_pylist())[:2000]
    return repr(result)[:2000]
