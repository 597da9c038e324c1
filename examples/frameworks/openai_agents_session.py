"""An agent of the OpenAI Agents SDK with a durable session, and a tool that recalls older ones.

    python examples/frameworks/openai_agents_session.py

Needs the extra [openai-agents]. The model is a class of this file: it asks the tool, then answers.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

from agents import Agent, Model, ModelResponse, Runner, Usage, set_tracing_disabled
from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)

from hyrecall import recipes
from hyrecall.adapters.openai_agents import HyrecallSession, recall_tool
from hyrecall.memory import MemorySync


class Forgetful(Model):
    """Asks its tool for every question, and repeats what the tool says."""

    async def get_response(
        self,
        system_instructions: Any,
        input: Any,  # noqa: A002 (the SDK's name)
        *args: Any,
        **options: Any,
    ) -> ModelResponse:
        """Call the tool after a user's message, and answer after the tool's reply."""
        last = input[-1] if isinstance(input, list) else {"role": "user", "content": input}
        output: Any
        if last.get("type") == "function_call_output":
            text = ResponseOutputText(type="output_text", text=last["output"], annotations=[])
            output = ResponseOutputMessage(
                id="m", type="message", role="assistant", status="completed", content=[text]
            )
        else:
            asked = json.dumps({"query": last["content"]})
            output = ResponseFunctionToolCall(
                type="function_call", name="recall_memory", arguments=asked, call_id=f"c{id(last)}"
            )
        return ModelResponse(output=[output], usage=Usage(), response_id=None)

    def stream_response(self, *args: Any, **options: Any) -> AsyncIterator[Any]:
        """Refuse to stream: this program asks for whole answers."""
        raise NotImplementedError  # nothing here streams


async def main() -> None:
    """Talk in two sessions, as two users."""
    set_tracing_disabled(True)
    with MemorySync.open("agents.mem", recipe=recipes.default, embedder=None) as memory:
        tool = recall_tool(memory, user_id=lambda run: run.context, kind="message")
        agent = Agent(name="Helper", model=Forgetful(), tools=[tool])

        async def say(said: str, user: str, chat: str) -> str:
            session = HyrecallSession(memory, session_id=chat, user_id=user)
            result = await Runner.run(agent, said, context=user, session=session)
            return str(result.final_output)

        await say("My parcel has number INV-2026-0042", user="ann", chat="monday")
        await say("My parcel has number INV-2026-0099", user="bob", chat="monday")
        reply = await say("Which number has my parcel?", user="ann", chat="tuesday")
        print(reply)
        assert "INV-2026-0042" in reply
        assert "0099" not in reply

        monday = HyrecallSession(memory, session_id="monday", user_id="ann")
        items = await monday.get_items()
        assert [item.get("type", "message") for item in items] == [
            "message",
            "function_call",
            "function_call_output",
            "message",
        ]
        await monday.clear_session()
        assert await monday.get_items() == []


if __name__ == "__main__":
    asyncio.run(main())
