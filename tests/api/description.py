"""Describes the public API of modules as text: one line for each name, method, property and field.

Only names that a module lists in ``__all__`` are read. The text does not show in which module a
name is defined, which base class brings a method, and how types are annotated: code may move. What
a public base class has just so is told there alone.
"""

import enum
import inspect
import pkgutil
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from types import ModuleType
from typing import Any

PACKAGE = "hyrecall"
# Special methods that callers use through syntax, or that other libraries call.
PROTOCOLS = {
    *("__len__", "__getitem__", "__iter__", "__contains__", "__call__", "__fspath__"),
    *("__enter__", "__exit__", "__aenter__", "__aexit__", "__await__", "__aiter__", "__anext__"),
    *("__and__", "__or__", "__invert__", "__lt__", "__le__", "__gt__", "__ge__"),
    *("__arrow_c_stream__", "__arrow_c_array__", "__array__", "__dlpack__", "__rich_console__"),
    *("__rich__", "_repr_html_"),
}


def load(modules: Iterable[str], more: Mapping[str, tuple[str, ...]]) -> dict[str, dict[str, Any]]:
    """Return the public names of modules with their values.

    ``more`` has names of a module that ``__all__`` leaves out, because they need an extra.
    """
    found = {name: pkgutil.resolve_name(name) for name in modules}
    return {
        name: {key: getattr(module, key) for key in (*module.__all__, *more.get(name, ()))}
        for name, module in found.items()
    }


def describe(modules: Mapping[str, Mapping[str, Any]]) -> str:
    """Describe public names with their values, by the module that users import them from."""
    classes = [thing for names in modules.values() for thing in names.values()]
    public = {thing for thing in classes if inspect.isclass(thing)}
    described: dict[type, str] = {}
    lines = []
    for module, names in modules.items():
        lines.append(f"[{module}]")
        for name, thing in sorted(names.items()):
            if inspect.isclass(thing) and thing in described:
                lines.append(f"class {name}: as {described[thing]}")
                continue
            if inspect.isclass(thing):
                described[thing] = f"{module}.{name}"
            lines += _of_name(name, thing, public)
        lines.append("")
    return "\n".join(lines)


def _of_name(name: str, thing: Any, public: set[type]) -> Iterator[str]:
    """Describe one public name: a class by several lines."""
    if isinstance(thing, ModuleType):
        yield f"module {name}"
    elif inspect.isclass(thing):
        yield f"class {name}{_bases(thing, public)}"
        known = {
            line
            for base in thing.__mro__[1:]
            if base in public
            for line in _members(base.__name__, base)
            if not line.startswith(("new", "field"))
        }
        yield from sorted(f"    {line}" for line in _members(name, thing) if line not in known)
    elif inspect.isroutine(thing):
        yield _function("function", name, thing)
    else:
        kind = type(thing)
        is_known = kind in public or kind.__module__ == "builtins"
        yield f"value {name}{f': {kind.__name__}' if is_known else ''}"


def _bases(kind: type, public: set[type]) -> str:
    """Return the nearest base classes that callers can name: public ones and those of Python."""
    known = [
        base
        for base in kind.__mro__[1:-1]
        if base in public or base.__module__ == "builtins" or base is enum.Enum
    ]
    nearest = [
        base.__name__
        for base in known
        if not any(other is not base and issubclass(other, base) for other in known)
    ]
    return f"({', '.join(nearest)})" if nearest else ""


def _members(name: str, kind: type) -> Iterator[str]:
    """Describe how an object of a class is made, and what it has."""
    fields = _fields(kind)
    if issubclass(kind, enum.Enum):
        yield from (f"member {member}" for member in kind.__members__)
    elif _is_made_by_callers(name, kind):
        yield _function("new", name, kind)
    yield from (f"field {field}" for field in fields)
    for member in dir(kind):
        is_public = not member.startswith("_") or member in PROTOCOLS
        if not is_public or member in fields or not _is_ours(member, kind):
            continue
        static, value = inspect.getattr_static(kind, member), getattr(kind, member)
        if member in PROTOCOLS:
            yield f"special {member}"
        elif inspect.isdatadescriptor(static) or isinstance(static, cached_property):
            yield f"property {member}"
        elif isinstance(static, staticmethod | classmethod):
            yield _function(type(static).__name__, member, value)
        elif callable(value):
            yield _function("method", member, value)
        elif not isinstance(static, enum.Enum):
            yield f"value {member}"


def _is_ours(member: str, kind: type) -> bool:
    """Say whether a class of this package defines a member, and no library prescribes it."""
    owner = next((base for base in kind.__mro__ if member in vars(base)), object)
    is_of_pydantic = member.startswith("model_") and hasattr(kind, "model_fields")
    return owner.__module__.partition(".")[0] == PACKAGE and not is_of_pydantic


def _is_made_by_callers(name: str, kind: type) -> bool:
    """Say whether the parameters of a class are public.

    They are where its docstring lists them or makes an object. Those of a value are its fields, so
    they are public where it needs no private one.
    """
    text = f"{inspect.getdoc(kind)}\n{inspect.getdoc(kind.__init__)}"
    if re.search(rf"^Parameters\n-----|\b{name}\(", text, re.MULTILINE):
        return True
    return bool(_fields(kind)) and not any(
        one.name.startswith("_") and one.default is one.empty
        for one in inspect.signature(kind).parameters.values()
    )


def _fields(kind: type) -> list[str]:
    """Return the public fields of a dataclass, an attrs class or a pydantic model."""
    names = [field.name for field in getattr(kind, "__attrs_attrs__", ())]
    names += getattr(kind, "__dataclass_fields__", ())
    names += getattr(kind, "model_fields", ())
    return [name for name in names if not name.startswith("_")]


def _function(what: str, name: str, thing: Any) -> str:
    """Describe a callable: its parameters with their defaults, and whether it is awaited."""
    is_awaited = inspect.iscoroutinefunction(thing) or inspect.isasyncgenfunction(thing)
    parameters = list(inspect.signature(thing).parameters.values())
    if what == "method":
        del parameters[0]  # self
    return f"{'async ' if is_awaited else ''}{what} {name}({', '.join(_written(parameters))})"


def _written(parameters: Iterable[inspect.Parameter]) -> Iterator[str]:
    """Write public parameters as a definition has them, without types."""
    kinds = inspect.Parameter
    stars = {kinds.VAR_POSITIONAL: "*", kinds.VAR_KEYWORD: "**"}
    last = None
    for one in parameters:
        if one.name.startswith("_"):
            continue
        if last is kinds.POSITIONAL_ONLY and one.kind is not last:
            yield "/"
        if one.kind is kinds.KEYWORD_ONLY and last not in (one.kind, kinds.VAR_POSITIONAL):
            yield "*"
        default = "" if one.default is kinds.empty else f"={_default(one.default)}"
        yield f"{stars.get(one.kind, '')}{one.name}{default}"
        last = one.kind
    if last is kinds.POSITIONAL_ONLY:
        yield "/"


def _default(value: Any) -> str:
    """Write a default without the name of a module and without an address."""
    if isinstance(value, enum.Enum):
        return value.name
    if value is Ellipsis:
        return "..."
    if inspect.isclass(value) or inspect.isroutine(value):
        return str(value.__name__)
    text = repr(value)
    # A dataclass writes <factory>, attrs NOTHING, where each object gets a new value.
    return "<new>" if text in ("<factory>", "NOTHING") else text
