"""The engine by a recipe that hears the rows around a hit where the scope holds threads."""

from dataclasses import replace

import hyrecall as hr
from hyrecall.recipe import Dense, Lexical, Recipe, WithThreads
from laws.around import AroundSubject
from laws.engine import arguments, engine_bm25
from oracle.around import AroundOracle, deep
from oracle.bm25 import Bm25
from oracle.documents import Call, Reply, Scope
from oracle.recall import Oracle
from oracle.words import Query, Words

PLAIN, THREADED = Bm25(k1=0.75, b=0.25), Bm25(k1=1.5, b=0.25, b_mixed=0.75)

RECIPE = Recipe(
    name="law",
    arms=(Lexical(bm25=hr.BM25(k1=PLAIN.k1, b=PLAIN.b)), Dense()),
    fusion=hr.WeightedSum(balance=0.85),
    with_threads=WithThreads(hr.Around(), engine_bm25(THREADED)),
)


def asked(call: Call) -> Call:
    """A call without the options that a recipe has of its own."""
    plain = replace(call, fusion=None, min_score={}, min_fused=None, bm25=None)
    return deep(plain)


def is_blank(query: Query | None) -> bool:
    """Whether a query is plain text without a word, which a recipe does not ask."""
    return isinstance(query, Words) and not query.text.strip()


class WithThreadsSubject(AroundSubject):
    """Every recall of the engine goes by the recipe."""

    def hits(self, call: Call) -> "hr.Hits":
        return self.index.recall(**arguments(self.shape, asked(call)), recipe=RECIPE)


class WithThreadsOracle(Oracle):
    """The definition: whether a live row of the scope is in a thread decides for each query."""

    def sees_threads(self, call: Call, query: int) -> bool:
        """Whether the scope of a query holds a row in a thread."""
        return self.is_threaded(call.scopes[query])

    def is_threaded(self, cells: Scope) -> bool:
        """Whether a row of these cells is in a thread."""
        return any(row.cell in cells and row.attributes["kind"] is not None for row in self.rows)

    def recall(self, call: Call, query: int) -> Reply:
        """The reply to one query of a call."""
        if call.texts and all(map(is_blank, (texts[query] for texts in call.texts.values()))):
            return ()
        sees = self.sees_threads(call, query)
        how = AroundOracle if sees else Oracle
        constants = THREADED if sees else PLAIN
        texts = {
            arm: tuple(None if is_blank(one) else one for one in texts)
            for arm, texts in call.texts.items()
        }
        read = replace(asked(call), texts=texts, bm25=constants)
        return how(self.shape, self.rows).recall(read, query)


class AnybodysThreads(WithThreadsOracle):
    """A thread of anybody in the index decides."""

    def sees_threads(self, call: Call, query: int) -> bool:
        return any(row.attributes["kind"] is not None for row in self.rows)


class ThreadsOfTheBatch(WithThreadsOracle):
    """A thread in the scope of any query of the batch decides."""

    def sees_threads(self, call: Call, query: int) -> bool:
        return any(map(self.is_threaded, call.scopes))


class ThreadsThatPass(WithThreadsOracle):
    """Only rows that pass the filter decide."""

    def sees_threads(self, call: Call, query: int) -> bool:
        visible = self.visible(self.authorised(call.scopes[query]), call.filter(query))
        pairs = zip(self.rows, visible, strict=True)
        return any(shown and row.attributes["kind"] is not None for row, shown in pairs)


class AlwaysThreads(WithThreadsOracle):
    """The schema alone decides."""

    def sees_threads(self, call: Call, query: int) -> bool:
        return True


PLANTED = (AnybodysThreads, ThreadsOfTheBatch, ThreadsThatPass, AlwaysThreads)
