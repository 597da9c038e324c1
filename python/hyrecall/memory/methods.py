"""Makes methods from other methods and functions, with their signatures and docstrings.

``search = awaited(MemorySync.search)`` in the body of a class is a coroutine method, which runs the
other one on a thread. ``compact = on_store(upkeep.compact)`` is a method that calls a function with
the open store of its object.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from hyrecall.memory.store import Store

P_ = ParamSpec("P_")
T_ = TypeVar("T_")
S_co = TypeVar("S_co", covariant=True)

MADE = "_is_made_of_another"
"""Marks the functions made here, which take the name of the class they stand in."""

CANCELLED = "If a call is cancelled, its write may still be committed."


class Runner(Protocol):
    """Calls a function off the event loop."""

    async def __call__(
        self, function: Callable[P_, T_], /, *args: P_.args, **options: P_.kwargs
    ) -> T_:
        """Return what the function returns."""


class _Twin(Protocol[S_co]):
    """An asynchronous object that runs the methods of a synchronous one."""

    @property
    def _sync(self) -> S_co: ...

    async def _run(
        self, function: Callable[P_, T_], /, *args: P_.args, **options: P_.kwargs
    ) -> T_: ...


class NamedMethods:
    """Base of a class with methods made here: names them after the class."""

    def __init_subclass__(cls) -> None:
        """Set the names by which tracebacks and help show the methods."""
        super().__init_subclass__()
        for name, member in vars(cls).items():
            function = getattr(member, "__func__", member)
            if inspect.isfunction(function) and hasattr(function, MADE):
                function.__qualname__ = f"{cls.__qualname__}.{name}"
                function.__module__ = cls.__module__


def awaited(
    method: Callable[Concatenate[S_co, P_], T_], *, writes: bool = False
) -> Callable[Concatenate[_Twin[S_co], P_], Coroutine[Any, Any, T_]]:
    """Return the coroutine method that runs a method of ``_sync`` off the event loop."""
    name = method.__name__

    @functools.wraps(method)
    async def call(self: _Twin[S_co], /, *args: P_.args, **options: P_.kwargs) -> T_:
        function: Callable[P_, T_] = getattr(self._sync, name)
        return await self._run(function, *args, **options)

    setattr(call, MADE, True)
    if writes:
        call.__doc__ = _with_note(inspect.getdoc(method) or "", CANCELLED)
    return call


def _with_note(text: str, note: str) -> str:
    """Return a numpydoc docstring with a paragraph more at the end of its notes."""
    heading, examples = "\n\nNotes\n-----\n", "\n\nExamples\n--------\n"
    head, found, rest = text.partition(examples)
    join = "\n\n" if heading in head else heading
    return f"{head}{join}{note}{found}{rest}"


class _Handle(Protocol):
    """An object that holds an open store."""

    @property
    def _store(self) -> Store: ...


def on_store(
    function: Callable[Concatenate[Store, P_], T_],
) -> Callable[Concatenate[_Handle, P_], T_]:
    """Return the method that calls a function with the store that its object holds."""

    @functools.wraps(function)
    def call(self: _Handle, /, *args: P_.args, **options: P_.kwargs) -> T_:
        return function(self._store, *args, **options)

    setattr(call, MADE, True)
    signature = inspect.signature(function)
    first, *others = signature.parameters.values()
    own = first.replace(name="self", annotation=inspect.Parameter.empty)
    vars(call)["__signature__"] = signature.replace(parameters=[own, *others])
    return call
