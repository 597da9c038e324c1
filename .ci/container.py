"""Builds the image of the Dockerfile and tries it as a container: .ci/container.py [FLAG...].

Needs root and Debian's buildah, but no daemon. FLAGs go to ``buildah build``: ``--pull=never``.
The image's own user, variables, command and health check run as process 1 of new namespaces. Its
root cannot be written, only /data can; there is no passwd row, no HOME, no network but loopback.
What this leaves out: a container runtime's own setup (seccomp, cgroups, volumes).
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
IMAGE = "hyrecall-try"
STORAGE = ("--storage-driver", "vfs")  # works on every file system
# $1: root, $2: folder of /data, $3: user, then the command.
SETUP = """
root=$1 data=$2 user=$3; shift 3
mount --bind "$root" "$root" && mount --bind "$data" "$root/data"
mount -t proc proc "$root/proc" && mount -t tmpfs -o size=1m dev "$root/dev"
mknod -m 666 "$root/dev/null" c 1 3 && mknod -m 444 "$root/dev/urandom" c 1 9
mount -o remount,bind,ro "$root" && ip link set lo up
exec chroot --userspec="$user" "$root" "$@"
"""
TALK = """
import json, sys, http.client
status, found = [], None
for method, path, token, body in json.load(sys.stdin):
    link = http.client.HTTPConnection("127.0.0.1", 8765, timeout=30)
    head = {"Authorization": "Bearer " + token} if token else {}
    head["Content-Type"] = "application/json"
    link.request(method, path, body and json.dumps(body), head)
    reply = link.getresponse()
    status.append(reply.status)
    found = reply.read().decode()
print(json.dumps([status, found]))
"""


def buildah(*arguments: str) -> str:
    """Run buildah and return what it prints."""
    done = subprocess.run(
        ["buildah", *STORAGE, *arguments], stdout=subprocess.PIPE, text=True, check=True, cwd=ROOT
    )
    return done.stdout.strip()


def megabytes(folder: Path) -> int:
    """Return the bytes of all files, in millions."""
    sizes = (path.lstat().st_size for path in folder.rglob("*") if not path.is_dir())
    return round(sum(sizes) / 1e6)


class Container:
    """An image's root and configuration; each :meth:`start` is a new process 1."""

    def __init__(self, root: Path, config: dict[str, Any], data: Path) -> None:
        self._root, self._config, self._data = root, config, data
        self.bin = Path(config["Entrypoint"][0]).parent

    def outside(self, path: str | Path) -> Path:
        """Return where a path of the container lies for others."""
        return self._root / Path(path).relative_to("/")

    def start(self, *command: str) -> subprocess.Popen[str]:
        """Start the entry point with a command, or with the image's own."""
        apart = ["unshare", "--mount", "--pid", "--net", "--ipc", "--fork", "--kill-child"]
        words = [*self._config["Entrypoint"], *(command or self._config["Cmd"])]
        setup = ["sh", "-euc", SETUP, "sh", str(self._root), str(self._data), self._config["User"]]
        return subprocess.Popen(
            [*apart, *setup, "env", "-i", *self._config["Env"], *words],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip

    def beside(self, process: subprocess.Popen[str], words: list[str], given: str = "") -> str:
        """Run another command in a container that runs."""
        enter = ["nsenter", "--target", str(first(process)), "--mount", "--pid", "--net"]
        chroot = ["chroot", f"--userspec={self._config['User']}", str(self._root)]
        done = subprocess.run(
            [*enter, *chroot, *words], input=given, capture_output=True, text=True, check=True
        )
        return done.stdout

    def wait_until_healthy(self, process: subprocess.Popen[str]) -> float:
        """Ask the image's own health check until it is content; return the seconds."""
        kind, *check = self._config["Healthcheck"]["Test"]
        assert kind == "CMD", kind
        begin = time.monotonic()
        while True:
            try:
                self.beside(process, check)
            except (subprocess.CalledProcessError, IndexError):
                assert process.poll() is None, process.stdout and process.stdout.read()
                assert time.monotonic() < begin + 60, "not healthy after a minute"
                time.sleep(0.5)
            else:
                return time.monotonic() - begin


def first(process: subprocess.Popen[str]) -> int:
    """Return the id, out here, of a container's process 1."""
    return int(Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()[0])


def imports_numpy(process: subprocess.Popen[str]) -> bool:
    """Tell whether process 1 is past the shell that sets up, and in the middle of its imports."""
    try:
        return "multiarray" in Path(f"/proc/{first(process)}/maps").read_text()
    except IndexError:
        return False


def end(process: subprocess.Popen[str]) -> str:
    """Send SIGTERM to process 1, as ``docker stop`` does; return how long it took."""
    begin = time.monotonic()
    os.kill(first(process), signal.SIGTERM)
    code = process.wait(30)
    assert code == 128 + signal.SIGTERM, (code, process.stdout and process.stdout.read())
    return f"{time.monotonic() - begin:.1f} s"


def main() -> None:
    """Build, measure, serve, stop, and find again."""
    buildah("build", "--isolation", "chroot", "--format", "docker", "-t", IMAGE, *sys.argv[1:], ".")
    config = json.loads(buildah("inspect", "--type", "image", IMAGE))["Docker"]["config"]
    name = buildah("from", "--pull-never", IMAGE)
    with tempfile.TemporaryDirectory() as folder:
        os.chown(folder, *map(int, config["User"].split(":")))
        try:
            try_it(Container(Path(buildah("mount", name)), config, Path(folder)))
        finally:
            buildah("rm", name)


def try_it(made: Container) -> None:
    """Try an image that is mounted."""
    (packages,) = made.outside(made.bin.parent).glob("lib/python3*/site-packages")
    whole = megabytes(made.outside("/"))
    print(f"image {whole} MB, of which site-packages {megabytes(packages)} MB")
    make = ("token", "make", "--tokens", "/data/tokens.json", "--any-user")
    told, _ = made.start(*make).communicate()
    token = next(word for word in told.split() if len(word) > 40)

    service = made.start()
    while not imports_numpy(service):
        time.sleep(0.01)
    print("SIGTERM while it starts:", end(service))
    note = {"text": "Tea at four", "user_id": "ann"}
    for asked in (["POST", "/v1/memories", token, note], ["GET", "/v1/info", token, None]):
        service = made.start()
        print(f"healthy after {made.wait_until_healthy(service):.1f} s")
        recall = ["POST", "/v1/recall", token, {"text": "tea", "user_id": "ann"}]
        calls = json.dumps([["POST", "/v1/recall", None, note], asked, recall])
        status, reply = json.loads(
            made.beside(service, [str(made.bin / "python"), "-c", TALK], calls)
        )
        assert status == [401, 201 if asked[0] == "POST" else 200, 200], status
        (match,) = json.loads(reply)["items"]
        assert match["episode"]["text"] == "Tea at four"
        print("kept and found; SIGTERM:", end(service))
    refused, _ = made.start("serve", "/store", "--port", "0").communicate()
    assert "/store: expected a disk that can be written at /, got a read-only one" in refused, (
        refused
    )
    print("5 passed")


if __name__ == "__main__":
    main()
