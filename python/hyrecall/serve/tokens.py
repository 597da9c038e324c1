"""Tokens: who each one's caller is, kept by hash in a file that only its owner can read.

A token is ``hyr_ID_SECRET`` with 256 random bits in SECRET. The file holds its ID, the SHA-256 of
the whole token, and the caller. A random secret of this length needs no salt and no slow hash.
"""

from __future__ import annotations

import hmac
import json
import logging
import os
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

from hyrecall.base.arguments import read_path
from hyrecall.base.disk import open_replacement
from hyrecall.base.forks import locked
from hyrecall.base.malformed import MALFORMED
from hyrecall.errors import HyrecallError, OptionError, error
from hyrecall.memory.data.types import check_user, in_utc
from hyrecall.serve.options import RIGHTS, Caller, caller_data

_log = logging.getLogger("hyrecall.serve")

FORMAT = 1
LARGEST = 16 << 20  # bytes of the file
LOOK_AGAIN = 1.0
"""Seconds after which the file is looked at again, so that a revoked token ends by then."""

_NOBODY = bytes(32)


@dataclass(frozen=True)
class TokenInfo:
    """A token without its secret."""

    id: str
    caller: Caller
    created_at: datetime
    expires_at: datetime | None = None
    note: str = ""


@dataclass(frozen=True)
class _StoredToken:
    info: TokenInfo
    digest: bytes


def make_token(
    path: Path,
    caller: Caller,
    *,
    expires_at: datetime | None = None,
    note: str = "",
    now: datetime | None = None,
) -> str:
    """Add a token to a file, which is made if it is not there; return the token, this once."""
    caller = check_caller(caller)
    created = datetime.now(UTC) if now is None else in_utc(now)
    ends = None if expires_at is None else in_utc(expires_at)
    if ends is not None and ends <= created:
        raise error(OptionError, "expires_at", "a time in the future", ends.isoformat())
    key = secrets.token_hex(4)
    token = f"hyr_{key}_{secrets.token_urlsafe(32)}"
    info = TokenInfo(key, replace(caller, name=key), created, ends, note)
    with _locked(path):
        kept = [*(_read(path) if path.exists() else ()), _StoredToken(info, _digest(token))]
        _write(path, kept)
    return token


def revoke_token(path: Path, key: str) -> bool:
    """Remove a token by its id; return whether it was there."""
    with _locked(path):
        kept = _read(path)
        left = [one for one in kept if one.info.id != key]
        if len(left) < len(kept):
            _write(path, left)
    return len(left) < len(kept)


def list_tokens(path: Path) -> list[TokenInfo]:
    """Return what a file says about its tokens, without secrets."""
    return [one.info for one in _read(path)]


def check_caller(caller: Caller) -> Caller:
    """Check the names and rights of a caller."""
    for name in ("org", "workspace", "user_id", "agent"):
        check_user(name, getattr(caller, name))
    if caller.agent is not None:
        if caller.org is None or caller.workspace is None:
            raise error(OptionError, "agent", "org and workspace beside it", "none")
        if caller.user_id not in (None, caller.agent) or caller.may_choose_user:
            raise error(OptionError, "agent", "no user beside it", "one")
    if not caller.rights or not caller.rights <= RIGHTS:
        raise error(OptionError, "rights", f"some of {', '.join(sorted(RIGHTS))}", "others or none")
    return caller


class TokenFile:
    """The tokens of a file, read again when it changes."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        ticks: Callable[[], float] = time.monotonic,
    ) -> None:
        self._path, self._clock, self._ticks = read_path(path), clock, ticks
        self._stamp = _stamp(self._path)
        self._by_id = {one.info.id: one for one in _read(self._path)}
        self._looked = ticks()

    def __len__(self) -> int:
        return len(self._by_id)

    def find(self, token: str) -> Caller | None:
        """Return whose token it is; None: nobody's, or it has expired."""
        # The time of the comparison does not depend on the token. The id, by which it is looked up,
        # is no secret.
        self._look_again()
        parts = token.split("_", 2)
        kept = self._by_id.get(parts[1]) if len(parts) == 3 else None
        is_same = hmac.compare_digest(_digest(token), _NOBODY if kept is None else kept.digest)
        if kept is None or not is_same:
            return None
        ends = kept.info.expires_at
        return kept.info.caller if ends is None or self._clock() < ends else None

    def _look_again(self) -> None:
        """Read a changed file; one that cannot be opened admits nobody, a broken one is ignored."""
        now = self._ticks()
        if now < self._looked + LOOK_AGAIN:
            return
        self._looked = now
        try:
            stamp = _stamp(self._path)
            if stamp != self._stamp:
                self._by_id = {one.info.id: one for one in _read(self._path)}
                self._stamp = stamp
                _log.info("tokens: read again, %d of them", len(self._by_id))
        except (FileNotFoundError, PermissionError) as fault:
            # A token may be revoked in a file that this process may not read.
            why = "is gone" if isinstance(fault, FileNotFoundError) else "may not be read"
            _log.error("tokens: the file %s, so that nobody may call", why)
            self._by_id, self._stamp = {}, None
        except (HyrecallError, OSError) as fault:
            _log.error(
                "tokens: the file cannot be read (%s); the old ones hold", type(fault).__name__
            )


# ---- the file ----


def _digest(token: str) -> bytes:
    return sha256(token.encode("utf-8", "surrogateescape")).digest()


def _stamp(path: Path) -> tuple[int, ...] | None:
    found = path.stat()
    return found.st_ino, found.st_mtime_ns, found.st_size


def _read(path: Path) -> list[_StoredToken]:
    wish = "a file of hyrecall token"
    try:
        with path.open("rb") as file:
            found = os.fstat(file.fileno())
            if found.st_mode & 0o077:
                mode = f"mode {found.st_mode & 0o777:o}"
                raise error(OptionError, "tokens", "a file of its owner alone (chmod 600)", mode)
            if found.st_size > LARGEST:
                raise error(OptionError, "tokens", wish, f"{found.st_size} bytes")
            content = json.loads(file.read())
        if content["format"] != FORMAT:
            raise error(OptionError, "tokens", f"format {FORMAT}", "another")
        return [_token_of(one) for one in content["tokens"]]
    except FileNotFoundError:
        raise
    except HyrecallError:
        raise
    except MALFORMED as fault:
        raise error(OptionError, "tokens", wish, type(fault).__name__) from None


def _token_of(row: dict[str, Any]) -> _StoredToken:
    cells = row["cells"]
    caller = Caller(
        **{name: row[name] for name in ("org", "workspace", "user_id", "agent")},
        rights=frozenset(row["rights"]),
        may_choose_user=row["may_choose_user"] is True,
        may_choose_partition=row["may_choose_partition"] is True,
        cells=None if cells is None else tuple(tuple(cell) for cell in cells),
        name=row["id"],
    )
    ends = row["expires_at"]
    info = TokenInfo(
        row["id"],
        check_caller(caller),
        datetime.fromisoformat(row["created_at"]),
        None if ends is None else datetime.fromisoformat(ends),
        row["note"],
    )
    return _StoredToken(info, bytes.fromhex(row["sha256"]))


def _row_of(one: _StoredToken) -> dict[str, Any]:
    info = one.info
    return {
        "id": info.id,
        "sha256": one.digest.hex(),
        **caller_data(info.caller),
        "created_at": info.created_at.isoformat(),
        "expires_at": None if info.expires_at is None else info.expires_at.isoformat(),
        "note": info.note,
    }


def _write(path: Path, kept: list[_StoredToken]) -> None:
    content = {"format": FORMAT, "tokens": [_row_of(one) for one in kept]}
    with open_replacement("tokens", path, mode=0o600) as out:
        with suppress(OSError):  # so that the service's user can read what root has changed
            old = path.stat()
            os.fchown(out.fileno(), old.st_uid, old.st_gid)
        out.write(json.dumps(content, indent=1).encode() + b"\n")


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Let one process at a time change the file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with locked(path.parent, os.O_RDONLY | os.O_DIRECTORY):
        yield
