"""The reading methods of :class:`hyrecall.memory.MemorySync`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from hyrecall.filters import Filter
from hyrecall.memory.asking import Reranker, TimeRange
from hyrecall.memory.audience import read_partition
from hyrecall.memory.matches import Matches
from hyrecall.memory.reads import Edges, Episodes, Facts, Reads, User, Versions
from hyrecall.memory.types import Episode, Visibility
from hyrecall.recipe import Recipe

__all__ = ["SyncReads"]


class SyncReads:
    """Reads on behalf of the user that each call names; how, says :class:`MemorySync`."""

    _reads: Reads

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
        """Give the episodes of :meth:`recall_scored`, in its order.

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

    def recall_scored(
        self,
        query: str,
        *,
        kind: str | None = "episodic",
        limit: int = 5,
        time_range: TimeRange | None = None,
        user_id: str | None = None,
        alpha: float = 0.5,
    ) -> Matches:
        """Recall a user's episodes with the components of their scores.

        Parameters
        ----------
        query : str
            Blank gives the newest.
        kind : str or None, default "episodic"
            None is any.
        limit : int, default 5
            In [0, 2^31); the recipe's depth follows it.
        time_range : (datetime or None, datetime or None), optional
            First and last time of an episode, both included; naive is UTC.
        user_id : str, optional
            None is the anonymous bucket, never everybody.
        alpha : float, default 0.5
            In [0, 1]. 0: words alone, 1: vectors alone, 0.5: as the recipe has it.

        Returns
        -------
        Matches
            At most ``limit``, best first: a list that also says whether it is degraded, and why.

        Raises
        ------
        OptionError, DTypeError
            The argument is named.
        StoreError
            Content cannot be read. Trouble with embedder, index or tracker is no error.

        Notes
        -----
        Scores are the recipe's; ``vector_score`` is a cosine in [-1, 1], ``bm25_score`` is >= 0,
        each None where it was not computed.

        Examples
        --------
        >>> import tempfile
        >>> from hyrecall.memory import MemorySync
        >>> with MemorySync.open(tempfile.mkdtemp(), embedder=None) as memory:
        ...     kept = memory.remember("Tea at four", user_id="ann", id="tea")
        ...     (match,) = memory.recall_scored("tea", user_id="ann")
        ...     match.episode.id, match.bm25_score > 0, match.vector_score
        ('tea', True, None)
        """
        by = read_partition(None, None, user_id)
        return self._reads.search(
            query, by, kind=kind, limit=limit, time_range=time_range, alpha=alpha, deepen=True
        )

    def recall_facts(
        self,
        query: str,
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
        query : str
            Blank gives the newest, or as the store's recipe has it.
        limit : int, default 5
            In [0, 2^31).
        valid_at : datetime, optional
            Facts with ``valid_from <= valid_at < valid_to``; naive is UTC. Default: the clock.
        user_id, org, workspace : str, optional
            Whose.

        Returns
        -------
        Facts
            At most ``limit``, with the reasons why there may be more.

        Raises
        ------
        OptionError, DTypeError, StoreError
            As in :meth:`recall_scored`.

        Examples
        --------
        >>> import tempfile
        >>> from hyrecall.memory import Fact, MemorySync
        >>> with MemorySync.open(tempfile.mkdtemp(), embedder=None) as memory:
        ...     kept = memory.remember_fact(Fact(subject="ann", predicate="likes", object="tea"))
        ...     [one.object for one in memory.recall_facts("what does ann like")]
        ['tea']
        """
        by = read_partition(org, workspace, user_id)
        return self._reads.facts(query, by, limit=limit, valid_at=valid_at)

    def search(
        self,
        query: str,
        *,
        user_id: str | None = None,
        org: str | None = None,
        workspace: str | None = None,
        kind: str | None = None,
        limit: int = 10,
        offset: int = 0,
        time_range: TimeRange | None = None,
        tags: Sequence[str] | None = None,
        filter: Filter | None = None,  # noqa: A002
        alpha: float | None = None,
        recipe: Recipe | None = None,
        vector: object = None,
        session_id: str | None = None,
        reranker: Reranker | None = None,
        diversity: float | None = None,
        normalize: bool = False,
        min_score: float | None = None,
        touch: bool = False,
        embed_timeout: float | None = None,
        now: datetime | None = None,
    ) -> Matches:
        """Recall with every option there is; :meth:`recall_scored` has the common ones.

        Parameters
        ----------
        query : str
            Blank gives what the recipe says: the newest, nothing, or an error.
        user_id, org, workspace : str, optional
            Whose memories.
        kind, time_range : optional
            As in :meth:`recall_scored`; default any.
        limit, offset : int, default 10, 0
            Together at most the recipe's depth: 100 in ``recipes.loom``.
        tags : sequence of str, optional
            One of them is enough.
        filter : Filter, optional
            On kind, source, session_id, occurred_at, updated_at, last_accessed, importance,
            pinned, tags, valid_from, valid_to, version.
        alpha : float, optional
            As in :meth:`recall_scored`.
        recipe : Recipe, optional
            Another one that shares the index; default: the store's.
        vector : array, shape (dim,), float32 or what becomes it, optional
            In place of the query's embedding; finite. One of another length than the index has
            degrades the answer.
        session_id : str, optional
            A conversation: recipes that weigh it put what it met above.
        reranker : callable, optional
            ``function(query, texts) -> scores``, or a coroutine of them; it has a second.
        diversity : float, optional
            In [0, 1]: how much unlike those above a match shall be.
        normalize : bool, default False
            Scores over the best possible, in [0, 1].
        min_score : float, optional
            Least score; nothing fills the list then.
        touch : bool, default False
            Count an access of what is given back: a transaction more.
        embed_timeout : float, optional
            Seconds for the embedder, in [0, 3600]; default: ``recall_timeout`` of the store.
        now : datetime, optional
            The time that ages are counted from; default: the clock.

        Returns
        -------
        Matches
            As :meth:`recall_scored` gives them.

        Raises
        ------
        OptionError, DTypeError
            The argument is named: a recipe that needs another index too, and a filter that asks
            for what is not there.
        StoreError
            As in :meth:`recall_scored`.

        Examples
        --------
        >>> import tempfile
        >>> from hyrecall.embed import HashEmbedder
        >>> from hyrecall.memory import MemorySync
        >>> with MemorySync.open(tempfile.mkdtemp(), embedder=HashEmbedder(dim=16)) as memory:
        ...     for text in ("green tea", "black coffee"):
        ...         kept = memory.remember(text, user_id="ann", tags=("drink",))
        ...     matches = memory.search("tea", user_id="ann", tags=["drink"], limit=1)
        ...     matches[0].episode.output, matches.degraded
        ('green tea', False)
        """
        by = read_partition(org, workspace, user_id)
        return self._reads.search(
            query, by, kind=kind, limit=limit, offset=offset, time_range=time_range, tags=tags,
            filter=filter, alpha=alpha, recipe=recipe, vector=vector, session_id=session_id,
            reranker=reranker, diversity=diversity, normalize=normalize, min_score=min_score,
            touch=touch, embed_timeout=embed_timeout, now=now,
        )  # fmt: skip

    def get(
        self,
        id: str,  # noqa: A002
        *,
        user_id: str | None = None,
        org: str | None = None,
        workspace: str | None = None,
        visibility: Visibility | None = None,
    ) -> Episode | None:
        """Give an episode by its id; None if the user has none of it, whoever else has.

        Parameters
        ----------
        id : str
        user_id, org, workspace : str, optional
            Whose.
        visibility : {"private", "global"}, optional
            Default: either, the private one where there are both.

        Returns
        -------
        Episode or None
            A fact too, as the episode it is recalled as.

        Raises
        ------
        OptionError, DTypeError, StoreError
            As every call.
        """
        return self._reads.get(id, read_partition(org, workspace, user_id), visibility)

    def history(
        self,
        id: str,  # noqa: A002
        *,
        user_id: str | None = None,
        org: str | None = None,
        workspace: str | None = None,
    ) -> Versions:
        """Give every version of a memory, oldest first; none of one that is not there.

        Parameters
        ----------
        id : str
        user_id, org, workspace : str, optional
            Whose.

        Returns
        -------
        list of Version
            From 1 on; the last one counts. Empty for one that was erased.

        Raises
        ------
        OptionError, DTypeError, StoreError
            As every call.

        Examples
        --------
        >>> import tempfile
        >>> from hyrecall.memory import MemorySync
        >>> with MemorySync.open(tempfile.mkdtemp(), embedder=None) as memory:
        ...     tea = memory.remember("Tea at four").id
        ...     kept = memory.update(tea, output="Tea at five", reason="moved")
        ...     [(one.episode.output, one.reason) for one in memory.history(tea)]
        [('Tea at four', None), ('Tea at five', 'moved')]
        """
        return self._reads.history(id, read_partition(org, workspace, user_id))

    def list(
        self,
        *,
        user_id: User = None,
        org: str | None = None,
        workspace: str | None = None,
        kind: str | None = None,
        tags: Sequence[str] | None = None,
        pinned: bool | None = None,
        limit: int = 200,
        offset: int = 0,
    ) -> Episodes:
        """Give episodes, newest first; of equal times the one written last.

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
        limit, offset : int, default 200, 0
            Each in [0, 2^31).

        Returns
        -------
        list of Episode
            At most ``limit``, after the first ``offset``.

        Raises
        ------
        OptionError, DTypeError, StoreError
            As every call.

        Notes
        -----
        No index is asked: the database looks at every live memory of the user.
        """
        by = self._reads.partition(org, workspace, user_id)
        return self._reads.newest(
            by, kind=kind, tags=tags, pinned=pinned, limit=limit, offset=offset
        )

    def links(
        self,
        id: str,  # noqa: A002
        *,
        user_id: str | None = None,
        org: str | None = None,
        workspace: str | None = None,
    ) -> Edges:
        """Give the edges in which a memory takes part, in the order they were put there.

        Parameters
        ----------
        id : str
            Of the memory.
        user_id, org, workspace : str, optional
            Whose.

        Returns
        -------
        list of Edge

        Raises
        ------
        OptionError, DTypeError, StoreError
            As every call.
        """
        return self._reads.links(id, read_partition(org, workspace, user_id))
