"""Calls tools of the OpenAI Agents SDK and of Pydantic AI as a run of theirs does."""

import asyncio
import dataclasses
import json
from typing import Any


def call(tool: Any, user: Any, query: str) -> str:
    """Call a tool of the OpenAI Agents SDK in a run whose context is a user."""
    import agents
    from agents import tool_context

    arguments = json.dumps({"query": query})
    context: Any = agents.RunContextWrapper(user)
    if with_call := getattr(tool_context, "ToolContext", None):
        options = {"tool_name": tool.name, "tool_call_id": "c", "tool_arguments": arguments}
        try:
            context = with_call(user, **options)
        except TypeError:  # an older release
            context = with_call(user, tool_name=tool.name, tool_call_id="c")
    return str(asyncio.run(tool.on_invoke_tool(context, arguments)))


@dataclasses.dataclass
class Deps:
    """What runs of Pydantic AI depend on."""

    user: str | None


def calling(tool: str, arguments: dict[str, Any]) -> Any:
    """Return a model that calls a tool once, then answers with what the tool returned."""
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart, ToolReturnPart
    from pydantic_ai.models.function import FunctionModel

    def reply(messages: Any, info: Any) -> ModelResponse:
        for part in messages[-1].parts:
            if isinstance(part, ToolReturnPart):
                return ModelResponse(parts=[TextPart(part.model_response_str() or "[]")])
        assert [one.name for one in info.function_tools] == [tool]
        return ModelResponse(parts=[ToolCallPart(tool, arguments)])

    return FunctionModel(reply)


def run(tool: Any, arguments: dict[str, Any], user: str | None = "ann") -> str:
    """Call a tool of Pydantic AI in a run of a user."""
    from pydantic_ai import Agent

    agent = Agent(calling(tool.name, arguments), tools=[tool], deps_type=Deps)
    return asyncio.run(agent.run("go", deps=Deps(user))).output
