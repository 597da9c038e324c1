"""``hyrecall ltm``: the commands of l0-memory."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from hyrecall.base.arguments import home_path
from hyrecall.cli.help import Command, Group
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


ltm = typer.Typer(
    name="ltm",
    cls=_LtmCommands,
    help="Keep and find notes by key, as l0-memory's command does. Replies are JSON.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)

Key: TypeAlias = Annotated[str, typer.Argument(metavar="KEY", help="The key of the note.")]
Value: TypeAlias = Annotated[
    str, typer.Argument(metavar="VALUE", help="The text of the note; - reads it from stdin.")
]
DbPath: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--path",
        metavar="DIR",
        show_default="LTM_DB, HYRECALL_PATH, the setting path, or ~/.local/share/hyrecall/memory",
        help="Folder of the store.",
    ),
]
Scope: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--scope", metavar="NAME", show_default="LTM_SCOPE, or user", help="The scope of the note."
    ),
]
AnyScope: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--scope",
        metavar="NAME",
        show_default="LTM_SCOPE, or all scopes",
        help="The scope to look through.",
    ),
]


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


@ltm.command(cls=Command)
def save(
    key: Key,
    value: Value,
    tags: Annotated[
        list[str] | None,
        typer.Option("--tag", metavar="TAG", help="A tag; repeat for several."),
    ] = None,
    scope: Scope = None,
    path: DbPath = None,
) -> None:
    """Save a note; another value of the key becomes history."""
    place, text = _NotesLocation.of(path, scope), given_text(value)
    with place.notes(makes=True) as store:
        saved = store.notes.save(key, text, scope=place.scope, tags=tags or ())
        print_json(store.shown(key, place.scope) | _unembedded(saved))


@ltm.command(cls=Command)
def get(key: Key, scope: Scope = None, path: DbPath = None) -> None:
    """Show a note."""
    place = _NotesLocation.of(path, scope)
    with place.notes(read_only=True) as store:
        print_json(store.shown(key, place.scope))


@ltm.command(cls=Command)
def search(
    query: Annotated[str, typer.Argument(metavar="QUERY", help="The words to look for.")],
    limit: Annotated[int, typer.Option("--limit", metavar="N", help="The most notes.")] = 50,
    expand: Annotated[
        bool, typer.Option("--expand", help="Show whole notes instead of snippets.")
    ] = False,
    scope: AnyScope = None,
    path: DbPath = None,
) -> None:
    """Find notes by the beginnings of all words, and by vectors if there is an endpoint."""
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


@ltm.command("list", cls=Command)
def list_(
    limit: Annotated[int, typer.Option("--limit", metavar="N", help="The most notes.")] = 200,
    scope: AnyScope = None,
    path: DbPath = None,
) -> None:
    """List notes, newest first."""
    place = _NotesLocation.of(path, scope, "")
    with place.notes(read_only=True) as store:
        notes = store.notes.list(scope=place.scope, limit=limit)
        found = [store.shown(one.key, one.scope) for one in notes]
    print_json(found)


@ltm.command(cls=Command)
def delete(key: Key, scope: Scope = None, path: DbPath = None) -> None:
    """Delete a note."""
    place = _NotesLocation.of(path, scope)
    with place.notes() as store:
        if not store.notes.delete(key, scope=place.scope):
            raise error(NotFoundError, "KEY", "a note that is there", repr(key))
    print_json({"deleted": True, "scope": place.scope, "key": key})


@ltm.command(cls=Command)
def pin(key: Key, scope: Scope = None, path: DbPath = None) -> None:
    """Pin a note: it comes first among equal scores."""
    _pin(_NotesLocation.of(path, scope), key, pinned=True)


@ltm.command(cls=Command)
def unpin(key: Key, scope: Scope = None, path: DbPath = None) -> None:
    """Unpin a note."""
    _pin(_NotesLocation.of(path, scope), key, pinned=False)


@ltm.command(cls=Command)
def supersede(
    key: Annotated[str, typer.Argument(metavar="KEY", help="The key of the old note.")],
    new_key: Annotated[str, typer.Argument(metavar="NEW_KEY", help="The key of the new note.")],
    value: Value,
    scope: Scope = None,
    path: DbPath = None,
) -> None:
    """Replace a note by a new one; the old one is kept as history."""
    place, text = _NotesLocation.of(path, scope), given_text(value)
    with place.notes() as store:
        saved = store.notes.supersede(key, new_key, text, scope=place.scope)
        print_json(store.shown(new_key, place.scope) | _unembedded(saved))


@ltm.command("path", cls=Command)
def path_(path: DbPath = None) -> None:
    """Show the folder of the store, whether or not it exists."""
    print_json({"path": str(store_path(_NotesLocation.of(path, None).path, read_settings()))})


@ltm.command(cls=Command)
def reembed(
    force: Annotated[
        bool, typer.Option("--force", help="Embed all notes, as after a change of the model.")
    ] = False,
    scope: AnyScope = None,
    path: DbPath = None,
) -> None:
    """Embed notes that have no vector; exit code 1 if some could not be embedded."""
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
