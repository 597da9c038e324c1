"""Learns a recipe's weights from judged queries, and evaluates them on queries that were not used.

A query's candidates compete: the weights maximise the softmax probability of the relevant ones.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import xxhash

from hyrecall.ask.filters import Filter
from hyrecall.ask.predicates import NotNull
from hyrecall.ask.recipe import Lexical, Recipe
from hyrecall.ask.scope import Scope
from hyrecall.base.arguments import check_objects
from hyrecall.embed.guard import embed_texts
from hyrecall.errors import OptionError, error
from hyrecall.evaluate.compare import (
    Comparison,
    best_grades,
    compare,
    counted_as,
    read_measure,
    read_measures,
    require_extra,
)
from hyrecall.evaluate.data import CELL, VECTOR, Dataset
from hyrecall.evaluate.run import Indexes, Setting, columns_as_arms, read_setting, recalled
from hyrecall.evaluate.tune import Study, ablate
from hyrecall.index import Index
from hyrecall.stages.evidence import Around, Prior
from hyrecall.stages.linear import Linear
from hyrecall.stages.provenance import Provenance

if TYPE_CHECKING:
    from hyrecall.memory import MemorySync


Floats = npt.NDArray[np.float64]

SURE = 0.05
"""The p below which learnt weights count as better."""

STRENGTHS = (math.inf, 3.0, 1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001)
"""How strongly weights are held at those of the base recipe; cross-validation chooses."""

N_FOLDS = 5
N_BESIDE = 3
FAINT = 2.0**-20
"""The weight of features and text arms that the base lacks: candidates are read in its order."""
OF_STAGES = frozenset({"prior", "provenance"})
OWN = OF_STAGES | {"fused", "thread", "length"} | {f"neighbour_{at + 1}" for at in range(8)}
"""What the base's own score is the sum of."""
LEAST_QUERIES = 10


@dataclass(frozen=True, eq=False)
class Learnt:
    """A recipe with learnt weights, evaluated on queries that were not used.

    Attributes
    ----------
    measure : str
        The measure that is compared.
    base, setting : Setting
        What the weights started from, and the same with the learnt ones.
    weights : dict of str to float
        By feature, as in :class:`hyrecall.Linear`.
    n_queries : int
        Queries of the even half that taught something: those with a relevant candidate.
    report : Study
        On the odd queries: the base recipe, its single arms, the learnt recipe.
    against_base : Comparison
        On the odd queries: the learnt recipe compared with the base.
    """

    measure: str
    base: Setting
    setting: Setting
    weights: dict[str, float]
    n_queries: int
    report: Study
    against_base: Comparison

    @property
    def recipe(self) -> Recipe:
        """The learnt recipe."""
        recipe: Recipe = self.setting.options["recipe"]
        return recipe

    @property
    def is_better(self) -> bool:
        """Whether the learnt recipe beats the base on the odd queries, with p < .05."""
        one = self.against_base
        return one.difference > 0 and one.p_value < SURE


class _Pools(NamedTuple):
    """The candidates of all queries with a relevant one, back to back."""

    features: Floats  # [n_candidates, n_features]
    starts: npt.NDArray[np.int64]  # of each query, and the end of the last
    share: Floats  # of each candidate in what is right for its query; they add up to 1
    fold: npt.NDArray[np.int64]  # of each query

    def of(self, chosen: npt.NDArray[np.bool_]) -> _Pools:
        """Return some of the queries."""
        counts = np.diff(self.starts)
        rows = np.repeat(chosen, counts)
        starts = np.concatenate([[0], np.cumsum(counts[chosen])])
        return _Pools(self.features[rows], starts, self.share[rows], self.fold[chosen])


@check_objects
def learn(
    indexes: Indexes,
    dataset: Dataset,
    *,
    base: Setting | None = None,
    features: Sequence[str] = (),
    measure: str = "nDCG@10",
    measures: str | Sequence[str] = ("nDCG@10", "R@10", "RR@10"),
    tell: Callable[[str], None] = lambda _: None,
) -> Learnt:
    """Learn the weights of a recipe on the even queries; compare it with its base on the odd ones.

    Parameters
    ----------
    indexes : Indexes
    dataset : Dataset
        The whole set: both halves are taken from it, by the hash of the query's id.
    base : Setting, optional
        A setting with a recipe; default: ``recipes.default``, which hears threads where the setting
        names one.
    features : sequence of str
        Features beside those that docs/evaluation.md lists, such as ``role=user``.
    measure, measures
        As in :func:`hyrecall.evaluate.tune`; ``measure`` decides whether the weights are better.
    tell : callable, optional
        Called with what is done next.

    Raises
    ------
    OptionError
        Fewer than 10 queries of the even half have a relevant candidate, a setting without a
        recipe, a recipe whose Prior names no column, or an unknown feature.
    MissingExtraError
        The extra ``[evaluate]`` is not installed.
    """
    start = _prepared(read_setting("default") if base is None else base, features, dataset)
    chosen_by = read_measure(measure)
    tell(f"candidates of the even queries, by {start.name}")
    setting, n_queries = fit_weights(indexes, dataset.split("even"), start, features=features)
    odd = dataset.split("odd")
    single = [
        replace(start, name=one.name, options=one.options, arms=one.arms, more_arms=())
        for one in map(read_setting, ("bm25", "dense"))
        if set(one.arms) < set(start.arms)
    ]
    named = read_measures(measures, first=[chosen_by])
    report = ablate(indexes, odd, [start, *single, setting], measures=named, tell=tell)
    (against,) = compare(report.scores[0], report.scores[-1], measures=[chosen_by])
    weights = _weights(setting.options["recipe"])
    return Learnt(chosen_by, start, setting, weights, n_queries, report, against)


def fit_weights(
    indexes: Indexes, dataset: Dataset, base: Setting, *, features: Sequence[str] = ()
) -> tuple[Setting, int]:
    """Return the setting with weights learnt on all queries of a set, and how many taught them."""
    # docs/evaluation.md describes features, candidates, loss and cross-validation. The weights of
    # the base are those of its Linear, or 1 for the fused score and each part of its stages, and 0
    # for others. A further text arm (who said a row, its date) has hardly any weight in the base:
    # it is a feature. The L2 penalty is in units of a feature's spread; grades weigh the losses of
    # relevant candidates. Learnt weights have four digits and the base's scale.
    require_extra()
    start = _prepared(base, features, dataset)
    recipe: Recipe = start.options["recipe"]
    known = _weights(recipe)
    names = tuple(dict.fromkeys((*_features(recipe, start, dataset), *known, *features)))
    own = np.array([(known or dict.fromkeys(OWN, 1.0)).get(name, 0.0) for name in names])
    weights = {name: one or FAINT for name, one in zip(names, own.tolist(), strict=True)}
    before = tuple(one for one in recipe.shaping if one.phase < Linear.phase)
    # What fills a list was not found: it has no features.
    asked = recipe.replace(
        shaping=(*before, Linear(weights)), on_no_match=(), fill=None, on_empty="empty"
    )
    pools = _pools(indexes, dataset, start.but(start.name, recipe=asked))
    n_queries = len(pools.fold)
    if n_queries < LEAST_QUERIES:
        wish = f"at least {LEAST_QUERIES} judged queries with a relevant candidate"
        raise error(OptionError, dataset.name, wish, n_queries)
    found = _best_weights(pools, own)
    rounded = {n: float(f"{w:.4g}") for n, w in zip(names, found.tolist(), strict=True)}
    kept = {name: weight for name, weight in rounded.items() if weight != 0 or name in OF_STAGES}
    rest = [one for one in recipe.shaping if one not in before and not isinstance(one, Linear)]
    learnt = recipe.replace(
        name=f"{recipe.name} learnt",
        shaping=(*before, Linear(kept or {"fused": 1.0}), *rest),
    )
    return start.but(f"{start.name} learnt", recipe=learnt), n_queries


def _weights(recipe: Recipe) -> dict[str, float]:
    """Return the weights of the recipe's Linear; none if it has no such stage."""
    found = Linear.among(recipe.shaping)
    return {} if found is None else dict(found.weights)


def _prepared(setting: Setting, features: Sequence[str], dataset: Dataset) -> Setting:
    """Return the setting with its stage Around, faint arms and the columns of features."""
    recipe = setting.options.get("recipe")
    if not isinstance(recipe, Recipe):
        raise error(OptionError, "base", "a setting with one recipe", repr(setting.name))
    weigh = [one for one in recipe.shaping if isinstance(one, Prior | Provenance)]
    if any(one.column is None for one in weigh):
        raise error(OptionError, "base", "a recipe whose Prior names its column", recipe.name)
    if setting.thread is not None:
        recipe = recipe.for_threads()
    recipe = _with_faint_arms(recipe, columns_as_arms(dataset.corpus, setting.more_arms)[0])
    weighed = dict.fromkeys((*features, *_weights(recipe)), 1.0)
    read = Linear(weighed).features if weighed else ()
    named = [one.of for one in read if one.kind in ("value", "age", "shared")]
    columns = (*setting.attributes, *(one.column for one in weigh), *named)
    # Every index has the key column.
    attributes = dict.fromkeys(one for one in columns if one is not None and one != "id")
    made = setting.but(setting.name, recipe=recipe.replace(with_threads=None))
    return replace(made, attributes=tuple(attributes))


def _with_faint_arms(recipe: Recipe, texts: Iterable[str]) -> Recipe:
    """Return the recipe with text arms that it does not name, beside its own."""
    named = {arm for part in recipe.arms for arm in part.arms or ()}
    faint = tuple(arm for arm in texts if arm not in named)
    if not faint:
        return recipe
    own = (
        replace(part, arms=("text",)) if type(part) is Lexical and part.arms is None else part
        for part in recipe.arms
    )
    return recipe.replace(arms=(*own, Lexical(arms=faint, weight=FAINT)))


def _features(recipe: Recipe, setting: Setting, dataset: Dataset) -> list[str]:
    """Return the features that every index of a set has."""
    texts, vectors = columns_as_arms(dataset.corpus, setting.more_arms)
    arms = [arm for part, arm in (("text", "text"), ("vectors", VECTOR)) if part in setting.arms]
    arms += [arm.column for arm in vectors]
    names = ["fused", "agreement"] if len(arms) > 1 else ["fused"]
    names += [f"{arm}_score" for arm in (*arms, *texts)]
    around = Around.among(recipe.shaping)
    if around is not None and setting.thread is not None:
        names += [f"neighbour_{at + 1}" for at in range(len(around.neighbours))]
        names += ["thread", "length"]
        sides = [(side, at + 1) for side in ("before", "after") for at in range(N_BESIDE)]
        names += [f"{arm}_{side}_{at}" for arm in arms for side, at in sides]
    kinds = (Prior, Provenance)
    return names + [one.__name__.lower() for one in kinds if one.among(recipe.shaping) is not None]


def _pools(indexes: Indexes, dataset: Dataset, setting: Setting) -> _Pools:
    """Recall the candidates of the judged queries with their features."""
    recipe: Recipe = setting.options["recipe"]
    depth = setting.options.get("depth", recipe.depth)
    hits, starts = recalled(indexes, dataset, setting, depth)
    addends = hits["linear_addends"].combine_chunks().flatten().to_numpy()
    weights = np.array(list(_weights(recipe).values()))
    keys, classes = hits["key"].to_pylist(), dataset.classes
    tells, shares = [], [np.zeros(0)]
    for query, (begin, end) in zip(dataset.judged["id"].to_pylist(), pairwise(starts), strict=True):
        grades = best_grades(dataset.judgements[query], classes)
        found = np.array([grades.get(counted_as(key, classes), 0) for key in keys[begin:end]])
        tells.append(0 < (found > 0).sum() < len(found))
        shares.append(found / max(found.sum(), 1))
    folds = np.array(_folds(dataset), np.int64)
    candidates = addends.reshape(-1, len(weights)) / weights
    every = _Pools(candidates, np.array(starts), np.concatenate(shares), folds)
    return every.of(np.array(tells, np.bool_))


def _folds(dataset: Dataset) -> list[int]:
    """Return the fold of each judged query: by tenant if there are enough, else by its id."""
    judged = dataset.judged
    cells = judged[CELL].to_pylist() if dataset.has_cells else []
    distinct = sorted(set(cells))
    if len(distinct) >= N_FOLDS:
        return [distinct.index(cell) % N_FOLDS for cell in cells]
    ids = judged["id"].to_pylist()
    return [xxhash.xxh3_64_intdigest(query.encode()) // 2 % N_FOLDS for query in ids]


def _best_weights(pools: _Pools, own: Floats) -> Floats:
    """Return the weights, on the scale of ``own``, with the strength that cross-validates best."""
    # The base stays unless the best is better by two standard errors: few queries, or
    # features that tell nothing, change nothing.
    losses: list[list[Floats]] = [[] for _ in STRENGTHS]
    folds = [fold for fold in range(N_FOLDS) if 0 < (pools.fold == fold).sum() < len(pools.fold)]
    for fold in folds:
        left, kept = pools.of(pools.fold == fold), pools.of(pools.fold != fold)
        steepness, spread = _steepness(kept, own), _spread(kept)
        found = steepness * own
        for at, strength in enumerate(STRENGTHS):  # each from where the stronger one ended
            found = _minimise(kept, steepness * own, spread, strength, found)
            losses[at].append(_cross_entropy(left, found)[0])
    of_query = np.array([np.concatenate(one) for one in losses]) if folds else np.zeros((1, 1))
    best = int(of_query.mean(axis=1).argmin())
    gain = of_query[0] - of_query[best]
    if gain.mean() <= 2 * gain.std() / np.sqrt(len(gain)):
        return own
    steepness = _steepness(pools, own)
    centre = steepness * own
    return _minimise(pools, centre, _spread(pools), STRENGTHS[best], centre) / steepness


def _steepness(pools: _Pools, own: Floats) -> float:
    """Return the factor of the base's scores that explains best what was right."""
    from scipy.optimize import minimize_scalar

    found = minimize_scalar(
        lambda log: float(_cross_entropy(pools, np.exp(log) * own)[0].mean()),
        bounds=(-5.0, 7.0),
        method="bounded",
    )
    return float(np.exp(found.x))


def _spread(pools: _Pools) -> Floats:
    """Return how much each feature differs between the candidates of a query."""
    counts = np.diff(pools.starts)
    means = np.add.reduceat(pools.features, pools.starts[:-1], axis=0) / counts[:, None]
    apart = pools.features - np.repeat(means, counts, axis=0)
    return np.asarray(np.sqrt((apart**2).mean(axis=0)), np.float64)


def _minimise(
    pools: _Pools, centre: Floats, spread: Floats, strength: float, begin: Floats
) -> Floats:
    """Return the weights of least loss with a penalty on the distance from a centre."""
    from scipy.optimize import minimize

    if math.isinf(strength):
        return centre
    varies = spread > np.abs(pools.features).max(axis=0) * 1e-6  # or it is rounding
    scale = np.where(varies, spread, 1.0)

    def penalised(moved: Floats) -> tuple[float, Floats]:
        losses, gradient = _cross_entropy(pools, centre + moved / scale)
        loss = float(losses.mean()) + strength * float(moved @ moved) / 2
        return loss, gradient / scale + strength * moved

    moved = np.where(varies, (begin - centre) * scale, 0.0)
    found = minimize(penalised, moved, jac=True, method="L-BFGS-B")
    return np.asarray(centre + np.where(varies, found.x, 0.0) / scale, np.float64)


def _cross_entropy(pools: _Pools, weights: Floats) -> tuple[Floats, Floats]:
    """Return the cross-entropy of each query, and the gradient of their mean."""
    # Each relevant candidate competes with the candidates that are not relevant, not with others.
    from scipy.special import xlogy

    begins, counts = pools.starts[:-1], np.diff(pools.starts)
    scores = pools.features @ weights
    scores -= np.repeat(np.maximum.reduceat(scores, begins), counts)
    wrong = pools.share == 0
    powers = np.exp(scores)
    rivals = np.repeat(np.add.reduceat(np.where(wrong, powers, 0.0), begins), counts)
    total = rivals + powers  # where right: of the candidate and its rivals
    losses = np.add.reduceat(xlogy(pools.share, total) - pools.share * scores, begins)
    # Each rival's part in the losses of all that is right.
    pressure = np.add.reduceat(pools.share / total, begins)
    pull = np.where(wrong, powers * np.repeat(pressure, counts), -pools.share * rivals / total)
    return losses, pools.features.T @ pull / len(counts)


# ---- Learns a recipe's weights from what one user of a store said that helped ----
# Only the memories that the user may see are searched, and only the user's own feedback is read.

_THREAD, _PLACE = "session_id", "occurred_at"  # of every layout of a store


@check_objects
def learn_from_feedback(
    memory: MemorySync,
    *,
    user_id: str | None = None,
    org: str | None = None,
    workspace: str | None = None,
    features: Sequence[str] = (),
    measure: str = "nDCG@10",
    threads: int | None = None,
    tell: Callable[[str], None] = lambda _: None,
) -> Learnt:
    """Learn the weights of a store's recipe from what one user said that helped.

    Parameters
    ----------
    memory : MemorySync
        Opened with the recipe to start from.
    user_id, org, workspace : str, optional
        The user and its partition. Nothing of other users is read.
    features, measure, tell
        As in :func:`learn`.
    threads : int, optional
        For the index of the user's memories.

    Returns
    -------
    Learnt
        Learnt on the queries whose text has an even hash, compared with the base on the others.

    Raises
    ------
    OptionError
        Fewer than 20 queries, or as :func:`learn`; a recipe with a graph.
    EmbedError
        The store's embedder fails.
    MissingExtraError
        The extra ``[evaluate]`` is not installed.

    Notes
    -----
    The user's memories are indexed once more, in this process, as the store's own index has them.
    The embedder is called for 64 queries at a time; with ``embedder=None`` words alone are learnt.
    """
    from hyrecall.memory.changing import named_by
    from hyrecall.memory.recall.audience import read_partition
    from hyrecall.memory.view import View, own_index

    store = memory._store
    recipe = store.recipe
    if recipe != recipe.without_graphs():
        raise error(OptionError, "recipe", "a recipe without a graph", recipe.name)
    view = View(store, read_partition(org, workspace, user_id))
    judgements: dict[str, dict[str, int]] = {}
    for query, cell, key in named_by(view):
        judgements.setdefault(query, {})[_name((*cell, key))] = 1
    if len(judgements) < 2 * LEAST_QUERIES:
        wish = f"at least {2 * LEAST_QUERIES} queries with a memory that helped"
        raise error(OptionError, "feedback", wish, len(judgements))
    tell(f"{len(judgements):,} queries with feedback")
    queries = list(judgements)
    vectors = None
    if store.guard.off is None:
        vectors = embed_texts(store.guard, queries)
        store.settle()
    index, scope = own_index(view, threads=threads)
    dataset = _dataset(queries, vectors, judgements)
    has_threads = index.count(scope=scope, filter=Filter(session_id=NotNull())) > 0
    base = Setting(
        recipe.name,
        {"recipe": recipe},
        arms=("text",) if vectors is None else ("text", "vectors"),
        analyzer=store.layout.analyzer,
        thread=_THREAD if has_threads else None,
        place=_PLACE if has_threads else None,
    )
    return learn(
        _OwnIndex(index, scope), dataset, base=base, features=features, measure=measure, tell=tell
    )


def _dataset(
    queries: list[str],
    vectors: npt.NDArray[np.float32] | None,
    judgements: dict[str, dict[str, int]],
) -> Dataset:
    """Return the queries as a set; its corpus is only what the judgements name."""
    names = sorted({name for grades in judgements.values() for name in grades})
    corpus = pa.table({"id": names, "text": names})
    asked = pa.table({"id": queries, "text": queries})
    if vectors is not None:
        column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), vectors.shape[1])
        asked = asked.append_column(VECTOR, column)
        corpus = corpus.append_column(VECTOR, pa.nulls(len(names), column.type))
    return Dataset("feedback", corpus, asked, judgements)


def _name(parts: Sequence[Any]) -> str:
    """Name a memory by its cell and id: an id may stand in several cells."""
    return json.dumps(parts)


class _OwnIndex(Indexes):
    """Asks one index for every setting, within one scope, with memories named by cell and id."""

    def __init__(self, index: Index, scope: Scope) -> None:
        self._index, self._scope = index, scope

    def _recall(self, setting: Setting, **asked: Any) -> pa.Table:
        index = self._index
        table = index.recall(scope=self._scope, **setting.options, **asked).to_arrow()
        parts = [table[name].to_pylist() for name in (*index.schema.cell_columns, "key")]
        names = pa.array(map(_name, zip(*parts, strict=True)), pa.string())
        return table.set_column(table.column_names.index("key"), "key", names)
