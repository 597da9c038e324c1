"""What retrievers over an ``Index`` share: do its arms fit the model, and what is a hit's text."""

from __future__ import annotations

from hyrecall.errors import OptionError, error
from hyrecall.hits.hit import Hit
from hyrecall.index import Index

__all__ = ["check_arms", "text_of"]


def check_arms(index: Index, argument: str, model: object) -> None:
    """Refuse an embedding model whose vectors no arm reads, and none where no text is searched."""
    if model is not None and not index.schema.vector_arms:
        wish = "None (the index has no vector arm)"
        raise error(OptionError, argument, wish, type(model).__name__)
    if model is None and not index.schema.text_arms:
        raise error(OptionError, argument, "one (the index has no text arm)", "None")


def text_of(hit: Hit, index: Index) -> str:
    """Return the text of a hit; an empty one if it has none."""
    return (hit.text or "") if index.schema.text_arms else ""
