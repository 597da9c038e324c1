"""A prior by definition: what a row's value in a column adds to its score, beside the evidence
around it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from oracle.around import AroundOracle, Evidence, Thread
from oracle.corpus import KINDS
from oracle.documents import Call
from oracle.scope import Value
from oracle.words import Mask


@dataclass(frozen=True)
class Prior:
    """What each value of a column adds, as a share of the best possible fused score."""

    column: str
    values: tuple[tuple[Value, float], ...]


OF_KINDS = Prior("kind", ((KINDS[0], -0.3), (KINDS[1], 0.2), ("nowhere", 9.0)))
OF_NUMBERS = Prior("number", ((1, 0.5), (-3, -0.25), (2**62, 3.0)))


class PriorOracle(AroundOracle):
    """The definition of a reply with a prior, alone or beside what stands around a hit."""

    how = Evidence((), 0.0, 0.0)
    prior = OF_KINDS

    def worth(self, doc: int) -> float:
        """What a row's value adds; another value, or none, adds 0."""
        return dict(self.prior.values).get(self.rows[doc].attributes[self.prior.column], 0.0)

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
        out = super().evidence(call, query, allowed, visible, threads, union, pool, fused, unit)
        for doc in pool:
            out[doc].append(self.prior_unit(unit) * self.worth(doc))
        return out

    def prior_unit(self, unit: float) -> float:
        """What the numbers are shares of."""
        return unit


class PriorAround(PriorOracle):
    """With the evidence around a hit."""

    how = Evidence()


class NumberPrior(PriorOracle):
    """By an integer column."""

    prior = OF_NUMBERS
