"""A store for programs without an event loop; :mod:`hyrecall.memory.memory` has its async twin."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from hyrecall.ask.recipe import Recipe
from hyrecall.base.keywords import check_keywords
from hyrecall.base.progress import ProgressFunction
from hyrecall.memory import changing
from hyrecall.memory.data.sessions import SessionTracker
from hyrecall.memory.data.types import Edge, Participant, Visibility
from hyrecall.memory.faces.browse import Browse
from hyrecall.memory.reads import Reads
from hyrecall.memory.recall.audience import read_agent, read_partition
from hyrecall.memory.sql.in_memory import IN_MEMORY
from hyrecall.memory.sql.roster import set_policy
from hyrecall.memory.store import AUTO, Clock, Given, Store, StoreOptions
from hyrecall.memory.sync_reads import SyncReads
from hyrecall.memory.sync_recall import SyncRecall
from hyrecall.memory.sync_upkeep import SyncUpkeep
from hyrecall.memory.sync_writes import Kept, SyncWrites
from hyrecall.memory.view import AgentMemorySync
from hyrecall.text.analyzer import Analyzer

__all__ = ["Kept", "MemorySync"]


@check_keywords
class MemorySync(SyncRecall, SyncReads, SyncWrites, SyncUpkeep):
    """A durable store that recalls, called as plain functions.

    Every call runs in the thread of its caller; any number of threads may share one. A process has
    one writing handle on a store; others read beside it.

    Notes
    -----
    **Whose.** ``user_id`` is a user: None is the anonymous bucket, "" another one, never everybody.
    ``org`` and ``workspace`` are the partition around the user; None is a partition too. Each is a
    str of at most 512 bytes, not blank but for "", without NUL. Whoever asks meets nothing of
    anybody else, and an id of somebody else's answers as one that is not there. To recall, list or
    browse without ``user_id`` in a store with named users warns (:class:`IsolationWarning`).

    **Times** without a zone are UTC.

    **Errors of every call.** OptionError: the store is closed, or is read-only and asked to write;
    a value that is not as said here. DTypeError: an argument of another type. StoreError: the disk
    or SQLite refuses, or the handle was made in the parent of a forked process.

    **Cost.** What writes is one transaction, which is on the disk when the call returns; threads
    take turns. Texts are embedded before it. A recall embeds its query once at most, and applies to
    the index what was committed since the last one, unless a thread has done so already.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from hyrecall.recipes import loom
    >>> folder = Path(tempfile.mkdtemp()) / "agent.mem"
    >>> with MemorySync.open(folder, recipe=loom, embedder=None) as memory:
    ...     kept = memory.remember("The build runs on Debian 12", user_id="alice")
    ...     [match.episode.output for match in memory.search("debian", user_id="alice")]
    ['The build runs on Debian 12']
    """

    def __init__(self, store: Store) -> None:
        """Hold an open store; use :meth:`open`.

        Parameters
        ----------
        store : Store
        """
        self._store = store
        self._reads = Reads(store)

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        recipe: Recipe | None = None,
        analyzer: Analyzer | str | None = None,
        embedder: Given = AUTO,
        dim: int | None = None,
        read_only: bool = False,
        wait: float = 0.0,
        accept_loss: bool = False,
        recall_timeout: float = 1.5,
        write_timeout: float = 5.0,
        sessions: SessionTracker | None = None,
        snapshot_every: int = 10_000,
        device: str = "cpu",
        threads: int | None = None,
        progress: ProgressFunction | None = None,
        warm: bool = True,
        clock: Clock | None = None,
    ) -> MemorySync:
        """Open a store; a writer makes it if it is not there.

        Parameters
        ----------
        path : path-like
            A folder, of this store alone: new, empty, or a store's. ``":memory:"`` makes a new
            store in memory, as :meth:`in_memory` does; it takes no ``read_only``, ``wait``,
            ``accept_loss`` or ``snapshot_every``.
        recipe : Recipe, optional
            How to recall where a call names no other. Default: ``recipes.default``, but
            ``recall_scored`` and ``recall`` have the formula of ``recipes.loom``; both read one
            index.
        analyzer : Analyzer or str, optional
            How texts become words, or the name of such an analyzer. Default: the one that the
            recipe states, ``"word"`` for ``recipes.loom``, else ``"unicode:english"``. Another one
            than before makes the index anew; one with a callable must be passed at each opening.
        embedder : Embedder or Off or str or None, optional
            An object, "static", an ``http(s)://`` endpoint, "off"; None recalls by words. Default:
            the endpoint that ``HYRECALL_EMBEDDING_URL`` names, else the packaged one if installed.
        dim : int, optional
            Length of vectors, in [1, 65536]. Default: the embedder's, else that of what is stored,
            else 768 until the embedder has replied.
        read_only : bool, default False
            Be one of many readers; nothing in the folder is changed, and it need not be writable.
        wait : float, default 0
            Seconds to wait for another writer to leave, in [0, 86400].
        accept_loss : bool, default False
            Open a store that has lost acknowledged changes (CorruptStoreError) as it is now. A
            writer settles it: later openings do not ask again.
        recall_timeout, write_timeout : float, default 1.5, 5
            Seconds that a call may wait for the embedder, in [0, 86400].
        sessions : SessionTracker, optional
            Where conversations are kept; default: in the store, for 24 hours. ``InProcessSessions``
            and ``RedisSessions`` keep them elsewhere.
        snapshot_every : int, default 10,000
            After so many changes, at least 1, the index is saved.
        device : str, default "cpu"
            Where vectors are searched, as in :meth:`hyrecall.Index.build`.
        threads, progress : optional
            Of the building of the index, as in :meth:`hyrecall.Index.build`.
        warm : bool, default True
            Load the embedder's model at once, on a thread: until it is loaded, calls go by words.
            False: the first call that needs a vector loads it, for who needs none.
        clock : callable, optional
            Gives the time, a datetime; for tests.

        Returns
        -------
        MemorySync
            To be closed, or used as a context manager.

        Raises
        ------
        WriterBusyError
            Another writer holds the store, in this process or another.
        StoreNotFoundError
            ``read_only``, and there is none.
        StoreFormatError
            It is of a newer format, or is no store.
        CorruptStoreError
            The database is damaged, missing, or ends before a change that LOCK or the saved index
            names. Nothing is changed; the message says what can be done.
        StoreError
            The disk refuses.
        DeviceUnavailableError
            The named device is not there.
        MissingExtraError
            "static" without the extra ``[local]``, or a URL without ``[http]``.
        OptionError, DTypeError
            The argument is named: an analyzer beside a recipe that states another, too; the folder
            holds other things; SQLite is too old to be trusted.

        Notes
        -----
        A saved index is read and checked. One that is missing, damaged or of another recipe,
        analyzer or model is made anew from the rows: before this returns in a store of up to
        20,000 memories, else by a thread, and recalls go by substrings until it is there. When the
        interpreter exits, threads of stores that are not closed are awaited for up to 10 seconds.
        """
        options = StoreOptions(
            recipe=recipe, analyzer=analyzer, embedder=embedder, dim=dim, read_only=read_only,
            wait=wait, accept_loss=accept_loss, recall_timeout=recall_timeout,
            write_timeout=write_timeout, sessions=sessions, snapshot_every=snapshot_every,
            device=device, threads=threads, progress=progress, warm=warm, clock=clock,
        )  # fmt: skip
        return cls(Store(path, options))

    @classmethod
    def in_memory(
        cls,
        *,
        recipe: Recipe | None = None,
        analyzer: Analyzer | str | None = None,
        embedder: Given = AUTO,
        dim: int | None = None,
        recall_timeout: float = 1.5,
        write_timeout: float = 5.0,
        sessions: SessionTracker | None = None,
        device: str = "cpu",
        threads: int | None = None,
        warm: bool = True,
        clock: Clock | None = None,
    ) -> MemorySync:
        """Open a new, empty store in memory, as ``open(":memory:")`` does.

        It has every method of a store on the disk and gives the same replies. Nothing is written to
        the disk; when it is closed, or the process ends, everything in it is gone.

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
        A write waits for readings of other threads to end, and they for it: a store on the disk
        lets them run side by side. Memory: about that of the files of a store on the disk.

        Examples
        --------
        >>> from hyrecall.recipes import loom
        >>> with MemorySync.in_memory(recipe=loom, embedder=None) as memory:
        ...     kept = memory.remember("The build runs on Debian 12", user_id="alice")
        ...     [match.episode.output for match in memory.search("debian", user_id="alice")]
        ['The build runs on Debian 12']
        """
        return cls.open(
            IN_MEMORY, recipe=recipe, analyzer=analyzer, embedder=embedder, dim=dim,
            recall_timeout=recall_timeout, write_timeout=write_timeout, sessions=sessions,
            device=device, threads=threads, warm=warm, clock=clock,
        )  # fmt: skip

    # ---- edges ----

    def link(
        self,
        nodes: Sequence[str | Participant],
        relationship: str,
        *,
        user_id: str | None = None,
        org: str | None = None,
        workspace: str | None = None,
        visibility: Visibility = "private",
        id: str | None = None,  # noqa: A002
        description: str = "",
        data: dict[str, Any] | None = None,
    ) -> Edge:
        """Connect memories by their ids: two make an edge, more a hyperedge.

        Parameters
        ----------
        nodes : sequence of str or Participant
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
        data : dict, optional
            JSON: its ``metadata``.

        Returns
        -------
        Edge

        Raises
        ------
        KeyConflictError
            The user has an edge of this id.
        OptionError, DTypeError
            Fewer than two nodes, or fields that cannot be kept.
        StoreError
            The disk refuses; nothing is kept.

        Examples
        --------
        >>> from hyrecall.recipes import loom
        >>> with MemorySync.in_memory(recipe=loom, embedder=None) as memory:
        ...     edge = memory.link(["tea", "milk"], "goes with", id="e1")
        ...     [one.relationship for one in memory.links("milk")], memory.unlink("e1")
        (['goes with'], True)
        """
        by = read_partition(org, workspace, user_id)
        edge = changing.edge_of(
            nodes, relationship, by=by, key=id, description=description, metadata=data,
            visibility=visibility,
        )  # fmt: skip
        return changing.link(self._store, edge)

    def unlink(
        self,
        id: str,  # noqa: A002
        *,
        user_id: str | None = None,
        org: str | None = None,
        workspace: str | None = None,
        reason: str | None = None,
    ) -> bool:
        """Take an edge away; say whether it was there.

        Parameters
        ----------
        id : str
            Of the edge.
        user_id, org, workspace : str, optional
            Whose.
        reason : str, optional
            Kept with it; at most 512 bytes.

        Returns
        -------
        bool

        Raises
        ------
        OptionError, DTypeError, StoreError
            As every call.
        """
        by = read_partition(org, workspace, user_id)
        return changing.unlink(self._store, by, id, reason)

    # ---- views ----

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
            Whose.

        Returns
        -------
        Browse
            Nothing is read yet.

        Raises
        ------
        OptionError, DTypeError
            A name that cannot be one.
        """
        return Browse(self._store.database, read_partition(org, workspace, user_id))

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

    # ---- the store itself ----

    def set_policy(
        self,
        agent: str,
        *,
        org: str | None = None,
        workspace: str | None = None,
        policy: str,
        policy_group: str | None = None,
    ) -> None:
        """Say what an agent may read beside its own; it holds from the agent's next call on.

        Parameters
        ----------
        agent : str
            Its name: the ``user_id`` of what it keeps.
        org, workspace : str, optional
            Where it is; no policy reaches beyond.
        policy : {"isolated", "shared", "group"}
            Nothing; global memories of the workspace; of these, those of agents in its group.
        policy_group : str, optional
            The group. "group" without one reads nothing of others.

        Raises
        ------
        OptionError, DTypeError
            There is no such policy; a blank name; the store is closed or read-only.
        StoreError
            The disk refuses; nothing is changed.

        Examples
        --------
        >>> from hyrecall.recipes import loom
        >>> with MemorySync.in_memory(recipe=loom, embedder=None) as memory:
        ...     memory.set_policy("planner", org="acme", workspace="lab", policy="shared")
        ...     at = {"org": "acme", "workspace": "lab"}
        ...     ops = memory.agent("ops", **at).remember("Friday is free", visibility="global")
        ...     [match.episode.output for match in memory.agent("planner", **at).search("friday")]
        ['Friday is free']
        """
        by = read_partition(org, workspace, agent)
        with self._store.database.transaction() as connection:
            set_policy(connection, by.org, by.workspace, agent, policy, policy_group)

    def close(self) -> None:
        """Save the index and let go of the store. Closing twice is fine."""
        self._store.close()

    def __enter__(self) -> MemorySync:
        """Return the store."""
        return self

    def __exit__(self, *exc: object) -> None:
        """Close it."""
        self.close()

    def __repr__(self) -> str:
        """Show where it is."""
        return f"<MemorySync: {self._store!r}>"
