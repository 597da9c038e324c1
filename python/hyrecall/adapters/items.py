"""JSON values under keys in namespaces of a store, with a time to live, found by query or filter.

A value is the metadata of a memory, beside the times that a reply names; its text is what a query
searches. ``occurred_at`` is when the item was last put, or read so that it lives longer: it lives
for ``ttl_minutes`` from then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Any, Final, TypeAlias, TypedDict, TypeVar

from hyrecall import recipes
from hyrecall.adapters.degraded import warn_if_degraded
from hyrecall.adapters.json_filters import JsonFilter, check_filter, narrowing, passes
from hyrecall.adapters.namespaces import Namespace, Namespaces, user_of
from hyrecall.base.arguments import as_int, number
from hyrecall.errors import (
    DTypeError,
    KeyConflictError,
    NotFoundError,
    OptionError,
    ScopeError,
    error,
)
from hyrecall.memory import EVERYONE, Episode, EpisodeMatch, MemorySync
from hyrecall.recipe import Fill, Recipe

__all__ = ["Item", "Items", "check_page"]

T_ = TypeVar("T_")
Scored: TypeAlias = "list[tuple[Episode, float | None]]"

KIND: Final = "item"
_TRIES: Final = 5  # of a put, while others put and delete the same key
_ALL: Final = 2**31 - 1
_MOST_MINUTES: Final = 1_000_000_000.0  # about 1,900 years: a later time may be no date


class _User(TypedDict):
    user_id: str
    org: str | None
    workspace: str | None


@dataclass(frozen=True)
class Item:
    """An item as it was read.

    Attributes
    ----------
    namespace : tuple of str
    key : str
    value : dict
    created_at, updated_at : datetime
        In UTC: when the key was first put, and when it was last put.
    score : float or None
        The cosine where vectors rank alone, the BM25 score where words do, else the score of the
        recipe; None where no query was asked.
    """

    namespace: Namespace
    key: str
    value: dict[str, Any]
    created_at: datetime
    updated_at: datetime
    score: float | None = None


@dataclass(frozen=True, kw_only=True)
class Items:
    """The items of a store whose namespaces lie in a scope.

    Attributes
    ----------
    memory : MemorySync
    scope : tuple of str or EVERYONE
        The first labels of every namespace.
    org, workspace : str or None
    recipe : Recipe
    alpha : float or None
    embed_query : callable or None
        Returns the vector of a query, or None if it cannot: words alone then rank.
    erase : bool
    clock : callable
    """

    memory: MemorySync
    scope: Namespace | Enum
    org: str | None = None
    workspace: str | None = None
    recipe: Recipe = recipes.default
    alpha: float | None = None
    embed_query: Callable[[str], Sequence[float] | None] | None = None
    erase: bool = False
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)

    def __post_init__(self) -> None:
        """Check the store and the scope."""
        if not isinstance(self.memory, MemorySync):
            raise error(DTypeError, "memory", "a MemorySync", type(self.memory).__name__)
        if self.scope is not EVERYONE and not (isinstance(self.scope, tuple) and self.scope):
            wish = "a namespace such as ('users',), or hyrecall.memory.EVERYONE for any"
            raise error(ScopeError, "scope", wish, repr(self.scope))
        user_of(self.root, "scope")

    @property
    def root(self) -> Namespace:
        """The labels that every namespace begins with."""
        return self.scope if isinstance(self.scope, tuple) else ()

    def check(self, namespace: Namespace, name: str, *, is_prefix: bool = False) -> None:
        """Refuse an invalid namespace, or one outside the scope."""
        if not user_of(namespace, name) and not is_prefix:
            raise error(OptionError, name, "one label or more", repr(namespace))
        if tuple(namespace[: len(self.root)]) != self.root:
            raise error(ScopeError, name, f"one in the scope {self.root}", repr(namespace))

    def check_ttl(self, ttl: object) -> None:
        """Refuse an invalid time to live; an item with one could not be read again."""
        wish = f"minutes in (0, {_MOST_MINUTES:.0f}], or None"
        if ttl is not None and number("ttl", ttl, 0.0, _MOST_MINUTES, wish) == 0:
            raise error(OptionError, "ttl", wish, repr(ttl))

    def get(self, namespace: Namespace, key: str, *, renew: bool) -> Item | None:
        """Return an item, or None; ``renew``: its time to live begins anew."""
        episode = self.memory.get(key, **self._user(namespace))
        now = self.clock()
        if episode is None or episode.kind != KIND or not _is_live(episode, now):
            return None
        if renew:
            self._renew(episode, now)
        return _item(episode)

    def put(
        self, namespace: Namespace, key: str, value: dict[str, Any], text: str, ttl: float | None
    ) -> None:
        """Keep a value, in place of the one that has the key; ``ttl`` is in minutes."""
        self.check_ttl(ttl)
        self._namespaces.add(namespace)
        user, now = self._user(namespace), self.clock()
        kept: dict[str, Any] = {"value": value, "created_at": _told(now), "updated_at": _told(now)}
        if ttl is not None:
            kept["ttl_minutes"] = ttl
        for _ in range(_TRIES):
            old = self.memory.get(key, **user)
            if old is not None and old.kind != KIND:
                wish = "a new key, or that of an item"
                raise error(KeyConflictError, "key", wish, f"the id of another memory ({key!r})")
            try:
                if old is None:
                    self.memory.remember(
                        text, id=key, kind=KIND, occurred_at=now, metadata=kept, **user
                    )
                    return
                if _is_live(old, now):
                    kept["created_at"] = old.metadata["created_at"]
                self.memory.update(key, output=text, occurred_at=now, metadata=kept, **user)
            except (KeyConflictError, NotFoundError):  # another writer was faster
                continue
            return
        wish = "a key that nobody else puts and deletes all the time"
        raise error(KeyConflictError, "key", wish, repr(key))

    def delete(self, namespace: Namespace, key: str) -> None:
        """Delete an item; one that is not there is no error, and no other memory is deleted."""
        user = self._user(namespace)
        held = self.memory.get(key, **user)
        if held is None or held.kind == KIND:  # None: an erasure also takes its history
            self.memory.forget(key, erase=self.erase, **user)

    def search(
        self,
        prefix: Namespace,
        *,
        query: str | None,
        filter: JsonFilter | None,  # noqa: A002
        limit: int,
        offset: int,
        renew: bool,
    ) -> list[Item]:
        """Return the items under a prefix, best first; without a query, newest first."""
        check_page(limit, offset)
        check_filter(filter or {})
        now, wanted = self.clock(), offset + limit
        namespaces = self._namespaces.under(prefix)
        if not namespaces or not limit:
            return []
        if query is None or not query.strip():
            found = self._newest(namespaces, filter or {}, wanted, now)
        else:
            found = self._ranked(namespaces, query, filter or {}, wanted, now)
        if renew:
            for episode, _ in found[offset:]:
                self._renew(episode, now)
        return [replace(_item(episode), score=score) for episode, score in found[offset:]]

    def namespaces(self, prefix: Namespace) -> list[Namespace]:
        """Return the namespaces under a prefix that hold an item, sorted."""
        now = self.clock()
        return [one for one in self._namespaces.under(prefix) if self._newest([one], {}, 1, now)]

    def sweep(self) -> int:
        """Delete the items that have expired; return how many."""
        now, n_deleted = self.clock(), 0
        for namespace in self._namespaces.under(self.root):
            user = self._user(namespace)
            mortal = {"ttl_minutes": (0, None)}
            for one in self.memory.list(kind=KIND, metadata=mortal, limit=_ALL, **user):
                if not _is_live(one, now):
                    # Only as it was read here: a put or a read may have renewed it meanwhile.
                    until = one.occurred_at + timedelta(microseconds=1)
                    n_deleted += self.memory.forget(one.id, before=until, erase=self.erase, **user)
        return n_deleted

    # ---- parts ----

    @property
    def _namespaces(self) -> Namespaces:
        return Namespaces(self.memory, self.org, self.workspace)

    def _user(self, namespace: Namespace) -> _User:
        return {"user_id": user_of(namespace), "org": self.org, "workspace": self.workspace}

    def _renew(self, episode: Episode, now: datetime) -> None:
        if "ttl_minutes" not in episode.metadata:
            return
        user = self._user(_namespace(episode))
        try:  # changes the time alone: another value may have been put meanwhile
            self.memory.update(episode.id, occurred_at=now, **user)
        except NotFoundError:
            return

    def _newest(
        self, namespaces: list[Namespace], wish: JsonFilter, wanted: int, now: datetime
    ) -> Scored:
        if len(namespaces) > 1:  # one question to the index, not one to the database for each
            newest = self.recipe.replace(on_empty="newest", fill=Fill("occurred_at"))
            found = self._asked(namespaces, "", newest, wish, wanted, now)
            return [(episode, None) for episode, _ in found]
        user, narrowed = self._user(namespaces[0]), narrowing(wish, "value") or None

        def read(n: int) -> Scored:
            listed = self.memory.list(kind=KIND, metadata=narrowed, limit=n, **user)
            return [(one, None) for one in listed]

        return _enough(read, wanted, lambda one: _passes(one[0], wish, now))

    def _ranked(
        self, namespaces: list[Namespace], query: str, wish: JsonFilter, wanted: int, now: datetime
    ) -> Scored:
        vector = None if self.embed_query is None else self.embed_query(query)
        alpha = self.alpha
        if self.embed_query is not None and vector is None:
            warn_if_degraded(["embed_query gave no vector, words alone rank"])
            alpha = 0.0
        return self._asked(namespaces, query, self.recipe, wish, wanted, now, vector, alpha)

    def _asked(
        self,
        namespaces: list[Namespace],
        query: str,
        recipe: Recipe,
        wish: JsonFilter,
        wanted: int,
        now: datetime,
        vector: Sequence[float] | None = None,
        alpha: float | None = None,
    ) -> Scored:
        partitions = [self._namespaces.partition(one) for one in namespaces]
        narrowed = narrowing(wish, "value") or None

        def read(n: int) -> Scored:
            matches = self.memory.search(
                query, partitions=partitions, kind=KIND, vector=vector, alpha=alpha,
                metadata=narrowed, limit=n, recipe=recipe.replace(depth=max(recipe.depth, n)),
            )  # fmt: skip
            warn_if_degraded(matches.reasons)
            # What only fills the list of a query is no answer; all of a list without one is such.
            kept = (one for one in matches if not (query and one.is_fill))
            return [(one.episode, self._score(one)) for one in kept]

        return _enough(read, wanted, lambda one: _passes(one[0], wish, now))

    def _score(self, match: EpisodeMatch) -> float:
        """Return the cosine or BM25 score where one of them ranks alone, else the recipe's."""
        parts = {0.0: match.bm25_score, 1.0: match.vector_score}
        alone = None if self.alpha is None else parts.get(self.alpha)
        return match.score if alone is None else alone


def check_page(limit: object, offset: object) -> None:
    """Refuse a limit or an offset that is not an int of at least 0."""
    for name, value in (("limit", limit), ("offset", offset)):
        count = as_int(value)
        if count is None or count < 0:
            raise error(OptionError, name, "an int >= 0", repr(value))


def _enough(read: Callable[[int], list[T_]], wanted: int, test: Callable[[T_], bool]) -> list[T_]:
    """Read more until so many pass the test, or there are no more."""
    n = wanted
    while True:
        found = read(min(n, _ALL))
        kept = [one for one in found if test(one)]
        if len(kept) >= wanted or len(found) < n:
            return kept[:wanted]
        n *= 2


def _passes(episode: Episode, wish: JsonFilter, now: datetime) -> bool:
    return _is_live(episode, now) and passes(episode.metadata["value"], wish)


def _is_live(episode: Episode, now: datetime) -> bool:
    minutes: Any = episode.metadata.get("ttl_minutes")
    return minutes is None or now < episode.occurred_at + timedelta(minutes=minutes)


def _namespace(episode: Episode) -> Namespace:
    return tuple((episode.user_id or "").split("."))


def _item(episode: Episode) -> Item:
    kept: Mapping[str, Any] = episode.metadata
    created, updated = map(datetime.fromisoformat, (kept["created_at"], kept["updated_at"]))
    return Item(_namespace(episode), episode.id, kept["value"], created, updated)


def _told(time: datetime) -> str:
    return time.astimezone(UTC).isoformat()
