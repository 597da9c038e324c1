"""The routes that four published memory systems document, over one store.

Each module has ``router``: requests and replies have the shapes of the system's documents, and
everything between is the public API. A store whose recipe cannot serve a door is answered 409.
"""

from hyrecall.serve.doors import hebb, hebb_graph, honeycomb, honeycomb_browse, hypergraph, mem0

__all__ = ["ROUTERS"]

ROUTERS = tuple(
    one.router for one in (hypergraph, honeycomb, honeycomb_browse, hebb, hebb_graph, mem0)
)
"""The routes of all systems, for an app over a store."""
