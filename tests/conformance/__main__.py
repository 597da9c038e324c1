"""Runs the suite and prints every scenario by face; further arguments go to pytest."""

import sys
from pathlib import Path

import pytest

FOLDER = str(Path(__file__).parent)

if __name__ == "__main__":
    sys.exit(pytest.main(["-q", "--matrix", "-p", "no:cacheprovider", FOLDER, *sys.argv[1:]]))
