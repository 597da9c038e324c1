"""The stage that weighs scores by a column's value, such as the document's source: Provenance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from hyrecall.base.arguments import check_keywords, convert_field, number, set_fields
from hyrecall.base.options import column_name, plain_pairs
from hyrecall.stages.lists import Floats, FusedLists, by_value
from hyrecall.stages.stage import Factors, Scored, Stage, StageCall, operand


@check_keywords
@dataclass(frozen=True)
class Provenance(Stage):
    """Multiplies scores by the weight of a column's value, such as the document's source.

    Parameters
    ----------
    column : str
        A key, cell, attribute or stored column.
    weights : mapping of value to float
        Weights, in [0, 1e6].
    default : float, default 1
        The weight of other values and of nulls.

    Examples
    --------
    >>> Provenance("source", {"memory": 1.0, "session": 0.4}).weights
    (('memory', 1.0), ('session', 0.4))
    """

    phase: ClassVar[float] = -1
    column_options = ("column",)

    column: str
    weights: Mapping[object, float] | tuple[tuple[object, float], ...]
    default: float = 1.0

    def __post_init__(self) -> None:
        """Check the options."""
        column_name("column", self.column)
        wish = "a number in [0, 1e6]"
        pairs = plain_pairs("weights", self.weights)
        checked = tuple((v, number(f"weights[{v!r}]", w, 0.0, 1e6, wish)) for v, w in pairs)
        set_fields(self, weights=checked)
        convert_field(self, "default", number, 0.0, 1e6, wish)

    @property
    def by_value(self) -> tuple[tuple[object, float], ...]:
        """The pairs of value and weight."""
        return tuple(dict(self.weights).items())

    def run(self, lists: FusedLists, call: StageCall) -> FusedLists:
        """Multiply each score by the weight of the row's value."""
        weight = self._weights(lists, call)
        score = weight * lists.score
        change = {"provenance_weight": weight, "provenance_change": score - lists.score}
        return call.ordered(lists.with_arrays(**change, score=score))

    def explain(self, hit: FusedLists, score: float, call: StageCall) -> Scored:
        weight = float(self._weights(hit, call)[0])
        return weight * score, {"weight": weight}

    @staticmethod
    def _told(factors: Factors, before: float, after: float) -> list[str]:
        weight = operand(factors["weight"])
        return [f" = {operand(before)} x {weight}, the weight of its source"]

    def _weights(self, lists: FusedLists, call: StageCall) -> Floats:
        values = call.column(lists, self.column)
        return by_value(values, self.by_value, self.default, self.column)
