"""Planted bugs: an index in shards that makes one mistake which search engines have made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import hyrecall as hr
from distributed.placement import ApartShard
from distributed.subjects import AroundSubject
from hyrecall.distributed import Part, Request, ShardedIndex, Statistics, merge
from laws.engine import EngineSubject, arguments
from oracle.documents import Call
from seams import parts_Counts as Counts


class Planted(ShardedIndex):
    """Asks shards as it should; a subclass spoils one thing."""

    def __init__(self, shards: Sequence[hr.Index]) -> None:
        super().__init__([ApartShard(str(at), one) for at, one in enumerate(shards)])

    def _answer(self, request: Request) -> hr.Hits:
        own = [one.statistics(request) for one in self.shards]
        summed = Statistics.sum(own)
        parts = [
            one.candidates(request, self.told(summed, counted))
            for one, counted in zip(self.shards, own, strict=True)
        ]
        return self.joined(request, [self.part(at, one) for at, one in enumerate(parts)])

    def told(self, summed: Statistics, own: Statistics) -> Statistics:
        """Return the statistics that a shard gets."""
        del own
        return summed

    def part(self, number: int, part: Part) -> Part:
        """Return the part as it is merged."""
        del number
        return part

    def joined(self, request: Request, parts: Sequence[Part]) -> Any:
        return merge(request, parts)


class IdfOfAShard(Planted):
    """Each shard scores with its own statistics."""

    def told(self, summed: Statistics, own: Statistics) -> Statistics:
        return replace(summed, runs=own.runs)


class MeanLengthOfAShard(Planted):
    """Documents and frequencies are those of all shards, the mean length is the shard's."""

    def told(self, summed: Statistics, own: Statistics) -> Statistics:
        def spoiled(all_of: Counts, here: Counts) -> Counts:
            numbers = all_of.arrays["numbers"].reshape(-1, 6).copy()
            mine = here.arrays["numbers"].reshape(-1, 6)
            mean = mine[:, 1] / np.maximum(mine[:, 0], 1)
            numbers[:, 1] = np.round(mean * numbers[:, 0])
            return all_of._replace(arrays={**all_of.arrays, "numbers": numbers.reshape(-1)})

        runs = {name: spoiled(counts, own.runs[name]) for name, counts in summed.runs.items()}
        return replace(summed, runs=runs)


class SpreadOfAShard(Planted):
    """How far lengths differ, which ``b=(alike, mixed)`` goes by, is the shard's."""

    def told(self, summed: Statistics, own: Statistics) -> Statistics:
        def spoiled(all_of: Counts, here: Counts) -> Counts:
            numbers = all_of.arrays["numbers"].reshape(-1, 6).copy()
            numbers[:, 2] = here.arrays["numbers"].reshape(-1, 6)[:, 2]
            return all_of._replace(arrays={**all_of.arrays, "numbers": numbers.reshape(-1)})

        runs = {name: spoiled(counts, own.runs[name]) for name, counts in summed.runs.items()}
        return replace(summed, runs=runs)


class TiesByShard(Planted):
    """Equal scores come in the order of the shards."""

    def part(self, number: int, part: Part) -> Part:
        def moved(seqs: Any) -> Any:
            return seqs + (number << 40)

        runs = {
            name: run._replace(arrays={**run.arrays, "seq": moved(run.arrays["seq"])})
            for name, run in part.runs.items()
        }
        return replace(part, runs=runs, seqs=moved(part.seqs))


class HalfTheDepth(Planted):
    """Each shard hands on half of its lists, since the others have some too."""

    def part(self, number: int, part: Part) -> Part:
        del number
        runs = {}
        for name, run in part.runs.items():
            ends = run.arrays["list_ends"]
            sizes = np.diff(ends)
            place = np.arange(int(ends[-1])) - np.repeat(ends[:-1], sizes)
            kept = place < np.repeat((sizes + 1) // 2, sizes)
            sums = np.concatenate([[0], np.cumsum(kept)])
            arrays = {**run.arrays, "listed": run.arrays["listed"][kept], "list_ends": sums[ends]}
            runs[name] = run._replace(arrays=arrays)
        return replace(part, runs=runs)


class NoCompletion(Planted):
    """A shard sends scores of its lists only, none of what other arms have listed."""

    def part(self, number: int, part: Part) -> Part:
        del number
        runs = {}
        for name, run in part.runs.items():
            arrays = run.arrays
            scores = np.full_like(arrays["scores"], -np.inf).reshape(-1, run.n_arms)
            of_list = np.repeat(np.arange(len(arrays["list_ends"]) - 1),
                                np.diff(arrays["list_ends"]))  # fmt: skip
            query, arm = np.divmod(of_list, run.n_arms)
            docs = arrays["doc_ends"][query] + arrays["listed"]
            scores[docs, arm] = arrays["scores"].reshape(-1, run.n_arms)[docs, arm]
            runs[name] = run._replace(arrays={**arrays, "scores": scores.reshape(-1)})
        return replace(part, runs=runs)


class _Table:
    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def to_arrow(self) -> pa.Table:
        return self._table


class FusedInEachShard(Planted):
    """Each shard ranks, scales and fuses its own lists; the fused lists are merged by score."""

    def joined(self, request: Request, parts: Sequence[Part]) -> Any:
        tables = [merge(request, [one], degraded=("others",)).to_arrow() for one in parts]
        order = [("query", "ascending"), ("score", "descending")]
        joined = pa.concat_tables(tables).sort_by(order).combine_chunks()
        query = joined["query"].to_numpy()
        place = np.arange(len(query)) - np.searchsorted(query, query)
        joined = joined.set_column(1, "rank", pa.array((place + 1).astype(np.int32)))
        return _Table(joined.filter(pc.less(pa.array(place), request.given["limit"])))


class Ranks(EngineSubject):
    """Every recall fuses two arms by their ranks."""

    fusion: object = hr.RRF()

    def hits(self, call: Call) -> hr.Hits:
        said = arguments(self.shape, call)
        kept = {name: said[name] for name in ("text", "vectors", "scope") if name in said}
        return self.index.recall(**kept, fusion=self.fusion, limit=10)


class Scaled(Ranks):
    """Every recall fuses two arms by a sum of scores that are scaled by min and max."""

    fusion = hr.WeightedSum()


class Moments(Ranks):
    """Every recall fuses two arms by scores scaled by mean and deviation."""

    fusion = hr.DBSF()


class Lengths(EngineSubject):
    """Every recall weighs length by how far the lengths in scope differ."""

    def hits(self, call: Call) -> hr.Hits:
        said = arguments(self.shape, call)
        kept = {"text": {}} | {name: said[name] for name in ("text", "scope") if name in said}
        return self.index.recall(**kept, bm25=hr.BM25(b=(0.0, 1.0)), limit=10)


class ThreadOfAShard(IdfOfAShard):
    """Threads are counted in each shard alone, where their rows have neighbours."""

    def told(self, summed: Statistics, own: Statistics) -> Statistics:
        def spoiled(all_of: Counts, here: Counts) -> Counts:
            numbers = all_of.arrays["numbers"].reshape(-1, 6).copy()
            numbers[:, 3:5] = here.arrays["numbers"].reshape(-1, 6)[:, 3:5]
            freqs = here.arrays["thread_freqs"]
            arrays = {**all_of.arrays, "numbers": numbers.reshape(-1), "thread_freqs": freqs}
            return all_of._replace(arrays=arrays)

        runs = {name: spoiled(counts, own.runs[name]) for name, counts in summed.runs.items()}
        return replace(summed, runs=runs)


PLANTED = (
    (IdfOfAShard, EngineSubject),
    (MeanLengthOfAShard, EngineSubject),
    (SpreadOfAShard, Lengths),
    (TiesByShard, EngineSubject),
    (HalfTheDepth, EngineSubject),
    (NoCompletion, EngineSubject),
    (FusedInEachShard, Ranks),
    (FusedInEachShard, Scaled),
    (FusedInEachShard, Moments),
    (ThreadOfAShard, AroundSubject),
)
"""Each bug, and the subject whose calls must show it."""
