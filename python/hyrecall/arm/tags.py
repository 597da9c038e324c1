"""The arm of the documents near the tags that a query names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from hyrecall.arm.arm import ArmQueries, Batch, FoundDocs, SearchArm, plain_texts, read_arm_name
from hyrecall.base.arguments import check_keywords, convert_field, one_of
from hyrecall.base.options import integer
from hyrecall.errors import OptionError, error
from hyrecall.table.attributes import RowTypes, tag_attribute
from hyrecall.text.analyzer import Analyzer

_PRESETS = ("unicode", "word", "unicode61", "porter")
_MOST_HOPS = 5


@check_keywords
@dataclass(frozen=True)
class Tags(SearchArm):
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
        convert_field(self, "depth", integer, 0, _MOST_HOPS)
        if not isinstance(self.partial, bool):
            raise error(OptionError, "partial", "a bool", repr(self.partial))
        one_of("analyzer", self.analyzer, _PRESETS)

    _takes = "text"
    _refused_over_shards = "Tags"

    def _ask(self, facts: RowTypes, given: Sequence[object], n_queries: int) -> ArmQueries:
        self._attribute(facts)
        return ArmQueries(plain_texts(self.name, given))

    def _search(self, batch: Batch, asked: ArmQueries) -> FoundDocs:
        attribute, analyzer = self._attribute(batch.facts), Analyzer(self.analyzer).native
        texts = [
            one if one is None else one.encode("utf-8", "surrogatepass") for one in asked.entries
        ]
        found = batch.audience.tags(
            attribute, analyzer, texts, self.depth, self.partial, batch.depth
        )
        return FoundDocs(*found)

    def _attribute(self, facts: RowTypes) -> int:
        return tag_attribute(f"{self.name}.column", self.column, facts)
