"""Arms that need no query text: what the caller names, and what is newest."""

from __future__ import annotations

from dataclasses import dataclass, field

from hyrecall.ask.arms.checks import read_arm_name
from hyrecall.base.keywords import check_keywords

__all__ = ["Listed", "Newest"]


@check_keywords
@dataclass(frozen=True)
class Listed:
    """An arm whose candidates the caller gives with each call, as ``candidates={name: ...}``.

    Per query a sequence of keys, best first; or a mapping of keys to scores; or None. Without
    scores, the key in place n is worth 1 / n. A key that the query may not see, or that is not
    there, vanishes without a word; a key in several cells of the scope stands for all of them.

    Parameters
    ----------
    name : str
        The arm's name.

    Examples
    --------
    >>> import pyarrow as pa
    >>> import hyrecall as hr
    >>> table = pa.table({"id": ["a", "b", "c"], "text": ["tea", "milk", "tea"]})
    >>> index = hr.Index.build(table, hr.Schema(key="id", cell=None, text="text"))
    >>> hints = {"hints": [["b", "nowhere", "a"]]}
    >>> index.recall(arms=hr.arms.Listed("hints"), candidates=hints)[0].keys
    ['b', 'a']
    """

    name: str

    def __post_init__(self) -> None:
        """Check the name."""
        read_arm_name(self.name)


@check_keywords
@dataclass(frozen=True)
class Newest:
    """The documents with the largest value of an attribute: the newest by a time column.

    The score is 1 / place among the distinct values (equal values share a place, then the lower
    seq comes first). A document without a value is not in the arm.

    Parameters
    ----------
    column : str
        An attribute column of numbers, dates or times.
    name : str, default "newest"
        The arm's name.

    Examples
    --------
    >>> import pyarrow as pa
    >>> import hyrecall as hr
    >>> table = pa.table({"id": ["a", "b", "c"], "text": ["x", "y", "z"], "at": [3, None, 8]})
    >>> schema = hr.Schema(key="id", cell=None, text="text", attributes="at")
    >>> hr.Index.build(table, schema).recall(arms=hr.arms.Newest("at"))[0].keys
    ['c', 'a']
    """

    column: str
    name: str = field(default="newest", kw_only=True)

    def __post_init__(self) -> None:
        """Check the name."""
        read_arm_name(self.name)
