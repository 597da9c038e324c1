"""Answers a call by recipes, one for all queries or one for each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from hyrecall.arm.arm import SearchArm
from hyrecall.ask.expansion import check_graphs, graphs_of, names_in, parts_of
from hyrecall.ask.recipe import Recipe
from hyrecall.ask.request import CallOptions, Search
from hyrecall.base.arguments import as_list
from hyrecall.base.options import GraphLike
from hyrecall.errors import DTypeError, OptionError, error
from hyrecall.hits.joined_reply import join_replies
from hyrecall.hits.reply import Reply, ReplyBase
from hyrecall.hits.trace import BatchNotes
from hyrecall.recall.arms import runs, text_readers
from hyrecall.recall.batch import Steps, run_recall
from hyrecall.recall.graph_views import BoundGraphLike, BoundGraphs
from hyrecall.recall.plan import Ranking
from hyrecall.recall.recipe_ranking import by_threads, rank_by_recipe
from hyrecall.segments.segments import IndexFacts, State
from hyrecall.stages.session_signals import SessionSignals

# ---- Holds the graphs of a call as they are at one moment ----


def hold_graphs(facts: IndexFacts, state: State, parts: Iterable[object]) -> BoundGraphs:
    """Hold each graph of some arms, stages and expansions as it is now."""
    # So all parts of a call, and the explanations of its reply, read the same, whatever is written
    # meanwhile.
    held: dict[object, BoundGraphLike] = {}
    for part in parts:
        for argument, given in graphs_of(part):
            if not isinstance(given, GraphLike):
                raise error(OptionError, argument, "an hr.Graph in place of its name", repr(given))
            bound = given._bind(argument, facts, state)
            held.setdefault(given, bound)
    return held


# ---- Answers a call by recipes, one for all queries or one for each ----

OF_A_RECIPE = (
    "fusion",
    "shaping",
    "more",
    "min_score",
    "min_fused",
    "bm25",
    "normalize",
    "expansion",
)
"""Options of a call that are refused beside ``recipe=``, in the order in which they are checked."""


def answer_by_recipes(
    facts: IndexFacts,
    state: State,
    device: str,
    request: Search,
    options: CallOptions,
    recipe: object,
    graphs: object,
    told: BatchNotes,
    steps: Steps,
) -> ReplyBase:
    """Answer each query by its recipe."""
    # Each distinct recipe runs once, on its own queries; the rest of the batch is nothing to it. So
    # a reply does not depend on which recipes the other queries have.
    chosen = by_recipe(recipe)
    recipes = bind_recipes([one for one, _ in chosen], graphs)
    held = hold_graphs(facts, state, (part for one in recipes for part in parts_of(one)))
    recipes = [with_options(one, options) for one in recipes]
    request = with_lists(request)
    by_form = by_threads(
        [(own, by) for own, (_, by) in zip(recipes, chosen, strict=True)],
        lambda: steps.sees_threads(facts, state, request),
    )
    recipes = [one for one, _ in by_form]
    shares = Shares(request, recipes)
    replies: list[Reply] = []
    answers: list[npt.NDArray[np.bool_] | None] = []  # the queries of each; None: all

    def run(one: Recipe, selected: npt.NDArray[np.bool_] | None) -> Ranking:
        own = shares.of(one)
        ranking = rank_by_recipe(facts, own, one, selected)
        replies.append(run_recall(facts, state, device, own, ranking, held, told, steps.of(one)))
        answers.append(selected)
        return ranking

    for one, selected in by_form:
        blank = run(one, selected).blank_queries
        if not one.on_no_match:
            continue
        unanswered = ~_found(replies[-1], blank)
        if selected is not None:
            unanswered &= selected
        if unanswered.any() and shares.asks(one.on_no_match):
            run(fallback(one), unanswered)
    if len(replies) == 1:
        return replies[0]
    answered_by = np.zeros(replies[0].n_queries, np.int64)
    for number, answered in enumerate(answers):
        answered_by[slice(None) if answered is None else answered] = number
    return join_replies(replies, answered_by)


def fallback(recipe: Recipe) -> Recipe:
    """Return the recipe that answers the queries for which a recipe found nothing."""
    return recipe.replace(arms=(), more=recipe.on_no_match, on_no_match=(), exact=False)


def with_lists(request: Search) -> Search:
    """Return the request as recipes read it: texts as lists, and a list of scopes of its own."""
    request = request.with_own_scope()
    text = _as_lists(request.text)
    return request if text is request.text else request._replace(text=text)


def bind_recipes(recipes: list[Recipe], graphs: object) -> list[Recipe]:
    """Return recipes with graphs in the place of names; each graph is named by one of them."""
    named = [list(names_in(one)) for one in recipes]
    if graphs is None and not any(named):
        return recipes
    known = check_graphs(graphs, [pair for pairs in named for pair in pairs])
    return [
        one.bind(graphs={name: known[name] for name, _ in pairs})
        for one, pairs in zip(recipes, named, strict=True)
    ]


def with_options(recipe: Recipe, options: CallOptions) -> Recipe:
    """Return the recipe with the depth of the call; its other options are the recipe's own."""
    for field in OF_A_RECIPE:
        given, default = getattr(options, field), CallOptions._field_defaults[field]
        if given is not default and not (
            isinstance(given, bool | tuple) and given in (default, ())
        ):
            name = "arms" if field == "more" else field
            raise error(OptionError, name, f"none beside recipe= ({recipe.name} has its own)", name)
    depth: Any = options.depth
    is_default = depth == CallOptions._field_defaults["depth"]
    return recipe if is_default else recipe.replace(depth=depth)


def _as_lists(text: object) -> object:
    """Return texts of any library as lists, arm by arm; what is no list is left to the plan."""
    if isinstance(text, Mapping):
        return {arm: _as_lists(queries) for arm, queries in text.items()}
    given = as_list(text)
    return given.tolist() if isinstance(given, np.ndarray) and given.ndim == 1 else given


def by_recipe(recipe: object) -> list[tuple[Recipe, npt.NDArray[np.bool_] | None]]:
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


class Shares:
    """Splits a request by recipe: each recipe gets only what it reads."""

    def __init__(self, request: Search, recipes: Sequence[Recipe]) -> None:
        self._request = request
        arms = [arm for one in recipes for arm in (*one.more, *one.on_no_match)]
        # What none of them reads stays, and is refused as it would be without recipes.
        self._listed = {arm.name for arm in arms if arm._takes == "candidates"}
        self._has_signals = any(_weighs_sessions(one) for one in recipes)

    def of(self, recipe: Recipe) -> Search:
        """Return the request as one recipe sees it."""
        session, candidates = self._request.session, self._request.candidates
        if self._has_signals and not _weighs_sessions(recipe):
            session = None
        if isinstance(candidates, Mapping):
            own = {arm.name for arm in recipe.more}
            others = self._listed - own
            candidates = {name: lists for name, lists in candidates.items() if name not in others}
        candidates = candidates or None
        if session is self._request.session and candidates is self._request.candidates:
            return self._request
        return self._request._replace(session=session, candidates=candidates)

    def asks(self, arms: Sequence[SearchArm]) -> bool:
        """Whether the request has what any of these arms needs."""
        given = self._request
        candidates = given.candidates if isinstance(given.candidates, Mapping) else None
        readers = text_readers(arms)
        texts = {} if given.text is None else dict.fromkeys(readers)
        return any(runs(arm, texts, candidates) for arm in arms)


def _weighs_sessions(recipe: Recipe) -> bool:
    return SessionSignals.among(recipe.shaping) is not None


def _found(reply: Reply, blank_queries: Sequence[int]) -> npt.NDArray[np.bool_]:
    """Say of each query whether anything was found, or whether it asked nothing."""
    sizes = reply.arrays["list_sizes"].reshape(reply.n_queries, len(reply.ran))
    queries = np.arange(reply.n_queries)
    held = [query for query, n in reply.trace.exact.items() if n > 0]  # whole, in no arm's list
    is_settled = np.isin(queries, blank_queries) | np.isin(queries, held)
    return np.asarray((sizes > 0).any(axis=1) | is_settled)
