"""Users change a store that crashes now and then; after each step it holds what a dict holds."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
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
        self.share()

    def share(self) -> None:
        for user in USERS:
            self.memory.set_policy(user, policy="shared", **PLACE)

    def ask(self, user: str, verb: str, *given: Any, fails: Any = None, **options: Any) -> Any:
        """Call the store for a user, and return what it replies; or check how it refuses."""
        call = partial(getattr(self.memory, verb), *given, user_id=user, **PLACE, **options)
        if fails is None:
            return call()
        with pytest.raises(fails):
            call()

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
                    id=key, user_id=user, text=text, visibility=seen, tags=("t",),
                    occurred_at=day(self.n_steps), **PLACE,
                )
            )  # fmt: skip
        verb = self.memory.remember_batch if flag else self.memory.remember
        if made.keys() & own.rows.keys():
            with pytest.raises(KeyConflictError):
                verb(rows if flag else rows[0])
            return
        kept = verb(rows if flag else rows[0])
        assert [one.id for one in (kept if flag else [kept])] == list(made)
        for key, row in made.items():
            row.secrets += own.gone.pop(key, [])
        own.rows |= made

    def update(self, user: str, n: int, m: int, flag: bool) -> None:
        """Another text, or another visibility: then it moves, without its history."""
        own = self.model[user]
        row = own.rows.get(key := own.key(n, m))
        text, secret = self.new_text(m)
        changes: dict[str, Any] = {"text": text}
        if flag and row is not None and m % 2:
            changes = {"visibility": VISIBILITIES[row.visibility == "private"]}
        self.ask(user, "update", key, **changes, fails=None if row else NotFoundError)
        if row is None:
            return
        if "text" in changes:
            row.text = text
            row.secrets.append(secret)
        else:
            own.leave(key, row.visibility)
            row.visibility = changes["visibility"]

    def pin(self, user: str, n: int, m: int, flag: bool) -> None:
        own = self.model[user]
        row = own.rows.get(key := own.key(n, m))
        self.ask(user, "pin", key, pinned=flag, fails=None if row else NotFoundError)
        if row is not None:
            row.pinned = flag

    def forget(self, user: str, n: int, m: int, flag: bool) -> None:
        own = self.model[user]
        key = own.key(n, m)
        n_gone = self.ask(user, "forget", key, erase=flag)
        row = own.rows.pop(key, None)
        secrets = own.gone.pop(key, []) + ([] if row is None else row.secrets)
        assert n_gone == (row is not None) or (flag and secrets)
        if flag:  # with the whole text of each query that it helped with
            own.used = {query: keys for query, keys in own.used.items() if key not in keys}
            self.check_erased(secrets)
            assert self.ask(user, "history", key) == []
        elif secrets:
            own.gone[key] = secrets
        if row is not None:
            own.leave(key, row.visibility)

    def forget_everything(self, user: str, n: int, m: int, flag: bool) -> None:
        self.ask(user, "forget", everything=True, erase=flag)
        own = self.model[user]
        gone = own.gone | {key: row.secrets for key, row in own.rows.items()}
        self.model[user] = User(gone={} if flag else gone)
        if flag:
            self.check_erased([one for secrets in gone.values() for one in secrets])
            self.share()

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
        is_taken = key in own.edges
        self.ask(user, "link", ends, "near", id=key, fails=KeyConflictError if is_taken else None)
        own.edges.setdefault(key, ends)

    def unlink(self, user: str, n: int, m: int, flag: bool) -> None:
        was_there = self.model[user].edges.pop(f"edge{n}", None) is not None
        assert self.ask(user, "unlink", f"edge{n}") == was_there

    def feedback(self, user: str, n: int, m: int, flag: bool) -> None:
        own, query = self.model[user], f"what of {WORDS[m % 2]}"
        keys = {own.key(n, m), own.key(n + 1, m)}
        before, is_known = own.used.get(query, set()), keys <= own.rows.keys()
        said = {"used": sorted(keys), "query": query}
        n_new = self.ask(user, "feedback", **said, fails=None if is_known else NotFoundError)
        if is_known:
            assert n_new == len(keys - before)
            own.used[query] = before | keys

    # ---- files ----

    def upkeep(self) -> None:
        self.memory.snapshot()
        self.memory.compact()
        assert self.memory.doctor(full=True).ok

    def reopen(self) -> None:
        self.go_on_with(self.path)

    def move(self) -> None:
        """Go on with an export, in another store."""
        file = folder().with_name("export.jsonl")
        self.memory.export(file, user_id=EVERYONE, history=True)
        assert self.memory.import_(file).imported == 0
        self.go_on_with(folder())
        assert self.memory.import_(file).errors == ()

    def crash(self) -> None:
        """Go on with a copy of the files of the open store, as after a kill."""
        self.go_on_with(copy_store(self.path, folder()))

    def go_on_with(self, path: Path) -> None:
        self.memory.close()
        self.path = path
        self.memory = self.opened()

    @rule(what=st.sampled_from(CHANGES), is_committed=st.booleans(), **CHANGE)
    def crash_in(self, what: str, is_committed: bool, **given: Any) -> None:
        """Die within a change, before its first commit or right after it."""
        before, copies = copy.deepcopy(self.model), []
        commit, transaction = Database.commit, Database.transaction

        def die() -> None:
            copies.append(copy_store(self.path, folder()))

        def dying_commit(database: Database, work: Work, outcome: Outcome) -> None:
            commit(database, lambda c: (work(c), is_committed or die()), outcome)
            die()

        @contextmanager
        def dying_transaction(database: Database) -> Iterator[apsw.Connection]:
            with transaction(database) as connection:
                yield connection
                _ = is_committed or die()
            die()

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Database, "commit", dying_commit)
            patch.setattr(Database, "transaction", dying_transaction)
            getattr(self, what)(**given)
        if copies:
            self.go_on_with(copies[0])
            self.model = self.model if is_committed else before
            self.share()  # an erasure has taken the policy too

    # ---- what users see ----

    @invariant()
    def everybody_sees_what_the_dict_holds(self) -> None:
        word, key = WORDS[self.n_steps % len(WORDS)], f"m{self.n_steps % N_IDS}"
        for user, own in self.model.items():
            listed = self.ask(user, "list", kind="episodic")
            assert [one.id for one in listed] == sorted(own.rows, key=lambda k: -own.rows[k].at)
            for one in listed:
                row = own.rows[one.id]
                seen = one.text, one.visibility, one.pinned, one.tags
                assert seen == (row.text, row.visibility, row.pinned, ("t",))
            found = self.ask(user, "search", word, limit=100, kind="episodic")
            wanted = {name for name, row in own.rows.items() if word in row.text.split()}
            assert {one.episode.id for one in found if not one.is_fill} == wanted
            assert {one.episode.id for one in found} <= own.rows.keys()
            assert not found.degraded
            got = self.ask(user, "get", key)
            assert (got and got.text) == (own.rows[key].text if key in own.rows else None)
            links = {
                edge.id: [end.id for end in edge.participants]
                for edge in self.ask(user, "links", key)
            }
            assert links == {name: ends for name, ends in own.edges.items() if key in ends}
            helped = {one.query: set(one.used) for one in self.ask(user, "list_feedback")}
            assert helped == own.used
            self.check_facts(user, own.facts)
            self.check_view(user, word)

    def check_facts(self, user: str, facts: list[tuple[str, int, int]]) -> None:
        listed = {
            (one.object, one.valid_from, one.valid_to or day(NEVER))
            for one in self.ask(user, "list_facts")
        }
        assert listed == {(name, day(begin), day(end)) for name, begin, end in facts}
        at = self.n_steps % DAYS
        recalled = self.ask(user, "recall_facts", "likes", valid_at=day(at))
        assert [one.object for one in recalled] == [name for name, a, b in facts if a <= at < b]

    def check_view(self, agent: str, word: str) -> None:
        """An agent sees its own, and of others what is global."""
        view = self.memory.agent(agent, **PLACE)
        wanted = {
            (user, key)
            for user, own in self.model.items()
            for key, row in own.rows.items()
            if user == agent or row.visibility == "global"
        }
        assert {(one.user_id, one.id) for one in view.list(kind="episodic")} == wanted
        found = view.search(word, kind="episodic", limit=100)
        assert {(one.episode.user_id, one.episode.id) for one in found if not one.is_fill} == {
            (user, key) for user, key in wanted if word in self.model[user].rows[key].text.split()
        }

    def teardown(self) -> None:
        self.memory.close()


def test_a_store_holds_what_a_dict_holds_after_every_step(effort: Effort) -> None:
    programs, steps = effort.cases(quick=3, full=200), effort.cases(quick=15, full=50)
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


@pytest.mark.plain_cases(1)
@pytest.mark.parametrize("plant", PLANTED, ids=lambda plant: plant.__name__)
def test_the_machine_finds_a_planted_bug(
    plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    finds(StoreMachine, programs=60, steps=10)
