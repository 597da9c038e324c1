"""The schema of a table: its key, cells, arms, filters and what comes back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast, get_args

from hyrecall.base.arguments import check_unicode, convert_field, is_one_of, set_fields
from hyrecall.base.keywords import check_keywords
from hyrecall.errors import OptionError, error

if TYPE_CHECKING:
    from hyrecall.text.analyzer import Analyzer
    from hyrecall.text.bm25 import BM25

__all__ = ["RESULT_COLUMNS", "STAGE_COLUMNS", "Schema", "Text", "Vector", "VectorDtype"]

VectorDtype: TypeAlias = Literal["float32", "float16", "bfloat16"]

STAGE_COLUMNS = (
    "fused_score", "provenance_weight", "rerank_score", "n_duplicates", "recency_factor",
    "recency_score", "importance_score", "relevance_score", "composite_raw", "token_estimate",
    "mmr_relevance", "mmr_similarity", "general_score", "topical_score", "session_score",
)  # fmt: skip
"""What shaping stages find out, where they run: columns of result tables."""

RESULT_COLUMNS = ("query", "rank", "key", "score", "origin", *STAGE_COLUMNS)
"""Names reserved in result tables; `<arm>_score` and `<arm>_rank` join them for each arm."""


@check_keywords
@dataclass(frozen=True, init=False, repr=False)
class Text:
    """A lexical arm over one or several text columns.

    Parameters
    ----------
    *columns : str
        Columns of the arm, joined with a position gap (a phrase does not cross it). Term
        frequencies and lengths are sums over the columns. A column may feed several arms. Where
        the arm's text is read (``hit.text``, rerankers, budgets), a line break joins them.
    analyzer : Analyzer, optional
        How this arm's documents and queries become tokens; default: the index's.
    bm25 : BM25, optional
        The variant and constants of this arm; default: the index's, or beside other arms those
        of the default ``fusion`` (see :meth:`hyrecall.Index.recall`).

    Raises
    ------
    OptionError
        No column, an empty name, or a name given twice.

    Examples
    --------
    >>> Text("title", "body")
    Text('title', 'body')
    """

    columns: tuple[str, ...]
    analyzer: Analyzer | None
    bm25: BM25 | None

    def __init__(
        self, *columns: str, analyzer: Analyzer | None = None, bm25: BM25 | None = None
    ) -> None:
        """Take the columns in the order in which they are joined."""
        set_fields(self, columns=_names("columns", columns), analyzer=analyzer, bm25=bm25)
        if not self.columns:
            raise error(OptionError, "columns", "at least one text column", "none")

    def __repr__(self) -> str:
        """Show the call that makes this arm."""
        options = {"analyzer": self.analyzer, "bm25": self.bm25}
        shown = [f"{name}={value!r}" for name, value in options.items() if value is not None]
        return f"Text({', '.join([*map(repr, self.columns), *shown])})"


@check_keywords
@dataclass(frozen=True)
class Vector:
    """A dense arm over one vector column.

    Parameters
    ----------
    column : str
        The column, or the name under which ``vectors=`` gives the rows.
    dtype : {"float32", "float16", "bfloat16"}, optional
        Precision in which the rows are kept; default: as given (float64 becomes float32). A
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


TextArms: TypeAlias = "str | Text | Mapping[str, str | Text] | Sequence[Any] | None"
VectorArms: TypeAlias = "str | Vector | Mapping[str, str | Vector] | Sequence[Any] | None"


@check_keywords
@dataclass(frozen=True, kw_only=True)
class Schema:
    """Say what the columns of a table are for.

    Whatever form an argument has, the fields hold one: ``cell``, ``attributes`` and ``stored`` are
    tuples of column names (or None), ``text`` and ``vector`` are tuples of (arm, options). So
    schemas that mean the same are equal and hash alike.

    Parameters
    ----------
    key : str
        The column of the user's ids, string or integer, unique within a cell.
    cell : str or sequence of str or None
        The columns whose values together are a row's cell: the unit of authorisation and of
        statistics. There is no default; None says that the whole table has one audience.
    text : str or Text or mapping or sequence, default ()
        Lexical arms: a column (the arm has its name), several (an arm each), or ``{arm: column or
        Text}``.
    vector : str or Vector or mapping or sequence, default ()
        Dense arms, in the same forms: ``{arm: column or Vector}``.
    attributes : str or sequence of str, default ()
        Columns to filter by.
    cluster : str, optional
        Order of the rows inside a cell, so that ranges of it skip zones; a number, date or
        timestamp column.
    stored : str or sequence of str, optional
        Columns that hits can return beside the key, cell and attribute columns; default: the text
        columns.

    Raises
    ------
    OptionError
        A name that is empty, given twice or also the name of a result column; no arm at all.

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

    def __post_init__(self) -> None:
        """Check every name and bring the fields to their one form."""
        _name("key", self.key)
        if self.cell is not None:
            convert_field(self, "cell", _names)
            if not self.cell:
                wish = "cell columns, or None for a table with one audience"
                raise error(OptionError, "cell", wish, "()")
        set_fields(self, text=tuple(_arms("text", self.text, Text)))
        set_fields(self, vector=tuple(_arms("vector", self.vector, Vector)))
        convert_field(self, "attributes", _names)
        if self.cluster is not None:
            _name("cluster", self.cluster)
        if self.stored is not None:
            convert_field(self, "stored", _names)
        self._check_arms()
        self._check_result_columns()

    @property
    def cell_columns(self) -> tuple[str, ...]:
        """The cell columns; none when the table has one audience."""
        return cast("tuple[str, ...]", self.cell or ())

    @property
    def text_arms(self) -> dict[str, Text]:
        """The lexical arms by name, as declared."""
        return dict(cast("tuple[tuple[str, Text], ...]", self.text))

    @property
    def vector_arms(self) -> dict[str, Vector]:
        """The dense arms by name, as declared."""
        return dict(cast("tuple[tuple[str, Vector], ...]", self.vector))

    @property
    def text_columns(self) -> tuple[str, ...]:
        """The columns of the lexical arms, each once."""
        return _unique(c for text in self.text_arms.values() for c in text.columns)

    @property
    def first_texts(self) -> tuple[str, ...]:
        """The columns of the first lexical arm: together they are the text of a hit."""
        return next((text.columns for text in self.text_arms.values()), ())

    @property
    def stored_columns(self) -> tuple[str, ...]:
        """The columns that hits can return beside key, cells and attributes."""
        return self.text_columns if self.stored is None else cast("tuple[str, ...]", self.stored)

    @cached_property
    def row_columns(self) -> tuple[str, ...]:
        """The columns kept per row: key, cells, attributes, cluster, stored; each once."""
        cluster = () if self.cluster is None else (self.cluster,)
        named = (self.key, *self.cell_columns, *self.attributes, *cluster, *self.stored_columns)
        return _unique(named)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON; analyzers and BM25 options are the caller's to add."""
        return {
            "key": self.key,
            "cell": None if self.cell is None else list(self.cell),
            "text": {arm: list(text.columns) for arm, text in self.text_arms.items()},
            "vector": {
                arm: {"column": vector.column, "dtype": vector.dtype}
                for arm, vector in self.vector_arms.items()
            },
            "attributes": list(self.attributes),
            "cluster": self.cluster,
            "stored": None if self.stored is None else list(self.stored),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Schema:
        """Make the schema that :meth:`to_dict` described, without analyzers and BM25 options."""
        wanted = {field.name for field in fields(cls)}
        if not isinstance(data, Mapping) or set(data) != wanted:
            got = sorted(map(str, data)) if isinstance(data, Mapping) else type(data).__name__
            raise error(OptionError, "schema", f"a mapping with exactly {sorted(wanted)}", got)
        rest = {name: data[name] for name in wanted - {"text", "vector"}}
        try:
            text = {arm: Text(*columns) for arm, columns in data["text"].items()}
            vector = {arm: Vector(**options) for arm, options in data["vector"].items()}
        except (AttributeError, TypeError) as fault:
            wish = "text as {arm: [column]} and vector as {arm: {column, dtype}}"
            raise error(OptionError, "schema", wish, fault) from fault
        return cls(text=text, vector=vector, **rest)

    def _check_arms(self) -> None:
        if not self.text and not self.vector:
            raise error(OptionError, "schema", "at least one text or vector arm", "none")
        shared = self.text_arms.keys() & self.vector_arms.keys()
        if shared:
            wish = "names that no text arm has (weights and floors go by arm)"
            raise error(OptionError, "vector", wish, _listed(sorted(shared)))

    def _check_result_columns(self) -> None:
        """Refuse every name that a result table would hold twice."""
        taken = dict.fromkeys(RESULT_COLUMNS, "reserved for a column of results")
        for arm in (*self.text_arms, *self.vector_arms):
            taken |= {f"{arm}_{what}": f"the {what} of arm {arm!r}" for what in ("score", "rank")}
        if self.key == "key":  # the column and the result column are one and the same then
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
                remedy = "to index it all the same, pass stored="
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
    """Take a column name or a sequence of distinct ones."""
    if isinstance(value, str):
        value = (value,)
    if not isinstance(value, Sequence):
        raise error(OptionError, argument, "a column name or a sequence of them", repr(value))
    names = tuple(_name(argument, name) for name in value)
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise error(OptionError, argument, "each column once", f"{twice!r} twice")
    return names


def _arms(argument: str, value: Any, kind: type[Any]) -> Iterable[tuple[str, Any]]:
    """Return (name, options) of each arm: of a mapping, of one arm, or of a sequence of arms."""
    if value is None:
        return
    if isinstance(value, Mapping):
        items = list(value.items())
    elif isinstance(value, Sequence) and not isinstance(value, str):
        items = [_pair(argument, item, kind) for item in value]
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
    """Name an arm that stands without a name: after its one column."""
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
        return item  # the form that the fields hold, so that dataclasses.replace works
    wish = f"column names, hr.{kind.__name__} or a mapping of arms"
    raise error(OptionError, argument, wish, repr(item))
