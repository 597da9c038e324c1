"""Makes the parameters of a command: types of the function's signature, texts of its docstring.

Positional parameters are arguments, keyword-only ones options. The docstring ends with entries::

    Options
    query TEXT: The text to look for.
    tags --tag TAG: A tag; repeat for several. [default: those of the recipe]

An entry has the parameter's name, its flags where they differ from the name, what its value is
called, and the text that the help shows. A line without a text names parameters whose entries stand
elsewhere: in ``SHARED`` of the module, or in :data:`SHARED`. So do those that no line names. Each
heading is one of the help. ``$NAMES`` is a constant of the module or of this one, whose names are
listed.

``**whose: Unpack[Whose]`` stands for an option for each key, behind ``path`` or what is required.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from string import Template
from typing import Annotated, Any, Final, Literal, TypedDict, get_args, get_origin, get_type_hints

import typer

from hyrecall import recipes
from hyrecall.cli.help import Command, Group
from hyrecall.segments.opening import PINNED_PARTS

PARTS: Final = PINNED_PARTS
ALL_RECIPES: Final = tuple(recipes.__all__)
RECIPES: Final = tuple(
    name for name in ALL_RECIPES if (one := getattr(recipes, name)) == one.without_graphs()
)
"""The recipes that do not need a graph."""

SHARED: Final = """
path DIR: Folder of the store. [default: HYRECALL_PATH, the setting path, or
    ~/.local/share/hyrecall/memory]
user_id --user NAME: The user whose memories these are. [default: memories without a user, not those
    of all users]
org NAME: The organisation of the user.
workspace NAME: The workspace within --org.
as_json --json: Write one JSON object.
tags --tag TAG: A tag; repeat for several.
limit N: The number of hits per query.
offset N: The number of first hits to skip.
depth N: The number of candidates of each arm.
normalize: Divide scores by the best possible score, so that they are in [0, 1].
min_fused SCORE: The lowest fused score.
fusion HOW: How to fuse the arms: rrf, rrf:60, rrf:alpha=0.5, rrf:text=2,embedding=1,
    sum:text=0.7,embedding=0.3, sum:none, max or dbsf. [default: for several arms, the fusion of the
    recipe default]
bm25 [ARM=]VARIANT[:K1[:B[:DELTA]]]: The BM25 variant and its constants: lucene:1.2:0.75, okapi,
    fts5, robertson, atire, bm25+:1.2:0.75:1.0 or bm25l; with ARM= for one arm. [default: those of
    the index]
scope CELL: A cell that the query may see; repeat the option for several. With several cell columns,
    a JSON list: '["acme", "shared"]'. The null cell is '[null]'.
embed: Embed the query with the packaged static model (extra [local]); use it only if that model
    also made the vectors of the documents.
threads N: The most threads to use. [default: all that the machine allows]
memory: Map the files of the index, or read them whole into memory. [default: mmap]
verify: Compare all checksums of the index at the start, or most of them when they are first read.
    [default: full below 8 GB]
pin PART: Lock a part of the mapped index in memory: $PARTS; repeat the option or use commas for
    several.
"""
"""The options that commands of several modules have."""


class InPartition(TypedDict):
    """Options that name an org and a workspace of a store."""

    org: str | None
    workspace: str | None


class Whose(InPartition):
    """Options that name a user of a store, as its methods take them."""

    user_id: str | None


_ORDER: Final = {"path": 0, "user_id": 1, "org": 2, "workspace": 3}
"""A class has the keys of its bases first, and help a user before its partition."""

_HEADING: Final = re.compile(r"^(Arguments|Options(?: of [\w ]+)?)$", re.MULTILINE)
_ENTRY: Final = re.compile(r"(\w+)((?: --?[a-z][\w-]*)*)(?: (\S+))?: (.+?)(?: \[default: (.+)\])?")


def declared(function: Callable[..., None]) -> Callable[..., None]:
    """Return the function with the signature and the docstring that typer reads."""
    if "__signature__" in vars(function):
        return function
    names = globals() | vars(sys.modules[function.__module__])
    about, *rest = _HEADING.split(inspect.cleandoc(function.__doc__ or ""))
    told, headings = _entries(SHARED, globals()), dict[str, str]()
    told |= _entries(names.get("SHARED", ""), names)
    for heading, text in zip(rest[::2], rest[1::2], strict=True):
        own = _entries(text, names)
        told |= {name: one for name, one in own.items() if one is not None}
        headings |= dict.fromkeys(own, heading)
    hints = get_type_hints(function, include_extras=True)
    parameters = list(_expanded(inspect.signature(function), hints))
    stray = headings.keys() - {one.name for one in parameters}
    assert not stray, f"entries without a parameter: {stray}"
    made = [
        _annotated(one, hints[one.name], told.get(one.name), headings.get(one.name))
        for one in parameters
    ]
    vars(function)["__signature__"] = inspect.Signature(made)
    function.__doc__ = about.strip()
    return function


def shared(name: str, kind: Any, default: Any = None) -> inspect.Parameter:
    """Return an option that commands share."""
    made = inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default)
    return _annotated(made, kind, _entries(SHARED, globals())[name], None)


def group(name: str, about: str, *functions: Callable[..., Any], cls: Any = Group) -> typer.Typer:
    """Return a group of commands, each of which has the name of its function."""
    made = typer.Typer(
        name=name, cls=cls, help=about, no_args_is_help=True, add_completion=False,
        rich_markup_mode=None,
    )  # fmt: skip
    made.callback()(_keep_name)
    for one in functions:
        made.command(one.__name__.strip("_"), cls=Command)(declared(one))
    return made


def _keep_name() -> None:
    """Let a group of a single command stay a group."""


def _entries(text: str, names: Mapping[str, Any]) -> dict[str, re.Match[str] | None]:
    """Return the entries of a text by their names; None: a name without an entry."""
    filled = Template(re.sub(r"\n +", " ", text.strip())).safe_substitute(_Joined(names))
    found: dict[str, re.Match[str] | None] = {}
    for line in filled.splitlines():
        if one := _ENTRY.fullmatch(line):
            found[one[1]] = one
        else:
            found |= dict.fromkeys(line.split(", "))
    return found


class _Joined(dict[str, Any]):
    """Constants of a module, with the names of a list in one text."""

    def __getitem__(self, name: str) -> str:
        value = super().__getitem__(name)
        return value if isinstance(value, str) else ", ".join(value)


def _expanded(signature: inspect.Signature, hints: dict[str, Any]) -> Iterator[inspect.Parameter]:
    """Yield the parameters of a function, with those that a ``TypedDict`` stands for."""
    plain = list(signature.parameters.values())
    more: list[inspect.Parameter] = []
    if plain and plain[-1].kind is inspect.Parameter.VAR_KEYWORD:
        (shape,) = get_args(hints[plain.pop().name])
        kinds = get_type_hints(shape)
        hints |= kinds
        for name in sorted(kinds, key=lambda one: _ORDER.get(one, len(_ORDER))):
            default = False if kinds[name] is bool else None
            more.append(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default))
    is_free = [_is_free_option(one) for one in plain]
    first = is_free.index(True) if True in is_free else len(plain)
    at = next((at + 1 for at, one in enumerate(plain) if one.name == "path"), first)
    yield from (*plain[:at], *more, *plain[at:])


def _is_free_option(one: inspect.Parameter) -> bool:
    """Return whether a parameter is an option that may be left out."""
    is_option = one.kind is inspect.Parameter.KEYWORD_ONLY
    return is_option and one.default is not inspect.Parameter.empty


def _annotated(
    one: inspect.Parameter, kind: Any, told: re.Match[str] | None, heading: str | None
) -> inspect.Parameter:
    """Return a parameter with what its entry says, as typer takes it."""
    if kind is typer.Context:
        return one.replace(annotation=kind)
    assert told is not None, f"no entry for {one.name}"
    name, flags, metavar, text, default = told.groups()
    if one.kind is not inspect.Parameter.KEYWORD_ONLY:
        info = typer.Argument(metavar=metavar, help=text, show_default=default or True)
        return one.replace(annotation=Annotated[kind, info])
    choices = next((part for part in (kind, *get_args(kind)) if get_origin(part) is Literal), None)
    if metavar is None and choices is not None:
        metavar = "|".join(get_args(choices))
    info = typer.Option(
        *(flags.split() or [f"--{name.replace('_', '-')}"]),
        metavar=metavar, help=text, show_default=default or True, rich_help_panel=heading,
    )  # fmt: skip
    return one.replace(annotation=Annotated[kind, info])
