"""Copies of a saved index or of a store at a URL: push, pull, follow.

:func:`push` publishes the state of a folder at a URL, :func:`pull` updates a replica to the newest
state, :func:`follow` does so repeatedly. docs/replicas.md lists the guarantees.
"""

from hyrecall.replicas.pulling import Held, Pulled, follow, held, promote, pull
from hyrecall.replicas.pushing import Pruned, Pushed, prune, push

__all__ = [
    "Held",
    "Pruned",
    "Pulled",
    "Pushed",
    "follow",
    "held",
    "promote",
    "prune",
    "pull",
    "push",
]
