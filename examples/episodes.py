"""An agent's episodes: hybrid recall with the parts of every score, a threshold, a reranker."""

import asyncio
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from hyrecall import recipes
from hyrecall.memory import Agent, Episode, EpisodeMatch, Memory
from hyrecall.systems.loom import default_recall_scored


async def main(folder: Path) -> None:
    """Keep episodes, recall them, and rerank the matches."""
    memory = await Memory.open(folder / "agent.mem", recipe=recipes.loom, embedder=None)
    agent = Agent("You know our servers.", model="any", memory=memory)

    # Seed three episodes for alice.
    for text in (
        "Postgres replication is configured asynchronously.",
        "Today's lunch was great.",
        "We migrated to logical replication on the primary.",
    ):
        await memory.remember(
            Episode(
                user_id="alice",
                kind="episodic",
                input="...",
                text=text,
                created_at=datetime.now(UTC),
            )
        )
    matches = await agent.memory.recall_scored(
        "postgres replication", user_id="alice", limit=3, alpha=0.5
    )
    for m in matches:
        print(f"{m.score:.3f} bm25={m.bm25_score:.3f} {m.episode.text[:50]}")
    assert [m.episode.text.split()[0] for m in matches] == ["Postgres", "We", "Today's"]
    assert await memory.recall_scored("postgres replication", user_id="bob") == []

    # A threshold: scores divided by the best possible score lie in [0, 1].
    found = await memory.search("postgres replication", user_id="alice", limit=20, normalize=True)
    strong = [m for m in found if m.score >= 0.6]
    print(len(strong), "strong")

    # Your own reranker, applied to the matches by hand ...
    def predict(pairs: list[tuple[str, str]]) -> list[float]:
        return [len(set(q.split()) & set(t.lower().split())) / len(t.split()) for q, t in pairs]

    matches = await memory.recall_scored("replication primary", user_id="alice", limit=50)
    scores = predict([("replication primary", m.episode.text) for m in matches])
    reranked = sorted(
        (
            EpisodeMatch(
                episode=m.episode,
                score=score,
                vector_score=m.vector_score,
                bm25_score=m.bm25_score,
                rerank_score=score,
            )
            for m, score in zip(matches, scores, strict=True)
        ),
        key=lambda m: m.score,
        reverse=True,
    )[:5]
    print(reranked[0].episode.text)

    # ... or by the search itself, with a time limit of one second.
    def rerank(query: str, texts: list[str]) -> list[float]:
        return predict([(query, text) for text in texts])

    built_in = await memory.search("replication primary", user_id="alice", reranker=rerank)
    assert built_in[0].rerank_score is not None
    await memory.close()


class MyMemory:
    """Your own backend: recall() is enough."""

    async def recall(self, query: str, **options: object) -> list[Episode]:
        """Return episodes, best first."""
        return [Episode(text=f"something about {query}")]

    async def recall_scored(self, query: str, **options: object) -> list[EpisodeMatch]:
        """Return the episodes with a neutral score."""
        return await default_recall_scored(self, query, **options)


with tempfile.TemporaryDirectory() as temporary:
    asyncio.run(main(Path(temporary)))
(only,) = asyncio.run(MyMemory().recall_scored("tea", user_id="alice"))
print(only.score, only.bm25_score, only.episode.text)
