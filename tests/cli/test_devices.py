"""hyrecall info --devices tells of every machine what it has, and fails on none."""

from types import SimpleNamespace

import pytest

from hyrecall import _core

H100 = ("NVIDIA H100", 9, 0, 80 * 2**30, 132)
TURING = ("Quadro [T4]", 7, 5, 2**34, 40)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch):
    """Say what libhyrecall_cuda.so is to find."""

    def of(*devices: tuple, problem: str = "", has_library: bool = True, version: int = 13000):
        found = {
            "has_library": has_library,
            "driver_version": version if has_library else 0,
            "runtime_version": 13000 if has_library else 0,
            "devices": list(devices),
            "problem": problem,
        }
        monkeypatch.setattr(_core.device, "describe", lambda _folder: found)

    return of


def words(reply: SimpleNamespace) -> str:
    """What is shown, without the lines of tables."""
    assert reply.code == 0, reply.err
    assert reply.err == ""
    return " ".join(part for part in reply.out.split() if part.strip("│┃─━┏┓└┘├┤┬┴┼╇╈┳┡┩"))


def test_devices_as_json(run, machine):
    machine(H100, TURING)
    found = run("info", "--devices", "--json").data
    assert found["has_library"] is True
    assert (found["driver_version"], found["runtime_version"]) == ("13.0", "13.0")
    assert found["problem"] == ""
    assert found["devices"][0] == {
        "device": "cuda:0",
        "name": "NVIDIA H100",
        "compute_capability": [9, 0],
        "memory_bytes": 80 * 2**30,
        "n_multiprocessors": 132,
        "problem": "",
    }
    assert found["devices"][1]["problem"].startswith("it has compute capability 7.5")


@pytest.mark.parametrize(
    ("machine_of", "parts"),
    [
        (
            {"problem": "libhyrecall_cuda.so could not be loaded", "has_library": False},
            ["is missing", "driver unknown", "none: libhyrecall_cuda.so could not be loaded"],
        ),
        ({"problem": "there is no CUDA device"}, ["is present", "none: there is no CUDA device"]),
        (
            {"problem": "the CUDA driver is of version 12.8, expected 13.0", "version": 12080},
            ["12.8", "none: the CUDA driver is of version 12.8, expected 13.0"],
        ),
    ],
    ids=["no library", "no device", "an old driver"],
)
def test_a_machine_without_devices_says_why_and_is_no_failure(run, machine, machine_of, parts):
    machine(**machine_of)
    shown = words(run("info", "--devices"))
    assert [part for part in parts if part not in shown] == []
    found = run("info", "--devices", "--json").data
    assert (found["devices"], found["problem"]) == ([], machine_of["problem"])


def test_this_machine_is_shown_as_it_is(run, process):
    data = run("info", "--devices", "--json").data
    assert bool(data["devices"]) == (data["problem"] == "")
    assert process("info", "--devices").returncode == 0


@pytest.mark.usefixtures("emulated")
def test_the_emulated_device_is_a_device(run):
    (found,) = run("info", "--devices", "--json").data["devices"]
    assert (found["device"], found["name"], found["problem"]) == ("cuda:0", "emulator", "")


@pytest.mark.parametrize("options", [[], ["DIR", "--devices"], ["--json"], ["DIR", "--report"]])
def test_info_takes_either_an_index_or_devices(run, folder, options):
    reply = run("info", *(folder if one == "DIR" else one for one in options))
    assert reply.code == 2
    assert "expected one of DIR, --devices and --report" in " ".join(reply.err.split())
