"""What Linux has and macOS has not: the files that may name it, and what they do without it.

No Mac runs these tests. The names are taken away, or stood in for as macOS has them.
"""

import errno
import fcntl
import os
import re
import socket
import struct
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest

import hyrecall as hr
from hyrecall.memory import MemorySync
from memory.sharing.handles import is_owner
from seams import asking, disk, file_system_of, report, runtime
from seams import memory_frames_module as wire

ROOT = Path(__file__).parents[1]

# What only Linux has, by the files that name it: each goes on without it.
LINUX = {
    "python/hyrecall": (
        r"sched_[gs]etaffinity|posix_fadvise|posix_fallocate|O_PATH|O_TMPFILE|O_DIRECT\b|O_NOATIME"
        r"|SO_PEERCRED|MSG_NOSIGNAL|SOCK_(?:CLOEXEC|NONBLOCK)|TCP_(?:QUICKACK|KEEPIDLE)|SO_REUSEPORT"
        r"|[a-z]*xattr\(|memfd|pidfd|eventfd|epoll|inotify|signalfd|sendfile|splice\(|copy_file_range"
        r"|preadv|pwritev|renameat2|MADV_HUGEPAGE|fdatasync|F_OFD|mremap|prctl|ru_maxrss|sigtimedwait"
        r"|CLOCK_BOOTTIME|/proc/|/sys/|/dev/shm|os\.fsync",
        {
            "base/asking.py": {"SO_PEERCRED", "O_PATH", "/proc/"},
            "base/disk.py": {"posix_fadvise", "MADV_HUGEPAGE", "os.fsync"},
            "base/runtime.py": {"sched_getaffinity", "/sys/"},
            "cli/info_command.py": {"/proc/"},
            "memory/sharing/wire.py": {"MSG_NOSIGNAL"},
            "memory/sql/doctor.py": {"/proc/"},
            "table/tensors.py": {"/proc/"},
        },
    ),
    "csrc": (
        r"sys/(?:auxv|syscall|eventfd|epoll|sysinfo|sendfile|prctl)\.h|\bsched_\w+|\bSYS_\w+|gettid"
        r"|getauxval|MADV_HUGEPAGE|MADV_POPULATE\w+|MAP_POPULATE|mremap|st_[acm]tim\b|malloc_trim"
        r"|pthread_setaffinity\w*|program_invocation\w*|/proc/|posix_fallocate|fdatasync",
        {
            "core/mapped_file.cpp": {"st_mtim"},
            "core/wake_elsewhere.cpp": {
                *("sys/syscall.h", "SYS_gettid"),
                *("sched_getcpu", "sched_getaffinity", "sched_setaffinity"),
            },
            "core/zeroed.cpp": {"MADV_HUGEPAGE"},
            "kernels/cpu/isa.cpp": {"sys/syscall.h", "SYS_arch_prctl", "sys/auxv.h", "getauxval"},
        },
    ),
}


def linux_names(path: Path, pattern: str) -> set[str]:
    """Return what a file names that only Linux has, but for comments and docstrings."""
    comments = r'"{3}.*?"{3}|#[^\n]*' if path.suffix == ".py" else r"//[^\n]*"
    return set(re.findall(pattern, re.sub(comments, "", path.read_text("utf-8"), flags=re.DOTALL)))


@pytest.mark.parametrize("top", LINUX)
def test_what_only_linux_has_is_named_where_it_may_be_missing(top: str) -> None:
    pattern, known = LINUX[top]
    files = (path for path in (ROOT / top).rglob("*") if path.suffix in {".py", ".cpp", ".hpp"})
    found = {
        path.relative_to(ROOT / top).as_posix(): names
        for path in files
        if (names := linux_names(path, pattern))
    }
    assert found == known


def saved_index(folder: Path) -> None:
    table = pa.table({"id": range(18_000), "text": ["tea", "milk"] * 9_000})
    hr.Index.build(table, hr.Schema(key="id", cell=None, text="text")).save(folder)


@pytest.fixture
def _like_macos(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take away what macOS has not; its own socket options are answered by those of Linux."""
    given, known, taken = socket.SO_PEERCRED, socket.socket.getsockopt, socket.socket.setsockopt
    asked = {(0, 1): lambda uid, pid: struct.pack("2Ih2x16I", 0, uid, 1, *[20] * 16)}
    asked[0, 2] = lambda uid, pid: pid

    def getsockopt(self: socket.socket, level: int, name: int, *size: int) -> int | bytes:
        if (level, name) not in asked:
            return known(self, level, name, *size)
        pid, uid, _ = struct.unpack("3i", known(self, socket.SOL_SOCKET, given, 12))
        answer = asked[level, name](uid, pid)
        assert isinstance(answer, int) or size == (len(answer),)
        return answer

    def setsockopt(self: socket.socket, level: int, name: int, value: int) -> None:
        if (level, name) != (socket.SOL_SOCKET, 0x1022):
            taken(self, level, name, value)

    monkeypatch.setattr(socket.socket, "getsockopt", getsockopt)
    monkeypatch.setattr(socket.socket, "setsockopt", setsockopt)
    for module, name in (
        *((os, one) for one in ("sched_getaffinity", "posix_fadvise", "O_PATH")),
        *((socket, one) for one in ("SO_PEERCRED", "MSG_NOSIGNAL")),
    ):
        monkeypatch.delattr(module, name)
    monkeypatch.setattr(wire, "_QUIET", 0)
    monkeypatch.setattr(asking, "LONGEST_PATH", 103)


@pytest.mark.usefixtures("_like_macos")
@pytest.mark.parametrize("length", [80, 103, 200])
def test_a_store_is_shared(tmp_path: Path, length: int) -> None:
    room = length - len(str(tmp_path)) - len("//owner.sock")
    folder = tmp_path / ("x" * max(room, 1))
    with MemorySync.open(folder) as owner, MemorySync.open(folder) as second:
        second.remember("note", id="a", user_id="ana")
        assert [one.id for one in second.list(user_id="ana")] == ["a"]
        assert (is_owner(owner), is_owner(second)) == (True, False)


@pytest.mark.usefixtures("_like_macos")
def test_an_index_is_opened_and_searched_by_all_cores(tmp_path: Path) -> None:
    assert runtime.choose_threads(None) == min(os.cpu_count() or 1, runtime._cgroup_cpus())
    saved_index(tmp_path / "i")
    assert hr.Index.open(tmp_path / "i", memory="mmap").recall_one(text="tea").to_list()


@pytest.mark.usefixtures("_like_macos")
def test_the_report_names_the_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "_cpu_facts", dict)
    monkeypatch.setattr("platform.processor", lambda: "arm")
    found = report.collect()["processor"]
    assert (found["model"], found["allowed_cores"]) == ("arm", os.cpu_count())


MOUNTS = """\
/dev/disk3s1s1 on / (apfs, sealed, local, read-only, journaled)
map auto_home on /System/Volumes/Data/home (autofs, automounted, nobrowse)
//me@nas/on (old) on /Volumes/on (old) (smbfs, nodev, nosuid, mounted by me)
"""


@pytest.mark.parametrize(("folder", "kind"), [("/a", "apfs"), ("/Volumes/on (old)/a", "smbfs")])
def test_the_file_system_of_a_folder_is_that_of_the_nearest_mount(folder: str, kind: str) -> None:
    assert file_system_of(Path(folder), lambda: MOUNTS) == kind


@pytest.fixture
def syncs(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Stand in for the full sync of macOS; ``fault``: what it raises."""
    found = SimpleNamespace(full=0, plain=0, fault=None)
    fsync = os.fsync

    def full(handle: int, how: int) -> int:
        assert how == 51
        found.full += 1
        if found.fault:
            raise OSError(found.fault, os.strerror(found.fault))
        return 0

    def plain(handle: int) -> None:
        found.plain += 1
        fsync(handle)

    stood_in = SimpleNamespace(fcntl=full, F_FULLFSYNC=51)
    monkeypatch.setattr(disk, "fcntl", stood_in)
    monkeypatch.setattr(os, "fsync", plain)
    assert not hasattr(fcntl, "F_FULLFSYNC")
    return found


def test_a_save_reaches_the_disk_itself(tmp_path: Path, syncs: SimpleNamespace) -> None:
    saved_index(tmp_path / "i")
    assert syncs.full > 3
    assert syncs.plain == 0


def test_a_file_system_without_full_syncs_gets_plain_ones(
    tmp_path: Path, syncs: SimpleNamespace
) -> None:
    syncs.fault = errno.ENOTSUP
    disk.sync_folder(tmp_path)
    assert (syncs.full, syncs.plain) == (1, 1)
    syncs.fault = errno.EIO
    with pytest.raises(OSError, match="Input/output"):
        disk.sync_folder(tmp_path)
    assert syncs.plain == 1


def test_the_database_asks_for_full_syncs(tmp_path: Path) -> None:
    with (
        MemorySync.open(tmp_path / "s") as memory,
        memory._store.database.reading() as connection,
    ):
        assert connection.pragma("fullfsync") == 1
