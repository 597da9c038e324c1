"""What a client of a store asks of its owner, and what both compare before."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, TypeAlias

from hyrecall.base.scans import caller_of, serving
from hyrecall.errors import OptionError, StoreMismatchError, error
from hyrecall.hits.dropped import Dropped
from hyrecall.hits.explanation import Explanation
from hyrecall.memory.changes.change import Change
from hyrecall.memory.keeping.keeper import Keeper, Parts, Task
from hyrecall.memory.keeping.owner import Owner
from hyrecall.memory.keeping.tasks import AwaitIndex
from hyrecall.memory.recall.question import FoundRows, Question

__all__ = [
    "About",
    "Answered",
    "Asked",
    "ExplainDropped",
    "ExplainRow",
    "RemoteRows",
    "answer",
    "compare",
    "compare_layouts",
    "layout_told",
    "searches",
]

About: TypeAlias = Mapping[str, str | int | None]
"""What a process knows of its store: format, layout, recipe, analyzer, model, dim."""


@dataclass(frozen=True)
class Asked:
    """A change to commit, once under its id, or a question of the index, or a task."""

    what: Change[Any] | Question | Task[Any]
    write_id: bytes | None = None
    now: datetime | None = None
    layout: About | None = None
    caller: str | None = field(default_factory=caller_of)


Answered: TypeAlias = Any


def answer(owner: Owner, asked: object) -> Answered:
    """Do what a client asks."""
    if isinstance(asked, Asked):
        what = asked.what
        if isinstance(what, Change):
            return owner.write(what, write_id=asked.write_id, now=asked.now)
        with serving(asked.caller):
            if isinstance(what, Question):
                return replace(owner.search_index(what), ranked=None)
            if isinstance(what, Task):
                return owner.run(what)
    raise error(OptionError, "message", "a change, a question or a task", type(asked).__name__)


@dataclass(frozen=True)
class ExplainRow(Task[Explanation]):
    """Ask a question again and explain one of its rows, if it still has the same score."""

    question: Question
    place: int
    row: int
    score: float

    def run(self, owner: Parts) -> Explanation:
        """Search and explain."""
        found = owner.search_index(self.question)
        is_there = 0 <= self.place < len(found.rows)
        if (
            not is_there
            or found.ranked is None
            or found.rows[self.place] != self.row
            or found.scores[self.place] != self.score
        ):
            wish = "a match whose score is still the same"
            remedy = "the store has changed since the search: search again"
            raise error(OptionError, "match", wish, "another", remedy)
        return found.ranked.explain(self.place)


@dataclass(frozen=True)
class ExplainDropped(Task[Dropped]):
    """Ask a question again and say what was left out, if it still finds the same rows."""

    question: Question
    rows: tuple[int, ...]
    scores: tuple[float, ...]
    most: int

    def run(self, owner: Parts) -> Dropped:
        """Search and say what was left out."""
        found = owner.search_index(self.question)
        is_same = (found.rows, found.scores) == (self.rows, self.scores)
        if found.ranked is None or not is_same:
            wish = "matches that are still found with the same scores"
            remedy = "the store has changed since the search: search again"
            raise error(OptionError, "matches", wish, "others", remedy)
        return found.ranked.explain_dropped(self.most)


class RemoteRows:
    """Explains rows that the owner ranked, by asking it again."""

    def __init__(self, keeper: Keeper, question: Question, found: FoundRows) -> None:
        """Remember what was asked and found."""
        self._keeper, self._question = keeper, question
        self._rows, self._scores = found.rows, found.scores

    def explain(self, place: int) -> Explanation:
        """Recompute the score of a row, by its place from 0."""
        row, score = self._rows[place], self._scores[place]
        return self._keeper.run(ExplainRow(self._question, place, row, score))

    def explain_dropped(self, most: int) -> Dropped:
        """Say what the stages left out."""
        return self._keeper.run(ExplainDropped(self._question, self._rows, self._scores, most))


_COMPARED = ("format", "model", "dim")
_OF_LAYOUTS = ("layout", "analyzer", "recipe")


def compare(own: About, other: About, pid: int) -> None:
    """Compare what owner and client know of their store, when the client connects."""
    # A side without an embedder differs in neither model nor length.
    has_models = own.get("model") is not None and other.get("model") is not None
    for name in _COMPARED:
        mine, theirs = own.get(name), other.get(name)
        if name != "format" and (not has_models or mine is None or theirs is None):
            continue
        if mine != theirs:
            raise _mismatch(name, mine, theirs, pid)


def searches(what: object) -> bool:
    """Return whether something that is asked needs an index of the asker's layout."""
    return isinstance(what, Question | ExplainRow | ExplainDropped | AwaitIndex)


def layout_told(about: About) -> About:
    """Return what a process says of its layout."""
    return {name: about.get(name) for name in _OF_LAYOUTS}


def compare_layouts(own: About, other: About | None, pid: int) -> None:
    """Compare the layout of the index with the one that a search is made for."""
    # Recipes may differ as long as they read the same index.
    told: About = {} if other is None else other
    if own.get("layout") != told.get("layout"):
        name = "recipe" if own.get("analyzer") == told.get("analyzer") else "analyzer"
        raise _mismatch(name, own.get(name), told.get(name), pid)


def _mismatch(name: str, mine: object, theirs: object, pid: int) -> StoreMismatchError:
    wish = f"{mine}, as in the process that owns the store (pid {pid})"
    return error(StoreMismatchError, name, wish, theirs)
