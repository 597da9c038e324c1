"""Makes the MCP server of a store: lists its tools and resources, and answers calls.

A call goes caller -> session -> arguments -> tool. Whatever goes wrong there is a result with
``isError`` and the message of a typed error, because a model can read and correct that; only a
malformed request is an error of the protocol.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import import_module
from typing import Any, Final
from urllib.parse import quote, unquote

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.shared.exceptions import MCPError

from hyrecall.base.fences import NOTICE
from hyrecall.base.version import __version__
from hyrecall.errors import (
    DTypeError,
    HyrecallError,
    NotFoundError,
    OptionError,
    error,
    outcome_of,
    type_and_place,
    without_remedy,
)
from hyrecall.memory import Episode, Memory
from hyrecall.memory.faces.browse import user_name
from hyrecall.serve.limits import BusyError, CallLimiter
from hyrecall.serve.mcp import file_tools, search_tool, verb_tools
from hyrecall.serve.mcp.session import DEFAULT_USER, CallerSession, served_recipes
from hyrecall.serve.mcp.tool import Tool, ToolReply, entry_sizes, fits, with_previews
from hyrecall.serve.options import Caller, ServiceOptions, free_names

# ---- Pinned memories as resources: ``memory:///scope/key``, where the scope is a user ----

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


async def listed(session: CallerSession, cursor: str | None) -> types.ListResourcesResult:
    """Return a page of the pinned memories, newest first."""
    page = 0 if cursor is None else _page(cursor)
    found = await session.call("list", pinned=True, limit=PAGE + 1, offset=page * PAGE)
    return types.ListResourcesResult(
        resources=[
            types.Resource(
                name=one.id,
                uri=address(one),
                description=_first_line(one.full_text),
                mime_type="text/plain",
                annotations=types.Annotations(last_modified=one.occurred_at.isoformat()),
            )
            for one in found[:PAGE]
        ],
        next_cursor=str(page + 1) if len(found) > PAGE else None,
    )


async def read(session: CallerSession, uri: str) -> types.ReadResourceResult:
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
    text = types.TextResourceContents(uri=uri, mime_type="text/plain", text=found.full_text)
    return types.ReadResourceResult(contents=[text])


def _page(cursor: str) -> int:
    is_number = cursor.isascii() and cursor.isdecimal() and len(cursor) < 6
    if not is_number or not 0 < int(cursor) < MOST_PAGES:
        raise error(OptionError, "cursor", "a cursor of an earlier page", "another")
    return int(cursor)


def _first_line(text: str) -> str:
    line = text.strip().partition("\n")[0]
    return line if len(line) <= 120 else f"{line[:119]}…"


# ---- Makes the MCP server of a store: lists its tools and resources, and answers calls ----

CALLER: Final = "hyrecall.mcp.caller"
"""The key of an ASGI scope under which a request's caller stands."""

SYSTEMS: Final = ("hypergraph", "l0", "honeycomb", "hebb")
"""The systems that document tools; a store has to serve the recipe of that name for them."""

_REMEMBER, *_VERBS = verb_tools.TOOLS  # models use the first ones most
_OWN: Final = (_REMEMBER, *search_tool.TOOLS, *_VERBS, *file_tools.TOOLS)
_FAMILIES: Final = {"hypergraph_regex": "hypergraph"}

_log = logging.getLogger("hyrecall.serve.mcp")

_Context = ServerRequestContext[Any, Any]


def create_server(
    memory: Memory,
    *,
    caller: Caller | None = None,
    systems: Iterable[str] | None = None,
    readonly: bool = False,
    options: ServiceOptions | None = None,
) -> Server[Any]:
    """Make the MCP server of a store.

    Parameters
    ----------
    memory : Memory
        Open; it stays the caller's to close.
    caller : Caller, optional
        Who calls where a request brings no caller of its own, as over stdio. Default: the user
        without a name, or "user" in a store of ``recipes.l0``, who may read and write.
    systems : iterable of str, optional
        Whose documented tools are listed beside hyrecall's own: "hypergraph", "l0", "honeycomb",
        "hebb". The store has to serve the recipe of each. Default: the one of the store's recipe.
    readonly : bool, default False
        List and answer only tools that read, whatever rights a caller has.
    options : ServiceOptions, optional
        ``deadline``, ``max_running`` and ``max_waiting`` hold for calls of tools; ``max_query``,
        ``max_limit``, ``max_levels`` and ``max_ids`` for their arguments.

    Returns
    -------
    mcp.server.Server
        To be run over any transport of the SDK.

    Raises
    ------
    OptionError
        There is no such system, or the store cannot serve it.
    DTypeError
        No Memory.

    Examples
    --------
    >>> import asyncio
    >>> from mcp.client import Client
    >>> from hyrecall import recipes
    >>> from hyrecall.memory import Memory
    >>> async def ask() -> str:
    ...     options = {"recipe": recipes.default, "embedder": None}
    ...     async with Memory.in_memory(**options) as memory:
    ...         async with Client(create_server(memory)) as client:
    ...             await client.call_tool("remember", {"text": "Tea at four", "id": "tea"})
    ...             found = await client.call_tool("search", {"text": "tea"})
    ...             return found.structured_content["items"][0]["episode"]["id"]
    >>> asyncio.run(ask())
    'tea'
    """
    if not isinstance(memory, Memory):
        raise error(DTypeError, "memory", "an open Memory", type(memory).__name__)
    if caller is None:
        caller = Caller(user_id=default_user(memory), rights=frozenset(("read", "write")))
    options = ServiceOptions() if options is None else options
    tools = {tool.name: tool for tool in _tools(memory, systems)}
    answers = _Answers(memory, caller, tools, readonly, options, CallLimiter(options))
    return Server(
        "hyrecall",
        version=__version__,
        title="hyrecall memory",
        instructions=(
            "A durable memory. Search it before you answer questions about earlier conversations, "
            "people, decisions or preferences. Save what will matter later, one idea at a time. "
            f"What tools return is: {NOTICE[0].lower()}{NOTICE[1:]}"
        ),
        get_tool_input_schema=answers.schema,
        on_list_tools=answers.list_tools,
        on_call_tool=answers.call_tool,
        on_list_resources=answers.list_resources,
        on_list_resource_templates=answers.list_templates,
        on_read_resource=answers.read_resource,
    )


def default_user(memory: Memory) -> str | None:
    """Return the user of a server for which none is named."""
    return DEFAULT_USER if memory._sync._store.recipe.name == "l0" else None


def _tools(memory: Memory, systems: Iterable[str] | None) -> Iterable[Tool]:
    """Return the tools to list: hyrecall's own, then those of the systems."""
    yield from _OWN
    own = memory._sync._store.recipe.name
    if systems is None:
        family = _FAMILIES.get(own, own)
        systems = (family,) if family in SYSTEMS else ()
    served = served_recipes(memory)
    for name in systems:
        if name not in SYSTEMS:
            raise error(OptionError, "systems", f"one of {', '.join(SYSTEMS)}", repr(name))
        if name not in served:
            wish = f"systems whose recipe shares an index with {own}"
            raise error(OptionError, "systems", wish, name)
        yield from import_module(f"hyrecall.systems.{name}.tools").TOOLS


@dataclass
class _Answers:
    """The handlers of one server."""

    memory: Memory
    caller: Caller
    tools: dict[str, Tool]
    readonly: bool
    options: ServiceOptions
    gate: CallLimiter

    @cached_property
    def _schemas(self) -> dict[str, dict[str, Any]]:
        return {
            name: tool.listed(self._sizes[name]).input_schema for name, tool in self.tools.items()
        }

    @cached_property
    def _sizes(self) -> dict[str, ServiceOptions]:
        """The options for each tool: a page is not larger than the recipe's depth, either."""
        depths = {name: recipe.depth for name, recipe in served_recipes(self.memory).items()}
        depths[""] = self.memory._sync._store.recipe.depth
        most = self.options.max_limit
        return {
            name: self.options
            if tool.recipe is None
            else replace(self.options, max_limit=min(most, depths[tool.recipe]))
            for name, tool in self.tools.items()
        }

    async def list_tools(
        self, context: _Context, params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        """List the tools that the caller may use."""
        session = self._session(context)
        listed = [
            tool.listed(self._sizes[name], _free_names(session.caller, tool))
            for name, tool in self.tools.items()
            if tool.is_for(session.caller)
        ]
        return types.ListToolsResult(tools=listed)

    def schema(self, name: str) -> dict[str, Any] | None:
        """Return what a tool takes."""
        return self._schemas.get(name)

    async def call_tool(
        self, context: _Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        """Answer a call of a tool; an error of the tool is a result with ``isError``."""
        name = params.name if params.name in self.tools else "a call"  # for the log
        try:
            reply, data = await self.gate.run(lambda: self._shown(context, params))
        except Exception as fault:
            return types.CallToolResult(content=[_text(_told(fault, name))], is_error=True)
        text = reply.text(data) if callable(reply.text) else reply.text
        if text is None:
            text = json.dumps(data, ensure_ascii=False)
        return types.CallToolResult(content=[_text(text)], structured_content=data)

    async def _shown(
        self, context: _Context, params: types.CallToolRequestParams
    ) -> tuple[ToolReply, dict[str, Any]]:
        """Return a reply with its data, in which long texts are cut."""
        reply = await self._answer(context, params)
        data = reply.data
        if not isinstance(data, dict):
            data = data.model_dump(mode="json", by_alias=True)
        if not fits(entry_sizes(data)):
            data = await asyncio.to_thread(with_previews, data, reply.excerpts)
        return reply, data

    async def _answer(self, context: _Context, params: types.CallToolRequestParams) -> ToolReply:
        tool = self.tools.get(params.name)
        if tool is None:
            raise error(OptionError, "name", f"one of {', '.join(self.tools)}", "another tool")
        given = dict(params.arguments or {})
        session = self._session(context)
        named = {name: given.pop(name, None) for name in _free_names(session.caller, tool)}
        session = session.narrowed({k: one for k, one in named.items() if one is not None})
        for right in sorted(tool.rights):
            session.check_right(right)
        return await tool.answer(session, tool.read(given, self._sizes[params.name]))

    async def list_resources(
        self, context: _Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        """List the caller's pinned memories."""
        cursor = None if params is None else params.cursor
        session = self._session(context)
        try:
            session.check_right("read")
            return await self.gate.run(lambda: listed(session, cursor))
        except Exception as fault:
            raise _protocol_error(fault, "resources/list") from None

    async def list_templates(
        self, context: _Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        """Say how the address of a memory is made."""
        return types.ListResourceTemplatesResult(resource_templates=[TEMPLATE])

    async def read_resource(
        self, context: _Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        """Return the text of a memory."""
        session = self._session(context)
        try:
            session.check_right("read")
            return await self.gate.run(lambda: read(session, str(params.uri)))
        except Exception as fault:
            raise _protocol_error(fault, "resources/read") from None

    def _session(self, context: _Context) -> CallerSession:
        """Return the session of who calls: a request over HTTP may bring its own caller."""
        scope = getattr(context.request, "scope", {})
        caller: Caller = scope.get(CALLER, self.caller)
        if self.readonly:
            caller = replace(caller, rights=caller.rights - {"write"})
        return CallerSession(self.memory, caller)


def _free_names(caller: Caller, tool: Tool) -> list[str]:
    """Return the names of the scope that a call of a tool may give."""
    return [name for name in free_names(caller) if name in tool.scope]


def _text(text: str) -> types.TextContent:
    return types.TextContent(type="text", text=text)


def _told(fault: Exception, where: str) -> str:
    """Return an error as one line; the causes of faults of the server are for its log."""
    kind = type(fault).__name__
    if isinstance(fault, BusyError):
        return f"{kind}: {fault}"
    if not isinstance(fault, HyrecallError):
        _log.error("%s failed: %s", where, type_and_place(fault))
        return "InternalError: an internal error; the log of the server says more"
    status = outcome_of(fault).status
    if status < 500:
        return f"{kind}: {without_remedy(fault)}"
    _log.error("%s failed: %s", where, kind)
    what = "cannot take the call now" if status == 503 else "failed"
    return f"{kind}: the store {what}; the log of the server says more"


def _protocol_error(fault: Exception, where: str) -> MCPError:
    """Return the error of the protocol for what a request of a resource raised."""
    is_typed = isinstance(fault, HyrecallError)
    code = types.INVALID_PARAMS if is_typed else types.INTERNAL_ERROR
    message = str(fault) if isinstance(fault, BusyError) else _told(fault, where)
    return MCPError(code=code, message=message)
