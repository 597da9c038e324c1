"""Plain data of a call: its request, and its options if it has no recipe."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from hyrecall.ask.queries import TextQuery
from hyrecall.ask.scoring import Above

__all__ = ["CallOptions", "Floors", "Request", "Texts", "batch_of_one", "is_empty"]

Texts: TypeAlias = Sequence[TextQuery | None] | Mapping[str, Sequence[TextQuery | None]] | None
Floors: TypeAlias = Mapping[str, float | Above] | float | Above | None


class Request(NamedTuple):
    """The queries of a call of :meth:`hyrecall.Index.recall`, without the options of ranking."""

    now: datetime
    text: object = None
    vectors: object = None
    scope: object = None
    filter: object = None
    session: object = None
    candidates: object = None
    limit: object = 10
    offset: object = 0
    columns: tuple[str, ...] = ()
    query_keys: pa.Array | None = None
    group: object = None
    surrounding: object = 0

    def with_own_scope(self) -> Request:
        """Return the request with a copy of a list of scopes: the caller may change its own."""
        scope = self.scope
        return self._replace(scope=list(scope)) if isinstance(scope, list) else self


class CallOptions(NamedTuple):
    """The options of ranking of a call without a recipe, not checked yet."""

    # Each option corresponds to the recipe's field of the same name; ``more`` is the call's
    # ``arms=``. Weights (in ``fusion``), floors and BM25 constants are given by the names of
    # arms; in
    # a recipe, the arms have them.

    fusion: object = None
    more: object = None
    min_score: object = None
    min_fused: object = None
    bm25: object = None
    normalize: object = False
    shaping: object = None
    expansion: object = None
    depth: object = 100

    @property
    def on_no_match(self) -> tuple[()]:
        """No arms: a call has no such option."""
        return ()

    @property
    def tie_break(self) -> tuple[()]:
        """No columns: a call has no such option."""
        return ()

    @property
    def has_parts(self) -> bool:
        """Whether there are arms, stages or expansions, which may have graphs."""
        return not (is_empty(self.more) and is_empty(self.shaping) and is_empty(self.expansion))

    def bind(self, *, graphs: object) -> CallOptions:
        """Return the options with graphs instead of their names."""
        from hyrecall.ask.graph_names import check_graphs, names_in, put_graphs

        known = check_graphs(graphs, names_in(self))
        return self._replace(**put_graphs(self, known)) if known else self


def is_empty(parts: object) -> bool:
    """Return whether an argument for arms, stages or expansions is None or ()."""
    return parts is None or (isinstance(parts, tuple) and not parts)


def batch_of_one(one: Any) -> Any:
    """Convert the input of one query to that of a batch: a list of one, or such lists by name."""
    if one is None:
        return None
    # A check against an abstract class is slow, so the usual types come first.
    if not isinstance(one, str | np.ndarray) and isinstance(one, Mapping):
        return {name: [value] for name, value in one.items()}
    return [one]
