"""The commands by name; the module of a command is imported when the command is asked for.

A short command would spend a third of its time on importing and describing all the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import Any

import typer

from hyrecall.cli.help import Command

__all__ = ["Commands"]

# Module of hyrecall.cli, the command's name there, and that of its own class
# if it has one; in the order that the help shows.
_PLACES: dict[str, tuple[str, ...]] = {
    "index": ("index_command", "index"),
    "batch": ("batch_command", "batch"),
    "info": ("info_command", "info"),
    "shards": ("shards_command", "shards"),
    "demo": ("demo", "demo"),
    "tune": ("tune_command", "tune"),
    "learn": ("learn_command", "learn"),
    "remember": ("memory_commands", "remember"),
    "forget": ("memory_commands", "forget"),
    "end-fact": ("memory_commands", "end_fact"),
    "policy": ("memory_commands", "policy"),
    "feedback": ("feedback_command", "feedback"),
    "reembed": ("memory_commands", "reembed"),
    "export": ("transfer_command", "export"),
    "doctor": ("memory_commands", "doctor"),
    "compact": ("memory_commands", "compact"),
    "push": ("replica_command", "push"),
    "pull": ("replica_command", "pull"),
    "follow": ("replica_command", "follow"),
    "serve": ("serve_command", "serve"),
    "mcp": ("mcp_command", "mcp"),
    "recall": ("recall_command", "recall", "Recall"),
    "eval": ("eval_command", "evaluate"),
    "import": ("transfer_command", "import_"),
    "browse": ("browse_command", "browse"),
    "config": ("config_command", "config"),
    "hm": ("hm_command", "hm"),
    "ltm": ("ltm_command", "ltm"),
    "token": ("token_command", "token"),
}


class Commands(Mapping[str, Any]):
    """The commands and groups of commands, each made when it is first read."""

    def __getitem__(self, name: str) -> Any:
        """Return a command, or raise KeyError."""
        return _command(name, *_PLACES[name])

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names."""
        return iter(_PLACES)

    def __len__(self) -> int:
        """Return their number."""
        return len(_PLACES)


@cache
def _command(name: str, module: str, attribute: str, cls: str | None = None) -> Any:
    place = import_module(f"hyrecall.cli.{module}")
    found = getattr(place, attribute)
    if isinstance(found, typer.Typer):
        return typer.main.get_command(found)
    alone = typer.Typer(add_completion=False, rich_markup_mode=None)
    alone.command(name, cls=Command if cls is None else getattr(place, cls))(found)
    return typer.main.get_command(alone)
