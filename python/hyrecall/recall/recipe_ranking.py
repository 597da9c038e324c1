"""Reads a recipe for the arms of one index: the ranking that answers one request."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence, Sized
from typing import Any

import numpy as np
import numpy.typing as npt

from hyrecall.ask.filters import Filter
from hyrecall.ask.predicates import NotNull
from hyrecall.ask.queries import All, Boost, Phrase, Prefix, TextQuery
from hyrecall.ask.queries import Any as AnyOf
from hyrecall.ask.recipe import Dense, Lexical, Recipe, Tables
from hyrecall.ask.request import Search
from hyrecall.ask.scope import key_of
from hyrecall.ask.scoring import DBSF, RRF, Fusion, Max, WeightedSum
from hyrecall.errors import HyrecallError, OptionError, error
from hyrecall.hits.trace import Notes
from hyrecall.recall.arms import text_readers
from hyrecall.recall.exact import ExactTexts, exact_texts
from hyrecall.recall.plan import Ranking
from hyrecall.recall.planning import check_arms
from hyrecall.segments.lookup import count_where
from hyrecall.segments.segments import IndexFacts, State
from hyrecall.text.analyzer import Analyzer

_QUOTED = re.compile(r'"([^"]*)"')
_WORD = re.compile(r"\w+")

NO_TEXT_ARM = "exact has no effect: no text arm runs"


def rank_by_recipe(
    facts: IndexFacts,
    request: Search,
    recipe: Recipe,
    selected: npt.NDArray[np.bool_] | None = None,
) -> Ranking:
    """Return the ranking that carries out a recipe for the selected queries; None: for all."""
    lexical = _arms(facts, recipe, Lexical, facts.text_arms)
    dense = _arms(facts, recipe, Dense, facts.vector_arms)
    _check_analyzer(facts, recipe, lexical)
    _check_names(facts, recipe, request)
    texts = _texts(request.text, lexical, facts, recipe)
    vectors = request.vectors if dense else None
    runs = [*(texts or {}), *(dense if vectors is not None else ())]
    if isinstance(vectors, Mapping):
        vectors = {arm: rows for arm, rows in vectors.items() if arm in dense}
        runs = [*(texts or {}), *vectors]
    chosen = {arm: part for arm, part in {**lexical, **dense}.items() if arm in runs}
    has_queries = request.text is not None or request.vectors is not None
    if has_queries and texts is None and vectors is None and not recipe.more:
        wish = f"an index with an arm of {recipe.name}"
        raise error(OptionError, "recipe", wish, f"one with arms {list(facts.arms)}")
    fusion = _fusion(facts, recipe, chosen)
    weighed = {arm: part for arm, part in chosen.items() if _weight(fusion, arm, part) > 0}
    floors = {arm: p.min_score for arm, p in weighed.items() if p.min_score is not None}
    exact, unseen = _exact(facts, recipe, request.text, lexical, weighed, selected)
    bm25 = {
        arm: p.bm25 for arm, p in weighed.items() if isinstance(p, Lexical) and p.bm25 is not None
    }
    return Ranking(
        recipe,
        texts,
        vectors,
        fusion,
        min_score=floors or None,
        min_fused=None if fusion is None else recipe.min_fused,
        bm25=bm25 or None,
        depth=recipe.depth,
        tables=_tables(facts, recipe),
        fill=None if recipe.has_budget else recipe.fill,
        exact_texts=exact,
        blank_queries=_blank_queries(recipe, request.text, selected),
        selected=selected,
        n_queries=n_queries_of(request, selected),
        notes={
            **dict.fromkeys(_one_table(facts, recipe)),
            **dict.fromkeys(_unfilled(recipe)),
            **dict.fromkeys(_unused(recipe, fusion, chosen)),
            **unseen,
        },
    )


def _tables(facts: IndexFacts, recipe: Recipe) -> Tables | None:
    """Return the recipe's tables where the index tells them apart."""
    tables = recipe.tables
    return tables if tables and tables.column in facts.schema.cell_columns else None


def _one_table(facts: IndexFacts, recipe: Recipe) -> tuple[str, ...]:
    if recipe.tables is None or _tables(facts, recipe) is not None:
        return ()
    return (f"one table: the index has no cell column {recipe.tables.column!r}",)


def _unfilled(recipe: Recipe) -> tuple[str, ...]:
    """Say that nothing fills lists that a budget bounds."""
    if recipe.fill is None or not recipe.has_budget:
        return ()
    return ("fill has no effect: a Budget bounds the lists",)


def _exact(
    facts: IndexFacts,
    recipe: Recipe,
    text: object,
    lexical: Mapping[str, Lexical],
    weighed: Mapping[str, Lexical | Dense],
    selected: npt.NDArray[np.bool_] | None,
) -> tuple[ExactTexts | None, Notes]:
    """Return what rows that come first must hold whole, and what the trace should say of it."""
    # None: the recipe puts none first.
    if not recipe.exact:
        return None, {}
    arms = [arm for arm in lexical if arm in weighed]
    variants = {(lexical[arm].bm25 or facts.bm25[arm]).variant for arm in arms}
    if isinstance(recipe.fusion, Max) and variants == {"robertson"}:
        wish = "another BM25 beside Max and exact (scores below 0 would count 0)"
        raise error(OptionError, "bm25", wish, "'robertson'")
    found = exact_texts(text, arms, selected, words=recipe.exact == "words")
    unseen = {} if arms else exact_texts(text, list(lexical), selected)
    if not unseen:
        return found, {}
    asked = {q for texts in unseen.values() for q, one in enumerate(texts) if one is not None}
    return found, {NO_TEXT_ARM: dict.fromkeys(sorted(asked), NO_TEXT_ARM)}


def _check_names(facts: IndexFacts, recipe: Recipe, request: Search) -> None:
    """Check the arms that a call names; one that the recipe leaves out is no error."""
    if isinstance(request.text, Mapping):
        readers = text_readers((*recipe.more, *recipe.on_no_match))
        check_arms("text", request.text, (*facts.text_arms, *readers))
    if isinstance(request.vectors, Mapping):
        check_arms("vectors", request.vectors, facts.vector_arms)


def _unused(
    recipe: Recipe, fusion: Fusion | None, chosen: Mapping[str, Lexical | Dense]
) -> tuple[str, ...]:
    """Say what has no effect because one arm runs and nothing is fused."""
    if fusion is not None:
        return ()
    settings = {
        "min_fused": recipe.min_fused is not None,
        "balance": getattr(recipe.fusion, "balance", None) is not None,
        "weight": any(part.weight != 1.0 for part in chosen.values()),
        "scale": any(part.scale is not None for part in chosen.values()),
    }
    only = ", ".join([*chosen, *(arm.name for arm in recipe.more)])
    return tuple(
        f"{name} has no effect: only {only} runs" for name, is_set in settings.items() if is_set
    )


def _check_analyzer(facts: IndexFacts, recipe: Recipe, lexical: Mapping[str, Lexical]) -> None:
    if recipe.analyzer is None:
        return
    for arm in lexical:
        analyzer = facts.analyzers[arm]
        if analyzer.name != recipe.analyzer:
            wanted = Analyzer(recipe.analyzer)
            wish = f"the analyzer {recipe.analyzer!r} ({wanted.hash}) in arm {arm!r}"
            raise error(OptionError, "recipe", wish, f"{analyzer.name!r} ({analyzer.hash})")


def _arms(
    facts: IndexFacts, recipe: Recipe, kind: type[Any], known: tuple[str, ...]
) -> dict[str, Any]:
    """Return each arm of the index that the recipe runs, with its part."""
    out: dict[str, Any] = {}
    for part in recipe.arms:
        if not isinstance(part, kind):
            continue
        for arm in known if part.arms is None else part.arms:
            if arm not in known:
                raise error(OptionError, "recipe", f"arms of {list(known)}", repr(arm))
            if arm in out:
                raise error(OptionError, "recipe", "each arm once", repr(arm))
            out[arm] = part
    return out


def _texts(
    text: object, lexical: Mapping[str, Lexical], facts: IndexFacts, recipe: Recipe
) -> dict[str, object] | None:
    readers = text_readers(recipe.more)
    if text is None or not (lexical or readers):
        return None
    given = text if isinstance(text, Mapping) else dict.fromkeys(facts.text_arms, text)
    out: dict[str, object] = {}
    for arm, queries in given.items():
        if arm not in lexical:
            continue
        if isinstance(queries, str) or not isinstance(queries, Sequence):
            out[arm] = queries  # the plan says what is wrong with it
        else:
            part = lexical[arm]
            out[arm] = [read_words(q, part) if isinstance(q, str) else q for q in queries]
    # Arms beside them read the words as they are: their own, or those of the first arm named.
    plain = text if not isinstance(text, Mapping) else next(iter(text.values()), None)
    return out | {arm: given.get(arm, plain) for arm in readers}


def _fusion(
    facts: IndexFacts, recipe: Recipe, chosen: Mapping[str, Lexical | Dense]
) -> Fusion | None:
    """Return the fusion with the arms' own weights and scales."""
    fusion = recipe.fusion
    given = {arm: part.weight for arm, part in chosen.items()}
    fuses_one = recipe.fuse_one_arm or any(one._fuses(facts.schema) for one in recipe.shaping)
    is_alone = len(chosen) + len(recipe.more) < 2 and not fuses_one
    if is_alone and all(weight > 0 for weight in given.values()):
        return None
    weights = given if any(weight != 1.0 for weight in given.values()) else None
    if weights is None and all(part.scale is None for part in chosen.values()):
        return fusion
    if isinstance(fusion, RRF):
        if fusion.alpha is not None:
            raise error(OptionError, "recipe", "weights of arms or alpha, not both", "both")
        return RRF(weights, rank_constant=fusion.rank_constant)
    if isinstance(fusion, DBSF):
        return DBSF(weights, complete=fusion.complete)
    scales = {arm: part.scale or fusion.scale_of(arm) for arm, part in chosen.items()}
    scales |= {arm.name: fusion.scale_of(arm.name) for arm in recipe.more}
    if isinstance(fusion, WeightedSum):
        complete, balance = fusion.complete, fusion.balance
        return WeightedSum(weights, normalize=scales, complete=complete, balance=balance)
    return Max(weights, normalize=scales, complete=fusion.complete)


def _weight(fusion: Fusion | None, arm: str, part: Lexical | Dense) -> float:
    """Return an arm's weight; at 0 it does not run, and has neither floor nor constants."""
    if isinstance(fusion, RRF) and fusion.alpha is not None:
        return fusion.shares[isinstance(part, Dense)]
    return 1.0 if fusion is None else dict(fusion.weights or ()).get(arm, 1.0)


def _blank_queries(
    recipe: Recipe, text: object, selected: npt.NDArray[np.bool_] | None
) -> tuple[int, ...]:
    """Return the queries of blank text in every arm; a recipe may refuse them."""
    lists = list(text.values()) if isinstance(text, Mapping) else [text]
    given = [one for one in lists if isinstance(one, Sequence) and not isinstance(one, str)]
    if not given or len({len(one) for one in given}) > 1:
        return ()  # the plan says what is wrong
    blank = tuple(
        at
        for at, query in enumerate(zip(*given, strict=True))
        if all(map(_is_blank, query)) and (selected is None or selected[at : at + 1].any())
    )
    if blank and recipe.on_empty == "error":
        raise error(OptionError, f"text[{blank[0]}]", f"words ({recipe.name})", "blank text")
    return blank


def n_queries_of(request: Search, selected: npt.NDArray[np.bool_] | None = None) -> int | None:
    """Count what the call asks, whether or not the recipe has an arm that reads it."""
    for given in (request.text, request.vectors):
        lists = list(given.values()) if isinstance(given, Mapping) else [given]
        for one in lists[:1]:
            if isinstance(one, str | bytes) or getattr(one, "shape", None) == ():
                continue  # no list: the plan says what is wrong with it
            if isinstance(one, Sized):
                return len(one)
    return None if selected is None else len(selected)


def _is_blank(text: object) -> bool:
    return isinstance(text, str) and not text.strip()


def read_words(text: str, part: Lexical) -> TextQuery | None:
    """Read plain text as the recipe's mode says; None: it has no word."""
    phrases = [p for p in _QUOTED.findall(text) if p.strip()] if part.phrases else []
    words = (_QUOTED.sub(" ", text) if phrases else text).split()
    words = words[: part.max_terms]
    kept = _without(words, part.stopwords)
    if not phrases:
        if part.mode == "any" and len(kept) == len(text.split()):
            return text if kept else None
        return _joined(kept, part.mode) if kept else None
    required: list[TextQuery] = [Phrase(phrase) for phrase in phrases]
    if not kept:
        return All(*required)
    # The words beside the phrases only add to the score. Halves, because the first phrase stands
    # in both places and must not count twice.
    first = Boost(required[0], 0.5)
    return All(first, *required[1:], AnyOf(first, *kept))


def _without(words: list[str], stopwords: Sequence[str]) -> list[str]:
    """Leave the stop words out; a query of nothing else keeps them."""
    if not stopwords:
        return words
    stops = {word.casefold() for word in stopwords}

    def is_stop(word: str) -> bool:
        found = _WORD.findall(word.casefold())
        return bool(found) and all(one in stops for one in found)

    return [word for word in words if not is_stop(word)] or words


def _joined(words: Sequence[str], mode: str) -> TextQuery:
    if mode == "any":
        return " ".join(words)
    if mode == "all":
        return All(*words)
    return All(*(Prefix(word) if word.isalnum() else Phrase(word) for word in words))


# ---- Says which queries of a batch see threads, and by which form of a recipe each is answered

Chosen = tuple[Recipe, npt.NDArray[np.bool_] | None]
"""A recipe, and the queries that it answers; None: all of them."""

MOST_KNOWN = 10_000
"""Scopes of a state whose answer is kept."""


def by_threads(
    chosen: Sequence[Chosen], sees: Callable[[], bool | npt.NDArray[np.bool_]]
) -> list[Chosen]:
    """Give each recipe with a form for threads the queries of either form."""
    # Which form answers a query depends on the live rows of its scope alone: ``sees`` returns what
    # :func:`sees_threads` does.
    if all(one.with_threads is None for one, _ in chosen):
        return list(chosen)
    return by_form(chosen, sees())


def by_form(chosen: Sequence[Chosen], sees: bool | npt.NDArray[np.bool_]) -> list[Chosen]:
    """Give each recipe the queries that see no threads, and its form for threads the others."""
    out: list[Chosen] = []
    for recipe, selected in chosen:
        if isinstance(sees, bool):
            out.append((recipe.for_threads() if sees else recipe, selected))
            continue
        asked = np.ones(len(sees), np.bool_) if selected is None else selected
        if len(asked) != len(sees):  # the plan refuses the scope or the recipes
            out.append((recipe, selected))
            continue
        parts = [(recipe, asked & ~sees), (recipe.for_threads(), asked & sees)]
        out += [part for part in parts if part[1].any()]
    return out


def sees_threads(facts: IndexFacts, state: State, request: Search) -> bool | npt.NDArray[np.bool_]:
    """Say of each query whether its scope holds a row in a thread; a bool if all are alike."""
    thread = facts.schema.thread
    if thread is None:
        return False
    scope = request.scope
    if _has_no_thread(state, thread):
        for one in scope if isinstance(scope, list) else [scope]:
            _remember(state, one, found=False)
        return False
    if not isinstance(scope, list):
        return _holds_thread(facts, state, scope, thread)
    n_queries = n_queries_of(request)
    if n_queries not in (None, len(scope)):  # the plan refuses it
        return False
    found = [_holds_thread(facts, state, one, thread) for one in scope]
    return np.array(found, np.bool_) if len(set(found)) > 1 else any(found)


def _has_no_thread(state: State, thread: str) -> bool:
    """Say whether no row of any scope is in a thread; Arrow keeps a column's count of nulls."""
    columns = [segment.column(thread) for segment in state.segments]
    return all(column.null_count == len(column) for column in columns)


def _remember(state: State, scope: object, *, found: bool) -> None:
    key = key_of(scope)
    if key is None:
        return
    known = state.threaded_scopes
    if len(known) >= MOST_KNOWN:
        known.clear()
    known[key] = found


def _holds_thread(facts: IndexFacts, state: State, scope: object, thread: str) -> bool:
    """Say whether a live row of a scope is in a thread; False for a scope that is refused later."""
    try:
        found = state.threaded_scopes.get(key_of(scope))
        if found is None:
            found = count_where(facts, state, scope, Filter(**{thread: NotNull()})) > 0
            _remember(state, scope, found=found)
    except HyrecallError:
        return False
    return found
