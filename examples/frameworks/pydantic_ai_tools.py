"""Pydantic AI: an agent keeps and recalls memories of the user whom its run names.

A real program names a model, such as ``Agent("openai:gpt-5", ...)``; a function plays it here, so
that the example runs without a network and without a key.
"""

from dataclasses import dataclass

from pydantic_ai import Agent, RunContext
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from hyrecall.adapters.pydantic_ai import recall_tool, remember_tool
from hyrecall.memory import MemorySync
from hyrecall import recipes as loom


@dataclass
class Deps:
    """Who is speaking: an application takes it from its login, never from the model."""

    user_id: str


def whose(ctx: RunContext[Deps]) -> str:
    """Return the user of a run."""
    return ctx.deps.user_id


def model(messages: list[ModelMessage], _info: AgentInfo) -> ModelResponse:
    """Play a model: keep what it is told to remember, look up what it is asked."""
    last = messages[-1].parts[-1]
    if isinstance(last, ToolReturnPart):
        return ModelResponse(parts=[TextPart(last.model_response_str())])
    prompt = str(getattr(last, "content", ""))
    if prompt.startswith("Remember: "):
        call = ToolCallPart("remember", {"text": prompt.removeprefix("Remember: ")})
    else:
        call = ToolCallPart("recall_memory", {"query": prompt})
    return ModelResponse(parts=[call])


with MemorySync.in_memory(recipe=loom, embedder=None) as memory:
    agent = Agent(
        FunctionModel(model),
        deps_type=Deps,
        tools=[recall_tool(memory, user_id=whose), remember_tool(memory, user_id=whose)],
    )
    agent.run_sync("Remember: Ann drinks oolong tea", deps=Deps("ann"))
    agent.run_sync("Remember: Bob drinks black coffee", deps=Deps("bob"))

    for_ann = agent.run_sync("Who drinks what?", deps=Deps("ann")).output
    for_bob = agent.run_sync("Who drinks what?", deps=Deps("bob")).output
    print("ann:", for_ann)
    print("bob:", for_bob)
    assert "oolong" in for_ann
    assert "coffee" not in for_ann
    assert "coffee" in for_bob
    assert "oolong" not in for_bob
