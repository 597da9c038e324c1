"""The ``hyrecall`` command; it needs the extra ``[cli]``."""

from __future__ import annotations

import sys
from importlib.util import find_spec

from hyrecall.base import starting
from hyrecall.cli.quick import OPTIONS, answered

__all__ = ["main"]


def main() -> None:
    """Run the command line; without the extra [cli], print the install command and exit with 2."""
    missing = [name for name in ("typer", "rich", "platformdirs") if find_spec(name) is None]
    if missing:
        print(
            f"error: hyrecall: expected the extra [cli] (pip install 'hyrecall[cli]'), "
            f"got no package {' nor '.join(missing)}",
            file=sys.stderr,
        )
        raise SystemExit(2)
    starting.is_brief = OPTIONS.keys() >= set(sys.argv[1:2])
    try:
        try:
            if answered(sys.argv[1:]):
                return
        except OSError as fault:
            from hyrecall.cli.app import end_unwritten

            end_unwritten(fault)
        from hyrecall.cli.app import app

        app(prog_name="hyrecall")
    except KeyboardInterrupt:  # before a command runs; the app handles it in the same way
        print("interrupted", file=sys.stderr)
        raise SystemExit(130) from None
