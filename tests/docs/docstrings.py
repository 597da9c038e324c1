"""What a docstring says, held against what a callable takes, gives and raises.

A twin whose text says "as :meth:`X`." is documented by X, beside its own sections.
"""

import ast
import builtins
import enum
import inspect
import pkgutil
import re
import sys
import textwrap
from collections.abc import Callable, Iterator
from typing import Any

from hyrecall import errors
from hyrecall.embed import EmbedError

SECTION = re.compile(r"^(\w[\w ]*)\n-{3,}$\n?", re.MULTILINE)
TWIN = re.compile(r"\b[Aa]s :(?:meth|func):`~?([\w.]+)`[.,;]")
NOTHING = {"None", "NoReturn"}


def sections(text: str) -> dict[str, str]:
    """The sections of a docstring by name; "" is what comes before them."""
    first, *rest = SECTION.split(text)
    return {"": first, **dict(zip(rest[::2], rest[1::2], strict=True))}


def names(section: str) -> set[str]:
    """The names of a section's entries."""
    entries = [line for line in section.splitlines() if line and not line[0].isspace()]
    return {name.strip() for line in entries for name in line.partition(" :")[0].split(",")}


def taken(function: Any) -> set[str]:
    """The parameters of a callable, those of many with their stars."""
    marks = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    found = inspect.signature(function).parameters.values()
    return {marks.get(one.kind, "") + one.name for one in found} - {"self"}


def raises_itself(function: Callable[..., Any]) -> bool:
    """Whether an error is raised in the body, not only passed on."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    return any(isinstance(node, ast.Raise) and node.exc is not None for node in ast.walk(tree))


def resolve(name: str, owner: Any) -> Any:
    """What a reference in a docstring of a class or function names."""
    if name.startswith("hyrecall."):
        return pkgutil.resolve_name(name)
    first, *rest = name.split(".")
    module = sys.modules[owner.__module__]
    found = getattr(owner, first, None) or getattr(module, first)
    for part in rest:
        found = getattr(found, part)
    return found


def documented(function: Any, owner: Any) -> dict[str, str]:
    """The sections of a callable, joined with those of what it refers to."""
    own = sections(inspect.getdoc(function) or "")
    for name in TWIN.findall(own[""]):
        try:
            other = resolve(name, owner)
        except (AttributeError, ImportError):
            return {**own, "Unknown": name}
        # The twin's own class is where its short references lead to.
        home = resolve(name.rpartition(".")[0], owner) if "." in name else owner
        for section, body in documented(other, home).items():
            own[section] = own.get(section, "") + "\n" + body
    return own


def are_errors(raised: set[str]) -> bool:
    known = {**vars(builtins), **vars(errors), "EmbedError": EmbedError}
    found = [known.get(name) for name in raised]
    return all(isinstance(one, type) and issubclass(one, Exception) for one in found)


def faults_of_function(function: Any, owner: Any) -> Iterator[str]:
    """What the docstring of a function or method lacks or makes up."""
    wanted = taken(function)
    said = documented(function, owner)
    own = sections(inspect.getdoc(function) or "")
    if "Unknown" in said:
        yield f"refers to {said['Unknown']}, which is not there"
    yield from (f"no {name}" for name in sorted(wanted - names(said.get("Parameters", ""))))
    yield from (f"{name} is none" for name in sorted(names(own.get("Parameters", "")) - wanted))
    gives = inspect.signature(function).return_annotation
    if gives is not None and str(gives) not in NOTHING and "Returns" not in said:
        yield "no Returns"
    if raises_itself(function) and "Raises" not in said:
        yield "no Raises"
    if not are_errors(names(own.get("Raises", ""))):
        yield "Raises what is no error"


def faults_of_construction(kind: type) -> Iterator[str]:
    """What the docstrings of a class lack for who makes one, or make up."""
    if issubclass(kind, enum.Enum | BaseException) or getattr(kind, "_is_protocol", False):
        return
    said = sections(inspect.getdoc(kind) or "")
    in_init = sections(inspect.getdoc(kind.__init__) or "").get("Parameters", "")
    wanted = taken(kind)
    parameters = names(said.get("Parameters", "") + "\n" + in_init)
    # Those of a frozen value are its attributes; it may have more of these.
    either = parameters | names(said.get("Attributes", ""))
    yield from (f"no {name}" for name in sorted(wanted - either))
    yield from (f"{name} is none" for name in sorted(parameters - wanted))
    made_by = (vars(kind).get(name) for name in ("__init__", "__post_init__"))
    plain = [inspect.unwrap(one) for one in made_by if one]
    written = (one for one in plain if one.__code__.co_filename != "<string>")
    if any(map(raises_itself, written)) and "Raises" not in said:
        yield "no Raises"
    if not are_errors(names(said.get("Raises", ""))):
        yield "Raises what is no error"


def methods(kind: type) -> Iterator[tuple[str, Any]]:
    """The public methods of a class that this package defines; tests of a contract are none."""
    for name in dir(kind):
        static = inspect.getattr_static(kind, name)
        function = getattr(static, "__func__", static)
        is_ours = inspect.isfunction(function) and function.__module__.startswith("hyrecall")
        if is_ours and not name.startswith(("_", "test_")):
            yield name, getattr(kind, name)


def faults(name: str, thing: Any, owner: Any = None) -> list[str]:
    """What the docstrings of a public name, or of a method of its owner, lack or make up."""
    if not isinstance(thing, type):
        return [f"{name}: {one}" for one in faults_of_function(thing, owner or thing)]
    found = [f"{name}: {one}" for one in faults_of_construction(thing)]
    if issubclass(thing, enum.Enum):
        return found
    for method, function in methods(thing):
        found += [f"{name}.{method}: {one}" for one in faults_of_function(function, thing)]
    return found
