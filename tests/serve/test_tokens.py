"""Tokens say on the server who calls; the file keeps hashes and is its owner's alone."""

from __future__ import annotations

import json
import logging
import os
import stat
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from hyrecall.errors import HyrecallError, OptionError
from hyrecall.serve import Caller
from seams import TokenFile, list_tokens, make_token, revoke_token
from serve.conftest import ANN, BOB

NOW = datetime(2026, 5, 1, tzinfo=UTC)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "keys" / "tokens.json"


def test_a_token_leads_to_its_caller_and_no_other_does(path: Path) -> None:
    token, other = make_token(path, ANN), make_token(path, BOB)
    found = TokenFile(path)
    assert found.find(token) == replace(ANN, name=token.split("_")[1])
    assert found.find(other) == replace(BOB, name=other.split("_")[1])
    assert len(found) == 2
    _, first, secret = token.split("_", 2)
    _, second, _ = other.split("_", 2)
    for wrong in (
        *("", "hyr", "hyr__", f"hyr_{first}", f"hyr_{first}_", secret),
        *(
            f"hyr_{second}_{secret}",
            token + "x",
            token[:-1],
            token.upper(),
            f"xxx_{first}_{secret}",
        ),
        *("hyr_" + "é" * 10 + "_x", "\udc80"),
    ):
        assert found.find(wrong) is None, wrong


def test_the_file_holds_no_token_and_is_its_owners_alone(path: Path) -> None:
    os.umask(os.umask(0o022))
    token = make_token(path, ANN, note="for the bot")
    text = path.read_text()
    assert token not in text
    assert token.split("_", 2)[2] not in text
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert len({make_token(path, ANN) for _ in range(20)}) == 20
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o666])
def test_a_file_that_others_can_reach_is_refused(path: Path, mode: int) -> None:
    make_token(path, ANN)
    path.chmod(mode)
    with pytest.raises(OptionError, match="chmod 600"):
        TokenFile(path)


def test_a_token_expires(path: Path) -> None:
    clock = [NOW]
    token = make_token(path, ANN, expires_at=NOW + timedelta(days=1), now=NOW)
    found = TokenFile(path, clock=lambda: clock[0])
    assert found.find(token) is not None
    clock[0] += timedelta(days=1)
    assert found.find(token) is None
    with pytest.raises(OptionError, match="future"):
        make_token(path, ANN, expires_at=NOW, now=NOW)


def test_a_running_service_learns_of_new_revoked_and_broken_tokens(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ticks = [0.0]
    token = make_token(path, ANN)
    found = TokenFile(path, ticks=lambda: ticks[0])

    def now() -> list[bool]:
        ticks[0] += 10
        return [found.find(one) is not None for one in (token, second)]

    second = make_token(path, BOB)
    assert now() == [True, True]
    assert revoke_token(path, token.split("_")[1])
    assert now() == [False, True]
    path.write_text("{")
    with caplog.at_level(logging.ERROR, "hyrecall.serve"):
        assert now() == [False, True]
    assert "cannot be read" in caplog.text
    path.unlink()
    assert now() == [False, False]
    assert token not in caplog.text


def test_the_list_says_whose_tokens_there_are(path: Path) -> None:
    key = make_token(path, ANN, note="bot", now=NOW).split("_")[1]
    (one,) = list_tokens(path)
    assert (one.id, one.note, one.created_at, one.caller.user_id) == (key, "bot", NOW, "ann")
    assert not revoke_token(path, "other")
    assert revoke_token(path, key)
    assert list_tokens(path) == []


@pytest.mark.parametrize(
    ("who", "argument"),
    [
        (Caller(user_id=" "), "user_id"),
        (Caller(org="a\0b"), "org"),
        (Caller(agent="bot"), "agent"),
        (Caller(agent="bot", org="acme", workspace="lab", user_id="ann"), "agent"),
        (Caller(agent="bot", org="acme", workspace="lab", may_choose_user=True), "agent"),
        (Caller(rights=frozenset()), "rights"),
        (Caller(rights=frozenset(("read", "admin"))), "rights"),  # type: ignore[arg-type]
    ],
)
def test_a_caller_that_cannot_be_is_refused(path: Path, who: Caller, argument: str) -> None:
    with pytest.raises(HyrecallError, match=f"^{argument}: "):
        make_token(path, who)
    assert not path.exists()


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data.update(format=2),
        lambda data: data.pop("tokens"),
        lambda data: data["tokens"][0].pop("rights"),
        lambda data: data["tokens"][0].update(sha256="zz"),
        lambda data: data["tokens"][0].update(created_at="never"),
        lambda data: data["tokens"][0].update(rights=["root"]),
        lambda data: data["tokens"].append(7),
    ],
)
def test_a_file_that_is_none_of_tokens_is_refused(
    path: Path, change: Callable[[dict[str, object]], object]
) -> None:
    make_token(path, ANN)
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(data))
    with pytest.raises(HyrecallError):
        TokenFile(path)


def test_a_file_that_may_not_be_read_any_more_admits_nobody(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    now = 0.0
    token = make_token(path, ANN)
    found = TokenFile(path, ticks=lambda: now)
    make_token(path, BOB)  # root changed the file, and perhaps revoked a token
    opened = Path.open

    def denied(self: Path, *args: object, **options: object) -> object:
        if self == path:
            raise PermissionError(13, "Permission denied")
        return opened(self, *args, **options)  # type: ignore[call-overload]

    monkeypatch.setattr(Path, "open", denied)
    now = 2.0
    assert found.find(token) is None
    assert "may not be read, so that nobody may call" in caplog.text
    monkeypatch.undo()
    now = 4.0
    assert found.find(token) is not None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_changed_file_stays_its_owners(path: Path) -> None:
    token = make_token(path, ANN)
    os.chown(path, 12_345, 12_346)
    revoke_token(path, token.split("_")[1])
    told = path.stat()
    assert (told.st_uid, told.st_gid, stat.S_IMODE(told.st_mode)) == (12_345, 12_346, 0o600)


def test_cells_of_an_index_are_kept_with_their_types(path: Path) -> None:
    who = Caller(cells=(("acme", 7), ("acme", None)))
    found = TokenFile(path) if path.exists() else None
    assert found is None
    token = make_token(path, who)
    made = TokenFile(path).find(token)
    assert made is not None
    assert made.cells == (("acme", 7), ("acme", None))


@pytest.mark.parametrize(
    ("who", "told"),
    [
        (Caller(), "the anonymous user"),
        (Caller(user_id="ann", org="acme"), "user ann, org acme"),
        (Caller(may_choose_user=True), "any user"),
        (Caller(user_id="bob", may_choose_partition=True), "user bob, any org and workspace"),
        (Caller(org="acme", workspace="lab", agent="bot"), "agent bot, org acme, workspace lab"),
        (Caller(cells=(("acme", "shared"), (7,))), 'cells ["acme", "shared"], [7]'),
    ],
)  # fmt: skip
def test_the_list_of_the_command_names_only_what_a_token_fixes(
    path: Path, who: Caller, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("typer", reason="the extra [cli] is not installed")
    from seams import list_

    make_token(path, who)
    list_(tokens=path)
    assert told in " ".join(capsys.readouterr().out.split())
