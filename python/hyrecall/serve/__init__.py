"""Serves a store or an index folder over HTTP; needs the extra ``[serve]``.

``hyrecall serve --path DIR`` runs it. Programs make the app themselves, to mount it or to run it
under a server of their own: ``create_app(Memory.open(path), options)``.
"""

from hyrecall.errors import MissingExtraError, error

try:
    import fastapi as _fastapi  # noqa: F401
    import prometheus_client as _prometheus_client  # noqa: F401
    import uvicorn as _uvicorn  # noqa: F401
except ImportError as fault:
    _wish = "the extra [serve] (pip install 'hyrecall[serve]')"
    raise error(MissingExtraError, "hyrecall.serve", _wish, f"no package {fault.name}") from None

from hyrecall.serve.app import create_app
from hyrecall.serve.callers import Caller
from hyrecall.serve.options import ServiceOptions

__all__ = ["Caller", "ServiceOptions", "create_app"]
