"""A file that a user named is replaced whole, and nothing else in its folder is touched."""

import os
import stat
from pathlib import Path

import pytest

from hyrecall.errors import OptionError
from seams import check_outside, open_replacement


def names(folder: Path) -> list[str]:
    return sorted(one.name for one in folder.iterdir())


def test_a_file_is_replaced_when_the_new_one_is_whole(tmp_path: Path) -> None:
    path = tmp_path / ("n" * 255)  # the longest name there is
    path.write_text("old")
    with open_replacement("file", path, mode=0o600) as out:
        out.write(b"new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert names(tmp_path) == [path.name]


def test_a_write_that_fails_leaves_every_file_as_it_was(tmp_path: Path) -> None:
    for name in ("a", "a.tmp", "a.partial"):
        (tmp_path / name).write_text(f"old {name}")

    def interrupted() -> None:
        with open_replacement("file", tmp_path / "a") as out:
            out.write(b"new")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert {one.name: one.read_text() for one in tmp_path.iterdir()} == {
        name: f"old {name}" for name in ("a", "a.tmp", "a.partial")
    }


def test_a_folder_and_a_loop_of_links_are_refused(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    for path in (tmp_path, tmp_path / "loop"):
        with (
            pytest.raises(OptionError, match="file: expected a file, got"),
            open_replacement("file", path) as out,
        ):
            out.write(b"new")
    assert names(tmp_path) == ["loop"]


@pytest.mark.parametrize("name", ["inside", "new", "through a link", "to a file", "hard link"])
def test_every_name_of_a_folders_file_is_inside_it(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "own"
    (folder / "deep").mkdir(parents=True)
    (folder / "deep" / "file").write_text("own")
    (tmp_path / "through").symlink_to("own")
    (tmp_path / "link").symlink_to("own/deep/file")
    os.link(folder / "deep" / "file", tmp_path / "hard")
    path = {
        "inside": folder / "deep" / "file",
        "new": folder / "deep" / ".." / "other",
        "through a link": tmp_path / "through" / "deep" / "other",
        "to a file": tmp_path / "link",
        "hard link": tmp_path / "hard",
    }[name]
    with pytest.raises(OptionError, match="file: expected a file outside"):
        check_outside("file", path, folder)
    check_outside("file", tmp_path / "other" / "file", folder)
