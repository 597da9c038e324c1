"""Checks and converts arguments, and refuses keywords that a public call does not take."""

from __future__ import annotations

import contextlib
import functools
import inspect
import math
import operator
import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from numbers import Integral, Real
from pathlib import Path
from typing import Any, Concatenate, Final, ParamSpec, TypeVar, TypeVarTuple

import numpy as np

from hyrecall import _core
from hyrecall.errors import DTypeError, OptionError, UnknownOptionError, error

Args = TypeVarTuple("Args")
set_field = object.__setattr__

NAME_BYTES = 255
"""The longest name of a file or folder on Linux."""

MOST_ALIKE = 64
"""Values of one hash; of floats and of int64, some 30 have the same."""

PATH_BYTES = 4000
"""Linux allows 4,095; the rest is for the names of files in a folder."""


def set_fields(instance: object, /, **values: object) -> None:
    """Set fields of a frozen instance; only for use by its own class."""
    for name, value in values.items():
        set_field(instance, name, value)


def convert_field(
    instance: object,
    name: str,
    read: Callable[[str, Any, *Args], object],
    /,
    *args: *Args,
) -> None:
    """Replace a field of a frozen dataclass by the result of ``read(name, value, ...)``."""
    set_field(instance, name, read(name, getattr(instance, name), *args))


def python_scalar(value: Any) -> Any:
    """Convert a NumPy scalar to a Python scalar; return any other value unchanged."""
    return value.item() if isinstance(value, np.generic) else value


def as_int(value: Any) -> int | None:
    """Convert an integer of any library to int; return None for a bool or a non-integer."""
    if isinstance(value, bool):
        return None
    try:
        return operator.index(value)
    except TypeError:
        return None


def number(argument: str, value: object, low: float, high: float, wish: str) -> float:
    """Return a number as float; refuse one that is not finite or is outside [low, high]."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise error(DTypeError, argument, wish, f"{type(value).__name__} {value!r}")
    try:
        given = float(value)
    except OverflowError:
        given = math.inf
    if not (math.isfinite(given) and low <= given <= high):
        raise error(OptionError, argument, wish, value)
    return given


def is_one_of(value: object, known: Iterable[str]) -> bool:
    """Return whether a value is a str among `known`; False for an array, which == would compare."""
    return isinstance(value, str) and value in known


def one_of(argument: str, value: object, known: tuple[str, ...]) -> None:
    """Refuse a value that is not one of some names."""
    if not is_one_of(value, known):
        raise error(OptionError, argument, f"one of {known}", repr(value))


def check_hashes(values: Sequence[Any]) -> None:
    """Refuse values of another process that were chosen to collide, as multiples of 2^61 - 1."""
    # A set or a dict of them takes quadratic time. Values without a hash are not counted.
    with contextlib.suppress(TypeError):  # one has no hash, such as a list
        if max(Counter(map(hash, values)).values(), default=0) <= MOST_ALIKE:
            return
    firsts: dict[int, Any] = {}
    alike = Counter[int]()
    for value in values:
        with contextlib.suppress(TypeError):
            alike[hash(value)] += firsts.setdefault(hash(value), value) != value
    if max(alike.values(), default=0) > MOST_ALIKE:
        raise ValueError("values with equal hashes")


def check_unicode(argument: str, text: str) -> None:
    """Refuse a lone surrogate, which neither a file nor an Arrow column can hold."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise error(OptionError, argument, "valid Unicode", repr(text)) from None


def as_items(value: object) -> tuple[Any, ...] | None:
    """Return the items of an iterable, or None for a value that cannot be iterated."""
    # Those of an Arrow array are Python's, as :func:`as_list` converts them.
    if hasattr(value, "to_pylist"):
        value = as_list(value)
    try:
        return tuple(value)  # type: ignore[arg-type]
    except TypeError:
        return None


_SEQUENCES: Final = (list, tuple)


def as_list(value: Any) -> Any:
    """Convert an Arrow array or a series to a list with None for missing values."""
    # Any other value is returned unchanged.
    if isinstance(value, _SEQUENCES):
        return value
    if hasattr(value, "to_pylist"):  # Arrow
        for chunk in getattr(value, "chunks", (value,)):
            _core.check_layout(chunk, "values")
        return value.to_pylist()
    if hasattr(value, "isna") and hasattr(value, "tolist"):  # pandas: NaN, NaT and NA are missing
        missing = value.isna().tolist()
        return [None if gone else one for one, gone in zip(value.tolist(), missing, strict=True)]
    return value.to_list() if hasattr(value, "to_list") else value  # polars


def position_in(n: int, index: Any, what: str) -> int:
    """Return the position in [0, n) of an index; a negative index counts from the end."""
    at = as_int(index)
    if at is None:
        got = f"{type(index).__name__} {index!r}"
        raise error(DTypeError, "index", f"the number of a {what}, or a slice", got)
    if not -n <= at < n:
        raise IndexError(f"{what} {at} of {n}")
    return at % n


def home_path(argument: str, path: str) -> str:
    """Return a path with the home folder in place of a leading ``~`` or ``~user``, as shells do."""
    found = os.path.expanduser(path)
    if found.startswith("~") and found.split("/", 1)[0] == "~":
        wish = "a path, since this user has no home folder (HOME) that ~ stands for"
        raise error(OptionError, argument, wish, repr(path))
    return found


_URL = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]+):/")  # a Path has one slash where a URL has two


def read_path(value: str | os.PathLike[str]) -> Path:
    """Convert a path and refuse one that the system cannot store; ``~`` is the home folder."""
    try:
        path = Path(home_path("path", os.fspath(Path(value))))
        if not os.fspath(value):
            raise error(OptionError, "path", "a path", repr(value))
        if url := _URL.match(os.fspath(value)):  # else a folder of that name would be made here
            got = f"a URL, {url[1]}://; hyrecall push and pull copy a folder to and from one"
            raise error(OptionError, "path", "a path of this machine", got)
    except TypeError:
        wish = "a path (str or os.PathLike)"
        raise error(DTypeError, "path", wish, f"{type(value).__name__} {value!r}") from None
    try:
        lengths = [len(os.fsencode(name)) for name in path.parts]
    except UnicodeEncodeError:
        raise error(OptionError, "path", "a path of valid Unicode", ascii(str(path))) from None
    if "\0" in str(path):
        raise error(OptionError, "path", "a path without NUL", ascii(str(path)))
    if max(lengths, default=0) > NAME_BYTES:
        got = f"a name of {max(lengths)} bytes"
        raise error(OptionError, "path", f"names of at most {NAME_BYTES} bytes", got)
    if sum(lengths) + len(lengths) > PATH_BYTES:
        got = f"{sum(lengths) + len(lengths)} bytes"
        raise error(OptionError, "path", f"at most {PATH_BYTES} bytes", got)
    return path


# ---- Checks the keywords of a public call before it runs, and suggests the right one
# for a wrong one
# ``check_keywords`` wraps a function, or every public method of a class. Signatures stay exact for
# type checkers and for :func:`inspect.signature`.

F_ = TypeVar("F_", bound=Callable[..., Any])
P_ = ParamSpec("P_")
T_ = TypeVar("T_")
C_ = TypeVar("C_", bound=type[Any])

_LIMIT: Final = ("limit", "rank_constant", "k1", "k", "n", "max_tokens")
_SCOPE: Final = ("scope", "user_id", "cell", "org")
_TEXT: Final = ("text", "query", "texts")
_VECTOR: Final = ("vector", "vectors")

# What other libraries call an option (lower case, without underscores): what it may be called here.
SYNONYMS: Final[dict[str, tuple[str, ...]]] = {
    **dict.fromkeys(("k", "topk", "topn", "n", "nresults", "numresults", "maxresults"), _LIMIT),
    **dict.fromkeys(("limit", "size", "count", "maxhits"), _LIMIT),
    **dict.fromkeys(("user", "username", "owner", "agentid"), ("user_id", "scope", "agent")),
    **dict.fromkeys(("tenant", "namespace", "partition", "collection", "scope"), _SCOPE),
    **dict.fromkeys(("tenantid", "userid", "cells"), _SCOPE),
    **dict.fromkeys(("where", "filters", "predicate", "condition"), ("filter",)),
    **dict.fromkeys(("query", "queries", "q", "querytext", "querytexts", "texts"), _TEXT),
    **dict.fromkeys(
        ("text", "content", "message", "body", "memory", "question", "output", "episode"), _TEXT
    ),
    **dict.fromkeys(("embedding", "embeddings", "queryvector", "queryembeddings"), _VECTOR),
    **dict.fromkeys(("vec", "queryembedding", "vectors", "vector"), _VECTOR),
    **dict.fromkeys(("embed", "model", "encoder", "embeddingfunction"), ("embedder",)),
    **dict.fromkeys(("rerank", "reranker", "crossencoder"), ("reranker", "shaping")),
    **dict.fromkeys(("mmr", "dedup", "recency", "stages"), ("shaping",)),
    **dict.fromkeys(("ids", "docids", "id", "key"), ("keys", "ids", "id", "key")),
    **dict.fromkeys(
        ("data", "df", "documents", "docs", "rows"), ("table", "texts", "episodes", "metadata")
    ),
    **dict.fromkeys(("metadatas", "meta", "payload"), ("metadata", "metadatas")),
    **dict.fromkeys(("fields", "select", "include", "outputfields", "withpayload"), ("columns",)),
    **dict.fromkeys(("skip", "start", "page"), ("offset",)),
    **dict.fromkeys(("orderby", "order", "sortby"), ("sort",)),
    **dict.fromkeys(("groupby", "distinct", "collapse"), ("group",)),
    **dict.fromkeys(("aggs", "aggregations", "facetby"), ("facets",)),
    **dict.fromkeys(("numcandidates", "fetchk", "prefetch", "candidates"), ("depth",)),
    **dict.fromkeys(("ranker", "fuse", "hybrid"), ("fusion", "recipe")),
    **dict.fromkeys(
        ("threshold", "scorethreshold", "minsimilarity", "cutoff"), ("min_score", "threshold")
    ),
    **dict.fromkeys(("lambda", "lambdamult", "diversity"), ("relevance_weight",)),
    **dict.fromkeys(("weight", "alpha"), ("weights", "alpha")),
    **dict.fromkeys(("workers", "nthreads", "numthreads", "njobs"), ("threads",)),
    **dict.fromkeys(("tokenizer", "tokenize"), ("analyzer",)),
    **dict.fromkeys(("dims", "dimension", "dimensions", "ndim"), ("dim",)),
    **dict.fromkeys(("session", "conversation", "conversationid"), ("session_id", "session")),
    **dict.fromkeys(("timestamp", "time", "when", "date"), ("occurred_at", "now", "since")),
    **dict.fromkeys(("timerange", "after", "from", "fromtime", "starttime"), ("since",)),
    **dict.fromkeys(("before", "to", "totime", "endtime"), ("until",)),
    **dict.fromkeys(("nodes", "members", "ends"), ("participants",)),
    **dict.fromkeys(("matches", "memories", "notes"), ("episodes",)),
    **dict.fromkeys(("tag", "labels"), ("tags",)),
    **dict.fromkeys(("gpu", "cuda", "usegpu"), ("device",)),
    **dict.fromkeys(("folder", "directory", "filename", "uri"), ("path",)),
    **dict.fromkeys(("force", "existok"), ("overwrite", "force")),
    **dict.fromkeys(("timeout",), ("embed_timeout", "recall_timeout")),
    **dict.fromkeys(("decay",), ("half_life",)),
    **dict.fromkeys(("maxtokens", "budget", "tokens"), ("token_budget", "max_tokens", "tokens")),
}

_UNPACKED = re.compile(r"(?:\w+\.)?Unpack\[(\w+)\]")
_NAMED: Final = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def check_keywords(target: F_) -> F_:
    """Refuse unknown keywords of a function, or of every public method of a class, by name."""
    # ``**options`` annotated as ``Unpack[...]`` of a ``TypedDict`` takes the names of that
    # ``TypedDict``. A function with any other ``**options`` takes every name and stays unchecked.
    if not isinstance(target, type):
        checked: F_ = _checked(target, target.__name__)
        return checked
    made_by = inspect.getattr_static(target, "__init__")  # inherited, too
    if inspect.isfunction(made_by):
        setattr(target, "__init__", _checked(made_by, target.__name__))  # noqa: B010
    return check_methods(target)


def check_methods(target: C_) -> C_:
    """Refuse unknown keywords of a class's public methods, but not of its constructor."""
    for name, member in list(vars(target).items()):
        if name.startswith("_"):
            continue
        if inspect.isfunction(member):
            setattr(target, name, _checked(member, name))
        elif isinstance(member, classmethod | staticmethod):
            setattr(target, name, type(member)(_checked(member.__func__, name)))
    return target


def same_arguments(source: Callable[P_, Any]) -> Callable[[Callable[..., T_]], Callable[P_, T_]]:
    """Copy the signature of `source` to a function that passes its ``**options`` to it."""

    def give(function: Callable[..., T_]) -> Callable[P_, T_]:
        own = inspect.signature(function)
        like = inspect.signature(source)
        shown = like.replace(return_annotation=own.return_annotation)
        vars(function)["__signature__"] = shown
        return function

    return give


def same_options(
    source: Callable[Concatenate[Any, P_], Any],
) -> Callable[[Callable[..., T_]], Callable[Concatenate[Any, P_], T_]]:
    """Copy the signature of a method of another class, as :func:`same_arguments` does."""
    return same_arguments(source)


def unknown_option(call: str, given: Iterable[str], known: Sequence[str]) -> UnknownOptionError:
    """Make the error for the first given keyword that the call does not know."""
    wrong = next(name for name in given if name not in known)
    if not known:
        return error(UnknownOptionError, call, "no options", repr(wrong))
    near = nearest(wrong, known)
    hint = f"did you mean {near}=?" if near else ", ".join(known)
    return error(UnknownOptionError, call, f"one of its options ({hint})", repr(wrong))


def nearest(wrong: str, known: Iterable[str]) -> str | None:
    """Return the intended option: other case or underscores, a synonym, or a near spelling."""
    from difflib import get_close_matches

    known = list(known)
    plain = _squeezed(wrong)
    same = [name for name in known if _squeezed(name) == plain]
    meant = [name for name in SYNONYMS.get(plain, ()) if name in known]
    near = get_close_matches(wrong.lower(), known, n=1, cutoff=0.7)
    return next(iter((*same, *meant, *near)), None)


def _squeezed(name: str) -> str:
    return name.replace("_", "").lower()


def _checked(function: Callable[..., Any], called: str) -> Any:
    signature = _unpacked(function)
    parameters = list(signature.parameters.values())
    if any(one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters):
        return function
    names = [one.name for one in parameters if one.kind in _NAMED and one.name not in _OWNERS]
    known = frozenset(names)
    by_name = [one.name for one in parameters if one.kind is inspect.Parameter.KEYWORD_ONLY]
    takes_any = any(one.kind is inspect.Parameter.VAR_POSITIONAL for one in parameters)
    most = sys.maxsize if takes_any else len(parameters) - len(by_name)

    def refused(args: tuple[Any, ...], options: dict[str, Any]) -> UnknownOptionError:
        if len(args) <= most:
            return unknown_option(called, options, names)
        shown = ", ".join([f"{name}=" for name in by_name[:3]] + ["..."] * (len(by_name) > 3))
        wish = f"options by name ({shown})" if by_name else "no more values"
        return error(UnknownOptionError, called, wish, f"{repr(args[most])[:80]} without a name")

    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def awaited(*args: Any, **options: Any) -> Any:
            if len(args) > most or not options.keys() <= known:
                raise refused(args, options)
            return await function(*args, **options)

        call: Any = awaited
    else:

        @functools.wraps(function)
        def direct(*args: Any, **options: Any) -> Any:
            if len(args) > most or not options.keys() <= known:
                raise refused(args, options)
            return function(*args, **options)

        call = direct
    call.__signature__ = signature
    return call


_OWNERS: Final = ("self", "cls")
_MANY = re.compile(r"(Sequence|Mapping|tuple)\[(?:str, )?([\w.]+)[^|]*\]")
_KINDS: Final = {"float": Real, "int": Integral, "bool": object, "Any": object}


def check_objects(target: F_) -> F_:
    """Refuse unknown keywords, and arguments of another class than a function's annotations."""
    # It reads a class, a sequence of it or a mapping to it, each with or without None, and a
    # callable. Other annotations, and bool, take any value.
    if isinstance(target, type):
        made_by = inspect.getattr_static(target, "__init__")
        setattr(target, "__init__", check_objects(made_by))  # noqa: B010
        return check_methods(target)
    checked: Any = check_keywords(target)
    parameters = inspect.signature(target).parameters
    written = {name: str(one.annotation) for name, one in parameters.items()}

    def check(args: tuple[Any, ...], options: dict[str, Any]) -> None:
        for name, value in (*zip(written, args, strict=False), *options.items()):
            annotation = written.get(name, "").removesuffix(" | None")
            if value is not None or annotation == written.get(name):
                check_object(name, value, annotation, target.__globals__)

    @functools.wraps(checked)
    async def awaited(*args: Any, **options: Any) -> Any:
        check(args, options)
        return await checked(*args, **options)

    @functools.wraps(checked)
    def direct(*args: Any, **options: Any) -> Any:
        check(args, options)
        return checked(*args, **options)

    call: Any = awaited if inspect.iscoroutinefunction(target) else direct
    return call  # type: ignore[no-any-return]


def check_object(name: str, value: Any, annotation: str, names: dict[str, Any]) -> None:
    """Refuse a value that is not of the class that an annotation names."""
    many = _MANY.fullmatch(annotation)
    word = many[2] if many else annotation
    module, _, last = word.rpartition(".")
    found = getattr(names.get(module), last, None) if module else names.get(word)
    kind = _KINDS.get(word) or getattr(found, "__origin__", found)
    last = last if word in _KINDS else getattr(kind, "__name__", last)
    wish = f"{'an' if last[:1] in 'AEIaei' else 'a'} {last}"
    if annotation.startswith("Callable["):
        wish, fits = "a callable", callable(value)
    elif not last.isidentifier() or not isinstance(kind, type | None) or last == "Callable":
        return  # a union, or a name of a callable, which the function itself checks
    else:
        items: tuple[Any, ...] | None = (value,)
        if many and many[1] == "Mapping":
            wish = f"a mapping to {last}"
            items = tuple(value.values()) if isinstance(value, Mapping) else None
        elif many:
            wish = f"a sequence of {last}"
            items = None if isinstance(value, str) else as_items(value)
        fits = items is not None and all(_is_a(one, kind, last) for one in items)
    if not fits:
        raise error(DTypeError, name, wish, f"{type(value).__name__} {value!r}")


def _is_a(value: object, kind: type | None, name: str) -> bool:
    if kind is None:  # a built-in class, or one that is imported for type checkers alone
        return name in (one.__name__ for one in type(value).__mro__)
    return isinstance(value, kind)


def _unpacked(function: Any) -> inspect.Signature:
    """Return the signature with the names of an ``Unpack[...]`` in place of ``**options``."""
    # Each is shown with the default ``...``, because it is optional.
    signature = inspect.signature(function)
    parameters = list(signature.parameters.values())
    open_ended = [one for one in parameters if one.kind is inspect.Parameter.VAR_KEYWORD]
    found = _UNPACKED.fullmatch(str(open_ended[0].annotation)) if open_ended else None
    if found is None:
        return signature
    fields = function.__globals__[found[1]]
    more = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=..., annotation=written)
        for name, kind in fields.__annotations__.items()
        for written in [getattr(kind, "__forward_arg__", kind)]
    ]
    return signature.replace(parameters=[*parameters[:-1], *more])
