"""``hyrecall push``, ``pull`` and ``follow``: copies of a store or an index elsewhere."""

from __future__ import annotations

import json
import logging
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, TypeAlias

import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, TimeRemainingColumn, TransferSpeedColumn
from rich.progress import Progress as Bar

from hyrecall.base.arguments import home_path
from hyrecall.base.options import read_duration
from hyrecall.base.progress import ProgressFunction
from hyrecall.cli.memory_options import AsJson, store_path
from hyrecall.cli.settings import read_settings
from hyrecall.cli.show import print_json, say
from hyrecall.errors import OptionError, error
from hyrecall.replicas import Pulled, Pushed
from hyrecall.replicas import follow as follow_url
from hyrecall.replicas import promote as promote_folder
from hyrecall.replicas import prune as prune_url
from hyrecall.replicas import pull as pull_url
from hyrecall.replicas import push as push_folder

Url: TypeAlias = Annotated[
    str,
    typer.Argument(
        metavar="URL",
        help="The place: file:///folder or the path of a folder, or s3://bucket/prefix, gs:// or "
        "az:// (extra [s3]; keys and endpoint from the environment).",
    ),
]
FolderPath: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--path",
        metavar="DIR",
        show_default="HYRECALL_PATH, the setting path, or ~/.local/share/hyrecall/memory",
        help="Folder of a store, or of a saved index.",
    ),
]


def push(
    url: Url,
    path: FolderPath = None,
    overwrite: Annotated[
        bool,
        typer.Option("--overwrite", help="Publish on top of what another folder has published."),
    ] = False,
    prune: Annotated[
        bool, typer.Option("--prune", help="Then remove what the newest generations do not name.")
    ] = False,
    keep: Annotated[
        int | None,
        typer.Option(
            "--keep", metavar="N", show_default="2", help="With --prune: so many generations stay."
        ),
    ] = None,
    older_than: Annotated[
        str | None,
        typer.Option(
            "--older-than",
            metavar="TIME",
            show_default="1d",
            help="With --prune: younger files stay. 90s, 15m, 12h, 7d; 0s with --keep 1 leaves "
            "nothing of what was erased before.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Publish the present state of a store or a saved index; only what changed travels."""
    if not prune and not (keep is None and older_than is None):
        named = "--keep" if keep is not None else "--older-than"
        raise error(OptionError, named, "--prune with it", "none")
    place = _place(url)
    age = _duration(older_than)
    with _bar() as progress:
        done = push_folder(_folder(path), place, overwrite=overwrite, progress=progress)
    pruned = prune_url(place, keep=2 if keep is None else keep, older_than=age) if prune else None
    if as_json:
        print_json(asdict(done) | ({} if pruned is None else {"pruned": asdict(pruned)}))
        return
    print(_pushed(done))
    if pruned is not None:
        print(
            f"{pruned.n_kept:,} generation{'' if pruned.n_kept == 1 else 's'} kept, "
            f"{pruned.n_removed:,} files removed ({_size(pruned.bytes_removed)})"
        )


def pull(
    url: Url,
    path: FolderPath = None,
    discard_changes: Annotated[
        bool,
        typer.Option(
            "--discard-changes", help="Replace an index that was saved here since the last pull."
        ),
    ] = False,
    promote: Annotated[
        bool,
        typer.Option(
            "--promote",
            help="Then make the replica a store or index of its own, which can be written: it "
            "takes the place of a lost one.",
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Bring a replica to the newest published state, and say how old that is."""
    folder = _folder(path)
    with _bar() as progress:
        done = pull_url(_place(url), folder, discard_changes=discard_changes, progress=progress)
    if promote:
        promote_folder(folder)
    if as_json:
        print_json(asdict(done) | {"age": _age(done), "promoted": promote})
        return
    print(_pulled(done))
    if promote:
        print("no replica any more: it can be written")


def follow(
    url: Url,
    path: FolderPath = None,
    every: Annotated[
        float, typer.Option("--every", metavar="SECONDS", help="The pause between two looks.")
    ] = 10.0,
    as_json: Annotated[
        bool, typer.Option("--json", help="Write one JSON object a line for each generation.")
    ] = False,
) -> None:
    """Keep a replica at the newest published state, until Ctrl+C."""
    stop = threading.Event()

    def end(*_: object) -> None:
        stop.set()  # an interrupt that falls into a finalizer is dropped; this is not
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, end)
    with _notes(), _bar() as progress:
        try:
            followed = follow_url(
                _place(url), _folder(path), every=every, stop=stop, progress=progress
            )
            for done in followed:
                shown = asdict(done) | {"age": _age(done)}
                print(json.dumps(shown) if as_json else _pulled(done), flush=True)
        except KeyboardInterrupt:
            return
        finally:
            signal.signal(signal.SIGINT, before)


def _folder(path: Path | None) -> Path:
    return store_path(path, read_settings() if path is None else {})


def _duration(value: str | None) -> timedelta:
    """Read ``--older-than``; unlike other durations it may be 0."""
    if value is None:
        return timedelta(days=1)
    if value in ("0", "0s"):
        return timedelta(0)
    try:
        return timedelta(seconds=read_duration("--older-than", value))
    except OverflowError:
        wish = f"at most {timedelta.max.days} days"
        raise error(OptionError, "--older-than", wish, repr(value)) from None


def _place(url: str) -> str:
    """Return a URL; a path of a folder becomes one."""
    return url if "://" in url else Path(home_path("URL", url)).absolute().as_uri()


def _pushed(done: Pushed) -> str:
    if not done.is_new:
        return f"generation {done.generation:,} holds this state already"
    told = f"generation {done.generation:,} published"
    return f"{told}: {_travelled(done.n_bytes, done.n_sent, done.bytes_sent)}"


def _pulled(done: Pulled) -> str:
    at = f"{datetime.fromisoformat(done.pushed_at):%Y-%m-%d %H:%M:%S} UTC"
    told = f"generation {done.generation:,}, pushed at {at}, {_age(done):,.1f} s ago"
    if not done.is_new:
        return f"{told}: nothing new"
    return f"{told}\n{_travelled(done.n_bytes, done.n_fetched, done.bytes_fetched)}"


def _travelled(n_bytes: int, n: int, moved: int) -> str:
    chunks = f"{n:,} chunk{'' if n == 1 else 's'}"
    return f"{_size(n_bytes)}, of which {_size(moved)} in {chunks} travelled"


def _size(n_bytes: int) -> str:
    return f"{n_bytes / 2**20:,.1f} MiB"


def _age(done: Pulled) -> float:
    return (datetime.now(UTC) - datetime.fromisoformat(done.pushed_at)).total_seconds()


@contextmanager
def _bar() -> Iterator[ProgressFunction | None]:
    """Show bytes, rate and the time that is left if stderr is a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    shown = Bar(
        BarColumn(), DownloadColumn(binary_units=True), TransferSpeedColumn(),
        TimeRemainingColumn(), console=Console(file=sys.stderr), transient=True,
    )  # fmt: skip
    with shown:
        task = shown.add_task("", total=None)
        yield lambda done, total: shown.update(task, completed=done, total=total)


class _ReplicaLogNotes(logging.Handler):
    """Shows why a check for a newer version failed, as a note on stderr."""

    def emit(self, record: logging.LogRecord) -> None:
        say(f"note: {record.getMessage()}")


@contextmanager
def _notes() -> Iterator[None]:
    log, notes = logging.getLogger("hyrecall.replicas"), _ReplicaLogNotes(logging.WARNING)
    log.addHandler(notes)
    try:
        yield
    finally:
        log.removeHandler(notes)
