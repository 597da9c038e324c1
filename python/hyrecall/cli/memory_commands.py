"""Commands over a store: keep, end, forget, browse, feedback, policies of agents, upkeep."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer
from pydantic_core import to_jsonable_python

from hyrecall.base.text_tables import Column, Row, TextLine, wrap
from hyrecall.base.times import read_time
from hyrecall.cli.help import Command, Group
from hyrecall.cli.memory_options import (
    AsJson,
    Org,
    StoreFilters,
    StorePath,
    Tags,
    User,
    Workspace,
    bar,
    now_ready,
    opened,
    read_store_filter,
    store_path,
)
from hyrecall.cli.settings import read_settings
from hyrecall.cli.show import print_json, print_lines, print_stored, print_table, say, screen_width
from hyrecall.cli.verb_commands import read_object
from hyrecall.errors import OptionError, error

if TYPE_CHECKING:
    from hyrecall.memory import Browse


def forget(
    ids: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="ID",
            show_default="all that the options select",
            help="The memories to forget.",
        ),
    ] = None,
    path: StorePath = None,
    user: User = None,
    org: Org = None,
    workspace: Workspace = None,
    session: Annotated[
        str | None, typer.Option("--session-id", metavar="ID", help="All memories of a session.")
    ] = None,
    before: Annotated[
        str | None,
        typer.Option(
            "--before",
            metavar="TIME",
            help="What happened, and facts stored, before this time, ISO 8601.",
        ),
    ] = None,
    kind: Annotated[
        str | None, typer.Option("--kind", metavar="TEXT", help="Those of this kind.")
    ] = None,
    tags: Tags = None,
    filters: StoreFilters = None,
    metadata: Annotated[
        str | None, typer.Option("--metadata", metavar="JSON", help="Those with these keys.")
    ] = None,
    reason: Annotated[
        str | None,
        typer.Option("--reason", metavar="TEXT", help="The reason, kept in the history."),
    ] = None,
    if_version: Annotated[
        int | None,
        typer.Option("--if-version", metavar="N", help="Only if the memory ID has this version."),
    ] = None,
    everything: Annotated[
        bool, typer.Option("--everything", help="All memories of --user; needs --yes.")
    ] = False,
    erase: Annotated[
        bool, typer.Option("--erase", help="Remove every byte, also of the history; needs --yes.")
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", help="Confirm; needed with --erase, and without an ID.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Remove memories of one user from recall."""
    of = None if metadata is None else read_object("--metadata", metadata)
    chosen = (session, before, kind, tags or None, filters or None, of)
    if not (ids or everything) and all(one is None for one in chosen):
        wish = "an ID, --session-id, --before, --kind, --tag, --filter or --everything"
        raise error(OptionError, "ID", wish, "none of them")
    if (erase or not ids) and not yes:
        raise error(OptionError, "--yes", "--yes with --erase, or without an ID", "none")
    asked: dict[str, Any] = {
        "user_id": user, "org": org, "workspace": workspace, "session_id": session,
        "before": read_time("--before", before), "kind": kind, "tags": tags or None,
        "filter": read_store_filter(filters), "metadata": of, "reason": reason, "erase": erase,
        "everything": everything, "if_version": if_version,
    }  # fmt: skip
    with opened(path) as memory:
        forgotten = memory.forget(ids or None, **asked)
    if as_json:
        print_json({"forgotten": forgotten})
    else:
        print(forgotten)


def policy(
    agent: Annotated[str, typer.Argument(metavar="AGENT", help="The agent.")],
    policy: Annotated[
        str | None,
        typer.Argument(
            metavar="isolated|shared|group",
            show_default="show the policy",
            help="Beside its own memories: none, the global ones of the workspace, or of these "
            "those of its group.",
        ),
    ] = None,
    path: StorePath = None,
    org: Org = None,
    workspace: Workspace = None,
    group: Annotated[
        str | None, typer.Option("--policy-group", metavar="NAME", help="Its group, with group.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show or set what an agent may read beside its own memories."""
    where: dict[str, Any] = {"org": org, "workspace": workspace}
    if group is not None and policy is None:
        raise error(OptionError, "--policy-group", "a policy with it", "none")
    with opened(path, read_only=policy is None) as memory:
        if policy is not None:
            memory.set_policy(agent, policy=policy, policy_group=group, **where)
        found = memory.get_policy(agent, **where)
    if as_json:
        print_json({"agent": agent, **where, **found._asdict()})
    else:
        print(" ".join(part for part in found if part is not None))


def reembed(
    path: StorePath = None,
    user: Annotated[
        str | None,
        typer.Option(
            "--user", metavar="NAME", show_default="all users", help="Only the memories of a user."
        ),
    ] = None,
    org: Org = None,
    workspace: Workspace = None,
    force: Annotated[
        bool, typer.Option("--force", help="Embed all memories, as after a change of the model.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Embed memories that have no vector; exit code 1 if some could not be embedded."""
    from hyrecall.memory import EVERYONE

    with opened(path) as memory, bar() as progress:
        done = now_ready(memory).reembed(
            force=force, user_id=EVERYONE if user is None else user, org=org,
            workspace=workspace, progress=progress,
        )  # fmt: skip
    for one in done.errors:
        say(f"error: {one.id}: {one.error}")
    if done.stopped is not None:
        say(f"error: stopped: {done.stopped}")
    if as_json:
        print_json(asdict(done))
    else:
        print(
            f"{done.scanned:,} scanned, {done.embedded:,} embedded, {done.skipped:,} skipped, "
            f"{len(done.errors):,} errors"
        )
    if done.errors or done.stopped is not None:
        raise typer.Exit(1)


def compact(path: StorePath = None, as_json: AsJson = False) -> None:
    """Free unused disk space, as after a large erase."""
    with opened(path) as memory:
        done = memory.compact()
    if as_json:
        print_json(asdict(done))
    else:
        print(f"{done.bytes_before:,} bytes before, {done.bytes_after:,} after")


def doctor(
    path: StorePath = None,
    full: Annotated[bool, typer.Option("--full", help="Also read every row and vector.")] = False,
    repair: Annotated[
        bool, typer.Option("--repair", help="First rebuild the index and empty the log.")
    ] = False,
    rescue: Annotated[
        Path | None,
        typer.Option(
            "--rescue",
            metavar="FILE",
            help="Only write memories that a damaged store has lost and the saved index still has "
            "to a file for import.",
        ),
    ] = None,
    accept_loss: Annotated[
        bool,
        typer.Option("--accept-loss", help="Open a store although it has lost acknowledged rows."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Check a store; exit code 1 if it has problems."""
    if rescue is not None:
        if repair or accept_loss:
            raise error(OptionError, "--rescue", "no --repair or --accept-loss with it", "more")
        _rescue(path, rescue, as_json=as_json)
        return
    from hyrecall.memory.keeping import Owner

    is_changed = repair or accept_loss
    with opened(path, read_only=not is_changed, accept_loss=accept_loss) as memory:
        store = memory._store
        if repair:
            store.keeper.run(Owner.rebuild)
            memory.snapshot()
            store.keeper.run(Owner.empty_log)
        report = memory.doctor(full=full)
    if as_json:
        print_json({"ok": report.ok, **asdict(report)})
    else:
        columns = Column("check"), Column("ok"), Column("detail", wraps=True)
        print_table(
            columns,
            [
                Row([one.name, "yes" if one.ok else "NO", _detail(one.detail)])
                for one in report.checks
            ],
        )
        print()
        print_lines(wrap(TextLine(_pairs(report.counts)), screen_width()))
    if not report.ok:
        raise typer.Exit(1)


def _detail(told: str) -> str:
    """Return the detail of a check; facts in JSON become words."""
    try:
        facts = json.loads(told)
    except ValueError:
        return told
    return _pairs(facts) if isinstance(facts, dict) else told


def _pairs(facts: dict[str, Any]) -> str:
    """Return names and values in one line."""
    return ", ".join(
        f"{name.replace('_', ' ')} {value if name == 'pid' else _value(value)}"
        for name, value in facts.items()
    )


def _value(value: Any) -> str:
    if value is None or value in ([], {}):
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return f"({_pairs(value)})"
    if isinstance(value, list):
        told = ", ".join(map(_value, value))
        return told if isinstance(value[0], dict) else f"({told})"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _rescue(path: Path | None, file: Path, *, as_json: bool) -> None:
    from hyrecall.memory.faces.transfer import rescue

    n_lines = rescue(store_path(path, read_settings()), file)
    if as_json:
        print_json({"rescued": n_lines})
    else:
        print(f"{n_lines:,} rescued")


# ---- ``hyrecall feedback``: says which memories of a store helped with a query ----


def feedback(
    query: Annotated[
        str | None,
        typer.Argument(metavar="QUERY", show_default="list what was said", help="What was asked."),
    ] = None,
    used: Annotated[
        list[str] | None,
        typer.Argument(metavar="ID", show_default="none", help="The memories that helped."),
    ] = None,
    path: StorePath = None,
    user: User = None,
    org: Org = None,
    workspace: Workspace = None,
    as_json: AsJson = False,
) -> None:
    """Say which memories helped with a query; without a query, list what was said.

    hyrecall learn DIR --user NAME learns from it how to rank for this user.
    """
    where = {"user_id": user, "org": org, "workspace": workspace}
    if query is not None:
        with opened(path) as memory:
            n_new = memory.feedback(used=used or [], query=query, **where)
        print_json({"new": n_new}) if as_json else print(n_new)
        return
    with opened(path, read_only=True) as memory:
        said = memory.list_feedback(**where)
    if as_json:
        print_json({"items": to_jsonable_python(said)})
    else:
        columns = Column("query", wraps=True), Column("used", wraps=True), Column("at")
        print_table(
            columns,
            [Row([one.query, " ".join(one.used), f"{one.at:%Y-%m-%d %H:%M}"]) for one in said],
        )


# ---- ``hyrecall browse``: shows the memories of a user as files ----

browse = typer.Typer(
    name="browse",
    cls=Group,
    help="Read memories as files: /index.md, /memories, /shared, /sessions, /facts, /graph, "
    "/pinned. Read-only.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)

Where: TypeAlias = Annotated[
    str, typer.Argument(metavar="PATH", help="A folder or a file, such as /memories.")
]
Agent: TypeAlias = Annotated[
    str | None,
    typer.Option("--agent", metavar="NAME", help="Read as this agent of --org and --workspace."),
]
Limit: TypeAlias = Annotated[
    int, typer.Option("--limit", metavar="N", help="The most entries to show.")
]


@contextmanager
def _files(
    path: Path | None, user: str | None, org: str | None, workspace: str | None, agent: str | None
) -> Iterator[Browse]:
    if agent is not None and user is not None:
        raise typer.BadParameter("expected either --user or --agent")
    with opened(path, read_only=True) as memory:
        if agent is not None:
            yield memory.agent(agent, org=org or "", workspace=workspace or "").browse()
        else:
            yield memory.browse(user_id=user, org=org, workspace=workspace)


@browse.command(cls=Command)
def ls(
    where: Where = "/",
    path: StorePath = None,
    user: User = None,
    org: Org = None,
    workspace: Workspace = None,
    agent: Agent = None,
    limit: Limit = 200,
    as_json: AsJson = False,
) -> None:
    """List a folder, newest first."""
    with _files(path, user, org, workspace, agent) as files:
        _entries(files.ls(where, limit=limit), as_json)


@browse.command(cls=Command)
def cat(
    where: Where,
    path: StorePath = None,
    user: User = None,
    org: Org = None,
    workspace: Workspace = None,
    agent: Agent = None,
    as_json: AsJson = False,
) -> None:
    """Show a file; a missing file is empty."""
    with _files(path, user, org, workspace, agent) as files:
        text = files.cat(where)
    if as_json:
        print_json({"path": where, "text": text})
    else:
        print_stored(text)
        if not text:
            say("note: no such file")


@browse.command(cls=Command)
def grep(
    pattern: Annotated[
        str, typer.Argument(metavar="PATTERN", help="A text to find, ignoring case.")
    ],
    where: Where = "/",
    path: StorePath = None,
    user: User = None,
    org: Org = None,
    workspace: Workspace = None,
    agent: Agent = None,
    regex: Annotated[
        bool, typer.Option("--regex", help="Read the pattern as a regular expression (RE2).")
    ] = False,
    filters: StoreFilters = None,
    limit: Limit = 50,
    as_json: AsJson = False,
) -> None:
    """Show the lines that contain a text, newest memory first."""
    with _files(path, user, org, workspace, agent) as files:
        lines = files.grep(
            pattern, where, regex=regex, filter=read_store_filter(filters), limit=limit
        )
    if as_json:
        print_json({"lines": [asdict(line) for line in lines]})
        return
    if not lines:
        say("note: nothing found")
    for line in lines:
        print_stored(f"{line.path}:{line.number}:{line.text}\n")


@browse.command(cls=Command)
def find(
    pattern: Annotated[
        str, typer.Argument(metavar="PATTERN", help="File names to look for, with * ? [ab].")
    ] = "*",
    where: Where = "/",
    path: StorePath = None,
    user: User = None,
    org: Org = None,
    workspace: Workspace = None,
    agent: Agent = None,
    filters: StoreFilters = None,
    limit: Limit = 200,
    as_json: AsJson = False,
) -> None:
    """List the memories whose file name matches, newest first."""
    with _files(path, user, org, workspace, agent) as files:
        found = files.find(pattern, where, filter=read_store_filter(filters), limit=limit)
        _entries(found, as_json)


def _entries(entries: list[str], as_json: bool) -> None:
    if as_json:
        print_json({"entries": entries})
        return
    if not entries:
        say("note: nothing found")
    for entry in entries:
        print_stored(f"{entry}\n")
