"""Renders the files of a browsed store: a memory, a session, facts, edges, the index."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from hyrecall.memory.data.types import Edge, Episode, Fact
from hyrecall.memory.faces.paths import memory_path, name_of

__all__ = ["edges_page", "facts_page", "index_page", "memory_page", "session_page"]

IN_A_SECTION = 50
_TITLE = 80  # characters


def memory_page(episode: Episode) -> str:
    """Show a memory: what is known of it between two lines of dashes, then what it says."""
    known: dict[str, Any] = {
        "id": episode.id,
        "kind": episode.kind,
        "user": episode.user_id,
        "visibility": episode.visibility,
        "occurred_at": episode.occurred_at.isoformat(),
        "source": episode.source,
        "session": episode.session_id,
        "importance": episode.importance,
        "pinned": episode.pinned or None,
        "tags": list(episode.tags) or None,
        "metadata": episode.metadata or None,
    }
    lines = [f"{name}: {_json(value)}" for name, value in known.items() if value is not None]
    return "\n".join(["---", *lines, "---", "", *_texts(episode)]) + "\n"


def session_page(turns: Sequence[Episode]) -> str:
    """Show turns, given newest first, as they were spoken; none give no page."""
    parts = []
    for turn in reversed(turns):
        parts.append(f"## {turn.occurred_at.isoformat()} {memory_path(turn)}")
        parts.append("\n\n".join(_texts(turn)))
    return "".join(f"{part}\n\n" for part in parts)


def facts_page(facts: Iterable[Fact]) -> str:
    """Show facts, a line each, with the time in which they hold."""
    return "".join(
        f"- {_line(one.predicate)}: {_line(one.object)} "
        f"(from {one.valid_from.isoformat()}{_until(one)})\n"
        for one in facts
    )


def edges_page(edges: Iterable[Edge]) -> str:
    """Show the edges of a memory, a line each: relationship, ends with their parts, description."""
    lines = []
    for edge in edges:
        ends = ", ".join(
            _line(end.id) + (f" ({_line(end.role)})" if end.role else "")
            for end in edge.participants
        )
        told = f": {_line(edge.description)}" if edge.description.strip() else ""
        lines.append(f"- {_line(edge.relationship)} [{ends}]{told}\n")
    return "".join(lines)


def index_page(
    pinned: Sequence[Episode], newest: Sequence[Episode], sessions: Sequence[str]
) -> str:
    """Show what there is to browse; a 51st of a section only says that there are more."""
    parts = ["# Memories\n"]
    sections = (
        ("Pinned", [_entry(one) for one in pinned[: IN_A_SECTION + 1]], "/pinned"),
        ("Newest", [_entry(one) for one in newest[: IN_A_SECTION + 1]], "/memories and /shared"),
        ("Sessions", [_session(one) for one in sessions[: IN_A_SECTION + 1]], "/sessions"),
    )
    for title, lines, folder in sections:
        if not lines and title == "Pinned":
            continue
        shown = "".join(f"- {line}\n" for line in lines[:IN_A_SECTION]) or "Nothing yet.\n"
        parts.append(f"## {title}\n\n{shown}")
        if len(lines) > IN_A_SECTION:
            parts[-1] += f"\nOnly the newest {IN_A_SECTION} are shown; see {folder}.\n"
    return "\n".join(parts)


def _entry(episode: Episode) -> str:
    return f"{episode.occurred_at.date()} [{_title(episode)}]({memory_path(episode)})"


def _session(key: str) -> str:
    return f"[{_line(key)}](/sessions/{name_of(key)})"


def _title(episode: Episode) -> str:
    line = _line(episode.output.strip() or episode.input.strip() or episode.id)
    return line if len(line) <= _TITLE else f"{line[:_TITLE]}..."


def _line(text: str) -> str:
    """Put a text on one line, where brackets would end a link."""
    return " ".join(text.split()).replace("[", "(").replace("]", ")")


def _texts(episode: Episode) -> list[str]:
    return [text for text in (episode.input, episode.output) if text.strip()]


def _until(fact: Fact) -> str:
    return "" if fact.valid_to is None else f" to {fact.valid_to.isoformat()}"


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
