"""How :class:`hyrecall.memory.MemorySync` recalls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from hyrecall.ask.filter_expression import FilterLike
from hyrecall.ask.recipe import Recipe
from hyrecall.base.keywords import check_keywords
from hyrecall.errors import OptionError, error
from hyrecall.memory.data.matches import Matches
from hyrecall.memory.reads import Episodes, Facts, Reads
from hyrecall.memory.recall.adapting import Reranker
from hyrecall.memory.recall.audience import Partition, read_partition, read_partitions
from hyrecall.memory.recall.call import Hints, TimeRange

__all__ = ["SyncRecall"]


@check_keywords
class SyncRecall:
    """Recalls on behalf of the user that each call names; how, says :class:`MemorySync`."""

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
        OptionError, DTypeError
            The argument is named.
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
        by = read_partition(None, None, user_id)
        return self._reads.scored(
            query, by, kind=kind, limit=limit, time_range=time_range, alpha=alpha,
            normalize=normalize,
        )  # fmt: skip

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
            Ranked as a search is. Blank gives the newest, or as the store's recipe has it.
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
        >>> from hyrecall.memory import Fact, MemorySync
        >>> from hyrecall.recipes import loom
        >>> with MemorySync.in_memory(recipe=loom, embedder=None) as memory:
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
        partitions: Sequence[Partition] | None = None,
        kind: str | None = None,
        limit: int = 10,
        offset: int = 0,
        time_range: TimeRange | None = None,
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
        min_score: float | None = None,
        weights: Mapping[str, float] | None = None,
        token_budget: int | None = None,
        candidates: Hints | None = None,
        touch: bool = False,
        embed_timeout: float | None = None,
        now: datetime | None = None,
    ) -> Matches:
        """Recall with every option there is; :meth:`recall_scored` has the common ones.

        Parameters
        ----------
        query : str
            Blank gives what the recipe says: nothing in ``recipes.default``, the newest in
            ``recipes.loom``, or an error.
        user_id, org, workspace : str, optional
            Whose memories.
        partitions : sequence of Partition, optional
            In place of these three: several, ranked as one.
        kind, time_range : optional
            As in :meth:`recall_scored`; default any.
        limit, offset : int, default 10, 0
            Together at most the recipe's depth: 100 in ``recipes.default``.
        tags : sequence of str, optional
            One of them is enough.
        filter : Filter or pyarrow.compute.Expression, optional
            On kind, source, session_id, occurred_at, updated_at, last_accessed, importance,
            pinned, tags, valid_from, valid_to, version, and a key of the metadata as
            ``metadata.key``, one in an object as ``metadata.run.id``.
        metadata : mapping of str to object, optional
            What is asked of keys of the metadata, each as :class:`hyrecall.Filter` takes it: a
            value, a list for any of its values, a pair for a range. All must hold.
        alpha : float, optional
            As in :meth:`recall_scored`.
        recipe : Recipe, optional
            Another one that shares the index. Default: the store's, else ``recipes.default``.
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
        weights : mapping of str to float, optional
            Of "recency", "importance" and "relevance", each in [0, 1e6], for recipes with a
            composite score; what is not named is the recipe's.
        token_budget : int, optional
            Take matches while their texts fit, the first always, as the recipe's ``budget_mmr``
            chooses them: characters / 4 a text. ``limit`` still holds. 0 or less: no budget.
        candidates : sequence of str, or mapping of str to float, optional
            Ids that may be meant: best first, or with scores. They are fused as an arm's list is,
            and one that the user may not see vanishes without a word.
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
        >>> from hyrecall.embed import HashEmbedder
        >>> from hyrecall.memory import MemorySync
        >>> from hyrecall.recipes import loom
        >>> by = HashEmbedder(dim=16)
        >>> with MemorySync.in_memory(recipe=loom, embedder=by) as memory:
        ...     for text in ("green tea", "black coffee"):
        ...         kept = memory.remember(text, user_id="ann", tags=("drink",))
        ...     matches = memory.search("tea", user_id="ann", tags=["drink"], limit=1)
        ...     matches[0].episode.output, matches.degraded
        ('green tea', False)

        Keys of the metadata, alone and in a filter with columns:

        >>> import hyrecall as hr
        >>> with MemorySync.in_memory(recipe=loom, embedder=None) as memory:
        ...     for lang in ("en", "de"):
        ...         kept = memory.remember(f"tea ({lang})", metadata={"lang": lang})
        ...     of_key = hr.Filter(**{"metadata.lang": "de"}) | hr.Filter(pinned=True)
        ...     for asked in ({"metadata": {"lang": ["en", "fr"]}}, {"filter": of_key}):
        ...         [match.episode.output for match in memory.search("tea", **asked)]
        ['tea (en)']
        ['tea (de)']
        """
        if partitions is None:
            by = read_partition(org, workspace, user_id)
        elif (user_id, org, workspace) == (None, None, None):
            by = read_partitions(partitions)
        else:
            wish = "none beside user_id=, org= or workspace="
            raise error(OptionError, "partitions", wish, "both")
        return self._reads.search(
            query, by, kind=kind, limit=limit, offset=offset, time_range=time_range, tags=tags,
            filter=filter, metadata=metadata, alpha=alpha, recipe=recipe, vector=vector,
            session_id=session_id, reranker=reranker, diversity=diversity, normalize=normalize,
            min_score=min_score, weights=weights, token_budget=token_budget, candidates=candidates,
            touch=touch, embed_timeout=embed_timeout, now=now,
        )  # fmt: skip
