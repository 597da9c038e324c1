"""The base of an arm: what it takes, its search; and what a batch of a call gives to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, Self, TypeAlias, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hyrecall import _core
from hyrecall.base.options import GraphLike
from hyrecall.errors import DTypeError, OptionError, error
from hyrecall.table.attributes import RowTypes

Notes: TypeAlias = "Mapping[str, Mapping[int, str] | None]"
Rows: TypeAlias = "npt.NDArray[Any]"


class SearchArm:
    """An arm of ``arms=``, a frozen object of options; each kind is a subclass in its own file."""

    name: str

    _ranks_all: ClassVar[bool] = False  # scores are places among all rows; it is asked nothing
    _is_slow: ClassVar[bool] = False  # no other caller's query should wait for it

    @property
    def _takes(self) -> Literal["text", "candidates", "nothing"]:
        """What a call must give to the arm, by its name, so that it runs."""
        return "nothing"

    @property
    def _columns(self) -> tuple[str, ...]:
        """The columns of the index that it reads."""
        return (self.column,) if hasattr(self, "column") else ()

    @property
    def _graphs(self) -> tuple[tuple[str, GraphLike | str], ...]:
        """Its graphs, or their names, each after its label for messages."""
        return ((f"{self.name}.graph", self.graph),) if hasattr(self, "graph") else ()

    @property
    def _refused_over_shards(self) -> str | None:
        """What shards cannot answer, in words; None: they can."""
        return None

    def _with_graphs(self, graphs: Mapping[str, GraphLike]) -> Self:
        """Return the arm, which names graphs, with the graphs in the place of their names."""
        one: Any = self
        return cast("Self", replace(one, graph=graphs[one.graph]))

    def _without_graphs(self) -> Self | None:
        """Return the arm without its parts that need a graph; None: nothing is left."""
        return None if self._graphs else self

    def _ask(self, facts: RowTypes, given: Any, n_queries: int) -> ArmQueries:
        """Check what a call asks, and of the index for it; nothing is searched yet."""
        raise NotImplementedError  # each kind has it

    def _search(self, batch: Batch, asked: Any) -> FoundDocs:
        """Search for the queries of a batch, which are those of ``asked``."""
        raise NotImplementedError  # each kind has it


# ---- What an arm is asked, and what it gives: documents with scores, per query ----


@dataclass(frozen=True, eq=False)
class ArmQueries:
    """The queries of an arm, checked."""

    entries: Sequence[Any]
    notes: Notes = field(default_factory=dict)

    def part(self, begin: int, end: int) -> ArmQueries:
        """Return what the queries [begin, end) ask."""
        return ArmQueries(self.entries[begin:end])


@dataclass(frozen=True, eq=False)
class Batch:
    """Some queries of a call on one state of an index, each with its scope and filter."""

    facts: RowTypes
    audience: _core.arms.Audience
    scope: object
    graphs: Mapping[object, Any]  # those of the call, by what an arm holds
    n_queries: int
    depth: int
    gather: Callable[[Rows, Rows, Sequence[str]], pa.Table]  # columns of rows (segment, row)
    seqs: Callable[[Rows, Rows], npt.NDArray[np.int64]]  # their insertion numbers
    numbers: Callable[[Rows, Rows, Rows], npt.NDArray[np.int64]]  # of (query, segment, row)


@dataclass(frozen=True, eq=False)
class FoundDocs:
    """The documents of an arm, in any order: query q has entries offsets[q] to offsets[q + 1]."""

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


def plain_texts(arm: str, texts: Sequence[object]) -> list[str | None]:
    """Read queries as plain text. A blank string counts as no query."""
    out: list[str | None] = []
    for at, text in enumerate(texts):
        if text is not None and not isinstance(text, str):
            wish = f"a str or None (arm {arm!r} reads plain text; pass text={{arm: [...]}})"
            raise error(DTypeError, f"text[{arm!r}][{at}]", wish, repr(text))
        out.append(text if text is not None and text.strip() else None)
    return out


# ---- Checks that arms share ----


def read_arm_name(name: object) -> None:
    """Refuse a name that is not a non-empty str."""
    if not isinstance(name, str) or not name:
        raise error(OptionError, "name", "a name for the arm", repr(name))
