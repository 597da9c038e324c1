"""The routes that four published memory systems document, over one store.

Each module has ``router``: requests and replies have the shapes of the system's documents, and
everything between is the public API. A store whose recipe cannot serve a door is answered 409.
"""

from hyrecall.serve.doors import hebb, honeycomb, hypergraph, mem0

__all__ = ["ROUTERS"]

ROUTERS = (
    *(hypergraph.router, honeycomb.router, honeycomb.browse_router),
    *(hebb.router, hebb.graph_router, mem0.router),
)
"""The routes of all systems, for an app over a store."""
