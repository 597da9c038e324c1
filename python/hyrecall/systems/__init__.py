"""Published memory systems, over the store: a folder each, imported when it is asked for.

Loom, HyperMemory, l0-memory, honeycomb and Hebb Mind, and the routes of mem0's server. Their
recipes are in :mod:`hyrecall.recipes`. In a folder, ``routes`` has ``ROUTERS``, for an app over a
store; ``tools`` has ``TOOLS``, for an MCP server; ``command`` has the commands. Requests and
replies have the shapes of the system's documents. A store whose recipe cannot serve a route is
answered 409.
"""
