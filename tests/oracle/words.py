"""Typed text queries: what matches, how often, and which leaves count.

A document's text is a tuple of fields (one for each column that the arm joins), a field is a tuple
of tokens. A bag of words matches where one of its words does; a phrase and a prefix are pseudo-
terms: their term frequency is the number of occurrences. Whatever the tree, every leaf found in a
matching document counts.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

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
    """Words one after another in one field; ``slop`` more positions may lie between the first and
    the last.
    """

    text: str
    slop: int = 0


@dataclass(frozen=True)
class Prefix:
    """Any word that begins so."""

    text: str


@dataclass(frozen=True)
class All:
    """Every child matches."""

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


Query = Words | Phrase | Prefix | All | Any | Boost


@dataclass(frozen=True)
class Leaf:
    """A term or pseudo-term of a query: what is counted in documents."""

    kind: str  # "term", "phrase" or "prefix"
    words: tuple[str, ...]
    slop: int = 0

    def order(self) -> bytes:
        """UTF-8 bytes that put the leaves in summation order."""
        return " ".join(self.words).encode() + (b"*" if self.kind == "prefix" else b"")

    def occurrences(self, text: Text) -> int:
        """How often it stands in a text; nothing crosses from one field to the next."""
        if self.kind == "term":
            return sum(field.count(self.words[0]) for field in text)
        if self.kind == "prefix":
            return sum(token.startswith(self.words[0]) for field in text for token in field)
        return sum(phrase_occurrences(field, self.words, self.slop) for field in text)


def phrase_occurrences(field: Field, words: Sequence[str], slop: int) -> int:
    """Count the start positions from which the words follow in order with at most ``slop``
    positions between.
    """

    def follows(position: int, rest: Sequence[str], allowance: int) -> bool:
        return not rest or any(
            field[position + skip : position + skip + 1] == (rest[0],)
            and follows(position + skip + 1, rest[1:], allowance - skip)
            for skip in range(allowance + 1)
        )

    return sum(
        token == words[0] and follows(at + 1, words[1:], slop) for at, token in enumerate(field)
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
        case Phrase(text, slop):
            words = tokenize(text)
            if len(words) == 1:  # a phrase of one word is that word
                yield Leaf("term", words), boost, 1
            elif words:
                yield Leaf("phrase", words, slop), boost, 1
        case Prefix(text):
            for word in tokenize(text):
                yield Leaf("prefix", (word,)), boost, 1
        case Boost(child, factor):
            yield from leaves(child, tokenize, boost * factor)
        case All(children) | Any(children):
            for child in children:
                yield from leaves(child, tokenize, boost)


def matched(
    query: Query, held: Callable[[Leaf], Mask], nothing: Mask, tokenize: Tokenize = word_tokens
) -> Mask:
    """Which documents match, given which of them hold each leaf; ``nothing`` is the mask of no
    document.
    """
    match query:
        case All(children):
            return np.logical_and.reduce(
                [matched(child, held, nothing, tokenize) for child in children]
            )
        case Any(children):
            return np.logical_or.reduce(
                [matched(child, held, nothing, tokenize) for child in children]
            )
        case Boost(child, _):
            return matched(child, held, nothing, tokenize)
        case _:
            return np.logical_or.reduce(
                [nothing, *(held(leaf) for leaf, _, _ in leaves(query, tokenize))]
            )
