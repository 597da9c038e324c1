"""Opens a source of records by the name of its system."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import fields
from importlib import import_module
from os import PathLike
from typing import Any, cast

from hyrecall.base.arguments import check_keywords, read_path
from hyrecall.errors import OptionError, error
from hyrecall.memory.data.types import check_id
from hyrecall.migrate.records import Options, Source

# What each system leaves open; its reader is the module of its name.
_TAKES: dict[str, tuple[str, ...]] = {
    "chroma": ("collection",),
    "lancedb": ("collection", "id_field", "text_field", "vector_field"),
    "qdrant": ("collection", "text_field", "vector_field"),
    "mem0": (),
    "langchain": (),
}
_URLS = ("http://", "https://")
SYSTEMS = tuple(_TAKES)
"""The systems that can be read."""


@check_keywords
def open_source(
    system: str,
    path: str | PathLike[str],
    *,
    collection: str | None = None,
    id_field: str | None = None,
    text_field: str | None = None,
    vector_field: str | None = None,
) -> AbstractContextManager[Source]:
    """Open the records of another system, to be read once within a ``with`` block.

    Parameters
    ----------
    system : {"chroma", "lancedb", "qdrant", "mem0", "langchain"}
    path : path
        A folder of chroma, lancedb or qdrant-client; a file of JSON of mem0 or langchain. Of qdrant
        also the URL of a server, whose key is in ``QDRANT_API_KEY``.
    collection : str, optional
        The collection, or the table of lancedb. Default: the only one.
    id_field : str, default "id"
        Column of the ids; of lancedb.
    text_field : str, default "text"
        Column of the texts of lancedb; field of qdrant's payload, or its path with dots.
    vector_field : str, optional
        Column of lancedb, or named vector of qdrant. Default: the only one.

    Returns
    -------
    context manager of Source

    Raises
    ------
    OptionError, DTypeError
        Another system; an option that it does not take; a path, collection or field that is not
        there.
    MissingExtraError
        The package of the system is not installed; the message has the install command.
    OSError
        The file cannot be read.

    Examples
    --------
    >>> import json, pathlib, tempfile
    >>> from hyrecall.migrate import open_source
    >>> file = pathlib.Path(tempfile.mkdtemp(), "mem0.json")
    >>> _ = file.write_text(json.dumps([{"id": "m1", "memory": "Tea at four", "user_id": "ann"}]))
    >>> with open_source("mem0", file) as source:
    ...     [(record.id, record.text) for record in source.records]
    [('m1', 'Tea at four')]
    """
    if system not in _TAKES:
        raise error(OptionError, "system", f"one of {', '.join(SYSTEMS)}", repr(system))
    options = Options(collection, id_field, text_field, vector_field)
    for one in fields(Options):
        value = getattr(options, one.name)
        if value is not None and one.name not in _TAKES[system]:
            raise error(OptionError, one.name, f"none for {system}", repr(value))
        if value is not None:
            check_id(one.name, value)
    read = import_module(f"hyrecall.migrate.{system}").read
    opener = cast(Callable[[Any, Options], AbstractContextManager[Source]], read)
    is_url = system == "qdrant" and isinstance(path, str) and path.lower().startswith(_URLS)
    return opener(path if is_url else read_path(path), options)
