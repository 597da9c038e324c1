"""The words of a text that a query asks for, and the part of the text that shows most of them.

Slow on purpose: every choice of words for a phrase, and every part of a text, is tried. Texts are
those of the analyzer ``word``, in one form of Unicode and without capital letters that grow.
"""

import re
from collections.abc import Sequence
from itertools import product

from oracle.words import Leaf, Query, leaves

Span = tuple[int, int]


def found(text: str, query: Query) -> list[tuple[int, int, Leaf]]:
    """Each word with each leaf that it is of, in text order."""
    words = [(one.start(), one.end(), one.group().lower()) for one in re.finditer(r"\w+", text)]
    marks = {
        (*words[at][:2], leaf)
        for leaf, _, _ in leaves(query)
        for choice in choices([word for _, _, word in words], leaf)
        for at in choice
    }
    return sorted(marks, key=lambda mark: mark[:2])


def choices(words: Sequence[str], leaf: Leaf) -> list[tuple[int, ...]]:
    """Every way to choose a word for each place of a leaf."""

    places = [
        [at for at, word in enumerate(words) if leaf.means(place, word)]
        for place in range(len(leaf.words))
    ]
    moved = [[at - place for place, at in enumerate(chosen)] for chosen in product(*places)]
    return [
        tuple(at + place for place, at in enumerate(one))
        for one in moved
        if max(one) - min(one) <= leaf.slop
    ]


def merged(marks: Sequence[tuple[int, int, Leaf]]) -> list[Span]:
    """The characters that are marked, as runs."""
    marked = sorted({at for start, end, _ in marks for at in range(start, end)})
    starts = [at for at in marked if at - 1 not in marked]
    ends = [at + 1 for at in marked if at + 1 not in marked]
    return list(zip(starts, ends, strict=True))


def worth(marks: Sequence[tuple[int, int, Leaf]], begin: int, end: int) -> tuple[int, int]:
    """How many terms a part of a text shows, and how many marked words."""
    inside = [leaf for start, stop, leaf in marks if begin <= start and stop <= end]
    return len(set(inside)), len(inside)


def most_worth(text: str, marks: Sequence[tuple[int, int, Leaf]], width: int) -> tuple[int, int]:
    """The worth of the best part of a text of at most so many characters."""
    return max(worth(marks, at, at + width) for at in range(len(text) + 1))
