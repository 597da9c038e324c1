"""``python -m hyrecall.cli`` is the ``hyrecall`` command."""

from hyrecall.cli import main

main()
