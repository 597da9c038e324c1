"""What can be seen of the connections that an embedder of an endpoint keeps."""

from hyrecall.embed import HttpEmbedder


def n_idle(embedder: HttpEmbedder) -> int:
    """How many connections are kept for later calls."""
    return sum(one.is_idle() and not one.is_closed() for one in embedder._client._pool.connections)
