"""The routes that four published memory systems document, over one store.

Each module has ``router``: requests and replies have the shapes of the system's documents, and
everything between is the public API. A store whose recipe cannot serve a door is answered 409.
"""

from fastapi import FastAPI

from hyrecall.serve.doors import hebb, hebb_graph, honeycomb, honeycomb_browse, hypergraph, mem0

__all__ = ["open_doors"]


def open_doors(app: FastAPI) -> None:
    """Add the routes of all systems to an app."""
    for one in (hypergraph, honeycomb, honeycomb_browse, hebb, hebb_graph, mem0):
        app.include_router(one.router)
