"""A key-value interface to a store: notes with tags, by key, in scopes.

They are found as ``recipes.l0`` finds: by the beginnings of all words, and by vectors where an
embedder was named.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from hyrecall.base.arguments import check_keywords, check_objects
from hyrecall.errors import NotFoundError, OptionError, error
from hyrecall.memory import (
    EVERYONE,
    Degradation,
    Episode,
    EpisodeMatch,
    MemorySync,
    Partition,
    Remembered,
)
from hyrecall.memory.data.types import check_id, checked
from hyrecall.memory.faces.transfer import NOTE
from hyrecall.memory.recall.call import read_text
from hyrecall.recipes import l0

__all__ = ["Note", "NoteHit", "NoteHits", "Notes"]

KIND: Final = NOTE
SNIPPET_WORDS: Final = 12
_WORD = re.compile(r"\w+")


@check_keywords
@dataclass(frozen=True)
class Note:
    """A note: the value and tags under a key in a scope.

    Attributes
    ----------
    key, value, scope : str
    tags : tuple of str
    """

    key: str
    value: str
    scope: str
    tags: tuple[str, ...] = ()


@dataclass(frozen=True)
class NoteHit:
    """A note that was found, without its value: :meth:`Notes.expand` gives that.

    Attributes
    ----------
    key, scope, tags
        Of the note.
    snippet : str
        At most 12 words of its value, those that were asked for between ``<<`` and ``>>``.
    score : float
        Of the recipe of the store; larger is better.
    """

    key: str
    scope: str
    tags: tuple[str, ...]
    snippet: str
    score: float


# Aliases, because list[...] in a class with a method ``list`` would name that method.
_Found = list[Note]


class NoteHits(list[NoteHit]):
    """Notes that were found, best first, and why there may be others.

    Parameters
    ----------
    iterable : iterable of NoteHit, default ()

    Attributes
    ----------
    reasons : tuple of Degradation
        Why the search is degraded: by words alone, where an embedder failed.
    """

    reasons: tuple[Degradation, ...] = ()


@check_keywords
class Notes:
    """Notes in a store: a scope is a user of it.

    Parameters
    ----------
    memory : MemorySync
        Opened with ``recipe=recipes.l0``; it stays the caller's to close.
    scopes : sequence of str or EVERYONE, default ("user",)
        Those that list and search look through where a call names none. ``EVERYONE`` is for who
        administers the store; it must not come from a request.

    Raises
    ------
    OptionError, DTypeError
        A store of another recipe; scopes that are no sequence, or one that cannot be a user.

    Notes
    -----
    A scope and a key are 1 to 512 bytes, not blank. Every call may raise what calls of the store
    do; it costs a call or two of it, list one for each scope.

    Examples
    --------
    >>> with MemorySync.in_memory(recipe=l0) as memory:
    ...     notes = Notes(memory)
    ...     saved = notes.save("deploy", "Deploys run on Friday at noon")
    ...     notes.search("fri")[0].snippet
    'Deploys run on <<Friday>> at noon'
    """

    @check_objects
    def __init__(self, memory: MemorySync, *, scopes: Any = ("user",)) -> None:
        """Hold the store."""
        if scopes is not EVERYONE:
            if isinstance(scopes, str) or not isinstance(scopes, Sequence):
                raise error(
                    OptionError, "scopes", "a sequence of scopes, or EVERYONE", repr(scopes)
                )
            scopes = tuple(check_id("scopes", one) for one in scopes)
        memory._store.check_recipe(l0)
        self._memory, self._scopes = memory, scopes

    def save(
        self, key: str, value: str, *, scope: str = "user", tags: Sequence[str] = ()
    ) -> Remembered:
        """Keep a value under a key; one that is there becomes history.

        Parameters
        ----------
        key, value : str
        scope : str, default "user"
        tags : sequence of str, default ()
            In place of those that it had.

        Returns
        -------
        Remembered
            Its version, and why it has no vector.

        Raises
        ------
        KeyConflictError
            The scope has another memory of this id: one that is no note, or is superseded.
        OptionError, DTypeError
            What cannot be kept.

        Examples
        --------
        >>> with MemorySync.in_memory(recipe=l0) as memory:
        ...     notes = Notes(memory)
        ...     for day in ("Friday", "Monday"):
        ...         saved = notes.save("deploy", f"On {day}", tags=["plan"])
        ...     notes.get("deploy")
        Note(key='deploy', value='On Monday', scope='user', tags=('plan',))
        """
        user = check_id("scope", scope)
        if self.get(key, scope=user) is None:
            return self._memory.remember(value, id=key, user_id=user, kind=KIND, tags=tags)
        return self._memory.update(key, user_id=user, text=value, tags=tags)

    def get(self, key: str, *, scope: str = "user") -> Note | None:
        """Return a note; None if the scope has none of the key.

        Parameters
        ----------
        key : str
        scope : str, default "user"

        Returns
        -------
        Note or None
        """
        found = self._memory.get(key, user_id=check_id("scope", scope))
        return None if found is None or found.kind != KIND else _note(found)

    def supersede(
        self, key: str, new_key: str, value: str, *, scope: str = "user", reason: str | None = None
    ) -> Remembered:
        """Put a new note in the place of an old one, which is kept as history only.

        Parameters
        ----------
        key : str
            Of the old one.
        new_key, value : str
            Of the new one, which has no tags.
        scope : str, default "user"
            Of both.
        reason : str, optional
            Kept with the old one.

        Returns
        -------
        Remembered
            Of the new one.

        Raises
        ------
        NotFoundError
            The scope has no such note.
        KeyConflictError
            The new key is not free.
        """
        user = check_id("scope", scope)
        if self.get(key, scope=user) is None:
            raise error(NotFoundError, "key", "a note that is there", repr(key))
        new = checked(Episode, {"id": new_key, "user_id": user, "text": value, "kind": KIND})
        return self._memory.supersede(key, new, user_id=user, reason=reason)

    def delete(self, key: str, *, scope: str = "user", reason: str | None = None) -> bool:
        """Take a note away, also one that was superseded: its key is free then.

        Parameters
        ----------
        key : str
        scope : str, default "user"
        reason : str, optional
            Kept with it.

        Returns
        -------
        bool
            Whether it was there.
        """
        user = check_id("scope", scope)
        versions = self._memory.history(check_id("key", key), user_id=user)
        last = versions[-1].episode if versions else None
        if last is None or last.kind != KIND:
            return False
        return bool(self._memory.forget(key, user_id=user, reason=reason))

    def list(self, *, scope: str = "", limit: int = 200) -> _Found:
        """Return the notes of a scope, or of those that these look through; newest first.

        Parameters
        ----------
        scope : str, default ""
            "": those that these look through.
        limit : int, default 200
            In [0, 2^31).

        Returns
        -------
        list of Note
        """
        found = [
            one
            for user in self._users(scope)
            for one in self._memory.list(user_id=user, kind=KIND, limit=limit)
        ]
        found.sort(key=lambda one: one.occurred_at, reverse=True)
        return [_note(one) for one in found[:limit]]

    def search(self, query: str, *, scope: str = "", limit: int = 10) -> NoteHits:
        """Find notes in a scope, or in all scopes that these notes look through.

        Those of all scopes are ranked as one; what lies in others changes nothing. A query without
        a match finds nothing, nor does a blank one.

        Parameters
        ----------
        query : str
        scope : str, default ""
            "": all that these look through.
        limit : int, default 10
            At most 150, the depth of ``recipes.l0``.

        Returns
        -------
        NoteHits
            A list, best first, with the reasons why it is degraded.
        """
        users, query = self._users(scope), read_text("query", query)
        if not users or not query.strip():
            return NoteHits()
        found = self._memory.search(
            query, partitions=[Partition(user) for user in users], kind=KIND, limit=limit, recipe=l0
        )
        hits = NoteHits(_hit(one, query) for one in found)
        hits.reasons = found.reasons
        return hits

    @check_objects
    def expand(self, hit: NoteHit) -> Note | None:
        """Return the note that was found, with its value.

        Parameters
        ----------
        hit : NoteHit

        Returns
        -------
        Note or None
            None if it is not there any more.
        """
        return self.get(hit.key, scope=hit.scope)

    def _users(self, scope: str) -> tuple[str, ...]:
        if scope:
            return (check_id("scope", scope),)
        if self._scopes is not EVERYONE:
            return tuple(self._scopes)
        every = self._memory.list(user_id=EVERYONE, kind=KIND, limit=2**31 - 1)
        return tuple(dict.fromkeys(one.user_id for one in every if one.user_id is not None))


def _note(episode: Episode) -> Note:
    assert episode.user_id is not None
    return Note(episode.id, episode.text, episode.user_id, episode.tags)


def _hit(match: EpisodeMatch, query: str) -> NoteHit:
    note = _note(match.episode)
    return NoteHit(note.key, note.scope, note.tags, snippet(note.value, query), match.score)


def snippet(value: str, query: str) -> str:
    """Return some words of a text around the first that was asked for, each of them marked."""
    asked = tuple(word.casefold() for word in _WORD.findall(query))
    words = list(_WORD.finditer(value))

    def is_asked(word: str) -> bool:
        return any(word.casefold().startswith(one) for one in asked)

    first = next((at for at, one in enumerate(words) if is_asked(one[0])), 0)
    begin = max(0, first - SNIPPET_WORDS // 2)
    shown = words[begin : begin + SNIPPET_WORDS]
    if not shown:
        return ""
    start, end = shown[0].start(), shown[-1].end()
    marked = _WORD.sub(
        lambda one: f"<<{one[0]}>>" if is_asked(one[0]) else one[0], value[start:end]
    )
    before = "… " if begin else ""
    return before + marked + (" …" if begin + SNIPPET_WORDS < len(words) else "")
