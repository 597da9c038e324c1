"""One index and the same documents in shards: what each replies to the same calls."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pyarrow as pa

import hyrecall as hr
from distributed.placed import placed_shards, placement_of
from distributed.placement import WireShard, index_of, laid_out
from hyrecall.distributed import Placement
from laws.around import AroundSubject
from laws.checks import LawBroken, outcome
from laws.engine import EngineSubject, ipc_bytes, table
from oracle.corpus import Draw, Mix, draw_call, draw_mix, draw_rows, draw_shape
from oracle.documents import Row
from oracle.recall import Oracle
from seams import LocalShard

SHARDS = (1, 2, 3, 7)
CALLS = 6
QUERIES = 8

Bug = Callable[[Sequence[hr.Index]], Any]
"""Makes something that answers recall() from shards, wrongly."""

Route = Callable[[Sequence[hr.Index], Placement, type[LocalShard]], Any]
"""Makes something that answers recall() from shards that are placed by cell."""


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

    ``subject`` turns a call into a recall. ``bug`` answers in the place of the shards. With
    ``route``, rows lie where their cells are placed, and it makes the index that asks them.
    """
    calls = n_answered = 0
    for seed in seeds:
        draw, chance = Draw(seed), random.Random(seed)
        shape = draw_shape(draw)
        rows = draw_rows(draw, shape, mix(draw))
        n_shards = SHARDS[seed % len(SHARDS)]
        one, sharded = object.__new__(subject), object.__new__(subject)
        one.shape = sharded.shape = shape
        how = one.schema(shape, None)

        def build(own: pa.Table, first: int, how: hr.Schema = how) -> hr.Index:
            analyzer = hr.Analyzer("word") if how.text else None
            return hr.Index.build(own, how, analyzer=analyzer, first_seq=first, device="cpu")

        whole = table(shape, rows)
        one.index = build(whole, 0)
        keys = _threads(rows) if issubclass(subject, AroundSubject) else ()
        if route is None:
            shards = laid_out(whole, build, n_shards, chance, keys)
        else:
            placement = placement_of(whole, how, n_shards)
            shards = placed_shards(whole, how, build, placement, n_shards)
        if deletes:
            _delete(rows, chance, [one.index, *shards])
        made: Any
        if route is not None:
            made = route(shards, placement, WireShard if seed % 3 == 0 else LocalShard)
        else:
            made = index_of(shards, wire=seed % 3 == 0) if bug is None else bug(shards)
        sharded.index = made
        guide = Oracle(shape, rows)
        for number in range(CALLS):
            call = draw_call(draw, guide, QUERIES)
            want, got = (
                outcome(lambda own=own, call=call: ipc_bytes(own.hits(call).to_arrow()))
                for own in (one, sharded)
            )
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


def _delete(rows: Sequence[Row], chance: random.Random, indexes: Sequence[hr.Index]) -> None:
    gone = [row for row in rows if chance.random() < 0.4]
    for cell in sorted({row.cell for row in gone}, key=repr):
        keys = [row.key for row in gone if row.cell == cell]
        scope = {"scope": hr.Scope([cell])} if cell else {}
        for index in indexes:
            index.delete(keys, **scope)


def _shown(result: object) -> str:
    if isinstance(result, bytes):
        return str(pa.ipc.open_stream(result).read_all().to_pylist())[:2000]
    return repr(result)[:2000]
