"""The engine with the stage Prior, alone or behind Around, as a subject of the laws."""

import hyrecall as hr
from laws.around import AroundSubject
from laws.engine import arguments
from oracle.around import Evidence, deep
from oracle.documents import Call
from oracle.prior import OF_KINDS, OF_NUMBERS


class PriorSubject(AroundSubject):
    """Every recall of the engine has the stage."""

    prior = OF_KINDS
    around = False

    def hits(self, call: Call) -> "hr.Hits":
        said = arguments(self.shape, deep(call))
        how = Evidence()
        around = hr.Around(how.neighbours, thread=how.thread, length=how.length)
        prior = hr.Prior(self.prior.column, dict(self.prior.values))
        return self.index.recall(**said, shaping=(around, prior) if self.around else (prior,))


class PriorAroundSubject(PriorSubject):
    """Behind what stands around a hit."""

    around = True


class NumberPriorSubject(PriorSubject):
    """By an integer column."""

    prior = OF_NUMBERS
