"""Scopes of a batch are told apart by their cells, not by how they look."""

from __future__ import annotations

import numpy as np
import pytest

import hyrecall as hr
from seams import distinct_scopes
from seams import scope as scopes


class Hidden(str):
    """A string that does not show its value, as types for secrets do."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "***"


USERS = [Hidden("ann"), Hidden("bob"), Hidden("ann")]


@pytest.mark.parametrize("form", [str, hr.Scope])
def test_strings_that_hide_their_value_are_scopes_of_their_own(form: type) -> None:
    asked = USERS if form is str else [hr.Scope([one]) for one in USERS]
    assert distinct_scopes(asked, 3).tolist() == [0, 1, 0]


def test_scopes_compared_by_how_they_look_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scopes, "scope_key", repr)  # the planted bug
    assert distinct_scopes(USERS, 3).tolist() != [0, 1, 0]


def test_distinct_scopes_are_told_apart_by_type_and_value() -> None:
    given = [
        1, True, "1", hr.Scope([1]), hr.Scope([True]), hr.Scope([]), (1, "a"), (True, "a"),
        hr.Scope.matching(user=hr.ANY), hr.Scope.matching(user="1"), hr.Scope([(1, "a")]),
    ]  # fmt: skip
    found = distinct_scopes(given + given[::-1], 2 * len(given))
    assert found.tolist() == [*range(len(given)), *reversed(range(len(given)))]
    assert distinct_scopes("ann", 3).tolist() == [0, 0, 0]
    assert distinct_scopes([np.int64(1), np.int64(1)], 2).tolist() == [0, 1]  # costs time alone
