"""The token of the page, and what it says when the service refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hyrecall.memory import MemorySync
from hyrecall.serve import Caller, ServiceOptions
from seams import make_token
from serve.page.conftest import Open
from serve.page.driving import QUERY, goto, recall, texts, wait_until
from serve.page.served import serving


def test_the_token_goes_out_in_one_header_and_lives_in_the_tab_alone(open_page: Open) -> None:
    page = open_page()
    sent: list[str | None] = []
    page.on(
        "request",
        lambda one: sent.append(one.headers.get("authorization")) if "/v1/" in one.url else None,
    )
    page.route(
        "**/v1/recall",
        lambda route: route.fulfill(
            status=401, json={"error": {"type": "Unauthorized", "message": "no"}}
        ),
        times=1,
    )
    page.fill("#query", QUERY)
    page.press("#query", "Enter")
    page.wait_for_selector("#token-dialog[open]")
    assert "wants a token" in page.inner_text("#notice")
    page.fill("#token", "a-secret")
    page.press("#token", "Enter")
    page.wait_for_selector("#token-dialog:not([open])", state="attached")
    recall(page)
    assert sent[0] is None
    assert set(sent[1:]) == {"Bearer a-secret"}
    kept = page.evaluate(
        "[Object.values(sessionStorage), localStorage.length, document.cookie, location.href]"
    )
    assert kept[:3] == [["a-secret"], 0, ""]
    assert "a-secret" not in kept[3]
    assert page.input_value("#token") == ""
    page.click("#open-token")
    page.click("text=Forget it")
    # The page hears of a closed dialog in a task of its own, after the click has returned.
    wait_until(page, "sessionStorage.length === 0")


def test_a_token_of_one_user_fixes_the_scope_of_every_view(
    open_page: Open, memory: MemorySync, tmp_path: Path
) -> None:
    path = tmp_path / "tokens.json"
    token = make_token(path, Caller(user_id="bob"))
    with serving(memory, ServiceOptions(tokens=path)) as address:
        page = open_page(address, connects=False)
        page.wait_for_selector("#token-dialog[open]")
        page.fill("#token", "hyr_wrong")
        page.press("#token", "Enter")
        page.wait_for_selector("#notice:has-text('wants a token')")
        page.fill("#token", token)
        page.press("#token", "Enter")
        page.wait_for_selector("#served:not(:empty)", state="attached")
        assert page.input_value("[name=user_id]") == "bob"
        assert not page.is_editable("[name=user_id]")
        assert not page.is_visible("[name=org]")
        recall(page)
        assert texts(page, "li.hit .about .id") == ["bobs"]
        goto(page, "#/files/memories/", ".listing")
        assert texts(page, ".listing a") == ["../", "episodic/"]
        goto(page, "#/memory/disk", "h1:text-is('disk')")
        assert "There is no such memory in this scope" in page.inner_text("#view-memory")
        page.evaluate("sessionStorage.clear()")
        page.goto("about:blank")  # before the service ends


REFUSALS = [
    (429, {"Retry-After": "3"}, "too many requests", "busy. Try again in 3 s"),
    (503, {"Retry-After": "1"}, "the store cannot", "busy. Try again in 1 s"),
    (422, {}, "limit: expected <= 100", "limit: expected <= 100"),
    (403, {}, "user_id: expected the token's", "This token may not do that. (user_id"),
    (500, {}, "an internal error", "an internal error"),
]


@pytest.mark.slow
def test_a_refusal_is_told_in_words(open_page: Open) -> None:
    page = open_page()
    for status, headers, message, shown in REFUSALS:
        body = json.dumps({"error": {"type": "Any", "message": message}})
        sent = {"Content-Type": "application/json", **headers}
        page.route(
            "**/v1/recall",
            lambda route, *, made=(status, sent, body): route.fulfill(
                status=made[0], headers=made[1], body=made[2]
            ),
            times=1,
        )
        page.fill("#query", QUERY)
        page.press("#query", "Enter")
        page.wait_for_selector(f"#notice:has-text({json.dumps(shown)})")
    page.route("**/v1/recall", lambda route: route.abort(), times=1)  # the service is gone
    page.press("#query", "Enter")
    page.wait_for_selector("#notice:has-text('cannot be reached')")
    assert page.get_attribute("#notice", "role") == "alert"
    recall(page)
    assert not page.is_visible("#notice")
