"""The arms of a call: read once, searched for a part of its queries at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from hyrecall import _core
from hyrecall.ask.arms import Arm, EdgeLexical, Listed, Newest, Regex, Tags
from hyrecall.ask.scope import scope_of
from hyrecall.errors import DTypeError, OptionError, ShapeError, error
from hyrecall.recall.arms.batch import ArmQueries, Batch, FoundDocs
from hyrecall.recall.arms.edges import read_edge_lexical, search_edge_lexical
from hyrecall.recall.arms.listed import (
    ListedKeys,
    read_listed,
    read_newest,
    search_listed,
    search_newest,
)
from hyrecall.recall.arms.regex import read_regex, search_regex
from hyrecall.recall.arms.tags import KnownTags, read_tags, search_tags
from hyrecall.recall.graph_views import BoundGraphs
from hyrecall.segments.facts import IndexFacts
from hyrecall.segments.segments import State

__all__ = ["CallArms", "Searches", "read_arms", "runs", "text_readers"]

Arms: TypeAlias = "dict[str, Arm]"
Asked: TypeAlias = "Sequence[tuple[Arm, ArmQueries | ListedKeys | KnownTags]]"

_READERS = (EdgeLexical, Tags, Regex)


def read_arms(facts: IndexFacts, given: object, candidates: object) -> Arms:
    """Take ``arms=``: each by its name, which nothing else of a result has."""
    if candidates is None and (given is None or (isinstance(given, tuple) and not given)):
        return {}
    if given is None:
        given = ()
    arms = given if isinstance(given, Sequence) else (given,)
    out: Arms = {}
    for arm in arms:
        if not isinstance(arm, Arm):
            wish = "Regex, Newest, Listed, EdgeLexical or Tags of hr.arms"
            raise error(DTypeError, "arms", wish, repr(arm))
        if arm.name in facts.arms or arm.name in out:
            raise error(OptionError, "arms", "names that no other arm has", repr(arm.name))
        for column in (f"{arm.name}_score", f"{arm.name}_rank"):
            if column in facts.schema.row_columns:
                wish = "names whose result columns no column of the index has"
                raise error(OptionError, "arms", wish, f"{arm.name!r} ({column})")
        out[arm.name] = arm
    named = [arm.name for arm in out.values() if isinstance(arm, Listed)]
    if candidates is not None and not isinstance(candidates, Mapping):
        wish = "{arm: a list with one entry per query}"
        raise error(DTypeError, "candidates", wish, type(candidates).__name__)
    for name, lists in (candidates or {}).items():
        if name not in named:
            raise error(OptionError, "candidates", f"arms of {named} (arms.Listed)", repr(name))
        if isinstance(lists, str | Mapping) or not isinstance(lists, Sequence):
            argument, got = f"candidates[{name!r}]", type(lists).__name__
            raise error(DTypeError, argument, "a list with one entry per query", got)
    return out


def text_readers(arms: Arms) -> tuple[str, ...]:
    """Name the arms that read the queries' texts."""
    return tuple(
        name
        for name, arm in arms.items()
        if isinstance(arm, _READERS) and getattr(arm, "pattern", None) is None
    )


def runs(arm: Arm, texts: Mapping[str, object], candidates: Mapping[str, object] | None) -> bool:
    """Whether a call gives an arm what it needs."""
    if isinstance(arm, Listed):
        return arm.name in (candidates or {})
    return arm.name in texts or not text_readers({arm.name: arm})


def read_asked(
    facts: IndexFacts,
    arm: Arm,
    texts: Any,
    candidates: Mapping[str, Any] | None,
    n_queries: int,
) -> ArmQueries | ListedKeys:
    """Check what a call asks of an arm, and of the index for it; nothing is searched yet."""
    match arm:
        case Listed():
            return read_listed(arm, facts, (candidates or {})[arm.name])
        case Newest():
            return read_newest(arm, facts)
        case Regex():
            return read_regex(arm, facts, texts, n_queries)
        case Tags():
            return read_tags(arm, facts, texts)
        case EdgeLexical():
            return read_edge_lexical(arm, texts)


class CallArms(NamedTuple):
    """The arms of ``arms=`` by name, as :func:`read_arms` reads them."""

    arms: Arms

    @property
    def names(self) -> tuple[str, ...]:
        """The names, in the order of the call."""
        return tuple(self.arms)

    @property
    def readers(self) -> tuple[str, ...]:
        """The arms that read the queries' texts."""
        return text_readers(self.arms)

    @property
    def ask_by_themselves(self) -> bool:
        """Whether an arm runs where the call has neither texts nor candidates."""
        return any(runs(arm, {}, None) for arm in self.arms.values())

    def running(
        self, texts: Mapping[str, object], candidates: Mapping[str, object] | None
    ) -> list[str]:
        """Return the arms that a call gives what they need."""
        return [name for name, arm in self.arms.items() if runs(arm, texts, candidates)]

    def asked(
        self,
        facts: IndexFacts,
        running: Sequence[str],
        texts: Mapping[str, Any],
        candidates: Mapping[str, Any] | None,
        n_queries: int,
    ) -> Asked:
        """Check what the call asks of the running arms; nothing is searched yet."""
        return [
            (arm, read_asked(facts, arm, texts.get(name), candidates, n_queries))
            for name, arm in self.arms.items()
            if name in running
        ]


class Searches(NamedTuple):
    """The arms of a call that search by themselves, with what they are asked."""

    facts: IndexFacts
    state: State
    asked: Asked
    floors: Mapping[str, tuple[float, bool] | None]
    scope: object
    graphs: BoundGraphs
    depth: int

    def add_to(self, request: _core.BatchRequest, first_query: int) -> dict[str, FoundDocs]:
        """Search for the queries of a request, which begin at ``first_query`` of the call."""
        # What each arm finds is put into the request, behind the arms that it has.
        if not self.asked:
            return {}
        with _core.arithmetic.RoundToNearest():  # some of their scores are computed here
            return self._add_to(request, first_query)

    def _add_to(self, request: _core.BatchRequest, first_query: int) -> dict[str, FoundDocs]:
        begin, n_queries = first_query, request.n_queries
        batch = Batch(
            self.facts,
            self.state,
            _core.arms.Audience(self.state.snapshot, request),
            scope_of(self.scope, begin, begin + n_queries),
            self.graphs,
            n_queries,
            self.depth,
        )
        out = {}
        for arm, asked in self.asked:
            found = out[arm.name] = _search(arm, batch, asked.part(begin, begin + n_queries))
            if len(found.offsets) != n_queries + 1:
                raise error(ShapeError, arm.name, f"{n_queries} queries", len(found.offsets) - 1)
            floor = self.floors.get(arm.name)
            request.add_listed(
                arm.name, found.offsets, found.segment, found.row, found.score, floor
            )
        return out


def _search(arm: Arm, batch: Batch, asked: Any) -> FoundDocs:
    match arm:
        case Listed():
            return search_listed(batch, asked)
        case Newest():
            return search_newest(arm, batch)
        case Regex():
            return search_regex(arm, batch, asked)
        case Tags():
            return search_tags(arm, batch, asked)
        case EdgeLexical():
            return search_edge_lexical(arm, batch, asked)
