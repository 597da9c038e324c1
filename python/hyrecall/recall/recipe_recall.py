"""A batch by recipes: one for all queries or one for each, and what runs where none found any."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import numpy as np
import numpy.typing as npt

from hyrecall.ask.arms.listed import Listed
from hyrecall.ask.recipe import More, Recipe
from hyrecall.ask.shaping import SessionSignals
from hyrecall.errors import DTypeError, OptionError, error
from hyrecall.hits.hits import Hits
from hyrecall.hits.joined_hits import JoinedHits
from hyrecall.recall.arms.run import runs, text_readers
from hyrecall.recall.batch import run_recall
from hyrecall.recall.graph_names import bind_recipes, hold_graphs, parts_of_recipes
from hyrecall.recall.plan import Options
from hyrecall.recall.recipe_request import recipe_options
from hyrecall.segments.facts import IndexFacts
from hyrecall.segments.segments import State

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
    chosen = _by_recipe(recipe)
    recipes = bind_recipes([one for one, _ in chosen], options.graphs)
    held = hold_graphs(facts, state, options, parts_of_recipes(recipes))
    shares = _Shares(held._replace(graphs=None), recipes)
    parts: list[Hits] = []
    answers: list[npt.NDArray[np.bool_]] = []

    def run(one: Recipe, asked: npt.NDArray[np.bool_] | None) -> Hits:
        made = recipe_options(facts, one, shares.of(one), asked)
        return run_recall(facts, state, device, made, columns=columns, now=at)

    for one, (_, asked) in zip(recipes, chosen, strict=True):
        hits = run(one, asked)
        parts.append(hits)
        answers.append(np.ones(len(hits), np.bool_) if asked is None else asked)
        if not one.on_no_match:
            continue
        unanswered = answers[-1] & ~_found(hits)
        if unanswered.any() and shares.asks(one.on_no_match):
            fallback = one.replace(arms=(), more=one.on_no_match, on_no_match=(), exact=False)
            parts.append(run(fallback, unanswered))
            answers.append(unanswered)
    if len(parts) == 1:
        return parts[0]
    part_of = np.zeros(len(parts[0]), np.int64)
    for number, asked in enumerate(answers):
        part_of[asked] = number
    kept = [part.only(part_of == number) for number, part in enumerate(parts)]
    return JoinedHits(kept, part_of)


def _by_recipe(recipe: object) -> list[tuple[Recipe, npt.NDArray[np.bool_] | None]]:
    """Return each distinct recipe with its queries; None: all of them."""
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


class _Shares:
    """What of a call is for which of its recipes: one that does not read a part does not see it."""

    def __init__(self, options: Options, recipes: Sequence[Recipe]) -> None:
        self._options = options
        arms = [arm for one in recipes for arm in (*one.more, *one.on_no_match)]
        # A setting for none of them stays, and is refused as it would be without recipes.
        self._listed = {arm.name for arm in arms if isinstance(arm, Listed)}
        self._has_signals = any(_weighs_sessions(one) for one in recipes)

    def of(self, recipe: Recipe) -> Options:
        """Return the call as one recipe sees it."""
        session, candidates = self._options.session, self._options.candidates
        if self._has_signals and not _weighs_sessions(recipe):
            session = None
        if isinstance(candidates, Mapping):
            own = {arm.name for arm in recipe.more}
            others = self._listed - own
            candidates = {name: lists for name, lists in candidates.items() if name not in others}
        return self._options._replace(session=session, candidates=candidates or None)

    def asks(self, arms: Sequence[More]) -> bool:
        """Whether the call gives any of these arms what it needs."""
        given = self._options
        readers = text_readers({arm.name: arm for arm in arms})
        texts = {} if given.text is None else dict.fromkeys(readers)
        return any(runs(arm, texts, given.candidates) for arm in arms)


def _weighs_sessions(recipe: Recipe) -> bool:
    return any(isinstance(stage, SessionSignals) for stage in recipe.shaping)


def _found(hits: Hits) -> npt.NDArray[np.bool_]:
    """Say of each query whether anything was found, or whether it asked nothing."""
    sizes = hits._arrays["list_sizes"].reshape(len(hits), len(hits._plan.arms))
    blank = np.isin(np.arange(len(hits)), hits._plan.blank)
    held = [query for query, n in hits.trace.exact.items() if n > 0]  # whole, in no arm's list
    return np.asarray((sizes > 0).any(axis=1) | blank | np.isin(np.arange(len(hits)), held))
