"""The engine with the stage Feedback as a subject of the laws."""

import hyrecall as hr
from laws.engine import EngineSubject, arguments
from oracle.around import deep
from oracle.documents import Call
from oracle.feedback import Second


class FeedbackSubject(EngineSubject):
    """Every recall of the engine has the stage."""

    how = Second()

    def hits(self, call: Call) -> "hr.Hits":
        how = self.how
        stage = hr.Feedback(how.rows, how.dense, how.terms, how.lexical)
        return self.index.recall(**arguments(self.shape, deep(call)), shaping=stage)
