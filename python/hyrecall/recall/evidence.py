"""The stages Around and Prior of a call: checks, native options, and their part of hits' scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hyrecall import _core
from hyrecall.ask.filter_program import value_codes
from hyrecall.ask.request import CallOptions
from hyrecall.ask.shaping import Around, Feedback, Prior, Stage
from hyrecall.errors import OptionError, error
from hyrecall.hits.explain_text import Step
from hyrecall.hits.reply import Arrays

if TYPE_CHECKING:
    from hyrecall.recall.ranking import Ranking
    from hyrecall.segments.segments import IndexFacts


@dataclass(frozen=True)
class Evidence:
    """The stages Around and Prior of a call, checked."""

    around: Around | None
    prior: Prior | None
    column: int = 0
    codes: Sequence[int | bytes] = ()
    addends: Sequence[float] = ()

    @property
    def n_distances(self) -> int:
        """The largest distance at which rows count."""
        return 0 if self.around is None else len(self.around.neighbours)

    @property
    def name(self) -> str:
        """The names of the stages, as explanations show them."""
        both = (("Around", self.around), ("Prior", self.prior))
        return " and ".join(name for name, stage in both if stage is not None)

    def tell(self, request: _core.BatchRequest) -> None:
        """Tell a request of what comes right behind its fusion."""
        around = Around((), 0.0, 0.0) if self.around is None else self.around
        prior = (self.column, self.codes, self.addends)
        request.set_evidence(
            neighbours=around.neighbours, thread=around.thread, length=around.length,
            prior=None if self.prior is None else prior,
        )  # fmt: skip

    def arrays(self) -> tuple[str, ...]:
        """Return the names of the arrays that :meth:`step` reads."""
        near = [
            f"near_{at}_{part}"
            for at in range(self.n_distances)
            for part in ("addend", "segment", "row")
        ]
        around = () if self.around is None else (*near, "thread_evidence", "length_evidence")
        return (*around, *(() if self.prior is None else ("prior_evidence",)))

    def step(
        self, arrays: Arrays, at: int, fused: float, *, prefix: str = ""
    ) -> tuple[Step, dict[str, tuple[int, int]]]:
        """Add evidence to a fused score; return the step, and the rows that spoke by distance."""
        factors: dict[str, float] = {}
        places: dict[str, tuple[int, int]] = {}
        for number in range(self.n_distances):
            name = f"neighbour_{number + 1}"
            addend = float(arrays[f"{prefix}near_{number}_addend"][at])
            if not np.isnan(addend):
                factors[name] = addend
                places[name] = (
                    int(arrays[f"{prefix}near_{number}_segment"][at]),
                    int(arrays[f"{prefix}near_{number}_row"][at]),
                )
        around = () if self.around is None else ("thread", "length")
        for name in (*around, *(() if self.prior is None else ("prior",))):
            addend = float(arrays[f"{prefix}{name}_evidence"][at])
            if not np.isnan(addend):
                factors[name] = addend
        total = 0.0
        for value in sorted([fused, *factors.values()], reverse=True):
            total += value
        return Step(self.name, total + 0.0, factors), places


def has_effect(facts: IndexFacts, stage: Stage) -> bool:
    """Whether a stage adds evidence to the fused scores of this index."""
    if isinstance(stage, Around):
        return facts.schema.thread is not None
    if not isinstance(stage, Prior):
        return False
    return stage.column is not None or facts.schema.speaker is not None


def read_stages(
    facts: IndexFacts, ranking: Ranking, stages: tuple[Stage, ...]
) -> tuple[Evidence | None, tuple[Stage, ...], tuple[str, ...]]:
    """Return what comes right behind the fusion, the other stages, and notes for the trace."""
    # ``stages`` are those of the ranking, checked.
    arounds = [stage for stage in stages if isinstance(stage, Around)]
    priors = [stage for stage in stages if isinstance(stage, Prior)]
    rest = tuple(stage for stage in stages if not isinstance(stage, Around | Prior | Feedback))
    notes: list[str] = []
    is_recipe = not isinstance(ranking.how, CallOptions)
    if arounds and not has_effect(facts, arounds[0]):
        if not is_recipe:
            wish = "a schema with thread= (the rows around a hit are those of its thread)"
            raise error(OptionError, "Around", wish, "one without")
        arounds = []
        notes.append("Around has no effect: the schema has no thread")
    if priors and not has_effect(facts, priors[0]):
        if not is_recipe:
            wish = "the name of a column, or a schema with speaker="
            raise error(OptionError, "Prior", wish, "None, and one without")
        priors = []
        notes.append("Prior has no effect: the schema has no speaker")
    if not (arounds or priors):
        return None, rest, tuple(notes)
    if ranking.how.normalize is True:
        names = " and ".join(type(stage).__name__ for stage in (*arounds, *priors))
        wish = f"False beside {names} (what is added is no share of the best score)"
        raise error(OptionError, "normalize", wish, True)
    around = arounds[0] if arounds else None
    return _with_prior(facts, around, priors[0] if priors else None), rest, tuple(notes)


def _with_prior(facts: IndexFacts, around: Around | None, prior: Prior | None) -> Evidence:
    """Return the stages with the prior's values as the engine knows them."""
    if prior is None:
        return Evidence(around, None)
    column = prior.column or facts.schema.speaker
    assert column is not None
    pairs = prior.by_value
    index, codes = value_codes(column, [value for value, _ in pairs], facts.attribute_types)
    # Two values may have one code; the last one counts.
    by_code = {code: to for own, (_, to) in zip(codes, pairs, strict=True) for code in own}
    return Evidence(around, prior, index, list(by_code), list(by_code.values()))


def evidence_notes(evidence: Evidence, lexical: Sequence[str]) -> tuple[str, ...]:
    """Say which parts of Around have no effect where no text arm runs."""
    if evidence.around is None or lexical:
        return ()
    parts = [name for name in ("thread", "length") if getattr(evidence.around, name) > 0]
    return (f"{' and '.join(parts)} of Around: no effect, no text arm runs",) if parts else ()


def merged(
    request: _core.BatchRequest, candidates: _core.Candidates, evidence: Evidence | None
) -> Arrays:
    """Join the candidates of a request; see :func:`with_columns`."""
    return with_columns(_core.merge(request, [candidates]), evidence)


def with_columns(arrays: Arrays, evidence: Evidence | None) -> Arrays:
    """Return native hits without the arrays of a stage that the call does not have."""
    if evidence is not None and evidence.around is None:
        for name in ("neighbour_evidence", "thread_evidence", "length_evidence"):
            del arrays[name]
    return arrays
