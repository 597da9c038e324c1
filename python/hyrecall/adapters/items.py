"""JSON values under keys in namespaces of a store, with a time to live, found by query or filter.

A value is the metadata of a memory, beside the times that a reply names; its text is what a query
searches. ``occurred_at`` is when the item was last put, or read so that it lives longer: it lives
for ``ttl_minutes`` from then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeAlias

from hyrecall import recipes
from hyrecall.adapters.degraded import warn_if_degraded
from hyrecall.adapters.json_filters import JsonFilter, check_filter, narrowing, passes
from hyrecall.adapters.memories import ALL
from hyrecall.adapters.namespaces import Namespace, Namespaces
from hyrecall.base.arguments import as_int, number
from hyrecall.errors import KeyConflictError, NotFoundError, OptionError, error
from hyrecall.memory import Episode, EpisodeMatch
from hyrecall.recipe import Fill, Recipe

__all__ = ["Item", "Items", "check_page"]

_Found: TypeAlias = tuple[Episode, float | None]

KIND: Final = "item"
_TRIES: Final = 5  # of a put, while others put and delete the same key
_MOST_MINUTES: Final = 1_000_000_000.0  # about 1,900 years: a later time may be no date


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
class Items(Namespaces):
    """The items of the namespaces in a scope.

    Attributes
    ----------
    memory, scope, org, workspace
        As of :class:`hyrecall.adapters.namespaces.Namespaces`.
    recipe : Recipe
    alpha : float or None
    embed_query : callable or None
        Returns the vector of a query, or None if it cannot: words alone then rank.
    erase : bool
    clock : callable
    """

    recipe: Recipe = recipes.default
    alpha: float | None = None
    embed_query: Callable[[str], Sequence[float] | None] | None = None
    erase: bool = False
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)

    def check_ttl(self, ttl: object) -> None:
        """Refuse an invalid time to live; an item with one could not be read again."""
        wish = f"minutes in (0, {_MOST_MINUTES:.0f}], or None"
        if ttl is not None and number("ttl", ttl, 0.0, _MOST_MINUTES, wish) == 0:
            raise error(OptionError, "ttl", wish, repr(ttl))

    def get(self, namespace: Namespace, key: str, *, renew: bool) -> Item | None:
        """Return an item, or None; ``renew``: its time to live begins anew."""
        episode = self.memory.get(key, **self.user(namespace))
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
        self.add(namespace)
        user, now = self.user(namespace), self.clock()
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
        user = self.user(namespace)
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
        now, namespaces = self.clock(), self.under(prefix)
        if not namespaces or not limit:
            return []
        query = query if query and query.strip() else ""
        found = self._found(namespaces, query, filter or {}, offset + limit, now)[offset:]
        if renew:
            for episode, _ in found:
                self._renew(episode, now)
        return [replace(_item(episode), score=score) for episode, score in found]

    def namespaces(self, prefix: Namespace) -> list[Namespace]:
        """Return the namespaces under a prefix that hold an item, sorted."""
        now = self.clock()
        return [one for one in self.under(prefix) if self._found([one], "", {}, 1, now)]

    def sweep(self) -> int:
        """Delete the items that have expired; return how many."""
        now, n_deleted = self.clock(), 0
        for namespace in self.under(self.root):
            user = self.user(namespace)
            mortal = {"ttl_minutes": (0, None)}
            for one in self.memory.list(kind=KIND, metadata=mortal, limit=ALL, **user):
                if not _is_live(one, now):
                    # Only as it was read here: a put or a read may have renewed it meanwhile.
                    until = one.occurred_at + timedelta(microseconds=1)
                    n_deleted += self.memory.forget(one.id, before=until, erase=self.erase, **user)
        return n_deleted

    def _renew(self, episode: Episode, now: datetime) -> None:
        if "ttl_minutes" not in episode.metadata:
            return
        user = self.user(_namespace(episode))
        try:  # changes the time alone: another value may have been put meanwhile
            self.memory.update(episode.id, occurred_at=now, **user)
        except NotFoundError:
            return

    def _found(
        self, namespaces: list[Namespace], query: str, wish: JsonFilter, wanted: int, now: datetime
    ) -> list[_Found]:
        """Return the best items, or without a query the newest, that are alive and pass."""
        recipe, alpha, vector = self.recipe, self.alpha if query else None, None
        if not query:
            recipe = recipe.replace(on_empty="newest", fill=Fill("occurred_at"))
        elif self.embed_query is not None and (vector := self.embed_query(query)) is None:
            warn_if_degraded(["embed_query gave no vector, words alone rank"])
            alpha = 0.0
        partitions = [self.partition(one) for one in namespaces]
        narrowed = narrowing(wish, "value") or None

        def read(n: int) -> list[_Found]:
            if not query and len(namespaces) == 1:  # the database has their order
                user = self.user(namespaces[0])
                listed = self.memory.list(kind=KIND, metadata=narrowed, limit=n, **user)
                return [(one, None) for one in listed]
            # Of several namespaces one question to the index, not one to the database for each.
            matches = self.memory.search(
                query, partitions=partitions, kind=KIND, vector=vector, alpha=alpha,
                metadata=narrowed, limit=n, recipe=recipe.replace(depth=max(recipe.depth, n)),
            )  # fmt: skip
            warn_if_degraded(matches.reasons)
            # What only fills the list of a query is no answer; all of a list without one is such.
            kept = (one for one in matches if not (query and one.is_fill))
            return [(one.episode, self._score(one) if query else None) for one in kept]

        def is_wanted(one: _Found) -> bool:
            return _is_live(one[0], now) and passes(one[0].metadata["value"], wish)

        return _enough(read, wanted, is_wanted)

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


def _enough(
    read: Callable[[int], list[_Found]], wanted: int, test: Callable[[_Found], bool]
) -> list[_Found]:
    """Read more until so many pass the test, or there are no more."""
    n = wanted
    while True:
        found = read(min(n, ALL))
        kept = [one for one in found if test(one)]
        if len(kept) >= wanted or len(found) < n:
            return kept[:wanted]
        n *= 2


def _is_live(episode: Episode, now: datetime) -> bool:
    minutes: Any = episode.metadata.get("ttl_minutes")
    return minutes is None or now < episode.occurred_at + timedelta(minutes=minutes)


def _namespace(episode: Episode) -> Namespace:
    return tuple((episode.user_id or "").split("."))


def _item(episode: Episode) -> Item:
    kept: Any = episode.metadata
    created, updated = map(datetime.fromisoformat, (kept["created_at"], kept["updated_at"]))
    return Item(_namespace(episode), episode.id, kept["value"], created, updated)


def _told(time: datetime) -> str:
    return time.astimezone(UTC).isoformat()
