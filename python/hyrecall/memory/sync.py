"""The store for programs without an event loop; :mod:`hyrecall.memory.memory` awaits its methods.

A method that reads or changes what is there makes a :class:`hyrecall.memory.view.View` for its
caller; ``remember`` takes the user from the episode.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, TypeAlias, Unpack

from hyrecall.ask.filter_json import FilterLike
from hyrecall.ask.recipe import Recipe
from hyrecall.base.arguments import check_keywords
from hyrecall.base.progress import ProgressFunction
from hyrecall.memory import census, changing, plain, upkeep
from hyrecall.memory.agent_memory import AgentMemorySync
from hyrecall.memory.changing import Remembered
from hyrecall.memory.data.matches import Matches
from hyrecall.memory.data.sessions import SessionTracker
from hyrecall.memory.data.types import (
    Changes,
    Edge,
    Episode,
    EpisodeFields,
    Fact,
    Participant,
    SuccessorFields,
    Visibility,
    check_id,
)
from hyrecall.memory.faces.browse import Browse
from hyrecall.memory.methods import NamedMethods, on_store
from hyrecall.memory.recall.audience import (
    Partition,
    User,
    read_agent,
    read_caller,
    read_owner,
    read_partition,
)
from hyrecall.memory.recall.call import Floors, Hints, Moment, Reranker, TimeRange
from hyrecall.memory.sql.database import IN_MEMORY
from hyrecall.memory.sql.reading import ReadPolicy
from hyrecall.memory.store import AUTO, Clock, Given, Store, StoreOptions
from hyrecall.memory.view import Edges, Episodes, Facts, Versions, View
from hyrecall.text.analyzer import Analyzer

Kept: TypeAlias = list[Remembered]  # in the class, `list` is its method


@check_keywords
class MemorySync(NamedMethods):
    """A durable store that recalls, called as plain functions.

    Each call runs in its caller's thread, and threads may share a handle. Any number of processes
    on one machine may open a store and write: the first owns it, and makes the others' changes.

    Notes
    -----
    **Users.** ``user_id`` names a user. None is the anonymous user and "" is another one; neither
    means everybody. ``org`` and ``workspace`` are the partition around the user; None is one, too.
    Each is a str of at most 512 bytes without NUL, and not blank, except "". A caller never sees
    memories of other users, whose ids count as not found. To recall, list or browse without
    ``user_id`` in a store with named users warns (:class:`IsolationWarning`).

    **Times** without a zone are UTC.

    **Errors of every call.** OptionError: the store is closed, or is read-only and the call writes,
    or a value is not allowed. DTypeError: an argument has the wrong type. StoreError: the disk or
    SQLite fails, or the handle was opened by the parent of a forked process.

    **Cost.** A call that writes embeds its texts, then writes one transaction, which is on the disk
    when the call returns; threads take turns. A recall embeds its query at most once, and applies
    to the index what was committed since the last one, unless a thread has done so already.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from hyrecall.recipes import loom
    >>> folder = Path(tempfile.mkdtemp()) / "agent.mem"
    >>> with MemorySync.open(folder, recipe=loom, embedder=None) as memory:
    ...     kept = memory.remember("The build runs on Debian 12", user_id="alice")
    ...     [match.episode.text for match in memory.search("debian", user_id="alice")]
    ['The build runs on Debian 12']
    """

    def __init__(self, store: Store) -> None:
        """Hold an open store; use :meth:`open`.

        Parameters
        ----------
        store : Store
        """
        self._store = store

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        recipe: Recipe | None = None,
        analyzer: Analyzer | str | None = None,
        embedder: Given = AUTO,
        dim: int | None = None,
        read_only: bool | None = None,
        shared: bool = True,
        wait: float = 0.0,
        owner_timeout: float = 10.0,
        accept_loss: bool = False,
        recall_timeout: float | None = None,
        write_timeout: float | None = None,
        sessions: SessionTracker | None = None,
        snapshot_every: int = 10_000,
        device: str = "cpu",
        threads: int | None = None,
        progress: ProgressFunction | None = None,
        warm: bool = True,
        clock: Clock | None = None,
    ) -> MemorySync:
        """Open a store; a writer creates it if it does not exist.

        Parameters
        ----------
        path : path-like
            The folder of the store: new, empty, or that of a store. ``":memory:"`` makes a new
            store in memory, as :meth:`in_memory` does; it takes no ``read_only``, ``wait``,
            ``owner_timeout``, ``accept_loss`` or ``snapshot_every``.
        recipe : Recipe, optional
            How to recall where a call names no other. Default: ``recipes.default``, but
            ``recall_scored`` and ``recall`` have the formula of ``recipes.loom``; both read one
            index.
        analyzer : Analyzer or str, optional
            How texts become words, or the name of such an analyzer. Default: the one that the
            recipe states, ``"word"`` for ``recipes.loom``, else ``"unicode:english"``. Another one
            than before rebuilds the index; one with a callable must be passed at each opening.
        embedder : Embedder or Off or str or None, optional
            An object, "static", "minilm", an ``http(s)://`` endpoint, "off"; None recalls by words.
            Default: the endpoint that ``HYRECALL_EMBEDDING_URL`` names, else the packaged one if
            installed.
        dim : int, optional
            Length of vectors, in [1, 65536]. Default: the embedder's, else that of what is stored,
            else 768 until the embedder has replied.
        read_only : bool, optional
            Open for reading only. Nothing in the folder is changed, and it need not be writable.
            Default: only a replica (:func:`hyrecall.replicas.pull`), which nobody can write to.
        shared : bool, default True
            Let other processes of this user on this machine use the store too: the first one that
            opens it owns it, the others reach the owner through a socket in the folder, and when it
            ends another one takes over. False: be the only writer.
        wait : float, default 0
            Seconds to wait for a writer that does not share the store, in [0, 86400].
        owner_timeout : float, default 10
            Seconds that opening, and each call, may wait for an owner in another process that has
            too much to do, in [0, 86400]. Then the call is a StoreBusyError and has changed
            nothing.
        accept_loss : bool, default False
            Open a store that has lost acknowledged changes (CorruptStoreError) as it is now. After
            a writer has done so, later openings need it no more.
        recall_timeout, write_timeout : float, optional
            Seconds that a call may wait for the embedder, in [0, 86400]. Default: what
            ``HYRECALL_EMBED_TIMEOUT`` allows an endpoint that is named by a URL, else the
            embedder's own ``timeout`` for ``recipes.l0``, else 1.5 and 5.
        sessions : SessionTracker, optional
            Where conversations are kept; default: in the store, for 24 hours. ``InProcessSessions``
            and :class:`hyrecall.systems.hypergraph.RedisSessions` keep them elsewhere.
        snapshot_every : int, default 10,000
            After so many changes, at least 1, the index is saved.
        device : str, default "cpu"
            Where vectors and texts are searched, as in :meth:`hyrecall.Index.build`.
        threads, progress : optional
            Of the building of the index, as in :meth:`hyrecall.Index.build`.
        warm : bool, default True
            Load the embedder's model at once, on a thread: until it is loaded, calls go by words.
            False: the first call that needs a vector loads it.
        clock : callable, optional
            Returns the time as a datetime; for tests.

        Returns
        -------
        MemorySync
            To be closed, or used as a context manager.

        Raises
        ------
        WriterBusyError
            A writer that does not share the store holds it, in this process or another; or
            ``shared=False``, and any writer does.
        StoreMismatchError
            The store is open in another process with another model or length of vectors, or by
            another version of hyrecall. With another recipe's index or another analyzer, only
            searches and ``wait_until_ready`` raise it.
        OwnerError
            The process that owns the store does not answer; the message has its pid. Or the file
            system has no Unix sockets, and another process has the store.
        StoreBusyError
            The owner has as many connections as it can have, also after ``owner_timeout``.
        StoreNotFoundError
            ``read_only``, and there is none.
        StoreFormatError
            The store has a newer format, or it is not a store.
        CorruptStoreError
            The database is damaged, missing, or ends before a change that LOCK or the saved index
            names. Nothing is changed; the message says what can be done.
        DeviceUnavailableError
            The named device is not there.
        MissingExtraError
            "static" without the extra ``[local]``, "minilm" without ``[minilm]``,
            or a URL without ``[http]``.
        OptionError, DTypeError
            An analyzer other than the one that the recipe states; a folder with other files; an
            SQLite that is too old to be safe.

        Notes
        -----
        A saved index is read and checked. If it is missing, damaged, or of another recipe,
        analyzer or model, it is rebuilt from the rows: before this returns in a store of up to
        20,000 memories, else on a thread, and recalls search for substrings until it is ready. When
        the interpreter exits, it waits up to 10 seconds for threads of stores that are not closed.
        """
        options = StoreOptions(
            recipe=recipe, analyzer=analyzer, embedder=embedder, dim=dim, read_only=read_only,
            shared=shared, wait=wait, owner_timeout=owner_timeout, accept_loss=accept_loss,
            recall_timeout=recall_timeout, write_timeout=write_timeout, sessions=sessions,
            snapshot_every=snapshot_every, device=device, threads=threads, progress=progress,
            warm=warm, clock=clock,
        )  # fmt: skip
        store = Store(path, options)
        store.answer_with(plain.answer)
        return cls(store)

    @classmethod
    def in_memory(
        cls,
        *,
        recipe: Recipe | None = None,
        analyzer: Analyzer | str | None = None,
        embedder: Given = AUTO,
        dim: int | None = None,
        recall_timeout: float | None = None,
        write_timeout: float | None = None,
        sessions: SessionTracker | None = None,
        device: str = "cpu",
        threads: int | None = None,
        warm: bool = True,
        clock: Clock | None = None,
    ) -> MemorySync:
        """Open a new, empty store in memory, as ``open(":memory:")`` does.

        It has every method of a store on the disk, with the same replies. Nothing is written to the
        disk; its contents are gone when it is closed or the process ends.

        Parameters
        ----------
        recipe, analyzer, embedder, dim, recall_timeout, write_timeout, sessions
            As in :meth:`open`.
        device, threads, warm, clock
            As in :meth:`open`.

        Returns
        -------
        MemorySync
            To be closed, or used as a context manager. Each call makes another store.

        Raises
        ------
        DeviceUnavailableError, MissingExtraError, OptionError, DTypeError
            As in :meth:`open`.

        Notes
        -----
        Writes and reads of other threads wait for each other; in a store on the disk they run side
        by side. Memory: about the size of the files of a store on the disk.

        Examples
        --------
        >>> from hyrecall.recipes import loom
        >>> with MemorySync.in_memory(recipe=loom, embedder=None) as memory:
        ...     kept = memory.remember("The build runs on Debian 12", user_id="alice")
        ...     [match.episode.text for match in memory.search("debian", user_id="alice")]
        ['The build runs on Debian 12']
        """
        return cls.open(
            IN_MEMORY, recipe=recipe, analyzer=analyzer, embedder=embedder, dim=dim,
            recall_timeout=recall_timeout, write_timeout=write_timeout, sessions=sessions,
            device=device, threads=threads, warm=warm, clock=clock,
        )  # fmt: skip

    def close(self) -> None:
        """Save the index and let go of the store. Closing twice is fine."""
        self._store.close()

    def __enter__(self) -> MemorySync:
        """Return the store."""
        return self

    def __exit__(self, *exc: object) -> None:
        """Close it."""
        self.close()

    # ---- reading ----

    def search(
        self,
        text: str,
        *,
        user_id: str | None = None,
        org: str | None = None,
        workspace: str | None = None,
        partitions: Sequence[Partition] | None = None,
        kind: str | None = None,
        limit: int = 10,
        offset: int = 0,
        since: Moment | None = None,
        until: Moment | None = None,
        tags: Sequence[str] | None = None,
        filter: FilterLike | None = None,  # noqa: A002
        metadata: Mapping[str, object] | None = None,
        alpha: float | None = None,
        recipe: Recipe | None = None,
        vector: object = None,
        session_id: str | None = None,
        reranker: Reranker | None = None,
        diversity: float | None = None,
        normalize: bool = False,
        min_score: Floors = None,
        weights: Mapping[str, float] | None = None,
        token_budget: int | None = None,
        candidates: Hints | None = None,
        around: int = 0,
        touch: bool = False,
        include_ended: bool = False,
        min_confidence: float | None = None,
        embed_timeout: float | None = None,
        now: datetime | None = None,
    ) -> Matches:
        """Recall with every option there is; :meth:`recall_scored` has the common ones.

        Parameters
        ----------
        text : str
            Blank gives what the recipe says: nothing in ``recipes.default``, the newest in
            ``recipes.loom``, or an error.
        user_id, org, workspace : str, optional
            The user and its partition.
        partitions : sequence of Partition, optional
            In place of these three: several, ranked as one.
        kind : str, optional
            As in :meth:`recall_scored`; default any.
        since, until : datetime or date or str, optional
            First and last time of an episode, both included; naive is UTC, a date the whole day. A
            str is ISO 8601.
        limit, offset : int, default 10, 0
            Together at most the recipe's depth: 100 in ``recipes.default``.
        tags : sequence of str, optional
            One of them is enough.
        filter : Filter or pyarrow.compute.Expression, optional
            On kind, source, author, session_id, occurred_at, stored_at (when the store kept it),
            updated_at (its last version), last_accessed, importance, pinned, tags, valid_from,
            valid_to, version, expires_at, and a key of the metadata as ``metadata.key``, one in an
            object as ``metadata.run.id``.
        metadata : mapping of str to object, optional
            What is asked of keys of the metadata, each as :class:`hyrecall.Filter` takes it: a
            value, a list for any of its values, a pair for a range. All must hold.
        alpha : float, optional
            As in :meth:`recall_scored`.
        recipe : Recipe, optional
            Another one that shares the index. Default: the store's, else ``recipes.default``.
        vector : array, shape (dim,), float32 or convertible, optional
            In place of the text's embedding; finite. One of another length than the index has
            degrades the answer.
        session_id : str, optional
            A conversation: recipes that weigh it put what it met above.
        reranker : callable, optional
            ``function(query, texts) -> scores``, such as :class:`hyrecall.rerank.CrossEncoder`, or
            a coroutine of them. It has a second, or the seconds of its own attribute ``timeout``.
        diversity : float, optional
            In [0, 1]: how much unlike those above a match shall be.
        normalize : bool, default False
            Scores over the best possible, in [0, 1].
        min_score : float or Above, or mapping of str to float or Above, optional
            A number is the least ``score``, which is relative to the other matches of most recipes.
            ``{"bm25": 2.0, "cosine": 0.35}`` is absolute, as for an index: words, and vectors, list
            nothing below, so that a match reaches one of both. Nothing fills the list then.
        weights : mapping of str to float, optional
            Of "recency", "importance" and "relevance", each in [0, 1e6], for recipes with a
            composite score; what is not named is the recipe's.
        token_budget : int, optional
            Take matches while their texts fit, the first always, as the recipe's ``budget_mmr``
            chooses them: characters / 4 a text. ``limit`` still holds. 0 or less: no budget.
        candidates : sequence of str, or mapping of str to float, optional
            Ids that may be meant: best first, or with scores. They are fused as an arm's list is,
            and one that the user may not see vanishes without a word.
        around : int, default 0
            How many memories on either side of a match in its session ``matches.around`` has, in
            [0, 100]. They need not pass the filters; with ``token_budget`` they take part of it.
            Each memory is there once: one that stands around a better match is no match itself.
        touch : bool, default False
            Count an access of what is given back: a transaction more.
        include_ended : bool, default False
            Find facts too that do not hold at ``now``. Those that have ended, ``valid_to <= now``,
            say so by ``valid_to``, and each stands behind the fact that followed it, if that is
            found, whatever their scores; those with ``valid_from > now`` have not begun.
        min_confidence : float, optional
            In [0, 1]: below this ``confidence``, or without any because there is no index, there
            are no matches (docs/confidence.md).
        embed_timeout : float, optional
            Seconds for the embedder, in [0, 3600]; default: ``recall_timeout`` of the store.
        now : datetime, optional
            The time that ages are counted from, and at which facts must hold; default: the clock.

        Returns
        -------
        Matches
            As :meth:`recall_scored` gives them.

        Raises
        ------
        OptionError, DTypeError
            A recipe that needs another index; a filter that asks for what is not there.

        Examples
        --------
        >>> from hyrecall.embed import HashEmbedder
        >>> from hyrecall.memory import MemorySync
        >>> from hyrecall.recipes import loom
        >>> by = HashEmbedder(dim=16)
        >>> with MemorySync.in_memory(recipe=loom, embedder=by) as memory:
        ...     for text in ("green tea", "black coffee"):
        ...         kept = memory.remember(text, user_id="ann", tags=("drink",))
        ...     matches = memory.search("tea", user_id="ann", tags=["drink"], limit=1)
        ...     matches[0].episode.text, matches.degraded
        ('green tea', False)

        Keys of the metadata, alone and in a filter with columns:

        >>> import hyrecall as hr
        >>> with MemorySync.in_memory(recipe=loom, embedder=None) as memory:
        ...     for lang in ("en", "de"):
        ...         kept = memory.remember(f"tea ({lang})", metadata={"lang": lang})
        ...     of_key = hr.Filter(**{"metadata.lang": "de"}) | hr.Filter(pinned=True)
        ...     for asked in ({"metadata": {"lang": ["en", "fr"]}}, {"filter": of_key}):
        ...         [match.episode.text for match in memory.search("tea", **asked)]
        ['tea (en)']
        ['tea (de)']
        """
        by = read_caller(user_id, org, workspace, partitions)
        return View(self._store, by).search(
            text, kind=kind, limit=limit, offset=offset, since=since, until=until, tags=tags,
            filter=filter, metadata=metadata, alpha=alpha, recipe=recipe, vector=vector,
            session_id=session_id, reranker=reranker, diversity=diversity, normalize=normalize,
            min_score=min_score, weights=weights, token_budget=token_budget, candidates=candidates,
            around=around, touch=touch, include_ended=include_ended, min_confidence=min_confidence,
            embed_timeout=embed_timeout, now=now,
        )  # fmt: skip

    def recall_scored(
        self,
        query: str,
        *,
        kind: str | None = "episodic",
        limit: int = 5,
        time_range: TimeRange | None = None,
        user_id: str | None = None,
        alpha: float = 0.5,
        normalize: bool = False,
    ) -> Matches:
        """Recall a user's episodes by Loom's formula, unless the store was opened with a recipe.

        Parameters
        ----------
        query : str
            A blank one returns the newest.
        kind : str or None, default "episodic"
            None is any.
        limit : int, default 5
            In [0, 2^31); the recipe's depth follows it.
        time_range : (datetime, date or None, datetime, date or None), optional
            First and last time of an episode, both included; naive is UTC, a date the whole day.
        user_id : str, optional
            None is the anonymous bucket, never everybody.
        alpha : float, default 0.5
            In [0, 1]. 0: words alone, 1: vectors alone, 0.5: as the recipe has it. It changes no
            scale of scores, but in ``recipes.loom`` at 0 and 1, where scores are BM25 and cosine.
        normalize : bool, default False
            Scores over the best possible, in [0, 1], for ``score >= 0.6`` and the like: the first
            of every arm that ran has 1.

        Returns
        -------
        Matches
            At most ``limit``, best first: a list that also says whether it is degraded, and why.

        Raises
        ------
        StoreError
            Content cannot be read. Trouble with embedder, index or tracker is no error.

        Notes
        -----
        Where the store names no recipe, it is ``recipes.loom``, over the words of the store's
        analyzer. Its scores are reciprocal ranks where there are vectors, and BM25 where the store
        has none, or none for this query; :attr:`EpisodeMatch.is_fill` marks what only fills the
        list. ``vector_score`` is a cosine in
        [-1, 1], ``bm25_score`` is >= 0, each None where it was not computed.

        Examples
        --------
        >>> from hyrecall.memory import MemorySync
        >>> from hyrecall.recipes import loom
        >>> with MemorySync.in_memory(recipe=loom, embedder=None) as memory:
        ...     kept = memory.remember("Tea at four", user_id="ann", id="tea")
        ...     (match,) = memory.recall_scored("tea", user_id="ann")
        ...     match.episode.id, match.bm25_score > 0, match.vector_score
        ('tea', True, None)
        """
        return self._view(user_id).scored(
            query, kind=kind, limit=limit, time_range=time_range, alpha=alpha,
            normalize=normalize,
        )  # fmt: skip

    def recall(
        self,
        query: str,
        *,
        kind: str | None = "episodic",
        limit: int = 5,
        time_range: TimeRange | None = None,
        user_id: str | None = None,
        alpha: float = 0.5,
    ) -> Episodes:
        """Return the episodes of :meth:`recall_scored`, in its order.

        Parameters and errors as :meth:`recall_scored`.

        Returns
        -------
        list of Episode
            At most ``limit``, best first; it does not say whether it is degraded.
        """
        matches = self.recall_scored(
            query, kind=kind, limit=limit, time_range=time_range, user_id=user_id, alpha=alpha
        )
        return [match.episode for match in matches]

    def recall_facts(
        self,
        text: str,
        *,
        limit: int = 5,
        valid_at: datetime | None = None,
        user_id: str | None = None,
        org: str | None = None,
        workspace: str | None = None,
    ) -> Facts:
        """Recall facts: those that hold at a time (default: now), best first.

        Parameters
        ----------
        text : str
            Ranked as a search is. Blank gives the facts that began last.
        limit : int, default 5
            In [0, 2^31).
        valid_at : datetime, optional
            Facts with ``valid_from <= valid_at < valid_to``; naive is UTC. Default: now.
        user_id, org, workspace : str, optional
            The user and its partition.

        Returns
        -------
        Facts
            At most ``limit``, with the reasons why there may be more.

        Examples
        --------
        >>> from hyrecall.memory import Fact, MemorySync
        >>> from hyrecall.recipes import loom
        >>> with MemorySync.in_memory(recipe=loom, embedder=None) as memory:
        ...     kept = memory.remember_fact(Fact(subject="ann", predicate="likes", object="tea"))
        ...     [one.object for one in memory.recall_facts("what does ann like")]
        ['tea']
        """
        return self._view(user_id, org, workspace).facts(text, limit=limit, valid_at=valid_at)

    def list_facts(
        self,
        *,
        subject: str | None = None,
        predicate: str | None = None,
        object: str | None = None,  # noqa: A002
        valid_at: datetime | None = None,
        user_id: User = None,
        org: str | None = None,
        workspace: str | None = None,
        limit: int = 200,
        offset: int = 0,
    ) -> Facts:
        """Return facts, the one that began last first; also those that have ended.

        Parameters
        ----------
        subject, predicate, object : str, optional
            Only facts that say this: a predicate without case, and with ``_`` and ``-`` as spaces;
            subject and object exactly, with case.
        valid_at : datetime, optional
            Only facts with ``valid_from <= valid_at < valid_to``; naive is UTC. Default: all.
        user_id : str or None or EVERYONE
            Whose, as in :meth:`list`.
        org, workspace : str, optional
        limit, offset : int, default 200, 0
            Each in [0, 2^31).

        Returns
        -------
        Facts
            At most ``limit``, after the first ``offset``. Of those that began at one time the one
            that ends last is first.

        Notes
        -----
        No index is asked: the database reads the user's facts of the subject, or all of them.

        Examples
        --------
        >>> from datetime import datetime
        >>> from hyrecall.memory import Fact, MemorySync
        >>> from hyrecall.recipes import loom
        >>> with MemorySync.in_memory(recipe=loom, embedder=None) as memory:
        ...     for year, city in ((2024, "Oslo"), (2026, "Bergen")):
        ...         fact = Fact(subject="ann", predicate="lives in", object=city,
        ...                     valid_from=datetime(year, 1, 1))
        ...         kept = memory.remember_fact(fact)
        ...     found = memory.list_facts(subject="ann")
        ...     [(one.object, one.valid_to and one.valid_to.year) for one in found]
        [('Bergen', None), ('Oslo', 2026)]
        """
        return View(self._store, read_owner(org, workspace, user_id)).listed_facts(
            subject=subject, predicate=predicate, object_=object, valid_at=valid_at,
            limit=limit, offset=offset,
        )  # fmt: skip

    def browse(
        self,
        *,
        user_id: str | None = None,
        org: str | None = None,
        workspace: str | None = None,
    ) -> Browse:
        """Return a user's memories as files to read; its methods are plain functions.

        Parameters
        ----------
        user_id, org, workspace : str, optional
            The user and its partition.

        Returns
        -------
        Browse
            Nothing is read yet.

        Raises
        ------
        OptionError, DTypeError
            A name that cannot be one.
        """
        return self._view(user_id, org, workspace).browse()

    def agent(self, agent: str, *, org: str, workspace: str) -> AgentMemorySync:
        """Return the store as an agent sees it, by its read policy.

        Parameters
        ----------
        agent : str
            Its name. One without a name reads nothing of others, and keeps nothing.
        org, workspace : str
            Where it is: an agent has both.

        Returns
        -------
        AgentMemorySync
            Nothing is read yet; it need not be closed.

        Raises
        ------
        ScopeError
            No org or workspace.
        OptionError, DTypeError
            A name that cannot be one.
        """
        return AgentMemorySync(self._store, read_agent(agent, org, workspace))

    # ---- upkeep ----

    feedback = on_store(changing.feedback)
    list_feedback = on_store(changing.list_feedback)
    export = on_store(upkeep.export)
    import_ = on_store(upkeep.import_)
    reembed = on_store(upkeep.reembed)
    doctor = on_store(upkeep.doctor)
    wait_until_ready = on_store(upkeep.wait_until_ready)
    compact = on_store(upkeep.compact)
    snapshot = on_store(upkeep.snapshot)

    def __repr__(self) -> str:
        """Show where it is."""
        return f"<MemorySync: {self._store!r}>"

    # ---- single memories ----

    def _view(self, user_id: object, org: object = None, workspace: object = None) -> View:
        """Return the store as one user sees it."""
        return View(self._store, read_partition(org, workspace, user_id))

    def get(
        self,
        id: str,  # noqa: A002
        *,
        user_id: str | None = None,
        org: str | None = None,
        workspace: str | None = None,
        visibility: Visibility | None = None,
    ) -> Episode | None:
        """Return an episode by its id, or None if the user has none, even if others do.

        Parameters
        ----------
        id : str
        user_id, org, workspace : str, optional
            The user and its partition.
        visibility : {"private", "global"}, optional
            Default: either, the private one where there are both.

        Returns
        -------
        Episode or None
            A fact too, as the episode it is recalled as.
        """
        return self._view(user_id, org, workspace).get(id, visibility)

    def list(
        self,
        *,
        user_id: User = None,
        org: str | None = None,
        workspace: str | None = None,
        kind: str | None = None,
        tags: Sequence[str] | None = None,
        pinned: bool | None = None,
        filter: FilterLike | None = None,  # noqa: A002
        metadata: Mapping[str, object] | None = None,
        since: Moment | None = None,
        until: Moment | None = None,
        limit: int = 200,
        offset: int = 0,
    ) -> Episodes:
        """Return memories, newest first; of equal times the one written last.

        Parameters
        ----------
        user_id : str or None or EVERYONE
            Whose. ``EVERYONE``, all users of the org and workspace, is for those who keep the
            store.
        org, workspace : str, optional
        kind : str, optional
            Only of this kind. Default: any, facts ("fact") too.
        tags : sequence of str, optional
            Only with one of these tags.
        pinned : bool, optional
            Only pinned ones, or only others.
        filter, metadata, since, until : optional
            As in :meth:`search`.
        limit, offset : int, default 200, 0
            Each in [0, 2^31).

        Returns
        -------
        list of Episode
            At most ``limit``, after the first ``offset``.

        Notes
        -----
        No index is asked: the database looks at every live memory of the user. With a filter, the
        columns that it names are read of the newest until there are enough.

        Examples
        --------
        >>> from hyrecall.memory import MemorySync
        >>> from hyrecall.recipes import loom
        >>> with MemorySync.in_memory(recipe=loom, embedder=None) as memory:
        ...     for year in (2023, 2024, 2025):
        ...         kept = memory.remember(f"Plan {year}", metadata={"year": year})
        ...     [one.text for one in memory.list(metadata={"year": (2024, None)})]
        ['Plan 2025', 'Plan 2024']
        """
        return View(self._store, read_owner(org, workspace, user_id)).newest(
            kind=kind, tags=tags, pinned=pinned, filter=filter, metadata=metadata,
            since=since, until=until, limit=limit, offset=offset,
        )  # fmt: skip

    def count(
        self,
        *,
        user_id: User = None,
        org: str | None = None,
        workspace: str | None = None,
        kind: str | None = None,
        tags: Sequence[str] | None = None,
        pinned: bool | None = None,
        filter: FilterLike | None = None,  # noqa: A002
        metadata: Mapping[str, object] | None = None,
        since: Moment | None = None,
        until: Moment | None = None,
    ) -> int:
        """Return how many memories :meth:`list` would give without a limit.

        Parameters
        ----------
        user_id, org, workspace, kind, tags, pinned, filter, metadata, since, until : optional
            As in :meth:`list`.

        Returns
        -------
        int
        """
        return View(self._store, read_owner(org, workspace, user_id)).count(
            kind=kind, tags=tags, pinned=pinned, filter=filter, metadata=metadata,
            since=since, until=until,
        )  # fmt: skip

    list_users = on_store(census.list_users)
    list_sessions = on_store(census.list_sessions)
    list_agents = on_store(census.list_agents)

    def history(
        self,
        id: str,  # noqa: A002
        *,
        user_id: str | None = None,
        org: str | None = None,
        workspace: str | None = None,
    ) -> Versions:
        """Return every version of a memory, oldest first; none of one that is not there.

        Parameters
        ----------
        id : str
        user_id, org, workspace : str, optional
            The user and its partition.

        Returns
        -------
        list of Version
            From 1 on; the last one counts. Empty for one that was erased.

        Examples
        --------
        >>> from hyrecall.memory import MemorySync
        >>> from hyrecall.recipes import loom
        >>> with MemorySync.in_memory(recipe=loom, embedder=None) as memory:
        ...     tea = memory.remember("Tea at four").id
        ...     kept = memory.update(tea, text="Tea at five", reason="moved")
        ...     [(one.episode.text, one.reason) for one in memory.history(tea)]
        [('Tea at four', None), ('Tea at five', 'moved')]
        """
        return self._view(user_id, org, workspace).history(id)

    def links(
        self,
        id: str,  # noqa: A002
        *,
        user_id: str | None = None,
        org: str | None = None,
        workspace: str | None = None,
    ) -> Edges:
        """Return the edges of a memory, in the order in which they were added.

        Parameters
        ----------
        id : str
            Of the memory.
        user_id, org, workspace : str, optional
            The user and its partition.

        Returns
        -------
        list of Edge
        """
        return self._view(user_id, org, workspace).links(id)

    def remember(
        self,
        text: str | Episode,
        *,
        vector: object = None,
        ttl: float | timedelta | None = None,
        embed_timeout: float | None = None,
        **fields: Unpack[EpisodeFields],
    ) -> Remembered:
        """Keep an episode; once this returns, it survives a power cut.

        Parameters
        ----------
        text : str or Episode
            What to remember, with other fields as keywords (``user_id="alice"``); or a whole
            episode.
        vector : array, shape (dim,), float32 or convertible, optional
            Replaces an embedding by the embedder's model. Finite, with a norm of 0 or in
            [2^-60, 2^60].
        ttl : float or timedelta, optional
            Seconds until it expires, more than 0; not beside ``expires_at``.
        embed_timeout : float, optional
            Seconds for the embedder, in [0, 3600]; default: ``write_timeout`` of the store, or the
            embedder's own timeout if that is less. An episode without a vector is kept too, and
            found by words.
        id, user_id, org, workspace, visibility, input, kind, source, session_id : optional
            Fields of :class:`Episode`, beside a str.
        occurred_at, created_at, importance, pinned, tags, metadata, expires_at, author : optional
            Fields of :class:`Episode`, beside a str.

        Returns
        -------
        Remembered
            Its id, its version, and whether it has a vector.

        Raises
        ------
        KeyConflictError
            The user has a memory of this id that is not deleted.
        ShapeError
            A vector of another length than the store's.
        OptionError, DTypeError
            A field has a value that cannot be kept; the message names it. Nothing is kept.

        Notes
        -----
        One call of the embedder, none with ``vector`` or a blank text; then one transaction. What
        has expired is never found, and its id is free; within minutes it is erased, too.

        Examples
        --------
        >>> from hyrecall.memory import MemorySync
        >>> from hyrecall.recipes import loom
        >>> with MemorySync.in_memory(recipe=loom, embedder=None) as memory:
        ...     memory.remember("Tea at four", user_id="ann", id="tea", tags=("plan",))
        Remembered(id='tea', version=1, embedded=False, reasons=())
        """
        one = changing.expiring(changing.episode_of(text, fields), ttl, self._store.now)
        return changing.remember_one(self._store, one, vector, embed_timeout)

    def remember_batch(
        self,
        episodes: Iterable[Episode],
        *,
        vectors: object = None,
        embed_timeout: float | None = None,
        progress: ProgressFunction | None = None,
    ) -> Kept:
        """Keep several episodes, all or none.

        Parameters
        ----------
        episodes : iterable of Episode
            Of whatever users.
        vectors : array, shape (n_episodes, dim), float32 or convertible, optional
            Replace embeddings. Finite, with norms of 0 or in [2^-60, 2^60].
        embed_timeout : float, optional
            As in :meth:`remember`, for 64 of them.
        progress : callable, optional
            ``progress(done, total)``, in episodes, after each 64 of them; not with ``vectors``.

        Returns
        -------
        list of Remembered
            One per episode, in their order.

        Raises
        ------
        KeyConflictError
            A user has a memory of such an id, or an id comes twice.
        ShapeError, OptionError, DTypeError, StoreError
            As in :meth:`remember`; nothing of the batch is kept.

        Notes
        -----
        One call of the embedder for each 64 episodes, then one transaction for all.

        Examples
        --------
        >>> from hyrecall.memory import Episode, MemorySync
        >>> from hyrecall.recipes import loom
        >>> with MemorySync.in_memory(recipe=loom, embedder=None) as memory:
        ...     kept = memory.remember_batch(Episode(text=text) for text in ("tea", "coffee"))
        ...     [one.version for one in kept]
        [1, 1]
        """
        return changing.remember(
            self._store, episodes, vectors=vectors, embed_timeout=embed_timeout, progress=progress
        )

    def remember_fact(self, fact: Fact, *, embed_timeout: float | None = None) -> Remembered:
        """Keep a fact; the one that held for its subject and predicate ends where it begins.

        It ends itself where the next one begins, if there is a later one. With ``single=False``
        only facts with the same object end each other. Subjects and objects are compared exactly,
        with case; predicates without case, and with ``_`` and ``-`` as spaces.

        Parameters
        ----------
        fact : Fact
        embed_timeout : float, optional
            As in :meth:`remember`.

        Returns
        -------
        Remembered
            Where the same is held to be valid already for all that time, no fact is added, whatever
            ``single`` is, and this is the one that says so. If ``fact`` has an end, that one ends
            there.

        Raises
        ------
        KeyConflictError
            The user has a memory of this id that is not deleted.

        Notes
        -----
        One call of the embedder, then one transaction, which reads what is held about the subject
        and predicate.
        """
        return changing.remember_fact(self._store, fact, embed_timeout=embed_timeout)

    def end_fact(
        self,
        id: str,  # noqa: A002
        *,
        at: datetime | None = None,
        user_id: str | None = None,
        org: str | None = None,
        workspace: str | None = None,
        reason: str | None = None,
    ) -> Remembered:
        """End a fact: it holds until then. ``update(id, valid_to=None)`` takes its end away.

        Parameters
        ----------
        id : str
        at : datetime, optional
            Its ``valid_to``, at most where the next fact of its subject and predicate, compared as
            in :meth:`remember_fact`, begins; naive is UTC. Default: now, or the end that it has,
            if that is past.
        user_id, org, workspace : str, optional
            The user and its partition.
        reason : str, optional
            Kept with the version; at most 512 bytes.

        Returns
        -------
        Remembered
            With the new version; the last one if the fact ends then already.

        Raises
        ------
        NotFoundError
            The user has no such memory.
        OptionError, DTypeError
            It is no fact, or cannot end then.

        Examples
        --------
        >>> from datetime import datetime
        >>> from hyrecall.memory import Fact, MemorySync
        >>> from hyrecall.recipes import loom
        >>> with MemorySync.in_memory(recipe=loom, embedder=None) as memory:
        ...     oslo = Fact(subject="ann", predicate="lives in", object="Oslo",
        ...                 valid_from=datetime(2024, 1, 1))
        ...     ended = memory.end_fact(memory.remember_fact(oslo).id, at=datetime(2026, 1, 1))
        ...     memory.search("ann"), memory.list_facts()[0].valid_to.year
        (<Matches: 0>, 2026)
        """
        return changing.end_fact(self._view(user_id, org, workspace), id, at, reason=reason)

    def update(
        self,
        id: str,  # noqa: A002
        *,
        user_id: str | None = None,
        org: str | None = None,
        workspace: str | None = None,
        reason: str | None = None,
        if_version: int | None = None,
        embed_timeout: float | None = None,
        **changes: Unpack[Changes],
    ) -> Remembered:
        """Change fields of an episode: a version is appended, and the highest counts.

        Parameters
        ----------
        id : str
        user_id, org, workspace : str, optional
            The user and its partition.
        reason : str, optional
            Kept with the version; at most 512 bytes.
        if_version : int, optional
            Only if this is its version, as :attr:`Episode.version` says it.
        embed_timeout : float, optional
            As in :meth:`remember`.
        input, text, kind, source, session_id, occurred_at, created_at : optional
            Fields of :class:`Episode`.
        importance, pinned, tags, metadata, expires_at, author : optional
            Fields of :class:`Episode`.
        valid_to : datetime or None
            When a fact ends, alone: of a fact nothing else changes. None: where the next one
            begins, or never.
        visibility : {"private", "global"}, optional
            Another one moves it: it is deleted where it was and new where it goes, without its
            edges and its history, and the version that is given counts there.

        Returns
        -------
        Remembered
            With the new version.

        Raises
        ------
        NotFoundError
            The user has no such memory, whether or not somebody else has.
        KeyConflictError
            There is one of this id in the visibility that it should move to.
        VersionConflictError
            It has another version than ``if_version``.
        UnknownOptionError
            A field that no episode has, or that cannot be changed.
        OptionError, DTypeError
            No change, a fact with another change than ``valid_to``, or what no episode may hold.

        Notes
        -----
        One call of the embedder where the text changes, else none; then one transaction.

        Examples
        --------
        >>> from hyrecall.memory import MemorySync
        >>> from hyrecall.recipes import loom
        >>> with MemorySync.in_memory(recipe=loom, embedder=None) as memory:
        ...     tea = memory.remember("Tea at four", user_id="ann").id
        ...     memory.update(tea, user_id="ann", text="Tea at five", reason="moved").version
        2
        """
        view = self._view(user_id, org, workspace)
        return changing.update(
            view, id, changes, reason=reason, embed_timeout=embed_timeout, if_version=if_version
        )

    def update_many(
        self,
        changes: Mapping[str, Any],
        *,
        id: str | Sequence[str] | None = None,  # noqa: A002
        user_id: str | None = None,
        org: str | None = None,
        workspace: str | None = None,
        session_id: str | None = None,
        before: datetime | None = None,
        kind: str | None = None,
        tags: Sequence[str] | None = None,
        filter: FilterLike | None = None,  # noqa: A002
        metadata: Mapping[str, object] | None = None,
        reason: str | None = None,
    ) -> int:
        """Change fields of several episodes of one user, all or none; return how many.

        Parameters
        ----------
        changes : mapping of str to object
            Fields of :class:`Episode` and their new values; none of the text and of whose it is.
        id, session_id, before, kind, tags, filter, metadata : optional
            Which, as in :meth:`forget`; facts are none of them.
        user_id, org, workspace : str, optional
            The user and its partition.
        reason : str, optional
            Kept with each version; at most 512 bytes.

        Returns
        -------
        int
            How many; 0 is no error.

        Raises
        ------
        OptionError, DTypeError
            Nothing says which memories are meant; a field that cannot be changed so, or a value
            that it cannot have.

        Notes
        -----
        One transaction; nothing is embedded.

        Examples
        --------
        >>> from hyrecall.memory import MemorySync
        >>> from hyrecall.recipes import loom
        >>> with MemorySync.in_memory(recipe=loom, embedder=None) as memory:
        ...     for text in ("Tea at four", "Tea at five"):
        ...         kept = memory.remember(text, user_id="ann", tags=("plan",))
        ...     memory.update_many({"kind": "note"}, tags=["plan"], user_id="ann")
        2
        """
        return changing.update_many(
            self._view(user_id, org, workspace), changes, key=id, session_id=session_id,
            before=before, kind=kind, tags=tags, filter=filter, metadata=metadata, reason=reason,
        )  # fmt: skip

    def supersede(
        self,
        id: str,  # noqa: A002
        text: str | Episode,
        *,
        user_id: str | None = None,
        org: str | None = None,
        workspace: str | None = None,
        reason: str | None = None,
        if_version: int | None = None,
        embed_timeout: float | None = None,
        **fields: Unpack[SuccessorFields],
    ) -> Remembered:
        """Replace an old episode by a new one, which the history of the old one then names.

        Parameters
        ----------
        id : str
            Of the old one: it is out of recall, and kept as history.
        text : str or Episode
            The new one, of the same user.
        user_id, org, workspace : str, optional
            The user and its partition.
        reason : str, optional
            Kept with the old one; at most 512 bytes.
        if_version : int, optional
            Only if this is the version of the old one.
        embed_timeout : float, optional
            As in :meth:`remember`.
        new_id : str, default drawn at random
            The id of the new one.
        visibility, input, kind, source, session_id : optional
            Fields of the new one, beside a str.
        occurred_at, created_at, importance, pinned, tags, metadata, expires_at, author : optional
            Fields of the new one, beside a str.

        Returns
        -------
        Remembered
            The new one.

        Raises
        ------
        NotFoundError
            The user has no such memory.
        KeyConflictError
            The new id is not free.
        VersionConflictError
            The old one has another version than ``if_version``.
        OptionError, DTypeError, StoreError
            An episode of somebody else; else as in :meth:`remember`. Nothing is changed.

        Notes
        -----
        One call of the embedder, then one transaction for both.

        Examples
        --------
        >>> from hyrecall.memory import MemorySync
        >>> from hyrecall.recipes import loom
        >>> with MemorySync.in_memory(recipe=loom, embedder=None) as memory:
        ...     old = memory.remember("Tea at four").id
        ...     new = memory.supersede(old, "No tea today").id
        ...     memory.history(old)[-1].successor == new, memory.get(old)
        (True, None)
        """
        view = self._view(user_id, org, workspace)
        return changing.supersede(
            view, id, text, fields, reason=reason, embed_timeout=embed_timeout,
            if_version=if_version,
        )  # fmt: skip

    def forget(
        self,
        id: str | Sequence[str] | None = None,  # noqa: A002
        *,
        user_id: str | None = None,
        org: str | None = None,
        workspace: str | None = None,
        session_id: str | None = None,
        before: datetime | None = None,
        kind: str | None = None,
        tags: Sequence[str] | None = None,
        filter: FilterLike | None = None,  # noqa: A002
        metadata: Mapping[str, object] | None = None,
        reason: str | None = None,
        if_version: int | None = None,
        erase: bool = False,
        everything: bool | str = False,
    ) -> int:
        """Take memories of one user out of recall; return how many.

        Their edges go too. ``id``, ``session_id``, ``before``, ``kind``, ``tags``, ``filter`` and
        ``metadata`` choose them: a memory has to meet all that are given, and one, or
        ``everything``, has to be given.

        Parameters
        ----------
        id : str or sequence of str, optional
            The id of one memory, or the ids of several.
        session_id : str, optional
        before : datetime, optional
            What happened before, and facts that were stored before, however long they have held.
        kind, tags, filter, metadata : optional
            As in :meth:`list`. They look at what is there when the call begins.
        user_id, org, workspace : str, optional
            The user and its partition.
        reason : str, optional
            Kept beside each; at most 512 bytes.
        if_version : int, optional
            Only if this is the version of the one memory that ``id`` names; not with ``erase``.
        erase : bool, default False
            Remove every byte of them, history too, from the store and its index.
        everything : bool or str, default False
            All memories of the user: True, or the user's name again. No parameter that chooses may
            stand beside it.

        Returns
        -------
        int
            How many; 0 is no error. An erasure by ids, a session or a time counts what was
            forgotten before too.

        Raises
        ------
        NotFoundError, VersionConflictError
            With ``if_version``: there is no such memory, or it has another version.
        OptionError, DTypeError
            Nothing says which memories are meant; a value that cannot be one.

        Notes
        -----
        One transaction. With ``erase`` the log is emptied after it, which waits up to 5 seconds for
        readers of an older state, and the index is compacted and saved: it costs the whole index.

        Examples
        --------
        >>> from hyrecall.memory import MemorySync
        >>> from hyrecall.recipes import loom
        >>> with MemorySync.in_memory(recipe=loom, embedder=None) as memory:
        ...     tea = memory.remember("Tea at four", user_id="ann").id
        ...     memory.forget(tea, user_id="ann"), len(memory.history(tea, user_id="ann"))
        (1, 2)
        """
        return changing.forget(
            self._view(user_id, org, workspace), key=id, session_id=session_id, before=before,
            kind=kind, tags=tags, filter=filter, metadata=metadata, reason=reason, erased=erase,
            everything=everything, if_version=if_version,
        )  # fmt: skip

    def pin(
        self,
        id: str,  # noqa: A002
        *,
        user_id: str | None = None,
        org: str | None = None,
        workspace: str | None = None,
        pinned: bool = True,
    ) -> None:
        """Pin or unpin an episode, without a new version.

        Parameters
        ----------
        id : str
        user_id, org, workspace : str, optional
            The user and its partition.
        pinned : bool, default True

        Raises
        ------
        NotFoundError
            The user has no such memory.
        """
        changing.pin(self._view(user_id, org, workspace), id, pinned)

    def link(
        self,
        participants: Sequence[str | Participant],
        relationship: str,
        *,
        user_id: str | None = None,
        org: str | None = None,
        workspace: str | None = None,
        visibility: Visibility = "private",
        id: str | None = None,  # noqa: A002
        description: str = "",
        metadata: dict[str, Any] | None = None,
    ) -> Edge:
        """Connect memories by their ids: two make an edge, more a hyperedge.

        Parameters
        ----------
        participants : sequence of str or Participant
            Two or more; a Participant has a role too. Their order is kept. One that is not there
            may come later.
        relationship : str
            1 to 512 bytes.
        user_id, org, workspace : str, optional
            Whose edge, and whose memories.
        visibility : {"private", "global"}, default "private"
            That of the memories: an edge lies in their cell.
        id : str, default drawn at random
        description : str, default ""
            What recipes with a graph search.
        metadata : dict, optional
            JSON.

        Returns
        -------
        Edge

        Raises
        ------
        KeyConflictError
            The user has an edge of this id.
        OptionError, DTypeError
            Fewer than two participants, or fields that cannot be kept.

        Examples
        --------
        >>> from hyrecall.memory import MemorySync
        >>> from hyrecall.recipes import loom
        >>> with MemorySync.in_memory(recipe=loom, embedder=None) as memory:
        ...     edge = memory.link(["tea", "milk"], "goes with", id="e1")
        ...     [one.relationship for one in memory.links("milk")], memory.unlink("e1")
        (['goes with'], True)
        """
        return changing.link(
            self._view(user_id, org, workspace), participants, relationship,
            visibility=visibility, key=id, description=description, metadata=metadata,
        )  # fmt: skip

    def unlink(
        self,
        id: str,  # noqa: A002
        *,
        user_id: str | None = None,
        org: str | None = None,
        workspace: str | None = None,
        reason: str | None = None,
    ) -> bool:
        """Remove an edge; return whether it was there.

        Parameters
        ----------
        id : str
            Of the edge.
        user_id, org, workspace : str, optional
            The user and its partition.
        reason : str, optional
            Kept with it; at most 512 bytes.

        Returns
        -------
        bool
        """
        return changing.unlink(self._view(user_id, org, workspace), id, reason)

    def set_policy(
        self,
        agent: str,
        *,
        org: str | None = None,
        workspace: str | None = None,
        policy: str,
        policy_group: str | None = None,
    ) -> None:
        """Set what an agent may read beside its own memories, from the agent's next call on.

        Parameters
        ----------
        agent : str
            Its name: the ``user_id`` of what it keeps.
        org, workspace : str, optional
            Where it is; no policy reaches beyond.
        policy : {"isolated", "shared", "group"}
            Nothing; global memories of the workspace; of these, those of agents in its group.
        policy_group : str, optional
            The group. "group" without one is taken, and reads nothing of others.

        Raises
        ------
        OptionError, DTypeError
            There is no such policy; a blank name; the store is closed or read-only.

        Examples
        --------
        >>> from hyrecall.memory import MemorySync
        >>> from hyrecall.recipes import loom
        >>> with MemorySync.in_memory(recipe=loom, embedder=None) as memory:
        ...     memory.set_policy("planner", org="acme", workspace="lab", policy="shared")
        ...     at = {"org": "acme", "workspace": "lab"}
        ...     ops = memory.agent("ops", **at).remember("Friday is free", visibility="global")
        ...     [match.episode.text for match in memory.agent("planner", **at).search("friday")]
        ['Friday is free']
        """
        check_id("agent", agent)
        changing.set_policy(self._view(agent, org, workspace), agent, policy, policy_group)

    def get_policy(
        self, agent: str, *, org: str | None = None, workspace: str | None = None
    ) -> ReadPolicy:
        """Return what an agent may read beside its own memories: "isolated" if nobody set it.

        Parameters
        ----------
        agent : str
        org, workspace : str, optional
            Where it is.

        Returns
        -------
        ReadPolicy
            Its policy and its group.
        """
        return self._view(check_id("agent", agent), org, workspace).policy()
