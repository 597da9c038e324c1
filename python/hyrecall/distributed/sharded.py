"""An index split into shards, with the replies of a single index of all documents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hyrecall.ask.request import batch_of_one
from hyrecall.ask.scope import check_no_list
from hyrecall.base.keywords import check_keywords, same_options
from hyrecall.base.workers import off_loop
from hyrecall.distributed.asking import NO_GRAPHS
from hyrecall.distributed.generations import Generation, Generations, Opener
from hyrecall.distributed.graph_calls import Graphs, take_graphs
from hyrecall.distributed.lost_shards import told_of
from hyrecall.distributed.opening import (
    Replication,
    check_alike,
    open_apart,
    open_found,
    open_here,
    process_shards,
    read_request,
    read_tables,
)
from hyrecall.distributed.shard_opening import ShardOpening
from hyrecall.distributed.shards import LocalShard, Shard
from hyrecall.distributed.turns import turns
from hyrecall.distributed.upkeep import ShardUpkeep
from hyrecall.errors import OptionError, ShardLostError, StaleStatisticsError, error
from hyrecall.graph.asked import nodes_of
from hyrecall.hits.hit import QueryHits
from hyrecall.hits.hits import Hits
from hyrecall.index import Index
from hyrecall.parts.lookups import lookup_keys
from hyrecall.parts.request import Request

if TYPE_CHECKING:
    import pyarrow as pa

    from hyrecall.segments.segments import State
    from hyrecall.table.schema import Schema
    from hyrecall.text.analyzer import Analyzer
    from hyrecall.text.bm25 import BM25

__all__ = ["ShardedIndex"]

MOST_TRIES = 5
"""Number of tries of a call when documents change while it is answered."""


@check_keywords
class ShardedIndex(ShardUpkeep):
    """An index split into shards, with the replies of a single index, bit for bit.

    A recall asks every shard twice: for the integers that BM25 counts, and, with their sums, for
    the best documents of each arm. A query that needs one shard asks it once. A reply that lacks a
    shard says so in ``degraded``. A document may lie in any shard; with threads, all rows of a
    thread lie in one shard. Shards that :func:`build_shards` placed by cell get only the queries
    whose documents they may hold.

    Create one with :meth:`build` or :meth:`open`.

    Examples
    --------
    >>> import pyarrow as pa
    >>> import hyrecall as hr
    >>> from hyrecall.distributed import ShardedIndex
    >>> rows = {"user": ["ann", "bob"], "text": ["hot tea", "green tea"]}
    >>> tables = [pa.table({"id": ["a", "b"], **rows}), pa.table({"id": ["c", "d"], **rows})]
    >>> index = ShardedIndex.build(tables, hr.Schema(key="id", cell="user", text="text"))
    >>> index.recall(text=["tea"], scope="ann")[0].keys
    ['a', 'c']
    """

    def __init__(self, shards: Sequence[Shard]) -> None:
        """Take shards; use :meth:`build` or :meth:`open`, or pass your own shard objects.

        Parameters
        ----------
        shards : sequence of Shard
            Objects with ``name``, ``statistics(request)``, ``candidates(request, statistics)`` and
            ``close()``. The methods that ask raise :class:`hyrecall.errors.ShardLostError` if the
            shard does not answer, :class:`hyrecall.errors.CorruptIndexError` if its files are
            damaged. Over such objects alone, graphs and tags are refused; beside a shard that this
            package opened they need ``lookup(lookup)``.
        """
        if not shards:
            raise error(OptionError, "shards", "at least one", "none")
        names = [one.name for one in shards]
        if twice := [name for name in names if names.count(name) > 1]:
            wish = "a name of its own for each, which replies and errors give"
            raise error(OptionError, "shards", wish, f"{twice[0]!r} {names.count(twice[0])} times")
        self._generations = Generations(Generation(shards))

    @classmethod
    def build(
        cls,
        tables: Sequence[object],
        schema: Schema,
        *,
        vectors: Sequence[Mapping[str, object] | None] | None = None,
        analyzer: Analyzer | None = None,
        bm25: BM25 | None = None,
        device: str = "auto",
        threads: int | None = None,
        first_seq: int = 0,
    ) -> ShardedIndex:
        """Index tables, each as a shard in this process."""
        # Replies equal those of ``Index.build`` of all tables, concatenated.
        given = read_tables(tables)
        rows = [None] * len(given) if vectors is None else list(vectors)
        if len(rows) != len(given):
            raise error(OptionError, "vectors", f"{len(given)} entries, one per table", len(rows))
        shards = []
        for number, (table, own) in enumerate(zip(given, rows, strict=True)):
            index = Index.build(
                table, schema, vectors=own, analyzer=analyzer, bm25=bm25, device=device,
                threads=threads, first_seq=first_seq,
            )  # fmt: skip
            first_seq += table.num_rows
            shards.append(LocalShard(f"shard {number}", index))
        check_alike(shards)
        return cls(shards)

    @classmethod
    def open(
        cls,
        paths: str | Path | Sequence[str | Path],
        *,
        processes: bool = False,
        replicas: int = 1,
        analyzer: Analyzer | Mapping[str, Analyzer] | None = None,
        memory: str = "mmap",
        verify: str | None = None,
        pin: Sequence[str] | str = (),
        device: str = "auto",
        threads: int | None = None,
        timeout: float | None = None,
        hedge: float | None = None,
    ) -> ShardedIndex:
        """Open saved indexes as the shards of one index."""
        opening = ShardOpening(device, threads, memory, verify, pin)
        replication = Replication(replicas, hedge, timeout)
        if not processes:
            if replication.n > 1:
                raise error(OptionError, "replicas", "1 without processes=True", replicas)
            if timeout is not None:
                raise error(OptionError, "timeout", "None without processes=True", timeout)
            return cls._opened(paths, partial(open_here, opening=opening, analyzer=analyzer))
        if analyzer is not None:
            wish = "None beside processes=True (a callable cannot be sent)"
            raise error(OptionError, "analyzer", wish, repr(analyzer))
        make = partial(process_shards, replication=replication, opening=opening, timeout=timeout)
        return cls._opened(paths, partial(open_apart, opening=opening, make=make))

    @classmethod
    def on_ray(
        cls,
        paths: str | Path | Sequence[str | Path],
        *,
        replicas: int = 1,
        memory: str = "mmap",
        verify: str | None = None,
        pin: Sequence[str] | str = (),
        device: str = "auto",
        threads: int | None = None,
        timeout: float | None = None,
        hedge: float | None = None,
        num_cpus: float = 1,
        num_gpus: float | None = None,
        start_timeout: float | None = None,
    ) -> ShardedIndex:
        """Open saved indexes as the shards of one index, each in a Ray actor (extra ``[ray]``)."""
        # The actors live as long as this object is open. They run in the Ray cluster that
        # the program
        # is connected to, or else in a local one, which Ray starts.
        from hyrecall.distributed.ray_shards import ray_shards

        opening = ShardOpening(device, threads, memory, verify, pin)
        replication = Replication(replicas, hedge, timeout)
        make = partial(
            ray_shards, replication=replication, opening=opening, timeout=timeout,
            num_cpus=num_cpus, num_gpus=num_gpus, start_timeout=start_timeout,
        )  # fmt: skip
        return cls._opened(paths, partial(open_apart, opening=opening, make=make))

    @classmethod
    def _opened(cls, paths: object, opener: Opener) -> ShardedIndex:
        """Open the saved indexes that paths name, and later generations of them."""
        opened = open_found(paths, opener)
        made = cls(opened.shards)
        made._generations = Generations(Generation(opened.shards, opened), opener)
        return made

    @same_options(Index.recall)
    def recall(self, **options: Any) -> Hits:
        """Answer a batch of queries as :meth:`hyrecall.Index.recall` does.

        A graph must have this object as ``nodes``; its edges are searched in this process.
        ``surrounding`` and :class:`hyrecall.Feedback` are refused: they read more than candidates.
        Tags may lie in any shard: :class:`hyrecall.arms.Tags` asks once more and once for each hop,
        :class:`hyrecall.SharedTags` once when the hits are known. Texts are not embedded here: if
        the shards name an embedder and there are no ``vectors``, the reply is ``degraded``.
        ``hit.text`` works only if its columns are in ``columns``, and ``hit.evidence()`` and
        ``explain()`` are refused. ``hits.trace.degraded`` names each shard that does not answer or
        whose files are damaged.

        Raises
        ------
        ScopeError, OptionError, ShapeError, DTypeError
            As :meth:`hyrecall.Index.recall`, and for options that are refused here.
        ShardLostError
            No shard answers.
        CorruptIndexError
            The files of all shards that are asked are damaged.
        StaleStatisticsError
            Documents changed during each of five tries.
        """
        return self._answer(*self._read(options))

    @same_options(Index.recall_one)
    def recall_one(self, **options: Any) -> QueryHits:
        """Answer one query as :meth:`hyrecall.Index.recall_one` does; see :meth:`recall`."""
        check_no_list(options.get("scope"))
        given = dict(options)
        given["vectors"] = batch_of_one(given.pop("vector", None))
        for name in ("text", "candidates"):
            if name == "text" or isinstance(given.get(name), Mapping):
                given[name] = batch_of_one(given.get(name))
        return self._answer(*self._read(given))[0]

    @same_options(Index.recall)
    async def arecall(self, **options: Any) -> Hits:
        """Answer as :meth:`recall` does, off the event loop."""
        return await off_loop(self.recall, options)

    @same_options(Index.recall_one)
    async def arecall_one(self, **options: Any) -> QueryHits:
        """Answer as :meth:`recall_one` does, off the event loop."""
        return await off_loop(self.recall_one, options)

    def _read(self, options: Mapping[str, Any]) -> tuple[Request, Graphs]:
        """Return the request of a call, and the graphs that it names."""
        given, graphs = take_graphs(self, options)
        return read_request(given, has_graphs=bool(graphs)), graphs

    def _nodes_in(self, scopes: Sequence[object], keys: Sequence[pa.Array]) -> State:
        """Return a state of the documents of each scope that have one of its keys."""
        with self._generations.used() as one:
            facts, looking = one.facts, one.looking()
            found = looking.ask(lookup_keys(facts, "graph", scopes, keys))
            if looking.lost:  # nothing in the result could say that documents are missing
                got = "; ".join(told_of(looking.lost))
                raise error(ShardLostError, "nodes", "an answer of all shards", got)
            return nodes_of(facts, found)

    def _answer(self, request: Request, graphs: Graphs = NO_GRAPHS) -> Hits:
        with self._generations.used() as one:
            for left in reversed(range(MOST_TRIES)):
                try:
                    with turns.kept():
                        return one.answer(request, graphs)
                except StaleStatisticsError:
                    if not left:
                        raise
        raise AssertionError("unreachable")
