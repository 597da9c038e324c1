"""hyrecall info --report: what a bug report needs of a machine, and nothing that is its user's."""

import errno
import json
import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import hyrecall
from hyrecall import _core
from seams import choose_threads

SECRET = "hunter2-Wanda"
VARIABLES = (
    *("HYRECALL_PATH", "HYRECALL_EMBEDDING_URL", "HYRECALL_EMBEDDING_MODEL", "OPENAI_API_KEY"),
    *("HYRECALL_EMBEDDING_API_KEY", "HYRECALL_EMBED_DISABLE", "HYRECALL_EMBED_TIMEOUT"),
    *("HYRECALL_FRONT_PLANE", "HYRECALL_CUDA_KERNELS", "HYRECALL_DENSE_TUNING", "HYRECALL_ISA"),
    *("HYRECALL_CUDA_LIBRARY", "LTM_EMBEDDING_API_KEY", "XDG_DATA_HOME", "CUDA_VISIBLE_DEVICES"),
)


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """A home folder of a user, with settings in it; no variable is set."""
    own = [name for name in os.environ if name.startswith(("HYRECALL_", "LTM_", "XDG_"))]
    for name in (*own, *VARIABLES):
        monkeypatch.delenv(name, raising=False)
    home = tmp_path / "home" / "wanda"
    monkeypatch.setenv("HOME", str(home))
    (home / ".config" / "hyrecall").mkdir(parents=True)
    return home


def write_settings(home: Path, **settings: object) -> None:
    (home / ".config/hyrecall/config.json").write_text(json.dumps(settings))


def both(run) -> tuple[str, dict]:
    """The report as text and as JSON."""
    shown, data = run("info", "--report"), run("info", "--report", "--json")
    assert (shown.code, shown.err) == (0, "")
    assert (data.code, data.err) == (0, "")
    return " ".join(shown.out.split()), data.data


def test_a_report_names_versions_system_processor_and_threads(run):
    text, data = both(run)
    assert data["hyrecall"] == hyrecall.__version__
    assert data["packages"]["numpy"] == np.__version__
    assert data["packages"]["pyarrow"] == pa.__version__
    assert data["system"]["kernel"].startswith("Linux ")
    assert data["processor"]["instruction_set"] == _core.arithmetic.isa()
    assert data["processor"]["threads"] == choose_threads(None)
    assert data["processor"]["cores"] >= data["processor"]["allowed_cores"] >= 1
    for part in (hyrecall.__version__, f"numpy {np.__version__}", _core.arithmetic.isa()):
        assert part in text


def test_a_report_names_the_version_of_sqlite_and_of_each_extra(run):
    apsw = pytest.importorskip("apsw", reason="the extra [memory] is not installed")
    text, data = both(run)
    assert data["sqlite"] == apsw.sqlite_lib_version()
    assert f"SQLite {apsw.sqlite_lib_version()}" in text
    if data["extras"] is None:
        pytest.skip("hyrecall runs from its sources: there is no installed metadata")
    assert data["extras"]["memory"]["apsw"] == apsw.apsw_version()
    assert data["extras"].keys() >= {"cli", "memory", "local", "redis"}
    assert data["extras"].keys().isdisjoint({"test", "dev", "bench", "parity"})


def test_a_package_of_an_extra_that_is_not_installed_is_named(run, monkeypatch):
    from seams import report

    wanted = ["numpy>=1", 'no_such_package>=3; extra == "later"', 'rich>=1; extra == "later"']
    monkeypatch.setattr(report.metadata, "requires", lambda _: wanted)
    text, data = both(run)
    assert data["extras"]["later"]["no_such_package"] is None
    assert data["extras"]["later"]["rich"]
    assert "extra [later] no_such_package is not installed, rich" in text


def test_sources_that_are_not_installed_have_unknown_extras(run, monkeypatch):
    from seams import report

    def missing(_: str) -> list[str]:
        raise report.metadata.PackageNotFoundError("hyrecall")

    monkeypatch.setattr(report.metadata, "requires", missing)
    text, data = both(run)
    assert data["extras"] is None
    assert "extras unknown: hyrecall is not installed as a package" in text


def test_settings_are_named_and_harmless_values_are_shown(run, home):
    write_settings(home, recipe="hebb", weight_recency=2.0, path="/data/agent.mem", embedder="off")
    text, data = both(run)
    assert data["settings"] == {
        "file": "~/.config/hyrecall/config.json",
        "exists": True,
        "problem": None,
        "values": {"embedder": "off", "path": None, "recipe": "hebb", "weight_recency": 2.0},
    }
    assert "settings file ~/.config/hyrecall/config.json" in text
    assert "embedder = off, path is set, recipe = hebb, weight_recency = 2.0" in text


def test_without_a_settings_file_its_path_is_still_shown(run):
    text, data = both(run)
    assert data["settings"]["exists"] is False
    assert data["settings"]["values"] == {}
    assert "~/.config/hyrecall/config.json, which does not exist" in text


def test_variables_are_named_and_harmless_values_are_shown(run, monkeypatch):
    shown = {
        "HYRECALL_FRONT_PLANE": "int8", "HYRECALL_CUDA_KERNELS": "generic,-int8:256:sm_90a",
        "HYRECALL_EMBED_DISABLE": "1", "HYRECALL_EMBED_TIMEOUT": "1m30s",
        "HYRECALL_DENSE_TUNING": "64,1,2", "CUDA_VISIBLE_DEVICES": "0,1",
        "HYRECALL_CUDA_TIMES": "1", "HYRECALL_AUTO_POSTINGS": "100000",
    }  # fmt: skip
    for name, value in shown.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("HYRECALL_EMBEDING_URL", "http://localhost")  # misspelt: worth knowing
    text, data = both(run)
    assert data["environment"] == {**shown, "HYRECALL_EMBEDING_URL": None}
    assert "HYRECALL_EMBEDING_URL is set" in text
    assert "HYRECALL_FRONT_PLANE = int8" in text


def leaks(run) -> list[str]:
    """Places of a report that hold something planted."""
    replies = [run("info", "--report"), run("info", "--report", "--json")]
    assert [reply.code for reply in replies] == [0, 0]
    lines = [line for reply in replies for line in (reply.out + reply.err).splitlines()]
    return [line for line in lines if "hunter2" in line or "wanda" in line.lower()]


@pytest.mark.plain_cases(6)
@pytest.mark.parametrize("name", VARIABLES)
def test_no_value_of_a_variable_that_may_be_secret_is_shown(run, monkeypatch, name):
    if name != "HYRECALL_ISA":  # is read once, when the package is loaded
        monkeypatch.setenv(name, f"/srv/{SECRET}")
    assert leaks(run) == []
    assert name == "HYRECALL_ISA" or name in run("info", "--report").out


def test_a_report_that_shows_every_value_is_found(run, monkeypatch):
    from seams import report

    monkeypatch.setattr(report, "_HARMLESS_VARIABLES", {"HYRECALL_EMBED_DISABLE": ".*"})
    monkeypatch.setenv("HYRECALL_EMBED_DISABLE", f"/srv/{SECRET}")
    assert len(leaks(run)) == 2


@pytest.mark.parametrize(
    "settings",
    [
        {"path": f"/srv/{SECRET}/agent.mem"},
        {"embedder": f"https://{SECRET}.example/v1"},
        {"embedding_url": f"https://{SECRET}.example/v1", "embedding_model": SECRET},
        {"recipe": SECRET},
        {SECRET: "l0"},
        {"path": {SECRET: SECRET}},
    ],
    ids=["path", "embedder", "endpoint", "refused value", "unknown key", "object"],
)
def test_no_value_of_a_setting_that_may_be_secret_is_shown(run, home, settings):
    write_settings(home, **settings)
    assert leaks(run) == []
    if "recipe" in settings:  # a refused one is reported by its key
        assert both(run)[1]["settings"]["problem"] == "OptionError: recipe"


@pytest.mark.parametrize("content", [f'{{"path": "{SECRET}"', f'["{SECRET}"]', SECRET])
def test_a_settings_file_that_cannot_be_read_is_reported_without_its_content(run, home, content):
    (home / ".config/hyrecall/config.json").write_text(content)
    assert leaks(run) == []
    text, data = both(run)
    assert data["settings"]["problem"] == "OptionError"
    assert "config.json, which is refused: OptionError" in text


def test_a_settings_file_in_a_folder_that_may_not_be_entered_is_reported(run, home, monkeypatch):
    write_settings(home, recipe="loom")
    file = home / ".config/hyrecall/config.json"
    ways = {name: getattr(Path, name) for name in ("stat", "open")}

    def denied(name):
        def way(path, *given, **options):
            if path == file:
                raise PermissionError(errno.EACCES, "Permission denied", str(path))
            return ways[name](path, *given, **options)

        return way

    for name in ways:
        monkeypatch.setattr(Path, name, denied(name))
    text, data = both(run)
    assert data["settings"]["problem"] == "PermissionError"
    assert "config.json, which is refused: PermissionError" in text


@pytest.mark.parametrize("place", ["HYRECALL_CONFIG", "XDG_CONFIG_HOME"])
def test_the_folders_of_settings_outside_the_home_are_not_shown(run, tmp_path, monkeypatch, place):
    folder = tmp_path / SECRET
    monkeypatch.setenv(place, str(folder / "config.json" if place == "HYRECALL_CONFIG" else folder))
    assert leaks(run) == []
    assert both(run)[1]["settings"]["file"] == ".../config.json"


@pytest.mark.parametrize("folder", ["/srv/wanda/lib", "/srv/my hunter2/x", "~"])
def test_why_there_is_no_device_shows_no_folder(run, home, monkeypatch, folder):
    library = f"{home}/libhyrecall_cuda.so" if folder == "~" else f"{folder}/libhyrecall_cuda.so"
    found = {"has_library": False, "driver_version": 0, "runtime_version": 0, "devices": []}
    why = f"it could not be loaded: {library}: invalid ELF header"
    monkeypatch.setattr(_core.device, "describe", lambda _: {**found, "problem": why})
    assert leaks(run) == []
    wanted = "it could not be loaded: .../libhyrecall_cuda.so: invalid ELF header"
    assert both(run)[1]["cuda"]["problem"] == wanted


@pytest.mark.slow
def test_a_library_of_another_folder_that_is_none_shows_no_folder(process, tmp_path, monkeypatch):
    folder = tmp_path / "hunter2 of wanda"
    folder.mkdir()
    (folder / "libhyrecall_cuda.so").write_text("no library")
    monkeypatch.setenv("HYRECALL_CUDA_LIBRARY", str(folder))
    done = process("info", "--report")
    assert (done.returncode, done.stderr) == (0, "")
    assert "could not be loaded" in " ".join(done.stdout.split())
    assert "hunter2" not in done.stdout


def test_nothing_of_a_store_is_shown(run, filled):
    text = json.dumps(run("info", "--report", "--json").data) + run("info", "--report").out
    for part in ("replication", "asynchronous", "lunch", "agent.mem", str(filled.parent)):
        assert part not in text


@pytest.mark.slow
def test_a_forced_instruction_set_that_is_unknown_is_reported(process, monkeypatch):
    monkeypatch.setenv("HYRECALL_ISA", SECRET)
    done = process("info", "--report", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    data = json.loads(done.stdout)
    assert data["processor"]["instruction_set"] is None
    assert data["environment"]["HYRECALL_ISA"] is None
    assert SECRET not in done.stdout
    text = " ".join(process("info", "--report").stdout.split())
    assert "instruction set none: HYRECALL_ISA is refused" in text


@pytest.mark.slow
def test_a_report_is_made_without_the_extra_memory(process):
    code = (
        "import sys; sys.modules['apsw'] = None; sys.argv = ['hyrecall', 'info', '--report'];"
        "from hyrecall.cli import main; main()"
    )
    done = process(code=code)
    assert (done.returncode, done.stderr) == (0, "")
    assert "SQLite none" in " ".join(done.stdout.split())


def test_a_fault_of_hyrecall_asks_for_the_report(run, monkeypatch):
    def broken() -> None:
        raise ZeroDivisionError("planted")

    monkeypatch.setattr("hyrecall.cli.info_command.settings_path", broken)
    reply = run("config", "path")
    assert reply.code == 4
    assert "with the output of hyrecall --debug and hyrecall info --report" in reply.err
