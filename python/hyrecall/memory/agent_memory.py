"""The store as one agent sees it: its own memories, and what its read policy admits.

:class:`AgentMemorySync` is for programs without an event loop, :class:`AgentMemory` awaits it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Unpack

from hyrecall.ask.filter_json import FilterLike
from hyrecall.ask.recipe import Recipe
from hyrecall.base.arguments import check_keywords
from hyrecall.memory import changing
from hyrecall.memory.changing import Given, Remembered, feedback_of, give_feedback
from hyrecall.memory.data.matches import Matches
from hyrecall.memory.data.types import (
    AgentChanges,
    Episode,
    OwnFields,
    Visibility,
    check_id,
    checked,
)
from hyrecall.memory.faces.browse import Browse
from hyrecall.memory.methods import NamedMethods, Runner, awaited
from hyrecall.memory.recall.audience import AskedBy
from hyrecall.memory.recall.call import Floors, Hints, Moment, Reranker, TimeRange
from hyrecall.memory.store import Store
from hyrecall.memory.view import Edges, Episodes, Facts, Versions, View


@check_keywords
class AgentMemorySync:
    """The store as one agent sees it, which :meth:`hyrecall.memory.MemorySync.agent` returns.

    It reads by its policy, as that is at each call, and writes its own memories only. Every change
    says why.

    Notes
    -----
    Errors of every call are those of :class:`hyrecall.memory.MemorySync`, and so is the cost. What
    was wrong with the policy is in ``faults`` of what a search gives.

    Examples
    --------
    >>> from hyrecall.memory import MemorySync
    >>> from hyrecall.recipes import loom
    >>> with MemorySync.in_memory(recipe=loom, embedder=None) as memory:
    ...     planner = memory.agent("planner", org="acme", workspace="lab")
    ...     kept = planner.remember("Friday is free")
    ...     kept = planner.update(kept.id, text="Friday is taken", reason="booked")
    ...     [match.episode.text for match in planner.search("friday")]
    ['Friday is taken']
    """

    def __init__(self, store: Store, by: AskedBy) -> None:
        """Hold an open store, and who asks.

        Parameters
        ----------
        store : Store
        by : AskedBy
        """
        self._view = View(store, by)

    # ---- reading ----

    def search(
        self,
        text: str,
        *,
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
        """Recall what the agent may see, as :meth:`hyrecall.memory.MemorySync.search`."""
        return self._view.search(
            text, kind=kind, limit=limit, offset=offset, since=since, until=until,
            tags=tags, filter=filter, metadata=metadata, alpha=alpha, recipe=recipe, vector=vector,
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
        alpha: float = 0.5,
        normalize: bool = False,
    ) -> Matches:
        """Recall episodes, as :meth:`hyrecall.memory.MemorySync.recall_scored`."""
        return self._view.scored(
            query, kind=kind, limit=limit, time_range=time_range, alpha=alpha, normalize=normalize
        )

    def recall_facts(self, text: str, *, limit: int = 5, valid_at: datetime | None = None) -> Facts:
        """Recall facts that hold, as :meth:`hyrecall.memory.MemorySync.recall_facts`."""
        return self._view.facts(text, limit=limit, valid_at=valid_at)

    def list_facts(
        self,
        *,
        subject: str | None = None,
        predicate: str | None = None,
        object: str | None = None,  # noqa: A002
        valid_at: datetime | None = None,
        limit: int = 200,
        offset: int = 0,
    ) -> Facts:
        """Return facts, newest first, as :meth:`hyrecall.memory.MemorySync.list_facts`."""
        return self._view.listed_facts(
            subject=subject, predicate=predicate, object_=object, valid_at=valid_at,
            limit=limit, offset=offset,
        )  # fmt: skip

    def get(self, id: str, *, visibility: Visibility | None = None) -> Episode | None:  # noqa: A002
        """Return an episode by its id, as :meth:`hyrecall.memory.MemorySync.get`.

        The agent's own comes before another's.
        """
        return self._view.get(id, visibility)

    def history(self, id: str) -> Versions:  # noqa: A002
        """Return every version of a memory, as :meth:`hyrecall.memory.MemorySync.history`.

        The agent's own comes before another's. Of another's memory it gives what can be recalled
        now, without reasons and successors.
        """
        return self._view.history(id)

    def list(
        self,
        *,
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
        """Return episodes, newest first, as :meth:`hyrecall.memory.MemorySync.list`."""
        return self._view.newest(
            kind=kind, tags=tags, pinned=pinned, filter=filter, metadata=metadata,
            since=since, until=until, limit=limit, offset=offset,
        )  # fmt: skip

    def links(self, id: str) -> Edges:  # noqa: A002
        """Return the edges of a memory, as :meth:`hyrecall.memory.MemorySync.links`."""
        return self._view.links(id)

    def browse(self) -> Browse:
        """Return what the agent may see as files to read; its methods are plain functions.

        Returns
        -------
        Browse
            Nothing is read yet.
        """
        return self._view.browse()

    # ---- writing its own memories ----

    def remember(
        self,
        text: str,
        *,
        visibility: Visibility = "private",
        ttl: float | timedelta | None = None,
        embed_timeout: float | None = None,
        **fields: Unpack[OwnFields],
    ) -> Remembered:
        """Keep a memory of this agent.

        Parameters
        ----------
        text : str
            What is remembered: the words of the memory.
        visibility : {"private", "global"}, default "private"
            "global" lets others of the workspace read it whose policy says so.
        ttl, embed_timeout : optional
            As in :meth:`hyrecall.memory.MemorySync.remember`, and so are cost and errors.
        id, input, kind, source, session_id, occurred_at, created_at : optional
            Fields of :class:`Episode`.
        importance, pinned, tags, metadata, expires_at, author : optional
            Fields of :class:`Episode`.

        Returns
        -------
        Remembered

        Raises
        ------
        ScopeError
            The agent has no name.
        KeyConflictError
            It has a memory of this id that is not deleted.
        OptionError, DTypeError
            A field has a value that cannot be kept; the message names it. Nothing is kept.
        """
        by = self._view.by
        own = {"user_id": changing.writer(by), "org": by.org, "workspace": by.workspace}
        one = checked(Episode, {**fields, "text": text, "visibility": visibility, **own})
        one = changing.expiring(one, ttl, self._view.store.now)
        return changing.remember_one(self._view.store, one, None, embed_timeout)

    def update(
        self,
        id: str,  # noqa: A002
        *,
        reason: str,
        if_version: int | None = None,
        embed_timeout: float | None = None,
        **changes: Unpack[AgentChanges],
    ) -> Remembered:
        """Change fields of a memory of its own, as :meth:`hyrecall.memory.MemorySync.update`.

        ``reason`` has to be said. ``expires_at`` stays: what expires leaves no history.

        Raises
        ------
        ScopeError
            The agent has no name.
        NotFoundError
            It has no such memory; another's, which it may read, is none.
        """
        changing.writer(self._view.by)
        why = check_id("reason", reason)
        return changing.update(
            self._view, id, changes, reason=why, embed_timeout=embed_timeout, if_version=if_version
        )

    def end_fact(self, id: str, *, at: datetime | None = None, reason: str) -> Remembered:  # noqa: A002
        """End a fact of its own, as :meth:`hyrecall.memory.MemorySync.end_fact`.

        ``reason`` has to be said.

        Raises
        ------
        ScopeError
            The agent has no name.
        """
        changing.writer(self._view.by)
        return changing.end_fact(self._view, id, at, reason=check_id("reason", reason))

    def forget(self, id: str, *, reason: str, if_version: int | None = None) -> int:  # noqa: A002
        """Take a memory of its own out of recall; its history stays.

        Parameters
        ----------
        id : str
        reason : str
            Kept beside it; 1 to 512 bytes.
        if_version : int, optional
            Only if this is its version.

        Returns
        -------
        int
            1, or 0 if it has no such memory.

        Raises
        ------
        ScopeError
            The agent has no name.
        OptionError, DTypeError
            No reason, or an id that cannot be one.
        """
        changing.writer(self._view.by)
        key = check_id("id", id)
        why = check_id("reason", reason)
        return changing.forget(self._view, key=key, reason=why, if_version=if_version)

    # ---- what helped ----

    def feedback(self, *, used: Sequence[str], query: str) -> int:
        """Tell the store which memories helped, as :meth:`hyrecall.memory.MemorySync.feedback`.

        Parameters
        ----------
        used : sequence of str
            Ids of memories that the agent may read, its own or others'.
        query : str

        Returns
        -------
        int
            How many of them are new for this query.

        Raises
        ------
        ScopeError
            The agent has no name.
        """
        changing.writer(self._view.by)
        return give_feedback(self._view, used, query)

    def list_feedback(self) -> Given:
        """Return what this agent, and nobody else, said that helped.

        Returns
        -------
        list of QueryFeedback
            Oldest query first.
        """
        return feedback_of(self._view)

    def __repr__(self) -> str:
        """Show who it is."""
        by = self._view.by
        return f"<AgentMemory: {by.org!r} / {by.workspace!r} / {by.user!r}>"


@check_keywords
class AgentMemory(NamedMethods):
    """The store as one agent sees it, which :meth:`hyrecall.memory.Memory.agent` returns.

    Its methods are those of :class:`hyrecall.memory.AgentMemorySync`, to be awaited. If a call is
    cancelled, its write may still be committed.
    """

    def __init__(self, sync: AgentMemorySync, run: Runner) -> None:
        """Hold the object whose methods are run, and what runs them off the event loop.

        Parameters
        ----------
        sync : AgentMemorySync
        run : Runner
        """
        self._sync, self._run = sync, run

    search = awaited(AgentMemorySync.search)
    recall_scored = awaited(AgentMemorySync.recall_scored)
    recall_facts = awaited(AgentMemorySync.recall_facts)
    list_facts = awaited(AgentMemorySync.list_facts)
    get = awaited(AgentMemorySync.get)
    history = awaited(AgentMemorySync.history)
    list = awaited(AgentMemorySync.list)
    links = awaited(AgentMemorySync.links)
    remember = awaited(AgentMemorySync.remember, writes=True)
    update = awaited(AgentMemorySync.update, writes=True)
    end_fact = awaited(AgentMemorySync.end_fact, writes=True)
    forget = awaited(AgentMemorySync.forget, writes=True)
    feedback = awaited(AgentMemorySync.feedback, writes=True)
    list_feedback = awaited(AgentMemorySync.list_feedback)

    def browse(self) -> Browse:
        """Return files without await, as :meth:`hyrecall.memory.AgentMemorySync.browse`."""
        return self._sync.browse()

    def __repr__(self) -> str:
        """Show who it is."""
        return repr(self._sync)


# ---- An agent as data, for examples: instructions, the name of a model, and its memory ----


@check_keywords
@dataclass(frozen=True)
class Agent:
    """An agent's instructions, model name and memory, as plain data for examples.

    Parameters
    ----------
    instructions : str
        What it is for.
    model : str, optional
        Name of the model that whoever runs it uses.
    memory : object, optional
        A :class:`hyrecall.memory.Memory`, or anything that keeps its contract.

    Examples
    --------
    >>> agent = Agent("You know our servers.", model="any", memory=None)
    >>> agent.model
    'any'
    """

    instructions: str
    model: str | None = None
    memory: Any = None
