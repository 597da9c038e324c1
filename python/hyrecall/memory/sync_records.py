"""The methods of :class:`hyrecall.memory.MemorySync` that keep, read and change single memories.

The class has the name of the whole one, so that every method is shown as ``MemorySync.remember``;
:mod:`hyrecall.memory.sync` adds the other methods.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeAlias, Unpack

from hyrecall.ask.filters import FilterLike
from hyrecall.base.arguments import check_keywords
from hyrecall.base.progress import ProgressFunction
from hyrecall.memory import changing
from hyrecall.memory.changing import Remembered
from hyrecall.memory.data.types import (
    Changes,
    Edge,
    Episode,
    EpisodeFields,
    Fact,
    Participant,
    Visibility,
    check_id,
)
from hyrecall.memory.methods import NamedMethods
from hyrecall.memory.recall.audience import User, read_owner, read_partition
from hyrecall.memory.sql.reading import ReadPolicy
from hyrecall.memory.store import Store
from hyrecall.memory.view import Edges, Episodes, Versions, View

__all__ = ["Kept", "MemorySync"]

Kept: TypeAlias = list[Remembered]


@check_keywords
class MemorySync(NamedMethods):
    """The methods that read and change memories of the user that each call names."""

    _store: Store

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

        Raises
        ------
        OptionError, DTypeError, StoreError
            As for every call.
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
        limit: int = 200,
        offset: int = 0,
    ) -> Episodes:
        """Return episodes, newest first; of equal times the one written last.

        Parameters
        ----------
        user_id : str or None or EVERYONE
            Whose. ``EVERYONE``, all users of the org and workspace, is for those who keep the
            store.
        org, workspace : str, optional
        kind : str, optional
            Default: any, facts ("fact") too.
        tags : sequence of str, optional
            One of them is enough.
        pinned : bool, optional
            Only pinned ones, or only others.
        filter, metadata : optional
            As in :meth:`search`.
        limit, offset : int, default 200, 0
            Each in [0, 2^31).

        Returns
        -------
        list of Episode
            At most ``limit``, after the first ``offset``.

        Raises
        ------
        OptionError, DTypeError, StoreError
            As for every call.

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
        ...     [one.output for one in memory.list(metadata={"year": (2024, None)})]
        ['Plan 2025', 'Plan 2024']
        """
        return View(self._store, read_owner(org, workspace, user_id)).newest(
            kind=kind, tags=tags, pinned=pinned, filter=filter, metadata=metadata,
            limit=limit, offset=offset,
        )  # fmt: skip

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

        Raises
        ------
        OptionError, DTypeError, StoreError
            As for every call.

        Examples
        --------
        >>> from hyrecall.memory import MemorySync
        >>> from hyrecall.recipes import loom
        >>> with MemorySync.in_memory(recipe=loom, embedder=None) as memory:
        ...     tea = memory.remember("Tea at four").id
        ...     kept = memory.update(tea, output="Tea at five", reason="moved")
        ...     [(one.episode.output, one.reason) for one in memory.history(tea)]
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

        Raises
        ------
        OptionError, DTypeError, StoreError
            As for every call.
        """
        return self._view(user_id, org, workspace).links(id)

    def remember(
        self,
        episode: Episode | str,
        *,
        vector: object = None,
        embed_timeout: float | None = None,
        **fields: Unpack[EpisodeFields],
    ) -> Remembered:
        """Keep an episode; once this returns, it survives a power cut.

        Parameters
        ----------
        episode : Episode or str
            A str is its output; other fields are then keywords: ``user_id="alice"``.
        vector : array, shape (dim,), float32 or convertible, optional
            Replaces an embedding by the embedder's model. Finite, with a norm of 0 or in
            [2^-60, 2^60].
        embed_timeout : float, optional
            Seconds for the embedder, in [0, 3600]; default: ``write_timeout`` of the store, or the
            embedder's own timeout if that is less. An episode without a vector is kept too, and
            found by words.
        id, user_id, org, workspace, visibility, input, kind, source, session_id : optional
            Fields of :class:`Episode`, beside a str.
        occurred_at, created_at, importance, pinned, tags, metadata : optional
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
        StoreError
            The disk or SQLite fails; nothing is kept.

        Notes
        -----
        One call of the embedder, none with ``vector`` or a blank text; then one transaction.

        Examples
        --------
        >>> from hyrecall.memory import MemorySync
        >>> from hyrecall.recipes import loom
        >>> with MemorySync.in_memory(recipe=loom, embedder=None) as memory:
        ...     memory.remember("Tea at four", user_id="ann", id="tea", tags=("plan",))
        Remembered(id='tea', version=1, embedded=False, reasons=())
        """
        one = changing.episode_of(episode, fields)
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
        ...     kept = memory.remember_batch(Episode(output=text) for text in ("tea", "coffee"))
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
        OptionError, DTypeError, StoreError
            As in :meth:`remember`.

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
        StoreError
            The disk or SQLite fails; nothing is changed.

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
        embed_timeout : float, optional
            As in :meth:`remember`.
        input, output, kind, source, session_id, occurred_at, created_at : optional
            Fields of :class:`Episode`.
        importance, pinned, tags, metadata : optional
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
        UnknownOptionError
            A field that no episode has, or that cannot be changed.
        OptionError, DTypeError
            No change, a fact with another change than ``valid_to``, or what no episode may hold.
        StoreError
            The disk or SQLite fails; nothing is changed.

        Notes
        -----
        One call of the embedder where the text changes, else none; then one transaction.

        Examples
        --------
        >>> from hyrecall.memory import MemorySync
        >>> from hyrecall.recipes import loom
        >>> with MemorySync.in_memory(recipe=loom, embedder=None) as memory:
        ...     tea = memory.remember("Tea at four", user_id="ann").id
        ...     memory.update(tea, user_id="ann", output="Tea at five", reason="moved").version
        2
        """
        view = self._view(user_id, org, workspace)
        return changing.update(view, id, changes, reason=reason, embed_timeout=embed_timeout)

    def supersede(
        self,
        id: str,  # noqa: A002
        episode: Episode | str,
        *,
        user_id: str | None = None,
        org: str | None = None,
        workspace: str | None = None,
        reason: str | None = None,
        embed_timeout: float | None = None,
    ) -> Remembered:
        """Replace an old episode by a new one, which the history of the old one then names.

        Parameters
        ----------
        id : str
            Of the old one: it is out of recall, and kept as history.
        episode : Episode or str
            Of the same user. A str is the output of one.
        user_id, org, workspace : str, optional
            The user and its partition.
        reason : str, optional
            Kept with the old one; at most 512 bytes.
        embed_timeout : float, optional
            As in :meth:`remember`.

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
        return changing.supersede(view, id, episode, reason=reason, embed_timeout=embed_timeout)

    def forget(
        self,
        id: str | None = None,  # noqa: A002
        *,
        user_id: str | None = None,
        org: str | None = None,
        workspace: str | None = None,
        session_id: str | None = None,
        before: datetime | None = None,
        reason: str | None = None,
        erase: bool = False,
        everything: bool = False,
    ) -> int:
        """Take memories of one user out of recall; return how many.

        Their edges go too. An id, a session, a time or ``everything`` has to say which.

        Parameters
        ----------
        id, session_id : str, optional
        before : datetime, optional
            What happened before, and facts that were stored before, however long they have held;
            with the others: all must hold.
        user_id, org, workspace : str, optional
            The user and its partition.
        reason : str, optional
            Kept beside each; at most 512 bytes.
        erase : bool, default False
            Remove every byte of them, history too, from the store and its index.
        everything : bool, default False
            All of the user, which has to be named; not beside an id, a session or a time.

        Returns
        -------
        int
            How many; 0 is no error. An erasure counts what was forgotten before too.

        Raises
        ------
        OptionError, DTypeError
            Nothing says which memories are meant; a value that cannot be one.
        StoreError
            The disk or SQLite fails; nothing is forgotten.

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
            self._view(user_id, org, workspace), id, session_id=session_id, before=before,
            reason=reason, erased=erase, everything=everything,
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
        OptionError, DTypeError, StoreError
            As for every call.
        """
        changing.pin(self._view(user_id, org, workspace), id, pinned)

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
            The disk or SQLite fails; nothing is kept.

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
            self._view(user_id, org, workspace), nodes, relationship, visibility=visibility,
            key=id, description=description, metadata=data,
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

        Raises
        ------
        OptionError, DTypeError, StoreError
            As for every call.
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
        StoreError
            The disk or SQLite fails; nothing is changed.

        Examples
        --------
        >>> from hyrecall.memory import MemorySync
        >>> from hyrecall.recipes import loom
        >>> with MemorySync.in_memory(recipe=loom, embedder=None) as memory:
        ...     memory.set_policy("planner", org="acme", workspace="lab", policy="shared")
        ...     at = {"org": "acme", "workspace": "lab"}
        ...     ops = memory.agent("ops", **at).remember("Friday is free", visibility="global")
        ...     [match.episode.output for match in memory.agent("planner", **at).search("friday")]
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

        Raises
        ------
        OptionError, DTypeError, StoreError
            As for every call.
        """
        return self._view(check_id("agent", agent), org, workspace).policy()
