"""Planted bugs of the stage Prior: its oracle, with one decision made wrongly."""

from collections.abc import Mapping, Sequence

from oracle.around import Thread
from oracle.documents import Call
from oracle.fusion import running_sum
from oracle.prior import PriorAround
from oracle.words import Mask


class NoUnit(PriorAround):
    """The numbers are added as if every fusion were in [0, 1]."""

    def prior_unit(self, unit: float) -> float:
        return 1.0


class Product(PriorAround):
    """The row's own fused score is raised by the share."""

    def total(self, fused: float, addends: Sequence[float]) -> float:
        return super().total(fused, [*addends[:-1], fused * addends[-1]])


class UnknownIsWorst(PriorAround):
    """Rows with another value, or none, get the lowest number."""

    def worth(self, doc: int) -> float:
        values = dict(self.prior.values)
        given = self.rows[doc].attributes[self.prior.column]
        return values.get(given, min(values.values()))


class NullIsFirst(PriorAround):
    """A null counts as the first value."""

    def worth(self, doc: int) -> float:
        if self.rows[doc].attributes[self.prior.column] is None:
            return self.prior.values[0][1]
        return super().worth(doc)


class Spoken(PriorAround):
    """The neighbours speak with what their own values add."""

    def evidence(
        self,
        call: Call,
        query: int,
        allowed: Mask,
        visible: Mask,
        threads: Mapping[Thread, list[int]],
        union: Sequence[int],
        pool: Sequence[int],
        fused: Mapping[int, float],
        unit: float,
    ) -> dict[int, list[float]]:
        raised = {doc: score + unit * self.worth(doc) for doc, score in fused.items()}
        return super().evidence(call, query, allowed, visible, threads, union, pool, raised, unit)


class LastAdded(PriorAround):
    """The number is added behind the sum of all else, instead of in its order."""

    def total(self, fused: float, addends: Sequence[float]) -> float:
        return running_sum([super().total(fused, addends[:-1]), addends[-1]]) + 0.0


PLANTED = (NoUnit, Product, UnknownIsWorst, NullIsFirst, Spoken, LastAdded)
