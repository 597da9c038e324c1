"""Defines the app with all commands, and turns errors into a line on stderr and an exit code."""

from __future__ import annotations

import errno
import io
import os
import sys
import traceback
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import Annotated, Any, NoReturn

import typer

from hyrecall.base.version import __version__
from hyrecall.cli.declare import declared
from hyrecall.cli.help import Command, Group
from hyrecall.cli.show import one_line, say
from hyrecall.errors import (
    CORRUPT,
    INTERNAL,
    REFUSED,
    USAGE,
    HyrecallError,
    IndexNotFoundError,
    outcome_of,
)

# ---- The commands by name; the module of a command is imported when the command is asked for ----
# A short command would spend a third of its time on importing and describing all the others.

# Commands by their modules, of hyrecall.cli if it is no full name, in the order of the help.
_PLACES = {
    name: module
    for module, names in (
        ("index_command", "index sync"),
        ("batch_command", "batch"),
        ("info_command", "info"),
        ("shards_command", "shards"),
        ("demo", "demo"),
        ("evaluate_command", "tune learn"),
        ("verb_commands", "remember get list history update update-many supersede pin"),
        ("memory_commands", "forget"),
        ("verb_commands", "link unlink links remember-fact recall-facts list-facts end-fact"),
        ("verb_commands", "list-sessions list-users list-agents"),
        ("memory_commands", "policy feedback reembed"),
        ("transfer_command", "export"),
        ("memory_commands", "doctor compact"),
        ("replica_command", "push pull follow"),
        ("serve_command", "serve"),
        ("mcp_command", "mcp"),
        ("recall_command", "recall context"),
        ("evaluate_command", "evaluate"),
        ("transfer_command", "import"),
        ("memory_commands", "browse"),
        ("info_command", "config"),
        ("hyrecall.systems.hypergraph.command", "hm"),
        ("hyrecall.systems.l0.command", "ltm"),
        ("serve_command", "token"),
    )
    for name in names.split()
}


class Commands(Mapping[str, Any]):
    """The commands and groups of commands, each made when it is first read."""

    def __getitem__(self, name: str) -> Any:
        return _command(name, _PLACES[name])

    def __iter__(self) -> Iterator[str]:
        return iter(_PLACES)

    def __len__(self) -> int:
        return len(_PLACES)


@cache
def _command(name: str, module: str) -> Any:
    place = import_module(module if "." in module else f"hyrecall.cli.{module}")
    found = getattr(place, "import_" if name == "import" else name.replace("-", "_"))
    if isinstance(found, typer.Typer):
        return typer.main.get_command(found)
    alone = typer.Typer(add_completion=False, rich_markup_mode=None)
    alone.command(name, cls=Command)(declared(found))
    return typer.main.get_command(alone)


# ---- Defines the app with all commands, and turns errors into a line on stderr and an exit code

INTERRUPTED, TERMINATED = 130, 143

_EXIT_CODES = (
    (0, "Success, also if nothing was found."),
    (REFUSED, "A value, a file or data was refused; a measure of evaluate fell below its "
     "baseline; or doctor, import or reembed found a problem."),
    (USAGE, "The command line is wrong, or an extra is not installed."),
    (CORRUPT, "The index or store at the path, or what was pushed to the URL, cannot be read: it "
     "is incomplete, damaged, or of a newer format."),
    (INTERNAL, "An internal error of hyrecall: please report it."),
    (INTERRUPTED, "Interrupted."),
    (TERMINATED, "Ended by SIGTERM."),
)  # fmt: skip

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # errors that only writing causes


class _Commands(Group):
    """The group of all commands, which handles their errors."""

    notes = (("Exit codes", [(str(code), text) for code, text in _EXIT_CODES]),)

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.commands: Any = Commands()

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of all commands."""
        return list(self.commands)

    def main(self, *args: Any, **options: Any) -> Any:
        """Run the command line, then flush stdout.

        A failure to write help or buffered output ends like a command that cannot write.
        """
        fault: OSError | None
        try:
            return super().main(*args, **options)
        except SystemExit as end:
            fault = _write_out()
            if end.code or fault is None:
                raise
        except OSError as first:
            fault = first
        end_unwritten(fault)

    def invoke(self, ctx: Any) -> Any:
        _print_anything()
        try:
            return super().invoke(ctx)
        except (Exception, KeyboardInterrupt) as fault:
            code, message = _judge(fault)
            if ctx.params.get("debug"):
                traceback.print_exception(fault)
            say(message)
            raise typer.Exit(code) from None


def end_unwritten(fault: OSError) -> NoReturn:
    """End the process, whose output could not be written."""
    _write_out()
    if fault.errno != errno.EPIPE:  # a closed pipe is not reported
        say(_judge(fault)[1])
    raise SystemExit(REFUSED) from None


def _write_out() -> OSError | None:
    """Flush stdout; on failure, discard its buffer and return the error."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError as fault:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())  # Python flushes again at exit
        os.close(nowhere)
        return fault
    return None


def _print_anything() -> None:
    """Make stdout escape characters that its encoding lacks, which stored texts may hold."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def _judge(fault: BaseException) -> tuple[int, str]:
    """Return the exit code and the message of an error; raise typer's own errors again."""
    if isinstance(fault, KeyboardInterrupt):
        return INTERRUPTED, "interrupted"
    if isinstance(fault, HyrecallError):
        code = outcome_of(fault).code
        if isinstance(fault, IndexNotFoundError) and fault.argument.endswith("MANIFEST"):
            code = CORRUPT  # a folder is there, and holds no index
        return code, _report(fault) if code == INTERNAL else f"error: {one_line(fault)}"
    # typer handles its own errors (usage errors, Exit, Abort) and closed pipes.
    if hasattr(fault, "exit_code") or isinstance(fault, typer.Abort):
        raise fault
    if isinstance(fault, OSError):
        if fault.errno == errno.EPIPE:
            raise fault
        name = fault.filename or ("output" if fault.errno in _FULL else "file")
        return REFUSED, f"error: {name}: {fault.strerror or one_line(fault)}"
    if isinstance(fault, MemoryError):
        return REFUSED, f"error: memory: {one_line(fault) or 'not enough'}"
    return INTERNAL, _report(fault)


def _report(fault: BaseException) -> str:
    what = f"{type(fault).__name__}: {one_line(fault)}"
    needs = "the output of hyrecall --debug and hyrecall info --report"
    return f"error: internal: {what}; please report it with {needs}"


app = typer.Typer(
    name="hyrecall",
    cls=_Commands,
    help="Exact scoped hybrid recall: BM25 and cosine, fused, over tables of documents.\n\n"
    "Results go to stdout, everything else to stderr.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _version(asked: bool) -> None:
    if asked:
        print(__version__)
        raise typer.Exit


@app.callback()
def _settings(
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """Declare the options before the command's name; the group reads ``debug``."""
