"""Commands over a store: keep, end, forget, browse, feedback, policies of agents, upkeep."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import typer
from pydantic_core import to_jsonable_python

from hyrecall.base.text_tables import Column, Row, TextLine, wrap
from hyrecall.base.times import read_time
from hyrecall.cli.declare import InPartition, Whose, group
from hyrecall.cli.memory_options import (
    bar,
    now_ready,
    opened,
    read_store_filter,
    store_path,
)
from hyrecall.cli.settings import read_settings
from hyrecall.cli.show import (
    print_json,
    print_lines,
    print_stored,
    print_table,
    say,
    screen_width,
    show,
)
from hyrecall.cli.verb_commands import read_object
from hyrecall.errors import OptionError, error

if TYPE_CHECKING:
    from hyrecall.memory import Browse


SHARED = """
filters --filter JSON: Only memories with these attributes and keys of the metadata:
    {"kind": "note", "occurred_at": {"from": "2024-05-01"}, "metadata.project": "x"}.
"""


def forget(
    ids: list[str] | None = None,
    *,
    path: Path | None = None,
    session_id: str | None = None,
    before: str | None = None,
    kind: str | None = None,
    tags: list[str] | None = None,
    filters: list[str] | None = None,
    metadata: str | None = None,
    reason: str | None = None,
    if_version: int | None = None,
    everything: bool = False,
    erase: bool = False,
    yes: bool = False,
    as_json: bool = False,
    **whose: Unpack[Whose],
) -> None:
    """Remove memories of one user from recall.

    Arguments
    ids ID: The memories to forget. [default: all that the options select]
    Options
    session_id ID: All memories of a session.
    before TIME: What happened, and facts stored, before this time, ISO 8601.
    kind TEXT: Those of this kind.
    metadata JSON: Those with these keys.
    reason TEXT: The reason, kept in the history.
    if_version N: Only if the memory ID has this version.
    everything: All memories of --user; needs --yes.
    erase: Remove every byte, also of the history; needs --yes.
    yes: Confirm; needed with --erase, and without an ID.
    """
    chosen: dict[str, Any] = {
        "session_id": session_id, "before": read_time("--before", before), "kind": kind,
        "tags": tags or None, "filter": read_store_filter(filters),
        "metadata": None if metadata is None else read_object("--metadata", metadata),
    }  # fmt: skip
    if not (ids or everything) and all(one is None for one in chosen.values()):
        wish = "an ID, --session-id, --before, --kind, --tag, --filter or --everything"
        raise error(OptionError, "ID", wish, "none of them")
    if (erase or not ids) and not yes:
        raise error(OptionError, "--yes", "--yes with --erase, or without an ID", "none")
    with opened(path) as memory:
        forgotten = memory.forget(
            ids or None, reason=reason, erase=erase, everything=everything, if_version=if_version,
            **whose, **chosen,
        )  # fmt: skip
    show(as_json, {"forgotten": forgotten}, forgotten)


def policy(
    agent: str,
    policy: str | None = None,
    *,
    path: Path | None = None,
    policy_group: str | None = None,
    as_json: bool = False,
    **where: Unpack[InPartition],
) -> None:
    """Show or set what an agent may read beside its own memories.

    Arguments
    agent AGENT: The agent.
    policy isolated|shared|group: Beside its own memories: none, the global ones of the workspace,
        or of these those of its group. [default: show the policy]
    Options
    policy_group NAME: Its group, with group.
    """
    if policy_group is not None and policy is None:
        raise error(OptionError, "--policy-group", "a policy with it", "none")
    with opened(path, read_only=policy is None) as memory:
        if policy is not None:
            memory.set_policy(agent, policy=policy, policy_group=policy_group, **where)
        found = memory.get_policy(agent, **where)
    told = " ".join(part for part in found if part is not None)
    show(as_json, {"agent": agent, **where, **found._asdict()}, told)


def reembed(
    *,
    path: Path | None = None,
    force: bool = False,
    as_json: bool = False,
    **whose: Unpack[Whose],
) -> None:
    """Embed memories that have no vector; exit code 1 if some could not be embedded.

    Options
    user_id --user NAME: Only the memories of a user. [default: all users]
    force: Embed all memories, as after a change of the model.
    """
    from hyrecall.memory import EVERYONE

    where: dict[str, Any] = {**whose}
    where["user_id"] = EVERYONE if whose["user_id"] is None else whose["user_id"]
    with opened(path) as memory, bar() as progress:
        done = now_ready(memory).reembed(force=force, progress=progress, **where)
    for one in done.errors:
        say(f"error: {one.id}: {one.error}")
    if done.stopped is not None:
        say(f"error: stopped: {done.stopped}")
    counts = f"{done.scanned:,} scanned, {done.embedded:,} embedded, {done.skipped:,} skipped"
    show(as_json, asdict(done), f"{counts}, {len(done.errors):,} errors")
    if done.errors or done.stopped is not None:
        raise typer.Exit(1)


def compact(*, path: Path | None = None, as_json: bool = False) -> None:
    """Free unused disk space, as after a large erase."""
    with opened(path) as memory:
        done = memory.compact()
    show(as_json, asdict(done), f"{done.bytes_before:,} bytes before, {done.bytes_after:,} after")


def doctor(
    *,
    path: Path | None = None,
    full: bool = False,
    repair: bool = False,
    rescue: Path | None = None,
    accept_loss: bool = False,
    as_json: bool = False,
) -> None:
    """Check a store; exit code 1 if it has problems.

    Options
    full: Also read every row and vector.
    repair: First rebuild the index and empty the log.
    rescue FILE: Only write memories that a damaged store has lost and the saved index still has to
        a file for import.
    accept_loss: Open a store although it has lost acknowledged rows.
    """
    if rescue is not None:
        if repair or accept_loss:
            raise error(OptionError, "--rescue", "no --repair or --accept-loss with it", "more")
        from hyrecall.memory.faces.transfer import rescue as write_lost

        n_lines = write_lost(store_path(path, read_settings()), rescue)
        show(as_json, {"rescued": n_lines}, f"{n_lines:,} rescued")
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
        cells = (
            [one.name, "yes" if one.ok else "NO", _detail(one.detail)] for one in report.checks
        )
        print_table(columns, list(map(Row, cells)))
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


# ---- ``hyrecall feedback``: says which memories of a store helped with a query ----


def feedback(
    query: str | None = None,
    used: list[str] | None = None,
    *,
    path: Path | None = None,
    as_json: bool = False,
    **whose: Unpack[Whose],
) -> None:
    """Say which memories helped with a query; without a query, list what was said.

    hyrecall learn DIR --user NAME learns from it how to rank for this user.

    Arguments
    query QUERY: What was asked. [default: list what was said]
    used ID: The memories that helped. [default: none]
    """
    if query is not None:
        with opened(path) as memory:
            n_new = memory.feedback(used=used or [], query=query, **whose)
        show(as_json, {"new": n_new}, n_new)
        return
    with opened(path, read_only=True) as memory:
        said = memory.list_feedback(**whose)
    if as_json:
        print_json({"items": to_jsonable_python(said)})
    else:
        columns = Column("query", wraps=True), Column("used", wraps=True), Column("at")
        print_table(
            columns,
            [Row([one.query, " ".join(one.used), f"{one.at:%Y-%m-%d %H:%M}"]) for one in said],
        )


# ---- ``hyrecall browse``: shows the memories of a user as files ----

SHARED += """
where PATH: A folder or a file, such as /memories.
agent NAME: Read as this agent of --org and --workspace.
limit N: The most entries to show.
"""


class Reader(Whose):
    """Options that say whose memories are read as files, and of which store."""

    path: Path | None
    agent: str | None


@contextmanager
def _files(path: Path | None, agent: str | None, **whose: Unpack[Whose]) -> Iterator[Browse]:
    user, org, workspace = whose["user_id"], whose["org"], whose["workspace"]
    if agent is not None and user is not None:
        raise typer.BadParameter("expected either --user or --agent")
    with opened(path, read_only=True) as memory:
        if agent is not None:
            yield memory.agent(agent, org=org or "", workspace=workspace or "").browse()
        else:
            yield memory.browse(**whose)


def ls(
    where: str = "/", *, limit: int = 200, as_json: bool = False, **reader: Unpack[Reader]
) -> None:
    """List a folder, newest first."""
    with _files(**reader) as files:
        _entries(files.ls(where, limit=limit), as_json)


def cat(where: str, *, as_json: bool = False, **reader: Unpack[Reader]) -> None:
    """Show a file; a missing file is empty."""
    with _files(**reader) as files:
        text = files.cat(where)
    if as_json:
        print_json({"path": where, "text": text})
    else:
        print_stored(text)
        if not text:
            say("note: no such file")


def grep(
    pattern: str,
    where: str = "/",
    *,
    regex: bool = False,
    filters: list[str] | None = None,
    limit: int = 50,
    as_json: bool = False,
    **reader: Unpack[Reader],
) -> None:
    """Show the lines that contain a text, newest memory first.

    Arguments
    pattern PATTERN: A text to find, ignoring case.
    Options
    regex: Read the pattern as a regular expression (RE2).
    """
    asked: dict[str, Any] = {"filter": read_store_filter(filters), "regex": regex, "limit": limit}
    with _files(**reader) as files:
        lines = files.grep(pattern, where, **asked)
    if as_json:
        print_json({"lines": [asdict(line) for line in lines]})
    else:
        _entries([f"{line.path}:{line.number}:{line.text}" for line in lines])


def find(
    pattern: str = "*",
    where: str = "/",
    *,
    filters: list[str] | None = None,
    limit: int = 200,
    as_json: bool = False,
    **reader: Unpack[Reader],
) -> None:
    """List the memories whose file name matches, newest first.

    Arguments
    pattern PATTERN: File names to look for, with * ? [ab].
    """
    with _files(**reader) as files:
        found = files.find(pattern, where, filter=read_store_filter(filters), limit=limit)
        _entries(found, as_json)


def _entries(entries: list[str], as_json: bool = False) -> None:
    if as_json:
        print_json({"entries": entries})
        return
    if not entries:
        say("note: nothing found")
    for entry in entries:
        print_stored(f"{entry}\n")


browse = group(
    "browse",
    "Read memories as files: /index.md, /memories, /shared, /sessions, /facts, /graph, /pinned. "
    "Read-only.",
    *(ls, cat, grep, find),
)
