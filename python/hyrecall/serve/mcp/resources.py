"""Pinned memories as resources: ``memory:///scope/key``, where the scope is a user."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote, unquote

import mcp_types as types

from hyrecall.errors import NotFoundError, OptionError, error
from hyrecall.memory import Episode
from hyrecall.memory.faces.paths import user_name
from hyrecall.serve.mcp.session import Session

__all__ = ["TEMPLATE", "address", "listed", "read"]

PAGE: Final = 200
MOST_PAGES: Final = 10_000
_BEGIN: Final = "memory:///"

TEMPLATE: Final = types.ResourceTemplate(
    name="memory",
    title="A memory",
    uri_template="memory:///{scope}/{key}",
    description="The text of a memory by its user and id. Pinned memories are listed.",
    mime_type="text/plain",
)


def address(episode: Episode) -> str:
    """Return the address of a memory.

    Examples
    --------
    >>> address(Episode(id="a/b", user_id="ann"))
    'memory:///ann/a%2Fb'
    """
    return f"{_BEGIN}{user_name(episode.user_id)}/{quote(episode.id, safe='')}"


async def listed(session: Session, cursor: str | None) -> types.ListResourcesResult:
    """Return a page of the pinned memories, newest first.

    Raises
    ------
    OptionError
        The cursor is none of ours.
    """
    page = 0 if cursor is None else _page(cursor)
    found = await session.newest(pinned=True, limit=PAGE + 1, offset=page * PAGE)
    return types.ListResourcesResult(
        resources=[
            types.Resource(
                name=one.id,
                uri=address(one),
                description=_first_line(one.text),
                mime_type="text/plain",
                annotations=types.Annotations(last_modified=one.occurred_at.isoformat()),
            )
            for one in found[:PAGE]
        ],
        next_cursor=str(page + 1) if len(found) > PAGE else None,
    )


async def read(session: Session, uri: str) -> types.ReadResourceResult:
    """Return the text of a memory of the caller.

    Raises
    ------
    NotFoundError
        The caller has none of this address, whoever else may.
    """
    names = uri.removeprefix(_BEGIN).split("/")
    found = None
    if uri.startswith(_BEGIN) and len(names) == 2 and names[1]:
        found = await session.get(unquote(names[1]))
    if found is None or user_name(found.user_id) != names[0]:
        raise error(NotFoundError, "uri", "a memory of the caller", "none")
    text = types.TextResourceContents(uri=uri, mime_type="text/plain", text=found.text)
    return types.ReadResourceResult(contents=[text])


def _page(cursor: str) -> int:
    is_number = cursor.isascii() and cursor.isdecimal() and len(cursor) < 6
    if not is_number or not 0 < int(cursor) < MOST_PAGES:
        raise error(OptionError, "cursor", "a cursor of an earlier page", "another")
    return int(cursor)


def _first_line(text: str) -> str:
    line = text.strip().partition("\n")[0]
    return line if len(line) <= 120 else f"{line[:119]}…"
