"""LangGraph's long-term memory over a durable store: ``HyrecallStore``, a ``BaseStore``.

A namespace is a user of the store, and so a cell; a key is the id of a memory
(:mod:`hyrecall.adapters.items`). The indexed fields of a value are its text, which a query searches
by words and by vectors.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from enum import Enum
from typing import Any

import numpy as np
import numpy.typing as npt

from hyrecall import recipes
from hyrecall.adapters.documents import check_json
from hyrecall.adapters.extras import awaiting, check_page, needs_extra
from hyrecall.adapters.items import Item, Items, Namespace, check_filter
from hyrecall.adapters.memories import OwnsStore
from hyrecall.base.arguments import as_int, check_keywords
from hyrecall.embed import AUTO
from hyrecall.embed.guard import Guard, from_async
from hyrecall.embed.protocol import NoVectors
from hyrecall.errors import DTypeError, OptionError, error
from hyrecall.memory import MemorySync
from hyrecall.memory.data.types import check_id
from hyrecall.recipe import Recipe

with needs_extra("langgraph"):
    from langgraph.store import base


__all__ = ["HyrecallStore"]


# ---- How a store of LangGraph embeds: its ``IndexConfig`` as an embedder, queries in bounded time

QUERY_TIMEOUT = 1.5
"""Seconds that a search waits for ``embed_query``, as a store waits for its embedder."""

EmbedQuery = Callable[[str], Sequence[float]]


class _Embedder:
    """Embeds texts with a function of another library."""

    def __init__(
        self, embed: Callable[[list[str]], Any], model: str, dim: int | None = None
    ) -> None:
        self.model, self.dim, self._embed = model, dim, embed

    def embed(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        return np.asarray(self._embed(list(texts)), np.float32)


def read_embedder(config: Mapping[str, Any], embedder: Any) -> tuple[Any, EmbedQuery | None]:
    """Return what embeds items, and what embeds queries if a configuration has another function."""
    if "embed" not in config:
        if "dims" in config:
            raise error(OptionError, "index", "embed beside dims", "dims alone")
        return embedder, None
    if embedder is not AUTO:
        raise error(OptionError, "embedder", "none beside index['embed']", repr(embedder))
    embed, dim = config["embed"], config.get("dims")
    if asyncio.iscoroutinefunction(embed):
        return from_async(embed, model=embed.__qualname__, dim=dim), None
    theirs = base.ensure_embeddings(embed)
    name = getattr(theirs, "model", None)
    model = ":".join([type(theirs).__qualname__, *([name] if name else [])])
    return _Embedder(theirs.embed_documents, model, dim), theirs.embed_query


# ---- LangGraph's long-term memory over a durable store: ``HyrecallStore``, a ``BaseStore`` ----


WRITE_TIMEOUT = 30.0
"""Seconds that a put waits for an embedder, which may be a service far away."""


@check_keywords
class HyrecallStore(OwnsStore, base.BaseStore):
    """A LangGraph store that is durable and searches by words and vectors.

    Parameters
    ----------
    memory : MemorySync
        An open store, which the caller closes. Its embedder embeds items and queries.
    scope : tuple of str or EVERYONE
        The labels that every namespace begins with; ``hyrecall.memory.EVERYONE``: any.
    org, workspace : str, optional
        The partition of the store in which the namespaces lie.
    fields : sequence of str, default ("$",)
        Paths whose texts are searched, where a put names no others; "$" is the whole value.
    embed_query : callable, optional
        Returns the vector of a query; for models that embed queries otherwise than items. A query
        for which it has no vector after 1.5 seconds is searched by words alone.
    recipe : Recipe, default ``recipes.default``
        How to rank. Its depth follows the limit of a search.
    alpha : float, optional
        Weight of vectors against words, in [0, 1]; 1 ranks by cosine alone, as the stores of
        LangGraph do.
    ttl : dict, optional
        A ``TTLConfig``, without ``omit_expired=False`` and ``sweep_interval_minutes``.
    erase : bool, default False
        Remove every byte of a deleted item, which else is kept as history; see ``forget``.
    clock : callable, optional
        Returns the time as a datetime with a zone; for tests.

    Raises
    ------
    ScopeError
        No scope.

    Notes
    -----
    An expired item is never returned, and :meth:`sweep_ttl` deletes it. A read that renews the time
    to live of an item writes a version of it.

    Examples
    --------
    >>> with HyrecallStore.open(":memory:", scope=("users",), embedder=None) as store:
    ...     store.put(("users", "ann"), "tea", {"text": "Ann drinks green tea", "kind": "taste"})
    ...     found = store.search(("users",), query="tea", filter={"kind": "taste"})
    ...     [(item.namespace, item.key) for item in found]
    [(('users', 'ann'), 'tea')]
    """

    supports_ttl = True

    def __init__(
        self, memory: MemorySync, *, scope: Namespace | Enum, org: str | None = None,
        workspace: str | None = None, fields: Sequence[str] = ("$",),
        embed_query: EmbedQuery | None = None, recipe: Recipe = recipes.default,
        alpha: float | None = None, ttl: base.TTLConfig | None = None, erase: bool = False,
        clock: Callable[[], datetime] | None = None,
    ) -> None:  # fmt: skip
        """Check the options."""
        self._queries: Guard | None = None
        if embed_query is not None:
            each = embed_query
            self._queries = Guard(_Embedder(lambda texts: [each(one) for one in texts], "queries"))
        self._items = Items(
            memory=memory, scope=scope, org=org, workspace=workspace, recipe=recipe, alpha=alpha,
            embed_query=None if embed_query is None else self._query_vector, erase=erase,
            clock=clock or (lambda: datetime.now(UTC)),
        )  # fmt: skip
        self._fields = _paths("fields", fields)
        self.ttl_config = _checked_ttl(ttl)
        self._items.check_ttl((ttl or {}).get("default_ttl"))

    @classmethod
    def open(
        cls, path: str | os.PathLike[str], *, scope: Namespace | Enum,
        index: base.IndexConfig | None = None, embedder: Any = AUTO,
        recipe: Recipe = recipes.default, alpha: float | None = None,
        ttl: base.TTLConfig | None = None, erase: bool = False, org: str | None = None,
        workspace: str | None = None,
    ) -> HyrecallStore:  # fmt: skip
        """Open a store, which :meth:`close` closes; it is made if there is none.

        Parameters
        ----------
        path : path-like
            Its folder, or ``":memory:"``, as of :meth:`hyrecall.memory.MemorySync.open`.
        scope, recipe, alpha, ttl, erase, org, workspace
            As of :class:`HyrecallStore`.
        index : dict, optional
            An ``IndexConfig``: ``embed`` takes the place of ``embedder``, and its vectors have the
            length ``dims``.
        embedder : Embedder or Off or str or None, optional
            As of :meth:`hyrecall.memory.MemorySync.open`.

        Raises
        ------
        HyrecallError
            As of :class:`HyrecallStore` and of :meth:`hyrecall.memory.MemorySync.open`.
        """
        config = _known("index", index, base.IndexConfig.__annotations__)
        embedder, embed_query = read_embedder(config, embedder)
        memory = MemorySync.open(
            path, recipe=recipe, embedder=embedder, write_timeout=WRITE_TIMEOUT
        )
        try:
            store = cls(
                memory, scope=scope, fields=config.get("fields") or ("$",), recipe=recipe,
                embed_query=embed_query, alpha=alpha, ttl=ttl, erase=erase, org=org,
                workspace=workspace,
            )  # fmt: skip
        except BaseException:
            memory.close()
            raise
        store._opened = memory
        return store

    def close(self) -> None:
        """Close the store if :meth:`open` has opened it. Closing twice is fine."""
        if self._queries is not None:
            self._queries.close()
        super().close()

    def batch(self, ops: Iterable[base.Op]) -> list[base.Result]:
        """Run operations, those that read first; return the reply to each.

        Nothing is written if one is refused. Each put is a transaction; of several with one key the
        last one counts.

        Raises
        ------
        ScopeError, OptionError, DTypeError
            A namespace outside the scope; an operation, namespace, key, filter, time to live or
            value that is not allowed.
        """
        asked = list(ops)
        for op in asked:
            self._check(op)
        replies = [self._read(op) for op in asked]
        puts = {(op.namespace, op.key): op for op in asked if isinstance(op, base.PutOp)}
        for put in puts.values():
            self._write(put)
        return replies

    abatch = awaiting(batch)

    def sweep_ttl(self) -> int:
        """Delete the expired items of the scope; return how many there were."""
        return self._items.sweep()

    def _query_vector(self, query: str) -> Sequence[float] | None:
        found = self._queries.embed([query], budget=QUERY_TIMEOUT, waits=True)  # type: ignore[union-attr]
        return None if isinstance(found, NoVectors) else list(found[0])

    def _check(self, op: base.Op) -> None:
        if isinstance(op, base.SearchOp):
            self._items.check(op.namespace_prefix, "namespace_prefix", is_prefix=True)
            check_filter(op.filter or {})
            check_page(op.limit, op.offset)
        elif isinstance(op, base.GetOp | base.PutOp):
            self._items.check(op.namespace, "namespace")
            if not isinstance(op.key, str):
                raise error(DTypeError, "key", "a str", repr(op.key))
            check_id("key", op.key)
            if isinstance(op, base.PutOp):
                self._items.check_ttl(op.ttl)
                if not isinstance(op.value, dict | None):
                    raise error(DTypeError, "value", "a dict, or None", type(op.value).__name__)
                check_json("metadata", {"value": op.value})  # as it is kept
        elif isinstance(op, base.ListNamespacesOp):
            check_page(op.limit, op.offset)
            depth = op.max_depth
            if depth is not None and (as_int(depth) is None or depth < 1):
                raise error(OptionError, "max_depth", "an int >= 1, or None", repr(depth))
        else:
            raise error(DTypeError, "ops", "operations of a BaseStore", type(op).__name__)

    def _read(self, op: base.Op) -> base.Result:
        if isinstance(op, base.GetOp):
            item = self._items.get(tuple(op.namespace), op.key, renew=op.refresh_ttl)
            return None if item is None else base.Item(**_fields(item))
        if isinstance(op, base.SearchOp):
            found = self._items.search(
                tuple(op.namespace_prefix), query=op.query, filter=op.filter, limit=op.limit,
                offset=op.offset, renew=op.refresh_ttl,
            )  # fmt: skip
            return [base.SearchItem(**vars(one)) for one in found]
        if isinstance(op, base.ListNamespacesOp):
            asked = op.match_conditions or ()
            every = self._items.namespaces(self._items.root)
            kept = (one for one in every if all(_is_match(one, each) for each in asked))
            listed = dict.fromkeys(one[: op.max_depth] for one in kept)
            return list(listed)[op.offset : op.offset + op.limit]
        return None

    def _write(self, op: base.PutOp) -> None:
        namespace = tuple(op.namespace)
        if op.value is None:
            self._items.delete(namespace, op.key)
            return
        paths = self._fields if op.index is None else _paths("index", op.index or ())
        value = dict(op.value)
        texts = (text for path in paths for text in base.get_text_at_path(value, path))
        self._items.put(namespace, op.key, value, "\n".join(texts), op.ttl)


def _fields(item: Item) -> dict[str, Any]:
    return {name: one for name, one in vars(item).items() if name != "score"}


def _is_match(namespace: Namespace, condition: base.MatchCondition) -> bool:
    step = -1 if condition.match_type == "suffix" else 1
    pairs = zip(namespace[::step], condition.path[::step], strict=False)
    is_long = len(namespace) >= len(condition.path)
    return is_long and all(want in ("*", label) for label, want in pairs)


def _paths(name: str, given: object) -> tuple[str, ...]:
    is_list = isinstance(given, Sequence) and not isinstance(given, str)
    if not is_list or not all(isinstance(one, str) for one in given):  # type: ignore[attr-defined]
        raise error(DTypeError, name, "a list of paths", repr(given))
    return tuple(given)  # type: ignore[arg-type]


def _checked_ttl(given: base.TTLConfig | None) -> base.TTLConfig | None:
    # Older releases lack omit_expired.
    config = _known("ttl", given, {*base.TTLConfig.__annotations__, "omit_expired"})
    if config.get("omit_expired") is False:
        raise error(OptionError, "ttl['omit_expired']", "True: no reply has expired items", "False")
    if config.get("sweep_interval_minutes") is not None:
        wish = "None: call sweep_ttl() when it suits"
        raise error(OptionError, "ttl", wish, "sweep_interval_minutes")
    return given


def _known(name: str, given: object, keys: Iterable[str]) -> dict[str, Any]:
    """Return a configuration of LangGraph as a dict; refuse a key that would be ignored."""
    if given is None:
        return {}
    if not isinstance(given, dict):
        raise error(DTypeError, name, "a dict", type(given).__name__)
    for key in given:
        if key not in keys:
            raise error(OptionError, name, f"keys of {sorted(keys)}", repr(key))
    return dict(given)
