"""Where a match comes from: what recomputes its score."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from hyrecall.errors import OptionError, error

if TYPE_CHECKING:
    from hyrecall.hits.dropped import Dropped
    from hyrecall.hits.explanation import Explanation

__all__ = ["BY_HAND", "WITHOUT_INDEX", "Origin", "Ranked"]

BY_HAND = "one that was made by hand, unpickled or read from JSON"
WITHOUT_INDEX = "one that was found without an index"


class Ranked(Protocol):
    """The rows that a search ranked, which it can explain again."""

    def explain(self, place: int, /) -> Explanation:
        """Recompute the score of a row, by its place from 0."""
        ...

    def explain_dropped(self, most: int, /) -> Dropped:
        """Say what the stages of the recipe left out."""
        ...


class Origin:
    """The search behind a match; it does not take part in comparisons and pickles."""

    # All origins are equal, and a pickle or a copy through JSON has an empty one.

    ranked: Ranked | None = None
    place = 0
    missing = BY_HAND

    def __init__(
        self, ranked: Ranked | None = None, place: int = 0, *, missing: str = BY_HAND
    ) -> None:
        """Hold what was ranked."""
        self.ranked, self.place, self.missing = ranked, place, missing

    def explain(self) -> Explanation:
        """Recompute the score of the match."""
        if self.ranked is None:
            wish = "one that an index ranked in this process"
            raise error(OptionError, "match", wish, self.missing)
        return self.ranked.explain(self.place)

    def __eq__(self, other: object) -> bool:
        """Return True for any other origin: matches are compared by their other fields."""
        return isinstance(other, Origin)

    __hash__ = None  # type: ignore[assignment]

    def __deepcopy__(self, memo: object) -> Origin:
        """Return this one: hits are never copied."""
        return self

    def __getstate__(self) -> None:
        """Return nothing: hits are never pickled."""
