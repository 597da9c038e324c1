"""Checks the keywords of a public call before it runs, and suggests the right one for a wrong one.

``check_keywords`` wraps a function, or every public method of a class. Signatures stay exact for
type checkers and for :func:`inspect.signature`.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

from hyrecall.errors import UnknownOptionError, error

__all__ = [
    "check_keywords",
    "check_methods",
    "same_arguments",
    "same_options",
    "unknown_option",
]

F_ = TypeVar("F_", bound=Callable[..., Any])
P_ = ParamSpec("P_")
T_ = TypeVar("T_")
C_ = TypeVar("C_", bound=type[Any])

_LIMIT: Final = ("limit", "rank_constant", "k1", "k", "n", "max_tokens")
_SCOPE: Final = ("scope", "user_id", "cell", "org")
_TEXT: Final = ("text", "query", "texts", "output")
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
    **dict.fromkeys(("text", "content", "message", "body", "memory", "question"), _TEXT),
    **dict.fromkeys(("embedding", "embeddings", "queryvector", "queryembeddings"), _VECTOR),
    **dict.fromkeys(("vec", "queryembedding", "vectors", "vector"), _VECTOR),
    **dict.fromkeys(("embed", "model", "encoder", "embeddingfunction"), ("embedder",)),
    **dict.fromkeys(("rerank", "reranker", "crossencoder"), ("reranker", "shaping")),
    **dict.fromkeys(("mmr", "dedup", "recency", "stages"), ("shaping",)),
    **dict.fromkeys(("ids", "docids", "id", "key"), ("keys", "ids", "id", "key")),
    **dict.fromkeys(("data", "df", "documents", "docs", "rows"), ("table", "texts", "episodes")),
    **dict.fromkeys(("metadatas", "meta", "payload"), ("metadata", "metadatas")),
    **dict.fromkeys(("fields", "select", "include", "outputfields", "withpayload"), ("columns",)),
    **dict.fromkeys(("skip", "start"), ("offset",)),
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
    **dict.fromkeys(("timestamp", "time", "when", "date"), ("occurred_at", "now", "time_range")),
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
    near = _nearest(wrong, known)
    hint = f"did you mean {near}=?" if near else ", ".join(known)
    return error(UnknownOptionError, call, f"one of its options ({hint})", repr(wrong))


def _nearest(wrong: str, known: Sequence[str]) -> str | None:
    """Return the intended option: other case or underscores, a synonym, or a near spelling."""
    from difflib import get_close_matches

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

    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def awaited(*args: Any, **options: Any) -> Any:
            if not options.keys() <= known:
                raise unknown_option(called, options, names)
            return await function(*args, **options)

        call: Any = awaited
    else:

        @functools.wraps(function)
        def direct(*args: Any, **options: Any) -> Any:
            if not options.keys() <= known:
                raise unknown_option(called, options, names)
            return function(*args, **options)

        call = direct
    call.__signature__ = signature
    return call


_OWNERS: Final = ("self", "cls")


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
