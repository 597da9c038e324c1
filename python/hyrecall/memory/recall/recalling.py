"""Answers one recall of a store: audience, embedding, index, then content.

External components (embedder, tracker, index, reranker) may fail; the reply then reports the
failure in ``degraded`` and holds what is possible without them. Content is read from the store, by
rows that the index named and the audience may read.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import chain
from typing import Any, TypeAlias

import apsw
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hyrecall._core.arithmetic import unit_scale
from hyrecall.arm.regex import Regex, check_pattern
from hyrecall.ask.expansion import MOST_BESIDE, Context
from hyrecall.ask.filters import Filter
from hyrecall.ask.recipe import Lexical, Recipe
from hyrecall.ask.scoring import read_floor
from hyrecall.base.threads import AllHungError, LateError, Pool, warn_caller
from hyrecall.embed.guard import Guard
from hyrecall.embed.protocol import EmbedFault, NoVectors
from hyrecall.errors import CorruptIndexError, HyrecallError, OptionError
from hyrecall.memory.data.matches import Degradation, DegradedReason, Facts, Matches, RecallReport
from hyrecall.memory.data.sessions import InProcessSessions, SessionName, SessionTracker
from hyrecall.memory.data.types import (
    Asked,
    Edge,
    Episode,
    EpisodeMatch,
    IsolationWarning,
    MatchParts,
    Origin,
    construct_all,
)
from hyrecall.memory.derived.layout import IndexNotReadyError, Layout
from hyrecall.memory.derived.row_filters import passing_in_order
from hyrecall.memory.recall.audience import AskedBy, Audience, audience
from hyrecall.memory.recall.call import FoundRows, IndexQuestion, RecallArguments
from hyrecall.memory.sql.codec import (
    CHECKED,
    Cell,
    cell_of,
    content_of,
    from_json,
    is_sound,
    rows,
    to_json,
    to_micros,
)
from hyrecall.memory.sql.database import Database
from hyrecall.memory.sql.edge_rows import edges_between
from hyrecall.memory.sql.fact_rows import (
    behind_successors,
    facts_of_rows,
    has_facts,
    has_times,
    memories_that_hold,
)
from hyrecall.memory.sql.reading import episodes_by_id, episodes_of_rows
from hyrecall.memory.sql.schema import LISTED, LIVE
from hyrecall.memory.sql.store_sessions import StoreSessions
from hyrecall.recall.exact import exact_text
from hyrecall.stages.choice import Budget, token_counts
from hyrecall.stages.gate import Gate
from hyrecall.stages.provenance import Provenance
from hyrecall.stages.session import Session

# ---- Answers a query without an index: finds rows of the store that contain its words ----
# It takes time in proportion to the texts read, and reads no more than the limits below.

MOST_WORDS = 64
"""Different words of a query that are looked for."""

MOST_ROWS = 100_000
"""Documents whose texts are searched, the newest first."""

MOST_CHARACTERS = 16_000_000
"""Characters of their texts."""

PAGE = 32  # documents read at a time

_WORD = re.compile(r"\w+")


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """The conditions of a search without an index; None: no condition."""

    kind: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    tags: Collection[str] | None = None
    valid_at: datetime | None = None
    passes: Filter | None = None
    worth: Provenance | None = None


@dataclass(frozen=True)
class Substrings:
    """The rows that contain words of the query."""

    rows: list[int]
    cut: str = ""


def find(
    connection: apsw.Connection,
    layout: Layout,
    text: str,
    cells: Collection[int],
    wanted: Wanted | None = None,
    *,
    whole: str | None = None,
    limit: int,
    damaged: set[int] | None = None,
) -> Substrings:
    """Find the live documents in some cells that hold every word of a text."""
    # A word may stand inside a longer one, in whatever case. A text without words is searched as it
    # is, and every document holds a blank one. Nothing is scored.
    folded = text.casefold()
    words = list(dict.fromkeys(_WORD.findall(folded))) or [folded.strip()]
    told = [f"{MOST_WORDS} of {len(words):,} words"] if len(words) > MOST_WORDS else []
    words = words[:MOST_WORDS]
    narrow = wanted or Wanted()
    newest = _newest(connection, cells, narrow)
    searched = list(passing_in_order(connection, newest[:MOST_ROWS], narrow.passes))
    n_seen = n_characters = 0
    is_whole = _finder(whole)
    first: list[int] = []
    found: list[int] = []
    for row, held, checked in _texts(connection, layout, searched):
        n_characters += sum(len(str(one)) for one in held)
        if len(first if is_whole else found) == limit or n_characters > MOST_CHARACTERS:
            break
        n_seen += 1
        if not is_sound(checked):
            if damaged is not None:
                damaged.add(row)
            continue
        if narrow.tags is not None:
            tags = from_json(content_of(checked).tags)
            if not set(narrow.tags) & set(tags):
                continue
        here = "\n".join(held).casefold()
        if all(word in here for word in words):
            (first if is_whole and is_whole(here) else found).append(row)
    n_past = newest.index(searched[n_seen]) if n_seen < len(searched) else len(newest[:MOST_ROWS])
    if len(first if is_whole else found) < limit and n_past < len(newest):
        told.append(f"the newest {n_past:,} memories")
    return Substrings((first + found)[:limit], f"searched: {' in '.join(told)}" if told else "")


def _finder(whole: str | None) -> Callable[[str], object] | None:
    """Return the function that finds a query at word boundaries in a folded text."""
    if whole is None:
        return None
    return re.compile(rf"(?<!\w){re.escape(whole.casefold())}(?!\w)").search


def _newest(connection: apsw.Connection, cells: Collection[int], wanted: Wanted) -> list[int]:
    """Return the newest rows of documents, one more than are searched at most."""
    select = f"""SELECT v.row
      FROM versions v JOIN documents d ON (d.cell, d.id, d.version) = (v.cell, v.id, v.version)
      WHERE v.cell IN (SELECT value FROM json_each(?1)) AND {LIVE}
        AND (?2 IS NULL OR v.kind = ?2) AND (?3 IS NULL OR v.occurred_at >= ?3)
        AND (?4 IS NULL OR v.occurred_at <= ?4)
        AND (?5 IS NULL OR EXISTS (SELECT 1 FROM facts f WHERE f.row = v.row
          AND f.valid_from <= ?5 AND (f.valid_to IS NULL OR f.valid_to > ?5)))
      ORDER BY ifnull((SELECT value FROM json_each(?7) WHERE key = v.source), ?8) DESC,
        v.occurred_at DESC, d.changed DESC LIMIT ?6"""
    times = (wanted.since, wanted.until, wanted.valid_at)
    micros = (None if at is None else to_micros(at) for at in times)
    worth = wanted.worth or Provenance("source", {})
    weights = to_json({str(source): weight for source, weight in worth.by_value})
    most = MOST_ROWS + 1
    given = (to_json(tuple(cells)), wanted.kind, *micros, most, weights, worth.default)
    return [row for (row,) in connection.execute(select, given)]


def _texts(
    connection: apsw.Connection, layout: Layout, numbers: Sequence[int]
) -> Iterator[tuple[int, list[Any], list[Any]]]:
    """Read documents' texts and what :func:`is_sound` takes, a page at a time."""
    texts = ", ".join(layout.columns[name].sql for name in layout.texts)
    select = f"""SELECT v.row, {texts}, {CHECKED}
      FROM versions v JOIN documents d ON (d.cell, d.id, d.version) = (v.cell, v.id, v.version)
      WHERE v.row IN {LISTED} ORDER BY v.row"""
    n_texts = len(layout.texts)
    for begin in range(0, len(numbers), PAGE):
        page = numbers[begin : begin + PAGE]
        read = {row: columns for row, *columns in rows(connection, select, (to_json(page),))}
        for row in page:
            yield row, read[row][:n_texts], read[row][n_texts:]


# ---- Answers a recall while there is no index, with the parts of its recipe that need only texts


def answer(
    connection: apsw.Connection,
    layout: Layout,
    ask: RecallArguments,
    cells: Collection[int],
    damaged: set[int] | None = None,
) -> tuple[list[int], float, str]:
    """Return the rows that answer a call, their scores, and whether rows were left unsearched."""
    # Nothing is right, more is not: where only an index knows what is asked for, there are no rows.
    # The damaged ones that were left out go into ``damaged``.
    # As with an index: without a query every row has the full score.
    score = 1.0 if ask.is_blank else 0.0
    recipe = ask.by_words
    by_pattern = not recipe.arms and all(isinstance(arm, Regex) for arm in recipe.more)
    if by_pattern:
        _check_patterns(recipe, ask.query)
    # A blank query returns only fill, and a budget admits no fill.
    is_nothing = ask.is_blank and (recipe.on_empty != "newest" or recipe.has_budget)
    if by_pattern or is_nothing or not _reaches(score, recipe):
        return [], score, ""
    by_source = Provenance.among(recipe.shaping)
    wanted = Wanted(
        kind=ask.kind, since=ask.since, until=ask.until, tags=ask.tags, valid_at=ask.valid_at,
        passes=ask.own_filter,
        worth=by_source if by_source is not None and by_source.column == "source" else None,
    )  # fmt: skip
    most = ask.offset + ask.limit
    whole = exact_text(ask.query) if recipe.exact else None
    found = find(
        connection, layout, ask.query, cells, wanted, whole=whole, limit=most, damaged=damaged
    )
    return found.rows[ask.offset :], score, found.cut


def within_budget(ask: RecallArguments, texts: Mapping[int, str]) -> list[int]:
    """Return the rows whose texts fit the call's budget: the first always, then each that fits."""
    budget = Budget.among(ask.by_words.shaping)
    if budget is None or budget.tokens is None or not budget.bounds:
        return list(texts)
    counts = token_counts(budget, pa.array(list(texts.values()), pa.large_string()))
    kept: list[int] = []
    left = budget.tokens
    for row, tokens in zip(texts, counts.tolist(), strict=True):
        if not kept or tokens <= left:
            kept.append(row)
            left -= tokens
    return kept


def _check_patterns(recipe: Recipe, query: str) -> None:
    for arm in recipe.more:
        if isinstance(arm, Regex) and not arm.only_patterns and query.strip():
            check_pattern(arm, query, f"text[{arm.name!r}][0]")


def _reaches(score: float, recipe: Recipe) -> bool:
    """Return whether a score reaches the recipe's floors; that of the words arm is unknown."""
    of_words = (read_floor("", arm.min_score) for arm in recipe.arms if isinstance(arm, Lexical))
    if any(floor is not None and floor[0] > 0 for floor in of_words):
        return False
    gate = Gate.among(recipe.shaping)
    least = None if gate is None else gate.min_score
    floors = [read_floor("min_score", floor) for floor in (recipe.min_fused, least)]
    return all(
        score > floor[0] if floor[1] else score >= floor[0] for floor in floors if floor is not None
    )


# ---- Reads the episodes of ranked rows from the store, and their context ----


def matches_of(
    connection: apsw.Connection,
    ranked: FoundRows,
    wanted: Sequence[int],
    seen: Audience,
    now: datetime,
    reasons: tuple[Degradation, ...],
    damaged: set[int],
    *,
    context: Context | None,
    holds_at: datetime | None,
    asked: Asked,
) -> Matches:
    """Read the episodes of ranked rows at some places."""
    # Those that are damaged or no longer live are left out.
    rows = list(map(ranked.rows.__getitem__, wanted))
    episodes = episodes_of_rows(connection, rows, seen.cells, damaged, shown=True)
    ends = ends_of(connection, rows, seen.cells) if has_facts(connection, seen.cells) else {}
    places = tuple(wanted)
    if len(episodes) < len(rows):
        places = tuple([at for at in wanted if ranked.rows[at] in episodes])
    beside = [ranked.context[at] for at in places] if ranked.context else []
    keys = dict.fromkeys(chain(*beside))
    homes: Collection[tuple[int, str]] = [(cell, key) for key in keys for cell in seen.cells]
    if context is not None and holds_at is not None:
        held = memories_that_hold(connection, keys, tuple(seen.cells), holds_at)
        homes = [one for one in homes if one in held]
        keys = dict.fromkeys(key for _, key in homes)
        beside = [tuple([key for key in near if key in keys][: context.n]) for near in beside]
    near = _context_of_hit(connection, beside, homes, damaged) if keys else ()
    parts = _parts(ranked, places, near)
    reranked = ranked.stages.get("rerank_score", (None,) * len(ranked.rows))
    fields = []
    for at, part in zip(places, parts, strict=True):
        row = ranked.rows[at]
        fields.append({
            "episode": episodes[row], "score": ranked.scores[at],
            "vector_score": ranked.vector_scores[at], "bm25_score": ranked.bm25_scores[at],
            "rerank_score": reranked[at], "parts": part, "is_fill": ranked.fills[at],
            "is_exact": ranked.exact[at], "valid_to": ends.get(row),
        })  # fmt: skip
    origins = [{"_origin": one} for one in Origin.of_places(ranked.ranked, places, asked)]
    matches = construct_all(EpisodeMatch, fields, origins)
    found = RecallReport(
        reasons=tuple(dict.fromkeys(reasons)),
        now=now,
        origins=tuple(["fill" if ranked.fills[at] else "hit" for at in places]),
        trace=ranked.trace,
        related=_related(connection, ranked, seen, damaged) if ranked.related else (),
        context=near,
        around=_around(connection, ranked, seen, places) if ranked.around else (),
        edges=() if context is None else _edges(connection, ranked, places, matches, near, seen),
        phase=ranked.phase,
        tiers=dict(ranked.n_candidates),
        scopes=seen.readings,
        faults=seen.faults,
        rows=tuple(map(ranked.rows.__getitem__, places)),
    )
    return Matches(matches, found, hits=ranked.ranked, places=places)


def ends_of(
    connection: apsw.Connection, rows: Sequence[int], cells: Collection[int]
) -> dict[int, datetime | None]:
    """Return when the facts among some rows end."""
    facts = facts_of_rows(connection, rows, cells) if rows else {}
    return {row: fact.valid_to for row, fact in facts.items()} if facts else {}


def _parts(
    ranked: FoundRows, places: Sequence[int], context: Sequence[Sequence[Episode]]
) -> list[MatchParts]:
    """Return what the scores of the rows at some places are made of."""
    nothing = (None,) * len(ranked.rows)
    stage = ranked.stages.get
    tiers: list[dict[str, int]] = []
    for at in range(len(ranked.rows)):
        own = {}
        for arm, ranks in ranked.ranks.items():
            if (rank := ranks[at]) is not None:
                own[arm] = rank
        tiers.append(own)
    related: list[tuple[str, ...]] = [()] * len(ranked.rows)
    for at, near in zip(places, context, strict=False):  # nothing of no row, if none has any
        related[at] = tuple(one.id for one in near)
    columns = {
        "similarity": [None if one is None else unit_scale(one) for one in ranked.vector_scores],
        "fused": stage("fused_score", ranked.scores),  # the same without stages
        "provenance": stage("provenance_weight", nothing),
        "recency": stage("recency_score", stage("recency_factor", nothing)),
        "importance": stage("importance_score", nothing),
        "relevance": stage("relevance_score", nothing),
        "composite": stage("composite_raw", nothing),
        "general": stage("general_score", nothing),
        "topical": stage("topical_score", nothing),
        "session": stage("session_score", nothing),
        "phase": nothing if ranked.phase is None else (ranked.phase.name,) * len(nothing),
        "tokens": stage("token_estimate", nothing),
        "tiers": tiers,
        "related": related,
    }
    rows = list(zip(*columns.values(), strict=True))
    fields = [dict(zip(columns, rows[at], strict=True)) for at in places]
    return construct_all(MatchParts, fields)


def _related(
    connection: apsw.Connection, ranked: FoundRows, seen: Audience, damaged: set[int]
) -> tuple[Episode, ...]:
    numbers = {cell: number for number, cell in seen.cells.items()}
    homes = ((numbers.get(Cell(*cell)), key) for cell, key in ranked.related)  # type: ignore[arg-type]
    wanted = [(number, key) for number, key in homes if number is not None]
    found = episodes_by_id(connection, wanted, damaged)
    return tuple(found[one] for one in wanted if one in found)


def _context_of_hit(
    connection: apsw.Connection,
    beside: Sequence[Sequence[str]],
    homes: Iterable[tuple[int, str]],
    damaged: set[int],
) -> tuple[tuple[Episode, ...], ...]:
    """Return the episodes of ids in the cells that the caller may see them in."""
    keys = dict.fromkeys(chain.from_iterable(beside))
    wanted = [home for home in homes if home[1] in keys]
    found = episodes_by_id(connection, wanted, damaged)
    known: dict[str, list[Episode]] = {key: [] for key in keys}
    for home in wanted:
        if home in found:
            known[home[1]].append(found[home])
    return tuple(tuple(episode for key in context for episode in known[key]) for context in beside)


def _around(
    connection: apsw.Connection, ranked: FoundRows, seen: Audience, places: Sequence[int]
) -> tuple[tuple[Episode, ...], ...]:
    """Return the episodes around the rows at some places; damaged ones are left out."""
    wanted = tuple(dict.fromkeys(chain.from_iterable(ranked.around[at] for at in places)))
    known = episodes_of_rows(connection, wanted, seen.cells, set(), shown=True)
    return tuple(tuple(known[row] for row in ranked.around[at] if row in known) for at in places)


def _edges(
    connection: apsw.Connection,
    ranked: FoundRows,
    places: Iterable[int],
    matches: list[EpisodeMatch],
    context: tuple[tuple[Episode, ...], ...],
    seen: Audience,
) -> tuple[Edge, ...]:
    """Return the edges between matches and context; edges whose own text was found come first."""
    numbers = {cell: number for number, cell in seen.cells.items()}
    shown = [one.episode for one in matches] + [one for near in context for one in near]
    homes = ((numbers.get(cell_of(one)._replace(source=None)), one.id) for one in shown)
    nodes = [(number, key) for number, key in homes if number is not None]
    found = edges_between(connection, tuple(dict.fromkeys(nodes)))
    named = dict.fromkeys(ranked.edges[at] for at in places) if ranked.edges else {}
    order = {key: place for place, key in enumerate(named)}
    return tuple(sorted(found, key=lambda edge: order.get(edge.id, len(order))))


# ---- Answers one recall of a store: audience, embedding, index, then content ----

CALLERS_ARE_NAMED: ContextVar[bool] = ContextVar("hyrecall_callers_are_named", default=False)
"""Whether who calls without a user means the anonymous one, as tokens do: then nothing warns."""

_log = logging.getLogger("hyrecall.memory")

TRIES = 3
TRACKER_SECONDS = 0.25
LEAST_WAIT = 0.5  # seconds; applying a few changes takes milliseconds, less would refuse too soon

Vector = npt.NDArray[np.float32]
Trackers: TypeAlias = Pool[Callable[[], Any], tuple[Any, BaseException | None]]


@dataclass(frozen=True)
class Means:
    """The components of a store that a recall uses: database, index, embedder, sessions."""

    database: Database
    search_index: Callable[[IndexQuestion], FoundRows]
    touch: Callable[[tuple[int, ...], datetime], object]
    guard: Guard
    sessions: SessionTracker
    trackers: Trackers
    clock: Callable[[], datetime]
    layout: Layout
    settle: Callable[[], None]
    budget: float
    patience: float


def recall(means: Means, ask: RecallArguments) -> Matches:
    """Answer one recall."""
    now = means.clock() if ask.now is None else ask.now
    with means.database.reading() as connection:
        seen = audience(connection, ask.by)
        facts, expiring = has_times(connection, seen.cells)
    if facts:
        ask = ask.of_what_holds(now)
    elif ask.include_ended:
        ask = replace(ask, include_ended=False)
    if expiring:
        ask = ask.of_what_is_left(means.clock())
    warn_of_isolation(ask.by, seen)
    reasons: list[Degradation] = []
    vector = _vector(means, ask, reasons)
    session = None
    if ask.session_id is not None and ask.wants_session:
        session = _session(means, ask, now, reasons)
    for left in reversed(range(TRIES)):
        matches = _ranked(means, ask, seen, vector, session, now, tuple(reasons))
        if ask.min_confidence is None:
            break
        try:
            matches = _above(matches, ask.min_confidence)
            break
        except OptionError:  # the store's other process has changed it since
            if not left:
                raise
    reasons = []
    if ask.session_id is not None and ask.wants_session:
        _record(means, ask, matches, now, reasons)
    if ask.touch and matches:
        means.touch(matches._found.rows, now)
    return matches.with_reasons(*reasons) if reasons else matches


def _above(matches: Matches, floor: float) -> Matches:
    """Return matches, or none of them if their confidence is below a floor or not known."""
    if (sure := matches.confidence) is not None and sure >= floor:
        return matches
    shown: Any = dict.fromkeys(("origins", "related", "context", "around", "edges", "rows"), ())
    return Matches((), replace(matches._found, **shown), hits=matches._ranked)


def recall_facts(means: Means, ask: RecallArguments) -> Facts:
    """Answer one recall of facts."""
    matches = recall(means, ask)
    rows = matches._found.rows
    with means.database.reading() as connection:
        seen = audience(connection, ask.by)
        facts = facts_of_rows(connection, rows, tuple(seen.cells))
    return Facts((facts[row] for row in rows if row in facts), matches.reasons)


def warn_of_isolation(by: AskedBy, seen: Audience) -> None:
    """Warn an anonymous caller if the partition has named users, whose memories it does not see."""
    told = None if CALLERS_ARE_NAMED.get() else isolation_note(by, seen)
    if told is not None:
        warn_caller(told, IsolationWarning)


def isolation_note(by: AskedBy, seen: Audience) -> str | None:
    """Return the text of that warning, if there is reason for one."""
    if by.user is None and not by.is_agent and seen.has_named_users:
        return "user_id: this call sees the anonymous memories only, and the store has named users"
    return None


def _ranked(
    means: Means,
    ask: RecallArguments,
    seen: Audience,
    vector: Vector | None,
    session: Session | None,
    now: datetime,
    reasons: tuple[Degradation, ...],
) -> Matches:
    """Search the index, again if its rows changed meanwhile; without an index, search texts."""
    left = TRIES
    while True:
        left -= 1
        try:
            ranked = means.search_index(_question(means, ask, seen, vector, session, now))
        except IndexNotReadyError as fault:
            reason = Degradation(fault.reason, fault.detail)
        except (CorruptIndexError, MemoryError) as fault:
            _log.warning("the index cannot be asked: %s", type(fault).__name__)
            told = type(fault).__name__
            if vector is not None and isinstance(fault, CorruptIndexError):  # of words, perhaps not
                failed = Degradation(DegradedReason.INDEX_UNAVAILABLE, f"embedding: {told}")
                reasons, vector = (*reasons, failed), None
                continue
            reason = Degradation(DegradedReason.INDEX_UNAVAILABLE, told)
        else:
            damaged: set[int] = set()
            told_of = reasons + ranked.reasons
            with means.database.reading() as connection:
                places: Sequence[int] = range(len(ranked.rows))
                if ask.include_ended:
                    places = _page(connection, ranked.rows, ask, seen, now)
                matches = matches_of(
                    connection, ranked, places, seen, now, told_of, damaged,
                    context=_context(ask), holds_at=ask.holds_at, asked=_asked(means, ask),
                )  # fmt: skip
            n_read = len(matches) + len(damaged)
            if n_read >= len(places) or ranked.is_behind or not left:
                if not damaged:
                    return matches
                return matches.with_reasons(*Degradation.of_damage(len(damaged)))
            continue
        with means.database.reading() as connection:
            return _by_substring(means, connection, ask, seen, now, (*reasons, reason))


def _asked(means: Means, ask: RecallArguments) -> Asked:
    """Return what marks the words of the query; none if the recipe searches no words."""
    has_words = any(isinstance(arm, Lexical) for arm in ask.recipe.arms)
    return means.layout.analyzer, ask.query if has_words else ""


def _question(
    means: Means,
    ask: RecallArguments,
    seen: Audience,
    vector: Vector | None,
    session: Session | None,
    now: datetime,
) -> IndexQuestion:
    recipe, by_words = ask.recipe, ask.by_words
    if ask.holds_at is not None:
        recipe, by_words = _with_more_context(recipe), _with_more_context(by_words)
    return IndexQuestion(
        query=ask.query, cells=tuple(seen.cells.items()), recipe=recipe, by_words=by_words,
        now=now, vector=vector, filter=ask.filter, session=session, candidates=ask.candidates,
        around=ask.around, budget=max(means.patience, LEAST_WAIT),
        ranks_words_alone=means.guard.off is None and ask.recipe.has_words_alone,
        # Which page an ended fact is on, only the whole list tells.
        limit=ask.recipe.depth if ask.include_ended else ask.limit,
        offset=0 if ask.include_ended else ask.offset,
    )  # fmt: skip


def _page(
    connection: apsw.Connection,
    rows: Sequence[int],
    ask: RecallArguments,
    seen: Audience,
    now: datetime,
) -> Sequence[int]:
    """Return the places of the rows that a call asks for; an ended fact is behind its successor."""
    places = behind_successors(connection, rows, tuple(seen.cells), now)
    return places[ask.offset : ask.offset + ask.limit]


def _context(ask: RecallArguments) -> Context | None:
    """Return how the recipe adds hits' neighbours in the graph, if it does."""
    parts = ask.recipe.expansion
    return next((one for one in parts if isinstance(one, Context)), None) if parts else None


def _with_more_context(recipe: Recipe) -> Recipe:
    """Return a recipe that finds more neighbours: facts that do not hold are left out later."""
    more = tuple(
        replace(one, n=MOST_BESIDE) if isinstance(one, Context) else one for one in recipe.expansion
    )
    return recipe if more == recipe.expansion else recipe.replace(expansion=more)


# ---- external components ----


def _vector(means: Means, ask: RecallArguments, reasons: list[Degradation]) -> Vector | None:
    """Return the query's vector, or the reason why it is missing."""
    if not ask.uses_vector:
        return None
    if ask.vector is not None or (means.guard.off is not None and means.guard.off.is_choice):
        return ask.vector
    budget = means.budget if ask.embed_timeout is None else ask.embed_timeout
    answer = means.guard.embed([ask.query], budget=budget)
    if isinstance(answer, NoVectors):
        reasons.append(Degradation.of_fault(answer.fault, answer.told))
        if answer.fault is not EmbedFault.OFF:
            told = Degradation.of_fault(answer.fault, answer.detail)
            _log.warning("recalled by words alone: %s", told)
        return None
    means.settle()
    row: Vector = answer[0]
    return row


def _name(ask: RecallArguments) -> SessionName:
    assert ask.session_id is not None
    user = ask.by.user if isinstance(ask.by.user, str) else None
    return SessionName(ask.by.org, ask.by.workspace, user, ask.session_id)


def _tracked(means: Means, call: Callable[[], Any], reasons: list[Degradation]) -> Any:
    """Call the session tracker. A foreign one may raise or hang, so it has a time limit."""
    fault: BaseException | None
    try:
        if isinstance(means.sessions, InProcessSessions | StoreSessions):
            return call()
        found, fault = means.trackers.run(call, TRACKER_SECONDS)
    except (LateError, AllHungError):
        fault = TimeoutError()
    except Exception as raised:
        fault = raised
    if fault is None:
        return found
    reasons.append(Degradation(DegradedReason.SESSION_TRACKER, type(fault).__name__))
    return None


def call_tracker(call: Callable[[], Any], _until: float) -> tuple[Any, BaseException | None]:
    """Call a foreign tracker on a thread, which nothing may end: return what it gives or raises."""
    try:
        return call(), None
    except BaseException as fault:  # SystemExit, say
        return None, fault


def _session(
    means: Means, ask: RecallArguments, now: datetime, reasons: list[Degradation]
) -> Session | None:
    name = _name(ask)
    given = _tracked(means, lambda: means.sessions.session(name, now=now), reasons)
    if given is None:
        return None
    session = _checked(given)
    if session is None:
        told = "keys or times that are none" if isinstance(given, Session) else type(given).__name__
        reasons.append(Degradation(DegradedReason.SESSION_TRACKER, told))
    return session


def _checked(given: object) -> Session | None:
    """Return a tracker's reply if it is a valid session, else None."""
    if not isinstance(given, Session):
        return None
    try:
        session = Session(given.accessed, given.n_recalls)  # it may have been changed since made
        "".join(session.accessed).encode()
    except (HyrecallError, TypeError, UnicodeEncodeError):
        return None
    return session


def _record(
    means: Means, ask: RecallArguments, matches: Matches, now: datetime, reasons: list[Degradation]
) -> None:
    """Record the matches in the session, without their context."""
    name = _name(ask)
    met = [one.episode.id for one in matches]
    _tracked(means, lambda: means.sessions.record(name, met, now=now), reasons)


# ---- without an index ----


def _by_substring(
    means: Means,
    connection: apsw.Connection,
    ask: RecallArguments,
    seen: Audience,
    now: datetime,
    reasons: tuple[Degradation, ...],
) -> Matches:
    """Answer with memories whose texts contain the query, newest first, without scores."""
    cells = tuple(seen.cells)
    damaged: set[int] = set()
    whole = replace(ask, limit=ask.recipe.depth, offset=0) if ask.include_ended else ask
    found, score, cut = answer(connection, means.layout, whole, cells, damaged)
    rows = found
    if ask.include_ended:
        rows = [found[at] for at in _page(connection, found, ask, seen, now)]
    ends = ends_of(connection, rows, cells)
    episodes = episodes_of_rows(connection, rows, cells, damaged, shown=True)
    kept = within_budget(ask, {row: episodes[row].full_text for row in rows if row in episodes})
    matches = [
        EpisodeMatch(
            episode=episodes[row], score=score, is_fill=ask.is_blank, valid_to=ends.get(row)
        )
        for row in kept
    ]
    if cut:
        reasons += (Degradation(reasons[-1].reason, cut),)
    found_by = RecallReport(
        reasons=tuple(dict.fromkeys((*reasons, *Degradation.of_damage(len(damaged))))),
        lexical_mode="substring", now=now, scopes=seen.readings, faults=seen.faults,
        origins=("fill" if ask.is_blank else "hit",) * len(matches), rows=tuple(kept),
    )  # fmt: skip
    for match in matches:
        match._origin.asked = _asked(means, ask)
    return Matches(matches, found_by)
