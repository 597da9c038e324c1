"""``hyrecall ltm`` and ``hyrecall hm``: the commands of l0-memory and HyperMemory."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from hyrecall.base.arguments import home_path
from hyrecall.base.text_tables import Column, Row, TextLine, clean
from hyrecall.cli.help import Command, Group
from hyrecall.cli.memory_options import (
    AsJson,
    Org,
    StorePath,
    User,
    Workspace,
    bar,
    given_text,
    now_ready,
    opened,
    store_path,
    tell_reasons,
)
from hyrecall.cli.settings import read_settings
from hyrecall.cli.show import one_line, print_json, print_table, say
from hyrecall.errors import (
    DTypeError,
    HyrecallError,
    NotFoundError,
    OptionError,
    StoreBusyError,
    StoreNotFoundError,
    WriterBusyError,
    error,
)

if TYPE_CHECKING:
    from hyrecall.memory import Degradation, MemorySync, Notes, Remembered


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
        from hyrecall.memory import EVERYONE, Notes

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


# ---- ``hyrecall hm recall``: HyperMemory's command, with its options and exit codes ----

NOT_FOUND, REJECTED, NO_ANSWER = 5, 6, 9

_CODES = (
    ("0", "Success, also if nothing was found."),
    ("1", "Another error."),
    ("2", "The command line is wrong, or an extra is not installed."),
    (str(NOT_FOUND), "There is no store at the path."),
    (str(REJECTED), "The query, the pattern or a value was refused."),
    (str(NO_ANSWER), "Another process holds the store and does not answer in time."),
)


class _HmCommands(Group):
    """The group ``hm``; its help lists the exit codes."""

    notes = (("Exit codes", _CODES),)


hm = typer.Typer(
    name="hm",
    cls=_HmCommands,
    help="Recall nodes and the edges between them, as HyperMemory's command does.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)


@hm.callback()
def _group() -> None:
    """Keep the name of the command, of which there is only one."""


@contextmanager
def _own_codes() -> Iterator[None]:
    """Show an error of the library, and end with HyperMemory's exit code for it."""
    kinds: tuple[tuple[type[HyrecallError], int], ...] = (
        (StoreNotFoundError, NOT_FOUND),
        (NotFoundError, NOT_FOUND),
        (WriterBusyError, NO_ANSWER),
        (StoreBusyError, NO_ANSWER),
        (OptionError, REJECTED),
        (DTypeError, REJECTED),
    )
    try:
        yield
    except HyrecallError as fault:
        code = next((code for kind, code in kinds if isinstance(fault, kind)), None)
        if code is None:
            raise  # the app shows it, as of any command
        say(f"error: {one_line(fault)}")
        raise typer.Exit(code) from None


@hm.command(cls=Command)
def recall(
    query: Annotated[
        str, typer.Argument(metavar="QUERY", help="Words, or a pattern (RE2) with --force-regex.")
    ],
    most: Annotated[
        int,
        typer.Option("-n", "--max-results", metavar="N", help="The most nodes, from 1 to 50."),
    ] = 10,
    force_regex: Annotated[
        bool, typer.Option("--force-regex", help="Read the query as a pattern.")
    ] = False,
    session_id: Annotated[
        str,
        typer.Option(
            "--session-id", metavar="ID", help="The conversation: what it met ranks higher."
        ),
    ] = "default",
    path: StorePath = None,
    user: User = None,
    org: Org = None,
    workspace: Workspace = None,
    as_json: AsJson = False,
) -> None:
    """Recall nodes; the call is recorded in its conversation."""
    from hyrecall.memory.hypergraph import MOST_RESULTS, hm_recall

    if not 1 <= most <= MOST_RESULTS:
        raise typer.BadParameter(f"expected 1 to {MOST_RESULTS}", param_hint="-n")
    place: dict[str, Any] = {"user_id": user, "org": org, "workspace": workspace}
    with _own_codes(), opened(path, recipe="hypergraph") as memory:
        ready: MemorySync = now_ready(memory)
        answer = hm_recall(ready, query, session_id, most, force_regex, **place)
    for reason in answer["metadata"]["degraded"]:
        say(f"note: degraded: {reason}")
    if as_json:
        print_json(answer)
    elif answer["results"]:
        _print(answer)
    else:
        say("note: no nodes")


_COLUMNS = (
    Column("rank", "right"), Column("key", style="key"), Column("type"), Column("score", "right"),
)  # fmt: skip


def _print(answer: dict[str, Any]) -> None:
    """Write the nodes to stdout, each with its description and its neighbours below."""
    rows = []
    for rank, node in enumerate(answer["results"], 1):
        cells = [str(rank), clean(node["key"]), clean(node["type"]), f"{node['score']:.6f}"]
        below = [TextLine(clean(node["description"]))]
        below += [
            TextLine(f"{clean(near['rel'] or 'beside')}: {clean(near['key'])}")
            for near in node["expansion_context"]
        ]
        rows.append(Row(cells, below))
    print_table(_COLUMNS, rows)
