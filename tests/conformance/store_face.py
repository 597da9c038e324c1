"""The verbs of a store, as a user calls them; replies are plain data, the same at every face."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TypeAlias

from conformance.faces import Face, Row, at

ORG, WORKSPACE = "acme", "lab"
SELECTING = ("session_id", "before", "kind", "tags", "filter", "metadata")
"""The arguments that choose memories to forget or to change."""
PLACE = {"org": ORG, "workspace": WORKSPACE}
Marked: TypeAlias = list[tuple[str, list[list[int]], str]]


@dataclass(frozen=True)
class Opening:
    """How a scenario wants its store."""

    folder: Path
    recipe: str = "default"
    embeds: bool | None = False  # None: what the environment says
    place: tuple[tuple[str, str], ...] = (("org", ORG), ("workspace", WORKSPACE))


class Found(list[Row]):
    """Matches, best first, each with the memory's fields and its scores; why they are degraded."""

    def __init__(self, rows: Sequence[Row], reasons: Sequence[str]) -> None:
        super().__init__(rows)
        self.reasons = [reason.split()[0].lower() for reason in reasons]


class Store(Face):
    """A store as one user sees it."""

    user: str
    folder: Path

    def as_user(self, user: str) -> Self:
        """Return the same store as another user sees it."""
        raise NotImplementedError

    @property
    def setup(self) -> Store:
        """The same data and user by Python, to prepare what a face cannot write."""
        raise NotImplementedError

    def reopen(self) -> None:
        """Close the store and open it again."""
        raise NotImplementedError

    def fill(self, *given: str | Row) -> None:
        """Keep memories m0, m1, ... a minute apart; a str is a text."""
        rows = [{"text": one} if isinstance(one, str) else one for one in given]
        self._fill([{"id": f"m{n}", "occurred_at": at(n)} | one for n, one in enumerate(rows)])

    def _fill(self, rows: list[Row]) -> None:
        for row in rows:
            self.remember(**row)

    # ---- memories ----

    def remember(self, text: str, **fields: Any) -> Row:
        """Keep a memory: id, version, embedded."""
        return self._do("remember", text, **fields)

    def get(self, key: str, /) -> Row | None:
        return self._do("get", key)

    def list(self, **options: Any) -> list[Row]:
        return self._do("list", **options)

    def update(self, key: str, /, **changes: Any) -> int:
        """Change fields; the new version's number."""
        return self._do("update", key, **changes)

    def update_many(self, changes: Row, /, **which: Any) -> int:
        """Change fields of several memories; how many there were."""
        return self._do("update_many", changes, **which)

    def supersede(self, key: str, text: str, /, **fields: Any) -> Row:
        return self._do("supersede", key, text, **fields)

    def pin(self, key: str, /, **options: Any) -> None:
        self._do("pin", key, **options)

    def forget(self, key: str | list[str] | None = None, /, **options: Any) -> int:
        """Forget by ids, session_id, before, kind, ... or everything; how many there were."""
        return self._do("forget", key, **options)

    def list_sessions(self) -> list[tuple[str, int]]:
        """Return the conversations, newest first, and how many memories each has."""
        return self._do("list_sessions")

    def history(self, key: str, /) -> list[Row]:
        """Versions, oldest first: version, status, reason, successor, text."""
        return self._do("history", key)

    def search(self, query: str, **options: Any) -> Found:
        """Recall: `recipe` is a name, `filter` as JSON has it, `since` and `until` are included."""
        return self._do("search", query, **options)

    def marked(self, query: str) -> Marked:
        """Search: of each match its id, where the query's words stand, and its snippet."""
        return self._do("marked", query)

    def sure(self, query: str) -> float | None:
        """Search: how sure the reply is."""
        return self._do("sure", query)

    def recall_scored(self, query: str, **options: Any) -> Found:
        return self._do("recall_scored", query, **options)

    # ---- links and facts ----

    def link(self, nodes: list[str], relationship: str, **options: Any) -> Row:
        """Connect memories: id, relationship, nodes, roles, description."""
        return self._do("link", nodes, relationship, **options)

    def unlink(self, key: str, /) -> bool:
        return self._do("unlink", key)

    def links(self, key: str, /) -> list[Row]:
        return self._do("links", key)

    def remember_fact(self, subject: str, predicate: str, said: str, /, **fields: Any) -> Row:
        return self._do("remember_fact", subject, predicate, said, **fields)

    def end_fact(self, key: str, /, **options: Any) -> int:
        return self._do("end_fact", key, **options)

    def recall_facts(self, query: str, **options: Any) -> list[Row]:
        """Facts that hold: id, subject, predicate, object, valid_from, valid_to."""
        return self._do("recall_facts", query, **options)

    def list_facts(self, **options: Any) -> list[Row]:
        return self._do("list_facts", **options)

    # ---- feedback, policies, files ----

    def feedback(self, query: str, used: list[str]) -> int:
        return self._do("feedback", query, used)

    def list_feedback(self) -> list[Row]:
        return self._do("list_feedback")

    def set_policy(self, agent: str, policy: str, **options: Any) -> None:
        self._do("set_policy", agent, policy, **options)

    def get_policy(self, agent: str) -> tuple[str, str | None]:
        return self._do("get_policy", agent)

    def ls(self, path: str = "/", **options: Any) -> list[str]:
        return self._do("ls", path, **options)

    def cat(self, path: str) -> str:
        return self._do("cat", path)

    def grep(self, pattern: str, path: str = "/", **options: Any) -> list[tuple[str, int, str]]:
        return self._do("grep", pattern, path, **options)

    def find(self, pattern: str, path: str = "/", **options: Any) -> list[str]:
        return self._do("find", pattern, path, **options)

    def export(self, **options: Any) -> list[str]:
        """Return the lines of an export."""
        return self._do("export", **options)

    def import_(self, lines: list[str]) -> tuple[int, int, list[int]]:
        """Merge lines: how many were new, how many were there, the numbers of those with errors."""
        return self._do("import_", lines)

    # ---- upkeep ----

    def doctor(self, **options: Any) -> bool:
        """Say whether the store is sound."""
        return self._do("doctor", **options)

    def compact(self) -> bool:
        """Write the database again; say whether it is smaller."""
        return self._do("compact")

    def reembed(self, **options: Any) -> tuple[int, int]:
        """Embed what has no vector: how many were looked at, how many embedded."""
        return self._do("reembed", **options)
