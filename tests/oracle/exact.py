"""Rows that hold a quoted string whole come first: the rule, added to recall by definition."""

from collections.abc import Mapping
from dataclasses import replace

from oracle.documents import Call, Reply
from oracle.fusion import Ranks
from oracle.recall import DEFAULT_DEPTH, Docs, Oracle
from oracle.words import Mask, Phrase, Query, Words, leaves


def quoting(call: Call) -> Call:
    """The call with three of four bags of words in quotes: one word, two, or all of them; without
    blank ones.
    """
    texts = {arm: tuple(map(quoted, queries)) for arm, queries in call.texts.items()}
    return replace(call, texts=texts)


def quoted(query: Query | None) -> Query | None:
    """A bag of words in quotes, by how long it is; typed queries stay."""
    if not isinstance(query, Words):
        return query
    if not query.text.strip():
        return None  # as a recipe reads it
    if len(query.text) % 4 == 0:
        return query
    most = (None, 1, 2, None)[len(query.text) % 4]
    return Words(f'"{" ".join(query.text.split()[:most])}"')


class ExactOracle(Oracle):
    """Recall by a recipe with ``exact``, of calls that :func:`quoting` has changed."""

    def recall(self, call: Call, query: int) -> Reply:
        """The reply to one query of the changed call."""
        return super().recall(quoting(call), query)

    def looked_up(self, call: Call) -> int:
        """How many rows that hold it an arm brings, and how deep its list is looked through."""
        return DEFAULT_DEPTH if call.depth is None else call.depth

    def holds(self, arm: str, phrase: Phrase) -> Mask:
        """Documents that hold the words side by side."""
        (leaf, *_), *_ = leaves(phrase)
        return self.occurrences(arm, leaf) > 0

    def wanted(self, call: Call, query: int, ranks: Ranks) -> dict[str, Phrase]:
        """What must be held whole, by arm that runs; nothing where it has no word."""
        out = {}
        for arm in ranks.keys() & call.texts.keys():
            text = call.texts[arm][query]
            if isinstance(text, Words) and text.text.startswith('"'):
                phrase = Phrase(text.text.strip('"'))
                if list(leaves(phrase)):
                    out[arm] = phrase
        return out

    def found(self, call: Call, arm: str, phrase: Phrase, seen: tuple[Mask, Mask]) -> Docs:
        """The best documents that hold it, by the phrase's BM25."""
        allowed, visible = seen
        counted = self.counted(arm, allowed, visible)
        scores, matched = self.lexical(arm, phrase, counted, self.constants(call))
        return self.cut(scores, matched & visible, self.looked_up(call))

    def leading(
        self, call: Call, query: int, seen: tuple[Mask, Mask], ranks: Ranks
    ) -> tuple[set[int], set[int]]:
        """Those that were found by phrase, and whatever else of the lists holds it."""
        wanted = self.wanted(call, query, ranks)
        brought = {
            int(doc) for arm, text in wanted.items() for doc in self.found(call, arm, text, seen)
        }
        near = {doc for listed in ranks.values() for doc in list(listed)[: self.looked_up(call)]}
        held = {doc for arm, text in wanted.items() for doc in near if self.holds(arm, text)[doc]}
        return brought, brought | held

    def shown_rank(
        self, call: Call, listed: Mapping[int, int], doc: int, *, leads: bool
    ) -> int | None:
        """None behind the depth, where one arm's list grows with the limit."""
        hides = leads and doc in list(listed)[self.looked_up(call) :]
        return None if hides else listed.get(doc)
