"""``hyrecall hm recall``: HyperMemory's command, with its options and exit codes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import typer

from hyrecall.base.text_tables import Column, Row, TextLine, clean
from hyrecall.cli.declare import Whose, group
from hyrecall.cli.help import Group
from hyrecall.cli.memory_options import now_ready, opened
from hyrecall.cli.show import one_line, print_json, print_table, say
from hyrecall.errors import (
    DTypeError,
    HyrecallError,
    NotFoundError,
    OptionError,
    StoreBusyError,
    StoreNotFoundError,
    WriterBusyError,
)

if TYPE_CHECKING:
    from hyrecall.memory import MemorySync

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


def recall(
    query: str,
    *,
    most: int = 10,
    force_regex: bool = False,
    session_id: str = "default",
    path: Path | None = None,
    as_json: bool = False,
    **whose: Unpack[Whose],
) -> None:
    """Recall nodes; the call is recorded in its conversation.

    Arguments
    query QUERY: Words, or a pattern (RE2) with --force-regex.
    Options
    most -n --max-results N: The most nodes, from 1 to 50.
    force_regex: Read the query as a pattern.
    session_id ID: The conversation: what it met ranks higher.
    """
    from hyrecall.systems.hypergraph.graph_recall import MOST_RESULTS, hm_recall

    if not 1 <= most <= MOST_RESULTS:
        raise typer.BadParameter(f"expected 1 to {MOST_RESULTS}", param_hint="-n")
    with _own_codes(), opened(path, recipe="hypergraph") as memory:
        ready: MemorySync = now_ready(memory)
        answer = hm_recall(ready, query, session_id, most, force_regex, **whose)
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


hm = group(
    "hm",
    "Recall nodes and the edges between them, as HyperMemory's command does.",
    recall,
    cls=_HmCommands,
)
