"""The engine with threads and the stage Around as a subject of the laws."""

from dataclasses import replace

import hyrecall as hr
from laws.engine import EngineSubject, arguments, schema
from oracle.around import Evidence, deep
from oracle.documents import Call, Shape


class AroundSubject(EngineSubject):
    """Every recall of the engine has the stage."""

    how = Evidence()

    def schema(self, shape: Shape, cluster: str | None) -> "hr.Schema":
        """The schema of the laws' tables, with threads."""
        return replace(schema(shape, cluster), thread="kind", place="number")

    def hits(self, call: Call) -> "hr.Hits":
        said = arguments(self.shape, deep(call))
        how = self.how
        around = hr.Around(how.neighbours, thread=how.thread, length=how.length)
        return self.index.recall(**said, shaping=(around,))
