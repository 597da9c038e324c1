"""Typed text queries: what matches, how often, and which leaves count.

A document's text is a tuple of fields (one for each column that the arm joins), a field is a tuple
of tokens. What stands in a field counts as often as its column's weight says. A bag of words
matches where one of its words does; under ``All`` each word is a part of its own, and a text
without a token asks for nothing. A phrase, a prefix and a fuzzy word are pseudo-terms: their term
frequency is the number of occurrences. Whatever the tree, every leaf found in a matching document
counts.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

Mask = NDArray[np.bool_]
Field = tuple[str, ...]
Text = tuple[Field, ...]


@dataclass(frozen=True)
class Words:
    """A bag of words: any of them matches, repeats count again."""

    text: str


@dataclass(frozen=True)
class Phrase:
    """Words at consecutive positions of one field, or not farther out of place than ``slop``."""

    text: str
    slop: int = 0
    prefix_last: bool = False


@dataclass(frozen=True)
class Prefix:
    """Any word that begins like the last one, right after the words before it."""

    text: str


@dataclass(frozen=True)
class Fuzzy:
    """Any word within ``edits`` edits of the last one, right after the words before it."""

    text: str
    edits: int = 1


@dataclass(frozen=True)
class All:
    """Every child matches, and every word of a child that is a bag of words."""

    children: tuple["Query", ...]


@dataclass(frozen=True)
class Any:
    """At least one child matches."""

    children: tuple["Query", ...]


@dataclass(frozen=True)
class Boost:
    """The child, its leaves worth ``factor`` times as much."""

    child: "Query"
    factor: float


@dataclass(frozen=True)
class Not:
    """In a group: what matches the child does not match the group. Its leaves are worth nothing."""

    child: "Query"


Query = Words | Phrase | Prefix | Fuzzy | All | Any | Boost | Not


@dataclass(frozen=True)
class Leaf:
    """A term or pseudo-term of a query: what is counted in documents."""

    kind: str  # "term", "phrase", "prefix" or "fuzzy"
    words: tuple[str, ...]
    slop: int = 0
    edits: int = 0

    def order(self) -> tuple[list[bytes], int, int, int]:
        """What puts leaves in summation order: UTF-8 bytes first."""
        kind = ("term", "phrase", "prefix", "fuzzy").index(self.kind)
        return [word.encode() for word in self.words], kind, self.slop, self.edits

    @property
    def expands(self) -> bool:
        """Whether one word stands for several terms."""
        return self.kind in ("prefix", "fuzzy") and len(self.words) == 1

    def means(self, place: int, token: str) -> bool:
        """Whether a token may stand where the phrase has one of its words."""
        is_last = place == len(self.words) - 1
        if is_last and self.kind == "prefix":
            return token.startswith(self.words[place])
        if is_last and self.kind == "fuzzy":
            return edits_between(token, self.words[place]) <= self.edits
        return token == self.words[place]

    def occurrences(self, text: Text, weights: Sequence[int] = ()) -> int:
        """How often it stands in a text; nothing crosses from one field to the next."""
        weights = weights or (1,) * len(text)
        return sum(w * self.in_field(field) for w, field in zip(weights, text, strict=True))

    def in_field(self, field: Field) -> int:
        """How often it stands in a field."""
        if len(self.words) == 1:
            return sum(self.means(0, token) for token in field)
        return phrase_occurrences(field, self.words, self.slop, self.means)


def edits_between(one: str, other: str) -> int:
    """The fewest edits from one word to another: insert, delete or replace a character, or swap two
    neighbours between which nothing else is edited.
    """
    rows = [[*range(len(other) + 1)]]
    for i, a in enumerate(one, start=1):
        row = [i]
        for j, b in enumerate(other, start=1):
            ways = [rows[i - 1][j] + 1, row[j - 1] + 1, rows[i - 1][j - 1] + (a != b)]
            if i > 1 and j > 1 and (a, b) == (other[j - 2], one[i - 2]):
                ways.append(rows[i - 2][j - 2] + 1)
            row.append(min(ways))
        rows.append(row)
    return rows[-1][-1]


def most_frequent(doc_freqs: Mapping[str, int], most: int) -> set[str]:
    """The terms that the most documents hold; of equal ones the first by UTF-8 bytes."""
    return set(sorted(doc_freqs, key=lambda term: (-doc_freqs[term], term.encode()))[:most])


def phrase_occurrences(
    field: Field, words: Sequence[str], slop: int, means: Callable[[int, str], bool] | None = None
) -> int:
    """Count the places of the first word to which the others fit.

    A word's displacement is its position less its place in the phrase. The words fit where they can
    be chosen so that all displacements lie within ``slop`` of each other. ``means`` says whether a
    token may stand for the word at a place; None: only that word.
    """
    displacements = [
        [
            at - place
            for at, token in enumerate(field)
            if (token == word if means is None else means(place, token))
        ]
        for place, word in enumerate(words)
    ]
    return sum(
        any(max(first, *rest) - min(first, *rest) <= slop for rest in product(*displacements[1:]))
        for first in displacements[0]
    )


Tokenize = Callable[[str], tuple[str, ...]]


def word_tokens(text: str) -> tuple[str, ...]:
    r"""Tokens of the analyzer ``word``: lower-case ``\w+``."""
    return tuple(re.findall(r"\w+", text.lower()))


def leaves(
    query: Query, tokenize: Tokenize = word_tokens, boost: float = 1.0
) -> Iterator[tuple[Leaf, float, int]]:
    """Every leaf of a query with its boost and its count."""
    match query:
        case Words(text):
            for word, count in Counter(tokenize(text)).items():
                yield Leaf("term", (word,)), boost, count
        case Phrase(text, slop, True):
            if words := tokenize(text):
                yield Leaf("prefix", words, slop if len(words) > 1 else 0), boost, 1
        case Fuzzy(text, edits):
            if words := tokenize(text):
                yield Leaf("fuzzy", words, 0, edits), boost, 1
        case Phrase(text, slop):
            words = tokenize(text)
            if len(words) == 1:  # a phrase of one word is that word
                yield Leaf("term", words), boost, 1
            elif words:
                yield Leaf("phrase", words, slop), boost, 1
        case Prefix(text):
            if words := tokenize(text):
                yield Leaf("prefix", words), boost, 1
        case Boost(child, factor):
            yield from leaves(child, tokenize, boost * factor)
        case Not(child):
            yield from leaves(child, tokenize, 0.0)
        case All(children) | Any(children):
            for child in children:
                yield from leaves(child, tokenize, boost)


def matched(
    query: Query, held: Callable[[Leaf], Mask], tokenize: Tokenize = word_tokens, *,
    excludes: bool = True,
) -> Mask:  # fmt: skip
    """Which documents match, given which hold each leaf; False where it asks for nothing.
    ``excludes=False`` ignores every ``Not``.
    """
    parts, _ = _parts(query, held, tokenize, excludes=excludes)
    return np.logical_or.reduce(parts) if parts else np.False_


def _parts(
    query: Query, held: Callable[[Leaf], Mask], tokenize: Tokenize, *, excludes: bool
) -> tuple[list[Mask], list[Mask]]:
    """What a query adds to the group that it stands in: a mask for each word, one for a group; and
    what must not match there.
    """
    match query:
        case All(children) | Any(children):
            parts: list[Mask] = []
            excluded: list[Mask] = []
            for child in children:
                own, out = _parts(child, held, tokenize, excludes=excludes)
                parts += own
                # A group that asks for nothing excludes under All; under Any it cannot match.
                if isinstance(child, Not) or isinstance(query, All):
                    excluded += out
            if not parts:
                return [], excluded
            joined = np.logical_and if isinstance(query, All) else np.logical_or
            mask = joined.reduce(parts)
            return [mask & ~np.logical_or.reduce(excluded) if excluded else mask], []
        case Boost(child, _):
            return _parts(child, held, tokenize, excludes=excludes)
        case Not(child):
            return [], [matched(child, held, tokenize)] if excludes else []
        case _:
            return [held(leaf) for leaf, _, _ in leaves(query, tokenize)], []
