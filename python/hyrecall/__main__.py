"""``python -m hyrecall`` is the ``hyrecall`` command."""

from hyrecall.cli import main

if __name__ == "__main__":
    main()
