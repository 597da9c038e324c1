"""Tells a store which memories helped, and lists what it was told; each asker sees its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from hyrecall.memory.changes import GiveFeedback, asker
from hyrecall.memory.data.types import QueryFeedback, read_query, read_used
from hyrecall.memory.recall.audience import audience, read_partition
from hyrecall.memory.sql.codec import Cell
from hyrecall.memory.sql.edge_rows import feedback_by
from hyrecall.memory.store import Store
from hyrecall.memory.view import View

# An alias, because list[...] in a class with a method ``list`` would name that method.
Given: TypeAlias = list[QueryFeedback]


def feedback(
    store: Store,
    *,
    used: Sequence[str],
    query: str,
    user_id: str | None = None,
    org: str | None = None,
    workspace: str | None = None,
) -> int:
    """Tell the store which memories helped with a query; ``hyrecall learn`` learns from it.

    Parameters
    ----------
    used : sequence of str
        1 to 1,000 ids of memories that the user may see; a fact's too.
    query : str
        What was asked; not blank, at most 65,536 bytes.
    user_id, org, workspace : str, optional
        The user and its partition.

    Returns
    -------
    int
        How many of them are new for this query: the same feedback again changes only its time.

    Raises
    ------
    NotFoundError
        The user has no memory of one of the ids, whether or not somebody else has. Nothing is kept.
    OptionError, DTypeError
        No id, or one that cannot be an id; a query that cannot be kept.
    StoreError
        The disk or SQLite fails; nothing is kept.

    Notes
    -----
    One transaction, no call of the embedder; no index changes. The query's text is kept for its
    user. What a memory helped with is forgotten with the memory, also if it is moved to another
    visibility; what is erased takes all feedback with it that names it, with the queries' texts.

    Examples
    --------
    >>> from hyrecall.memory import MemorySync
    >>> from hyrecall.recipes import loom
    >>> with MemorySync.in_memory(recipe=loom, embedder=None) as memory:
    ...     tea = memory.remember("Tea at four", user_id="ann").id
    ...     memory.feedback(used=[tea], query="when is tea?", user_id="ann")
    1
    """
    view = View(store, read_partition(org, workspace, user_id))
    return give_feedback(view, used, query)


def list_feedback(
    store: Store,
    *,
    user_id: str | None = None,
    org: str | None = None,
    workspace: str | None = None,
) -> Given:
    """Return what a user said that helped, oldest query first; never what others said.

    Parameters
    ----------
    user_id, org, workspace : str, optional
        The user and its partition.

    Returns
    -------
    list of QueryFeedback
        A query with every memory that helped and is there; a query of which none is left is
        missing.

    Raises
    ------
    OptionError, DTypeError, StoreError
        As for every call.

    Examples
    --------
    >>> from hyrecall.memory import MemorySync
    >>> from hyrecall.recipes import loom
    >>> with MemorySync.in_memory(recipe=loom, embedder=None) as memory:
    ...     tea = memory.remember("Tea at four", user_id="ann", id="tea").id
    ...     n_new = memory.feedback(used=[tea], query="when is tea?", user_id="ann")
    ...     [(one.query, one.used) for one in memory.list_feedback(user_id="ann")]
    [('when is tea?', ('tea',))]
    """
    return feedback_of(View(store, read_partition(org, workspace, user_id)))


def give_feedback(view: View, used: object, query: object) -> int:
    """Keep which memories helped a caller; return how many are new for the query."""
    ids, text = read_used(used), read_query(query)
    return view.store.write(GiveFeedback(view.by, text, ids, view.store.now()))


def named_by(view: View) -> list[tuple[str, Cell, str]]:
    """Return each query and memory that a caller said to help it: query, cell and id."""
    with view.store.database.reading() as connection:
        cells = audience(connection, view.by).cells
        found = feedback_by(connection, asker(view.by), cells)
    return [(row.query, cells[row.cell], row.id) for row in found]


def feedback_of(view: View) -> Given:
    """Return what a caller said that helped, of what it may see now."""
    with view.store.database.reading() as connection:
        cells = audience(connection, view.by).cells
        found = feedback_by(connection, asker(view.by), cells)
    by_query: dict[str, QueryFeedback] = {}
    for row in found:
        known = by_query.get(row.query, QueryFeedback(row.query, (), row.at))
        used = tuple(dict.fromkeys((*known.used, row.id)))
        by_query[row.query] = QueryFeedback(row.query, used, max(known.at, row.at))
    return list(by_query.values())
