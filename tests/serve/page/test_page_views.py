"""One memory and the files in a headless Chromium; no stored text runs in any view."""

from __future__ import annotations

from serve.page.conftest import Open
from serve.page.driving import goto, recall, texts
from serve.page.served import HOSTILE, TEXTS


def test_a_memory_shows_its_versions_with_what_changed_and_its_neighbours(open_page: Open) -> None:
    page = open_page()
    goto(page, "#/memory/disk", "svg.graph")
    assert texts(page, ".version b") == ["Version 2", "Version 1"]
    assert page.locator(".version").first.locator("ins").all_inner_texts() == [
        "full; a larger disk helped"
    ]
    assert page.locator(".version").first.locator("del").all_inner_texts() == ["full"]
    assert page.locator("svg.graph a").count() == 4  # lag, twin, limits, the hostile one
    assert page.locator("svg.graph .joint").count() == 1  # the hyperedge
    links = page.locator("svg.graph a").evaluate_all(
        "all => all.map((a) => a.getAttribute('href'))"
    )
    assert "#/memory/lag" in links
    page.locator("svg.graph a[href='#/memory/lag']").focus()
    page.keyboard.press("Enter")
    page.wait_for_selector("h1:text-is('lag')")
    assert page.evaluate("document.activeElement.tagName") == "H1"


def test_the_store_can_be_listed_read_and_searched_as_files(open_page: Open) -> None:
    page = open_page()
    goto(page, "#/files/", ".listing")
    assert "memories/" in texts(page, ".listing a")
    page.click(".listing a:text-is('memories/')")
    page.click(".listing a:text-is('fact/')")
    page.click(".listing a:text-is('tea.md')")
    page.wait_for_selector(".file pre")
    assert TEXTS["tea"] in page.inner_text(".file pre")
    page.fill(".grep [name=pattern]", "rate_limiter")
    page.press(".grep [name=pattern]", "Enter")
    page.wait_for_selector(".found-files")
    assert texts(page, ".found-files a") == ["/memories/fact/limits.md"]
    page.select_option(".grep [name=kind]", "find")
    page.fill(".grep [name=pattern]", "t*.md")
    page.press(".grep [name=pattern]", "Enter")
    page.wait_for_selector("h2:has-text('find')")
    assert sorted(texts(page, ".found-files a")) == [
        "/memories/fact/tea.md",
        "/memories/fact/twin.md",
    ]
    goto(page, "#/files/memories/fact/none.md", ".crumbs:has-text('none.md')")
    assert "no such file" in page.inner_text(".file")


def test_markup_in_memories_is_shown_and_never_run(open_page: Open) -> None:
    page = open_page()
    recall(page)
    page.locator("li.hit", has_text="window.ran=1").locator("summary").click()
    assert HOSTILE in page.inner_text("ol.hits")
    assert "<i>kind</i>" in page.inner_text("ol.hits")
    page.select_option("#beside", "honeycomb")
    page.wait_for_selector(".both")
    seen = [page.inner_text(".both")]
    goto(page, "#/memory/" + "%3Cb%3Ebold%3C%2Fb%3E", "svg.graph")
    seen.append(page.inner_text("#view-memory"))
    goto(page, "#/memory/disk", "h1:text-is('disk')")
    seen.append(page.inner_text("#view-memory"))
    assert "on <em>call</em>" in seen[-1]
    goto(page, "#/files/memories/", ".listing")
    page.click(".listing a:has-text('<i>')")
    page.click(".listing a:has-text('<b>')")
    page.wait_for_selector(".file pre")
    seen.append(page.inner_text(".file"))
    page.fill(".grep [name=pattern]", "window.ran")
    page.press(".grep [name=pattern]", "Enter")
    page.wait_for_selector(".found-files")
    seen.append(page.inner_text(".found-files"))
    for text in seen:
        assert HOSTILE.splitlines()[0] in text
    assert page.evaluate("window.ran") is None
    assert (
        page.locator(
            "body script, body img, body iframe, body b > b, body u, body s, body em"
        ).count()
        == 0
    )
    assert page.locator("a[href^='javascript']").count() == 0
