"""Answers a recall while there is no index, with the parts of its recipe that need only texts."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import apsw
import pyarrow as pa

from hyrecall.arm.regex import Regex, check_pattern
from hyrecall.ask.filters import Filter
from hyrecall.ask.recipe import Lexical, Recipe
from hyrecall.ask.scoring import read_floor
from hyrecall.memory.derived.layout import Layout
from hyrecall.memory.derived.row_filters import passing_in_order
from hyrecall.memory.recall.call import RecallArguments
from hyrecall.memory.sql.codec import (
    CHECKED,
    content_of,
    from_json,
    is_sound,
    rows,
    to_json,
    to_micros,
)
from hyrecall.memory.sql.schema import LISTED, LIVE
from hyrecall.recall.exact import exact_text
from hyrecall.stages.choice import Budget, token_counts
from hyrecall.stages.gate import Gate
from hyrecall.stages.provenance import Provenance

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
    since, until = ask.since, ask.until
    by_source = Provenance.among(recipe.shaping)
    wanted = Wanted(
        kind=ask.kind,
        since=since,
        until=until,
        tags=ask.tags,
        valid_at=ask.valid_at,
        passes=ask.own_filter,
        worth=by_source if by_source is not None and by_source.column == "source" else None,
    )
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
