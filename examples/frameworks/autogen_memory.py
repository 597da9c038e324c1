"""An AutoGen agent whose memory of a user is kept on the disk.

    python examples/frameworks/autogen_memory.py

Needs the extra [autogen], and autogen-agentchat. The model is a class of this file.
"""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from typing import Any

from autogen_agentchat.agents import AssistantAgent
from autogen_core.memory import MemoryContent, MemoryMimeType
from autogen_core.models import (
    ChatCompletionClient,
    CreateResult,
    ModelInfo,
    RequestUsage,
    SystemMessage,
)

from hyrecall import recipes
from hyrecall.adapters.autogen import HyrecallMemory
from hyrecall.memory import MemorySync


class Repeating(ChatCompletionClient):
    """Repeats the last system message, which has the memories."""

    async def create(self, messages: Sequence[Any], **options: Any) -> CreateResult:
        """Return the text of the last system message."""
        told = [one.content for one in messages if isinstance(one, SystemMessage)]
        return CreateResult(
            finish_reason="stop", content=told[-1], usage=self.total_usage(), cached=False
        )

    def create_stream(self, *args: Any, **options: Any) -> AsyncGenerator[Any, None]:
        """Refuse to stream: this program asks for whole answers."""
        raise NotImplementedError  # nothing here streams

    async def close(self) -> None:
        """Do nothing."""

    def actual_usage(self) -> RequestUsage:
        """Return none."""
        return self.total_usage()

    def total_usage(self) -> RequestUsage:
        """Return none."""
        return RequestUsage(prompt_tokens=0, completion_tokens=0)

    def count_tokens(self, messages: Sequence[Any], **options: Any) -> int:
        """Return none."""
        return 0

    def remaining_tokens(self, messages: Sequence[Any], **options: Any) -> int:
        """Return enough."""
        return 1_000

    @property
    def model_info(self) -> ModelInfo:
        """Say that it can do little."""
        return ModelInfo(
            vision=False, function_calling=False, json_output=False, family="unknown",
            structured_output=False,
        )  # fmt: skip

    @property
    def capabilities(self) -> Any:
        """Say that it can do little."""
        return self.model_info


async def main() -> None:
    """Keep memories of two users, then ask an agent of one."""
    with MemorySync.open("autogen.mem", recipe=recipes.default, embedder=None) as store:
        memory = HyrecallMemory(store, user_id="ann", limit=1)
        for text in ("Ann measures temperature in Celsius", "Ann eats no meat"):
            await memory.add(MemoryContent(content=text, mime_type=MemoryMimeType.TEXT))
        await HyrecallMemory(store, user_id="bob").add(
            MemoryContent(content="Bob measures temperature in Kelvin", mime_type="text/plain")
        )
    with MemorySync.open("autogen.mem", recipe=recipes.default, embedder=None) as store:
        memory = HyrecallMemory(store, user_id="ann", limit=1)
        agent = AssistantAgent("helper", model_client=Repeating(), memory=[memory])
        result = await agent.run(task="What is the temperature outside?")
        reply = str(result.messages[-1].content)
        print(reply)
        assert "Celsius" in reply
        assert "Kelvin" not in reply
        assert "meat" not in reply


if __name__ == "__main__":
    asyncio.run(main())
