"""Users change a store that crashes now and then; after each step it holds what a dict holds."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import apsw
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from hyrecall import recipes
from hyrecall.errors import KeyConflictError, NotFoundError
from hyrecall.memory import EVERYONE, Episode, Fact, MemorySync
from laws.effort import Effort
from machines import finds, run
from memory.copies import copy_store
from memory.stores import NOON, folder, open_store
from seams import Database, Outcome, audience_module, cells_of
from seams import derived_index as derived
from seams import memory_DATABASE as DATABASE

PLACE: dict[str, Any] = {"org": "acme", "workspace": "west"}
USERS = ("ann", "bob")
WORDS = ("oak", "ash", "elm", "yew")
N_IDS = 3
DAYS = 8
NEVER = 99
Work = Callable[[apsw.Connection], object]
VISIBILITIES = ("private", "global")

# One rule draws among them: hypothesis leaves whole rules out of most programs.
CHANGES = (
    "remember", "update", "forget", "forget_everything", "pin", "remember_fact", "link", "unlink",
    "feedback",
)  # fmt: skip
FILES = ("upkeep", "reopen", "move", "crash")
CHANGE: dict[str, st.SearchStrategy[Any]] = {
    "user": st.sampled_from(USERS),
    "n": st.integers(0, N_IDS - 1),
    "m": st.integers(0, 2**16),
    "flag": st.booleans(),
}


def day(n: int) -> datetime:
    return NOON + timedelta(days=n)


@dataclass
class Row:
    """A live memory, and a word of each of its versions that nothing else holds."""

    text: str
    at: int
    visibility: str
    pinned: bool = False
    secrets: list[str] = field(default_factory=list)


@dataclass
class User:
    """What one user has."""

    rows: dict[str, Row] = field(default_factory=dict)
    gone: dict[str, list[str]] = field(default_factory=dict)  # secrets of what was forgotten
    edges: dict[str, list[str]] = field(default_factory=dict)
    facts: list[tuple[str, int, int]] = field(default_factory=list)
    used: dict[str, set[str]] = field(default_factory=dict)

    def key(self, n: int, m: int) -> str:
        """An id that is there, if any is, three times of four."""
        return sorted(self.rows)[n % len(self.rows)] if self.rows and m % 4 else f"m{n}"

    def leave(self, key: str, visibility: str) -> None:
        """A memory is no more where it was: what named it there goes too."""
        if visibility == "private":
            self.edges = {name: ends for name, ends in self.edges.items() if key not in ends}
        self.used = {q: left for q, keys in self.used.items() if (left := keys - {key})}


class StoreMachine(RuleBasedStateMachine):
    """Each change says what it must return; the invariant compares all that users see."""

    def __init__(self) -> None:
        super().__init__()
        self.path = folder()
        self.n_steps = 0
        self.model = {user: User() for user in USERS}

        self.memory = self.opened()
        for user in USERS:
            self.memory.set_policy(user, policy="shared", **PLACE)

    def opened(self) -> MemorySync:
        return open_store(self.path, embedder=None, recipe=recipes.loom)

    @initialize(**CHANGE)
    def begin(self, **given: Any) -> None:
        for user in USERS:
            self.remember(**(given | {"user": user, "flag": True}))

    @rule(what=st.sampled_from(CHANGES), **CHANGE)
    def change(self, what: str, **given: Any) -> None:
        getattr(self, what)(**given)

    @rule(what=st.sampled_from(FILES))
    def files(self, what: str) -> None:
        getattr(self, what)()

    # ---- memories ----

    def new_text(self, m: int) -> tuple[str, str]:
        """A text, and the word of it that nothing else holds."""
        self.n_steps += 1
        secret = f"zq{self.n_steps:05}"
        return f"{WORDS[m % len(WORDS)]} {WORDS[m // 7 % len(WORDS)]} {secret}", secret

    def remember(self, user: str, n: int, m: int, flag: bool) -> None:
        """One memory, or two in a batch: all or none."""
        own, made, rows = self.model[user], {}, []
        for key in [f"m{n}", f"m{(n + 1) % N_IDS}"][: 2 if flag else 1]:
            text, secret = self.new_text(m)
            seen = own.rows[key].visibility if key in own.rows else VISIBILITIES[m % 5 == 0]
            made[key] = Row(text, self.n_steps, seen, secrets=[secret])
            rows.append(
                Episode(
                    id=key, user_id=user, output=text, visibility=seen, tags=("t",),
                    occurred_at=day(self.n_steps), **PLACE,
                )
            )  # fmt: skip
        call = (lambda: self.memory.remember_batch(rows)) if flag else (
            lambda: [self.memory.remember(rows[0])]
        )  # fmt: skip
        if made.keys() & own.rows.keys():
            with pytest.raises(KeyConflictError):
                call()
            return
        assert [kept.id for kept in call()] == list(made)
        for key, row in made.items():
            row.secrets += own.gone.pop(key, [])
        own.rows |= made

    def update(self, user: str, n: int, m: int, flag: bool) -> None:
        """Another text, or another visibility: then it moves, without its history."""
        own = self.model[user]
        row = own.rows.get(key := own.key(n, m))
        text, secret = self.new_text(m)
        changes: dict[str, Any] = {"output": text}
        if flag and row is not None and m % 2:
            changes = {"visibility": VISIBILITIES[row.visibility == "private"]}
        if row is None:
            with pytest.raises(NotFoundError):
                self.memory.update(key, user_id=user, **PLACE, **changes)
            return
        self.memory.update(key, user_id=user, **PLACE, **changes)
        if "output" in changes:
            row.text = text
            row.secrets.append(secret)
        else:
            own.leave(key, row.visibility)
            row.visibility = changes["visibility"]

    def pin(self, user: str, n: int, m: int, flag: bool) -> None:
        own = self.model[user]
        row = own.rows.get(key := own.key(n, m))
        if row is None:
            with pytest.raises(NotFoundError):
                self.memory.pin(key, user_id=user, pinned=flag, **PLACE)
            return
        self.memory.pin(key, user_id=user, pinned=flag, **PLACE)
        row.pinned = flag

    def forget(self, user: str, n: int, m: int, flag: bool) -> None:
        own = self.model[user]
        key = own.key(n, m)
        n_gone = self.memory.forget(key, user_id=user, erase=flag, **PLACE)
        row = own.rows.pop(key, None)
        secrets = own.gone.pop(key, []) + ([] if row is None else row.secrets)
        assert n_gone == (row is not None) or (flag and secrets)
        if row is not None:
            own.leave(key, row.visibility)
        if flag:
            self.check_erased(secrets)
            assert self.memory.history(key, user_id=user, **PLACE) == []
        elif secrets:
            own.gone[key] = secrets

    def forget_everything(self, user: str, n: int, m: int, flag: bool) -> None:
        self.memory.forget(everything=True, user_id=user, erase=flag, **PLACE)
        own, self.model[user] = self.model[user], User()
        held = {key: row.secrets for key, row in own.rows.items()}
        secrets = {
            key: [*held.get(key, []), *own.gone.get(key, [])] for key in {**held, **own.gone}
        }
        if flag:
            self.check_erased([one for many in secrets.values() for one in many])
            self.memory.set_policy(user, policy="shared", **PLACE)
        else:
            self.model[user].gone = secrets

    def check_erased(self, secrets: list[str]) -> None:
        """No byte of what was erased is in a file."""
        held = b"".join(path.read_bytes() for path in self.path.rglob("*") if path.is_file())
        assert [one for one in secrets if one.encode() in held] == []

    # ---- facts, edges, feedback ----

    def remember_fact(self, user: str, n: int, m: int, flag: bool) -> None:
        """Each day belongs to the fact told last of those that begin nearest before it."""
        own, begin, name = self.model[user], m % DAYS, WORDS[n % len(WORDS)]
        until = begin + 1 + m // DAYS % 4 if flag else None
        fact = Fact(
            user_id=user, subject=user, predicate="likes", object=name, valid_from=day(begin),
            valid_to=None if until is None else day(until), **PLACE,
        )  # fmt: skip
        self.memory.remember_fact(fact)
        later = [other for _, other, _ in own.facts if other > begin]
        end = min([until or NEVER, *later])
        now = [one for one in own.facts if one[1] <= begin < one[2]]
        if any(one[0] == name and one[2] >= end for one in now):
            if until is not None and until < now[0][2]:  # it is said to end earlier
                own.facts[own.facts.index(now[0])] = (*now[0][:2], until)
            return
        own.facts = [one for one in own.facts if one not in now]
        own.facts += [(one[0], one[1], begin) for one in now]
        own.facts.append((name, begin, end))

    def link(self, user: str, n: int, m: int, flag: bool) -> None:
        own, key = self.model[user], f"edge{n}"
        ends = [f"m{(m + at) % N_IDS}" for at in range(3 if flag else 2)]
        if key in own.edges:
            with pytest.raises(KeyConflictError):
                self.memory.link(ends, "near", id=key, user_id=user, **PLACE)
            return
        self.memory.link(ends, "near", id=key, user_id=user, **PLACE)
        own.edges[key] = ends

    def unlink(self, user: str, n: int, m: int, flag: bool) -> None:
        was_there = self.model[user].edges.pop(f"edge{n}", None) is not None
        assert self.memory.unlink(f"edge{n}", user_id=user, **PLACE) == was_there

    def feedback(self, user: str, n: int, m: int, flag: bool) -> None:
        own, query = self.model[user], f"what of {WORDS[m % 2]}"
        keys = {own.key(n, m), own.key(n + 1, m)}
        call = lambda: self.memory.feedback(used=sorted(keys), query=query, user_id=user, **PLACE)  # noqa: E731
        if keys - own.rows.keys():
            with pytest.raises(NotFoundError):
                call()
            return
        assert call() == len(keys - own.used.get(query, set()))
        own.used[query] = own.used.get(query, set()) | keys

    # ---- files ----

    def upkeep(self) -> None:
        self.memory.snapshot()
        self.memory.compact()
        assert self.memory.doctor(full=True).ok

    def reopen(self) -> None:
        self.memory.close()
        self.memory = self.opened()

    def move(self) -> None:
        """Go on with an export, in another store."""
        file = folder().with_name("export.jsonl")
        self.memory.export(file, user_id=EVERYONE, history=True)
        assert self.memory.import_(file).imported == 0
        self.memory.close()
        self.path = folder()
        self.memory = self.opened()
        assert self.memory.import_(file).errors == ()

    def crash(self) -> None:
        """Go on with a copy of the files of the open store, as after a kill."""
        self.go_on_with(copy_store(self.path, folder()))

    def go_on_with(self, copied: Path) -> None:
        self.memory.close()
        self.path = copied
        self.memory = self.opened()

    @rule(what=st.sampled_from(CHANGES), is_committed=st.booleans(), **CHANGE)
    def crash_in(self, what: str, is_committed: bool, **given: Any) -> None:
        """Die within a change, before its first commit or right after it."""
        before, path = copy.deepcopy(self.model), self.path
        copies: list[Path] = []
        with pytest.MonkeyPatch.context() as patch:
            plain = Database.commit

            def commit(self: Database, work: Work, outcome: Outcome) -> None:
                def copied(connection: apsw.Connection) -> object:
                    reply = work(connection)
                    copies.append(copy_store(path, folder()))
                    return reply

                plain(self, work if is_committed else copied, outcome)
                copies.append(copy_store(path, folder()))

            patch.setattr(Database, "commit", commit)
            getattr(self, what)(**given)
        if copies:
            self.go_on_with(copies[0])
            self.model = self.model if is_committed else before

    # ---- what users see ----

    @invariant()
    def everybody_sees_what_the_dict_holds(self) -> None:
        for user, own in self.model.items():
            mine: dict[str, Any] = {"user_id": user, **PLACE}
            newest_first = sorted(own.rows, key=lambda key: -own.rows[key].at)
            listed = self.memory.list(kind="episodic", **mine)
            assert [one.id for one in listed] == newest_first
            for one in listed:
                row = own.rows[one.id]
                assert (one.output, one.visibility) == (row.text, row.visibility)
                assert (one.pinned, one.tags) == (row.pinned, ("t",))
            word = WORDS[self.n_steps % len(WORDS)]
            found = self.memory.search(word, limit=100, kind="episodic", **mine)
            wanted = {key for key, row in own.rows.items() if word in row.text.split()}
            assert {one.episode.id for one in found if not one.is_fill} == wanted
            assert {one.episode.id for one in found} <= own.rows.keys()
            assert not found.degraded
            key = f"m{self.n_steps % N_IDS}"
            got = self.memory.get(key, **mine)
            assert (None if got is None else got.output) == (
                own.rows[key].text if key in own.rows else None
            )
            edges = {
                edge.id: [end.id for end in edge.participants]
                for edge in self.memory.links(key, **mine)
            }
            assert edges == {name: ends for name, ends in own.edges.items() if key in ends}
            assert {
                one.query: set(one.used) for one in self.memory.list_feedback(**mine)
            } == own.used
            self.check_facts(own.facts, mine)
            self.check_view(user)

    def check_facts(self, facts: list[tuple[str, int, int]], mine: dict[str, Any]) -> None:
        listed = {
            (one.object, one.valid_from, one.valid_to or day(NEVER))
            for one in self.memory.list_facts(**mine)
        }
        assert listed == {(name, day(begin), day(end)) for name, begin, end in facts}
        at = self.n_steps % DAYS
        recalled = self.memory.recall_facts("likes", valid_at=day(at), **mine)
        assert [one.object for one in recalled] == [name for name, a, b in facts if a <= at < b]

    def check_view(self, agent: str) -> None:
        """An agent sees its own, and of others what is global."""
        view = self.memory.agent(agent, **PLACE)
        wanted = {
            (user, key)
            for user, own in self.model.items()
            for key, row in own.rows.items()
            if user == agent or row.visibility == "global"
        }
        assert {(one.user_id, one.id) for one in view.list(kind="episodic")} == wanted
        word = WORDS[self.n_steps % len(WORDS)]
        found = view.search(word, kind="episodic", limit=100)
        assert {(one.episode.user_id, one.episode.id) for one in found if not one.is_fill} == {
            (user, key) for user, key in wanted if word in self.model[user].rows[key].text.split()
        }

    def teardown(self) -> None:
        self.memory.close()


def test_a_store_holds_what_a_dict_holds_after_every_step(effort: Effort) -> None:
    programs, steps = effort.cases(quick=6, full=200), effort.cases(quick=15, full=50)
    run(StoreMachine, programs=programs, steps=steps)


# ---- planted bugs ----


def forgets_the_log(patch: pytest.MonkeyPatch) -> None:
    """An opening starts from the database alone: the last commits stand in its log."""
    plain = Database.open

    def opened(path: Path, **options: Any) -> Database:
        (path / f"{DATABASE}-wal").unlink(missing_ok=True)
        return plain(path, **options)

    patch.setattr(Database, "open", opened)


def keeps_erased_rows_in_the_index(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(derived, "_drop_others", lambda *_: 0)


def shows_everybody_everything(patch: pytest.MonkeyPatch) -> None:
    """An agent reads what others keep private."""
    patch.setattr(audience_module, "cells_of", lambda *given, **_: cells_of(*given))


PLANTED = (forgets_the_log, keeps_erased_rows_in_the_index, shows_everybody_everything)


@pytest.mark.parametrize("plant", PLANTED, ids=lambda plant: plant.__name__)
def test_the_machine_finds_a_planted_bug(
    plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    finds(StoreMachine, programs=60, steps=10)
