"""The contract of a memory as tests: subclass :class:`MemoryContract` in a test module.

class TestMine(MemoryContract):
    def make(self, episodes):
        return MyMemory(episodes)
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Coroutine, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from hyrecall.memory import ANONYMOUS, Episode, EpisodeMatch

__all__ = ["MemoryContract"]

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
HOSTILE = ('"', "*", "AND", "NEAR(", ":", "^", "\0", "%_", "(", "🦜", "a" * 5_000, "x" + " y" * 400)


def _episode(at: int = 0, **fields: Any) -> Episode:
    """Return an episode of so many hours after noon."""
    time = NOON + timedelta(hours=at)
    given = {"id": f"e{at}", "user_id": "alice", "text": f"note {at}", "occurred_at": time}
    return Episode(**{**given, **fields})


class MemoryContract:
    """The promises. A memory has the coroutines ``recall`` and ``recall_scored``.

    Where it has ``forget`` too, that is checked as well: it takes ``id``, ``user_id`` and
    ``everything``, without which a call that only names a user is refused.

    Notes
    -----
    Each test makes a memory of its own, on an event loop of its own, and lets go of it. ``recall``
    takes what that of :class:`hyrecall.memory.MemorySync` does.

    Examples
    --------
    >>> from hyrecall.systems.loom.neutral_scores import check_recall, ranked
    >>> class Listed:
    ...     def __init__(self, episodes):
    ...         self._episodes = episodes
    ...
    ...     async def recall(self, query, *, user_id=None, **options):
    ...         own = [one for one in self._episodes if one.user_id == user_id]
    ...         return [match.episode for match in ranked(own, check_recall(query, **options))]
    >>> class TestListed(MemoryContract):
    ...     def make(self, episodes):
    ...         return Listed(episodes)
    >>> TestListed().test_the_limit_holds()
    """

    # Where it has ``forget`` too, that is checked as well: it takes ``id``, ``user_id`` and
    # ``everything``, without which a call that only names a user is refused.

    def make(self, episodes: Sequence[Episode]) -> Any:
        """Return a new memory that holds these episodes, or what can be awaited for one.

        Parameters
        ----------
        episodes : sequence of Episode

        Returns
        -------
        object

        Raises
        ------
        NotImplementedError
            The subclass says none.
        """
        raise NotImplementedError  # a subclass says which backend is tested

    async def done(self, memory: Any) -> None:
        """Let go of a memory: call its ``close`` if it has one.

        Parameters
        ----------
        memory : object
            What :meth:`make` gave.
        """
        close = getattr(memory, "close", None)
        if close is not None and inspect.isawaitable(closing := close()):
            await closing

    def _ask(self, episodes: Sequence[Episode], query: str = "note", **options: Any) -> list[str]:
        """Return the ids that one recall gives."""

        async def ask(memory: Any) -> list[str]:
            return [one.id for one in await memory.recall(query, **options)]

        ids: list[str] = self._with(episodes, ask)
        return ids

    def _with(self, episodes: Sequence[Episode], use: Any) -> Any:
        async def run() -> Any:
            made = self.make(episodes)
            memory = await made if inspect.isawaitable(made) else made
            try:
                return await use(memory)
            finally:
                await self.done(memory)

        running: Coroutine[Any, Any, Any] = run()
        return asyncio.run(running)

    # ---- replies ----

    def test_an_episode_comes_back_as_it_was(self) -> None:
        kept = _episode(
            input="Wo läuft es?", text="Auf pg-eu-2 🐘", metadata={"n": [1, None]}, tags=("a",)
        )

        async def ask(memory: Any) -> Any:
            return await memory.recall("läuft", user_id="alice")

        assert self._with([kept], ask) == [kept]

    def test_matches_are_the_episodes_in_their_order(self) -> None:
        episodes = [_episode(at, text=f"tea {'note ' * at}") for at in range(4)]

        async def ask(memory: Any) -> Any:
            options = {"user_id": "alice", "limit": 10}
            return await memory.recall("note", **options), await memory.recall_scored(
                "note", **options
            )

        plain, scored = self._with(episodes, ask)
        assert all(isinstance(match, EpisodeMatch) for match in scored)
        assert [match.episode for match in scored] == plain
        scores = [match.score for match in scored]
        assert scores == sorted(scores, reverse=True)

    def test_the_same_call_gives_the_same(self) -> None:
        episodes = [_episode(at, text="the same words") for at in range(6)]

        async def ask(memory: Any) -> Any:
            return [await memory.recall("words", user_id="alice", limit=6) for _ in range(3)]

        first, *others = self._with(episodes, ask)
        assert len(first) == 6
        assert all(one == first for one in others)

    def test_a_blank_query_gives_the_newest(self) -> None:
        episodes = [_episode(at) for at in (2, 0, 3, 1)]
        for query in ("", "  "):
            assert self._ask(episodes, query, user_id="alice", limit=3) == ["e3", "e2", "e1"]

    # ---- users ----

    def test_nobody_sees_what_is_anothers(self) -> None:
        episodes = [_episode(0), _episode(1, user_id="bob"), _episode(2, user_id="alice ")]
        assert self._ask(episodes, user_id="alice") == ["e0"]
        assert self._ask(episodes, user_id="bob") == ["e1"]

    @pytest.mark.filterwarnings("ignore::hyrecall.memory.data.types.IsolationWarning")
    def test_the_anonymous_are_a_bucket_of_their_own(self) -> None:
        episodes = [_episode(0), _episode(1, user_id=None), _episode(2, user_id="None")]
        assert self._ask(episodes, user_id=None) == ["e1"]
        assert self._ask(episodes) == ["e1"]
        assert self._ask(episodes, user_id="alice") == ["e0"]

    @pytest.mark.filterwarnings("ignore::hyrecall.memory.data.types.IsolationWarning")
    def test_the_empty_name_is_a_bucket_of_its_own(self) -> None:
        episodes = [_episode(0, user_id=""), _episode(1, user_id=None)]
        assert self._ask(episodes, user_id="") == ["e0"]
        assert self._ask(episodes, user_id=None) == ["e1"]

    def test_an_unknown_user_has_nothing(self) -> None:
        for query in ("note", "", "zebra"):
            assert self._ask([_episode()], query, user_id="carol") == []

    def test_one_id_may_be_of_several_users(self) -> None:
        episodes = [_episode(0), _episode(0, user_id="bob", text="note of bob")]

        async def ask(memory: Any) -> Any:
            return [await memory.recall("note", user_id=user) for user in ("alice", "bob")]

        assert self._with(episodes, ask) == [[episodes[0]], [episodes[1]]]

    def test_reserved_and_wrong_users_are_refused(self) -> None:
        with pytest.raises(ValueError, match="user_id"):
            self._ask([], user_id=ANONYMOUS)
        with pytest.raises(TypeError, match="user_id"):
            self._ask([], user_id=7)

    # ---- options ----

    def test_the_kind_narrows(self) -> None:
        episodes = [_episode(0), _episode(1, kind="semantic")]
        assert self._ask(episodes, user_id="alice") == ["e0"]
        assert self._ask(episodes, user_id="alice", kind="semantic") == ["e1"]
        assert set(self._ask(episodes, user_id="alice", kind=None)) == {"e0", "e1"}
        assert self._ask(episodes, user_id="alice", kind="other") == []

    def test_a_time_range_has_both_its_ends(self) -> None:
        episodes = [_episode(at) for at in range(4)]
        one, two = (NOON + timedelta(hours=at) for at in (1, 2))

        def between(first: datetime | None, last: datetime | None) -> set[str]:
            return set(self._ask(episodes, user_id="alice", time_range=(first, last)))

        assert between(one, two) == {"e1", "e2"}
        assert between(one + MICROSECOND, two - MICROSECOND) == set()
        assert between(None, one) == {"e0", "e1"}
        assert between(two, None) == {"e2", "e3"}
        assert between(two, one) == set()
        assert between(one.replace(tzinfo=None), one.replace(tzinfo=None)) == {"e1"}

    def test_the_limit_holds(self) -> None:
        episodes = [_episode(at) for at in range(7)]
        assert self._ask(episodes, user_id="alice", limit=0) == []
        assert len(self._ask(episodes, user_id="alice")) == 5
        assert len(self._ask(episodes, user_id="alice", limit=3)) == 3
        assert len(self._ask(episodes, user_id="alice", limit=1_000)) == 7

    @pytest.mark.parametrize("limit", [-1, 2.5, "3", None])
    def test_a_wrong_limit_is_refused(self, limit: Any) -> None:
        with pytest.raises((ValueError, TypeError), match="limit"):
            self._ask([_episode()], user_id="alice", limit=limit)

    @pytest.mark.parametrize("query", HOSTILE)
    def test_no_text_is_a_mistake(self, query: str) -> None:
        assert self._ask([_episode(user_id="bob")], query, user_id="alice") == []

    def test_a_query_that_is_no_text_is_refused(self) -> None:
        with pytest.raises(TypeError, match="query"):
            self._ask([_episode()], 5, user_id="alice")  # type: ignore[arg-type]

    # ---- concurrent calls, and forgetting ----

    def test_calls_at_the_same_time_do_not_meet(self) -> None:
        users = [f"user {at}" for at in range(8)]
        episodes = [_episode(at, user_id=user) for at, user in enumerate(users)]

        async def ask(memory: Any) -> Any:
            return await asyncio.gather(*(memory.recall("note", user_id=user) for user in users))

        assert self._with(episodes, ask) == [[one] for one in episodes]

    def test_what_is_forgotten_is_gone(self) -> None:
        episodes = [_episode(0), _episode(1), _episode(1, user_id="bob")]

        async def ask(memory: Any) -> Any:
            if not hasattr(memory, "forget"):
                pytest.skip("it cannot forget")
            first = await memory.forget("e0", user_id="alice")
            left = [one.id for one in await memory.recall("note", user_id="alice")]
            rest = await memory.forget(user_id="alice", everything=True)
            return (
                first,
                left,
                rest,
                *[
                    [one.id for one in await memory.recall("note", user_id=user)]
                    for user in ("alice", "bob")
                ],
            )

        assert self._with(episodes, ask) == (1, ["e1"], 1, [], ["e1"])

    @pytest.mark.parametrize(
        "given",
        [{}, {"user_id": "alice"}, {"id": None, "user_id": "alice"}, {"everything": True},
         {"id": "e0", "user_id": "alice", "everything": True}],
    )  # fmt: skip
    def test_a_forget_that_only_its_user_narrows_is_refused(self, given: dict[str, Any]) -> None:
        async def ask(memory: Any) -> Any:
            if not hasattr(memory, "forget"):
                pytest.skip("it cannot forget")
            with pytest.raises(ValueError, match="expected"):
                await memory.forget(**given)
            return [one.id for one in await memory.recall("note", user_id="alice")]

        assert self._with([_episode(0)], ask) == ["e0"]
