"""The request of a recall over parts: the arguments of a call, frozen, as plain data."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hyrecall.arm.arm import SearchArm
from hyrecall.ask.expansion import Context, SharedTags, parts_of
from hyrecall.ask.recipe import Recipe
from hyrecall.ask.request import CallOptions, Floors, Search, Texts, read_query_keys
from hyrecall.ask.scope import scope_entries
from hyrecall.base.arguments import check_keywords, set_fields
from hyrecall.base.times import call_time
from hyrecall.errors import OptionError, ShapeError, error
from hyrecall.parts.frames import decode, encode, pack, pack_table, reading, unpack, unpack_table
from hyrecall.segments.lookup import read_columns
from hyrecall.segments.segments import IndexFacts
from hyrecall.stages.session_signals import SessionSignals
from hyrecall.stages.stage import Stage, check_stages
from hyrecall.table.tensors import query_vectors

if TYPE_CHECKING:
    from hyrecall.arm.kinds import Arm
    from hyrecall.ask.filter_json import FilterLike
    from hyrecall.ask.scoring import Above, Fusion
    from hyrecall.stages.session import Session
    from hyrecall.stages.stage import Stage
    from hyrecall.text.bm25 import BM25


KIND = "hyrecall request"


class ReadRequest(NamedTuple):
    """A request, read for one index."""

    asked: Search
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
        :class:`hyrecall.Feedback` or :class:`hyrecall.arms.Tags`. Recall from one index then.

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
        given = {name: one for name, one in locals().items() if name != "self"}
        given["now"] = call_time(now)
        _check_parts(given)
        set_fields(self, id=secrets.token_hex(16), given=_own(given))

    def read(self, facts: IndexFacts) -> ReadRequest:
        """Return the call as an index with these facts reads it; raises the errors of recall."""
        given = self.given
        named = read_columns(facts, given["columns"])
        asked = Search(**_fields_of(Search, given))._replace(
            scope=scope_entries(facts.cell_types, given["scope"]),
            columns=named,
            query_keys=read_query_keys(given["query_keys"], (*facts.schema.cell_columns, *named)),
        )
        options = CallOptions(**_fields_of(CallOptions, given), more=given["arms"])
        if facts.embedded and given["vectors"] is None:
            from hyrecall.recall.embedders import with_missing_vectors  # loads clients of endpoints

            asked = with_missing_vectors(facts, asked, given["recipe"], options)
        return ReadRequest(asked, options, given["recipe"])

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
        return pack(KIND, header, packed)

    @classmethod
    def from_bytes(cls, data: bytes) -> Request:
        """Make a request from the bytes of :meth:`to_bytes`.

        Raises
        ------
        OptionError
            The bytes are not a request, of another version, or damaged.
        DTypeError
            Not bytes.
        """
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
            again = cls(**given)
            return again._with(str(header["id"]), again.given)

    def of_queries(self, given: Mapping[str, Any], queries: npt.NDArray[np.int64]) -> Request:
        """Return the request with the arguments of some of its queries, and the same id."""
        _check_parts(given)
        return self._with(self.id, given)

    def _with(self, id: str, given: Mapping[str, Any]) -> Request:  # noqa: A002
        made = object.__new__(type(self))
        set_fields(made, id=id, given=given)
        return made

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the packed bytes, which can be made from the arguments."""
        return {"id": self.id, "given": self.given, "_bytes": None}

    def __repr__(self) -> str:
        """Show the arguments that are not their defaults, without arrays."""
        named = ("text", "scope", "filter", "limit", "recipe")
        shown = [f"{name}={self.given[name]!r}" for name in named if self.given[name] is not None]
        return f"Request({', '.join(shown)})"


def _fields_of(kind: type[Search | CallOptions], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments that a part of a call has, by the same names."""
    return {name: given[name] for name in kind._fields if name in given}


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


_ANSWERED = {
    "arms": "arms that shards can answer (Listed, Newest, Regex in columns)",
    "shaping": "stages that shards can answer",
    "expansion": "no expansion in a recall over shards",
}
_REMEDY = "recall from one index: hr.Index.build, hr.Index.open"


def _check_parts(given: Mapping[str, Any]) -> None:
    """Refuse arms, stages and expansions that read more of an index than candidates."""
    recipe, arms = given["recipe"], given["arms"]
    recipes = recipe if isinstance(recipe, list) else [recipe]
    hows: list[CallOptions | Recipe] = [one for one in recipes if isinstance(one, Recipe)]
    several = tuple(arms) if isinstance(arms, Sequence) else arms
    hows.append(CallOptions(more=several, shaping=check_stages(given["shaping"])))
    for how in hows:
        of = f" of the recipe {how.name!r}" if isinstance(how, Recipe) else ""
        for part in parts_of(how):
            refused = _refused(part)
            if refused is not None:
                argument, got = refused
                raise error(OptionError, argument, _ANSWERED[argument], got + of, _REMEDY)


def _refused(part: object) -> tuple[str, str] | None:
    """Return the argument and the name of a part that reads edges or whole cells, or twice."""
    match part:
        case SearchArm() if part._refused_over_shards is not None:
            return "arms", part._refused_over_shards
        case SessionSignals() if part.graph is not None:
            return "shaping", "SessionSignals with a graph"
        case Stage() if part.over_shards is not None:
            return "shaping", f"{part.name} ({part.over_shards})"
        case Context() | SharedTags():
            return "expansion", type(part).__name__
    return None
