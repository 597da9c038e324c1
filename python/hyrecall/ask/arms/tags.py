"""Options of the arm that retrieves documents by their tags."""

from __future__ import annotations

from dataclasses import dataclass, field

from hyrecall.ask.arms.checks import read_arm_name
from hyrecall.ask.shaping.checks import integer
from hyrecall.base.arguments import convert_field, one_of
from hyrecall.base.keywords import check_keywords
from hyrecall.errors import OptionError, error

__all__ = ["Tags"]

_PRESETS = ("unicode", "word", "unicode61", "porter")
MOST_HOPS = 5


@check_keywords
@dataclass(frozen=True)
class Tags:
    """Retrieves documents by the tags that a query names, and by neighbouring tags.

    A query names a tag if they share a token. Tags of the same document are neighbours. A document
    scores ``base x 0.5^hops`` for its nearest tag, where base rises from 0.6 to 0.9 with the number
    of documents of the largest named tag (docs/scoring.md). Tags, counts and neighbours come from
    the query's scope; a filter only narrows the result.

    Parameters
    ----------
    column : str
        An attribute column of strings or lists of strings.
    name : str, default "tags"
        The arm's name.
    depth : int, default 1
        Most hops from a named tag, in [0, 5].
    partial : bool, default False
        Tokens also match if one contains the other and the shorter has at least three letters.
    analyzer : {"unicode", "word", "unicode61", "porter"}, default "unicode"
        Splits the query and the tags into tokens.

    Examples
    --------
    >>> import pyarrow as pa
    >>> import hyrecall as hr
    >>> tags = [["tea", "kettle"], ["kettle"], ["milk"]]
    >>> table = pa.table({"id": ["a", "b", "c"], "text": ["x", "y", "z"], "tags": tags})
    >>> schema = hr.Schema(key="id", cell=None, text="text", attributes="tags")
    >>> index = hr.Index.build(table, schema)
    >>> found = index.recall(text={"tags": ["more tea"]}, arms=hr.arms.Tags("tags"))
    >>> [(hit.key, round(hit.score, 3)) for hit in found[0]]
    [('a', 0.6), ('b', 0.3)]
    """

    column: str
    name: str = field(default="tags", kw_only=True)
    depth: int = field(default=1, kw_only=True)
    partial: bool = field(default=False, kw_only=True)
    analyzer: str = field(default="unicode", kw_only=True)

    def __post_init__(self) -> None:
        """Check the options."""
        read_arm_name(self.name)
        convert_field(self, "depth", integer, 0, MOST_HOPS)
        if not isinstance(self.partial, bool):
            raise error(OptionError, "partial", "a bool", repr(self.partial))
        one_of("analyzer", self.analyzer, _PRESETS)
