"""What an arm is asked and reads, and what it gives: documents with scores, per query."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hyrecall import _core
from hyrecall.ask.scope import read_scopes
from hyrecall.errors import DTypeError, OptionError, error
from hyrecall.hits.trace import Notes
from hyrecall.recall.graph_views import BoundGraphs
from hyrecall.segments.facts import IndexFacts
from hyrecall.segments.segments import State, seqs_of

__all__ = [
    "ArmQueries",
    "Batch",
    "FoundDocs",
    "from_entries",
    "join_candidates",
    "no_candidates",
    "scope_request",
]


@dataclass(frozen=True, eq=False)
class ArmQueries:
    """What a call asks of an arm, with every entry checked."""

    entries: Sequence[Any]
    notes: Notes = field(default_factory=dict)

    def part(self, begin: int, end: int) -> ArmQueries:
        """Return what the queries [begin, end) ask."""
        return ArmQueries(self.entries[begin:end])


@dataclass(frozen=True, eq=False)
class Batch:
    """Some queries of a call on one state, each with its scope and filter."""

    facts: IndexFacts
    state: State
    audience: _core.arms.Audience
    scope: object
    graphs: BoundGraphs
    n_queries: int
    depth: int

    def attribute(self, argument: str, name: str) -> int:
        """Return the number of an attribute column."""
        known = list(self.facts.schema.attributes)
        if name not in known:
            raise error(OptionError, argument, f"an attribute column of {known}", repr(name))
        return known.index(name)

    def seqs(self, segment: npt.NDArray[Any], row: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        """Return the insertion numbers of rows."""
        return seqs_of(self.state.segments, segment, row)


@dataclass(frozen=True, eq=False)
class FoundDocs:
    """The documents of an arm: query q has the entries offsets[q] to offsets[q + 1], in any
    order.
    """

    offsets: npt.NDArray[np.int64]
    segment: npt.NDArray[np.uint32]
    row: npt.NDArray[np.uint32]
    score: npt.NDArray[np.float32]
    evidence: pa.Array | None = None

    def part(self, begin: int, end: int) -> FoundDocs:
        """Return those of the queries [begin, end)."""
        offsets = self.offsets[begin : end + 1]
        own = slice(int(offsets[0]), int(offsets[-1]))
        evidence = None if self.evidence is None else self.evidence[own]
        return FoundDocs(
            offsets - offsets[0], self.segment[own], self.row[own], self.score[own], evidence
        )

    def evidence_of(self, query: int, segment: int, row: int) -> Any:
        """Return the evidence of the best entry of a document; None where there is none."""
        if self.evidence is None:
            return None
        own = slice(int(self.offsets[query]), int(self.offsets[query + 1]))
        found = np.flatnonzero((self.segment[own] == segment) & (self.row[own] == row))
        if not len(found):
            return None
        best = found[np.argmax(self.score[own][found])]
        return self.evidence[own.start + int(best)].as_py()


def from_entries(
    n_queries: int,
    query: npt.NDArray[Any],
    segment: npt.NDArray[Any],
    row: npt.NDArray[Any],
    score: npt.NDArray[Any],
    evidence: pa.Array | None = None,
) -> FoundDocs:
    """Make candidates of entries in any order; a query's stay in the order given."""
    if (query[1:] < query[:-1]).any():
        order = np.argsort(query, kind="stable")
        query, segment, row, score = (one[order] for one in (query, segment, row, score))
        evidence = None if evidence is None else evidence.take(pa.array(order))
    counts = np.bincount(query, minlength=n_queries)
    return FoundDocs(
        np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        segment.astype(np.uint32, copy=False),
        row.astype(np.uint32, copy=False),
        score.astype(np.float32, copy=False),
        evidence,
    )


def join_candidates(parts: Sequence[FoundDocs]) -> FoundDocs:
    """Put the candidates of a call's parts together, in the order of their queries."""
    if len(parts) == 1:
        return parts[0]
    counts = [np.diff(one.offsets) for one in parts]
    evidence = [one.evidence for one in parts if one.evidence is not None]
    return FoundDocs(
        np.concatenate([[0], np.cumsum(np.concatenate(counts))]).astype(np.int64),
        np.concatenate([one.segment for one in parts]),
        np.concatenate([one.row for one in parts]),
        np.concatenate([one.score for one in parts]),
        pa.concat_arrays(evidence) if evidence else None,
    )


def no_candidates(n_queries: int) -> FoundDocs:
    """Return the candidates of an arm that found nothing."""
    rows = np.zeros(0, np.uint32)
    return FoundDocs(np.zeros(n_queries + 1, np.int64), rows, rows, np.zeros(0, np.float32))


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


def plain_texts(arm: str, texts: Sequence[object]) -> list[str | None]:
    """Read queries as plain text. A blank string counts as no query."""
    out: list[str | None] = []
    for at, text in enumerate(texts):
        if text is not None and not isinstance(text, str):
            wish = f"a str or None (arm {arm!r} reads plain text; pass text={{arm: [...]}})"
            raise error(DTypeError, f"text[{arm!r}][{at}]", wish, repr(text))
        out.append(text if text is not None and text.strip() else None)
    return out
