"""Applies the options of a call to its recipe: each replaces a part of the recipe.

Ranking itself is the recipe's and the engine's: here only plain data changes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final, TypeAlias

from hyrecall.ask.arms.listed import Listed
from hyrecall.ask.recipe import Dense, Lexical, Recipe
from hyrecall.ask.scoring import RRF, Above, Max, WeightedSum, read_floor
from hyrecall.ask.shaping import MMR, Around, Budget, Composite, Gate, RerankBy, Stage
from hyrecall.base.arguments import as_int, number
from hyrecall.errors import DTypeError, OptionError, error
from hyrecall.memory.data.fields import flag

__all__ = [
    "TEXT",
    "Floors",
    "Reranker",
    "adapted",
    "balanced",
    "check_floors",
    "hints_arm",
    "weighted",
    "with_hints",
]

Reranker = Callable[[str, list[str]], Any]
"""``function(query, texts) -> scores``, or a coroutine of them: a cross-encoder, say."""

RERANK_TIMEOUT: Final = "1s"
WEIGHTS: Final = ("recency", "importance", "relevance")
TEXT: Final = "text"  # the column that an index of a store has for it
ARMS: Final = {"bm25": (Lexical, "words"), "cosine": (Dense, "vectors")}
Floors: TypeAlias = "float | Above | Mapping[str, float | Above] | None"
"""A floor of the fused score, or floors of the scores that do not depend on the other matches."""
HINTS: Final = "hints"  # the arm of what a caller names, where the recipe has none


def adapted(
    recipe: Recipe,
    *,
    reranker: Reranker | None = None,
    diversity: float | None = None,
    normalize: bool = False,
    min_score: Floors = None,
    token_budget: int | None = None,
) -> Recipe:
    """Return the recipe with the options of one call, except alpha."""
    recipe = _reading_texts(recipe)
    if reranker is not None:
        function = _function(reranker)
        own = getattr(reranker, "timeout", None)  # as an embedder may have
        timeout = own if isinstance(own, int | float) else RERANK_TIMEOUT
        by = RerankBy(function, column=TEXT, timeout=timeout)
        recipe = with_stage(recipe, by)
    if diversity is not None:
        share = number("diversity", diversity, 0.0, 1.0, "a number in [0, 1]")
        recipe = recipe if share == 0 else with_stage(recipe, MMR(1 - share))
    if flag("normalize", normalize):
        recipe = recipe.replace(normalize=True)
    if isinstance(min_score, Mapping):
        recipe = _floored(_without_fill(recipe), min_score)
    elif min_score is not None:
        wish = 'a finite number, hr.Above(number), or {"bm25": number, "cosine": number}'
        if isinstance(min_score, Above):  # the gate lets its own floor through
            floor = math.nextafter(min_score.value, math.inf)
        else:
            floor = number("min_score", min_score, -math.inf, math.inf, wish)
        recipe = with_stage(_without_fill(recipe), Gate(floor))
    return _budgeted(recipe, token_budget)


def _reading_texts(recipe: Recipe) -> Recipe:
    """Return a recipe whose rerankers and budgets read the column of whole texts."""
    for stage in recipe.shaping:
        if isinstance(stage, RerankBy | Budget) and stage.column is None:
            recipe = with_stage(recipe, replace(stage, column=TEXT))
    return recipe


def _budgeted(recipe: Recipe, given: object) -> Recipe:
    if given is None:
        return recipe
    tokens = as_int(given)
    if tokens is None:
        raise error(DTypeError, "token_budget", "an int", repr(given))
    if tokens <= 0:
        return recipe
    recipe = with_stage(recipe, Budget(min(tokens, 2**31 - 1), column=TEXT))
    chooses = any(isinstance(stage, MMR) for stage in recipe.shaping)
    if recipe.budget_mmr is None or chooses:
        return recipe
    return with_stage(recipe, recipe.budget_mmr)


def _floored(recipe: Recipe, floors: Mapping[str, float | Above]) -> Recipe:
    """Return a recipe whose arms list nothing below their floors."""
    # Rows that no arm lists are left out: what a recipe takes where nothing matched, rows of the
    # session around a match, and with a floor for words those that hold the query whole.
    of_kind: dict[type[Lexical | Dense], float | Above] = {}
    for name, floor in floors.items():
        if name not in ARMS:
            raise error(OptionError, "min_score", '"bm25" or "cosine"', repr(name))
        if read_floor(f"min_score[{name!r}]", floor) is None:
            raise error(OptionError, f"min_score[{name!r}]", "a number", "None")
        of_kind[ARMS[name][0]] = floor
    arms = tuple(
        replace(arm, min_score=of_kind[type(arm)]) if type(arm) in of_kind else arm
        for arm in recipe.arms
    )
    shaping = tuple(stage for stage in recipe.shaping if not isinstance(stage, Around))
    exact = recipe.exact and Lexical not in of_kind
    return recipe.replace(
        arms=arms, shaping=shaping, with_threads=None, on_no_match=(), exact=exact
    )


def check_floors(recipe: Recipe, floors: Floors) -> None:
    """Refuse floors of scores that no arm of the recipe gives."""
    for name, floor in floors.items() if isinstance(floors, Mapping) else ():
        kind, what = ARMS[name]
        if not any(isinstance(arm, kind) and arm.weight > 0 for arm in recipe.arms):
            wish = f"none ({recipe.name} does not search by {what} here)"
            raise error(OptionError, f"min_score[{name!r}]", wish, floor)


def _without_fill(recipe: Recipe) -> Recipe:
    on_empty = "empty" if recipe.on_empty == "newest" else recipe.on_empty
    return recipe.replace(fill=None, on_empty=on_empty)


def weighted(recipe: Recipe, given: object) -> Recipe:
    """Return a recipe whose composite score has the weights of a call."""
    asked = _read_weights(given)
    if not asked:
        return recipe
    for stage in recipe.shaping:
        if isinstance(stage, Composite):
            return with_stage(recipe, replace(stage, **asked))
    wish = "a recipe with a Composite stage, as recipes.hebb has"
    raise error(OptionError, "weights", wish, recipe.name)


def _read_weights(given: object) -> dict[str, Any]:
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        wish = f"a mapping of {', '.join(WEIGHTS)} to numbers"
        raise error(DTypeError, "weights", wish, type(given).__name__)
    for name in given:
        if name not in WEIGHTS:
            raise error(OptionError, "weights", f"{', '.join(WEIGHTS)}", repr(name))
    wish = "a number in [0, 1e6]"
    return {
        name: number(f"weights[{name!r}]", weight, 0.0, 1e6, wish) for name, weight in given.items()
    }


def hints_arm(recipe: Recipe) -> str | None:
    """Return the name of the arm that takes the caller's candidates, or None."""
    return next((arm.name for arm in recipe.more if isinstance(arm, Listed)), None)


def with_hints(recipe: Recipe) -> Recipe:
    """Return the recipe with an arm for the caller's candidates."""
    if hints_arm(recipe) is not None:
        return recipe
    return recipe.replace(more=(*recipe.more, Listed(HINTS)))


def with_stage(recipe: Recipe, stage: Stage) -> Recipe:
    """Return the recipe with a stage in its place; replaces a stage of the same kind."""
    others = [one for one in recipe.shaping if not isinstance(one, type(stage))]
    return recipe.replace(shaping=tuple(sorted((*others, stage), key=lambda one: one.phase)))


def balanced(recipe: Recipe, given: float | None) -> Recipe:
    """Return the recipe weighted by alpha: 0 is words alone, 1 vectors alone, 0.5 no change."""
    # A sum has the weights 2 alpha and 2 (1 - alpha), one that balances its arms by itself
    # alpha and
    # 1 - alpha, a maximum the same cut at 1: whatever alpha is, scores keep their scale and make no
    # jump, also where one arm is left.
    alpha = 0.5 if given is None else number("alpha", given, 0.0, 1.0, "a number in [0, 1]")
    if alpha == 0.5:
        return recipe
    fusion = recipe.fusion
    share = {Lexical: 2 * (1 - alpha), Dense: 2 * alpha}
    if isinstance(fusion, RRF) and fusion.alpha is not None:
        if 0 < alpha < 1:
            mode = fusion.alpha_mode
            new = RRF(rank_constant=fusion.rank_constant, alpha=alpha, alpha_mode=mode)
            return recipe.replace(fusion=new)
        fusion = RRF(rank_constant=fusion.rank_constant)
    if isinstance(fusion, WeightedSum) and fusion.balance is not None:
        fusion = WeightedSum(normalize=_as_given(fusion), complete=fusion.complete)
        share = {Lexical: 1 - alpha, Dense: alpha}
    elif isinstance(fusion, Max):
        share = {kind: min(1.0, weight) for kind, weight in share.items()}
    arms = tuple(
        replace(arm, weight=arm.weight * share[type(arm)])
        for arm in recipe.arms
        if share[type(arm)] > 0
    )
    if not arms:
        return recipe  # it lacks the arm that alpha asks for, and ignores it
    fuses = recipe.fuse_one_arm or len(arms) < len(recipe.arms)
    return recipe.replace(arms=arms, fusion=fusion, fuse_one_arm=fuses)


def _as_given(fusion: WeightedSum) -> Any:
    return dict(fusion.normalize) if isinstance(fusion.normalize, tuple) else fusion.normalize


def _function(reranker: Reranker) -> Reranker:
    if not callable(reranker):
        wish = "function(query, texts) -> scores"
        raise error(DTypeError, "reranker", wish, type(reranker).__name__)
    return reranker
