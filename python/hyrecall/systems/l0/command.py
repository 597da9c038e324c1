"""``hyrecall ltm``: the commands of l0-memory."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from hyrecall.base.arguments import home_path
from hyrecall.cli.declare import group
from hyrecall.cli.help import Group
from hyrecall.cli.memory_options import (
    bar,
    given_text,
    now_ready,
    opened,
    store_path,
    tell_reasons,
)
from hyrecall.cli.settings import read_settings
from hyrecall.cli.show import print_json, say
from hyrecall.errors import NotFoundError, error

if TYPE_CHECKING:
    from hyrecall.memory import Degradation, MemorySync, Remembered
    from hyrecall.systems.l0.notes import Notes


_VARIABLES = (
    ("LTM_DB", "Folder of the store."),
    ("LTM_SCOPE", "The scope of commands that name none."),
    ("LTM_EMBEDDING_URL", "An endpoint like OpenAI's; without one there are no vectors."),
    ("LTM_EMBEDDING_MODEL", "The name of its model."),
    ("LTM_EMBED_DISABLE", "1 means no vectors, whatever the URL."),
    ("LTM_EMBED_TIMEOUT", "The time for one request, such as 3s or 500ms."),
)


class _LtmCommands(Group):
    """The group ``ltm``; its help lists the environment variables."""

    notes = (("Environment", _VARIABLES),)


SHARED = """
key KEY: The key of the note.
value VALUE: The text of the note; - reads it from stdin.
path DIR: Folder of the store. [default: LTM_DB, HYRECALL_PATH, the setting path, or
    ~/.local/share/hyrecall/memory]
scope NAME: The scope of the note. [default: LTM_SCOPE, or user]
limit N: The most notes.
"""


@dataclass(frozen=True)
class _NotesLocation:
    """The database and the scope that a command reads or writes."""

    path: Path | None
    scope: str

    @classmethod
    def of(cls, path: Path | None, scope: str | None, default: str = "user") -> _NotesLocation:
        named = os.environ.get("LTM_DB")
        found = path or (Path(home_path("LTM_DB", named)) if named else None)
        return cls(found, scope or os.environ.get("LTM_SCOPE") or default)

    @contextmanager
    def notes(self, *, makes: bool = False, read_only: bool = False) -> Iterator[_Open]:
        """Open the store; its keeper looks through all scopes."""
        from hyrecall.memory import EVERYONE
        from hyrecall.systems.l0.notes import Notes

        with opened(self.path, recipe="l0", makes=makes, read_only=read_only) as memory:
            yield _Open(now_ready(memory), Notes(memory, scopes=EVERYONE))


@dataclass(frozen=True)
class _Open:
    """An open store, and the notes in it."""

    memory: MemorySync
    notes: Notes

    def shown(self, key: str, scope: str) -> dict[str, Any]:
        """Return a note in l0's shape."""
        if self.notes.get(key, scope=scope) is None:
            raise error(NotFoundError, "KEY", "a note that is there", repr(key))
        episode = self.memory.get(key, user_id=scope)
        last = self.memory.history(key, user_id=scope)[-1]
        assert episode is not None
        return {
            "scope": scope,
            "key": key,
            "value": episode.text,
            "tags": list(episode.tags),
            "pinned": episode.pinned,
            "archived": False,
            "size_bytes": len(episode.text.encode()),
            "created_at": int(episode.occurred_at.timestamp() * 1000),
            "updated_at": int(last.recorded_at.timestamp() * 1000),
        }


def save(
    key: str,
    value: str,
    *,
    tags: list[str] | None = None,
    scope: str | None = None,
    path: Path | None = None,
) -> None:
    """Save a note; another value of the key becomes history."""
    place, text = _NotesLocation.of(path, scope), given_text(value)
    with place.notes(makes=True) as store:
        saved = store.notes.save(key, text, scope=place.scope, tags=tags or ())
        print_json(store.shown(key, place.scope) | _unembedded(saved))


def get(key: str, *, scope: str | None = None, path: Path | None = None) -> None:
    """Show a note."""
    place = _NotesLocation.of(path, scope)
    with place.notes(read_only=True) as store:
        print_json(store.shown(key, place.scope))


def search(
    query: str,
    *,
    limit: int = 50,
    expand: bool = False,
    scope: str | None = None,
    path: Path | None = None,
) -> None:
    """Find notes by the beginnings of all words, and by vectors if there is an endpoint.

    Arguments
    query QUERY: The words to look for.
    Options
    expand: Show whole notes instead of snippets.
    scope NAME: The scope to look through. [default: LTM_SCOPE, or all scopes]
    """
    place = _NotesLocation.of(path, scope, "")
    with place.notes(read_only=True) as store:
        found = []
        hits = store.notes.search(query, scope=place.scope, limit=limit)
        for hit in hits:
            note = store.shown(hit.key, hit.scope)
            if not expand:
                del note["value"]
                note |= {"score": hit.score, "snippet": hit.snippet}
            found.append(note | _reasons(hits.reasons))
    tell_reasons(hits.reasons)
    print_json(found)


def list_(*, limit: int = 200, scope: str | None = None, path: Path | None = None) -> None:
    """List notes, newest first.

    Options
    scope NAME: The scope to look through. [default: LTM_SCOPE, or all scopes]
    """
    place = _NotesLocation.of(path, scope, "")
    with place.notes(read_only=True) as store:
        notes = store.notes.list(scope=place.scope, limit=limit)
        found = [store.shown(one.key, one.scope) for one in notes]
    print_json(found)


def delete(key: str, *, scope: str | None = None, path: Path | None = None) -> None:
    """Delete a note."""
    place = _NotesLocation.of(path, scope)
    with place.notes() as store:
        if not store.notes.delete(key, scope=place.scope):
            raise error(NotFoundError, "KEY", "a note that is there", repr(key))
    print_json({"deleted": True, "scope": place.scope, "key": key})


def pin(key: str, *, scope: str | None = None, path: Path | None = None) -> None:
    """Pin a note: it comes first among equal scores."""
    _pin(_NotesLocation.of(path, scope), key, pinned=True)


def unpin(key: str, *, scope: str | None = None, path: Path | None = None) -> None:
    """Unpin a note."""
    _pin(_NotesLocation.of(path, scope), key, pinned=False)


def supersede(
    key: str, new_key: str, value: str, *, scope: str | None = None, path: Path | None = None
) -> None:
    """Replace a note by a new one; the old one is kept as history.

    Arguments
    key KEY: The key of the old note.
    new_key NEW_KEY: The key of the new note.
    """
    place, text = _NotesLocation.of(path, scope), given_text(value)
    with place.notes() as store:
        saved = store.notes.supersede(key, new_key, text, scope=place.scope)
        print_json(store.shown(new_key, place.scope) | _unembedded(saved))


def path_(*, path: Path | None = None) -> None:
    """Show the folder of the store, whether or not it exists."""
    print_json({"path": str(store_path(_NotesLocation.of(path, None).path, read_settings()))})


def reembed(*, force: bool = False, scope: str | None = None, path: Path | None = None) -> None:
    """Embed notes that have no vector; exit code 1 if some could not be embedded.

    Options
    force: Embed all notes, as after a change of the model.
    scope NAME: The scope to look through. [default: LTM_SCOPE, or all scopes]
    """
    from hyrecall.memory import EVERYONE

    place = _NotesLocation.of(path, scope, "")
    with place.notes() as store, bar() as progress:
        done = store.memory.reembed(force=force, user_id=place.scope or EVERYONE, progress=progress)
    detail = [f"{one.id}: {one.error}" for one in done.errors]
    if done.stopped is not None:
        detail.append(f"stopped: {done.stopped}")
    for one in detail:
        say(f"error: {one}")
    counts = {name: getattr(done, name) for name in ("scanned", "embedded", "skipped")}
    print_json(
        {**counts, "errors": len(done.errors)} | ({"error_detail": detail} if detail else {})
    )
    if detail:
        raise typer.Exit(1)


def _unembedded(saved: Remembered) -> dict[str, Any]:
    """Tell of a note without a vector: a line on stderr, and fields of the JSON."""
    tell_reasons(saved.reasons)
    return ({"embedded": False} if saved.reasons else {}) | _reasons(saved.reasons)


def _reasons(reasons: Sequence[Degradation]) -> dict[str, Any]:
    return {"degraded": list(map(str, reasons))} if reasons else {}


def _pin(place: _NotesLocation, key: str, *, pinned: bool) -> None:
    with place.notes() as store:
        store.shown(key, place.scope)  # a note, not another memory
        store.memory.pin(key, user_id=place.scope, pinned=pinned)
        print_json(store.shown(key, place.scope))


ltm = group(
    "ltm",
    "Keep and find notes by key, as l0-memory's command does. Replies are JSON.",
    *(save, get, search, list_, delete, pin, unpin, supersede, path_, reembed),
    cls=_LtmCommands,
)
