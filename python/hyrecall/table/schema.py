"""Defines the schema of a table: the roles of its columns as key, cells, arms, filters, results."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast, get_args

from hyrecall.base.arguments import (
    as_int,
    check_keywords,
    check_unicode,
    convert_field,
    is_one_of,
    set_fields,
)
from hyrecall.errors import DTypeError, OptionError, error

if TYPE_CHECKING:
    from hyrecall.text.analyzer import Analyzer
    from hyrecall.text.bm25 import BM25


VectorDtype: TypeAlias = Literal["float32", "float16", "bfloat16"]

STAGE_COLUMNS = (
    "fused_score", "provenance_weight", "rerank_score", "n_duplicates", "recency_factor",
    "recency_score", "importance_score", "relevance_score", "composite_raw", "token_estimate",
    "mmr_relevance", "mmr_similarity", "general_score", "topical_score", "session_score",
    "neighbour_evidence", "thread_evidence", "length_evidence", "prior_evidence",
    "linear_addends",
)  # fmt: skip
"""Columns of result tables that shaping stages fill."""

MOST_WEIGHT = 100
"""Of a column in a text arm: an index keeps the column's tokens that often."""

RESULT_COLUMNS = ("query", "rank", "key", "score", "origin", *STAGE_COLUMNS)
"""Reserved names in result tables, beside `<arm>_score` and `<arm>_rank` of each arm."""


@check_keywords
@dataclass(frozen=True, init=False, repr=False)
class Text:
    """A lexical arm over one or several text columns.

    Parameters
    ----------
    *columns : str
        Columns of the arm, joined with a position gap (a phrase does not cross it). Term
        frequencies and lengths are sums over the columns. A column may belong to several arms. In
        the text of a hit (``hit.text``, rerankers, budgets), a line break joins the columns.
    weights : mapping, optional
        Whole numbers in [1, 100] by column; 1 for columns it does not name. A document counts as
        if each column stood in it as often as its weight says: a word or a phrase of a title of
        weight 3 counts three times, and the title's length too. An index keeps the tokens of a
        column that often, so give weights to the short columns.
    analyzer : Analyzer, optional
        Turns this arm's documents and queries into terms; default: the index's.
    bm25 : BM25, optional
        The variant and constants of this arm. Default: the index's; with several arms, those of
        the default ``fusion`` (see :meth:`hyrecall.Index.recall`).

    Raises
    ------
    OptionError
        No column, an empty name, a name given twice, a weight of another column or out of range.
    DTypeError
        A weight that is not a whole number.

    Notes
    -----
    Source of the weights: Robertson, Zaragoza, Taylor, "Simple BM25 Extension to Multiple Weighted
    Fields", CIKM 2004.

    Examples
    --------
    >>> Text("title", "body")
    Text('title', 'body')
    >>> Text("title", "body", weights={"title": 3}).column_weights
    (3, 1)
    """

    columns: tuple[str, ...]
    weights: tuple[tuple[str, int], ...]
    analyzer: Analyzer | None
    bm25: BM25 | None

    def __init__(
        self,
        *columns: str,
        weights: Mapping[str, int] | None = None,
        analyzer: Analyzer | None = None,
        bm25: BM25 | None = None,
    ) -> None:
        """Make an arm of columns, joined in this order."""
        if len(columns) == 1 and isinstance(columns[0], list | tuple):
            remedy = f"hr.Text({', '.join(map(repr, columns[0]))})"
            raise error(OptionError, "columns", "names of columns", repr(columns[0]), remedy)
        set_fields(self, columns=_names("columns", columns), analyzer=analyzer, bm25=bm25)
        if not self.columns:
            raise error(OptionError, "columns", "at least one text column", "none")
        set_fields(self, weights=_weights(self.columns, weights))

    @property
    def column_weights(self) -> tuple[int, ...]:
        """The weight of each column."""
        given = dict(self.weights)
        return tuple(given.get(column, 1) for column in self.columns)

    def __repr__(self) -> str:
        """Show the call that makes this arm."""
        weights = dict(self.weights) or None
        options = {"weights": weights, "analyzer": self.analyzer, "bm25": self.bm25}
        shown = [f"{name}={value!r}" for name, value in options.items() if value is not None]
        return f"Text({', '.join([*map(repr, self.columns), *shown])})"


@check_keywords
@dataclass(frozen=True)
class Vector:
    """A dense arm over one vector column.

    Parameters
    ----------
    column : str
        The table's column, or the name of the rows in ``vectors=``.
    dtype : {"float32", "float16", "bfloat16"}, optional
        Element type of the kept rows; default: as given (float64 becomes float32). A
        conversion rounds once, to nearest with ties to even. With ``"bfloat16"``, uint16 values are
        read as bit patterns.

    Raises
    ------
    OptionError
        An empty name or another dtype.

    Examples
    --------
    >>> Vector("embedding", dtype="bfloat16")
    Vector(column='embedding', dtype='bfloat16')
    """

    column: str
    dtype: VectorDtype | None = None

    def __post_init__(self) -> None:
        """Check the options."""
        _name("column", self.column)
        known = get_args(VectorDtype)
        if self.dtype is not None and not is_one_of(self.dtype, known):
            raise error(OptionError, "dtype", f"one of {_listed(known)}, or None", repr(self.dtype))


@check_keywords
@dataclass(frozen=True)
class MaxSim(Vector):
    """A dense arm over a column whose rows have many vectors each (late interaction).

    A row's score is the sum, over the query's vectors, of the greatest cosine with one of the
    row's vectors, so it may pass 1. Queries are arrays of shape (n_vectors, dim), one per query.

    Parameters
    ----------
    column : str
        The table's column, of lists of vectors, or the name of the rows in ``vectors=``: a list
        with one (n_vectors, dim) array or None per row, an array of shape (n_rows, n_vectors, dim),
        or ``(values, offsets)``, where row r has the vectors ``values[offsets[r]:offsets[r + 1]]``.
    dtype : {"float32", "float16", "bfloat16"}, optional
        As of :class:`Vector`.

    Raises
    ------
    OptionError
        An empty name or another dtype.

    Notes
    -----
    Exact: the top of the list is that of a full sort, on the CPU and on a device, also over shards.
    Stages that compare vectors do not read it. A vector of zeros counts as none, and a row without
    a vector is not in the arm. Memory: the vectors as given, and an int8 copy of a byte a number.

    Source: Khattab and Zaharia, "ColBERT", SIGIR 2020.

    Examples
    --------
    >>> import numpy as np, pyarrow as pa
    >>> import hyrecall as hr
    >>> table = pa.table({"id": ["a", "b"]})
    >>> rows = [np.eye(2, dtype=np.float32), np.array([[1.0, 1.0]], np.float32)]
    >>> schema = hr.Schema(key="id", cell=None, vector=hr.MaxSim("tokens"))
    >>> index = hr.Index.build(table, schema, vectors={"tokens": rows})
    >>> hit = index.recall_one(vector=np.array([[1.0, 0.0], [0.0, 2.0]], np.float32))[0]
    >>> hit.key, hit.score
    ('a', 2.0)
    """


@check_keywords
@dataclass(frozen=True)
class Sparse(Vector):
    """A vector arm over a column of sparse vectors: terms, each with a weight (SPLADE, say).

    A row's score is the sum, over the terms that it shares with the query, of the product of their
    weights. Rows that share none are not in the arm's list.

    Parameters
    ----------
    column : str
        The table's column, of maps or of lists of (term or id, weight), or the name of the rows in
        ``vectors=``: a list with one mapping ``{term or id: weight}``, pair ``(ids, weights)`` or
        None per row, or a sparse matrix of SciPy or torch of shape (n_rows, n_ids). Queries have
        the same forms. An id is the term of its decimal digits: 7 and ``"7"`` are one.
    dtype : {"float32", "float16"}, optional
        Type of the kept weights; default: as given. A conversion rounds once, to nearest.

    Raises
    ------
    OptionError
        An empty name or another dtype; later, with the row named, a weight outside [0, 2^40] or a
        term that a row has twice.

    Notes
    -----
    Exact: the top of the list is that of a full sort. There is no IDF: the weights are all. A
    weight below 2^-60 counts as 0, and a row without any other has no vector. Memory: 6 bytes an
    entry, 4 with float16.

    Source: Formal et al., "SPLADE", SIGIR 2021; Turtle and Flood, 1995, of the pruning (MaxScore).

    Examples
    --------
    >>> import pyarrow as pa
    >>> import hyrecall as hr
    >>> table = pa.table({"id": ["a", "b"]})
    >>> rows = [{"cat": 1.5, "pet": 0.5}, {"car": 2.0}]
    >>> schema = hr.Schema(key="id", cell=None, vector=hr.Sparse("terms"))
    >>> index = hr.Index.build(table, schema, vectors={"terms": rows})
    >>> [(hit.key, hit.score) for hit in index.recall(vectors=[{"cat": 1.0, "pet": 1.0}])[0]]
    [('a', 2.0)]
    """

    def __post_init__(self) -> None:
        """Check the options."""
        super().__post_init__()
        if self.dtype == "bfloat16":
            raise error(OptionError, "dtype", "'float32', 'float16' or None", repr(self.dtype))


TextArms: TypeAlias = "str | Text | Mapping[str, str | Text] | Sequence[Any] | None"
VectorArms: TypeAlias = "str | Vector | Mapping[str, str | Vector] | Sequence[Any] | None"


@check_keywords
@dataclass(frozen=True, kw_only=True)
class Schema:
    """Assigns roles to the columns of a table.

    The fields have one form for all forms of the arguments: ``cell``, ``attributes`` and ``stored``
    are tuples of column names (or None), ``text`` and ``vector`` tuples of (arm, options). So
    schemas with the same meaning are equal and have the same hash.

    Parameters
    ----------
    key : str
        The column of the user's ids, string or integer, unique within a cell.
    cell : str or sequence of str or None
        The columns whose values together form a row's cell, the unit of authorisation and of
        statistics. There is no default; None means that the whole table has one audience.
    text : str or Text or mapping or sequence, default ()
        Lexical arms: a column (which names the arm), several columns (an arm each), or ``{arm:
        column or Text}``. One ``Text`` of several columns alone is the arm ``"text"``.
    vector : str or Vector or MaxSim or mapping or sequence, default ()
        Dense arms, in the same forms: ``{arm: column or Vector}``.
    attributes : str or sequence of str, default ()
        Columns to filter by.
    cluster : str, optional
        Sorts the rows of a cell, so that range filters on it read fewer rows; a number, date or
        timestamp column.
    stored : str or sequence of str, optional
        Columns that hits can return, besides the key, cell and attribute columns; default: the
        text columns.
    thread : str, optional
        The column that says of which thread a row is a part: a session, a conversation, or a
        document that is cut into rows. It becomes an attribute; strings, integers, booleans, dates
        or times. A thread lies within one cell; a null is in no thread. :class:`hyrecall.Around`
        reads it.
    place : str, optional
        The column that orders the rows of a thread: a number, date or time, which becomes an
        attribute. Nulls come last, equal places in the order of insertion. Default: the order of
        insertion.
    speaker : str, optional
        The column that says who said a row, or what kind of row it is. It becomes an attribute.
        :class:`hyrecall.Prior` reads it where no column is named.

    Raises
    ------
    OptionError
        A name that is empty, given twice or reserved for a result column, no arm, or ``place``
        without ``thread``.

    Examples
    --------
    >>> schema = Schema(key="id", cell="user_id", text="text", vector="embedding")
    >>> schema.row_columns
    ('id', 'user_id', 'text')
    """

    key: str
    cell: str | Sequence[str] | None
    text: TextArms = ()
    vector: VectorArms = ()
    attributes: str | Sequence[str] = ()
    cluster: str | None = None
    stored: str | Sequence[str] | None = None
    thread: str | None = None
    place: str | None = None
    speaker: str | None = None

    def __post_init__(self) -> None:
        """Check every name and normalize the fields."""
        _name("key", self.key)
        if self.cell is not None:
            convert_field(self, "cell", _names)
            if not self.cell:
                wish = "cell columns, or None for a table with one audience"
                raise error(OptionError, "cell", wish, "()")
        set_fields(self, text=tuple(_arms("text", self.text, Text)))
        set_fields(self, vector=tuple(_arms("vector", self.vector, Vector)))
        convert_field(self, "attributes", _names)
        self._take_thread()
        if self.cluster is not None:
            _name("cluster", self.cluster)
        if self.stored is not None:
            convert_field(self, "stored", _names)
        self._check_arms()
        self._check_result_columns()

    @property
    def cell_columns(self) -> tuple[str, ...]:
        """The cell columns; empty if the table has one audience."""
        return cast("tuple[str, ...]", self.cell or ())

    @property
    def text_arms(self) -> dict[str, Text]:
        """The lexical arms by name, in declared order."""
        return dict(cast("tuple[tuple[str, Text], ...]", self.text))

    @property
    def vector_arms(self) -> dict[str, Vector]:
        """The dense arms by name, in declared order."""
        return dict(cast("tuple[tuple[str, Vector], ...]", self.vector))

    @property
    def one_vector_arms(self) -> dict[str, Vector]:
        """The dense arms whose rows have one vector each."""
        return {a: one for a, one in self.vector_arms.items() if type(one) is Vector}

    @property
    def text_columns(self) -> tuple[str, ...]:
        """The columns of the lexical arms, each once."""
        return _unique(c for text in self.text_arms.values() for c in text.columns)

    @property
    def first_texts(self) -> tuple[str, ...]:
        """The columns of the first lexical arm, which together form the text of a hit."""
        return next((text.columns for text in self.text_arms.values()), ())

    @property
    def stored_columns(self) -> tuple[str, ...]:
        """The columns that hits can return in addition to key, cells and attributes."""
        return self.text_columns if self.stored is None else cast("tuple[str, ...]", self.stored)

    @cached_property
    def row_columns(self) -> tuple[str, ...]:
        """The columns kept per row: key, cells, attributes, cluster, stored; each once."""
        cluster = () if self.cluster is None else (self.cluster,)
        named = (self.key, *self.cell_columns, *self.attributes, *cluster, *self.stored_columns)
        return _unique(named)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON, without analyzers and BM25 options."""
        threads = {"thread": self.thread, "place": self.place} if self.thread is not None else {}
        if self.speaker is not None:
            threads["speaker"] = self.speaker
        return threads | {
            "key": self.key,
            "cell": None if self.cell is None else list(self.cell),
            "text": {
                arm: {"columns": list(text.columns), "weights": dict(text.weights)}
                if text.weights
                else list(text.columns)
                for arm, text in self.text_arms.items()
            },
            "vector": {
                arm: {"column": vector.column, "dtype": vector.dtype}
                | ({} if type(vector) is Vector else {"form": form_of(vector)})
                for arm, vector in self.vector_arms.items()
            },
            "attributes": list(self.attributes),
            "cluster": self.cluster,
            "stored": None if self.stored is None else list(self.stored),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Schema:
        """Make a schema from the result of :meth:`to_dict`, without analyzers and BM25 options."""
        threads = {"thread", "place"}  # both, or neither: a schema without them
        wanted = {field.name for field in fields(cls)} - threads - {"speaker"}
        if isinstance(data, Mapping):
            wanted |= {"speaker"} & set(data)
            wanted |= threads if threads & set(data) else set()
        if not isinstance(data, Mapping) or set(data) != wanted:
            got = sorted(map(str, data)) if isinstance(data, Mapping) else type(data).__name__
            raise error(OptionError, "schema", f"a mapping with exactly {sorted(wanted)}", got)
        rest = {name: data[name] for name in wanted - {"text", "vector"}}
        try:
            text = {arm: _text_of(given) for arm, given in data["text"].items()}
            vector = {arm: _vector_of(**options) for arm, options in data["vector"].items()}
        except (AttributeError, KeyError, TypeError) as fault:
            wish = "text as {arm: [column]} and vector as {arm: {column, dtype}}"
            raise error(OptionError, "schema", wish, fault) from fault
        return cls(text=text, vector=vector, **rest)

    def _take_thread(self) -> None:
        """Make the columns of threads, places and speakers attributes."""
        if self.place is not None and self.thread is None:
            raise error(OptionError, "place", "thread= beside it", "none")
        for argument in ("thread", "place", "speaker"):
            name = getattr(self, argument)
            if name is not None:
                attributes = cast("tuple[str, ...]", self.attributes)
                set_fields(self, attributes=_unique((*attributes, _name(argument, name))))

    def _check_arms(self) -> None:
        if not self.text and not self.vector:
            raise error(OptionError, "schema", "at least one text or vector arm", "none")
        shared = self.text_arms.keys() & self.vector_arms.keys()
        if shared:
            wish = "names that no text arm has (weights and floors go by arm)"
            raise error(OptionError, "vector", wish, _listed(sorted(shared)))

    def _check_result_columns(self) -> None:
        """Refuse every name that would occur twice in a result table."""
        taken = dict.fromkeys(RESULT_COLUMNS, "reserved for a column of results")
        for arm in (*self.text_arms, *self.vector_arms):
            taken |= {f"{arm}_{what}": f"the {what} of arm {arm!r}" for what in ("score", "rank")}
        if self.key == "key":  # then the key column is the result column
            del taken["key"]
        used = {
            "key": (self.key,),
            "cell": self.cell_columns,
            "attributes": self.attributes,
            "cluster": (self.cluster,),
            "stored": self.stored_columns,
        }
        for argument, names in used.items():
            remedy = ""
            if argument == "stored" and self.stored is None:
                remedy = "to index it anyway, pass stored="
            for name in names:
                if name in taken:
                    wish = "no name of a result column (rename the column)"
                    raise error(OptionError, argument, wish, f"{name!r}, {taken[name]}", remedy)


def _listed(names: Iterable[object]) -> str:
    return ", ".join(map(repr, names))


def _unique(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))


def _name(argument: str, value: object) -> str:
    if not isinstance(value, str) or not value:
        raise error(OptionError, argument, "a column name", repr(value))
    check_unicode(argument, value)
    return value


def _names(argument: str, value: object) -> tuple[str, ...]:
    """Check a column name or a sequence of distinct names; return a tuple."""
    if isinstance(value, str):
        value = (value,)
    if not isinstance(value, Sequence):
        raise error(OptionError, argument, "a column name or a sequence of them", repr(value))
    names = tuple(_name(argument, name) for name in value)
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise error(OptionError, argument, "each column once", f"{twice!r} twice")
    return names


def _weights(columns: Sequence[str], given: object) -> tuple[tuple[str, int], ...]:
    """Check the weights of columns; return those other than 1, in the order of the columns."""
    if given is None:
        return ()
    if not isinstance(given, Mapping):
        raise error(DTypeError, "weights", "a mapping {column: weight}", repr(given))
    for column, weight in given.items():
        if column not in columns:
            wish = f"columns of the arm, {_listed(columns)}"
            raise error(OptionError, "weights", wish, repr(column))
        whole, wish = as_int(weight), f"a whole number in [1, {MOST_WEIGHT}]"
        if whole is None:
            raise error(DTypeError, f"weights[{column!r}]", wish, repr(weight))
        if not 1 <= whole <= MOST_WEIGHT:
            raise error(OptionError, f"weights[{column!r}]", wish, whole)
    whole_of = {column: int(given.get(column, 1)) for column in columns}
    return tuple((column, weight) for column, weight in whole_of.items() if weight != 1)


def _text_of(given: Any) -> Text:
    """Make an arm from its plain data: columns, or columns and weights."""
    if not isinstance(given, Mapping):
        return Text(*given)
    if given.keys() != {"columns", "weights"}:
        raise KeyError(*given)
    return Text(*given["columns"], weights=given["weights"])


FORMS: dict[str, type[Vector]] = {"cosine": Vector, "MaxSim": MaxSim, "sparse": Sparse}
"""The kinds of vector arms, by what tables of hits call them."""


def form_of(vector: Vector) -> str:
    """Return the name of an arm's kind."""
    return next(name for name, form in FORMS.items() if form is type(vector))


def _vector_of(*, form: str = "cosine", **options: Any) -> Vector:
    """Make an arm from its plain data."""
    made: Vector = FORMS[form](**options)
    return made


def _arms(argument: str, value: Any, kind: type[Any]) -> Iterable[tuple[str, Any]]:
    """Yield (name, options) of each arm in a mapping, a single arm or a sequence of arms."""
    if value is None:
        return
    if isinstance(value, Mapping):
        items = list(value.items())
    elif isinstance(value, Sequence) and not isinstance(value, str):
        items = [_pair(argument, item, kind) for item in value]
    elif isinstance(value, Text) and kind is Text and len(value.columns) > 1:
        items = [("text", value)]
    else:
        items = [_pair(argument, value, kind)]
    seen: set[str] = set()
    for name, options in items:
        if not isinstance(name, str) or not name:
            raise error(OptionError, argument, "an arm name", repr(name))
        check_unicode(argument, name)
        if name in seen:
            raise error(OptionError, argument, "each arm once", f"{name!r} twice")
        if not isinstance(options, str | kind):
            wish = f"a column name or hr.{kind.__name__} for arm {name!r}"
            raise error(OptionError, argument, wish, repr(options))
        seen.add(name)
        yield name, kind(options) if isinstance(options, str) else options


def _pair(argument: str, item: Any, kind: type[Any]) -> tuple[Any, Any]:
    """Return an arm without a name together with its name, that of its only column."""
    if isinstance(item, str):
        return item, item
    if isinstance(item, Vector) and kind is Vector:
        return item.column, item
    if isinstance(item, Text) and kind is Text:
        if len(item.columns) > 1:
            wish = f"a name for an arm of several columns, {{name: {item!r}}}"
            raise error(OptionError, argument, wish, "none")
        return item.columns[0], item
    if isinstance(item, tuple) and len(item) == 2 and isinstance(item[1], kind):
        return item  # the normalized form, so that dataclasses.replace works
    wish = f"column names, hr.{kind.__name__} or a mapping of arms"
    raise error(OptionError, argument, wish, repr(item))
