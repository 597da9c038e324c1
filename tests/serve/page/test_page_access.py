"""The page by keyboard, on a phone, in both schemes of colours, and without motion."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

import pytest

from serve.page.conftest import Open
from serve.page.driving import FOCUS, MOVING, POOR_CONTRAST, QUERY, WIDER, goto, recall

ASKED = f"#/recall?{urlencode({'query': QUERY, 'user_id': 'alice'})}"


@pytest.mark.slow
def test_every_view_can_be_used_by_keyboard_alone(open_page: Open) -> None:
    page = open_page()
    page.keyboard.press("Escape")
    page.keyboard.press("/")
    page.keyboard.type(QUERY)
    page.keyboard.press("Enter")
    page.wait_for_selector("li.hit")
    page.keyboard.press("Escape")
    assert page.input_value("#query") == QUERY
    focused = "document.activeElement.getAttribute('aria-label')"
    page.keyboard.press("j")
    assert page.evaluate(focused) == "Rank 1"
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("k")
    assert page.evaluate(focused) == "Rank 2"
    page.keyboard.press("e")
    assert page.locator("li.hit").nth(1).locator("details[open] pre").is_visible()
    page.keyboard.press("?")
    assert page.locator("#keys-dialog").is_visible()
    page.keyboard.press("f")  # no shortcut works behind a dialog
    page.keyboard.press("Escape")
    assert page.evaluate("location.hash") == ASKED
    assert not page.locator("#keys-dialog").is_visible()
    assert page.evaluate(focused) == "Rank 2"
    name = page.locator("li.hit").nth(1).locator(".about .id").inner_text()
    page.keyboard.press("Enter")
    page.wait_for_selector(f"h1:text-is('{name}')")
    page.keyboard.press("f")
    page.wait_for_selector(".listing")
    page.keyboard.press("r")
    page.wait_for_selector("#view-recall:not([hidden]) li.hit")  # the reply is still there
    page.keyboard.press("?")
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Space")
    page.keyboard.press("Escape")
    page.keyboard.press("f")
    assert page.evaluate("location.hash") == ASKED  # single letters are off


@pytest.mark.slow
def test_the_tab_key_reaches_everything_visibly_and_is_caught_nowhere(open_page: Open) -> None:
    page = open_page()
    for place, selector in (
        ("#/recall", "li.hit"),
        ("#/memory/disk", "svg.graph"),
        ("#/files/memories/", ".listing"),
    ):
        if place == "#/recall":
            recall(page, "tea")
        else:
            goto(page, place, selector)
        page.evaluate("document.activeElement.blur()")
        page.evaluate("window.getSelection().removeAllRanges()")
        met = []
        for _ in range(80):
            page.keyboard.press("Tab")
            found = page.evaluate(FOCUS)
            if found is None and met:
                break
            if found is not None:
                met.append(tuple(found))
        else:
            pytest.fail(f"{place}: the focus never left the page: {met[-5:]}")
        assert [one for one in met if not one[2]] == []
        assert all(name for _, name, _ in met)
        if place == "#/memory/disk":
            assert sum(tag == "a" for tag, _, _ in met) == 4  # the nodes of the drawing


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        {"color_scheme": "light"},
        {"color_scheme": "dark", "viewport": {"width": 360, "height": 740}, "has_touch": True},
    ],
    ids=["light", "dark, on a phone"],
)
def test_every_text_stands_out_from_its_ground_and_nothing_is_wider_than_the_screen(
    open_page: Open, options: dict[str, Any]
) -> None:
    page = open_page(**options)
    found = []

    def look() -> None:
        found.append(page.evaluate(POOR_CONTRAST))
        assert page.evaluate(WIDER) == 0

    page.select_option("#recipe", "honeycomb")
    recall(page)
    page.click("li.hit summary >> nth=0")
    look()
    page.select_option("#beside", "default")
    page.wait_for_selector(".both")
    look()
    goto(page, "#/memory/disk", "svg.graph")
    look()
    goto(page, "#/files/memories/fact/tea.md", ".file pre")
    look()
    assert [poor for _, poor in found] == [[]] * 4
    assert min(count for count, _ in found) > 15


@pytest.mark.slow
def test_nothing_moves_for_those_who_want_less_motion(open_page: Open) -> None:
    still = open_page(reduced_motion="reduce")
    recall(still)
    assert still.evaluate(MOVING) == 0
    lively = open_page(reduced_motion="no-preference")
    recall(lively)
    assert lively.evaluate(MOVING) > 0
