"""Makes the app: a store or an index behind routes, with one shape of errors.

A request goes guards -> caller -> route -> store or index, and its reply the same way back.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI

from hyrecall.base.version import __version__
from hyrecall.index import Index
from hyrecall.memory import Memory
from hyrecall.memory.memory import Opening
from hyrecall.serve import errors, page
from hyrecall.serve.doors import open_doors
from hyrecall.serve.options import ServiceOptions
from hyrecall.serve.routes import health

__all__ = ["create_app"]


def create_app(served: Memory | Opening | Index, options: ServiceOptions | None = None) -> FastAPI:
    """Make an app that serves a store or an index.

    Parameters
    ----------
    served : Memory or Index, or what ``Memory.open(path)`` returns
        The last is opened when the app starts and closed when it ends; the others are the
        caller's to close. An index is served read-only.
    options : ServiceOptions, optional

    Returns
    -------
    FastAPI
        ``app.state.memory`` or ``app.state.index`` is what is served, the other one is None;
        ``app.state.options`` the options.

    Raises
    ------
    OptionError, DTypeError
        The options are invalid, or the file of tokens is.

    Examples
    --------
    >>> from hyrecall.memory import Memory
    >>> from hyrecall.recipes import loom
    >>> app = create_app(Memory.in_memory(recipe=loom, embedder=None))
    >>> app.title
    'hyrecall'
    """
    options = ServiceOptions() if options is None else options
    app = FastAPI(title="hyrecall", version=__version__, lifespan=_lifespan)
    app.state.options = options
    app.state.tokens = None
    app.state.served = served
    app.state.memory = served if isinstance(served, Memory) else None
    app.state.index = served if isinstance(served, Index) else None
    errors.install(app)
    app.include_router(health.router)
    app.include_router(page.router())
    open_doors(app)
    return app


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Open what is to be opened, and close that again."""
    served = app.state.served
    if not isinstance(served, Opening):
        yield
        return
    async with served as memory:
        app.state.memory = memory
        yield
