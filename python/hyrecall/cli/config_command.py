"""``hyrecall config``: shows and changes the user's settings, which commands use."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import typer

from hyrecall.cli.help import Command, Group
from hyrecall.cli.memory_options import AsJson
from hyrecall.cli.settings import KEYS, read_settings, remove_setting, set_setting, settings_path
from hyrecall.cli.show import print_json, say
from hyrecall.errors import OptionError, error

__all__ = ["config"]

config = typer.Typer(
    name="config",
    cls=Group,
    help=f"Settings, kept in one JSON file: {', '.join(KEYS)}.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)

Key: TypeAlias = Annotated[
    str, typer.Argument(metavar="KEY", help=f"The setting: {', '.join(KEYS)}.")
]


@config.command("set", cls=Command)
def set_(
    key: Key,
    value: Annotated[str, typer.Argument(metavar="VALUE", help="Its new value.")],
    as_json: AsJson = False,
) -> None:
    """Set a setting; an invalid value is refused."""
    _show(key, set_setting(key, value), as_json)


@config.command(cls=Command)
def get(key: Key, as_json: AsJson = False) -> None:
    """Show a setting; empty if it is not set."""
    if key not in KEYS:
        raise error(OptionError, "key", f"one of {', '.join(KEYS)}", repr(key))
    value = read_settings().get(key)
    _show(key, value, as_json)
    if value is None and not as_json:
        say("note: not set")


@config.command(cls=Command)
def unset(key: Key, as_json: AsJson = False) -> None:
    """Remove a setting."""
    remove_setting(key)
    _show(key, None, as_json)


@config.command("list", cls=Command)
def list_(as_json: AsJson = False) -> None:
    """Show all settings that are set."""
    found = read_settings()
    if as_json:
        print_json(found)
        return
    for key, value in found.items():
        print(f"{key} = {value}")
    if not found:
        say("note: nothing is set")


@config.command(cls=Command)
def path(as_json: AsJson = False) -> None:
    """Show the path of the settings file, whether or not it exists."""
    if as_json:
        print_json({"path": str(settings_path())})
    else:
        print(settings_path())


def _show(key: str, value: object, as_json: bool) -> None:
    if as_json:
        print_json({"key": key, "value": value})
    elif value is not None:
        print(value)
