"""What open and save refuse, and in which words."""

import json
import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import xxhash

import hyrecall as hr
from engine import forge
from engine.saved_index import ask, build, everyone, grown, question, schema, table
from seams import TokenFunction, disk
from seams import segments_FORMAT as FORMAT
from seams import segments_opening_module as files


def rewrite(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the MANIFEST and seal it again, as only a program could."""
    data = forge.read_manifest(folder)
    change(data)
    forge.seal(folder, json.dumps(data).encode() + b"\n")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    grown().save(tmp_path / "index")
    return tmp_path / "index"


# Folders


def test_nothing_at_the_path_is_both_a_missing_file_and_our_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"nothing at .*absent"):
        hr.Index.open(tmp_path / "absent")
    with pytest.raises(hr.CorruptIndexError):
        hr.Index.open(tmp_path / "absent")
    assert not (tmp_path / "absent").exists()


def test_a_folder_without_a_manifest_is_no_index(tmp_path: Path) -> None:
    with pytest.raises(hr.CorruptIndexError, match=r"MANIFEST: expected .*, got no such file"):
        hr.Index.open(tmp_path)


def test_a_reader_beside_the_first_save_sees_no_index_or_all_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[str] = []

    def look(call: Callable[..., Any]) -> Callable[..., Any]:
        def looked(*args: Any, **options: Any) -> Any:
            try:
                hr.Index.open(tmp_path / "index").close()
            except FileNotFoundError:
                found.append("none")
            else:
                found.append("whole")
            return call(*args, **options)

        return looked

    for name in ("write_file", "sync_folder", "commit", "prepare"):
        monkeypatch.setattr(disk, name, look(getattr(disk, name)))
    index = build()
    index.save(tmp_path / "index")
    assert found.count("none") > 5
    assert found[-1] == "whole"  # the sync after the rename
    assert found == sorted(found)


@pytest.mark.parametrize("role", ["MANIFEST", "rows", "terms"])
def test_a_pipe_in_the_place_of_a_file_is_refused_and_not_waited_for(
    folder: Path, role: str
) -> None:
    for path in [one for one in folder.iterdir() if role in one.name]:
        path.unlink()
        os.mkfifo(path)
    with pytest.raises(hr.CorruptIndexError, match="expected a file, got a pipe"):
        hr.Index.open(folder)
    if role == "MANIFEST":
        with pytest.raises(hr.CorruptIndexError, match="expected a file, got a pipe"):
            build().save(folder)


@pytest.mark.parametrize("role", ["MANIFEST", "rows", "terms"])
def test_a_socket_or_a_circular_link_in_the_place_of_a_file_is_refused(
    folder: Path, role: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = next(one for one in folder.iterdir() if role in one.name)
    path.unlink()
    path.symlink_to(path)
    with pytest.raises(hr.CorruptIndexError, match="expected a file, got a link that leads back"):
        hr.Index.open(folder)
    path.unlink()
    monkeypatch.chdir(folder)  # the name of a socket is short
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(path.name)
        with pytest.raises(hr.CorruptIndexError, match="expected a file, got a pipe, a socket"):
            hr.Index.open(folder)


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("text")
    with pytest.raises(hr.CorruptIndexError, match="MANIFEST"):
        hr.Index.open(file)
    with pytest.raises(hr.OptionError, match="path: expected a folder, got the file"):
        build().save(file)


# Formats


@pytest.mark.parametrize("number", [FORMAT - 1, FORMAT + 1])
def test_another_format_is_refused_by_name_and_left_alone(folder: Path, number: int) -> None:
    def other(data: dict[str, Any]) -> None:
        data.clear()  # nothing else need look as it does today
        data |= {"format": number, "generator": "hyrecall 9.9"}

    rewrite(folder, other)
    kept = (folder / "MANIFEST").read_bytes()
    found = rf"format {FORMAT}, .*, got format {number} \(written by hyrecall 9.9\)"
    with pytest.raises(hr.CorruptIndexError, match=rf"MANIFEST: expected {found}"):
        hr.Index.open(folder)
    with pytest.raises(hr.CorruptIndexError, match=found):
        build().save(folder)
    assert (folder / "MANIFEST").read_bytes() == kept


@pytest.mark.parametrize("role", ["rows", "vectors-0", "documents-1", "terms-0", "dead"])
def test_parts_that_do_not_fit_together_are_refused(tmp_path: Path, role: str) -> None:
    """Checksums hold, but the part is another index's."""
    grown().save(tmp_path / "a")
    other = build(37, vector={"v": hr.Vector("v", dtype="float16")})
    other.delete([1], scope=everyone(other))
    other.save(tmp_path / "b")
    (segment,) = forge.read_manifest(tmp_path / "b")["segments"]
    file = segment["files"]["rows" if role == "terms-0" else role]
    (tmp_path / "b" / file["name"]).rename(tmp_path / "a" / file["name"])
    rewrite(tmp_path / "a", lambda data: data["segments"][0]["files"].update({role: file}))
    with pytest.raises(hr.CorruptIndexError, match=f"{file['name']}: expected"):
        hr.Index.open(tmp_path / "a")


# Checksums that wait


@pytest.fixture
def damaged_plane(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An index with one wrong bit among the vectors, in a block that open may leave unchecked."""
    monkeypatch.setattr(disk, "BLOCK_BYTES", 512)
    grown().save(folder, overwrite=True)
    plane = max(folder.glob("*-vectors-0.arrow"), key=lambda file: file.stat().st_size)
    damaged = bytearray(plane.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    plane.write_bytes(damaged)
    return folder


def test_threads_that_race_for_the_check_all_hear_of_it(damaged_plane: Path) -> None:
    index = hr.Index.open(damaged_plane, verify="structure")
    start = threading.Barrier(8)

    def recall(_: int) -> bool:
        start.wait()
        try:
            question(index, "vector")
        except hr.CorruptIndexError:
            return True
        return False

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(recall, range(8)))


def test_below_8_gb_everything_is_checked_at_open(
    damaged_plane: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(hr.CorruptIndexError):
        hr.Index.open(damaged_plane)
    monkeypatch.setattr(files, "FULL_CHECK_BELOW", 1000)
    assert len(hr.Index.open(damaged_plane)) == len(grown())


# Writers


def test_a_writer_in_another_process_is_refused_and_its_death_frees_the_lock(
    tmp_path: Path,
) -> None:
    index = build(9)
    index.save(tmp_path)
    code = (
        "import sys, time, pathlib; from hyrecall.base import disk\n"
        "with disk.writer_lock(pathlib.Path(sys.argv[1])): print('held', flush=True); time.sleep(9)"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(hr.WriterBusyError):
            index.save(tmp_path)
        assert ask(hr.Index.open(tmp_path)) == ask(index)  # readers take no lock
    finally:
        holder.send_signal(signal.SIGKILL)
        holder.communicate()
    index.save(tmp_path)


def test_a_reader_between_manifest_and_files_gets_the_newer_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = grown()
    index.save(tmp_path)
    read, calls = disk.read_file, []

    def slow(path: Path, *rest: Any) -> Any:
        calls.append(path)
        if len(calls) == 3:  # in the middle of opening, every file is replaced
            index.compact()
            index.save(tmp_path)
        return read(path, *rest)

    monkeypatch.setattr(disk, "read_file", slow)
    again = hr.Index.open(tmp_path)
    assert again.stats()["n_segments"] == 1
    assert ask(again) == ask(index)


def _replace_often(folder: str, started: Any) -> None:
    index = hr.Index.open(folder)
    started.set()
    for round_ in range(40):
        index.add(table(5000 + 10 * round_, 3))
        index.compact()
        index.save(folder)


@pytest.mark.slow
def test_readers_in_other_processes_see_whole_versions_only(tmp_path: Path) -> None:
    """No torn index, no vanished file, no SIGBUS, and versions never go back."""
    index = grown()
    index.save(tmp_path)
    context = multiprocessing.get_context("spawn")
    started = context.Event()
    writer = context.Process(target=_replace_often, args=(str(tmp_path), started))
    writer.start()
    started.wait()
    kept, sizes = [], []
    while writer.is_alive() or not kept:
        reader = hr.Index.open(tmp_path)
        sizes.append(len(reader))
        kept.append((reader, question(reader, "text")))
    writer.join()
    assert writer.exitcode == 0
    assert sizes == sorted(sizes)
    assert len(hr.Index.open(tmp_path)) == len(index) + 40 * 3
    for reader, reply in kept[:: max(1, len(kept) // 20)]:  # their files are long gone
        assert question(reader, "text").equals(reply)


# Analyzers


def spaces(text: str) -> list[str]:
    return text.split()


def shout(token: str) -> list[str]:
    return [token.upper()]


def with_callable() -> tuple[hr.Index, hr.Analyzer]:
    analyzer = hr.Analyzer.from_callable(spaces, name="spaces", version="1")
    text = {"body": hr.Text("body", analyzer=analyzer), "title": hr.Text("title")}
    return hr.Index.build(table(0, 50), schema(text=text)), analyzer


def test_a_callable_is_passed_again_at_open(tmp_path: Path) -> None:
    index, analyzer = with_callable()
    index.save(tmp_path)
    for given in (analyzer, {"body": analyzer}, {"body": analyzer, "title": hr.Analyzer()}):
        assert ask(hr.Index.open(tmp_path, analyzer=given)) == ask(index)
    with pytest.raises(
        hr.OptionError, match=r"'spaces' version '1', got None \(callables are not stored\); pass"
    ) as caught:
        hr.Index.open(tmp_path)
    assert caught.value.argument == "analyzer['body']"


def test_another_analyzer_is_refused_with_both_hashes(tmp_path: Path) -> None:
    index, analyzer = with_callable()
    index.save(tmp_path)
    other = hr.Analyzer.from_callable(spaces, name="spaces", version="2")
    hashes = f"{analyzer.hash}.*{other.hash}"
    with pytest.raises(hr.OptionError, match=rf"analyzer\['body'\]: .*{hashes}"):
        hr.Index.open(tmp_path, analyzer=other)
    with pytest.raises(hr.OptionError, match=r"analyzer\['title'\]"):
        hr.Index.open(tmp_path, analyzer={"body": analyzer, "title": analyzer})
    with pytest.raises(hr.OptionError, match="arms of"):
        hr.Index.open(tmp_path, analyzer={"content": analyzer})
    with pytest.raises(hr.DTypeError, match="analyzer"):
        hr.Index.open(tmp_path, analyzer=spaces)


def test_a_token_function_is_passed_again_too(tmp_path: Path) -> None:
    function = TokenFunction(shout, name="shout", version="1")
    analyzer = hr.Analyzer("word", token_function=function)
    index = hr.Index.build(table(0, 50), schema(text="body"), analyzer=analyzer)
    index.save(tmp_path)
    with pytest.raises(hr.OptionError, match="the callable 'shout' version '1'"):
        hr.Index.open(tmp_path)
    assert ask(hr.Index.open(tmp_path, analyzer=analyzer)) == ask(index)


def test_an_analyzer_without_a_text_arm_is_refused(tmp_path: Path) -> None:
    build(9, text=()).save(tmp_path)
    with pytest.raises(hr.OptionError, match="the index has no text arm"):
        hr.Index.open(tmp_path, analyzer=hr.Analyzer())


def test_a_file_that_is_not_arrow_is_refused(folder: Path) -> None:
    data = b"ARROW1 but not really"

    def change(manifest: dict[str, Any]) -> None:
        file = manifest["segments"][0]["files"]["rows"]
        (folder / file["name"]).write_bytes(data)
        file |= {"size": len(data), "blocks": [xxhash.xxh3_64_hexdigest(data)]}

    rewrite(folder, change)
    with pytest.raises(hr.CorruptIndexError, match=r"rows\.arrow: expected an Arrow IPC file"):
        hr.Index.open(folder)


def test_a_file_of_another_program_is_refused(folder: Path) -> None:
    def change(manifest: dict[str, Any]) -> None:
        file = manifest["segments"][0]["files"]["documents-0"]
        with pa.ipc.new_file(str(folder / file["name"]), pa.schema([("x", pa.int8())])):
            pass
        content = (folder / file["name"]).read_bytes()
        file |= {"size": len(content), "blocks": [xxhash.xxh3_64_hexdigest(content)]}

    rewrite(folder, change)
    with pytest.raises(
        hr.CorruptIndexError, match=r"documents-0\.arrow: expected one batch, got 0"
    ):
        hr.Index.open(folder)
