"""The request of a recall over parts: the arguments of a call, frozen, as plain data."""

from __future__ import annotations

import inspect
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from hyrecall.ask.arms import Tags
from hyrecall.ask.expansion import read_expansion
from hyrecall.ask.graph_names import graphs_of, parts_of
from hyrecall.ask.query_keys import read_query_keys
from hyrecall.ask.recipe import Recipe
from hyrecall.ask.request import CallOptions, Floors, Texts
from hyrecall.ask.request import Request as Asked
from hyrecall.ask.scope import scope_entries
from hyrecall.ask.shaping import Feedback, check_stages
from hyrecall.base.ages import call_time
from hyrecall.base.arguments import set_fields
from hyrecall.base.keywords import check_keywords
from hyrecall.errors import OptionError, ShapeError, error
from hyrecall.parts.frames import pack, pack_table, reading, unpack, unpack_table
from hyrecall.parts.plain import decode, encode
from hyrecall.parts.told import Told, pack_told, unpack_told
from hyrecall.segments.lookup import read_columns
from hyrecall.table.tensors import query_vectors

if TYPE_CHECKING:
    import numpy.typing as npt

    from hyrecall.ask.arms import Arm
    from hyrecall.ask.filter_like import FilterLike
    from hyrecall.ask.scoring import Above, Fusion
    from hyrecall.ask.session import Session
    from hyrecall.ask.shaping import Stage
    from hyrecall.segments.facts import IndexFacts
    from hyrecall.text.bm25 import BM25

__all__ = ["Call", "Request"]

KIND = "hyrecall request"

_RANKING = {
    "fusion": "fusion", "arms": "more", "min_score": "min_score", "min_fused": "min_fused",
    "bm25": "bm25", "normalize": "normalize", "shaping": "shaping", "depth": "depth",
}  # fmt: skip


class Call(NamedTuple):
    """A request, read for one index."""

    asked: Asked
    options: CallOptions
    recipe: Recipe | list[Recipe] | None


@check_keywords
@dataclass(frozen=True, init=False, eq=False, repr=False)
class Request:
    """The arguments of a recall of an index or of its shards, as frozen, serialisable data.

    Parameters
    ----------
    text, vectors, scope, filter, limit, offset, depth, fusion, min_score, min_fused, bm25
        As in :meth:`hyrecall.Index.recall`. Arrays must not change while the request is used. Texts
        are not embedded here: an index with vectors needs ``vectors`` for its vector arms.
    normalize, arms, candidates, shaping, session, recipe, group, columns, query_keys, now
        As in :meth:`hyrecall.Index.recall`. The request fixes ``now``.

    Raises
    ------
    OptionError
        The request needs more of the index than candidates: a graph, an expansion,
        :class:`hyrecall.Feedback` or :class:`hyrecall.arms.Tags`.

    Attributes
    ----------
    id : str
        Random; statistics and parts with another id are refused.

    Examples
    --------
    >>> request = Request(text=["green tea"], scope="ann", limit=3)
    >>> again = Request.from_bytes(request.to_bytes())
    >>> again.id == request.id
    True
    """

    id: str
    given: Mapping[str, Any]
    _bytes: bytes | None = field(init=False, default=None)  # made once for all shards
    _told: Told | None = field(init=False, default=None)  # None: the request needs no answers

    def __init__(
        self,
        *,
        text: Texts = None,
        vectors: object = None,
        scope: object = None,
        filter: FilterLike | list[FilterLike | None] | None = None,  # noqa: A002
        limit: int = 10, offset: int = 0, depth: int = 100,
        fusion: Fusion | None = None,
        min_score: Floors = None, min_fused: float | Above | None = None,
        bm25: BM25 | Mapping[str, BM25] | None = None,
        normalize: bool = False,
        arms: Sequence[Arm] | Arm = (),
        candidates: Mapping[str, Sequence[Any]] | None = None,
        shaping: Sequence[Stage] | Stage = (),
        session: Session | list[Session | None] | None = None,
        recipe: Recipe | list[Recipe] | None = None,
        group: str | None = None,
        columns: Sequence[str] = (),
        query_keys: Sequence[str] | Sequence[int] | None = None, now: datetime | None = None,
    ) -> None:  # fmt: skip
        """Take the arguments of a call."""
        given = {
            "text": text, "vectors": vectors, "scope": scope, "filter": filter, "limit": limit,
            "offset": offset, "depth": depth, "fusion": fusion, "min_score": min_score,
            "min_fused": min_fused, "bm25": bm25, "normalize": normalize, "arms": arms,
            "candidates": candidates, "shaping": shaping, "session": session, "recipe": recipe,
            "group": group, "columns": columns, "query_keys": query_keys, "now": call_time(now),
        }  # fmt: skip
        _check_parts(given, may_ask=False)
        set_fields(self, id=secrets.token_hex(16), given=_own(given))

    @classmethod
    def _asking(cls, given: Mapping[str, Any], told: Told | None = None) -> Request:
        """Make a request with parts that read more than a shard, which names them."""
        # Shards answer it once :meth:`_with_told` has added what they cannot know.
        given = {**_DEFAULTS, "expansion": (), **given}
        given["now"] = call_time(given["now"])
        _check_parts(given, may_ask=True)
        made = object.__new__(cls)
        set_fields(made, id=secrets.token_hex(16), given=_own(given), _told=told)
        return made

    def _with_told(self, told: Told) -> Request:
        """Return the request with answers to what its parts ask outside of a shard."""
        return self._with(self.id, self.given, told)

    def read(self, facts: IndexFacts) -> Call:
        """Return the call as an index with these facts reads it; raises the errors of recall."""
        given = self.given
        named = read_columns(facts, given["columns"])
        plain = ("text", "vectors", "filter", "session", "candidates", "limit", "offset", "group")
        asked = Asked(
            now=given["now"],
            scope=scope_entries(facts.cell_types, given["scope"]),
            columns=named,
            query_keys=read_query_keys(given["query_keys"], (*facts.schema.cell_columns, *named)),
            **{name: given[name] for name in plain},
        )
        options = CallOptions(**{field: given[name] for name, field in _RANKING.items()})
        options = options._replace(expansion=given.get("expansion"))
        if facts.embedded and given["vectors"] is None:
            from hyrecall.recall.embedders import with_missing_vectors  # loads clients of endpoints

            asked = with_missing_vectors(facts, asked, given["recipe"], options)
        return Call(asked, options, given["recipe"])

    def to_bytes(self) -> bytes:
        """Return the request as bytes for another process: Arrow and JSON, with a checksum.

        Raises
        ------
        DTypeError
            An argument that is not plain data, such as a reranker that is a function.
        ShapeError, OptionError
            The vectors are invalid.
        """
        if self._bytes is None:
            set_fields(self, _bytes=self._packed())
        assert self._bytes is not None
        return self._bytes

    @property
    def _n_packed(self) -> int | None:
        """The number of packed bytes; None: not packed yet."""
        return None if self._bytes is None else len(self._bytes)

    def _packed(self) -> bytes:
        given = {name: encode(name, one) for name, one in self.given.items() if name != "vectors"}
        vectors = self.given["vectors"]
        by_arm = vectors if isinstance(vectors, Mapping) else {"": vectors}
        form = "none" if vectors is None else "arms" if isinstance(vectors, Mapping) else "one"
        arms = list(by_arm) if vectors is not None else []
        called = {arm: f"vectors[{arm!r}]" if arm else "vectors" for arm in arms}
        columns = [pack_table(pa.table({"v": _column(by_arm[arm], called[arm])})) for arm in arms]
        header = {"id": self.id, "given": given, "vectors": form, "arms": arms}
        packed: dict[str, Any] = {f"v{at}": one for at, one in enumerate(columns)}
        if self._told is not None:
            header["told"] = list(self._told)
            packed |= pack_told(self._told)
        return pack(KIND, header, packed)

    @classmethod
    def from_bytes(cls, data: bytes) -> Request:
        """Make a request from the bytes of :meth:`to_bytes`."""
        header, arrays = unpack(KIND, data)
        with reading("the bytes of a request"):
            given = {name: decode(name, one) for name, one in header["given"].items()}
            columns = [unpack_table(arrays[f"v{at}"]) for at in range(len(header["arms"]))]
            made = [table.column(0).combine_chunks() for table in columns]
            form = header["vectors"]
            given["vectors"] = (
                None if form == "none"
                else made[0] if form == "one"
                else dict(zip(header["arms"], made, strict=True))
            )  # fmt: skip
            told = None if "told" not in header else unpack_told(header["told"], arrays)
            again = cls(**given) if told is None else cls._asking(given, told)
            return again._with(str(header["id"]), again.given, told)

    def of_queries(self, given: Mapping[str, Any], queries: npt.NDArray[np.int64]) -> Request:
        """Return the request with the arguments of some of its queries, and the same id."""
        told = self._told
        if told is not None:
            told = {name: lists.of_queries(queries) for name, lists in told.items()}
        return self._with(self.id, given, told)

    def _for_counts(self) -> Request:
        """Return the request without answers, which counts do not need."""
        return self if not self._told else self._with(self.id, self.given, {})

    def _with(self, id: str, given: Mapping[str, Any], told: Told | None) -> Request:  # noqa: A002
        made = object.__new__(type(self))
        set_fields(made, id=id, given=given, _told=told)
        return made

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the packed bytes, which can be made from the arguments."""
        return {"id": self.id, "given": self.given, "_bytes": None, "_told": self._told}

    def __repr__(self) -> str:
        """Show the arguments that are not their defaults, without arrays."""
        named = ("text", "scope", "filter", "limit", "recipe")
        shown = [f"{name}={self.given[name]!r}" for name in named if self.given[name] is not None]
        return f"Request({', '.join(shown)})"


_DEFAULTS: Mapping[str, Any] = {
    name: one.default
    for name, one in inspect.signature(Request.__init__).parameters.items()
    if name != "self"
}


def _own(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments with copies of their lists: the caller may change its own."""
    return {name: list(one) if isinstance(one, list) else one for name, one in given.items()}


def _with_nulls(matrix: Any, valid: Any) -> pa.Array:
    flat = pa.array(np.ascontiguousarray(matrix, np.float32).reshape(-1))
    mask = None if valid is None else pa.array(~valid)
    return pa.FixedSizeListArray.from_arrays(flat, matrix.shape[1], mask=mask)


def _column(value: Any, argument: str) -> pa.Array:
    """Return query vectors as a column of lists of float32, read as an index reads them."""
    if isinstance(value, pa.Array | pa.ChunkedArray):
        return value
    shape = getattr(value, "shape", None)
    if shape is not None and len(shape) == 2:
        return _with_nulls(*query_vectors(value, dim=int(shape[1]), argument=argument))
    if isinstance(value, list | tuple):
        dim = next((len(one) for one in value if hasattr(one, "__len__")), None)
        if dim is None and all(one is None for one in value):
            return pa.nulls(len(value), pa.list_(pa.float32()))
        if dim:
            return _with_nulls(*query_vectors(value, dim=dim, argument=argument))
    wish = "an array of shape (n_queries, dim), an Arrow column of lists, or a list of vectors"
    raise error(ShapeError, argument, wish, type(value).__name__)


def _check_parts(given: Mapping[str, Any], *, may_ask: bool) -> None:
    """Refuse arguments that need more of an index than candidates."""
    # ``may_ask``: parts that name what they read outside of a shard are allowed.
    recipe = given["recipe"]
    options = CallOptions(
        more=given["arms"], shaping=given["shaping"], expansion=given.get("expansion")
    )
    recipes = recipe if isinstance(recipe, list) else [recipe]
    hows: list[Any] = [options, *(one for one in recipes if isinstance(one, Recipe))]
    for how in hows:
        for part in parts_of(how):
            for name, graph in graphs_of(part):
                if not (may_ask and isinstance(graph, str)):
                    wish = "no graph in a recall over parts of an index"
                    raise error(OptionError, name, wish, "one")
            if isinstance(part, Tags) and not may_ask:
                wish = "no Tags in a recall over parts of an index (its hops cross whole cells)"
                raise error(OptionError, part.name, wish, "Tags")
        if read_expansion(how.expansion) and not may_ask:
            wish = "no expansion in a recall over parts of an index (it reads whole cells)"
            raise error(
                OptionError, "expansion", wish, repr(how.expansion), "replace(expansion=())"
            )
        if any(isinstance(one, Feedback) for one in check_stages(how.shaping)):
            wish = "no Feedback in a recall over parts of an index (it searches twice)"
            raise error(OptionError, "shaping", wish, "Feedback")
