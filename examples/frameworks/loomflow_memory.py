"""A loomflow agent whose conversations, facts and notes are kept on the disk.

    python examples/frameworks/loomflow_memory.py

Needs the extra [loomflow]. The model repeats what it is asked.
"""

import asyncio

from loomflow import Agent, EchoModel, Fact

from hyrecall.embed import HashEmbedder
from hyrecall.systems.loom.loomflow import HyrecallMemory


async def talk(said: str, user: str) -> None:
    """Run an agent over the store, which is opened for this run."""
    with HyrecallMemory.open("loom.mem", embedder=HashEmbedder()) as memory:
        agent = Agent("Be brief.", model=EchoModel(), memory=memory)
        await agent.run(said, user_id=user, session_id="monday")


async def main() -> None:
    """Talk, then look at what is remembered."""
    await talk("The deploy failed because the disk was full", user="ann")
    await talk("Lunch is at noon", user="ann")
    await talk("The disk of bob is full", user="bob")
    with HyrecallMemory.open("loom.mem", embedder=HashEmbedder()) as memory:
        found = await memory.recall_scored("why did the deploy fail", user_id="ann", limit=1)
        best = found[0]
        print(f"{best.score:.3f}", best.episode.input)
        assert "disk was full" in best.episode.input
        assert best.bm25_score is not None
        assert best.vector_score is not None

        for city in ("Rome", "Oslo"):
            await memory.facts.append(
                Fact(user_id="ann", subject="ann", predicate="lives in", object=city)
            )
        facts = await memory.recall_facts("where does ann live", user_id="ann")
        print([fact.format() for fact in facts])
        assert [fact.object for fact in facts] == ["Oslo"]

        assert len(await memory.session_messages("monday", user_id="ann")) == 4
        assert await memory.forget(user_id="ann") > 0
        assert (await memory.profile(user_id="ann")).episode_count == 0
        assert (await memory.profile(user_id="bob")).episode_count == 1


if __name__ == "__main__":
    asyncio.run(main())
