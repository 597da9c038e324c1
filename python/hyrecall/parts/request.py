"""The request of a recall over parts: the arguments of a call, frozen, as plain data."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from hyrecall.arm.arm import SearchArm
from hyrecall.ask.expansion import Context, SharedTags, parts_of
from hyrecall.ask.recipe import Recipe
from hyrecall.ask.request import CallOptions, Floors, Search, Texts, read_query_keys
from hyrecall.ask.scope import scope_entries
from hyrecall.base.arguments import check_keywords, set_fields
from hyrecall.base.times import call_time
from hyrecall.errors import OptionError, error
from hyrecall.segments.lookup import read_columns
from hyrecall.segments.segments import IndexFacts
from hyrecall.stages.session_signals import SessionSignals
from hyrecall.stages.stage import Stage, check_stages

if TYPE_CHECKING:
    from hyrecall.arm.kinds import Arm
    from hyrecall.ask.filter_json import FilterLike
    from hyrecall.ask.scoring import Above, Fusion
    from hyrecall.stages.session import Session
    from hyrecall.stages.stage import Stage
    from hyrecall.text.bm25 import BM25


class ReadRequest(NamedTuple):
    """A request, read for one index."""

    asked: Search
    options: CallOptions
    recipe: Recipe | list[Recipe] | None


@check_keywords
@dataclass(frozen=True, init=False, eq=False, repr=False)
class Request:
    """The arguments of a recall of an index or of its shards, frozen.

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
    >>> request.given["limit"]
    3
    """

    id: str
    given: Mapping[str, Any]

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
