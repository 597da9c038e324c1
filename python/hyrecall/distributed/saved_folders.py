"""Finds the saved indexes that paths name: an index, shards of one, or a folder of shards."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from hyrecall.base.arguments import as_items, read_path
from hyrecall.distributed.placed import PlacedShards
from hyrecall.distributed.shards_file import SHARDS, WORK, Shards
from hyrecall.errors import IndexNotFoundError, OptionError, error
from hyrecall.segments.manifest import MANIFEST, read_seal
from hyrecall.segments.parts import UNFINISHED

__all__ = ["SavedFolders", "find_folders", "read_folders"]


class SavedFolders(NamedTuple):
    """Saved indexes."""

    folders: list[Path]
    placed: PlacedShards | None
    is_index: bool

    @property
    def seals(self) -> tuple[str, ...]:
        """The seal of each saved version, as its folder holds it now."""
        return tuple(read_seal(one / MANIFEST) for one in self.folders)


def read_folders(argument: str, value: object) -> tuple[Path, ...]:
    """Return the paths of an argument, which is a path or a sequence of paths."""
    if isinstance(value, str | Path):
        return (read_path(value),)
    named = as_items(value)
    if not named:
        wish = "a sequence of at least one path, or a path"
        raise error(OptionError, argument, wish, repr(value))
    return tuple(read_path(one) for one in named)


def find_folders(paths: Sequence[Path]) -> SavedFolders:
    """Return the saved indexes of paths."""
    # Several paths are the folders of the shards of one index. A single path is a saved index, a
    # folder with ``shards.json``, or a folder whose sub-folders are the shards, sorted by name.
    folder = paths[0]
    if len(paths) > 1:
        _check_whole(paths)
    if len(paths) > 1 or (folder / MANIFEST).exists():
        return SavedFolders(list(paths), None, len(paths) == 1)
    if (folder / SHARDS).exists() or (folder / WORK).exists():  # even if the build is unfinished
        placed = PlacedShards.read(folder)
        return SavedFolders(placed.folders, placed, is_index=False)
    wish = f"the folder of a saved index, one with such folders, or one with {SHARDS}"
    begun = set(folder.glob(f"*{UNFINISHED}"))
    found = sorted({one.parent for one in folder.glob(f"*/{MANIFEST}")} - begun)
    left = {one.with_suffix("") for one in begun}.difference(found)
    if left:  # the finished shards are not all shards of the index
        raise error(IndexNotFoundError, "path", wish, f"an unfinished build of {min(left)}")
    if not found:
        raise error(IndexNotFoundError, "path", wish, f"none in {folder}")
    return SavedFolders(found, None, is_index=False)


def _check_whole(paths: Sequence[Path]) -> None:
    """Refuse some shards of a folder without the others: replies would lack their rows."""
    absolute = {path.absolute() for path in paths}
    for parent in sorted({path.parent for path in absolute}):
        if not (parent / SHARDS).is_file():
            continue
        shards = {parent / entry.folder for entry in Shards.read(parent).shards}
        n = len(shards & absolute)
        if 0 < n < len(shards):
            wish, remedy = f"all {len(shards)} shards of {parent}", "open the folder of the shards"
            raise error(OptionError, "paths", wish, f"{n} of them", remedy)
