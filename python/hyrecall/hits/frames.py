"""Arrow tables as data frames of other libraries, which are imported when they are asked for."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from hyrecall.errors import MissingExtraError, error

__all__ = ["pandas_of", "polars_of"]


def pandas_of(table: pa.Table) -> Any:
    """Return an Arrow table as a pandas DataFrame."""
    try:
        import pandas  # noqa: F401 - Arrow imports it too, and says less where it is missing
    except ImportError:
        raise _missing("to_pandas", "pandas") from None
    return table.to_pandas()


def polars_of(table: pa.Table) -> Any:
    """Return an Arrow table as a polars DataFrame."""
    try:
        import polars
    except ImportError:
        raise _missing("to_polars", "polars") from None
    return polars.from_arrow(table)


def _missing(call: str, name: str) -> MissingExtraError:
    wish = f"{name} (pip install {name})"
    return error(MissingExtraError, call, wish, f"no package {name}")
