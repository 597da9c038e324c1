"""Exact scoped hybrid recall: BM25 and cosine, fused, over Arrow tables and tensor columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hyrecall.base.starting import end_at_sigterm as _end_at_sigterm
from hyrecall.base.starting import lazily as _lazily

_end_at_sigterm()

from hyrecall.base.version import __version__
from hyrecall.stages.registry import HOMES as _HOMES

# A name is imported when it is first asked for: a command that asks another process needs none.
if TYPE_CHECKING:
    from hyrecall import arms, recipes
    from hyrecall.ask.expansion import Context, SharedTags
    from hyrecall.ask.filters import AllOf, Between, Filter, IsNull, NoneOf, NotNull
    from hyrecall.ask.pages import Buckets
    from hyrecall.ask.parsing import parse
    from hyrecall.ask.queries import All, Any, Boost, Fuzzy, Not, Phrase, Prefix
    from hyrecall.ask.scope import ANY, Scope
    from hyrecall.ask.scoring import DBSF, RRF, Above, Max, WeightedSum
    from hyrecall.errors import (
        CorruptIndexError,
        CorruptStoreError,
        DeviceMemoryError,
        DeviceUnavailableError,
        DTypeError,
        HyrecallError,
        IndexMismatchError,
        IndexNotFoundError,
        InternalError,
        KeyConflictError,
        MissingExtraError,
        NotFoundError,
        OptionError,
        OwnerError,
        SaveConflictError,
        ScopeError,
        ShapeError,
        StoreBusyError,
        StoreError,
        StoreFormatError,
        StoreMismatchError,
        StoreNotFoundError,
        TooManyScansError,
        UnknownOptionError,
        WriterBusyError,
    )
    from hyrecall.graph.graph import Graph, GraphSchema
    from hyrecall.hits.around import NearRow, Neighbour, ThreadRow
    from hyrecall.hits.dropped import Dropped, DroppedRow, StageDrops
    from hyrecall.hits.explain_text import Explanation
    from hyrecall.hits.hits import Hit, Hits, QueryHits
    from hyrecall.hits.trace import StageTrace, Trace
    from hyrecall.index import Index
    from hyrecall.memory import Episode as Episode
    from hyrecall.memory import EpisodeMatch as EpisodeMatch
    from hyrecall.recipe import Recipe
    from hyrecall.stages.age import Composite, Recency
    from hyrecall.stages.choice import MMR, Budget
    from hyrecall.stages.dedup import Dedup
    from hyrecall.stages.evidence import Around, Prior
    from hyrecall.stages.feedback import Feedback
    from hyrecall.stages.gate import Gate
    from hyrecall.stages.linear import Linear
    from hyrecall.stages.provenance import Provenance
    from hyrecall.stages.rerank import Rerank, RerankBy
    from hyrecall.stages.session import Session
    from hyrecall.stages.session_signals import Phase, SessionSignals
    from hyrecall.table.schema import MaxSim, Schema, Sparse, Text, Vector
    from hyrecall.text.analyzer import Analyzer, Token, TokenFunction
    from hyrecall.text.bm25 import BM25


__all__ = [
    "ANY",
    "BM25",
    "DBSF",
    "MMR",
    "RRF",
    "Above",
    "All",
    "AllOf",
    "Analyzer",
    "Any",
    "Around",
    "Between",
    "Boost",
    "Buckets",
    "Budget",
    "Composite",
    "Context",
    "CorruptIndexError",
    "CorruptStoreError",
    "DTypeError",
    "Dedup",
    "DeviceMemoryError",
    "DeviceUnavailableError",
    "Dropped",
    "DroppedRow",
    "Explanation",
    "Feedback",
    "Filter",
    "Fuzzy",
    "Gate",
    "Graph",
    "GraphSchema",
    "Hit",
    "Hits",
    "HyrecallError",
    "Index",
    "IndexMismatchError",
    "IndexNotFoundError",
    "InternalError",
    "IsNull",
    "KeyConflictError",
    "Linear",
    "Max",
    "MaxSim",
    "MissingExtraError",
    "NearRow",
    "Neighbour",
    "NoneOf",
    "Not",
    "NotFoundError",
    "NotNull",
    "OptionError",
    "OwnerError",
    "Phase",
    "Phrase",
    "Prefix",
    "Prior",
    "Provenance",
    "QueryHits",
    "Recency",
    "Recipe",
    "Rerank",
    "RerankBy",
    "SaveConflictError",
    "Schema",
    "Scope",
    "ScopeError",
    "Session",
    "SessionSignals",
    "ShapeError",
    "SharedTags",
    "Sparse",
    "StageDrops",
    "StageTrace",
    "StoreBusyError",
    "StoreError",
    "StoreFormatError",
    "StoreMismatchError",
    "StoreNotFoundError",
    "Text",
    "ThreadRow",
    "Token",
    "TokenFunction",
    "TooManyScansError",
    "Trace",
    "UnknownOptionError",
    "Vector",
    "WeightedSum",
    "WriterBusyError",
    "__version__",
    "arms",
    "parse",
    "recipes",
]

_LATER = {
    "ask.expansion": ("Context", "SharedTags"),
    "ask.filters": ("AllOf", "Between", "Filter", "IsNull", "NoneOf", "NotNull"),
    "ask.pages": ("Buckets",),
    "ask.parsing": ("parse",),
    "ask.queries": ("All", "Any", "Boost", "Fuzzy", "Not", "Phrase", "Prefix"),
    "ask.scope": ("ANY", "Scope"),
    "ask.scoring": ("DBSF", "RRF", "Above", "Max", "WeightedSum"),
    "errors": tuple(name for name in __all__ if name.endswith("Error")),
    "graph.graph": ("Graph", "GraphSchema"),
    "hits.around": ("NearRow", "Neighbour", "ThreadRow"),
    "hits.dropped": ("Dropped", "DroppedRow", "StageDrops"),
    "hits.explain_text": ("Explanation",),
    "hits.hits": ("Hit", "Hits", "QueryHits"),
    "hits.trace": ("StageTrace", "Trace"),
    "index": ("Index",),
    "memory": ("Episode", "EpisodeMatch"),  # they need the extra [memory]
    "recipe": ("Recipe",),
    "stages.session": ("Session",),
    "table.schema": ("MaxSim", "Schema", "Sparse", "Text", "Vector"),
    "text.analyzer": ("Analyzer", "Token", "TokenFunction"),
    "text.bm25": ("BM25",),
    **{f"stages.{home}": names for home, names in _HOMES.items()},
}

_MODULES = (
    *("arms", "ask", "errors", "hits", "index", "parts", "recall", "recipe", "recipes"),
    *("segments", "stages", "table", "text"),
)

if not TYPE_CHECKING:  # a type checker knows these names by the imports above, and no others
    __getattr__ = _lazily(__name__, _LATER, modules=_MODULES)


def __dir__() -> list[str]:
    """Return the public names, also those that are imported when they are asked for."""
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
