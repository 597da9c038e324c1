"""Everything that the native module offers says what it does."""

from collections.abc import Iterator
from types import ModuleType
from typing import Any

from hyrecall import _core

OURS = "hyrecall._core"


def offered(module: ModuleType) -> Iterator[tuple[str, Any]]:
    """Functions, classes, and their methods and properties, by name; no errors."""
    for name, thing in vars(module).items():
        where = f"{module.__name__}.{name}"
        if isinstance(thing, ModuleType):
            if thing.__name__.startswith(OURS):
                yield from offered(thing)
        elif isinstance(thing, type):
            if issubclass(thing, BaseException):
                continue
            yield where, thing
            for member, held in vars(thing).items():
                if callable(held) or isinstance(held, property | staticmethod):
                    if member in {"__new__", "_pybind11_conduit_v1_"}:
                        continue
                    yield f"{where}.{member}", held
        elif callable(thing):
            yield where, thing


def own_words(thing: Any) -> str:
    """Return a docstring without the signatures that pybind11 writes above it."""
    text = getattr(thing, "__func__", thing).__doc__ or ""
    name = getattr(thing, "__name__", "")
    lines = (line for line in text.splitlines() if not (name and line.startswith(f"{name}(")))
    return " ".join(lines).strip()


def test_every_native_name_has_a_docstring() -> None:
    names = dict(offered(_core))
    assert len(names) > 150
    assert [name for name, thing in names.items() if not own_words(thing)] == []
