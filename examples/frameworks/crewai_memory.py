"""CrewAI: an agent with tools over the memories of its user, and a storage for CrewAI's memory.

A real program names a model, such as ``Agent(llm="openai/gpt-5", ...)``; a class plays it here, so
that the example runs without a network and without a key.
"""

import os
import re

os.environ["CREWAI_DISABLE_TELEMETRY"] = "true"
os.environ["OTEL_SDK_DISABLED"] = "true"

from typing import Any

from crewai import Agent, Crew, Task
from crewai.llms.base_llm import BaseLLM

from hyrecall.adapters.crewai import HyrecallRecallTool
from hyrecall.memory import MemorySync
from hyrecall import recipes as loom


class FakeModel(BaseLLM):
    """Plays a model: look the question up first, then answer with what was found."""

    def call(self, messages: Any, *args: Any, **options: Any) -> str:
        """Return the next step of the agent."""
        told = [messages] if isinstance(messages, str) else [str(one) for one in messages]
        found = re.search(r": (\w+ drinks [\w ]+)", "\n".join(told))
        if found:
            return f"Thought: I know it.\nFinal Answer: {found[1]}"
        return 'Thought: I look it up.\nAction: recall_memory\nAction Input: {"query": "drinks"}\n'

    def supports_function_calling(self) -> bool:
        """Say that tools are called by text."""
        return False


with MemorySync.in_memory(recipe=loom, embedder=None) as memory:
    memory.remember("Ann drinks oolong tea", user_id="ann")
    memory.remember("Bob drinks black coffee", user_id="bob")
    answers = {}
    for user in ("ann", "bob"):
        agent = Agent(
            role="waiter",
            goal="serve what the user likes",
            backstory="You know your guests.",
            llm=FakeModel(model="fake"),
            tools=[HyrecallRecallTool(memory=memory, user_id=user)],
        )
        task = Task(description="What does the user drink?", expected_output="a drink", agent=agent)
        answers[user] = str(Crew(agents=[agent], tasks=[task]).kickoff())
    print(answers)
    assert "oolong" in answers["ann"]
    assert "coffee" in answers["bob"]
