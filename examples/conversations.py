"""A chat in a store: an answer is found beside the words of its question, with the turns around."""

from datetime import UTC, datetime, timedelta

from hyrecall import recipes
from hyrecall.memory import Episode, MemorySync

CHATS = {
    "moving": (
        ("mia", "Have you found a flat near the harbour yet?"),
        ("jon", "Yes! Two rooms, third floor, and the rent is 840."),
        ("mia", "That is cheap. When do you move?"),
        ("jon", "On the last Saturday of May, if my brother lends me his van."),
        ("mia", "Where will the piano go?"),
        ("jon", "To my aunt, she has room and she plays every day."),
    ),
    "doctor": (
        ("mia", "What did the doctor say about your knee?"),
        ("jon", "Nothing is torn. Six weeks without running, then we look again."),
        ("mia", "And what do you do instead?"),
        ("jon", "I swim twice a week, before work."),
        ("mia", "Did you get the name of a good dentist there?"),
        ("jon", "She said to ask for Okafor, near the station."),
    ),
    "trip": (
        ("jon", "Which train do we take to Porto?"),
        ("mia", "The 7:40, otherwise we miss the ferry."),
        ("jon", "Who feeds the cat while we are away?"),
        ("mia", "My neighbour Ines. I left her the spare key under the blue pot."),
        ("jon", "Shall we book the same hotel in Porto as last year?"),
        ("mia", "Rather not, it was loud. I wrote to a small place by the river."),
    ),
    "work": (
        ("jon", "How did the talk with your boss go?"),
        ("mia", "Better than I feared. I get Fridays off from June on."),
        ("jon", "Does the new colleague know about the ferry timetable project?"),
        ("mia", "Not yet, she starts in July."),
        ("jon", "Did you ever find a train of thought for the harbour report?"),
        ("mia", "I gave up and went for a walk."),
    ),
}

QUESTIONS = {
    "how much is the flat near the harbour": "Two rooms",
    "where does the piano go": "To my aunt",
    "what did the doctor say about the knee": "Nothing is torn",
    "name of a good dentist": "Okafor",
    "which train to Porto": "7:40",
    "who feeds the cat while they are away": "Ines",
    "which hotel did they book in Porto": "by the river",
    "how did the talk with the boss go": "Fridays off",
}

PLAIN = recipes.default.replace(with_threads=None)  # each turn for itself
START = datetime(2026, 5, 1, 18, tzinfo=UTC)


def turns() -> list[Episode]:
    """Every turn as a memory of one user: its session, its time, who said it."""
    return [
        Episode(
            text=text, user_id="mia", session_id=session, metadata={"speaker": speaker},
            occurred_at=START + timedelta(days=day, minutes=minute),
        )
        for day, (session, chat) in enumerate(CHATS.items())
        for minute, (speaker, text) in enumerate(chat)
    ]  # fmt: skip


# An embedder would help, too; without one the words alone have to do.
with MemorySync.in_memory(recipe=recipes.default, embedder=None) as memory:
    memory.remember_batch(turns())

    found = {"each turn for itself": 0, "with the turns around it": 0}
    for question, answer in QUESTIONS.items():
        for name, recipe in zip(found, (PLAIN, recipes.default), strict=True):
            matches = memory.search(question, user_id="mia", limit=3, recipe=recipe)
            found[name] += any(answer in match.episode.text for match in matches)
    for name, n in found.items():
        print(f"{name}: {n} of {len(QUESTIONS)} answers among the first 3")
    assert found["with the turns around it"] > found["each turn for itself"]

    # Why: the explanation names the turn that spoke for an answer without a word of the question.
    matches = memory.search("which train to Porto", user_id="mia", limit=3)
    answer = next(match for match in matches if "7:40" in match.episode.text)
    print(answer.explain())

    # What a prompt gets: matches with the turns on either side, each turn once, within a budget.
    matches = memory.search("who feeds the cat", user_id="mia", limit=2, around=1, token_budget=60)
    for match, near in zip(matches, matches.around, strict=True):
        passage = sorted((match.episode, *near), key=lambda one: one.occurred_at)
        print(f"\n[{match.episode.session_id}]")
        for turn in passage:
            print(f"  {turn.metadata['speaker']}: {turn.text}")
