"""Defines the options that commands on a store share, and opens the store that they name."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from platformdirs import user_data_path

from hyrecall.base.arguments import home_path
from hyrecall.base.progress import ProgressFunction
from hyrecall.cli.options import read_filter
from hyrecall.cli.settings import opening_options, read_settings
from hyrecall.cli.show import say
from hyrecall.errors import OptionError, StoreMismatchError, StoreNotFoundError, error

if TYPE_CHECKING:
    from hyrecall.ask.filters import Filter
    from hyrecall.memory import Degradation, MemorySync


SECONDS_FOR_A_WRITER = 5.0
_SECONDS_TO_WARM = 60.0


def store_path(given: Path | None, settings: dict[str, Any]) -> Path:
    """Return the folder of the store."""
    named = os.environ.get("HYRECALL_PATH") or settings.get("path")
    found = given or (Path(home_path("HYRECALL_PATH", named)) if named else None)
    if str(found) == ":memory:":
        got = "':memory:', a store that would end with the command"
        raise error(OptionError, "--path", "a folder", got)
    if found is not None:
        return found
    try:
        return Path(user_data_path("hyrecall"), "memory")
    except RuntimeError:
        wish = "a folder, since this user has no home folder (HOME)"
        raise error(OptionError, "--path", wish, "none") from None


@contextmanager
def opened(
    path: Path | None,
    *,
    read_only: bool = False,
    makes: bool = False,
    recipe: str | None = None,
    accept_loss: bool = False,
    settings: dict[str, Any] | None = None,
    warm: bool = False,
) -> Iterator[MemorySync]:
    """Open the named store; a writer waits up to 5 seconds for another writer to finish.

    A missing store is an error, also for a writer, unless the command ``makes`` one.

    Settings that are not given are read here and become arguments; the library does not read them.
    The analyzer of the settings is for recipes that do not require another.
    """
    from hyrecall.memory import MemorySync

    settings = read_settings() if settings is None else settings
    folder = store_path(path, settings)
    if not makes and not (folder.is_dir() and any(folder.iterdir())):
        wish = "a folder with memory.db (hyrecall remember makes one)"
        raise error(StoreNotFoundError, str(folder), wish, "none")
    options = opening_options(recipe, settings)
    with ExitStack() as held:
        if (close := getattr(options["embedder"], "close", None)) is not None:
            held.callback(close)  # the store leaves that to its caller
        held.enter_context(_warnings_as_notes())
        held.enter_context(logs_as_notes("hyrecall.memory"))
        memory = MemorySync.open(
            folder,
            read_only=read_only,
            wait=0.0 if read_only else SECONDS_FOR_A_WRITER,
            accept_loss=accept_loss,
            warm=warm,  # now_ready() does it for commands that end after one answer
            **options,
        )
        yield held.enter_context(memory)


@contextmanager
def _warnings_as_notes() -> Iterator[None]:
    """Show warnings of the store as notes on stderr."""
    from hyrecall.memory import IsolationWarning

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        say(f"note: {message}")

    with warnings.catch_warnings():
        warnings.simplefilter("always", IsolationWarning)
        warnings.showwarning = show
        yield


class _LogNotes(logging.Handler):
    """Shows log records as notes on stderr, except reasons that come with the answer."""

    def emit(self, record: logging.LogRecord) -> None:
        given = record.args if isinstance(record.args, tuple) else ()
        if not any(type(one).__name__ == "Degradation" for one in given):  # shown by tell_reasons
            say(f"note: {record.getMessage()}")


@contextmanager
def logs_as_notes(name: str) -> Iterator[None]:
    """Show a log as notes on stderr, such as a damaged index, or an unknown policy."""
    log, notes = logging.getLogger(name), _LogNotes(logging.WARNING)
    log.addHandler(notes)
    try:
        yield
    finally:
        log.removeHandler(notes)


def given_text(text: str) -> str:
    """Return the text that a memory is given; ``-`` reads it from stdin."""
    found = sys.stdin.read().rstrip("\n") if text == "-" else text
    if not found.strip():
        raise error(OptionError, "text", "a non-empty string", repr(found))
    return found


def now_ready(memory: MemorySync) -> MemorySync:
    """Wait for embedder and index, because a command's only answer should not be degraded.

    A store whose owner has another index can be written all the same; a search reports it.
    """
    from hyrecall.memory.derived.layout import IndexNotReadyError
    from hyrecall.memory.keeping import Owner

    with contextlib.suppress(IndexNotReadyError, StoreMismatchError):  # the answer reports it
        memory.wait_until_ready(_SECONDS_TO_WARM)
        memory._store.keeper.run(Owner.catch_up)  # a large index may take longer
    return memory


def tell_reasons(reasons: Sequence[Degradation]) -> None:
    """Show the reasons why an answer is degraded."""
    for reason in reasons:
        say(f"note: degraded: {reason}")


def read_store_filter(values: Sequence[str] | None) -> Filter | None:
    """Read ``--filter`` of a store, over columns of memories and keys of the metadata."""
    from hyrecall.memory.derived.layout import FILTERED

    return read_filter(values, {name: column.type for name, column in FILTERED.items()})


@contextmanager
def bar(*, of_bytes: bool = False) -> Iterator[ProgressFunction | None]:
    """Show a progress bar, of bytes with their rate, if stderr is a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich import progress
    from rich.console import Console

    counts: list[Any] = [progress.MofNCompleteColumn()]
    if of_bytes:
        counts = [progress.DownloadColumn(binary_units=True), progress.TransferSpeedColumn()]
    columns = [progress.BarColumn(), *counts, progress.TimeRemainingColumn()]
    with progress.Progress(*columns, console=Console(file=sys.stderr), transient=True) as shown:
        task = shown.add_task("", total=None)
        yield lambda done, total: shown.update(task, completed=done, total=total)
