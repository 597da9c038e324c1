"""Answers a recall while there is no index, with the parts of its recipe that need only texts."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import apsw
import pyarrow as pa

from hyrecall.ask.arms.regex import Regex, check_pattern
from hyrecall.ask.recipe import Lexical, Recipe
from hyrecall.ask.scoring import read_floor
from hyrecall.ask.shaping import Budget, Gate, Provenance
from hyrecall.memory.derived.layout import Layout
from hyrecall.memory.recall.call import Ask
from hyrecall.memory.recall.substring_search import Wanted, find
from hyrecall.recall.exact import exact_text
from hyrecall.recall.tokens import token_counts

__all__ = ["answer", "within_budget"]


def answer(
    connection: apsw.Connection,
    layout: Layout,
    ask: Ask,
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
    since, until = ask.time_range or (None, None)
    by_source = (one for one in recipe.shaping if isinstance(one, Provenance))
    wanted = Wanted(
        kind=ask.kind,
        since=since,
        until=until,
        tags=ask.tags,
        valid_at=ask.valid_at,
        passes=ask.own_filter,
        worth=next((one for one in by_source if one.column == "source"), None),
    )
    most = ask.offset + ask.limit
    whole = exact_text(ask.query) if recipe.exact else None
    found = find(
        connection, layout, ask.query, cells, wanted, whole=whole, limit=most, damaged=damaged
    )
    return found.rows[ask.offset :], score, found.cut


def within_budget(ask: Ask, texts: Mapping[int, str]) -> list[int]:
    """Return the rows whose texts fit the call's budget: the first always, then each that fits."""
    budget = next((one for one in ask.by_words.shaping if isinstance(one, Budget)), None)
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
    gates = (stage.min_score for stage in recipe.shaping if isinstance(stage, Gate))
    floors = [read_floor("min_score", floor) for floor in (recipe.min_fused, *gates)]
    return all(
        score > floor[0] if floor[1] else score >= floor[0] for floor in floors if floor is not None
    )
