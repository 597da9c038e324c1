"""Changes a store: embeds, then writes in one transaction; the index is updated after it."""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import reduce
from operator import and_
from typing import Any, Final, TypeAlias

import apsw
import numpy as np
import numpy.typing as npt

from hyrecall.ask.filters import Filter, IsNull
from hyrecall.base.arguments import as_int, number
from hyrecall.base.progress import ProgressFunction, read_progress
from hyrecall.errors import DTypeError, KeyConflictError, OptionError, ScopeError, error
from hyrecall.memory.changes import (
    TEXT_FIELDS,
    AddEdge,
    EndFact,
    Forget,
    GiveFeedback,
    Pin,
    Remember,
    RememberFact,
    RemoveEdge,
    SetPolicy,
    Supersede,
    Update,
    UpdateMany,
    asker,
    changed_text,
    own,
    owned,
)
from hyrecall.memory.data.matches import Degradation
from hyrecall.memory.data.types import (
    Edge,
    Episode,
    Fact,
    Participant,
    QueryFeedback,
    Visibility,
    check_id,
    checked,
    flag,
    in_utc,
    read_query,
    read_used,
)
from hyrecall.memory.derived.row_filters import columns_of, passing_in_order, read_narrowing
from hyrecall.memory.keeping import Owner
from hyrecall.memory.recall.audience import EVERYONE, AskedBy, audience, read_partition
from hyrecall.memory.recall.call import read_seconds, read_tags
from hyrecall.memory.sql import writing
from hyrecall.memory.sql.codec import Cell, cell_of
from hyrecall.memory.sql.edge_rows import feedback_rows
from hyrecall.memory.sql.fact_rows import KIND, as_episode
from hyrecall.memory.sql.reading import homes_of_rows, newest_rows, places_of_rows
from hyrecall.memory.sql.store_sessions import StoreSessions
from hyrecall.memory.sql.writing import Selection, check_which, selected
from hyrecall.memory.store import Store
from hyrecall.memory.view import View

BATCH_TEXTS: Final = 64
"""Texts of one call of the embedder."""

Vector = npt.NDArray[np.float32]

CHANGED: Final = set(Episode.model_fields) - {*writing.FIXED_FIELDS, *TEXT_FIELDS, "visibility"}
"""The fields that may be changed of many memories at once."""

_NO_FACTS: Final = Filter(valid_from=IsNull())


@dataclass(frozen=True)
class Remembered:
    """The result of keeping one memory.

    Attributes
    ----------
    id : str
    version : int
    embedded : bool
        Whether it has a vector.
    reasons : tuple of Degradation
        Why it has none; empty where none was wanted.
    """

    id: str
    version: int
    embedded: bool
    reasons: tuple[Degradation, ...] = ()


def episode_of(given: object, fields: Mapping[str, Any]) -> Episode:
    """Return the episode that a call passes, or one made of a text and fields."""
    if isinstance(given, str):
        return checked(Episode, {"text": given, **fields})
    if not isinstance(given, Episode):
        raise error(DTypeError, "text", "a str or an Episode", type(given).__name__)
    if fields:
        wish = "no fields beside an Episode"
        raise error(OptionError, next(iter(fields)), wish, "one", "episode.model_copy(update=...)")
    return checked(Episode, _fields_of(given))


def expiring(one: Episode, ttl: object, now: Callable[[], datetime]) -> Episode:
    """Return an episode that expires after so many seconds, if a call says so."""
    if ttl is None:
        return one
    if one.expires_at is not None:
        raise error(OptionError, "ttl", "none beside expires_at", "both")
    seconds = ttl.total_seconds() if isinstance(ttl, timedelta) else ttl
    wish = "seconds, more than 0, or a timedelta"
    least = math.nextafter(0.0, 1.0)
    try:
        ends = now() + timedelta(seconds=number("ttl", seconds, least, math.inf, wish))
    except OverflowError:
        raise error(OptionError, "ttl", "one that ends before the year 10000", ttl) from None
    return one.model_copy(update={"expires_at": ends})


def _fields_of(given: Episode | Fact) -> dict[str, Any]:
    """Return the fields to check again: ``model_construct`` and ``model_copy`` check none."""
    known = type(given).model_fields
    return {name: value for name, value in vars(given).items() if name in known}


def remember(
    store: Store,
    episodes: Iterable[Episode],
    *,
    vectors: object = None,
    embed_timeout: float | None = None,
    progress: ProgressFunction | None = None,
) -> list[Remembered]:
    """Keep episodes, all or none."""
    # These are iterable too, but not of episodes.
    if not isinstance(episodes, Iterable) or isinstance(episodes, str | bytes | Mapping | Episode):
        raise error(DTypeError, "episodes", "Episodes", type(episodes).__name__)
    progress = read_progress(progress)
    kept = [episode_of(one, {}) for one in episodes]
    rows, reasons = _vectors(
        store, [one.full_text for one in kept], vectors, embed_timeout, progress
    )
    new = [
        writing.NewVersion(cell_of(one), one, row, None if row is None else store.model)
        for one, row in zip(kept, rows, strict=True)
    ]
    versions = store.write(Remember(tuple(new)))
    return [
        Remembered(one.id, version, row is not None, () if row is not None else why)
        for one, version, row, why in zip(kept, versions, rows, reasons, strict=True)
    ]


def remember_one(
    store: Store, episode: Episode, vector: object, embed_timeout: float | None
) -> Remembered:
    """Keep one episode; ``vector`` takes the place of its embedding."""
    vectors = None if vector is None else [vector]
    (one,) = remember(store, [episode], vectors=vectors, embed_timeout=embed_timeout)
    return one


def remember_fact(store: Store, fact: Fact, *, embed_timeout: float | None = None) -> Remembered:
    """Keep a fact, and end the interval of the fact that it follows."""
    if not isinstance(fact, Fact):
        raise error(DTypeError, "fact", "a Fact", type(fact).__name__)
    fact = checked(Fact, _fields_of(fact))
    (row,), (why,) = _vectors(store, [as_episode(fact).full_text], None, embed_timeout, None)
    model = None if row is None else store.model
    at, version, is_embedded = store.write(RememberFact(fact, row, model))
    with store.database.reading() as connection:  # another fact may say the same already
        homes = homes_of_rows(connection, [at])
    key = homes[0][1] if homes else fact.id
    return Remembered(key, version, is_embedded, () if is_embedded else why)


def end_fact(
    view: View, key: str, at: object, *, reason: str | None, is_open: bool = False
) -> Remembered:
    """Set when a fact ends; None: now, unless it has ended. With ``is_open`` None is where the next
    one begins, or never.
    """
    check_id("id", key)
    if at is not None and not isinstance(at, datetime):
        raise error(DTypeError, "valid_to" if is_open else "at", "a datetime", type(at).__name__)
    end = None if at is None else in_utc(at, "valid_to" if is_open else "at")
    latest = view.store.now() if end is None and not is_open else None
    try:
        version, is_embedded = view.store.write(EndFact(view.by, key, end, latest, said(reason)))
    except OptionError as fault:
        if is_open or fault.argument != "valid_to":
            raise
        made = OptionError(str(fault).replace("valid_to", "at", 1))
        made.argument = "at"
        raise made from None
    return Remembered(key, version, is_embedded)


def update(
    view: View,
    key: str,
    changes: Mapping[str, Any],
    *,
    reason: str | None = None,
    embed_timeout: float | None = None,
    if_version: int | None = None,
) -> Remembered:
    """Append a version with other fields; embeds it if the text changes."""
    store, by = view.store, view.by
    check_id("id", key)
    if not changes:
        raise error(OptionError, "changes", "a field to change", "none")
    if "valid_to" in changes:
        others = sorted(set(changes) - {"valid_to"})
        if others:
            wish = "no other field beside valid_to (a fact changes by a new one)"
            raise error(OptionError, others[0], wish, "one")
        return end_fact(view, key, changes["valid_to"], reason=reason, is_open=True)
    unknown = sorted(set(changes) - set(Episode.model_fields))
    if unknown:
        raise error(OptionError, unknown[0], "a field of Episode", repr(unknown[0]))
    told, wanted = said(reason), read_version(if_version)
    row: Vector | None = None
    why: tuple[Degradation, ...] = ()
    text = ""
    if TEXT_FIELDS & set(changes):
        with store.database.reading() as connection:
            text = changed_text(owned(connection, by, key)[1], changes)
        (row,), (why,) = _vectors(store, [text], None, embed_timeout, None)
    model = None if row is None else store.model
    change = Update(by, key, dict(changes), text, row, model, told, wanted)
    version, is_embedded = store.write(change)
    return Remembered(key, version, is_embedded, why)


def update_many(view: View, changes: Mapping[str, Any], *, reason: str | None, **which: Any) -> int:
    """Append a version with other fields to each memory that is meant; return how many."""
    if not isinstance(changes, Mapping) or not all(isinstance(name, str) for name in changes):
        raise error(DTypeError, "changes", "a mapping of fields to values", repr(changes))
    if not changes:
        raise error(OptionError, "changes", "a field to change", "none")
    unknown = sorted(set(changes) - CHANGED)
    if unknown:
        wish = f"one of {', '.join(sorted(CHANGED))}"
        raise error(OptionError, f"changes[{unknown[0]!r}]", wish, "another field")
    if checked(Episode, changes).kind == KIND:
        raise error(OptionError, "changes['kind']", f"another one than {KIND!r}", repr(KIND))
    ids, session, before = read_which(**which)
    passes = read_passes(**which)
    if (ids, session, before, passes) == (None, None, None, None):
        raise error(OptionError, "id", "an id, a session_id, a time or a filter", "none of them")
    told = said(reason)
    with view.store.database.reading() as connection:
        cells = tuple(own(connection, view.by))
        chosen = Selection(cells, ids, session, before)
        homes = places_of(connection, chosen, _NO_FACTS if passes is None else passes & _NO_FACTS)
    return view.store.write(UpdateMany(homes, dict(changes), told)) if homes else 0


def supersede(
    view: View,
    key: str,
    text: str | Episode,
    fields: Mapping[str, Any],
    *,
    reason: str | None = None,
    embed_timeout: float | None = None,
    if_version: int | None = None,
) -> Remembered:
    """Replace an old episode by a new one, in one transaction."""
    store, by = view.store, view.by
    check_id("id", key)
    own = {"user_id": by.user, "org": by.org, "workspace": by.workspace}
    given = dict(fields)
    if "new_id" in given:
        given["id"] = check_id("new_id", given.pop("new_id"))
    new = episode_of(text, {**given, **own} if isinstance(text, str) else given)
    if (new.user_id, new.org, new.workspace) != (by.user, by.org, by.workspace):
        raise error(OptionError, "text", "an episode of the same user", "another's")
    told = said(reason)
    (row,), (why,) = _vectors(store, [new.full_text], None, embed_timeout, None)
    version = writing.NewVersion(cell_of(new), new, row, None if row is None else store.model)
    try:
        number = store.write(Supersede(by, key, version, told, read_version(if_version)))
    except KeyConflictError as fault:
        if "new_id" not in fields:
            raise
        made = KeyConflictError(str(fault).replace("id", "new_id", 1))
        made.argument = "new_id"
        raise made from None
    return Remembered(new.id, number, row is not None, why)


def forget(
    view: View,
    *,
    reason: str | None = None,
    erased: bool = False,
    everything: bool | str = False,
    if_version: int | None = None,
    **which: Any,
) -> int:
    """Take memories of one user out of recall, or erase them; return how many."""
    store, by = view.store, view.by
    if by.user is EVERYONE:
        raise error(OptionError, "user_id", "a user, or None for the anonymous one", "EVERYONE")
    ids, session, before = read_which(**which)
    passes, told, wanted = read_passes(**which), said(reason), read_version(if_version)
    check_which(by.user, ids, session, before, passes, everything=everything)
    flag("erase", erased)
    if wanted is not None and (erased or ids is None or len(ids) != 1):
        wish = "none without one id, or beside erase=True"
        raise error(OptionError, "if_version", wish, repr(if_version))
    with store.database.reading() as connection:
        cells = tuple(own(connection, by))
        selection = Selection(cells, ids, session, before)
        if passes is not None:
            homes = places_of(connection, selection, passes)
            selection = Selection(cells, homes=homes)
    selection = replace(selection, owner=(by.org, by.workspace, by.user))
    if not erased:
        return store.write(Forget(selection, told, by, wanted))
    if isinstance(store.sessions, StoreSessions):
        store.sessions.flush()  # or it would be written again
    return store.keeper.run(Owner.erase, selection, secrets.token_bytes(16))


def read_which(
    *,
    key: str | Sequence[str] | None = None,
    session_id: str | None = None,
    before: datetime | None = None,
    **_: object,
) -> tuple[tuple[str, ...] | None, str | None, datetime | None]:
    """Check the ids, the session and the time of memories that are meant."""
    ids: tuple[str, ...] | None = None
    if isinstance(key, str):
        ids = (check_id("id", key),)
    elif key is not None:
        if not isinstance(key, Sequence) or isinstance(key, bytes) or not key:
            raise error(DTypeError, "id", "an id, or a sequence of ids", type(key).__name__)
        ids = tuple(check_id(f"id[{at}]", one) for at, one in enumerate(key))
    session = None if session_id is None else check_id("session_id", session_id)
    if before is not None and not isinstance(before, datetime):
        raise error(DTypeError, "before", "a datetime", type(before).__name__)
    return ids, session, None if before is None else in_utc(before)


def read_passes(
    *, kind: object = None, tags: object = None, filter: object = None, metadata: object = None,  # noqa: A002
    **_: object,
) -> Filter | None:  # fmt: skip
    """Return the filter of memories that are meant; None: nothing is asked of them."""
    narrow = read_narrowing(filter, metadata)
    parts = [narrow if narrow is not None and columns_of(narrow) else None]
    if kind is not None:
        parts.append(Filter(kind=check_id("kind", kind)))
    wanted = read_tags(tags)
    if wanted is not None:
        parts.append(Filter(tags=list(wanted)))
    given = [part for part in parts if part is not None]
    return reduce(and_, given) if given else None


def places_of(
    connection: apsw.Connection, selection: Selection, passes: Filter
) -> tuple[tuple[int, str], ...]:
    """Return cell and id of the live memories of a selection that pass a filter."""
    meant = None if selection.is_whole else set(selected(connection, selection))
    rows = [row for row, _ in newest_rows(connection, selection.cells)]
    found = places_of_rows(connection, list(passing_in_order(connection, rows, passes)))
    return tuple(one for one in found if meant is None or one in meant)


def read_version(given: object) -> int | None:
    """Check the version that a change is made for."""
    version = as_int(given)
    if given is not None and (version is None or version < 1):
        raise error(OptionError, "if_version", "an int >= 1", repr(given))
    return version


def pin(view: View, key: str, pinned: bool) -> None:
    """Pin or unpin an episode."""
    check_id("id", key)
    flag("pinned", pinned)
    view.store.write(Pin(view.by, key, pinned))


def link(
    view: View,
    participants: Sequence[str | Participant],
    relationship: str,
    *,
    key: str | None,
    description: str,
    metadata: dict[str, Any] | None,
    visibility: Visibility,
) -> Edge:
    """Keep an edge between memories of one user."""
    if isinstance(participants, str) or not isinstance(participants, Sequence):
        wish = "a sequence of ids or Participants"
        raise error(DTypeError, "participants", wish, type(participants).__name__)
    ends = tuple(
        one
        if isinstance(one, Participant)
        else Participant(id=check_id(f"participants[{at}]", one))
        for at, one in enumerate(participants)
    )
    if len(ends) < 2:
        raise error(OptionError, "participants", "two memories or more", len(ends))
    by = view.by
    fields = {
        "participants": ends,
        "relationship": relationship,
        "description": description,
        "metadata": {} if metadata is None else metadata,
        "user_id": None if by.user is EVERYONE else by.user,
        "org": by.org,
        "workspace": by.workspace,
        "visibility": visibility,
    }
    edge = checked(Edge, fields if key is None else {"id": key, **fields})
    view.store.write(AddEdge(edge))
    return edge


def unlink(view: View, key: str, reason: str | None) -> bool:
    """Remove an edge; return whether it was there."""
    check_id("id", key)
    told = said(reason)
    return view.store.write(RemoveEdge(view.by, key, told))


def set_policy(view: View, agent: str, policy: str, policy_group: str | None) -> None:
    """Set what an agent may read beside its own memories; ``view`` is the agent's own."""
    by = view.by
    view.store.write(SetPolicy(by.org, by.workspace, agent, policy, policy_group))


# ---- shared ----


def said(reason: object) -> str | None:
    """Check an optional reason."""
    return None if reason is None else check_id("reason", reason)


def writer(by: AskedBy) -> str:
    """Return the name of an agent that writes."""
    if not isinstance(by.user, str) or not by.user.strip():
        raise error(ScopeError, "agent", "a name, to write", repr(by.user))
    return by.user


def _vectors(
    store: Store,
    texts: Sequence[str],
    given: object,
    embed_timeout: float | None,
    progress: ProgressFunction | None,
) -> tuple[list[Vector | None], list[tuple[Degradation, ...]]]:
    """Return a vector per text, or why it has none."""
    seconds = read_seconds("embed_timeout", embed_timeout)
    rows = store.given_vectors(given, len(texts))
    if rows is not None:
        return list(rows), [()] * len(texts)
    found: list[Vector | None] = []
    reasons: list[tuple[Degradation, ...]] = []
    for begin in range(0, len(texts), BATCH_TEXTS):
        part = texts[begin : begin + BATCH_TEXTS]
        made, why = store.embed(part, seconds)
        found += made
        reasons += why
        if progress is not None:
            progress(min(begin + BATCH_TEXTS, len(texts)), len(texts))
    return found, reasons


# ---- Tells a store which memories helped, and lists what it was told; each asker sees its own ----

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
        found = feedback_rows(connection, cells, asker(view.by))
    return [(row.query, cells[row.cell], row.id) for row in found]


def feedback_of(view: View) -> Given:
    """Return what a caller said that helped, of what it may see now."""
    with view.store.database.reading() as connection:
        cells = audience(connection, view.by).cells
        found = feedback_rows(connection, cells, asker(view.by))
    by_query: dict[str, QueryFeedback] = {}
    for row in found:
        known = by_query.get(row.query, QueryFeedback(row.query, (), row.at))
        used = tuple(dict.fromkeys((*known.used, row.id)))
        by_query[row.query] = QueryFeedback(row.query, used, max(known.at, row.at))
    return list(by_query.values())
