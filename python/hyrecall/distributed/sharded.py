"""An index split into shards, with the replies of a single index of all documents."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, Future
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeAlias

import pyarrow as pa

from hyrecall.ask.request import batch_of_one
from hyrecall.ask.scope import check_no_list
from hyrecall.base.arguments import as_items, check_keywords, same_options
from hyrecall.base.forks import free_in_children
from hyrecall.base.threads import off_loop
from hyrecall.distributed.shards import (
    Fault,
    LocalShard,
    Maker,
    OpenShards,
    Shard,
    ShardOpening,
    ask,
    damaged_shard,
    open_generation,
    told_of,
)
from hyrecall.distributed.shards_file import PlacedShards, SavedFolders, find_folders, read_folders
from hyrecall.errors import (
    CorruptIndexError,
    DTypeError,
    IndexNotFoundError,
    OptionError,
    StaleStatisticsError,
    error,
)
from hyrecall.hits.hits import Hits, QueryHits, reply_of
from hyrecall.hits.joined_reply import JoinedReply
from hyrecall.index import Index
from hyrecall.parts.merging import check_shards, merge
from hyrecall.parts.messages import Request, Statistics, hash_of
from hyrecall.recall.embedders import Embedders, embedders_at_open
from hyrecall.segments.segments import IndexFacts, State
from hyrecall.table.columns import OpenedRows, open_source
from hyrecall.table.schema import Schema

if TYPE_CHECKING:
    from hyrecall.embed.choose import Embeds
    from hyrecall.text.analyzer import Analyzer
    from hyrecall.text.bm25 import BM25

MOST_TRIES = 5
"""Number of tries of a call when documents change while it is answered."""

_REFUSED: Mapping[str, tuple[object, ...]] = {
    "surrounding": (0,), "expansion": ((), []), "graphs": (None, {}), "sort": (None, (), []),
    "facets": (None, (), []), "per_group": (None,), "min_confidence": (None,),
}  # fmt: skip
"""Options that shards which are asked apart do not support, with the values that ask for nothing,
the default first."""


@check_keywords
class ShardedIndex:
    """An index split into shards, with the replies of a single index, bit for bit.

    Shards in this process, on the CPU, are searched together, as the parts of one index, and answer
    all that one index answers. Others are asked twice: for the integers that BM25 counts, and, with
    their sums, for the best documents of each arm; of shards that :func:`build_shards` placed by
    cell, only those that may hold documents of a query. A reply that lacks a shard says so in
    ``degraded``. A document may lie in any shard; with threads, all rows of a thread lie in one.

    Create one with :meth:`build`, :meth:`open` or :meth:`on_ray`.

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
        """Take shards; use :meth:`build`, :meth:`open` or :meth:`on_ray`, or pass your own.

        Parameters
        ----------
        shards : sequence of Shard
            Objects with ``name``, ``statistics(request)``, ``candidates(request, statistics)`` and
            ``close()``. They raise :class:`hyrecall.errors.ShardLostError` if they do not answer.
        """
        if not shards:
            raise error(OptionError, "shards", "at least one", "none")
        names = [one.name for one in shards]
        if twice := [name for name in names if names.count(name) > 1]:
            wish = "a name of its own for each, which replies and errors give"
            raise error(OptionError, "shards", wish, f"{twice[0]!r} {names.count(twice[0])} times")
        self._now = OpenShards(tuple(shards))
        self._opener: Callable[[SavedFolders, OpenShards | None], OpenShards] | None = None
        self._embedders: Embedders | None = None
        self._paths: tuple[Path, ...] = ()
        self._is_closed = False
        self._taking_up = free_in_children(threading.Lock())

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
        KeyConflictError, OptionError
            Two tables have the same key in a cell, or rows of one thread; types differ.
        """
        given = _read_tables(tables, schema)
        rows = [None] * len(given) if vectors is None else list(vectors)
        if len(rows) != len(given):
            raise error(OptionError, "vectors", f"{len(given)} entries, one per table", len(rows))
        shards = []
        for number, (table, own) in enumerate(zip(given, rows, strict=True)):
            index = Index.build(
                table, schema, vectors=own, analyzer=analyzer, bm25=bm25, device=device,
                threads=threads, first_seq=first_seq,
            )  # fmt: skip
            first_seq += table.rows.num_rows
            shards.append(LocalShard(f"shard {number}", index))
        check_shards([(one.name, one.facts, one.index._state) for one in shards])
        return cls(shards)

    @classmethod
    def open(
        cls,
        paths: str | Path | Sequence[str | Path],
        *,
        analyzer: Analyzer | Mapping[str, Analyzer] | None = None,
        embed: Embeds = None,
        memory: str = "mmap",
        verify: str | None = None,
        pin: Sequence[str] | str = (),
        device: str = "auto",
        threads: int | None = None,
    ) -> ShardedIndex:
        """Open saved indexes as the shards of one index, in this process.

        They are searched together, with all threads; on a GPU, one after another.

        Parameters
        ----------
        paths : path-like, or sequence of path-like
            A folder that :func:`build_shards` wrote. Or folders that :meth:`hyrecall.Index.save`
            wrote, or the folder that holds these. Their insertion numbers must differ
            (``first_seq`` of build and add), and no two of them may have the same key in a cell;
            both are checked here.
        analyzer, embed
            As in :meth:`hyrecall.Index.open`; on a GPU, texts are not embedded.
        memory, verify, pin, device, threads
            For each shard, as in :meth:`hyrecall.Index.open`.

        Raises
        ------
        OptionError, KeyConflictError
            Indexes that are not shards of one index, or that have the same key in a cell; or as in
            :meth:`hyrecall.Index.open`.
        """
        opening = ShardOpening(device, threads, memory, verify, pin)
        made = cls._opened(paths, opening, analyzer=analyzer)
        try:
            made._embedders = embedders_at_open(embed, made._now.facts)
        except BaseException:
            made.close()
            raise
        return made

    @classmethod
    def on_ray(
        cls,
        paths: str | Path | Sequence[str | Path],
        *,
        memory: str = "mmap",
        verify: str | None = None,
        pin: Sequence[str] | str = (),
        device: str = "auto",
        threads: int | None = None,
        num_cpus: float = 1,
        num_gpus: float | None = None,
        max_restarts: int = -1,
        max_task_retries: int = 1,
        scheduling_strategy: Any = "SPREAD",
        timeout: float | None = None,
        start_timeout: float | None = None,
    ) -> ShardedIndex:
        """Open saved indexes as the shards of one index, each in a Ray actor (extra ``[ray]``).

        The actors live as long as this object is open. They run in the Ray cluster that the program
        is connected to, or else in a local one, which Ray starts.

        Parameters
        ----------
        paths : path-like, or sequence of path-like
            As in :meth:`open`; readable here and where the actors run.
        memory, pin, device, threads
            As in :meth:`open`.
        verify : {"full", "structure"}, optional
            As in :meth:`hyrecall.Index.open`, for each actor whenever it starts, since it may run
            on another machine than before. "full" also checks all shards here, now.
        num_cpus : float, default 1
            Cores that Ray reserves for each actor.
        num_gpus : float, optional
            GPUs that Ray reserves for each actor, which sees no other GPUs. Default: 1 for a named
            CUDA device, and for ``"auto"`` if the cluster has a GPU for every actor; else 0.
        max_restarts, max_task_retries, scheduling_strategy
            Options of Ray's actors: by default, an actor that ended starts again as often as
            needed, a question that it did not answer is asked once more, and the actors are spread
            over the nodes.
        timeout : float, optional
            Seconds that an answer may take; then the reply lacks the shard. The actor goes on.
        start_timeout : float, optional
            Seconds within which all actors must have started; default: 120. Ray queues an actor
            until a node has room for it, perhaps one that the cluster still adds.

        Raises
        ------
        MissingExtraError
            Ray is not installed.
        ShardLostError
            Not all actors started in time.
        OptionError, KeyConflictError, CorruptIndexError, IndexNotFoundError
            As in :meth:`open`.
        """
        from hyrecall.distributed.ray_cluster import ray_shards

        opening = ShardOpening(device, threads, memory, verify, pin)
        make = partial(
            ray_shards, opening=opening, num_cpus=num_cpus, num_gpus=num_gpus, timeout=timeout,
            start_timeout=start_timeout, max_restarts=max_restarts,
            max_task_retries=max_task_retries, scheduling_strategy=scheduling_strategy,
        )  # fmt: skip
        return cls._opened(paths, opening, make=make)

    @classmethod
    def _opened(
        cls,
        paths: object,
        opening: ShardOpening,
        *,
        analyzer: Any = None,
        make: Maker | None = None,
    ) -> ShardedIndex:
        """Open the saved indexes that paths name, and later generations of them."""
        opener = partial(open_generation, opening=opening, analyzer=analyzer, make=make)
        given = tuple(one.absolute() for one in read_folders("paths", paths))
        while True:
            found = find_folders(given)
            try:
                first = opener(found, None)
                break
            except CorruptIndexError:
                if found.placed is None or found.placed.is_current:
                    raise
        made = cls(first.shards)
        made._now, made._opener, made._paths = first, opener, given
        return made

    @property
    def shards(self) -> tuple[Shard, ...]:
        """The shards; those in this process have their :class:`hyrecall.Index` as ``index``.

        A :meth:`reload` may replace them.
        """
        return self._now.shards

    @cached_property
    def _facts(self) -> IndexFacts:
        """The facts of all shards, which a :meth:`reload` does not change."""
        facts, own = self._now.facts, self._embedders
        return facts if own is None else replace(facts, embedded={**facts.embedded, **own.embedded})

    @property
    def _is_whole(self) -> bool:
        """Whether the shards are searched as one index."""
        return self._now.indexes is not None

    @property
    def _state(self) -> State:
        """The documents of all shards, as the nodes of a graph."""
        indexes = self._now.indexes
        whole = None if indexes is None else self._now.joined(indexes.values(), self._index_of)
        if whole is None:
            raise error(OptionError, "nodes", "shards of this process, on the CPU", "others")
        return whole._state

    def _index_of(self, state: State) -> Index:
        made = Index(self._facts, state, "cpu")
        made._embedders = self._embedders
        return made

    @property
    def schema(self) -> Schema:
        """The schema of all shards."""
        return self._facts.schema

    @property
    def is_stale(self) -> bool:
        """Whether the folders hold other versions than the open ones, or cannot be read any more.

        For a folder that :func:`build_shards` wrote: whether ``shards.json`` names another
        generation. An index that was not opened from folders is never stale.
        """
        now = self._now
        if not now.saved:
            return False
        try:
            if now.placed is not None:
                return not now.placed.is_current
            found = find_folders(self._paths)
            return list(zip(found.folders, found.seals, strict=True)) != now.versions
        except (OSError, CorruptIndexError, IndexNotFoundError):
            return True

    def reload(self) -> None:
        """Take up the versions that the folders of the shards hold now, in one step.

        New versions are opened while the old ones answer; shards that did not change stay open.
        Recalls go on meanwhile: each ends with the shards with which it began.

        Raises
        ------
        OptionError
            The folders hold shards of another schema.
        CorruptIndexError, IndexNotFoundError, KeyConflictError, ShardLostError
            As :meth:`open` and :meth:`on_ray`; the old versions go on answering.
        """
        self._check_open()
        with self._taking_up:
            while self._opener is not None and self.is_stale:
                now = self._now
                if now.placed is None:
                    found = find_folders(self._paths)
                else:
                    newer = PlacedShards.read(now.placed.folder)
                    found = SavedFolders(newer.folders, newer, is_index=False)
                try:
                    made = self._opener(found, now)
                except CorruptIndexError:
                    if found.placed is None or found.placed.is_current:
                        raise
                    continue  # it was replaced while it was opened
                self._take_up(now, made)

    def _take_up(self, now: OpenShards, made: OpenShards) -> None:
        """Replace a generation; its other shards close when no recall uses them any more."""
        is_same = hash_of(made.facts) == hash_of(now.facts)
        if is_same and not self._is_closed:
            self._now = made
            if not self._is_closed:  # else it was closed meanwhile
                return
        for one in made.shards:
            if one not in now.shards:
                one.close()
        self._check_open()
        wish = "shards with the same schema, analyzers and dimensions"
        told = ", ".join(map(repr, map(str, self._paths)))
        remedy = f"open them: ShardedIndex.open({told})"
        raise error(OptionError, "path", wish, "those of another index", remedy)

    def _check_open(self) -> None:
        if self._is_closed:
            raise error(OptionError, "index", "an open index", "a closed one")

    def close(self) -> None:
        """Close every shard. Closing twice is allowed; hits stay usable."""
        self._is_closed = True
        for one in self.shards:
            one.close()
        self._now.last_joined.clear()
        if self._embedders is not None:
            self._embedders.close()

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

    @same_options(Index.recall)
    def recall(self, **options: Any) -> Hits:
        """Answer a batch of queries as :meth:`hyrecall.Index.recall` does.

        ``hits.trace.degraded`` names each shard that does not answer or whose files are damaged.
        Shards on Ray or on a GPU refuse by name what reads more than candidates: graphs,
        :class:`hyrecall.arms.Tags`, ``expansion``, ``surrounding`` and :class:`hyrecall.Feedback`,
        ``hit.evidence()`` and ``explain()``. They embed no texts: without ``vectors`` the reply is
        ``degraded``. There ``hit.text`` works only if its columns are in ``columns``.

        Raises
        ------
        ShardLostError, CorruptIndexError
            No shard answers; the files of all shards that are asked are damaged.
        StaleStatisticsError
            Documents changed during each of five tries.
        """
        hits: Hits = self._recall(Index.recall, options)
        return hits

    @same_options(Index.recall_one)
    def recall_one(self, **options: Any) -> QueryHits:
        """Answer one query as :meth:`hyrecall.Index.recall_one` does; see :meth:`recall`."""
        hits: QueryHits = self._recall(Index.recall_one, options)
        return hits

    @same_options(Index.recall)
    async def arecall(self, **options: Any) -> Hits:
        """Answer as :meth:`recall` does, off the event loop."""
        return await off_loop(self.recall, options)

    @same_options(Index.recall_one)
    async def arecall_one(self, **options: Any) -> QueryHits:
        """Answer as :meth:`recall_one` does, off the event loop."""
        return await off_loop(self.recall_one, options)

    def _recall(self, method: Callable[..., Any], options: Mapping[str, Any]) -> Any:
        """Answer from shards in this process as one index does; ask others."""
        self._check_open()
        now = self._now  # to the end of this recall
        indexes = now.indexes
        whole = None if indexes is None else now.joined(indexes.values(), self._index_of)
        if indexes is not None and whole is not None:
            try:
                return _asked_whole(whole, method, options)
            except CorruptIndexError as fault:
                return self._without_damaged(now, indexes, fault, method, options)
        if method is Index.recall:
            return self._answer(_read_request(options))
        check_no_list(options.get("scope"))
        given = dict(options)
        given["vectors"] = batch_of_one(given.pop("vector", None))
        for name in ("text", "candidates"):
            if name == "text" or isinstance(given.get(name), Mapping):
                given[name] = batch_of_one(given.get(name))
        return self._answer(_read_request(given))[0]

    def _without_damaged(
        self,
        now: OpenShards,
        indexes: Mapping[str, Index],
        fault: CorruptIndexError,
        method: Callable[..., Any],
        options: Mapping[str, Any],
    ) -> Any:
        """Answer from the shards whose files can be read."""
        sound = dict(indexes)
        lost: dict[str, Fault] = {}
        needed = None if now.router is None else now.router.needed(options.get("scope"))
        first = fault
        while True:
            name = damaged_shard(sound, fault, lambda one: _asked_whole(one, method, options))
            lost[name] = fault
            del sound[name]
            if not any(one.name in sound for one in _asked_shards(now, needed)):
                raise first
            whole = now.joined(sound.values(), self._index_of)
            assert whole is not None
            try:
                hits = _asked_whole(whole, method, options)
                break
            except CorruptIndexError as another:
                fault = another
        told, about = _told(now, needed, lost)
        reply = _noted(reply_of(hits), told, about)
        return Hits(reply) if isinstance(hits, Hits) else QueryHits(reply.part_of(0), 0)

    def _answer(self, request: Request) -> Hits:
        now = self._now  # to the end of this recall
        for left in reversed(range(MOST_TRIES)):
            try:
                return _asked(now, request)
            except StaleStatisticsError:
                if not left:
                    raise
        raise AssertionError("unreachable")


def _asked_whole(index: Index, method: Callable[..., Any], options: Mapping[str, Any]) -> Any:
    """Answer from one index; what hits will show is read now, while other shards can answer."""
    hits = method(index, **options)
    if len(index._state.files):
        reply = reply_of(hits)
        for name in (reply.facts.schema.key, *reply.facts.schema.cell_columns, *reply.columns):
            reply.column(name)
    return hits


Needed: TypeAlias = list[frozenset[int]] | frozenset[int] | None
"""The shards that each query needs, or every query; None: all."""


def _asked_shards(now: OpenShards, needed: Needed) -> tuple[Shard, ...]:
    if needed is None:  # all shards, which say why a scope cannot be read
        return now.shards
    of_all = needed if isinstance(needed, frozenset) else frozenset().union(*needed)
    return tuple(now.shards[number] for number in sorted(of_all or {0}))


def _told(
    now: OpenShards, needed: Needed, lost: Mapping[str, Fault]
) -> tuple[list[str], dict[str, dict[int, str]]]:
    """Return what is said of lost shards, and what is only about the queries that need them."""
    told: list[str] = []
    about: dict[str, dict[int, str]] = {}
    asked = _asked_shards(now, needed)
    for number, shard in enumerate(now.shards):
        if shard.name not in lost or shard not in asked:
            continue
        told.append(told_of(shard.name, lost[shard.name]))
        if isinstance(needed, list):
            queries = [query for query, own in enumerate(needed) if number in own]
            if len(queries) < len(needed):
                about[told[-1]] = dict.fromkeys(queries, told[-1])
    return told, about


def _asked(now: OpenShards, request: Request) -> Hits:
    """Ask the shards that a request needs for counts, then for documents with their sums."""
    needed = None if now.router is None else now.router.needed(request.given["scope"])
    asked = _asked_shards(now, needed)
    lost: dict[str, Fault] = {}
    if len(asked) == 1 and hasattr(asked[0], "begin"):  # in one trip
        found = ask(asked, lost, "alone", request)
    else:
        counted = ask(asked, lost, "statistics", request)
        summed = Statistics.sum([counts for _, counts in counted])
        found = ask([one for one, _ in counted], lost, "candidates", request, summed)
    told, about = _told(now, needed, lost)
    hits = merge(request, [part for _, part in found], degraded=told)
    return Hits(_noted(reply_of(hits), [], about)) if about else hits


def _noted(reply: Any, told: Sequence[str], about: Mapping[str, Mapping[int, str]]) -> Any:
    """Return a reply that reports lost shards, some only for the queries that need them."""

    def noted(reply: Any) -> Any:
        trace = reply.trace
        degraded, own = (*told, *trace.degraded), trace.about | about
        return replace(reply, trace=replace(trace, degraded=degraded, about=own))

    reply = noted(reply)
    if isinstance(reply, JoinedReply):
        reply = replace(reply, replies=tuple(noted(one) for one in reply.replies))
    return reply


def _read_tables(tables: object, schema: Schema) -> list[OpenedRows]:
    """Return tables, each of which becomes a shard."""
    given = None if isinstance(tables, pa.Table) else as_items(tables)
    if not given:
        wish = "a sequence of tables, one per shard"
        raise error(OptionError, "tables", wish, type(tables).__name__)
    if not isinstance(schema, Schema):
        raise error(DTypeError, "schema", "an hr.Schema", type(schema).__name__)
    opened = [open_source(one, schema) for one in given]
    return [
        one if isinstance(one.rows, pa.Table) else one._replace(rows=one.rows.read_all())
        for one in opened
    ]


def _read_request(options: Mapping[str, Any]) -> Request:
    """Make the request of a call; options that shards asked apart do not support are refused."""
    given = dict(options)
    for name, nothing in _REFUSED.items():
        value = given.pop(name, None)
        if value is not None and value not in nothing:
            wish = f"{nothing[0]!r} in a recall over shards (it reads more than candidates)"
            raise error(OptionError, name, wish, repr(value)[:80])
    return Request(**given)


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
