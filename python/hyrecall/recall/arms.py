"""The arms of a call: reads them, and what it asks of each; searches a batch by them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from hyrecall import _core
from hyrecall.arm.arm import ArmQueries, Batch, FoundDocs, SearchArm
from hyrecall.arm.kinds import OF_A_CALL
from hyrecall.ask.scope import read_scopes, scope_of
from hyrecall.errors import DTypeError, OptionError, ShapeError, error
from hyrecall.recall.graph_views import BoundGraphs
from hyrecall.segments.segments import IndexFacts, State, document_numbers, gather, seqs_of
from hyrecall.table.attributes import ordered_attribute

# ---- Batches without arms, and what arms read of one ----


def scope_request(facts: IndexFacts, state: State, scope: object, n: int) -> _core.BatchRequest:
    """Make a request of n queries without arms: scopes alone."""
    return _core.BatchRequest(
        scopes=read_scopes(facts.cell_types, state.snapshot, scope, n),
        filters=[],
        filter_of=None,
        depth=1,
        limit=0,
        offset=0,
        threads=facts.threads,
    )


def make_batch(
    facts: IndexFacts, state: State, request: _core.BatchRequest, scope: object,
    graphs: BoundGraphs, depth: int,
) -> Batch:  # fmt: skip
    """Return what arms read of the queries of a request."""
    audience, segments = _core.arms.Audience(state.snapshot, request), state.segments
    return Batch(
        facts, audience, scope, graphs, request.n_queries, depth,
        gather=partial(gather, segments), seqs=partial(seqs_of, segments),
        numbers=partial(document_numbers, segments),
    )  # fmt: skip


def newest_rows(
    facts: IndexFacts, state: State, request: _core.BatchRequest, column: str, n: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint32], npt.NDArray[np.uint32]]:
    """Return each query's n newest documents: offsets, segment, row."""
    # What fills a reply that found too little: documents without a value come last, by seq, so that
    # there are n wherever the query may see n.
    if isinstance(n, bool) or not isinstance(n, int) or n < 0:
        raise error(ShapeError, "n", "an int >= 0", repr(n))
    attribute = ordered_attribute("column", column, facts)
    audience = _core.arms.Audience(state.snapshot, request)
    offsets, segment, row, _ = audience.newest(attribute, n, with_missing=True)
    return offsets, segment, row


# ---- The arms of a call: read once, searched for a part of its queries at a time ----


def read_arms(facts: IndexFacts, given: object, candidates: object) -> CallArms:
    """Take ``arms=``: each by its name, which nothing else of a result has."""
    several = () if given is None else given
    out: dict[str, SearchArm] = {}
    for arm in several if isinstance(several, Sequence) else (several,):
        if not isinstance(arm, SearchArm):
            raise error(DTypeError, "arms", OF_A_CALL, repr(arm))
        if arm.name in facts.arms or arm.name in out:
            raise error(OptionError, "arms", "names that no other arm has", repr(arm.name))
        for column in (f"{arm.name}_score", f"{arm.name}_rank"):
            if column in facts.schema.row_columns:
                wish = "names whose result columns no column of the index has"
                raise error(OptionError, "arms", wish, f"{arm.name!r} ({column})")
        out[arm.name] = arm
    named = [arm.name for arm in out.values() if arm._takes == "candidates"]
    if candidates is not None and not isinstance(candidates, Mapping):
        wish = "{arm: a list with one entry per query}"
        raise error(DTypeError, "candidates", wish, type(candidates).__name__)
    for name, lists in (candidates or {}).items():
        if name not in named:
            raise error(OptionError, "candidates", f"arms of {named} (arms.Listed)", repr(name))
        if isinstance(lists, str | Mapping) or not isinstance(lists, Sequence):
            argument, got = f"candidates[{name!r}]", type(lists).__name__
            raise error(DTypeError, argument, "a list with one entry per query", got)
    return CallArms(out)


def text_readers(arms: Iterable[SearchArm]) -> tuple[str, ...]:
    """Name the arms that read the queries' texts."""
    return tuple(arm.name for arm in arms if arm._takes == "text")


def given_to(
    arm: SearchArm, texts: Mapping[str, Any], candidates: Mapping[str, Any] | None
) -> Mapping[str, Any] | None:
    """Return what a call gives to arms that take the same, by arm; None: the arm needs nothing."""
    return {"text": texts, "candidates": candidates or {}}.get(arm._takes)


def runs(
    arm: SearchArm, texts: Mapping[str, object], candidates: Mapping[str, object] | None
) -> bool:
    """Whether a call gives an arm what it needs."""
    given = given_to(arm, texts, candidates)
    return given is None or arm.name in given


class CallArms(NamedTuple):
    """The arms of ``arms=`` by name, as :func:`read_arms` reads them."""

    arms: Mapping[str, SearchArm]

    @property
    def names(self) -> tuple[str, ...]:
        """The names, in the order of the call."""
        return tuple(self.arms)

    @property
    def readers(self) -> tuple[str, ...]:
        """The arms that read the queries' texts."""
        return text_readers(self.arms.values())

    @property
    def ask_by_themselves(self) -> bool:
        """Whether an arm runs where the call has neither texts nor candidates."""
        return any(runs(arm, {}, None) for arm in self.arms.values())

    def running(
        self, texts: Mapping[str, object], candidates: Mapping[str, object] | None
    ) -> list[str]:
        """Return the arms that a call gives what they need."""
        return [name for name, arm in self.arms.items() if runs(arm, texts, candidates)]

    def searches(
        self, facts: IndexFacts, state: State, running: Sequence[str], texts: Mapping[str, Any],
        candidates: Mapping[str, Any] | None, n_queries: int, *options: Any,
    ) -> Searches | None:  # fmt: skip
        """Check what the call asks of the running arms, if any; nothing is searched yet."""
        asked = [
            (arm, arm._ask(facts, (given_to(arm, texts, candidates) or {}).get(name), n_queries))
            for name, arm in self.arms.items()
            if name in running
        ]
        return Searches(facts, state, asked, *options) if asked else None


class Searches(NamedTuple):
    """The arms of ``arms=`` that search by themselves, with their queries."""

    facts: IndexFacts
    state: State
    asked: Sequence[tuple[SearchArm, ArmQueries]]
    floors: Mapping[str, tuple[float, bool] | None]
    scope: object
    graphs: BoundGraphs
    depth: int

    def add_to(self, request: _core.BatchRequest, first_query: int) -> dict[str, FoundDocs]:
        """Search for the queries of a request, which begin at ``first_query`` of the call."""
        # What each arm finds is put into the request, behind the arms that it has.
        begin, end = first_query, first_query + request.n_queries
        out: dict[str, FoundDocs] = {}
        with _core.arithmetic.RoundToNearest():  # some of their scores are computed here
            scope = scope_of(self.scope, begin, end)
            batch = make_batch(self.facts, self.state, request, scope, self.graphs, self.depth)
            for arm, asked in self.asked:
                found = out[arm.name] = arm._search(batch, asked.part(begin, end))
                given = found.offsets, found.segment, found.row, found.score
                request.add_listed(arm.name, *given, self.floors.get(arm.name))
        return out
