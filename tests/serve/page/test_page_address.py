"""The address of a recall: reload, back and forward, a link for another, and hostile links."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode

import pytest

from hyrecall.memory import MemorySync
from hyrecall.serve import Caller, ServiceOptions
from seams import make_token
from serve.page.conftest import Open
from serve.page.driving import goto, recall, texts, wait_until
from serve.page.served import HOSTILE, serving

FORM = """() => Object.fromEntries([...document.forms.ask.elements]
  .filter((one) => one.name).map((one) => [one.name, one.value]))"""
HITS = "#reply:not([aria-busy]) li.hit"


def asked(page: Any) -> dict[str, str]:
    """What the address says."""
    head, _, tail = page.evaluate("location.hash").partition("?")
    assert head == "#/recall"
    found = parse_qs(tail, keep_blank_values=True, strict_parsing=True)
    return {name: value for name, (value,) in found.items()}


def shown(page: Any) -> tuple[dict[str, str], list[str]]:
    page.wait_for_selector(HITS)
    return page.evaluate(FORM), texts(page, "li.hit .about .id")


def follow(page: Any, **fields: str) -> None:
    """Follow a link, as one that another has sent."""
    goto(page, f"#/recall?{urlencode(fields)}", "#view-recall:not([hidden])")


def fill_all(page: Any) -> None:
    """Ask with every kind of field."""
    page.select_option("#recipe", "honeycomb")
    page.fill("[name=limit]", "2")
    page.click("#filters summary")
    page.fill("[name=kind]", "fact")
    page.fill("[name=from]", "2026-02-01T10:30")
    page.fill("[name=filter]", '{"kind": ["fact", "note"]}')
    recall(page)


def test_a_reload_shows_the_same_recall_with_every_field(open_page: Open) -> None:
    page = open_page()
    recall(page, "tea & ünï+code #1 at four?")
    assert asked(page) == {"query": "tea & ünï+code #1 at four?", "user_id": "alice"}
    fill_all(page)
    before = shown(page)
    assert set(asked(page)) == {"query", "user_id", "recipe", "limit", "kind", "from", "filter"}
    page.reload()
    assert shown(page) == before
    assert len(before[1]) == 2
    assert page.inner_text("#filters-count") == "(3 set)"
    page.select_option("#beside", "hebb" if "hebb" in texts(page, "#beside option") else "default")
    page.wait_for_selector(".both")
    page.reload()
    page.wait_for_selector(".both")


@pytest.mark.slow
def test_back_and_forward_walk_through_the_recalls(open_page: Open) -> None:
    page = open_page()
    recall(page)
    first = shown(page)
    page.fill("[name=limit]", "1")
    recall(page, "tea")
    second = shown(page)
    assert second[1] == ["tea"] != first[1]
    page.click(HITS + " a.id")
    page.wait_for_selector("h1:text-is('tea')")
    page.click("#view-memory .crumbs a")  # leads to the recall, and not to an empty form
    page.wait_for_selector("#view-recall:not([hidden])")
    assert shown(page) == second
    for _ in range(3):
        page.go_back()
    page.wait_for_selector(f"{HITS}:nth-child(2)")
    assert shown(page) == first
    page.go_back()
    page.wait_for_selector("#welcome", state="visible")
    assert not page.locator("#reply > *").count()
    page.go_forward()
    assert shown(page) == first
    page.go_forward()
    page.wait_for_selector("li.hit:has-text('Tea at four')")
    assert shown(page) == second


@pytest.mark.slow
def test_a_link_shows_the_same_recall_in_another_profile_and_zone(
    open_page: Open, service: str
) -> None:
    page = open_page(timezone_id="Europe/Berlin")
    fill_all(page)
    before, link = shown(page), page.url
    assert asked(page)["from"] == "2026-02-01T09:30:00.000Z"
    other = open_page(timezone_id="Asia/Kolkata", user="")
    other.goto("about:blank")
    other.goto(link)
    after = shown(other)
    assert after[1] == before[1]
    assert after[0] == {**before[0], "from": "2026-02-01T15:00"}
    other.reload()
    assert asked(other) == asked(page)


@pytest.mark.slow
def test_a_link_asks_for_the_token_and_then_shows_its_recall_but_never_as_another_user(
    open_page: Open, memory: MemorySync, tmp_path: Path
) -> None:
    path = tmp_path / "tokens.json"
    token = make_token(path, Caller(user_id="bob"))
    with serving(memory, ServiceOptions(tokens=path)) as address:
        page = open_page(address, connects=False)
        page.goto("about:blank")
        page.goto(f"{address}/#/recall?query=replica&user_id=bob&limit=3")
        page.wait_for_selector("#token-dialog[open]")
        page.fill("#token", token)
        page.press("#token", "Enter")
        assert shown(page)[1] == ["bobs"]
        assert token not in page.url
        follow(page, query="replica", user_id="alice")
        page.wait_for_selector("#notice:has-text('Link, user_id: expected what the token says')")
        assert page.input_value("[name=user_id]") == "bob"
        assert not page.locator("li.hit").count()
        page.evaluate("sessionStorage.clear()")
        page.goto("about:blank")  # before the service ends


REFUSED = [
    ({"query": "tea", "recipe": "<b>none</b>"}, "recipe: expected"),
    ({"query": "tea", "limit": "0"}, "Limit: expected a whole number"),
    ({"query": "tea", "limit": "many"}, "Link, limit: expected a number, got many"),
    ({"query": "tea", "from": "<i>soon</i>"}, "Link, from: expected a time, got <i>soon</i>"),
    ({"query": "tea", "filter": "{'"}, "Filter: expected JSON"),
    ({"query": "tea", "filter": "[1]"}, "filter: expected"),
    ({"query": "tea", "__proto__": "x"}, "Link, __proto__: expected one of query, recipe"),
    ({"query": "tea", "constructor": "x"}, "Link, constructor: expected one of"),
    ({"query": "tea", "token": "hyr_x"}, "Link, token: expected one of"),
    ({"query": "tea", "scope": "alice"}, "Link, scope: expected one of"),
    ({"query": "tea" * 40_000}, ": expected <= "),
    ({"query": "tea", "<script>window.ran=1</script>" * 99: "x"}, "Link, <script>window.ran=1"),
]


@pytest.mark.slow
def test_a_link_that_is_refused_says_why_beside_the_form(open_page: Open) -> None:
    page = open_page()
    for fields, told in REFUSED:
        follow(page, query="tea", user_id="alice")
        page.wait_for_selector(HITS)
        assert not page.is_visible("#notice")
        follow(page, user_id="alice", **fields)
        wait_until(page, f"document.querySelector('#notice').textContent.includes({told!r})")
        assert len(page.inner_text("#notice")) < 400
        assert page.is_visible("#notice")
        assert page.is_visible("#query")
        assert page.input_value("#query") == fields["query"]
        assert not page.locator("#reply > *").count()
    assert page.evaluate("[window.ran, ({}).x]") == [None, None]
    page.reload()
    page.wait_for_selector("#notice:has-text('Link, <script>')")


@pytest.mark.plain_cases(1)
@pytest.mark.parametrize("name", ["query", "recipe", "user_id", "kind", "tags", "session_id"])
def test_what_a_link_says_is_never_markup(open_page: Open, name: str) -> None:
    page = open_page()
    value = HOSTILE + "'\"`</script></option></select>"
    follow(page, **{"query": "tea", "user_id": "alice", name: value})
    wait_until(page, "document.querySelector('#reply').childElementCount || !notice.hidden")
    wait_until(page, "!document.querySelector('#reply').hasAttribute('aria-busy')")
    assert page.evaluate(FORM)[name] == value
    assert page.evaluate("window.ran") is None
    found = "#ask img, #ask b, #notice *, #welcome img, header img, body script, a[href^='java']"
    assert page.locator(found).count() == 0
    assert page.locator("#reply .summary img, #reply .empty-list *").count() == 0


@pytest.mark.slow
def test_broken_links_show_the_page(open_page: Open) -> None:
    page = open_page()
    for place in (
        "#/recall?",
        "#/recall?%",
        "#/recall?&&&=&%ff%zz",
        "#?query=tea",
        "#/__proto__?a",
    ):
        goto(page, place, "#view-recall:not([hidden])")
        assert page.is_visible("#query")
        assert page.is_visible("#welcome")
