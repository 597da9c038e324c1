"""The stages that add evidence right behind the fusion, in one sum: Around and Prior."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hyrecall import _core
from hyrecall.base.arguments import check_keywords, convert_field, number, set_fields
from hyrecall.base.options import column_name, plain_pairs
from hyrecall.errors import DTypeError, OptionError, error
from hyrecall.stages.lists import FusedLists
from hyrecall.stages.stage import Factors, Stage, StageCall, Step, operand
from hyrecall.table.schema import Schema

MOST_DISTANCES = 8
MOST_VALUES = 4096


class _Beside(Stage):
    """What both stages share: they add to fused scores in the native merge."""

    _acts = "fusion"
    _lacks: ClassVar[tuple[str, str, str]]  # what a schema lacks, and how a plain call is told

    @staticmethod
    def _told(factors: Factors, before: float, after: float) -> list[str]:
        if not factors:
            return [" as before: nothing in its thread changes it"]
        names = ", ".join(name.replace("_", " ") for name in factors)
        return [f" = {operand(before)} + {' + '.join(map(operand, factors.values()))}: {names}"]


@check_keywords
@dataclass(frozen=True)
class Around(_Beside):
    """Raises fused scores by the rows around a hit, by its whole thread and by its length.

    The index needs a schema with ``thread=``. The stage runs right behind the fusion, before
    ``min_fused``. The rows near the candidates in their threads join the candidates. They are
    scored in every arm; their scores are scaled by the other candidates' minima and maxima, and cut
    into [0, 1].

    Parameters
    ----------
    neighbours : sequence of float, default (0.3, 0.15)
        Weights of the rows one place away, two places away, and so on, at most 8. For each
        distance, the better fused score of the two rows there is multiplied by the weight. Deleted
        rows have no place.
    thread : float, default 0.25
        The weight of BM25 of the whole thread as one document, min-max scaled over the candidates'
        threads. Document frequencies and lengths are those of the threads in the scope.
    length : float, default 0.4
        The weight of the row's length, ln(1 + tokens) / 5 cut into [0, 1]. It counts whole where
        the lengths of the scope's rows are alike, and less the more they differ.

    Raises
    ------
    OptionError
        A weight outside [0, 1e6] or too many. At recall: an index without threads, ``normalize``.
    DTypeError
        A weight that is not a number.

    Notes
    -----
    Every row of the query's scope counts, whether or not it passes the filter; only rows that pass
    become hits. ``thread`` and ``length`` have no effect where no text arm runs. Their addends are
    shares of the best possible fused score; with the fusions that scale scores to [0, 1] it is the
    sum of the arms' weights. Hits have ``neighbour_evidence``, ``thread_evidence`` and
    ``length_evidence`` as columns of tables. A single arm is fused, too: by the fusion of the
    recipe or call, or by the default one, which gives scores in [0, 1].

    Examples
    --------
    >>> Around(neighbours=(0.3,), thread=0.25)
    Around(neighbours=(0.3,), thread=0.25, length=0.4)
    """

    phase: ClassVar[float] = -3
    _lacks = (
        "thread", "a schema with thread= (the rows around a hit are those of its thread)",
        "one without",
    )  # fmt: skip

    neighbours: Sequence[float] = (0.3, 0.15)
    thread: float = 0.25
    length: float = 0.4

    def __post_init__(self) -> None:
        """Check the weights."""
        wish = "a number in [0, 1e6]"
        given = self.neighbours
        if isinstance(given, str | bytes) or not isinstance(given, Sequence):
            raise error(DTypeError, "neighbours", "a sequence of weights", repr(given))
        if len(given) > MOST_DISTANCES:
            raise error(OptionError, "neighbours", f"at most {MOST_DISTANCES} weights", len(given))
        checked = tuple(
            number(f"neighbours[{at}]", weight, 0.0, 1e6, wish) for at, weight in enumerate(given)
        )
        set_fields(self, neighbours=checked)
        for name in ("thread", "length"):
            convert_field(self, name, number, 0.0, 1e6, wish)

    @property
    def keeps(self) -> tuple[str, ...]:
        parts = ("addend", "segment", "row")
        near = [f"near_{at}_{part}" for at in range(len(self.neighbours)) for part in parts]
        return (*near, "thread_evidence", "length_evidence")

    def _fuses(self, schema: Schema) -> bool:
        return schema.thread is not None


@check_keywords
@dataclass(frozen=True)
class Prior(_Beside):
    """Adds a number to fused scores that depends on a column's value, such as who said the row.

    The stage runs right behind the fusion, before ``min_fused``, in one sum with
    :class:`hyrecall.Around`.

    Parameters
    ----------
    column : str or None
        An attribute column without lists; None: the schema's ``speaker``.
    values : mapping of value to float
        What rows with a value get, in [-1e6, 1e6]; at most 4,096 values. Rows with another value,
        or with none, get 0.

    Raises
    ------
    OptionError
        A number outside [-1e6, 1e6], no value or too many. At recall: a column that is no
        attribute, holds lists or other types than the values, ``normalize``, None where the schema
        has no speaker, or :class:`hyrecall.Linear` behind it without a weight for ``prior``.
    DTypeError
        Values that are no mapping, or a number that is none.

    Notes
    -----
    The numbers are shares of the best possible fused score; with the fusions that scale scores to
    [0, 1] that is the sum of the arms' weights. Hits have ``prior_evidence`` as a column of tables.
    A single arm is fused, too: by the fusion of the recipe or call, or by the default one, which
    gives scores in [0, 1].

    In chats of a user with an assistant, long answers repeat many words of the questions. There
    -0.1 for the assistant helps; docs/evaluation.md has measurements.

    Examples
    --------
    >>> Prior("role", {"assistant": -0.1}).values
    (('assistant', -0.1),)
    """

    phase: ClassVar[float] = -2
    _lacks = ("speaker", "the name of a column, or a schema with speaker=", "None, and one without")
    column_options = ("column",)

    column: str | None
    values: Mapping[object, float] | tuple[tuple[object, float], ...]

    def __post_init__(self) -> None:
        """Check the options."""
        if self.column is not None:
            column_name("column", self.column)
        wish = "a number in [-1e6, 1e6]"
        pairs = plain_pairs("values", self.values)
        if not 0 < len(pairs) <= MOST_VALUES:
            raise error(OptionError, "values", f"1 to {MOST_VALUES} values", len(pairs))
        checked = tuple((v, number(f"values[{v!r}]", w, -1e6, 1e6, wish)) for v, w in pairs)
        set_fields(self, values=checked)

    @property
    def by_value(self) -> tuple[tuple[object, float], ...]:
        """The pairs of value and number."""
        return tuple(dict(self.values).items())

    @property
    def keeps(self) -> tuple[str, ...]:
        return ("prior_evidence",)

    def _fuses(self, schema: Schema) -> bool:
        return self.column is not None or schema.speaker is not None


Codes = Callable[[str, Sequence[object], Mapping[str, pa.DataType]], tuple[int, list[Any]]]
"""Gives a column's number, and what the engine knows each of some values by."""


@dataclass(frozen=True)
class Evidence:
    """The stages Around and Prior of a call, checked: the native merge adds both in one sum."""

    around: Around | None
    prior: Prior | None
    column: int = 0
    codes: Sequence[int | bytes] = ()
    addends: Sequence[float] = ()

    @classmethod
    def read(
        cls,
        stages: Sequence[Stage],
        schema: Schema,
        attribute_types: Mapping[str, pa.DataType],
        codes_of: Codes,
        *,
        is_recipe: bool,
        normalize: object,
    ) -> tuple[Evidence | None, tuple[str, ...]]:
        """Return those among stages that have an effect, and notes on the others for the trace."""
        notes, kept = [], []
        for stage in (one for one in stages if isinstance(one, _Beside)):
            if stage._fuses(schema):
                kept.append(stage)
                continue
            lacks, wish, got = stage._lacks
            if not is_recipe:
                raise error(OptionError, stage.name, wish, got)
            notes.append(f"{stage.name} has no effect: the schema has no {lacks}")
        if not kept:
            return None, tuple(notes)
        if normalize is True:
            names = " and ".join(stage.name for stage in kept)
            wish = f"False beside {names} (what is added is no share of the best score)"
            raise error(OptionError, "normalize", wish, True)
        around, prior = Around.among(kept), Prior.among(kept)
        if prior is None:
            return cls(around, None), tuple(notes)
        column = prior.column or schema.speaker
        assert column is not None
        pairs = prior.by_value
        index, codes = codes_of(column, [value for value, _ in pairs], attribute_types)
        # Two values may have one code; the last one counts.
        by_code = {code: to for own, (_, to) in zip(codes, pairs, strict=True) for code in own}
        made = cls(around, prior, index, list(by_code), list(by_code.values()))
        return made, tuple(notes)

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The stages."""
        return tuple(one for one in (self.around, self.prior) if one is not None)

    @property
    def n_distances(self) -> int:
        """The largest distance at which rows count."""
        return 0 if self.around is None else len(self.around.neighbours)

    def notes(self, lexical: Sequence[str]) -> tuple[str, ...]:
        """Say which parts of Around have no effect where no text arm runs."""
        if self.around is None or lexical:
            return ()
        parts = [name for name in ("thread", "length") if getattr(self.around, name) > 0]
        return (f"{' and '.join(parts)} of Around: no effect, no text arm runs",) if parts else ()

    def tell(self, request: _core.BatchRequest) -> None:
        """Tell a request of what comes right behind its fusion."""
        around = Around((), 0.0, 0.0) if self.around is None else self.around
        prior = (self.column, self.codes, self.addends)
        request.set_evidence(
            neighbours=around.neighbours, thread=around.thread, length=around.length,
            prior=None if self.prior is None else prior,
        )  # fmt: skip

    def with_columns(self, arrays: dict[str, npt.NDArray[Any]]) -> dict[str, npt.NDArray[Any]]:
        """Return native hits without the arrays of a stage that the call does not have."""
        if self.around is None:
            for name in ("neighbour_evidence", "thread_evidence", "length_evidence"):
                del arrays[name]
        return arrays

    def explain(self, hit: FusedLists, fused: float, call: StageCall) -> Step:
        factors: dict[str, float] = {}
        keys: dict[str, Any] = {}

        def add(name: str, array: str) -> bool:
            addend = float(hit.arrays[array][0])
            is_there = not np.isnan(addend)
            if is_there:
                factors[name] = addend
            return is_there

        for at in range(self.n_distances):
            if add(f"neighbour_{at + 1}", f"near_{at}_addend"):
                place = {name: hit.arrays[f"near_{at}_{name}"] for name in ("segment", "row")}
                near = FusedLists(hit.offsets, place)
                keys[f"neighbour_{at + 1}"] = call.column(near, call.schema.key)[0].as_py()
        for name in ("thread", "length") if self.around is not None else ():
            add(name, f"{name}_evidence")
        if self.prior is not None:
            add("prior", "prior_evidence")
        total = 0.0
        for value in sorted([fused, *factors.values()], reverse=True):
            total += value
        name = " and ".join(stage.name for stage in self.stages)
        return Step(name, total + 0.0, factors, keys)
