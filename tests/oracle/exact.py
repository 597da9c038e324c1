"""Rows that hold a quoted string whole come first: the rule, added to recall by definition."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from oracle.documents import DEFAULT_DEPTH, Call
from oracle.fusion import Ranks
from oracle.recall import Docs, Oracle, Search
from oracle.words import Any, Mask, Phrase, Query, Words, leaves


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


class ExactPart(Oracle):
    """Recall by a recipe with ``exact``, of calls that :func:`quoting` has changed."""

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
            if isinstance(text, Any):  # with terms of a second look behind it
                text = text.children[0]
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
        if call.recipe != "exact":
            return super().leading(call, query, seen, ranks)
        wanted = self.wanted(call, query, ranks)
        brought = {
            int(doc) for arm, text in wanted.items() for doc in self.found(call, arm, text, seen)
        }
        near = {doc for listed in ranks.values() for doc in list(listed)[: self.looked_up(call)]}
        return brought, brought | self.holding(wanted, near)

    def holding(self, wanted: Mapping[str, Phrase], docs: Iterable[int]) -> set[int]:
        """Those of some documents that hold what an arm wants."""
        masks = [self.holds(arm, text) for arm, text in wanted.items()]
        return {doc for doc in docs if any(mask[doc] for mask in masks)}

    def near_union(self, search: Search) -> list[int]:
        """Rows beside those of the lists lead, too."""
        found = super().near_union(search)
        if search.call.recipe == "exact":
            wanted = self.wanted(search.call, search.query, search.ranks)
            search.leading |= self.holding(wanted, found)
        return found

    def shown_rank(
        self, call: Call, listed: Mapping[int, int], doc: int, *, leads: bool
    ) -> int | None:
        """None behind the depth, where one arm's list grows with the limit."""
        hides = leads and doc in list(listed)[self.looked_up(call) :]
        return None if hides else listed.get(doc)
