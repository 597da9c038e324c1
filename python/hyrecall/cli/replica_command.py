"""``hyrecall push``, ``pull`` and ``follow``: copies of a store or an index elsewhere."""

from __future__ import annotations

import json
import signal
import threading
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path

from hyrecall.base.arguments import home_path
from hyrecall.base.options import read_duration
from hyrecall.cli.memory_options import bar, logs_as_notes, store_path
from hyrecall.cli.settings import read_settings
from hyrecall.cli.show import show
from hyrecall.errors import OptionError, error
from hyrecall.replicas import Pulled, Pushed
from hyrecall.replicas import follow as follow_url
from hyrecall.replicas import promote as promote_folder
from hyrecall.replicas import prune as prune_url
from hyrecall.replicas import pull as pull_url
from hyrecall.replicas import push as push_folder

SHARED = """
url URL: The place: file:///folder or the path of a folder, or s3://bucket/prefix, gs:// or az://
    (extra [s3]; keys and endpoint from the environment).
path DIR: Folder of a store, or of a saved index. [default: HYRECALL_PATH, the setting path, or
    ~/.local/share/hyrecall/memory]
"""


def push(
    url: str,
    *,
    path: Path | None = None,
    overwrite: bool = False,
    prune: bool = False,
    keep: int | None = None,
    older_than: str | None = None,
    as_json: bool = False,
) -> None:
    """Publish the present state of a store or a saved index; only what changed travels.

    Options
    overwrite: Publish on top of what another folder has published.
    prune: Then remove what the newest generations do not name.
    keep N: With --prune: so many generations stay. [default: 2]
    older_than TIME: With --prune: younger files stay. 90s, 15m, 12h, 7d; 0s with --keep 1 leaves
        nothing of what was erased before. [default: 1d]
    """
    if not prune and not (keep is None and older_than is None):
        named = "--keep" if keep is not None else "--older-than"
        raise error(OptionError, named, "--prune with it", "none")
    place = _place(url)
    age = _duration(older_than)
    with bar(of_bytes=True) as progress:
        done = push_folder(_folder(path), place, overwrite=overwrite, progress=progress)
    pruned = prune_url(place, keep=2 if keep is None else keep, older_than=age) if prune else None
    data, told = asdict(done), _pushed(done)
    if pruned is not None:
        data["pruned"] = asdict(pruned)
        told += f"\n{pruned.n_kept:,} generation{'' if pruned.n_kept == 1 else 's'} kept, "
        told += f"{pruned.n_removed:,} files removed ({_size(pruned.bytes_removed)})"
    show(as_json, data, told)


def pull(
    url: str,
    *,
    path: Path | None = None,
    discard_changes: bool = False,
    promote: bool = False,
    as_json: bool = False,
) -> None:
    """Bring a replica to the newest published state, and say how old that is.

    Options
    discard_changes: Replace an index that was saved here since the last pull.
    promote: Then make the replica a store or index of its own, which can be written: it takes the
        place of a lost one.
    """
    folder = _folder(path)
    with bar(of_bytes=True) as progress:
        done = pull_url(_place(url), folder, discard_changes=discard_changes, progress=progress)
    if promote:
        promote_folder(folder)
    told = _pulled(done) + ("\nno replica any more: it can be written" if promote else "")
    show(as_json, asdict(done) | {"age": _age(done), "promoted": promote}, told)


def follow(
    url: str, *, path: Path | None = None, every: float = 10.0, as_json: bool = False
) -> None:
    """Keep a replica at the newest published state, until Ctrl+C.

    Options
    every SECONDS: The pause between two looks.
    as_json --json: Write one JSON object a line for each generation.
    """
    stop = threading.Event()

    def end(*_: object) -> None:
        stop.set()  # an interrupt that falls into a finalizer is dropped; this is not
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, end)
    with logs_as_notes("hyrecall.replicas"), bar(of_bytes=True) as progress:
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
