"""What ``hyrecall recall`` does with a store."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table

from hyrecall.cli.memory_options import now_ready, opened, read_time, tell_reasons
from hyrecall.cli.show import print_json, print_table, say, short
from hyrecall.filters import Filter

if TYPE_CHECKING:
    from hyrecall.memory import Matches

__all__ = ["Asked", "recall_from_store"]


@dataclass(frozen=True)
class Asked:
    """The options of a recall from a store, as they stand on the command line."""

    query: str
    folder: Path | None
    user: str | None
    org: str | None
    workspace: str | None
    kind: str | None
    since: str | None
    until: str | None
    tags: list[str] | None
    session: str | None
    alpha: float | None
    recipe: str | None
    limit: int
    offset: int
    touch: bool
    normalize: bool


def recall_from_store(asked: Asked, *, as_json: bool) -> None:
    """Answer, and show it."""
    begin, end = read_time("--since", asked.since), read_time("--until", asked.until)
    with opened(asked.folder, read_only=not asked.touch, recipe=asked.recipe) as memory:
        matches = now_ready(memory).search(
            asked.query, user_id=asked.user, org=asked.org, workspace=asked.workspace,
            kind=asked.kind, tags=asked.tags, alpha=asked.alpha, limit=asked.limit,
            offset=asked.offset, touch=asked.touch, normalize=asked.normalize,
            time_range=None if begin is None and end is None else (begin, end),
            filter=None if asked.session is None else Filter(session_id=asked.session),
        )  # fmt: skip
    tell_reasons(matches.reasons)
    if as_json:
        print_json(_as_dict(asked.query, matches))
    elif matches:
        print_table(_table(matches))
    else:
        say("note: no memories")


def _as_dict(query: str, matches: Matches) -> dict[str, Any]:
    scope = matches.scope
    return {
        "query": query,
        "matches": [match.model_dump(mode="json") for match in matches],
        "degraded": matches.degraded,
        "reasons": [str(reason) for reason in matches.reasons],
        "scope": None if scope is None else asdict(scope),
    }


def _table(matches: Matches) -> Table:
    table = Table()
    for name in ("rank", "id", "score", "BM25", "cosine", "when"):
        table.add_column(name, justify="left" if name == "id" else "right", no_wrap=name != "id")
    table.add_column("memory", overflow="fold")
    for rank, match in enumerate(matches, 1):
        parts = [_part(one) for one in (match.bm25_score, match.vector_score)]
        when = match.episode.occurred_at.isoformat(" ", "minutes")
        score = f"{match.score:.6f}"
        text = short(match.episode.text)
        table.add_row(str(rank), match.episode.id, score, *parts, when[:16], text)
    return table


def _part(score: float | None) -> str:
    return "-" if score is None else f"{score:.4f}"
