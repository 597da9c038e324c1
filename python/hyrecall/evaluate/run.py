"""Settings as data and as code; builds the indexes of a set and recalls its queries with one."""

from __future__ import annotations

import inspect
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, is_dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import hyrecall
from hyrecall import recipes
from hyrecall.ask.recipe import Recipe
from hyrecall.ask.scoring import RRF, WeightedSum
from hyrecall.base.arguments import check_objects, set_fields, unknown_option
from hyrecall.errors import DTypeError, OptionError, error
from hyrecall.evaluate.compare import MEASURES, Scores, cutoff_of, read_measures, score_run
from hyrecall.evaluate.data import CELL, VECTOR, Dataset
from hyrecall.index import Index
from hyrecall.table.schema import MaxSim, Schema, Sparse, Text, Vector
from hyrecall.text.analyzer import Analyzer

# ---- Defines settings, the arguments of ``Index.recall`` that an evaluation compares ----

ARMS = ("text", "vectors")
_NO_MORE_ARMS = ("id", "title", "text", CELL, VECTOR)
_OF_THE_SET = {"self", "text", "vectors", "scope", "columns", "query_keys"}


@check_objects
@dataclass(frozen=True)
class Setting:
    """A named set of arguments for a recall.

    Parameters
    ----------
    name : str
        The name in tables.
    options : mapping of str to object, optional
        Arguments of :meth:`hyrecall.Index.recall` except the queries and their scope.
    arms : tuple of {"text", "vectors"}, default both
        The parts of a query that are passed.
    analyzer : Analyzer, default Analyzer("unicode")
        The analyzer of the index; an index is built for each analyzer.
    attributes : tuple of str, default ()
        Columns of the corpus that become attributes of the index, for filters and stages.
    thread, place : str, optional
        Columns of the corpus that say which thread a row is part of and where in it, for
        :class:`hyrecall.Around`.
    more_arms : tuple of str, default ()
        Further columns of the corpus that become arms of their names: columns of texts, which are
        asked with the query's text, and of vectors (also sparse ones, or many a row), which are
        asked with the query's own.

    Raises
    ------
    OptionError
        No arm, an unknown arm, or an option that recall does not have or that the set provides.

    Examples
    --------
    >>> Setting("rrf", {"fusion": RRF(alpha=0.3), "depth": 200}).arms
    ('text', 'vectors')
    """

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)
    arms: tuple[str, ...] = ARMS
    analyzer: Analyzer = field(default_factory=Analyzer)
    attributes: tuple[str, ...] = ()
    thread: str | None = None
    place: str | None = None
    more_arms: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Check the arms and the names of the options."""
        set_fields(self, options=dict(self.options))
        if not self.arms or set(self.arms) - set(ARMS):
            raise error(OptionError, "arms", f"some of {ARMS}", repr(self.arms))
        given = sorted(_OF_THE_SET & set(self.options))
        if given:
            raise error(OptionError, "options", "no option that the set provides", ", ".join(given))
        every = inspect.signature(Index.recall).parameters
        known = [name for name in every if name not in _OF_THE_SET]
        if not self.options.keys() <= set(known):
            raise unknown_option("options", self.options, known)

    def but(self, name: str, **options: Any) -> Setting:
        """Return the setting with another name and some options of recall changed."""
        return replace(self, name=name, options={**self.options, **options})

    def to_dict(self) -> dict[str, Any]:
        """Return the setting as plain data, for reports."""
        return {
            "name": self.name,
            "arms": list(self.arms),
            "analyzer": {"name": self.analyzer.name, "hash": self.analyzer.hash},
            "options": plain(self.options),
        }


BUILT_IN = {
    one.name: one
    for one in (
        Setting("bm25", arms=("text",)),
        Setting("dense", arms=("vectors",)),
        Setting("rrf", {"fusion": RRF()}),
        Setting("minmax", {"fusion": WeightedSum()}),
    )
}
"""The built-in settings by name."""


@check_objects
def read_setting(name: str) -> Setting:
    """Return the built-in setting or the recipe of a name.

    Parameters
    ----------
    name : str
        ``bm25``, ``dense``, ``rrf`` (equal weights, rank constant 60), ``minmax`` (equal weights,
        completed), or a recipe of ``hyrecall.recipes``, without the parts that need a graph.

    Raises
    ------
    OptionError
        Another name.

    Examples
    --------
    >>> read_setting("bm25").arms
    ('text',)
    """
    if name in recipes.__all__:
        recipe: Recipe = getattr(recipes, name).without_graphs()
        return Setting(
            name,
            {"recipe": recipe},
            analyzer=Analyzer(recipe.analyzer or "unicode"),
            # Every index has the key column.
            attributes=tuple(column for column in recipe.columns if column != "id"),
        )
    if name not in BUILT_IN:
        known = ", ".join([*BUILT_IN, *recipes.__all__])
        raise error(OptionError, "setting", f"one of {known}", repr(name))
    return BUILT_IN[name]


@check_objects
def grid(base: Setting, **options: Mapping[str, Any]) -> tuple[Setting, ...]:
    """Return the base setting with every combination of some options' values.

    Parameters
    ----------
    base : Setting
    **options : mapping of str to object
        For each option, its values by label.

    Examples
    --------
    >>> [one.name for one in grid(read_setting("rrf"), depth={"10": 10, "100": 100})]
    ['rrf depth=10', 'rrf depth=100']
    """
    made = [base]
    for option, values in options.items():
        if not isinstance(values, Mapping):
            raise error(DTypeError, option, "a mapping of label to value", repr(values))
        made = [
            one.but(f"{one.name} {option}={label}", **{option: value})
            for one in made
            for label, value in values.items()
        ]
    return tuple(made)


@check_objects
def without_each(base: Setting, option: str) -> tuple[Setting, ...]:
    """Return the base setting, and the base without each single entry of a sequence option.

    This is the ablation of a pipeline: each stage is left out once.

    Examples
    --------
    >>> base = Setting("all", {"shaping": ("dedup", "recency")})
    >>> [one.name for one in without_each(base, "shaping")]
    ['all', "all without 'dedup'", "all without 'recency'"]
    """
    entries = _entries(base, option)
    less = (
        base.but(f"{base.name} without {one!r}", **{option: entries[:at] + entries[at + 1 :]})
        for at, one in enumerate(entries)
    )
    return (base, *less)


@check_objects
def with_each(base: Setting, option: str) -> tuple[Setting, ...]:
    """Return the base setting without the entries of a sequence option, and with each alone.

    Examples
    --------
    >>> base = Setting("all", {"shaping": ("dedup", "recency")})
    >>> [one.options["shaping"] for one in with_each(base, "shaping")]
    [(), ('dedup',), ('recency',)]
    """
    entries = _entries(base, option)
    bare = base.but(f"{base.name} without {option}", **{option: ()})
    return (
        bare,
        *(base.but(f"{base.name} with only {one!r}", **{option: (one,)}) for one in entries),
    )


def _entries(base: Setting, option: str) -> tuple[Any, ...]:
    entries = base.options.get(option)
    if not isinstance(entries, tuple | list) or not entries:
        raise error(OptionError, option, f"a sequence in setting {base.name!r}", repr(entries))
    return tuple(entries)


def plain(value: Any) -> Any:
    """Convert options to JSON types; a dataclass has its class name as ``kind``."""
    if is_dataclass(value) and not isinstance(value, type):
        return {"kind": type(value).__name__, **plain(asdict(value))}
    if isinstance(value, Mapping):
        return {str(name): plain(one) for name, one in value.items()}
    if isinstance(value, tuple | list):
        return [plain(one) for one in value]
    return value if value is None or isinstance(value, bool | int | float | str) else repr(value)


# ---- Builds the indexes of a set and recalls its queries with a setting, in one batch ----

LIMIT = 100
"""Hits per query, unless a measure reads more or the setting has its own limit."""

DEPTH = 1000
"""The depth of a setting without its own depth, as in published evaluations."""


@dataclass(frozen=True, eq=False)
class Run:
    """The ranked lists of a setting.

    Attributes
    ----------
    name : str
        The name of the setting.
    documents : mapping of str to tuple of str
        The documents of each query, best first.
    scores : mapping of str to tuple of float
        The scores of these documents.
    """

    name: str
    documents: Mapping[str, tuple[str, ...]]
    scores: Mapping[str, tuple[float, ...]]


@check_objects
class Indexes:
    """The indexes of a set, one for each analyzer and choice of columns, built on first use.

    Parameters
    ----------
    dataset : Dataset
        The halves of a set share its corpus, so one ``Indexes`` serves both.
    device : str, default "auto"
    threads : int, optional
        As in :meth:`hyrecall.Index.build`.
    """

    def __init__(
        self, dataset: Dataset, *, device: str = "auto", threads: int | None = None
    ) -> None:
        """Keep the corpus without building an index."""
        self._dataset = dataset
        self._how: dict[str, Any] = {"device": device, "threads": threads}
        self._built: dict[tuple[Any, ...], Index] = {}

    @check_objects
    def get(self, setting: Setting) -> Index:
        """Return the index for a setting, with the arms ``text`` and ``embedding``."""
        columns = (setting.attributes, setting.thread, setting.place, setting.more_arms)
        which = (setting.analyzer.hash, *columns)
        if which not in self._built:
            corpus = self._dataset.corpus
            title = ("title",) if "title" in corpus.column_names else ()
            texts, vectors = columns_as_arms(corpus, setting.more_arms)
            schema = Schema(
                key="id",
                cell=CELL if self._dataset.has_cells else None,
                text={"text": Text(*title, "text"), **texts},
                vector=(*((VECTOR,) if self._dataset.has_vectors else ()), *vectors),
                attributes=setting.attributes,
                thread=setting.thread,
                place=setting.place,
            )
            self._built[which] = Index.build(corpus, schema, analyzer=setting.analyzer, **self._how)
        return self._built[which]

    def _recall(self, setting: Setting, **asked: Any) -> pa.Table:
        return self.get(setting).recall(**setting.options, **asked).to_arrow()


@check_objects
def run_setting(indexes: Indexes, dataset: Dataset, setting: Setting, *, limit: int = LIMIT) -> Run:
    """Recall the judged queries of a set in one batch.

    Parameters
    ----------
    indexes : Indexes
        Indexes of this set, or of the set that it is a half of.
    dataset : Dataset
    setting : Setting
    limit : int, default 100
        Hits per query, at most the depth; the setting's own ``limit`` takes precedence.

    Raises
    ------
    OptionError
        The setting uses vectors, but documents or queries have none.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from hyrecall.evaluate.run import read_setting
    >>> corpus = pa.table({"id": ["a", "b"], "text": ["hot tea", "tea and more tea"]})
    >>> queries = pa.table({"id": ["q"], "text": ["tea"]})
    >>> data = Dataset("drinks", corpus, queries, {"q": {"a": 1}})
    >>> run_setting(Indexes(data), data, read_setting("bm25")).documents
    {'q': ('b', 'a')}
    """
    if "vectors" in setting.arms and not dataset.has_vectors:
        wish = "an embedding of documents and queries"
        raise error(OptionError, f"setting {setting.name!r}", wish, f"none in {dataset.name}")
    judged = dataset.judged
    queries = judged["id"].to_pylist()
    if not queries:
        return Run(setting.name, {}, {})
    recipe = setting.options.get("recipe")
    depth = setting.options.get("depth", getattr(recipe, "depth", DEPTH))
    if recipe is None:
        setting = setting.but(setting.name, depth=depth)
    wanted = setting.options.get("limit", min(limit, depth))
    own = _own_documents(dataset)
    room = bool(own) and wanted < depth  # one's own document has no rank
    hits, starts = recalled(indexes, dataset, setting, wanted + room)
    keys, scores = hits["key"].to_pylist(), hits["score"].to_pylist()
    spans = {
        query: [at for at in range(*span) if query not in own or keys[at] != query][:wanted]
        for query, span in zip(queries, pairwise(starts), strict=True)
    }
    return Run(
        setting.name,
        {query: tuple(keys[at] for at in span) for query, span in spans.items()},
        {query: tuple(scores[at] for at in span) for query, span in spans.items()},
    )


def recalled(
    indexes: Indexes, dataset: Dataset, setting: Setting, limit: int
) -> tuple[pa.Table, list[int]]:
    """Return the hits of the judged queries, and where those of each begin and the last ends."""
    limited = setting.but(setting.name, limit=limit)
    hits = indexes._recall(limited, **what_is_asked(dataset, setting))
    counts = np.bincount(hits["query"].to_numpy(), minlength=dataset.judged.num_rows)
    return hits, [0, *np.cumsum(counts).tolist()]


def _own_documents(dataset: Dataset) -> set[str]:
    """Return the judged queries that are documents too, with the same id and text.

    They do not find themselves, as in BEIR's ArguAna.
    """
    judged = dataset.judged
    texts = dict(zip(judged["id"].to_pylist(), judged["text"].to_pylist(), strict=True))
    same = dataset.corpus.filter(pc.is_in(dataset.corpus["id"], judged["id"].combine_chunks()))
    pairs = zip(same["id"].to_pylist(), same["text"].to_pylist(), strict=True)
    return {name for name, text in pairs if texts[name] == text}


def what_is_asked(dataset: Dataset, setting: Setting) -> dict[str, Any]:
    """Return the judged queries as arguments of a recall: the parts that a setting passes."""
    judged = dataset.judged
    asked: dict[str, Any] = {}
    if "text" in setting.arms:
        asked["text"] = judged["text"].to_pylist()
    more = [arm.column for arm in columns_as_arms(dataset.corpus, setting.more_arms)[1]]
    vectors = [VECTOR, *more] if "vectors" in setting.arms else more
    for name in vectors:
        if name not in judged.column_names:
            wish = f"a column {name!r}, as in the corpus"
            raise error(OptionError, f"{dataset.name} queries", wish, judged.column_names)
    if vectors:
        asked["vectors"] = {name: judged[name] for name in vectors} if more else judged[VECTOR]
    if dataset.has_cells:
        asked["scope"] = judged[CELL].to_pylist()
    return asked


def columns_as_arms(
    corpus: pa.Table, names: Sequence[str]
) -> tuple[dict[str, Text], tuple[Vector, ...]]:
    """Return text and vector arms of the names of columns, each by the column's type."""
    texts: dict[str, Text] = {}
    vectors: list[Vector] = []
    known = [name for name in corpus.column_names if name not in _NO_MORE_ARMS]
    for name in names:
        if name not in known:
            raise error(OptionError, "more_arms", f"columns of {known}", repr(name))
        kind = corpus.schema.field(name).type
        if pa.types.is_map(kind):
            vectors.append(Sparse(name))
        elif pa.types.is_fixed_size_list(kind):
            vectors.append(Vector(name))
        elif pa.types.is_list(kind) and pa.types.is_nested(kind.value_type):
            vectors.append(MaxSim(name))
        else:
            texts[name] = Text(name)
    return texts, tuple(vectors)


def score_setting(
    indexes: Indexes,
    dataset: Dataset,
    setting: Setting,
    *,
    measures: str | Sequence[str] = MEASURES,
) -> Scores:
    """Recall the judged queries of a set and score the lists, as far as the measures read."""
    named = read_measures(measures)
    longest = max(named, key=cutoff_of)
    own = setting.options.get("limit")
    if own is not None and own < cutoff_of(longest):
        wish = f">= {cutoff_of(longest)}, which {longest} reads"
        raise error(OptionError, f"limit of setting {setting.name!r}", wish, own)
    run = run_setting(indexes, dataset, setting, limit=max(LIMIT, cutoff_of(longest)))
    judgements = {query: dataset.judgements[query] for query in run.documents}
    return score_run(
        run.documents, judgements, classes=dataset.classes, measures=named, name=setting.name
    )


# ---- Writes a setting as Python code with the arguments of a recall ----


@check_objects
def setting_code(setting: Setting, *, analyzer: str | None = None, has_cells: bool = True) -> str:
    """Return a setting as Python code that runs unchanged.

    Parameters
    ----------
    setting : Setting
    analyzer : str, optional
        Code that makes the analyzer, required if it uses a tokenizer file or a callable.
    has_cells : bool, default True
        Whether the recall names a scope, which an index with ``cell=None`` refuses.

    Returns
    -------
    str
        The code sets ``analyzer`` for :meth:`hyrecall.Index.build` and ``options`` for
        :meth:`hyrecall.Index.recall`.

    Raises
    ------
    OptionError
        An option is not of numbers, strings, their sequences and mappings, fusions, constants,
        stages and recipes: pass a filter or a graph beside the options.

    Examples
    --------
    >>> from hyrecall import BM25, RRF
    >>> print(setting_code(Setting("mine", {"fusion": RRF(alpha=0.3), "bm25": BM25(k1=0.9)})))
    import hyrecall as hr
    <BLANKLINE>
    analyzer = hr.Analyzer("unicode")
    options = {
        "fusion": hr.RRF(alpha=0.3),
        "bm25": hr.BM25(k1=0.9),
        "depth": 1000,
    }
    # index = hr.Index.build(table, schema, analyzer=analyzer)
    # hits = index.recall(text=texts, vectors=vectors, scope=scopes, **options)
    """
    options = dict(setting.options)
    if "recipe" not in options:
        options.setdefault("depth", DEPTH)
    given = {"text": "text=texts", "vectors": "vectors=vectors"}
    asked = [*(given[arm] for arm in setting.arms), *(["scope=scopes"] if has_cells else [])]
    lines = [
        f"analyzer = {analyzer or _analyzer(setting.analyzer)}",
        "options = {",
        *(f"    {_python(name)}: {_python(value)}," for name, value in options.items()),
        "}",
    ]
    if setting.attributes:
        lines.append(f"# of the schema: attributes={_python(setting.attributes)}")
    lines += [
        "# index = hr.Index.build(table, schema, analyzer=analyzer)",
        f"# hits = index.recall({', '.join(asked)}, **options)",
    ]
    return "\n".join(["import hyrecall as hr", "", *lines])


def _analyzer(analyzer: Analyzer) -> str:
    words = analyzer.stopwords
    if words is None:
        return f"hr.Analyzer({_python(analyzer.name)})"
    given = _python(words if isinstance(words, str) else list(words))
    return f"hr.Analyzer({_python(analyzer.name)}, stopwords={given})"


def _python(value: Any) -> str:
    """Return code that makes an equal value, with this package as ``hr``."""
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)  # JSON strings are valid Python
    if isinstance(value, list | tuple):
        inner = ", ".join(map(_python, value))
        return f"[{inner}]" if isinstance(value, list) else f"({inner}{',' * (len(value) == 1)})"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_python(k)}: {_python(v)}" for k, v in value.items()) + "}"
    if is_dataclass(value) and not isinstance(value, type):
        return _recipe(value) if isinstance(value, Recipe) else _call(value)
    if not isinstance(value, bool | int | float | None):
        wish = "options that can be written as code"
        raise error(OptionError, "setting", wish, f"a {type(value).__name__}")
    is_finite = not isinstance(value, float) or math.isfinite(value)
    return repr(value) if is_finite else f'float("{value}")'


def _recipe(recipe: Recipe) -> str:
    for name in recipes.__all__:
        ours: Recipe = getattr(recipes, name)
        if recipe in (ours, ours.without_graphs()):
            rest = "" if recipe == ours else ".without_graphs()"
            return f"hr.recipes.{name}{rest}"
    return f"hr.Recipe.from_json({recipe.to_json()!r})"


def _call(value: Any) -> str:
    kind = type(value).__name__
    home = "hr" if hasattr(hyrecall, kind) else "hr.arms"
    given = []
    for name, parameter in inspect.signature(type(value)).parameters.items():
        one = getattr(value, name)
        if one == parameter.default:
            continue
        if name == "weights":
            one = dict(one)
        given.append(f"{name}={_python(one)}")
    return f"{home}.{kind}({', '.join(given)})"
