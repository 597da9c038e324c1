"""The classes whose instances cross between processes: an allow-list."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import reduce
from operator import and_, or_
from typing import Any, Final, cast

from hyrecall.ask import arms, expansion, predicates, recipe_parts, scoring, shaping
from hyrecall.ask.arms.regex import Edges
from hyrecall.ask.filters import Filter
from hyrecall.ask.recipe import Recipe
from hyrecall.ask.scope import Scope
from hyrecall.ask.session import Session
from hyrecall.errors import OptionError, error
from hyrecall.hits.dropped import Dropped, DroppedRow, Peer, StageDrops
from hyrecall.hits.explanation import Explanation
from hyrecall.hits.explanation_parts import Component, Scaling, Step, Term
from hyrecall.hits.second_look import SecondLook
from hyrecall.hits.trace import StageTrace, Trace
from hyrecall.memory.changes import edges, episodes, feedback, lines, policies, signals, vectors
from hyrecall.memory.data.degradation import Degradation, DegradedReason
from hyrecall.memory.data.sessions import SessionName
from hyrecall.memory.data.types import Edge, Episode, Fact, Participant
from hyrecall.memory.derived.layout import Layout
from hyrecall.memory.faces.export_lines import AgentLine, FeedbackLine, Line, VersionLine
from hyrecall.memory.keeping import tasks
from hyrecall.memory.recall.audience import EVERYONE, AskedBy
from hyrecall.memory.recall.question import FoundRows, Question
from hyrecall.memory.sharing.asking import Asked, ExplainDropped, ExplainRow
from hyrecall.memory.sharing.protocol import ClientState, OwnerState
from hyrecall.memory.sharing.wire import Codec, Kind
from hyrecall.memory.sql.cells import Cell
from hyrecall.memory.sql.doctor import Check
from hyrecall.memory.sql.selection import Selection
from hyrecall.memory.sql.store_sessions import Conversation
from hyrecall.memory.sql.writing import NewVersion
from hyrecall.text.analyzer import Analyzer
from hyrecall.text.bm25 import BM25

__all__ = ["CODEC", "OF_RECIPES", "OF_REQUESTS", "OF_STORES"]

_MOST_PARTS = 10_000


def _filter(op: object, tests: object, parts: object) -> Filter:
    """Make a filter as its operators make it, so that everything is checked."""
    if not isinstance(tests, tuple) or not isinstance(parts, tuple) or len(parts) > _MOST_PARTS:
        raise error(OptionError, "filter", "tests and parts", "others")
    if op == "test":
        return Filter(**dict(tests))
    if not parts or not all(isinstance(part, Filter) for part in parts):
        raise error(OptionError, "filter", "filters to join", "others")
    if op == "not" and len(parts) == 1:
        return cast(Filter, ~parts[0])
    if op in ("and", "or"):
        return cast(Filter, reduce(and_ if op == "and" else or_, parts))
    raise error(OptionError, "filter", "a known operator", repr(op)[:40])


def _weighted(of: type, *options: str) -> Kind:
    """Return the kind of a fusion, which is made of a mapping of weights."""

    def parts(value: Any) -> Iterable[Any]:
        weights = None if value.weights is None else dict(value.weights)
        return (weights, *(getattr(value, name) for name in options))

    def make(weights: Any, *values: Any) -> Any:
        return of(weights, **dict(zip(options, values, strict=True)))

    return Kind(of, parts, make)


def _predicate(of: type) -> Kind:
    return Kind(of, lambda value: value.values, of)


OF_RECIPES: Final[tuple[type | Kind, ...]] = (
    replace(Kind.read(Recipe), is_kept=True),
    *(recipe_parts.Lexical, recipe_parts.Dense, recipe_parts.TieBreak),
    *(recipe_parts.Tables, recipe_parts.Fill, recipe_parts.WithThreads),
    *(arms.EdgeLexical, arms.Listed, arms.Newest, arms.Regex, arms.Tags, Edges),
    *(expansion.Context, expansion.SharedTags),
    *(shaping.Feedback, shaping.Around, shaping.Provenance, shaping.Rerank),
    *(shaping.RerankBy, shaping.Dedup),
    *(shaping.Recency, shaping.Composite, shaping.SessionSignals, shaping.Phase, shaping.Budget),
    *(shaping.MMR, shaping.Gate, shaping.Prior, shaping.Linear, scoring.Above, BM25),
    _weighted(scoring.RRF, "rank_constant", "alpha", "alpha_mode"),
    _weighted(scoring.WeightedSum, "normalize", "complete", "balance"),
    _weighted(scoring.Max, "normalize", "complete"),
    _weighted(scoring.DBSF, "complete"),
)
"""Recipes and what they are made of."""

OF_REQUESTS: Final[tuple[type | Kind, ...]] = (
    Kind(Filter, lambda value: value._identity(), _filter),
    *map(
        _predicate,
        (
            *(predicates.Equal, predicates.AnyOf, predicates.Between, predicates.NoneOf),
            *(predicates.AllOf, predicates.IsNull, predicates.NotNull),
        ),
    ),
    Kind(Scope, lambda value: (value.cells,), Scope),
    Session,
)
"""What else a request of an index is made of."""

OF_STORES: Final[tuple[type | Kind, ...]] = (
    *(Asked, ExplainRow, ExplainDropped, Question, FoundRows, OwnerState, ClientState),
    *(episodes.Remember, episodes.RememberFact, episodes.Update, episodes.Supersede),
    *(episodes.EndFact, episodes.Forget, episodes.Pin, edges.Link, edges.Unlink),
    policies.SetPolicy,
    *(signals.Touch, signals.RecordConversations, Conversation, vectors.SetVectors),
    feedback.GiveFeedback,
    *(lines.ImportLines, lines.ImportedLines, lines.SettleTables),
    *(tasks.Erase, tasks.Compact, tasks.Compacted, tasks.Snapshot, tasks.Rebuild, tasks.CatchUp),
    *(tasks.TakeVectors, tasks.AwaitIndex, tasks.CheckIndex, tasks.EmptyLog, tasks.Follow),
    tasks.CheckEmbeddings,
    *(tasks.TellLayout, Layout),
    Kind(Analyzer, lambda value: (value.to_dict(),), Analyzer.from_dict),
    *(Episode, Fact, Edge, Participant, NewVersion, Cell, Selection, SessionName),
    *(Line, VersionLine, AgentLine, FeedbackLine, AskedBy, type(EVERYONE)),
    *(Check, Degradation, DegradedReason, Trace, StageTrace),
    *(Explanation, Component, Scaling, Step, Term, SecondLook),
    *(Dropped, StageDrops, DroppedRow, Peer),
)
"""Changes, questions and tasks of a store, their replies, and what they are made of."""

CODEC: Final = Codec((*OF_RECIPES, *OF_REQUESTS, *OF_STORES))
"""The codec between the processes of a store."""
