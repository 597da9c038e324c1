"""Every argument of the public API refuses a wrong value by its name, and nothing changes."""

import fnmatch
from collections.abc import Iterable
from typing import Any

import pytest

import hyrecall as hr
from api.refusals import EXCEPTIONS, ROWS, SAME, Row
from api.small_world import World, callables

CALLABLES = callables()
Table = dict[str, list[Row]]


def rows_of(name: str, table: Table = ROWS) -> list[Row]:
    """Return the rows that hold for a callable."""
    asked = next((name.replace(*pair) for pair in SAME if name.startswith(pair[0])), name)
    return [
        row
        for names, rows in table.items()
        if any(fnmatch.fnmatchcase(asked, one) for one in names.split())
        for row in rows
        if row.argument in CALLABLES[name]
    ]


def untried(table: Table = ROWS, exceptions: dict[str, str] = EXCEPTIONS) -> list[str]:
    """Return the arguments that no row tries and no exception names, and exceptions in vain."""
    open_, needed = [], set()
    for name, arguments in CALLABLES.items():
        tried = {row.argument for row in rows_of(name, table)}
        for one in (f"{name} {argument}" for argument in arguments if argument not in tried):
            for listed in exceptions.values():
                fitting = [e for e in listed.split("; ") if covers(e.strip(), one)]
                needed.update(fitting)
                if fitting:
                    break
            else:
                open_.append(one)
    named = {e.strip() for listed in exceptions.values() for e in listed.split("; ")}
    return open_ + [f"{one}: an exception that nothing needs" for one in sorted(named - needed)]


def covers(exception: str, one: str) -> bool:
    """An exception is "callable argument argument ...", or "callable" for all its arguments."""
    name, argument = one.split()
    pattern, *arguments = exception.split()
    return fnmatch.fnmatchcase(name, pattern) and (not arguments or argument in arguments)


def check(world: World, name: str, rows: Iterable[Row]) -> list[str]:
    """Return what is wrong with the refusals of a callable."""
    faults = []
    for row in rows:
        for value in row.values:
            tried = f"{name}({row.argument}={value!r}): expected {row.error.__name__} {row.words!r}"
            try:
                world.call(name, **row.beside, **{row.argument: value})
            except hr.HyrecallError as error:
                if not (isinstance(error, row.error) and str(error).startswith(row.words)):
                    faults.append(f"{tried}, got {type(error).__name__} {error}")
                elif not isinstance(error, ValueError | TypeError | LookupError):
                    faults.append(f"{tried}, got no built-in kind of error: {type(error).__name__}")
                elif ", got " not in str(error) or error.argument != str(error).split(":")[0]:
                    faults.append(f"{tried}, got {error.argument!r} in {error}")
            except Exception as error:  # any other error is a fault of its own
                faults.append(f"{tried}, got {type(error).__name__} {error}")
            else:
                faults.append(f"{tried}, got no error")
    return faults


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with World(tmp_path_factory.mktemp("world")) as made:
        yield made


@pytest.mark.parametrize("name", [name for name in CALLABLES if rows_of(name)])
def test_a_wrong_argument_is_refused_by_name_and_changes_nothing(name: str, world: World) -> None:
    before = world.state()
    assert not check(world, name, rows_of(name))
    assert world.state() == before


def test_every_argument_is_tried_or_is_an_exception() -> None:
    assert not untried()


# ---- planted bugs ----


def test_a_row_taken_out_of_the_table_is_missed() -> None:
    kept = {
        names: [row for row in rows if row.argument != "offset"] for names, rows in ROWS.items()
    }
    assert "Index.recall offset" in untried(kept)


def test_an_exception_that_a_row_covers_is_in_vain() -> None:
    more = {**EXCEPTIONS, "planted": "Index.count scope"}
    assert untried(exceptions=more) == ["Index.count scope: an exception that nothing needs"]


def test_a_check_that_accepts_is_caught(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hr.Index, "count", lambda self, **given: 0)
    assert any(
        "got no error" in fault for fault in check(world, "Index.count", rows_of("Index.count"))
    )


def test_an_error_of_another_kind_is_caught(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def count(self: hr.Index, **given: Any) -> int:
        raise ValueError("scope: expected a scope, got another")

    monkeypatch.setattr(hr.Index, "count", count)
    assert check(world, "Index.count", rows_of("Index.count"))
