"""Tools that read memories as files."""

from __future__ import annotations

from typing import Annotated, Any, Final

from pydantic import Field

from hyrecall.base.fences import fenced
from hyrecall.serve.mcp.session import CallerSession
from hyrecall.serve.mcp.tool import Arguments, Previews, StoredTexts, Structure, Tool, ToolReply

_Path = Annotated[
    str,
    Field(
        max_length=8_192,
        description="/index.md, /memories, /shared, /sessions, /facts, /graph, /pinned, or a file.",
    ),
]
_Pattern = Annotated[str, Field(min_length=1, max_length=512)]
_MostLines = Annotated[int, Field(ge=1, le=200)]


class _Ls(Arguments):
    path: _Path = "/"
    limit: _MostLines = 200


class _Cat(Arguments):
    path: _Path


class _Grep(Arguments):
    pattern: Annotated[_Pattern, Field(description="A text to find, ignoring case.")]
    path: _Path = "/"
    regex: Annotated[bool, Field(description="The pattern is a regular expression (RE2).")] = False
    limit: _MostLines = 50


class _Find(Arguments):
    pattern: Annotated[_Pattern, Field(description="File names, with * ? [ab].")] = "*"
    path: _Path = "/"
    limit: _MostLines = 200


class Entries(Structure):
    """Paths; folders end in a slash."""

    entries: list[str]


class File(StoredTexts):
    """The text of a file; "" if it is not there."""

    path: str
    text: str


class OneLine(Structure):
    """A line of a file."""

    path: str
    number: int
    text: str


class Lines(Previews):
    """Lines that hold a text."""

    lines: list[OneLine]


async def _ls(session: CallerSession, given: _Ls) -> ToolReply:
    found = await session.browse("ls", given.path, limit=given.limit)
    return ToolReply(Entries(entries=found), "\n".join(found) or "Nothing is there.")


async def _cat(session: CallerSession, given: _Cat) -> ToolReply:
    text = await session.browse("cat", given.path)
    told = fenced([({"path": given.path}, text)]) if text else "There is no such file."
    return ToolReply(File(path=given.path, text=text), told)


async def _grep(session: CallerSession, given: _Grep) -> ToolReply:
    found = await session.browse(
        "grep", given.pattern, given.path, regex=given.regex, limit=given.limit
    )
    lines = [OneLine(path=one.path, number=one.number, text=one.text) for one in found]
    return ToolReply(Lines(lines=lines), _text_of_lines if lines else "Nothing was found.")


def _text_of_lines(data: dict[str, Any]) -> str:
    lines = [f"{one['path']}:{one['number']}:{one['text']}" for one in data["lines"]]
    return fenced([({}, "\n".join(lines))])


async def _find(session: CallerSession, given: _Find) -> ToolReply:
    found = await session.browse("find", given.pattern, given.path, limit=given.limit)
    return ToolReply(Entries(entries=found), "\n".join(found) or "Nothing was found.")


TOOLS: Final = (
    Tool("browse_ls", "List a folder", "List a folder of memories as files, newest first.",
         _Ls, Entries, "reads", _ls),
    Tool("browse_cat", "Read a file", "Return the text of a file of memories.",
         _Cat, File, "reads", _cat),
    Tool("browse_grep", "Find lines", "Return the lines of memories that contain a text.",
         _Grep, Lines, "reads", _grep),
    Tool("browse_find", "Find files", "List the memories whose file name matches.",
         _Find, Entries, "reads", _find),
)  # fmt: skip
