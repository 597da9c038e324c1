"""What others keep changes no byte of a reply."""

import random
from typing import Any

import pytest

from hyrecall import recipes
from hyrecall.embed import HashEmbedder
from hyrecall.memory import Episode, Fact, Matches, MemorySync
from laws.effort import Effort
from memory.isolation.world import ORG, WORDS, WORKSPACE, told
from memory.stores import DIM, HOUR, NOON, Clock, folder

ASKED = 100


def own(rng: random.Random) -> list[Episode]:
    return [
        Episode(
            id=f"m{at}",
            user_id="bob",
            text=" ".join(rng.choices(WORDS, k=rng.randrange(1, 6))),
            occurred_at=NOON + rng.randrange(9) * HOUR,
            tags=tuple(rng.sample(WORDS, 2)),
            source=rng.choice(["memory", "session"]),
            session_id=rng.choice([None, "s"]),
        )
        for at in range(rng.randrange(1, 14))
    ]


def others(rng: random.Random) -> list[Episode]:
    """Of anybody else: the same ids and words, so that they would be met if they were seen."""
    return [
        Episode(
            id=f"m{at}" if rng.random() < 0.5 else f"x{at}",
            user_id=rng.choice(["alice", None, "", "bob "]),
            org=rng.choice([None, ORG]),
            visibility=rng.choice(["private", "global"]),
            workspace=None if rng.random() < 0.5 else WORKSPACE,
            text=" ".join(rng.choices(WORDS, k=rng.randrange(1, 9))),
            tags=tuple(rng.sample(WORDS, 2)),
        )
        for at in range(rng.randrange(30))
    ]


def store(mine: list[Episode], theirs: list[Episode], rng: random.Random) -> MemorySync:
    """Bob's in their order, anybody else's in between, some of them changed and gone again."""
    memory = MemorySync.open(folder(), embedder=HashEmbedder(dim=DIM), clock=Clock())
    waiting = {(e.org, e.workspace, e.user_id, e.visibility, e.id): e for e in theirs}
    left = list(waiting.values())
    for one in mine:
        for _ in range(rng.randrange(3)):
            if left:
                memory.remember(left.pop())
        memory.remember(one)
    memory.remember_batch(left)
    for one in theirs[::3]:
        memory.forget(one.id, user_id=one.user_id, org=one.org, workspace=one.workspace)
    memory.remember_fact(
        Fact(id="f", user_id="bob", subject="oak", predicate="is", object="ash", valid_from=NOON)
    )
    if rng.random() < 0.5:
        fact = Fact(user_id="alice", subject="oak", predicate="is", object="elm")
        memory.remember_fact(fact)
        memory.link(["m0", "m1"], "oak", user_id="alice")
    return memory


def call(rng: random.Random) -> Any:
    """One call of bob's, to be made of two stores."""
    query = " ".join(rng.choices(WORDS, k=rng.randrange(3)))
    recipe = rng.choice([None, recipes.default, recipes.honeycomb])
    options = {"limit": rng.randrange(20), "alpha": rng.choice([None, 0.0, 0.3, 1.0])}
    which, key = rng.randrange(6), rng.choice(["m0", "m5", "x1", "f"])
    calls = (
        lambda m: m.search(query, user_id="bob", recipe=recipe, now=NOON, **options),
        lambda m: m.search(query, user_id="bob", diversity=0.4, normalize=True, now=NOON),
        lambda m: m.list(user_id="bob", tags=[WORDS[0]]),
        lambda m: (m.get(key, user_id="bob"), m.history(key, user_id="bob")),
        lambda m: m.recall_facts(query, user_id="bob"),
        lambda m: (m.links(key, user_id="bob"), m.recall_scored(query, user_id="nobody")),
    )
    return calls[which]


def shown(reply: Any) -> list[str]:
    """All that a reply tells, but how long it took."""
    if isinstance(reply, Matches):
        scores = [(m.score.hex(), m.vector_score, m.bm25_score, m.rerank_score) for m in reply]
        around = reply.origins, reply.reasons, reply.related, reply.context, reply.tiers
        told_by = [repr(reply.explain(at)) for at in range(len(reply))]
        notes = None if reply.trace is None else (reply.trace.notes, reply.trace.depth)
        return [repr((list(reply), scores, around, told_by, notes, reply.scope))]
    if isinstance(reply, tuple):
        return [text for one in reply for text in shown(one)]
    return list(told(reply))


@pytest.mark.slow
def test_replies_are_the_same_to_the_last_byte(effort: Effort) -> None:
    for seed in range(effort.cases(quick=3, full=100)):
        check_a_pair(random.Random(seed))


def check_a_pair(rng: random.Random) -> None:
    mine = own(rng)
    with store(mine, others(rng), rng) as one, store(mine, others(rng), rng) as two:
        n_told = 0
        for _ in range(ASKED):
            ask = call(rng)
            left, right = shown(ask(one)), shown(ask(two))
            assert left == right
            n_told += sum(map(len, left))
        assert n_told > ASKED


def test_statistics_of_all_would_be_seen() -> None:
    """The control: a reply that counts others' words differs."""
    rng = random.Random(1)
    mine = [Episode(id="m0", user_id="bob", text="oak ash")]
    stores = [store(mine, [Episode(user_id="alice", text="oak " * n)], rng) for n in (1, 9)]
    scores = []
    for memory in stores:
        ready = memory._store.follower.ready()
        everybody = [(None, None, one, "private", None) for one in ("bob", "alice")]
        import hyrecall as hr

        hits = ready.index.recall_one(text="oak", scope=hr.Scope(everybody))
        scores.append({hit.key: hit.score for hit in hits}["m0"])
        memory.close()
    assert scores[0] != scores[1]
