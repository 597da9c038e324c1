"""An index split into shards, with the replies of a single index of all documents."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor, Future
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from hyrecall.ask.request import batch_of_one
from hyrecall.ask.scope import check_no_list
from hyrecall.base.arguments import check_keywords, check_methods, same_options
from hyrecall.base.threads import off_loop
from hyrecall.distributed.generations import Generations, Opener, ShardGeneration, n_replicas
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
from hyrecall.distributed.replicated import ReplicatedShard
from hyrecall.distributed.shards import LocalShard, OpenShard, Shard, ShardOpening, turns
from hyrecall.errors import (
    CorruptIndexError,
    OptionError,
    ShardLostError,
    StaleStatisticsError,
    error,
)
from hyrecall.hits.hits import Hits, QueryHits
from hyrecall.index import Index
from hyrecall.parts.request import Request
from hyrecall.segments.segments import IndexFacts

if TYPE_CHECKING:
    from hyrecall.table.schema import Schema
    from hyrecall.text.analyzer import Analyzer
    from hyrecall.text.bm25 import BM25


# ---- The methods of a sharded index besides recalls: health checks, new versions and closing ----


class ShardHealth(NamedTuple):
    """The number of replicas of a shard, and how many of them do not answer."""

    n_replicas: int
    n_lost: int

    @property
    def is_lost(self) -> bool:
        """Whether no replica answers."""
        return self.n_lost == self.n_replicas


@check_methods
class ShardUpkeep:
    """The methods of a sharded index besides recalls."""

    _generations: Generations

    @property
    def shards(self) -> tuple[Shard, ...]:
        """The shards; those in this process have their :class:`hyrecall.Index` as ``index``.

        A :meth:`reload` may replace them.
        """
        return self._generations.current.shards

    @property
    def _facts(self) -> IndexFacts:
        return self._generations.current.facts

    @property
    def schema(self) -> Schema:
        """The schema of all shards."""
        return self._facts.schema

    @property
    def is_stale(self) -> bool:
        """Whether there is a newer version that only :meth:`reload` loads.

        For a folder that :func:`build_shards` wrote: whether ``shards.json`` names another
        generation than the open one, or is gone. For saved indexes: whether a shard in this process
        holds another version than its folder. Shards in other processes, and replicas, load new
        versions of saved indexes by themselves.
        """
        if self._generations.current.placed is not None:
            return self._generations.is_stale
        return any(isinstance(one, LocalShard) and one.index.is_stale for one in self.shards)

    def reload(self) -> None:
        """Load the versions that the folders of the shards hold now.

        The replicas of a shard load the new version one after another, while the others answer. The
        new version answers once at least half of the running replicas have it; all of them have it
        when this returns. Recalls go on meanwhile, and a reply never mixes two versions of a shard.

        For a folder that :func:`build_shards` wrote, this reads ``shards.json`` again. If a
        rebalancing or another build replaced it, the new shards are opened while the old generation
        answers, and then replace it in one step. A recall uses the generation with which it began,
        to its end; shards that only the old generation has are closed after its last recall.

        Raises
        ------
        ShardLostError
            No replica of a shard answers. If the shard belongs to a new generation, the old
            generation stays.
        CorruptIndexError, IndexNotFoundError
            As :meth:`hyrecall.Index.open`; the shard, or the old generation, stays as it was.
        OptionError
            The folder holds shards of another schema; or as :meth:`hyrecall.Index.reload`, for
            shards in this process.
        WriterBusyError
            As :meth:`hyrecall.Index.reload`, for shards in this process.
        """
        self._generations.take_up()
        with self._generations.used() as one:
            one.reload(one.shards)

    def health(self) -> Mapping[str, ShardHealth]:
        """Return how many replicas each shard has, and how many of them do not answer.

        A replica that is answering a question counts as one that answers.

        Returns
        -------
        mapping of str to ShardHealth
            By the names of shards in ``degraded``: ``(n_replicas, n_lost)``, and ``is_lost``.

        Examples
        --------
        >>> import pyarrow as pa
        >>> import hyrecall as hr
        >>> from hyrecall.distributed import ShardedIndex
        >>> table = pa.table({"id": ["a"], "text": ["tea"]})
        >>> index = ShardedIndex.build([table], hr.Schema(key="id", cell=None, text="text"))
        >>> index.health()
        {'shard 0': ShardHealth(n_replicas=1, n_lost=0)}
        """

        def ask(one: Shard) -> ShardHealth:
            is_lost = False
            try:
                if isinstance(one, OpenShard):
                    one.check()
            except (ShardLostError, CorruptIndexError):
                is_lost = True
            n = n_replicas(one)
            return ShardHealth(n, one.n_lost if isinstance(one, ReplicatedShard) else int(is_lost))

        with self._generations.used() as now:
            names = [one.name for one in now.shards]
            run = map if now.checks is None else now.checks.map
            return dict(zip(names, run(ask, now.shards), strict=True))

    def close(self) -> None:
        """Close every shard. Closing twice is allowed; hits stay usable."""
        self._generations.close()

    def __enter__(self) -> Self:
        """Use the index in a with statement."""
        return self

    def __exit__(self, *exc: object) -> None:
        """Close the index."""
        self.close()

    def __len__(self) -> int:
        """Return the number of shards."""
        return len(self.shards)

    def __repr__(self) -> str:
        """Show the names of the shards."""
        return f"<{type(self).__name__}: {', '.join(one.name for one in self.shards)}>"


# ---- An index split into shards, with the replies of a single index of all documents ----

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
            damaged.
        """
        if not shards:
            raise error(OptionError, "shards", "at least one", "none")
        names = [one.name for one in shards]
        if twice := [name for name in names if names.count(name) > 1]:
            wish = "a name of its own for each, which replies and errors give"
            raise error(OptionError, "shards", wish, f"{twice[0]!r} {names.count(twice[0])} times")
        self._generations = Generations(ShardGeneration(shards))

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
        """Index tables, each as a shard in this process.

        Replies equal those of ``Index.build`` of all tables, concatenated.

        Parameters
        ----------
        tables : sequence of table
            As in :meth:`hyrecall.Index.build`, with columns of the same types.
        schema : Schema
        vectors : sequence of mapping or None, optional
            For each table, as in :meth:`hyrecall.Index.build`.
        analyzer, bm25, device, threads
            As in :meth:`hyrecall.Index.build`.
        first_seq : int, default 0
            Insertion number of the first row of the first table.

        Raises
        ------
        KeyConflictError
            Two tables have the same key in a cell.
        OptionError
            A thread has rows in two tables, or the types of tables differ.
        DTypeError, ShapeError, DeviceUnavailableError, DeviceMemoryError
            As in :meth:`hyrecall.Index.build`.
        """
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
        """Open saved indexes as the shards of one index.

        Parameters
        ----------
        paths : path-like, or sequence of path-like
            A folder that :func:`build_shards` wrote: each shard gets only the queries that may
            find something there. Or folders that :meth:`hyrecall.Index.save` wrote, or the folder
            that holds these. Their insertion numbers must differ (``first_seq`` of build and add),
            and no two of them may have the same key in a cell; both are checked here.
        processes : bool, default False
            Open each shard in its own process, which loads newer saved versions by itself; an
            analyzer with a callable is then refused.
        replicas : int, default 1
            Processes for each folder, which share its questions. If one does not answer a question,
            another is asked; a shard is lost only if none answers.
        analyzer : Analyzer or mapping of str to Analyzer, optional
            As in :meth:`hyrecall.Index.open`.
        memory, pin, device, threads
            For each shard, as in :meth:`hyrecall.Index.open`; its process locks ``pin``.
        verify : {"full", "structure"}, optional
            As in :meth:`hyrecall.Index.open`. With ``processes=True``, "full" checks all shards
            here, now; by default each process checks its shard when it opens it. A process that
            replaces another does not check the same version again.
        timeout : float, optional
            Seconds that a process may take for an answer before it counts as lost.
        hedge : float, optional
            Seconds after which a question is also sent to a second replica; needs ``timeout``. The
            first answer is used. Default: only if the first replica does not answer.

        Raises
        ------
        OptionError
            No path, an unknown option, an analyzer with ``processes``, replicas or a timeout
            without it, or indexes that are not shards of one index. Parts to pin that the system
            does not lock; with ``processes=True``, the first call raises this.
        KeyConflictError
            Two of them have the same key in a cell.
        CorruptIndexError, IndexNotFoundError
            As in :meth:`hyrecall.Index.open`.
        """
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
        """Open saved indexes as the shards of one index, each in a Ray actor (extra ``[ray]``).

        The actors live as long as this object is open. They run in the Ray cluster that the program
        is connected to, or else in a local one, which Ray starts.

        Parameters
        ----------
        paths : path-like, or sequence of path-like
            As in :meth:`open`; readable here and where the actors run.
        replicas : int, default 1
            Actors for each folder, on different nodes where there are several.
        memory, pin, device, threads, hedge
            As in :meth:`open`.
        verify : {"full", "structure"}, optional
            As in :meth:`hyrecall.Index.open`, for each actor whenever it starts, since it may run
            on another machine than before. "full" also checks all shards here, now.
        timeout : float, optional
            Seconds that an actor may take for an answer. One that takes longer counts as lost; it
            is ended, and Ray starts it again.
        num_cpus : float, default 1
            Cores that Ray reserves for each actor.
        num_gpus : float, optional
            GPUs that Ray reserves for each actor, which sees no other GPUs. Default: 1 for a named
            CUDA device, and for ``"auto"`` if the cluster has a GPU for every actor; else 0.
        start_timeout : float, optional
            Seconds within which all actors must have started. Ray does not say whether a cluster
            can add nodes. If it can, pass this argument: the actors then wait for new nodes.
            Default: 120 s, and the cluster must have room for all actors now.

        Raises
        ------
        MissingExtraError
            Ray is not installed.
        OptionError
            The actors reserve more than the cluster has, and there is no ``start_timeout``; or as
            in :meth:`open`.
        ShardLostError
            Not all actors started in time.
        KeyConflictError, CorruptIndexError, IndexNotFoundError
            As in :meth:`open`.
        """
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
        made._generations = Generations(ShardGeneration(opened.shards, opened), opener)
        return made

    @same_options(Index.recall)
    def recall(self, **options: Any) -> Hits:
        """Answer a batch of queries as :meth:`hyrecall.Index.recall` does.

        What reads more than candidates is refused by name: graphs, :class:`hyrecall.arms.Tags`,
        ``expansion``, ``surrounding`` and :class:`hyrecall.Feedback`. Recall from one index then.
        Texts are not embedded here: if the shards name an embedder and there are no ``vectors``,
        the reply is ``degraded``.
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
        return self._answer(read_request(options))

    @same_options(Index.recall_one)
    def recall_one(self, **options: Any) -> QueryHits:
        """Answer one query as :meth:`hyrecall.Index.recall_one` does; see :meth:`recall`."""
        check_no_list(options.get("scope"))
        given = dict(options)
        given["vectors"] = batch_of_one(given.pop("vector", None))
        for name in ("text", "candidates"):
            if name == "text" or isinstance(given.get(name), Mapping):
                given[name] = batch_of_one(given.get(name))
        return self._answer(read_request(given))[0]

    @same_options(Index.recall)
    async def arecall(self, **options: Any) -> Hits:
        """Answer as :meth:`recall` does, off the event loop."""
        return await off_loop(self.recall, options)

    @same_options(Index.recall_one)
    async def arecall_one(self, **options: Any) -> QueryHits:
        """Answer as :meth:`recall_one` does, off the event loop."""
        return await off_loop(self.recall_one, options)

    def _answer(self, request: Request) -> Hits:
        with self._generations.used() as one:
            for left in reversed(range(MOST_TRIES)):
                try:
                    with turns.kept():
                        return one.answer(request)
                except StaleStatisticsError:
                    if not left:
                        raise
        raise AssertionError("unreachable")


# ---- Loads newer versions of an index, or of its shards, while it answers requests ----

LOOK_AGAIN = 1.0
"""Seconds after which a request lets the folder be looked at again."""


class NewerVersions:
    """Looks for newer versions of an index, and loads them in a thread."""

    def __init__(self, index: Index | ShardedIndex, threads: Executor, log: logging.Logger) -> None:
        self._index, self._threads, self._log = index, threads, log
        self._looked = time.monotonic()
        self._is_after_pause = False
        self.loading: Future[None] | None = None

    async def look_again(self) -> None:
        """Load a newer version if the last look is long ago."""
        # Requests go on meanwhile. The first ones after a pause wait for it, at most LOOK_AGAIN:
        # nobody has looked during the pause, so the open version may be as old as the pause is
        # long.
        now = time.monotonic()
        is_busy = self.loading is not None and not self.loading.done()
        if not is_busy and now >= self._looked + LOOK_AGAIN:
            self._is_after_pause = now >= self._looked + 2 * LOOK_AGAIN
            self._looked = now
            self.loading = self._threads.submit(self._load)
        if self._is_after_pause and self.loading is not None and not self.loading.done():
            await asyncio.wait([asyncio.wrap_future(self.loading)], timeout=LOOK_AGAIN)

    def _load(self) -> None:
        try:
            if self._index.is_stale and self._index.reload() is not False:
                self._log.info("index: took up the version that was saved anew")
        except Exception as fault:  # also those of the file system; nothing reads the Future
            kind = type(fault).__name__
            self._log.error("index: the new version cannot be read (%s)", kind)
