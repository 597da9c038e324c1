"""The ranking of one request, and its plan: both resolved for one state of an index."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hyrecall import _core
from hyrecall.ask.request import CallOptions, Grouping, Search
from hyrecall.ask.scoring import Fusion
from hyrecall.hits.trace import Notes
from hyrecall.text.bm25 import BM25

if TYPE_CHECKING:
    from hyrecall.arm.arm import FoundDocs
    from hyrecall.ask.recipe import Coefficients, Fill, Recipe, Tables, TieBreak
    from hyrecall.recall.arms import Searches
    from hyrecall.recall.exact import Exact, ExactTexts
    from hyrecall.recall.graph_views import BoundGraphs
    from hyrecall.stages.evidence import Evidence
    from hyrecall.stages.feedback import Feedback
    from hyrecall.stages.session import Session
    from hyrecall.stages.stage import Stage


_NOTHING: Final[Mapping[Any, Any]] = MappingProxyType({})


class Ranking(NamedTuple):
    """How an index ranks one request: queries of the arms, constants, fusion, floors."""

    how: Recipe | CallOptions
    text: object
    vectors: object
    fusion: object
    min_score: object
    min_fused: object
    bm25: object
    depth: object
    tables: Tables | None = None
    fill: Fill | None = None
    exact_texts: ExactTexts | None = None
    blank_queries: tuple[int, ...] = ()
    selected: npt.NDArray[np.bool_] | None = None
    n_queries: int | None = None
    notes: Notes = MappingProxyType({})


def rank_by_options(request: Search, options: CallOptions) -> Ranking:
    """Return the ranking of a call without a recipe: every arm that is asked gets what is asked."""
    return Ranking(
        options, request.text, request.vectors, options.fusion, options.min_score,
        options.min_fused, options.bm25, options.depth,
    )  # fmt: skip


class Plan(NamedTuple):
    """A native request, and the notes for its reply; refers to no object of the caller."""

    request: _core.BatchRequest  # with its text and vector arms; complete() adds the others
    n_queries: int
    arms: tuple[str, ...]  # that run, in the request's order
    n_lexical: int
    bm25: dict[str, BM25]
    fusion: Fusion | None  # None: one arm, no fusion; else also the default where none was named
    normalize: bool
    depth: int
    notes: Notes
    limit: int
    offset: int
    stages: tuple[Stage, ...]
    tie_break: tuple[TieBreak, ...]
    searches: Searches | None  # what else puts arms into a part of the request
    joining: Mapping[str, Any]  # how a part joins its arms
    extra: tuple[str, ...] = ()  # arms of the call beside the index's own, running or not
    listed: Mapping[str, FoundDocs] = _NOTHING  # what those that ran have found
    fill: Fill | None = None
    blank_queries: tuple[int, ...] = ()  # without a word: they get nothing but what fills
    sessions: tuple[Session | None, ...] = ()
    scope: object = None  # for graphs; a list is the plan's own
    graphs: BoundGraphs = _NOTHING  # each in the state of this call
    selected: npt.NDArray[np.bool_] | None = None  # the queries that are answered; None: all
    has_query: npt.NDArray[np.bool_] | None = None  # [n_queries, n_arms], where lists are filled
    exact: Exact | None = None
    tables: Tables | None = None
    evidence: Evidence | None = None  # right behind the fusion
    feedback: Feedback | None = None  # before the fusion: a first search for the queries
    grouping: Grouping | None = None  # threads as hits, rows around hits
    bases: tuple[str, ...] = ()  # without the table's name: the index's arm behind each of arms
    confidence: Coefficients | None = None  # None: the package's

    def complete(
        self,
        request: _core.BatchRequest,
        first_query: int,
        known: Mapping[str, FoundDocs] | None = None,
        *,
        is_first: bool = False,
    ) -> dict[str, FoundDocs]:
        """Add all other arms to a part of the request; return what those of the call found."""
        # ``known`` has what they found before. ``is_first``: for the first search of a second look,
        # which ends with the fusion.
        if known is None:
            searches = self.searches
            found = {} if searches is None else searches.add_to(request, first_query)
        else:
            found = dict(known)
            self._list(request, found)
        if self.exact is not None:
            self.exact.add_to(request, first_query)
        request.set_fusion(**self.joining)
        if self.evidence is not None and not is_first:
            self.evidence.tell(request)
        return found

    def _list(self, request: _core.BatchRequest, found: Mapping[str, FoundDocs]) -> None:
        """Add what other arms found for the queries of a request."""
        for arm, own in found.items():
            assert self.searches is not None
            floor = self.searches.floors.get(arm)
            request.add_listed(arm, own.offsets, own.segment, own.row, own.score, floor)

    def again(self, query: int, **joining: Any) -> _core.BatchRequest:
        """Return the request of one query for its whole list, with what other arms found for it."""
        # ``joining`` replaces how its arms are joined.
        most = whole_list(self.depth, len(self.joining["weights"]), self.evidence)
        return self.part(query, query + 1, most, **joining)

    def part(
        self, begin: int, end: int, limit: int | None = None, **joining: Any
    ) -> _core.BatchRequest:
        """Return the request of some queries, with what other arms found for them."""
        request = self.request.slice(begin, end, limit)
        if request.n_arms < len(self.joining["weights"]):  # the batch ran in parts, which have them
            self._list(request, {arm: found.part(begin, end) for arm, found in self.listed.items()})
            if self.exact is not None:
                self.exact.add_to(request, begin)
        request.set_fusion(**{**self.joining, **joining})
        if self.evidence is not None:
            self.evidence.tell(request)
        return request

    def answered(self, found: Sequence[Mapping[str, FoundDocs]]) -> Plan:
        """Return the plan with what its arms found for each part, without what they were asked."""
        if self.searches is None or not self.searches.asked:
            return self
        from hyrecall.arm.arm import join_candidates

        listed = {arm: join_candidates([one[arm] for one in found]) for arm in found[0]}
        return self._replace(listed=listed, searches=self.searches._replace(asked=()))

    def in_table(self, at: int, values: pa.Array) -> npt.NDArray[np.bool_]:
        """Say of rows, by their values in the column of tables, which of them an arm may see."""
        if self.tables is None or self.arms[at] == self.bases[at]:
            return np.ones(len(values), np.bool_)
        names = self.tables.all_names
        import pyarrow.compute as pc

        found = pc.index_in(values, pa.array(self.tables.names, values.type))
        table = found.fill_null(len(self.tables.names)).to_numpy(zero_copy_only=False)
        return np.asarray(table == names.index(self.arms[at].removesuffix(f".{self.bases[at]}")))

    @property
    def is_shaped(self) -> bool:
        """Whether the call asks for whole lists, which stages then order and cut."""
        return is_shaped(self.stages, self.tie_break, self.fill, self.grouping)

    @property
    def unfound(self) -> dict[int, int]:
        """The queries that were taken as exact, with no row that holds one whole, as in a trace."""
        return {} if self.exact is None else dict.fromkeys(self.exact.queries.tolist(), 0)

    @property
    def has_leading(self) -> bool:
        """Whether rows come first that hold whole what a query asks for."""
        return self.exact is not None and bool(self.exact.lists)


def whole_list(depth: int, n_lists: int, evidence: Evidence | None) -> int:
    """Return how long the list of a query can be: every document, and the rows around each."""
    n_near = 0 if evidence is None else 2 * evidence.n_distances
    return depth * n_lists * (1 + n_near)


def is_shaped(*parts: object) -> bool:
    """Whether lists are asked for whole: a part of the call orders or cuts them afterwards."""
    return any(map(bool, parts))
