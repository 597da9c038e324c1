"""The type of ``filter=``, for annotations; it takes ``pyarrow.compute`` to name it."""

from typing import TypeAlias

import pyarrow.compute as pc

from hyrecall.ask.filters import Filter

__all__ = ["FilterLike"]

FilterLike: TypeAlias = Filter | pc.Expression
"""The types of ``filter=``."""
