"""Formats the help of every command: usage, text, arguments and options under headings.

Each argument shows whether it is required, and each option shows its default, if it has one.
"""

from __future__ import annotations

from collections.abc import Sequence
from inspect import cleandoc
from pathlib import Path
from typing import Any

from typer.core import TyperCommand, TyperGroup

from hyrecall.base.arguments import home_path
from hyrecall.base.text_tables import TextLine, wrap
from hyrecall.cli.show import screen_width

_WIDEST = 120  # columns: longer lines are hard to read
_NAMES = 30  # columns: the text of a longer name begins on the next line


class Command(TyperCommand):
    """A command with help in this format."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command; ``~`` is the home folder in every path, which shells may leave alone."""
        for one in self.params:
            if (value := ctx.params.get(one.name)) is None:
                continue
            if isinstance(value, list | tuple):
                ctx.params[one.name] = type(value)(_at_home(one, each) for each in value)
            else:
                ctx.params[one.name] = _at_home(one, value)
        return super().invoke(ctx)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the words after the command's name."""
        return _usage(self)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help."""
        formatter.write(_help(self, ctx, []))


def _at_home(parameter: Any, value: Any) -> Any:
    kind = getattr(getattr(parameter, "type", None), "name", "")  # until Typer 0.28 it was a str
    if not isinstance(value, Path) and not (isinstance(value, str) and kind == "path"):
        return value
    return type(value)(home_path(parameter.opts[0], str(value)))


class Group(TyperGroup):
    """A group of commands with help in this format."""

    notes: Sequence[tuple[str, Sequence[tuple[str, str]]]] = ()
    """Sections at the end: each a heading, and names with their texts."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the words after the group's name."""
        return [*_usage(self), "COMMAND", "..."]

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help."""
        commands = [(name, _first(self.get_command(ctx, name))) for name in self.list_commands(ctx)]
        formatter.write(_help(self, ctx, [("Commands", commands), *self.notes]))


def _usage(command: Any) -> list[str]:
    pieces = ["[OPTIONS]"]
    for one in _arguments(command):
        name = _name(one) + ("..." if one.nargs != 1 else "")
        pieces.append(name if one.required else f"[{name}]")
    return pieces


def _help(command: Any, ctx: Any, more: Sequence[tuple[str, Sequence[tuple[str, str]]]]) -> str:
    width = min(screen_width(), _WIDEST)
    usage = " ".join(["Usage:", ctx.command_path, *command.collect_usage_pieces(ctx)])
    lines = [one.text for one in wrap(TextLine(usage), width, hang=2)]
    for paragraph in cleandoc(command.help or "").split("\n\n"):
        text = TextLine(" ".join(paragraph.split()))
        lines += ["", *(f"  {one.text}" for one in wrap(text, width - 2))]
    sections: dict[str, list[tuple[str, str]]] = {}
    for one in _arguments(command):
        sections.setdefault("Arguments", []).append((_name(one), _text(one)))
    for one in _options(command, ctx):
        sections.setdefault(_heading(one), []).append((_option(one), _text(one)))
    for heading, rows in [*sections.items(), *more]:
        lines += ["", f"{heading}:", *_rows(rows, width)]
    return "\n".join(lines) + "\n"


def _rows(rows: Sequence[tuple[str, str]], width: int) -> list[str]:
    names = min(max((len(name) for name, _ in rows), default=0), _NAMES)
    indent = names + 4
    lines = []
    for name, text in rows:
        shown = [one.text for one in wrap(TextLine(text), width - indent)] or [""]
        if len(name) <= names:
            lines.append(f"  {name:<{names}}  {shown.pop(0)}".rstrip())
        else:
            lines.append(f"  {name}")
        lines += [" " * indent + one for one in shown]
    return lines


def _arguments(command: Any) -> list[Any]:
    return [one for one in command.params if one.param_type_name == "argument" and not one.hidden]


def _options(command: Any, ctx: Any) -> list[Any]:
    given = command.get_params(ctx)  # with --help
    shown = [one for one in given if one.param_type_name == "option" and not one.hidden]
    return sorted(shown, key=lambda one: _heading(one) != "Options")


def _heading(option: Any) -> str:
    return str(getattr(option, "rich_help_panel", None) or "Options")


def _name(argument: Any) -> str:
    return str(argument.metavar or argument.name.upper())


def _option(option: Any) -> str:
    opts = [*option.opts, *option.secondary_opts]
    names = ", ".join(sorted(opts, key=lambda name: name.startswith("--")))
    if option.is_flag or option.count:
        return names
    return f"{names} {option.metavar or option.name.upper()}"


def _text(parameter: Any) -> str:
    """Return a parameter's help text with its default, or whether it is required."""
    told, shown, default = parameter.help or "", parameter.show_default, parameter.default
    if told.endswith("]"):  # the text already has the note
        return str(told)
    if parameter.required:
        note = "required"
    elif isinstance(shown, str):
        note = f"default: {shown}"
    elif default is not None and default is not False and default != () and shown is not False:
        note = f"default: {default}"
    else:
        note = "optional" if parameter.param_type_name == "argument" else ""
    return f"{told} [{note}]".strip() if note else str(told)


def _first(command: Any) -> str:
    """Return the first sentence of a command's help."""
    text = " ".join(cleandoc(command.help or "").split("\n\n")[0].split())
    return text.partition("; ")[0].partition(". ")[0].rstrip(".") + "."
