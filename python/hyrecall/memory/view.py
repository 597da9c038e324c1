"""The reads of a store for one caller, a user or an agent.

A :class:`View` is a store and a caller. Its methods take the arguments of one public call and
return what the caller may see; functions of :mod:`hyrecall.memory.changing` take a view too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice
from typing import Any, TypeAlias

import pyarrow as pa

from hyrecall.ask.filters import Filter
from hyrecall.ask.scope import Scope
from hyrecall.base.spans import MEMORY_RECALL, span
from hyrecall.base.times import utc
from hyrecall.errors import OptionError, error
from hyrecall.index import Index
from hyrecall.memory.changes import own
from hyrecall.memory.data.matches import Facts, Matches
from hyrecall.memory.data.types import Edge, Episode, Version, check_id, flag, in_utc
from hyrecall.memory.derived import projection
from hyrecall.memory.derived.row_filters import (
    newest_passing,
    passing_in_order,
    read_narrowing,
)
from hyrecall.memory.faces.browse import Browse
from hyrecall.memory.recall.audience import AskedBy, audience, own_first
from hyrecall.memory.recall.call import (
    RecallArguments,
    read_ask,
    read_begin,
    read_end,
    read_limit,
    read_range,
    read_tags,
    read_text,
    weighted,
)
from hyrecall.memory.recall.recalling import recall, recall_facts, warn_of_isolation
from hyrecall.memory.sql.codec import FACT_SOURCE, cell_of
from hyrecall.memory.sql.edge_rows import incident
from hyrecall.memory.sql.fact_rows import KIND, facts_by_id, home_of, interval, valid_facts
from hyrecall.memory.sql.reading import (
    Accesses,
    ChangedDocument,
    ReadPolicy,
    accesses,
    count_live,
    episode_by_id,
    episodes_of_rows,
    history,
    last_changes,
    newest,
    newest_rows,
    read_policy,
)
from hyrecall.memory.store import Store

__all__ = ["Edges", "Episodes", "Facts", "Versions", "View", "own_index"]

# Aliases, because list[...] in a class with a method ``list`` would name that method.
Edges: TypeAlias = list[Edge]
Episodes: TypeAlias = list[Episode]
Versions: TypeAlias = list[Version]

AT_A_TIME = 64
"""Episodes that are in memory while many are read."""


@dataclass(frozen=True)
class View:
    """A store as one caller sees it."""

    store: Store
    by: AskedBy

    def search(self, text: object, **options: Any) -> Matches:
        """Answer one call of recall; its options are those of :func:`.call.read_ask`."""
        known = self.store.known_searches
        ask = known.find(text, self.by, options)
        if ask is None:
            ask = self._read(text, **options)
            known.learn(options, ask)
        if ask.touch and self.store.database.read_only:
            raise error(OptionError, "touch", "a store opened for writing", "read_only=True")
        with span(MEMORY_RECALL) as made:
            matches = recall(self.store.means, ask)
            if made is not None:
                reasons = tuple(str(one.reason) for one in matches.reasons)
                made.set_attributes(
                    {"hyrecall.matches": len(matches), "hyrecall.degraded": reasons}
                )
        return matches

    def _read(self, text: object, **options: Any) -> RecallArguments:
        recipe = self.store.check_recipe(options.pop("recipe", None))
        recipe = weighted(recipe, options.pop("weights", None))
        ask = read_ask(text, self.by, recipe, **options)
        floors, off = options.get("min_score"), self.store.guard.off
        has_none = ask.vector is None and off is not None and off.is_choice
        if has_none and isinstance(floors, Mapping) and "cosine" in floors:
            wish = "an embedder, or vector="
            raise error(OptionError, "min_score['cosine']", wish, "a store without an embedder")
        return ask

    def scored(self, query: object, *, time_range: object, **options: Any) -> Matches:
        """Answer one call of ``recall_scored``: by the store's recipe, else by Loom's formula."""
        text = read_text("query", query)
        if time_range is not None:
            options["since"], options["until"] = read_range("time_range", time_range)
        return self.search(text, recipe=self.store.formula, deepen=True, **options)

    def facts(self, text: object, *, limit: int, valid_at: datetime | None) -> Facts:
        """Return the facts that hold at a time, best first; for a blank query the newest."""
        at = self.store.now() if valid_at is None else valid_at
        if isinstance(text, str) and not text.strip():  # whatever a recipe does with it
            return self.listed_facts(valid_at=at, limit=limit, offset=0)
        recipe = self.store.recipe
        ask = read_ask(text, self.by, recipe, kind=KIND, limit=limit, valid_at=at, deepen=True)
        return recall_facts(self.store.means, ask)

    def listed_facts(
        self, *, valid_at: datetime | None, limit: object, offset: object, **said: object
    ) -> Facts:
        """Return the facts that say so, newest first; ``said``: subject, predicate, object_."""
        wanted = {
            name: None if one is None else check_id(name.rstrip("_"), one)
            for name, one in said.items()
        }
        at = None if valid_at is None else in_utc(utc("valid_at", valid_at), "valid_at")
        most, first = read_limit("limit", limit), read_limit("offset", offset)
        with self.store.database.reading() as connection:
            seen = audience(connection, self.by)
            found = valid_facts(connection, tuple(seen.cells), valid_at=at, **wanted)
        warn_of_isolation(self.by, seen)
        found.sort(key=interval, reverse=True)  # stable
        return Facts(found[first : first + most])

    def get(self, key: object, visibility: object = None) -> Episode | None:
        """Return an episode by its id: the private one where there is a global one too."""
        name = check_id("id", key)
        is_known = isinstance(visibility, str) and visibility in ("private", "global")
        if visibility is not None and not is_known:
            raise error(OptionError, "visibility", "'private' or 'global'", repr(visibility))
        with self.store.database.reading() as connection:
            for number, cell in own_first(audience(connection, self.by).cells, self.by):
                if visibility in (None, cell.visibility):
                    found = episode_by_id(connection, number, name)
                    if found is not None:
                        return found
        return None

    def kept_under(self, prefix: str) -> tuple[str, bool] | None:
        """Return the id of the caller's own that begins so, and whether its first version has a
        vector; None: nothing was ever kept under such an id.
        """
        # Ids that begin so end in hexadecimal digits.
        select = (
            "SELECT d.id, EXISTS (SELECT 1 FROM versions v WHERE (v.cell, v.id, v.version) = "
            "(d.cell, d.id, 1) AND v.embedding IS NOT NULL) FROM documents d "
            "WHERE d.cell = ? AND d.id >= ? AND d.id < ? LIMIT 1"
        )
        with self.store.database.reading() as connection:
            for number in own(connection, self.by):
                found = connection.execute(select, (number, prefix, f"{prefix}g")).get
                if found is not None:
                    return found[0], bool(found[1])
        return None

    def history(self, key: object) -> Versions:
        """Return every version of a memory: of the one that is there, else of the last that was."""
        # Of others' memories, only what is there is told, and not why it was changed.
        name = check_id("id", key)
        with self.store.database.reading() as connection:
            cells = audience(connection, self.by).cells
            known = last_changes(connection, tuple(cells), name)
            places = [place for place in own_first(cells, self.by) if place[0] in known]
            # The sort is stable. A memory that moved is deleted in its old cell.
            places.sort(key=lambda place: _order(known[place[0]]))
            for number, cell in places:
                versions = history(connection, number, name)
                versions = versions if cell.user == self.by.user else _as_others_see(versions)
                if versions:
                    return versions
        return []

    def newest(
        self,
        *,
        kind: str | None = None,
        pinned: bool | None = None,
        limit: int = 200,
        offset: int = 0,
        **narrow: Any,
    ) -> Episodes:
        """Return episodes, newest first; ``narrow`` is what :func:`_read_listed` takes."""
        page: dict[str, Any] = _read_kind(kind, pinned)
        page |= {"limit": read_limit("limit", limit), "offset": read_limit("offset", offset)}
        wanted, passes = _read_listed(**narrow)
        with self.store.database.reading() as connection:
            seen = audience(connection, self.by)
            cells = tuple(seen.cells)
            if passes is None:
                found = newest(connection, cells, tags=wanted, **page)
            else:
                found = newest_passing(connection, cells, passes, **page)
        warn_of_isolation(self.by, seen)
        return found

    def count(
        self,
        *,
        kind: str | None = None,
        pinned: bool | None = None,
        most: int = 2**31 - 1,
        **narrow: Any,
    ) -> int:
        """Return how many episodes :meth:`newest` would give without a limit, ``most`` at most."""
        page: dict[str, Any] = _read_kind(kind, pinned)
        wanted, passes = _read_listed(**narrow)
        with self.store.database.reading() as connection:
            cells = tuple(audience(connection, self.by).cells)
            if passes is None:
                return count_live(connection, cells, tags=wanted, most=most, **page)
            rows = [row for row, _ in newest_rows(connection, cells, **page)]
            return sum(1 for _ in islice(passing_in_order(connection, rows, passes), most))

    def each_newest(self, most: int) -> Iterator[Episode]:
        """Yield the newest episodes, which are read a few at a time."""
        with self.store.database.reading() as connection:
            seen = audience(connection, self.by)
            numbers = [row for row, _ in newest_rows(connection, tuple(seen.cells), limit=most)]
            for begin in range(0, len(numbers), AT_A_TIME):
                part = numbers[begin : begin + AT_A_TIME]
                found = episodes_of_rows(connection, part, seen.cells)
                yield from (found[row] for row in part if row in found)
        warn_of_isolation(self.by, seen)

    def links(self, key: object) -> Edges:
        """Return the edges in which a memory takes part."""
        name = check_id("id", key)
        with self.store.database.reading() as connection:
            return incident(connection, tuple(audience(connection, self.by).cells), name)

    def policy(self) -> ReadPolicy:
        """Return the read policy of the caller as an agent."""
        by = self.by
        agent = check_id("agent", by.user)
        with self.store.database.reading() as connection:
            found = read_policy(connection, by.org, by.workspace, agent)
        return ReadPolicy("isolated", None) if found is None else found

    def accesses(self, keys: Sequence[str]) -> dict[str, Accesses]:
        """Return the accesses of memories that the caller sees, and when each was written."""
        with self.store.database.reading() as connection:
            places = own_first(audience(connection, self.by).cells, self.by)
            found = accesses(connection, keys, [number for number, _ in places])
        return {
            key: found[number, key]
            for key in keys
            for number, _ in reversed(places)
            if (number, key) in found
        }

    def ends(self, episodes: Sequence[Episode]) -> list[datetime | None]:
        """Return when each memory ends, if it is a fact and the caller still sees it."""
        keys = [one.id for one in episodes if one.kind == KIND]
        if not keys:
            return [None] * len(episodes)
        with self.store.database.reading() as connection:
            facts = facts_by_id(connection, keys, tuple(audience(connection, self.by).cells))
        ends = {(home_of(fact), fact.id): fact.valid_to for fact in facts}
        return [
            ends.get((cell_of(one)._replace(source=FACT_SOURCE), one.id))
            if one.kind == KIND
            else None
            for one in episodes
        ]

    def browse(self) -> Browse:
        """Return the memories as files to read; reads nothing yet."""
        return Browse(self.store.database, self.by)


def _order(last: ChangedDocument) -> tuple[bool, int]:
    """Sort live memories first, then by the last change."""
    return last.row is None, -last.changed if last.row is None else 0


def _as_others_see(versions: Versions) -> Versions:
    """Return the versions since the memory was last taken away, without reasons, for other
    users.
    """
    # What was forgotten, moved or followed by another was so for its user, and so are the reason
    # and the id of what followed.
    kept: Versions = []
    for version in reversed(versions):
        if version.status != "live":
            break
        kept.append(replace(version, reason=None))
    return kept[::-1]


def _read_kind(kind: str | None, pinned: bool | None) -> dict[str, Any]:
    if pinned is not None:
        flag("pinned", pinned)
    return {"kind": None if kind is None else check_id("kind", kind), "pinned": pinned}


def _read_listed(
    *,
    tags: Sequence[str] | None = None,
    filter: object = None,  # noqa: A002
    metadata: object = None,
    since: object = None,
    until: object = None,
) -> tuple[tuple[str, ...] | None, Filter | None]:
    """Return the tags of memories to list, or a filter that stands for all conditions."""
    wanted, passes = read_tags(tags), read_narrowing(filter, metadata)
    times = read_begin("since", since), read_end("until", until)
    if times != (None, None):
        of_time = Filter(occurred_at=times)
        passes = of_time if passes is None else passes & of_time
    if passes is not None and wanted is not None:
        passes &= Filter(tags=list(wanted))
    return wanted, passes


# ---- Makes an index of what one caller may see, for work that is not a recall of the store ----
# It has the layout of the store's own index, so within the caller's cells it replies as that does;
# rows of others are not read.


def own_index(view: View, *, threads: int | None = None) -> tuple[Index, Scope]:
    """Return an index of the live memories that a caller may see, and its cells as a scope."""
    store = view.store
    with store.database.reading() as connection:
        seen = audience(connection, view.by)
        batches = projection.documents(
            connection, store.layout, model=store.guard.model, dim=store.dim,
            only_live=True, cells=tuple(seen.cells),
        )  # fmt: skip
        table = pa.concat_tables([batch.live for batch in batches])
    schema, analyzer = store.layout.schema, store.layout.analyzer
    return Index.build(table, schema, analyzer=analyzer, threads=threads), seen.scope
