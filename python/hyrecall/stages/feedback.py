"""The stage that searches again with terms and vectors of the best rows: Feedback."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hyrecall import _core
from hyrecall.base.arguments import check_keywords, convert_field, number
from hyrecall.base.options import integer
from hyrecall.errors import OptionError, error
from hyrecall.stages.stage import Stage

MOST_ROWS = 100
MOST_TERMS = 100


@check_keywords
@dataclass(frozen=True)
class Feedback(Stage):
    """Searches twice: terms and vectors of the best first rows extend the second query.

    The first search ends with the fusion. Its best rows move the query vector towards their mean
    (Rocchio), and their most telling terms join the query's own (a relevance model, RM3). The
    second search asks the new query; all other stages run on its answer alone.

    Parameters
    ----------
    rows : int, default 3
        How many rows of the first answer are heard, in [1, 100].
    dense : float, default 0.4
        The weight of the rows' mean unit vector beside the unit query, in [0, 100].
    terms : int, default 0
        At most so many terms are added, in [0, 100].
    lexical : float, default 0.2
        The boosts of all added terms together, for each token of the query, in [2^-20, 10].

    Raises
    ------
    OptionError
        A number out of range; ``dense`` and ``terms`` that are both 0.
    DTypeError
        A number of another type.

    Notes
    -----
    Only rows that could be hits are heard: rows of the query's scope that pass the filter and the
    floors. Each counts alike. A row without a vector moves no vector, a row without a text adds no
    term. Document frequencies are those of the scope. Terms are added to plain texts; a typed query
    such as ``hr.Phrase`` says itself what matches and stays as it is. An arm that does not run is
    left out. A recall takes about twice as long. ``hits[i].trace.feedback`` and ``hit.explain()``
    say which rows were heard, and which terms they added.

    Feedback helps where questions and documents share a subject but few words. It does little for
    short turns of a chat, where terms cost more than they bring.

    Examples
    --------
    >>> Feedback(rows=5, terms=10)
    Feedback(rows=5, dense=0.4, terms=10, lexical=0.2)
    """

    phase: ClassVar[float] = -4
    _acts = "queries"
    over_shards = "it searches twice"

    rows: int = 3
    dense: float = 0.4
    terms: int = 0
    lexical: float = 0.2

    def __post_init__(self) -> None:
        """Check the options."""
        convert_field(self, "rows", integer, 1, MOST_ROWS)
        convert_field(self, "dense", number, 0.0, 100.0, "a number in [0, 100]")
        convert_field(self, "terms", integer, 0, MOST_TERMS)
        convert_field(self, "lexical", number, 2.0**-20, 10.0, "a number in [2^-20, 10]")
        if self.dense == 0 and self.terms == 0:
            raise error(OptionError, "Feedback", "dense or terms above 0", "both 0")


# ---- What the best rows of a first answer add to the queries of a batch, part by part ----

Vectors = tuple[npt.NDArray[Any], ...]
"""Of one arm: the moved queries, whether each is there, and whether it was moved."""

Terms = tuple[npt.NDArray[np.int64], list[str], npt.NDArray[np.float64]]
"""Of one arm: the offsets of each query's terms, the terms, and their boosts."""


class Look(NamedTuple):
    """The terms and vectors that the first search of one part adds."""

    offsets: npt.NDArray[np.int64]
    keys: pa.Array
    vectors: list[Vectors]
    terms: list[Terms]


def without_effect(feedback: Feedback, n_lexical: int, n_dense: int) -> Iterator[str]:
    """Say which parts of the stage have no effect."""
    if feedback.dense > 0 and not n_dense:
        yield "dense of Feedback: no effect, no vector arm runs"
    if feedback.terms > 0 and not n_lexical:
        yield "terms of Feedback: no effect, no text arm runs"


def look(
    feedback: Feedback,
    execution: _core.Execution,
    arrays: Mapping[str, npt.NDArray[Any]],
    keys: pa.Array,
) -> Look:
    """Say what the best rows of each query of a part, with their keys, add to it."""
    offsets = arrays["offsets"]
    vectors, terms = _core.shaping.second_look(
        execution, offsets, arrays["segment"], arrays["row"], dense=feedback.dense,
        n_terms=feedback.terms, lexical=feedback.lexical,
    )  # fmt: skip
    return Look(offsets, keys, list(vectors), terms)


def asked_again(
    request: _core.BatchRequest, looks: Sequence[Look], lexical: Sequence[str], dense: Sequence[str]
) -> tuple[_core.BatchRequest, SecondLooks]:
    """Return the request of the second search, and what was added to its queries."""
    vectors = [
        tuple(np.concatenate([one.vectors[at][part] for one in looks]) for part in range(3))
        for at in range(len(looks[0].vectors))
    ]
    terms = [_joined_terms([one.terms[at] for one in looks]) for at in range(len(looks[0].terms))]
    again = _core.shaping.asked_again(
        request,
        [(values, present) for values, present, _ in vectors],
        [(one.offsets, one.terms, one.boosts.tolist()) for one in terms],
    )
    added = SecondLooks(
        _joined_offsets([one.offsets for one in looks]),
        pa.concat_arrays([one.keys for one in looks]),
        {arm: moved.view(np.bool_) for arm, (_, _, moved) in zip(dense, vectors, strict=False)},
        dict(zip(lexical, terms, strict=False)),
    )
    return again, added


def _joined_offsets(parts: Sequence[npt.NDArray[np.int64]]) -> npt.NDArray[np.int64]:
    """Return the offsets of parts that stand back to back."""
    return np.concatenate([[0], np.cumsum(np.concatenate([np.diff(one) for one in parts]))])


def _joined_terms(
    parts: Sequence[Terms],
) -> AddedTerms:
    """Put the terms of parts back to back."""
    return AddedTerms(
        _joined_offsets([offsets for offsets, _, _ in parts]),
        tuple(term for _, terms, _ in parts for term in terms),
        np.concatenate([boosts for _, _, boosts in parts]),
    )


@dataclass(frozen=True)
class SecondLook:
    """What :class:`hyrecall.Feedback` added to one query."""

    rows: tuple[Any, ...]
    vectors: tuple[str, ...] = ()
    terms: dict[str, dict[str, float]] = field(default_factory=dict)


@dataclass(frozen=True)
class AddedTerms:
    """The terms that one arm's queries got: query q has those from offsets[q] to offsets[q + 1]."""

    offsets: npt.NDArray[np.int64]
    terms: tuple[str, ...]
    boosts: npt.NDArray[np.float64]

    def of(self, query: int) -> dict[str, float]:
        """Return the terms of one query with their boosts."""
        own = slice(int(self.offsets[query]), int(self.offsets[query + 1]))
        return dict(zip(self.terms[own], self.boosts[own].tolist(), strict=True))


@dataclass(frozen=True, eq=False, repr=False)
class SecondLooks(Mapping[int, SecondLook]):
    """The second looks of a batch, by query; only queries to which something was added."""

    offsets: npt.NDArray[np.int64]
    row_keys: pa.Array
    moved: dict[str, npt.NDArray[np.bool_]]
    added: dict[str, AddedTerms]

    def __getitem__(self, query: int) -> SecondLook:
        """Return what was added to a query."""
        if not (isinstance(query, int) and 0 <= query < len(self._has) and self._has[query]):
            raise KeyError(query)
        own = slice(int(self.offsets[query]), int(self.offsets[query + 1]))
        terms = {arm: found for arm, one in self.added.items() if (found := one.of(query))}
        vectors = tuple(arm for arm, moved in self.moved.items() if moved[query])
        return SecondLook(tuple(self.row_keys[own].to_pylist()), vectors, terms)

    def __iter__(self) -> Iterator[int]:
        """Go through the queries to which something was added."""
        return iter(np.flatnonzero(self._has).tolist())

    def __len__(self) -> int:
        """Return how many queries got something."""
        return int(np.count_nonzero(self._has))

    def __repr__(self) -> str:
        """Show it as a dict."""
        return repr(dict(self))

    @property
    def _has(self) -> npt.NDArray[np.bool_]:
        """Say of each query whether anything was added to it."""
        has = np.zeros(len(self.offsets) - 1, np.bool_)
        for moved in self.moved.values():
            has |= moved
        for one in self.added.values():
            has |= np.diff(one.offsets) > 0
        return has
