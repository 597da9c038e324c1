"""A request is answered on behalf of its token: a body may narrow it and never widens it."""

from __future__ import annotations

import pytest
from starlette.datastructures import Headers

from seams import ANYBODY, Caller, ServiceError, identify, narrow, require

ANN = Caller(org="acme", workspace="lab", user_id="ann")
OF_ACME = Caller(org="acme", workspace="lab", may_choose_user=True)
ANONYMOUS = Caller()


@pytest.mark.parametrize(
    ("who", "asked", "found"),
    [
        (ANN, {}, ("ann", "acme", "lab")),
        (ANN, {"user_id": "ann", "org": "acme", "workspace": "lab"}, ("ann", "acme", "lab")),
        (ANN, {"user_id": None}, ("ann", "acme", "lab")),
        (OF_ACME, {}, (None, "acme", "lab")),
        (OF_ACME, {"user_id": "bob"}, ("bob", "acme", "lab")),
        (ANONYMOUS, {}, (None, None, None)),
        (ANYBODY, {"user_id": "u", "org": "o", "workspace": "w"}, ("u", "o", "w")),
    ],
)
def test_a_body_narrows_the_callers_scope(
    who: Caller, asked: dict[str, object], found: tuple[str | None, ...]
) -> None:
    scope = narrow(who, asked)
    assert (scope["user_id"], scope["org"], scope["workspace"]) == found


@pytest.mark.parametrize(
    ("who", "asked"),
    [
        (ANN, {"user_id": "bob"}),
        (ANN, {"user_id": ""}),
        (ANN, {"org": "other"}),
        (ANN, {"workspace": "other"}),
        (OF_ACME, {"user_id": "bob", "org": "other"}),
        (OF_ACME, {"workspace": ""}),
        (ANONYMOUS, {"user_id": "bob"}),
        (ANONYMOUS, {"org": "acme"}),
    ],
)
def test_a_body_that_would_widen_it_is_refused_without_naming_the_scope(
    who: Caller, asked: dict[str, object]
) -> None:
    with pytest.raises(ServiceError) as refused:
        narrow(who, asked)
    assert refused.value.status == 403
    assert not any(str(name) in refused.value.message for name in ("bob", "acme", "lab", "other"))


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ({}, "expected the header Authorization: Bearer TOKEN"),
        ({"authorization": "Basic aGk="}, "expected the header Authorization: Bearer TOKEN"),
        ({"authorization": "Bearer "}, "expected the header Authorization: Bearer TOKEN"),
        (
            {"authorization": "Bearer hyr_old"},
            "Authorization: expected a token that this service knows, got another",
        ),
    ],
)
def test_a_missing_token_and_an_unknown_one_are_told_apart(
    header: dict[str, str], message: str
) -> None:
    class NoTokens:
        def find(self, token: str) -> None: ...

    with pytest.raises(ServiceError) as refused:
        identify(NoTokens(), Headers(header))
    assert (refused.value.status, refused.value.message) == (401, message)


def test_a_right_that_a_caller_lacks_is_refused() -> None:
    assert require(ANYBODY, "upkeep") is ANYBODY
    with pytest.raises(ServiceError, match="write"):
        require(ANN, "write")
