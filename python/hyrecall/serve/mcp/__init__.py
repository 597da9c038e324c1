"""Serves a store to programs with a language model, by the Model Context Protocol (MCP).

Needs the extra ``[mcp]``. ``hyrecall mcp`` runs it over stdio or streamable HTTP; programs call
:func:`create_server` and run that over a transport of their own, or mount :func:`http_app`, which
needs the extra ``[serve]`` too.
"""

from typing import TYPE_CHECKING, Any

from hyrecall.errors import MissingExtraError, error

try:
    import mcp as _mcp  # noqa: F401
except ImportError as fault:
    _wish = "the extra [mcp] (pip install 'hyrecall[mcp]')"
    raise error(
        MissingExtraError, "hyrecall.serve.mcp", _wish, f"no package {fault.name}"
    ) from None

from hyrecall.serve.mcp.server import create_server
from hyrecall.serve.mcp.stdio import run_stdio

if TYPE_CHECKING:
    from hyrecall.serve.mcp.http import http_app

__all__ = ["create_server", "http_app", "run_stdio"]


def __getattr__(name: str) -> Any:
    """Return what needs the extra ``[serve]`` when it is first asked for."""
    if name != "http_app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from hyrecall.serve.mcp.http import http_app
    except ImportError as fault:
        wish = "the extra [serve] (pip install 'hyrecall[mcp,serve]')"
        got = f"no package {fault.name}"
        raise error(MissingExtraError, "hyrecall.serve.mcp.http_app", wish, got) from None
    return http_app
