"""What all faces share: what they lack, how they refuse, and memories as plain data."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar, NoReturn

import pytest
from pydantic import ValidationError

from hyrecall.errors import (
    HyrecallError,
    KeyConflictError,
    NotFoundError,
    ScopeError,
    VersionConflictError,
)

Row = dict[str, Any]
MORNING = datetime(2026, 1, 1, 12, tzinfo=UTC)


class Face:
    """A way to a store or an index.

    ``lacks`` maps a verb, or ``verb.option``, to what a user does instead.
    """

    name: ClassVar[str]
    lacks: ClassVar[Mapping[str, str]] = {}

    def _do(self, verb: str, /, *args: Any, **options: Any) -> Any:
        for asked in (verb, *(f"{verb}.{option}" for option in options)):
            if asked in self.lacks:
                lack(asked, self.lacks[asked])
        return getattr(self, f"_{verb}")(*args, **options)

    @classmethod
    def offers(cls, verb: str, option: str | None = None) -> bool:
        """Say whether the product has the verb here, or an option of it, whatever `lacks` says."""
        raise NotImplementedError


def lack(asked: str, why: str) -> NoReturn:
    """End a scenario: the matrix shows it as `lacks`."""
    pytest.skip(f"lacks {asked}: {why}")


# ---- refusals ----


class Refused(Exception):  # noqa: N818
    """A face did not do what it was asked.

    ``kind`` is value, scope, missing, taken, changed or forbidden, or "" where the face does not
    tell; ``arguments`` are what the message begins with: an option, then perhaps a part of it.
    """

    _NAMED = re.compile(r"-*(?:[\w-]+(?:\[\d+\])?\.)*([\w-]+)(?:\[[^]]*\])?: ?")

    def __init__(self, kind: str, told: str) -> None:
        super().__init__(told)
        self.kind = kind
        self.arguments: list[str] = []
        end = 0
        while named := self._NAMED.match(told, end):
            self.arguments.append(named[1].replace("-", "_"))
            end = named.end()


@contextmanager
def refused(kind: str, argument: str) -> Iterator[None]:
    """Expect a refusal of this kind, whose message begins with this argument."""
    with pytest.raises(Refused) as caught:
        yield
    fault = caught.value
    assert fault.kind in (kind, ""), fault
    assert argument in fault.arguments, fault


def kind_of(fault: BaseException) -> str:
    kinds = (
        (KeyConflictError, "taken"), (NotFoundError, "missing"), (ScopeError, "scope"),
        (VersionConflictError, "changed"),
    )  # fmt: skip
    return next((kind for one, kind in kinds if isinstance(fault, one)), "value")


@contextmanager
def python_refusals() -> Iterator[None]:
    """Raise what Python calls refuse as `Refused`."""
    try:
        yield
    except ValidationError as fault:
        first = fault.errors()[0]
        place = "".join(f"{name}: " for name in first["loc"])
        told = place + first["msg"].removeprefix("Value error, ")
        raise Refused("value", told) from fault
    except (HyrecallError, ValueError, TypeError) as fault:
        raise Refused(kind_of(fault), str(fault)) from fault


# ---- plain data ----


def at(minute: int) -> str:
    """Return a time of the morning in which the memories of scenarios happened."""
    return (MORNING + timedelta(minutes=minute)).isoformat()


def moment(value: object) -> datetime | None:
    """Read a time, however a face writes it."""
    if value is None or isinstance(value, datetime):
        return value
    found = datetime.fromisoformat(str(value))
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def memory_row(memory: Mapping[str, Any]) -> Row:
    """Return a memory as plain data."""
    names = ("id", "kind", "source", "session_id", "importance", "pinned", "metadata")
    return {name: memory[name] for name in (*names, "visibility", "user_id")} | {
        "text": memory["text"],
        "input": memory["input"] or "",
        "tags": list(memory["tags"]),
        "occurred_at": moment(memory["occurred_at"]),
    }


def ids(rows: list[Row]) -> list[str]:
    return [row["id"] for row in rows]


def begins(text: str, *parts: str) -> bool:
    """Say whether a text holds these parts, in this order."""
    return re.search(".*".join(map(re.escape, parts)), text, re.DOTALL) is not None


def bytes_below(folder: Path) -> bytes:
    """Return the content of all files of a folder, one after another."""
    return b"".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file())
