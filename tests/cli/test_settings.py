"""The user's settings: typed keys, an unknown one or a bad value refused, writes whole."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hyrecall.errors import DTypeError, OptionError
from seams import KEYS, disk, read_settings, remove_setting, set_setting, settings_path, store_path

GOOD: dict[str, tuple[Any, Any]] = {
    "path": ("/data/agent.mem", "/data/agent.mem"),
    "recipe": ("hebb", "hebb"),
    "analyzer": ("unicode:german", "unicode:german"),
    "embedder": ("off", "off"),
    "embedding_url": ("http://localhost:1/v1", "http://localhost:1/v1"),
    "embedding_model": ("small", "small"),
    "embed_timeout": ("1m30s", "1m30s"),
    "recall_timeout": ("1.5", 1.5),
    "weight_recency": ("2.0", 2.0),
    "weight_importance": (1, 1.0),
    "weight_relevance": ("0", 0.0),
}
BAD: list[tuple[str, Any]] = [
    ("path", " "), ("path", "a\nb"), ("path", 5), ("recipe", "lum"), ("recipe", None),
    ("analyzer", "unicode62"), ("analyzer", "snowball:klingon"), ("analyzer", 5), ("analyzer", ""),
    ("embedder", "stattic"), ("embedder", "ftp://h"), ("embedder", True),
    ("embedding_url", "localhost"), ("embedding_url", "http://u:p@h"), ("embedding_model", ""),
    ("embed_timeout", "3"), ("embed_timeout", "0s"), ("embed_timeout", "-1s"), ("embed_timeout", 3),
    ("recall_timeout", "-1"), ("recall_timeout", "nan"), ("recall_timeout", "1e6"),
    ("weight_recency", "abc"), ("weight_recency", "inf"), ("weight_importance", -0.1),
    ("weight_relevance", True), ("weight_relevance", None), ("weight_relevance", [1]),
]  # fmt: skip


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "deep" / "config.json"


def test_what_is_set_is_read_and_each_key_has_a_case(path: Path) -> None:
    assert GOOD.keys() == KEYS.keys()
    assert read_settings(path) == {}
    for name, (given, kept) in GOOD.items():
        assert set_setting(name, given, path) == kept
        assert type(read_settings(path)[name]) is type(kept)
    assert read_settings(path) == {name: kept for name, (_, kept) in GOOD.items()}
    assert remove_setting("path", path)
    assert not remove_setting("path", path)
    assert "path" not in read_settings(path)


@pytest.mark.parametrize(("name", "value"), BAD, ids=repr)
def test_a_bad_value_is_refused_by_name_and_nothing_changes(
    path: Path, name: str, value: object
) -> None:
    set_setting("recipe", "loom", path)
    with pytest.raises((OptionError, DTypeError), match=f"^{name}: expected"):
        set_setting(name, value, path)
    assert read_settings(path) == {"recipe": "loom"}
    path.write_text(json.dumps({name: value}))
    with pytest.raises((OptionError, DTypeError), match=rf"config\.json: {name}: expected"):
        read_settings(path)


def test_an_unknown_key_is_refused(path: Path) -> None:
    for change in (lambda: set_setting("wieght", 1, path), lambda: remove_setting("wieght", path)):
        with pytest.raises(OptionError, match=r"key: expected one of path, .* got 'wieght'"):
            change()
    assert not path.exists()
    path.parent.mkdir(exist_ok=True)
    path.write_text('{"wieght": 1}')
    with pytest.raises(OptionError, match="'wieght'"):
        read_settings(path)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"null", b"\xff", b"[" * 100_000])
def test_a_file_that_is_no_object_is_refused_and_kept(path: Path, content: bytes) -> None:
    path.parent.mkdir()
    path.write_bytes(content)
    for change in (lambda: read_settings(path), lambda: set_setting("recipe", "loom", path)):
        with pytest.raises(OptionError, match="expected a JSON object"):
            change()
    assert path.read_bytes() == content


def test_a_write_that_fails_leaves_the_file_as_it_was(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_setting("recipe", "loom", path)
    before = path.read_bytes()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    for step in ("prepare", "commit"):
        with monkeypatch.context() as patched:
            patched.setattr(disk, step, full)
            with pytest.raises(OSError, match="No space"):
                set_setting("recipe", "hebb", path)
        assert path.read_bytes() == before


@pytest.mark.slow
def test_processes_that_set_at_once_lose_nothing(path: Path) -> None:
    names = [name for name in KEYS if name.startswith("weight")]
    program = (
        "import sys; from pathlib import Path; from hyrecall.cli.settings import set_setting\n"
        "for n in range(10): set_setting(sys.argv[1], n, Path(sys.argv[2]))"
    )
    children = [subprocess.Popen([sys.executable, "-c", program, name, path]) for name in names]
    assert [child.wait(60) for child in children] == [0] * len(names)
    assert read_settings(path) == dict.fromkeys(names, 9.0)


@pytest.mark.parametrize(
    ("variables", "path"),
    [
        ({"HYRECALL_CONFIG": "x.json", "XDG_CONFIG_HOME": "/c"}, "x.json"),
        ({"XDG_CONFIG_HOME": "/c"}, "/c/hyrecall/config.json"),
        ({"XDG_CONFIG_HOME": "c"}, "/h/.config/hyrecall/config.json"),
        ({"XDG_CONFIG_HOME": ""}, "/h/.config/hyrecall/config.json"),
        ({}, "/h/.config/hyrecall/config.json"),
    ],
    ids=["own variable", "absolute XDG", "relative XDG", "empty XDG", "none"],
)
def test_settings_lie_in_the_configuration_folder_of_the_user(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], path: str
) -> None:
    set_folders(monkeypatch, variables)
    assert settings_path() == Path(path)


@pytest.mark.parametrize(
    ("variables", "path"),
    [
        ({"HYRECALL_PATH": "x.mem", "XDG_DATA_HOME": "/d"}, "x.mem"),
        ({"XDG_DATA_HOME": "/d"}, "/d/hyrecall/memory"),
        ({"XDG_DATA_HOME": "d"}, "/h/.local/share/hyrecall/memory"),
        ({}, "/h/.local/share/hyrecall/memory"),
    ],
    ids=["own variable", "absolute XDG", "relative XDG", "none"],
)
def test_a_store_lies_in_the_data_folder_of_the_user(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], path: str
) -> None:
    set_folders(monkeypatch, variables)
    assert store_path(None, {}) == Path(path)
    assert store_path(Path("given.mem"), {"path": "set.mem"}) == Path("given.mem")


def set_folders(monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]) -> None:
    """Set these variables of folders, and no other than the home folder."""
    for name in ("HYRECALL_CONFIG", "HYRECALL_PATH", "XDG_CONFIG_HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"HOME": "/h", **variables}.items():
        monkeypatch.setenv(name, value)


def test_the_environment_of_the_process_is_read(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HYRECALL_CONFIG", str(path))
    set_setting("recipe", "l0")
    assert read_settings() == {"recipe": "l0"}
    assert settings_path() == path
