"""The stage Around of a call: read, told to the engine, and what it added as arrays a hit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from hyrecall import _core
from hyrecall.ask.recipe import Recipe
from hyrecall.ask.shaping import Around, Stage, check_stages
from hyrecall.errors import OptionError, error
from hyrecall.hits.explanation_parts import Step
from hyrecall.hits.reply_arrays import Arrays

if TYPE_CHECKING:
    from hyrecall.recall.ranking import Ranking
    from hyrecall.segments.facts import IndexFacts

__all__ = [
    "around_notes", "around_step", "evidence_arrays", "merged", "read_stages", "set_evidence",
    "with_columns",
]  # fmt: skip


def read_stages(
    facts: IndexFacts, ranking: Ranking
) -> tuple[Around | None, tuple[Stage, ...], tuple[str, ...]]:
    """Return the stage right behind the fusion, the other stages, and what the trace should say."""
    stages = check_stages(ranking.how.shaping)
    if not stages or not isinstance(stages[0], Around):
        return None, stages, ()
    if facts.schema.thread is None:
        if isinstance(ranking.how, Recipe):
            return None, stages[1:], ("Around has no effect: the schema has no thread",)
        wish = "a schema with thread= (the rows around a hit are those of its thread)"
        raise error(OptionError, "Around", wish, "one without")
    if ranking.how.normalize is True:
        wish = "False beside Around (its evidence adds to the fused score)"
        raise error(OptionError, "normalize", wish, True)
    return stages[0], stages[1:], ()


def around_notes(around: Around | None, lexical: Sequence[str]) -> tuple[str, ...]:
    """Say which parts of the stage have no effect where no text arm runs."""
    if around is None or lexical:
        return ()
    parts = [name for name in ("thread", "length") if getattr(around, name) > 0]
    return (f"{' and '.join(parts)} of Around: no effect, no text arm runs",) if parts else ()


def set_evidence(request: _core.BatchRequest, around: Around | None) -> None:
    """Tell a request of the stage right behind its fusion."""
    if around is not None:
        request.set_evidence(
            neighbours=around.neighbours, thread=around.thread, length=around.length
        )


def merged(
    request: _core.BatchRequest, candidates: _core.Candidates, around: Around | None
) -> Arrays:
    """Join the candidates of a request; the arrays of evidence come one column at a time."""
    return with_columns(_core.merge(request, [candidates]), around)


def with_columns(arrays: Arrays, around: Around | None) -> Arrays:
    """Return native hits with the arrays of evidence one column at a time."""
    if around is None:
        return arrays
    n, n_hits = len(around.neighbours), len(arrays["rank"])
    addends = arrays.pop("addends").reshape(n_hits, n + 2)
    near = {part: arrays.pop(f"near_{part}").reshape(n_hits, n) for part in ("segment", "row")}
    for at in range(n):
        arrays[f"near_{at}_addend"] = addends[:, at].copy()
        arrays |= {f"near_{at}_{part}": values[:, at].copy() for part, values in near.items()}
    arrays["fused_score"] = arrays.pop("fused")
    arrays["neighbour_evidence"] = _sums(addends[:, :n])
    arrays["thread_evidence"] = addends[:, n].copy()
    arrays["length_evidence"] = addends[:, n + 1].copy()
    return arrays


def _sums(addends: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Add up what the distances gave, from the nearest on; NaN where none gave anything."""
    total = np.zeros(len(addends))
    for column in addends.T:
        total = total + np.where(np.isnan(column), 0.0, column)
    return np.where(np.isnan(addends).all(axis=1), np.nan, total)


def evidence_arrays(around: Around | None) -> tuple[str, ...]:
    """Return the names of the arrays that :func:`around_step` reads."""
    if around is None:
        return ()
    near = [
        f"near_{at}_{part}"
        for at in range(len(around.neighbours))
        for part in ("addend", "segment", "row")
    ]
    return (*near, "thread_evidence", "length_evidence")


def around_step(
    around: Around, arrays: Arrays, at: int, fused: float, *, prefix: str = ""
) -> tuple[Step, dict[str, tuple[int, int]]]:
    """Add evidence to a fused score; return the step, and the rows that spoke by distance."""
    factors: dict[str, float] = {}
    places: dict[str, tuple[int, int]] = {}
    for number in range(len(around.neighbours)):
        name = f"neighbour_{number + 1}"
        addend = float(arrays[f"{prefix}near_{number}_addend"][at])
        if not np.isnan(addend):
            factors[name] = addend
            places[name] = (
                int(arrays[f"{prefix}near_{number}_segment"][at]),
                int(arrays[f"{prefix}near_{number}_row"][at]),
            )
    for name in ("thread", "length"):
        addend = float(arrays[f"{prefix}{name}_evidence"][at])
        if not np.isnan(addend):
            factors[name] = addend
    total = 0.0
    for value in sorted([fused, *factors.values()], reverse=True):
        total += value
    return Step("Around", total + 0.0, factors), places
