"""Recall by whatever a call may say, by definition: the parts of the oracle as one."""

from dataclasses import replace

from oracle.arms import ArmsPart
from oracle.around import Around, AroundPart
from oracle.bm25 import Bm25
from oracle.documents import Call, Reply, Scope
from oracle.exact import ExactPart
from oracle.feedback import FeedbackPart
from oracle.grouped import GroupedPart
from oracle.pages import PagePart
from oracle.recall import Oracle
from oracle.staged import StagedPart
from oracle.words import Query, Words

PLAIN, THREADED = Bm25(k1=0.75, b=0.25), Bm25(k1=1.5, b=0.25, b_mixed=0.75)


class ThreadsPart(AroundPart):
    """Recall by a recipe that hears the rows around a hit where the scope holds threads."""

    def is_threaded(self, cells: Scope) -> bool:
        """Whether a row of these cells is in a thread."""
        return any(row.cell in cells and row.attributes["kind"] is not None for row in self.rows)

    def sees_threads(self, call: Call, query: int) -> bool:
        """Whether the scope of a query holds a row in a thread, which decides for it."""
        return self.is_threaded(call.scopes[query])

    def recall(self, call: Call, query: int) -> Reply:
        """The reply to one query of a call."""
        if call.recipe != "threads":
            return super().recall(call, query)
        if call.texts and all(map(is_blank, (texts[query] for texts in call.texts.values()))):
            return ()
        texts = {
            arm: tuple(None if is_blank(one) else one for one in texts)
            for arm, texts in call.texts.items()
        }
        sees = self.sees_threads(call, query)
        bm25, shaping = (THREADED, (Around(), *call.shaping)) if sees else (PLAIN, call.shaping)
        return super().recall(replace(call, texts=texts, bm25=bm25, shaping=shaping), query)


def is_blank(query: Query | None) -> bool:
    """Whether a query is plain text without a word, which a recipe does not ask."""
    return isinstance(query, Words) and not query.text.strip()


class RecipeOracle(
    PagePart,
    ThreadsPart,
    FeedbackPart,
    ExactPart,
    GroupedPart,
    StagedPart,
    AroundPart,
    ArmsPart,
    Oracle,
):
    """The documents of one index, and the definition of every reply."""
