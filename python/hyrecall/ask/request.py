"""Plain data of a call: its request, and its options if it has no recipe."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hyrecall.ask.queries import TextQuery
from hyrecall.ask.scoring import Above
from hyrecall.base.arguments import as_int, as_list, python_scalar
from hyrecall.errors import DTypeError, OptionError, error

Texts: TypeAlias = Sequence[TextQuery | None] | Mapping[str, Sequence[TextQuery | None]] | None
Floors: TypeAlias = Mapping[str, float | Above] | float | Above | None


class Search(NamedTuple):
    """The queries, scopes and limits of a recall; :class:`CallOptions` or a recipe rank them."""

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
    per_group: object = None
    sort: object = None  # None: by score

    def with_own_scope(self) -> Search:
        """Return the request with a copy of a list of scopes: the caller may change its own."""
        scope = self.scope
        return self._replace(scope=list(scope)) if isinstance(scope, list) else self


class CallOptions(NamedTuple):
    """The options of ranking of a call without a recipe, not checked yet."""

    # Each option corresponds to the recipe's field of the same name; ``more`` is the call's
    # ``arms=``. Weights (in ``fusion``), floors and BM25 constants are given by the names of arms;
    # in a recipe, the arms have them.

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
        from hyrecall.ask.expansion import check_graphs, names_in, put_graphs

        known = check_graphs(graphs, names_in(self))
        return self._replace(**put_graphs(self, known)) if known else self


def is_empty(parts: object) -> bool:
    """Return whether an argument for arms, stages or expansions is None or ()."""
    return parts is None or (isinstance(parts, tuple) and not parts)


def order_of(sort: object, *asked: object) -> object:
    """Return ``sort=``; () for rows by insertion: a call that asks nothing sees all rows."""
    if sort is not None and not (isinstance(sort, list | tuple) and not sort):
        return sort
    return () if all(map(is_empty, asked)) else None


def batch_of_one(one: Any) -> Any:
    """Convert the input of one query to that of a batch: a list of one, or such lists by name."""
    if one is None:
        return None
    # A check against an abstract class is slow, so the usual types come first.
    if not isinstance(one, str | np.ndarray) and isinstance(one, Mapping):
        return {name: [value] for name, value in one.items()}
    return [one]


# ---- How hits are shown: one a row or one a thread, and how many rows around each ----

MOST_AROUND = 100
"""Rows on either side of a hit."""


MOST_IN_GROUP = 5
"""Rows of a group that are listed with its hit, if the call does not say."""

MOST_PER_GROUP = 100
"""As many as a call may ask for."""


class Grouping(NamedTuple):
    """How hits are shown: one a group or one a row, and how many rows on either side of each."""

    is_grouped: bool
    column: str | None  # whose values are groups; None: threads
    per_group: int  # rows of a group that are listed with its hit
    n_around: int


def read_grouping(
    group: object, per_group: object, surrounding: object, *, has_threads: bool, types: Any
) -> Grouping | None:
    """Read ``group=``, ``per_group=`` and ``surrounding=``; None: no group and no rows around."""
    # ``types`` are those of the attribute columns.
    column = None
    if group is not None and not (isinstance(group, str) and group == "thread"):
        column = _group_column(group, types)
    n_listed = _per_group(group, per_group)
    n_around = read_surrounding("surrounding", surrounding)
    if group is None and not n_around:
        return None
    if column is not None and n_around:
        remedy = 'group="thread" has rows around' if has_threads else ""
        raise error(OptionError, "surrounding", f"0 beside group={group!r}", n_around, remedy)
    if column is None and not has_threads:
        argument = "surrounding" if group is None else "group"
        raise error(OptionError, argument, "a schema with thread=", "one without")
    return Grouping(group is not None, column, n_listed, n_around)


def _group_column(group: object, types: Any) -> str:
    from hyrecall.ask.pages import columns_of_one_value

    known = columns_of_one_value(types)
    if not isinstance(group, str) or group not in known:
        wish = f"'thread', or an attribute column without lists of {known}, or None"
        raise error(OptionError, "group", wish, repr(group))
    return group


def _per_group(group: object, given: object) -> int:
    if given is None:
        return MOST_IN_GROUP
    if group is None:
        raise error(OptionError, "per_group", "None without group=", repr(given))
    number = as_int(given)
    if number is None or not 1 <= number <= MOST_PER_GROUP:
        wish = f"an int in [1, {MOST_PER_GROUP}], or None"
        raise error(OptionError, "per_group", wish, repr(given))
    return number


def read_surrounding(argument: str, given: object) -> int:
    """Read how many rows on either side of a hit are shown."""
    n_around = as_int(given)
    if n_around is None or not 0 <= n_around <= MOST_AROUND:
        raise error(OptionError, argument, f"an int in [0, {MOST_AROUND}]", repr(given))
    return n_around


# ---- Checks the caller's keys for the queries of a batch, a column of its hits ----

NAME = "query_key"
"""The result column with the keys."""


def read_query_keys(given: Any, columns: tuple[str, ...]) -> pa.Array | None:
    """Check one key per query, all str or all int, and convert them to an Arrow array."""
    # The result is None if the call has no keys.
    if given is None:
        return None
    wish = "a sequence of str or of int keys, one per query"
    values = as_list(given)
    if isinstance(values, np.ndarray) and values.ndim == 1:
        values = values.tolist()
    if not isinstance(values, list | tuple):
        raise error(DTypeError, "query_keys", wish, f"{type(given).__name__} {given!r}")
    keys = [python_scalar(key) for key in values]
    kind = str if keys and isinstance(keys[0], str) else int
    for at, key in enumerate(keys):
        if not isinstance(key, kind) or isinstance(key, bool):
            raise error(DTypeError, f"query_keys[{at}]", wish, f"{type(key).__name__} {key!r}")
    if NAME in columns:
        raise error(OptionError, "query_keys", f"no column of the index named {NAME!r}", "one")
    try:
        return pa.array(keys, pa.string() if kind is str else pa.int64())
    except (OverflowError, pa.ArrowInvalid, UnicodeEncodeError) as fault:
        raise error(OptionError, "query_keys", wish, fault) from None


def keys_of(keys: pa.Array, asked: npt.NDArray[np.bool_]) -> pa.Array:
    """Return the keys with null for all queries that are not `asked`."""
    # if_else would leave the bytes of the other keys in its buffers.
    return keys.take(pa.array(np.arange(len(keys)), mask=~asked))
