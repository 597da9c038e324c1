"""The tools of the verbs of :mod:`hyrecall.memory.ops`: one for each entry."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from pydantic import create_model
from pydantic_core import to_jsonable_python

from hyrecall.base.fences import NOTICE, fenced
from hyrecall.errors import OptionError, error
from hyrecall.memory.changes import TEXT_FIELDS
from hyrecall.memory.ops import OPS, Op, model_of, words_of
from hyrecall.memory.replies import REPLIES
from hyrecall.serve.mcp.search_tool import said, text_of_memories
from hyrecall.serve.mcp.session import CallerSession
from hyrecall.serve.mcp.tool import Arguments, Previews, StoredTexts, Structure, Tool, ToolReply


def _told_of_version(data: dict[str, Any]) -> str:
    return f"Version {data['version']} of {data['id']} was written."


def _told_of_facts(data: dict[str, Any]) -> str:
    names = ("id", "valid_from", "valid_to")
    texts = [({name: one[name] for name in names}, one["text"]) for one in data["items"]]
    return fenced(texts) if texts else "Nothing was found."


def _told_of_history(data: dict[str, Any]) -> str:
    names = ("version", "status", "recorded_at", "reason")
    texts = [
        (
            {name: one[name] for name in names},
            "" if one["episode"] is None else said(one["episode"]),
        )
        for one in data["items"]
    ]
    return fenced(texts) if texts else "There is no such memory."


_TEXTS: Final[dict[str, Callable[[dict[str, Any]], str]]] = {
    **dict.fromkeys(
        ("remember", "supersede", "remember_fact"), lambda data: f"Saved as {data['id']}."
    ),
    **dict.fromkeys(("update", "end_fact"), _told_of_version),
    **dict.fromkeys(("recall_facts", "list_facts"), _told_of_facts),
    "get": lambda data: text_of_memories([data]),
    "list": lambda data: text_of_memories(data["items"]),
    "history": _told_of_history,
    "forget": lambda data: "Forgotten." if data["forgotten"] else "There was no such memory.",
    "forget_many": lambda data: f"{data['forgotten']} forgotten.",
    "update_many": lambda data: f"{data['updated']} changed.",
    "link": lambda data: f"Linked as {data['id']}.",
    "unlink": lambda data: "Removed." if data["unlinked"] else "There was no such link.",
    "feedback": lambda data: f"Noted, {data['new']} new.",
}
"""The reply as a text for people and models; of other verbs it is the data as JSON."""


def _tool(op: Op) -> Tool:
    """Return the tool of a verb."""
    shape = REPLIES[op.name][0]
    is_list = "items" in shape.model_fields
    base = Structure if op.effect != "reads" else Previews if is_list else StoredTexts
    takes: Any = model_of(op, "mcp", Arguments)
    returns: Any = create_model(f"{shape.__name__}OfTool", __base__=(base, shape))

    async def reply(session: CallerSession, given: Arguments) -> ToolReply:
        asked = {name: getattr(given, name) for name in given.model_fields_set}
        if op.name in ("remember", "supersede") or (
            op.name == "update" and not TEXT_FIELDS.isdisjoint(asked)
        ):
            asked["author"] = "agent"  # who calls a tool is one, whatever the text says
        if "author" in asked.get("changes", ()):
            raise error(OptionError, "changes['author']", "another field", "author")
        for right in sorted(op.rights(asked)):
            session.check_right(right)
        data = await session.run(
            lambda: to_jsonable_python(session.answer(op, asked), inf_nan_mode="null")
        )
        if op.effect == "reads":
            data = {"notice": NOTICE, **data} | ({"is_cut": False} if is_list else {})
        return ToolReply(data, _TEXTS.get(op.name))

    return Tool(
        op.name, op.title, words_of(op), takes, returns, op.effect,
        reply, op.is_repeatable, op.shows == "*", scope=op.scope,
        for_agents=op.is_at("agent") or op.name == "get_policy", is_of_all=op.is_of_all,
    )  # fmt: skip


TOOLS: Final = tuple(_tool(op) for op in OPS.values() if op.is_at("mcp"))
