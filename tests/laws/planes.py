"""Planes that HYRECALL_FRONT_PLANE forces, and whether an index holds them.

With the variable set, every subject of the laws looks after each change: so a run of the laws with
a plane forced cannot pass by reading another one.
"""

import os

import hyrecall as hr
from engine.head_definition import REST, is_narrow
from hyrecall import _core

VARIABLE = "HYRECALL_FRONT_PLANE"
PLANES = ("head8", "head4", "int8", "rows")  # read by every scan; "rows": by none


def held_plane(column: _core.DenseColumn) -> str:
    """Return the smallest plane of a column, by the name that the variable takes."""
    if column.head is None:
        return "rows" if column.int8_plane is None else "int8"
    directions, plane = column.head
    return "head4" if is_narrow(plane, len(directions) // column.dim + REST) else "head8"


def windows_read(index: hr.Index) -> int:
    """Return how many windows of rows scans have read through a plane so far."""
    return sum(
        use["windows"] for segment in index.stats()["segments"] for use in segment["plane"].values()
    )


def check_forced(index: hr.Index) -> None:
    """Raise unless every column holds the plane that the variable names, however few its rows."""
    forced = os.environ.get(VARIABLE)
    if forced is None or index.device != "cpu":
        return
    if forced == "rows":
        assert not windows_read(index), "a scan read a plane"
        return
    for segment in index._state.segments:
        for arm, column in segment.dense.items():
            if len(column.inverse_norms) > 0:  # of many vectors a row there are no heads
                wanted = forced if column.begins is None else "int8"
                assert held_plane(column) == wanted, arm
