"""Exact scoped hybrid recall: BM25 and cosine, fused, over Arrow tables and tensor columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hyrecall import arms, recipes
from hyrecall.analyzer import Analyzer, Token, TokenFunction
from hyrecall.errors import (
    CorruptIndexError,
    CorruptStoreError,
    DeviceMemoryError,
    DeviceUnavailableError,
    DTypeError,
    HyrecallError,
    IndexNotFoundError,
    InternalError,
    KeyConflictError,
    MissingExtraError,
    NotFoundError,
    OptionError,
    SaveConflictError,
    ScopeError,
    ShapeError,
    StoreError,
    StoreFormatError,
    StoreNotFoundError,
    UnknownOptionError,
    WriterBusyError,
)
from hyrecall.expansion import Context, SharedTags
from hyrecall.explanation import Explanation
from hyrecall.filters import AllOf, Between, Filter, IsNull, NoneOf, NotNull
from hyrecall.graph import Graph, GraphSchema, Neighbour
from hyrecall.hit import Hit, QueryHits
from hyrecall.hits import Hits
from hyrecall.index import Index
from hyrecall.queries import All, Any, Boost, Phrase, Prefix
from hyrecall.recipe import Recipe
from hyrecall.schema import Schema, Text, Vector
from hyrecall.scope import ANY, Scope
from hyrecall.scoring import BM25, DBSF, RRF, Above, Max, WeightedSum
from hyrecall.session import Session
from hyrecall.shaping import (
    MMR,
    Budget,
    Composite,
    Dedup,
    Gate,
    Phase,
    Provenance,
    Recency,
    Rerank,
    RerankBy,
    SessionSignals,
)
from hyrecall.trace import StageTrace, Trace

if TYPE_CHECKING:
    from hyrecall.memory import Episode, EpisodeMatch

__version__ = "0.1.0"

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
    "Between",
    "Boost",
    "Budget",
    "Composite",
    "Context",
    "CorruptIndexError",
    "CorruptStoreError",
    "DTypeError",
    "Dedup",
    "DeviceMemoryError",
    "DeviceUnavailableError",
    "Explanation",
    "Filter",
    "Gate",
    "Graph",
    "GraphSchema",
    "Hit",
    "Hits",
    "HyrecallError",
    "Index",
    "IndexNotFoundError",
    "InternalError",
    "IsNull",
    "KeyConflictError",
    "Max",
    "MissingExtraError",
    "Neighbour",
    "NoneOf",
    "NotFoundError",
    "NotNull",
    "OptionError",
    "Phase",
    "Phrase",
    "Prefix",
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
    "StageTrace",
    "StoreError",
    "StoreFormatError",
    "StoreNotFoundError",
    "Text",
    "Token",
    "TokenFunction",
    "Trace",
    "UnknownOptionError",
    "Vector",
    "WeightedSum",
    "WriterBusyError",
    "__version__",
    "arms",
    "recipes",
]


def __getattr__(name: str) -> type[Episode | EpisodeMatch]:
    """Return what needs the extra ``[memory]`` when it is first asked for."""
    if name not in ("Episode", "EpisodeMatch"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from hyrecall import memory

    kind: type[Episode | EpisodeMatch] = getattr(memory, name)
    return kind
