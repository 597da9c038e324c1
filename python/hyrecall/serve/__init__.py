"""Serves a store or an index folder over HTTP; needs the extra ``[serve]``.

``hyrecall serve --path DIR`` runs it. Programs make the app themselves, to mount it or to run it
under a server of their own: ``create_app(Memory.open(path), options)``.
:mod:`hyrecall.serve.mcp` serves programs with a language model and needs the extra ``[mcp]`` alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hyrecall.errors import MissingExtraError, error
from hyrecall.serve.options import Caller, ServiceOptions

if TYPE_CHECKING:
    from hyrecall.serve.app import create_app
    from hyrecall.serve.workers import run

__all__ = ["Caller", "ServiceOptions", "create_app", "run"]

_LATER = {"create_app": "hyrecall.serve.app", "run": "hyrecall.serve.workers"}
"""Names that need the extra ``[serve]``, and where they are defined."""


def __getattr__(name: str) -> Any:
    """Return what needs the extra ``[serve]`` when it is first asked for."""
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    try:
        import fastapi as _fastapi  # noqa: F401
        import prometheus_client as _prometheus_client  # noqa: F401
        import uvicorn as _uvicorn  # noqa: F401
    except ImportError as fault:
        wish = "the extra [serve] (pip install 'hyrecall[serve]')"
        got = f"no package {fault.name}"
        raise error(MissingExtraError, "hyrecall.serve", wish, got) from None
    return getattr(import_module(_LATER[name]), name)


def __dir__() -> list[str]:
    """Return the public names, also those that are imported when they are asked for."""
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
