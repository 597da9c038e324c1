"""What all tests share: the oracle on the path, how long the laws run, and the device."""

import contextlib
import gc
import os
import re
import shutil
import sys
import tempfile
from bisect import bisect
from collections import Counter
from collections.abc import Generator
from functools import cache
from itertools import accumulate
from math import ceil
from pathlib import Path
from typing import Any

import pytest

# Threads of OpenBLAS spin while they wait: numpy's and scipy's small products took four times the
# processor time, and workers fill the cores anyway. `import bench` sets them by the second name.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("HYRECALL_BENCH_THREADS", "1")
sys.path.insert(0, str(Path(__file__).parent))  # for `import oracle` and `import laws`
sys.path.append(str(Path(__file__).parents[1]))  # for `import bench`

from conformance.matrix import Matrix
from emulated import Emulator
from laws.effort import Effort
from seams import cuda_report


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of the law tests."""
    parser.addoption(
        "--laws",
        choices=("quick", "slow", "full"),
        default="quick",
        help="how many cases the law tests draw: few; few, with the tests marked slow; many "
        "(default: quick)",
    )
    parser.addoption(
        "--laws-share",
        type=float,
        default=1.0,
        metavar="S",
        help="the share of the way from few cases to many, or of a file's slow cases (default: 1)",
    )
    parser.addoption(
        "--subject",
        choices=("engine", "oracle"),
        default="engine",
        help="what the laws are tried on; the oracle itself, to check the checks (default: engine)",
    )
    parser.addoption(
        "--device",
        action="append",
        metavar="NAME",
        help="a device to try conformance on, cpu or cuda:N; may come twice (default: cpu)",
    )
    parser.addoption(
        "--fuzz-seed", type=int, metavar="N", help="the one case that tests/fuzz repeats"
    )
    parser.addoption(
        "--fuzz-seconds", type=float, metavar="S", help="how long tests/fuzz draws cases"
    )
    parser.addoption(
        "--update-screens",
        action="store_true",
        help="write what commands show into tests/cli/screens, instead of comparing it",
    )
    parser.addoption(
        "--update-api",
        action="store_true",
        help="write the public API into tests/api/baseline.txt, instead of comparing it",
    )
    parser.addoption(
        "--matrix",
        action="store_true",
        help="print every scenario of tests/conformance by face, instead of counts",
    )


FOLDER = Path(__file__).parent
MEMORY_FOLDER = Path("/dev/shm")
LEAST_ROOM = 4 << 30  # bytes; a plain run takes less than one of them
_folder: Path | None = None


def _make_folder() -> Path | None:
    """Return a new folder for all temporary files, in memory, where a sync costs nothing.

    None where TMPDIR says another place, or memory has no room. Workers inherit TMPDIR.
    """
    if "TMPDIR" in os.environ or not os.access(MEMORY_FOLDER, os.W_OK):
        return None
    if shutil.disk_usage(MEMORY_FOLDER).free < LEAST_ROOM:
        return None
    return Path(tempfile.mkdtemp(prefix="hr-", dir=MEMORY_FOLDER))  # sockets have short paths


def pytest_unconfigure() -> None:
    """Remove the folder of temporary files, whatever tests left there."""
    if _folder is not None:
        shutil.rmtree(_folder, ignore_errors=True)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Return one worker a core, of those that this process may use.

    One more would fill the moments in which tests wait, and collect all tests once more for it.
    """
    return len(os.sched_getaffinity(0))


def pytest_configure(config: pytest.Config) -> None:
    """Put temporary files in memory; draw the same examples in each plain run."""
    # Workers, and the processes that tests start, load what one of them has compiled: else each
    # compiles the package and its tests anew, which takes it longer than its work.
    sys.dont_write_bytecode = False
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    config.pluginmanager.register(Matrix(is_whole=config.getoption("--matrix")), "matrix")
    global _folder
    if (_folder := _make_folder()) is not None:
        os.environ["TMPDIR"] = tempfile.tempdir = str(_folder)
    with contextlib.suppress(ImportError):  # the laws do without it
        from hypothesis import HealthCheck, settings

        slow = [HealthCheck.too_slow]  # beside other work drawing takes long
        settings.register_profile(
            "quick", max_examples=25, derandomize=True, deadline=None, suppress_health_check=slow
        )
        n_examples = effort_of(config).cases(quick=25, full=1000)
        settings.register_profile(
            "full", max_examples=n_examples, deadline=None, suppress_health_check=slow
        )
        settings.load_profile("full" if config.getoption("--laws") == "full" else "quick")
    with contextlib.suppress(ImportError):
        from typer import testing

        testing._get_command = cache(testing._get_command)  # half of the time of a short command


def row_of(item: pytest.Item) -> str | None:
    """Return the acceptance row that a test has in its name, such as A01."""
    found = re.match("(?:test_|Test)([A-H][0-9]{2})", item.name)
    return found and found[1]


@pytest.hookimpl(tryfirst=True)  # before pytest's own -m
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Refuse names that differ between workers; leave slow cases to the long form."""
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: item.path)  # the same order in each worker
    addressed = [item.nodeid for item in items if " at 0x" in item.nodeid]
    if addressed:  # another name in each worker, so that none of them would run anything
        raise pytest.UsageError(f"{addressed[0]}: name the cases with ids=, not by their addresses")
    of_test: Counter[tuple[str, str]] = Counter()
    for item in items:
        if (mark := item.get_closest_marker("plain_cases")) is not None:
            name = getattr(item, "originalname", item.name)
            of_test[item.location[0], name] += 1
            if of_test[item.location[0], name] > mark.args[0]:
                item.add_marker("slow")
    laws, share = config.getoption("--laws"), config.getoption("--laws-share")
    share = {"quick": 0.0, "slow": share, "full": 1.0}[laws]
    seen: Counter[Path] = Counter()
    gone = set()
    slow = [one for one in items if one.get_closest_marker("slow")]
    proved = {None} | {row_of(one) for one in items if not one.get_closest_marker("slow")}
    for item in slow:
        if share > 0 and (row := row_of(item)) not in proved:
            proved.add(row)  # an acceptance row that no plain test proves
            continue
        seen[item.path] += 1  # the first slow one of a file stays, and others spread over it
        if ceil(seen[item.path] * share) == ceil((seen[item.path] - 1) * share):
            gone.add(item)
    config.hook.pytest_deselected(items=list(gone))
    items[:] = [item for item in items if item not in gone]


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Let each worker begin with other folders, and load what another one has compiled by then.

    Else all of them compile every test file at the same time, which takes longer than its import.
    """
    report = yield
    worker: dict[str, Any] = getattr(collector.config, "workerinput", {})
    if worker and isinstance(collector, pytest.Directory) and collector.path == FOLDER:
        files = [_count_test_files(child.path) for child in report.result]
        share = int(worker["workerid"].removeprefix("gw")) / worker["workercount"]
        first = bisect(list(accumulate(files)), share * sum(files))
        report.result = [*report.result[first:], *report.result[:first]]
    return report


def _count_test_files(path: Path) -> int:
    return sum(1 for _ in path.rglob("test_*.py")) if path.is_dir() else 1


def pytest_collection_finish() -> None:
    """Let the collector of garbage pass over all that collecting the tests has made."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


# They print what they met.
FAULT_TESTS = ("fuzz/", "memory/faults/", "memory/test_concurrency.py", "embed/test_faults.py")
_told: list[str] = []


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Keep the figures of a fault test that passed."""
    is_one = any(part in report.nodeid for part in FAULT_TESTS)
    if is_one and report.when == "call" and report.passed:
        _told.extend(line for line in report.capstdout.splitlines() if line)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print those figures, which else would be seen of failing tests alone."""
    if _told:
        terminalreporter.section("what the fault tests met")
        for line in _told:
            terminalreporter.line(line)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Try what takes a device on each that is asked for."""
    if "device" in metafunc.fixturenames:
        devices = metafunc.config.getoption("--device") or ["cpu"]
        metafunc.parametrize("device", devices, indirect=True)


def effort_of(config: pytest.Config) -> Effort:
    """Return how long a run with these options is."""
    is_full = config.getoption("--laws") == "full"
    return Effort(share=config.getoption("--laws-share") if is_full else 0.0)


@pytest.fixture(scope="session")
def effort(request: pytest.FixtureRequest) -> Effort:
    """How long the laws run."""
    return effort_of(request.config)


@pytest.fixture
def device(request: pytest.FixtureRequest) -> str:
    """Every device on which conformance is tested; one that is not there is skipped by name."""
    name = str(request.param)
    if name.startswith("cuda:"):
        report = cuda_report()
        if name not in {found.device for found in report.devices}:
            pytest.skip(f"{name}: {report.problem or 'this machine has fewer devices'}")
    return name


@pytest.fixture
def emulated(monkeypatch: pytest.MonkeyPatch) -> Emulator:
    """The emulated device as cuda:0, where HYRECALL_EMULATED names the folder of its library."""
    folder = os.environ.get("HYRECALL_EMULATED")
    if not folder:
        pytest.skip("HYRECALL_EMULATED names no folder with an emulated libhyrecall_cuda.so")
    monkeypatch.setenv("HYRECALL_CUDA_LIBRARY", folder)
    return Emulator(folder)


@pytest.fixture
def cuda(request: pytest.FixtureRequest) -> str:
    """A CUDA device: the emulated one where there is a library of it, else this machine's own."""
    if os.environ.get("HYRECALL_EMULATED"):
        request.getfixturevalue("emulated")
    report = cuda_report()
    if not report.devices:
        pytest.skip(f"cuda:0: {report.problem}")
    return "cuda:0"
