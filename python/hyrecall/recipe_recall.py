"""A batch by recipes: one for all queries or one for each, and what runs where none found any."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import numpy as np
import numpy.typing as npt

from hyrecall.errors import DTypeError, OptionError, error
from hyrecall.hits import Hits
from hyrecall.joined_hits import JoinedHits
from hyrecall.plan import IndexFacts, Options
from hyrecall.recall import run_recall
from hyrecall.recipe import Recipe
from hyrecall.recipe_request import recipe_options
from hyrecall.segments import State

__all__ = ["recall_by_recipe"]


def recall_by_recipe(
    facts: IndexFacts,
    state: State,
    device: str,
    options: Options,
    recipe: object,
    *,
    columns: Sequence[str],
    now: datetime | None,
) -> Hits:
    """Answer a batch as recipes say.

    Each distinct recipe runs once, on its own queries; the rest of the batch is nothing to it. So a
    reply does not depend on which recipes the other queries have.

    Raises
    ------
    OptionError
        A setting of the call that the recipe has too, an arm that the index lacks, another analyzer
        than a recipe is meant for.
    DTypeError, ShapeError
        Not a recipe; another number of recipes than queries.
    """
    at = datetime.now(UTC) if now is None else now  # one time for all parts
    parts: list[Hits] = []
    answers: list[npt.NDArray[np.bool_]] = []
    for one, asked in _by_recipe(recipe):
        made = recipe_options(facts, one, options, asked)
        hits = run_recall(facts, state, device, made, columns=columns, now=at)
        parts.append(hits)
        answers.append(np.ones(len(hits), np.bool_) if asked is None else asked)
        if not one.on_no_match:
            continue
        unanswered = answers[-1] & ~_found(hits)
        if unanswered.any():
            fallback = one.replace(arms=(), more=one.on_no_match, on_no_match=())
            made = recipe_options(facts, fallback, options, unanswered)
            parts.append(run_recall(facts, state, device, made, columns=columns, now=at))
            answers.append(unanswered)
    if len(parts) == 1:
        return parts[0]
    part_of = np.zeros(len(parts[0]), np.int64)
    for number, asked in enumerate(answers):
        part_of[asked] = number
    kept = [part.only(part_of == number) for number, part in enumerate(parts)]
    return JoinedHits(kept, part_of)


def _by_recipe(recipe: object) -> list[tuple[Recipe, npt.NDArray[np.bool_] | None]]:
    """Give each distinct recipe with its queries; None: all of them."""
    if isinstance(recipe, Recipe):
        return [(recipe, None)]
    if not isinstance(recipe, list):
        raise error(DTypeError, "recipe", "an hr.Recipe, or a list of them", repr(recipe))
    if not recipe:
        raise error(OptionError, "recipe", "an hr.Recipe, or one per query", "[]")
    for at, one in enumerate(recipe):
        if not isinstance(one, Recipe):
            raise error(DTypeError, f"recipe[{at}]", "an hr.Recipe", repr(one))
    distinct: list[Recipe] = []
    number = []
    for one in recipe:
        if one not in distinct:
            distinct.append(one)
        number.append(distinct.index(one))
    if len(distinct) == 1:
        return [(distinct[0], np.ones(len(recipe), np.bool_))]
    return [(one, np.array(number) == at) for at, one in enumerate(distinct)]


def _found(hits: Hits) -> npt.NDArray[np.bool_]:
    """Say of each query whether an arm found anything, or whether it asked nothing."""
    sizes = hits._arrays["list_sizes"].reshape(len(hits), -1)
    blank = np.isin(np.arange(len(hits)), hits._plan.blank)
    return np.asarray((sizes > 0).any(axis=1) | blank)
