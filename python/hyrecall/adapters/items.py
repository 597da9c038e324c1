"""JSON values under keys in namespaces of a store, with a time to live, found by query or filter.

A value is the metadata of a memory, beside the times that a reply names; its text is what a query
searches. ``occurred_at`` is when the item was last put, or read so that it lives longer: it lives
for ``ttl_minutes`` from then.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Any, Final, TypeAlias, TypedDict

from hyrecall import Between, recipes
from hyrecall.adapters.degraded import warn_if_degraded
from hyrecall.adapters.extras import check_page
from hyrecall.adapters.memories import ALL
from hyrecall.base.arguments import number
from hyrecall.errors import (
    DTypeError,
    KeyConflictError,
    NotFoundError,
    OptionError,
    ScopeError,
    error,
)
from hyrecall.memory import EVERYONE, Episode, EpisodeMatch, MemorySync, Partition
from hyrecall.memory.data.types import check_id
from hyrecall.recipe import Fill, Recipe

# ---- Filters on JSON values, as frameworks write them: {"kind": "note", "year": {"$gte": 2024}}
# A store narrows its search with what an index can compare (:func:`narrowing`), which may let too
# much through, and then checks each value that was found (:func:`passes`).

JsonFilter: TypeAlias = Mapping[str, Any]

_ORDER: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "$gt": operator.gt, "$gte": operator.ge, "$lt": operator.lt, "$lte": operator.le,
}  # fmt: skip
_OPERATORS: Final = ("$eq", "$ne", *_ORDER)


def check_filter(wish: object, name: str = "filter") -> None:
    """Refuse what is no filter: no mapping of names, or an operator that no value can answer."""
    if not isinstance(wish, Mapping) or not all(isinstance(key, str) for key in wish):
        raise error(DTypeError, name, "a mapping with names as keys", type(wish).__name__)
    for key, value in wish.items():
        place = f"{name}[{key!r}]"
        if key.startswith("$"):
            raise error(OptionError, place, "the name of a field", "an operator without a field")
        if isinstance(value, Mapping) and not _has_operators(value):
            check_filter(value, place)
        elif isinstance(value, Mapping):
            _check_operators(value, place)


def _check_operators(value: Mapping[Any, Any], place: str) -> None:
    for key, bound in value.items():
        if key not in _OPERATORS:
            raise error(OptionError, place, f"operators ({', '.join(_OPERATORS)})", repr(key))
        if key in _ORDER and _order_kind(bound) is None:
            wish = "a number or a string"
            raise error(DTypeError, f"{place}[{key!r}]", wish, type(bound).__name__)


def narrowing(wish: JsonFilter, path: str) -> dict[str, Any]:
    """Return what the index can ask of values that lie under a path: all that pass pass this."""
    found: dict[str, Any] = {}
    for key, value in wish.items():
        place = f"{path}.{key}"
        if not isinstance(value, Mapping):
            found |= {place: value} if _is_scalar(value) else {}
        elif not _has_operators(value):
            found |= narrowing(value, place)
        elif _is_scalar(value.get("$eq")):
            found[place] = value["$eq"]
        else:
            low = next((value[one] for one in ("$gt", "$gte") if one in value), None)
            high = next((value[one] for one in ("$lt", "$lte") if one in value), None)
            kinds = {_order_kind(one) for one in (low, high) if one is not None}
            if len(kinds) == 1:  # a number and a string have no value between them
                found[place] = Between(low, high)
    return found


def passes(value: object, wish: object) -> bool:
    """Return whether a JSON value is what a checked filter, or one of its values, asks for.

    An object asks for its own fields, with or without others beside them; a list asks for a list of
    the same length; a missing field is null. True is not 1, and "1" is no number.
    """
    if isinstance(wish, Mapping):
        if _has_operators(wish):
            return all(_compares(value, name, bound) for name, bound in wish.items())
        if not isinstance(value, Mapping):
            return False
        return all(passes(value.get(key), one) for key, one in wish.items())
    if isinstance(wish, list | tuple):
        return (
            isinstance(value, list | tuple)
            and len(value) == len(wish)
            and all(passes(one, want) for one, want in zip(value, wish, strict=True))
        )
    return _equal(value, wish)


def _compares(value: object, name: str, bound: object) -> bool:
    if name in ("$eq", "$ne"):
        return _equal(value, bound) == (name == "$eq")
    kind = _order_kind(value)
    return kind is not None and kind is _order_kind(bound) and _ORDER[name](value, bound)


def _equal(value: object, other: object) -> bool:
    """Compare JSON values; Python takes True for 1."""
    if isinstance(value, Mapping) and isinstance(other, Mapping):
        return value.keys() == other.keys() and all(_equal(value[k], other[k]) for k in value)
    if isinstance(value, list | tuple) and isinstance(other, list | tuple):
        pairs = zip(value, other, strict=False)
        return len(value) == len(other) and all(_equal(one, two) for one, two in pairs)
    return isinstance(value, bool) == isinstance(other, bool) and value == other


def _has_operators(value: Mapping[Any, Any]) -> bool:
    return any(isinstance(key, str) and key.startswith("$") for key in value)


def _is_scalar(value: object) -> bool:
    return isinstance(value, str | bool | int | float)


def _order_kind(value: object) -> type | None:
    """Return str or float for a value that has an order, else None."""
    if isinstance(value, str):
        return str
    return float if isinstance(value, int | float) and not isinstance(value, bool) else None


# ---- Hierarchical namespaces as users of a store: which there are in a scope, and under a prefix
# ``("users", "ann")`` is the user ``"users.ann"``. Labels contain no period, so no two namespaces
# are the same user. Each namespace is also listed under each of its prefixes, in a cell that no
# namespace can be because its name begins with a period: ``"."``, ``".users"`` and
# ``".users.ann"``. So what lies under a prefix is found without a look at any other namespace.

Namespace = tuple[str, ...]

_NAMESPACE: Final = "namespace"  # the kind of what is listed
_MOST_BYTES: Final = 511  # of a user, less the period before the name of a prefix


class _Owner(TypedDict):
    org: str | None
    workspace: str | None


class _User(_Owner):
    user_id: str


def user_of(namespace: Sequence[str], name: str = "namespace") -> str:
    """Return the user that a namespace is; refuse labels that are none."""
    if isinstance(namespace, str) or not isinstance(namespace, Sequence):
        raise error(DTypeError, name, "a tuple of labels", repr(namespace))
    for label in namespace:
        if not isinstance(label, str):
            raise error(DTypeError, name, "labels that are str", repr(label))
        if not label or "." in label or "\0" in label:
            wish = "labels that are not empty and have no period or NUL"
            raise error(OptionError, name, wish, repr(label))
    return ".".join(namespace)


# ---- Items: JSON values under keys in namespaces

_Found: TypeAlias = tuple[Episode, float | None]

KIND: Final = "item"
_TRIES: Final = 5  # of a put, while others put and delete the same key
_MOST_MINUTES: Final = 1_000_000_000.0  # about 1,900 years: a later time may be no date


@dataclass(frozen=True)
class Item:
    """An item as it was read; its score is None where no query was asked.

    The score is the cosine where vectors rank alone, the BM25 score where words do, else that of
    the recipe. ``updated_at`` is when the key was last put.
    """

    namespace: Namespace
    key: str
    value: dict[str, Any]
    created_at: datetime
    updated_at: datetime
    score: float | None = None


@dataclass(frozen=True, kw_only=True)
class Items:
    """The items of the namespaces that begin with the labels of a scope, in one org and workspace.

    ``embed_query`` returns the vector of a query, or None if it cannot: words alone then rank.
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
        user = user_of(namespace, name)
        if not is_prefix:
            if not user:
                raise error(OptionError, name, "one label or more", repr(namespace))
            check_id(name, user)
        if (n_bytes := len(user.encode(errors="surrogatepass"))) > _MOST_BYTES:
            wish = f"at most {_MOST_BYTES} bytes, with a period between labels"
            raise error(OptionError, name, wish, f"{n_bytes} bytes")
        if tuple(namespace[: len(self.root)]) != self.root:
            raise error(ScopeError, name, f"one in the scope {self.root}", repr(namespace))

    def user(self, namespace: Namespace) -> _User:
        """Return whose the items of a namespace are, as options of a call."""
        return {"user_id": user_of(namespace), "org": self.org, "workspace": self.workspace}

    def add(self, namespace: Namespace) -> None:
        """List a namespace under each of its prefixes, unless it is listed."""
        user = user_of(namespace)
        owner: _Owner = {"org": self.org, "workspace": self.workspace}
        if self.memory.get(user, user_id=".", **owner) is not None:
            return
        listed = (
            Episode(id=user, user_id=f".{'.'.join(namespace[:depth])}", kind=_NAMESPACE, **owner)
            for depth in range(len(namespace) + 1)
        )
        with suppress(KeyConflictError):  # all or none are written: another thread was faster
            self.memory.remember_batch(listed)

    def under(self, prefix: Namespace) -> list[Namespace]:
        """Return the namespaces that begin with a prefix, and that something was ever put into."""
        user = f".{user_of(prefix, 'namespace_prefix')}"
        listed = self.memory.list(
            user_id=user, org=self.org, workspace=self.workspace, kind=_NAMESPACE, limit=ALL
        )
        return sorted(tuple(one.id.split(".")) for one in listed)

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
                self.memory.update(key, text=text, occurred_at=now, metadata=kept, **user)
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
        self, prefix: Namespace, *, query: str | None, filter: JsonFilter | None,  # noqa: A002
        limit: int, offset: int, renew: bool,
    ) -> list[Item]:  # fmt: skip
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
        with suppress(NotFoundError):  # changes the time alone: another value may have been put
            self.memory.update(episode.id, occurred_at=now, **user)

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
        partitions = [Partition(**self.user(one)) for one in namespaces]
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
