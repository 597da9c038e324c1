"""Keeps a replica at the newest generation of a place."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterator

from hyrecall.base.arguments import check_keywords, number
from hyrecall.base.progress import ProgressFunction
from hyrecall.errors import CorruptRemoteError, DTypeError, RemoteError, error
from hyrecall.replicas.pulling import Pulled, pull
from hyrecall.replicas.remote import Place

_log = logging.getLogger("hyrecall.replicas")
_log.addHandler(logging.NullHandler())


@check_keywords
def follow(
    url: Place,
    path: str | os.PathLike[str],
    *,
    every: float = 10.0,
    stop: threading.Event | None = None,
    progress: ProgressFunction | None = None,
) -> Iterator[Pulled]:
    """Pull repeatedly; yield each new generation when the folder holds it.

    Parameters
    ----------
    url, path, progress
        As in :func:`pull`.
    every : float, default 10
        Seconds between two pulls, in [0, 86400]. A pull without a new generation is one request.
    stop : threading.Event, optional
        Ends the iteration when it is set, even while it waits. Leaving the loop ends it too.

    Yields
    ------
    Pulled

    Raises
    ------
    OptionError, DTypeError, CorruptRemoteError, WriterBusyError, StoreError, OSError
    MissingExtraError
        As :func:`pull`. If the place cannot be reached, or is still empty, the next pull tries
        again, and a message is logged.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from hyrecall.memory import MemorySync
    >>> from hyrecall.recipes import loom
    >>> from hyrecall.replicas import follow, push
    >>> folder = Path(tempfile.mkdtemp())
    >>> url = (folder / "remote").as_uri()
    >>> with MemorySync.open(folder / "store", recipe=loom, embedder=None) as memory:
    ...     pushed = push(folder / "store", url)
    ...     for pulled in follow(url, folder / "copy", every=0):
    ...         print(pulled.generation)
    ...         if pulled.generation == 2:
    ...             break
    ...         kept = memory.remember("hot tea", user_id="ann")
    ...         pushed = push(folder / "store", url)
    1
    2
    """
    seconds = number("every", every, 0.0, 86_400.0, "seconds in [0, 86400]")
    if stop is not None and not isinstance(stop, threading.Event):
        raise error(DTypeError, "stop", "a threading.Event", type(stop).__name__)
    stopped = stop or threading.Event()

    def pulls() -> Iterator[Pulled]:
        while not stopped.is_set():
            try:
                done = pull(url, path, progress=progress)
            except CorruptRemoteError:
                raise
            except RemoteError as fault:
                _log.warning("tried again in %g s: %s", seconds, fault)
            else:
                if done.is_new:
                    yield done
            stopped.wait(seconds)

    return pulls()
