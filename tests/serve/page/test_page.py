"""Recalls in a headless Chromium: hits, bars, trace, faults, and two recipes side by side."""

from __future__ import annotations

import pytest

import hyrecall as hr
from hyrecall.memory import MemorySync
from serve.page.conftest import Open
from serve.page.driving import QUERY, goto, recall, texts
from serve.page.served import HOSTILE, TEXTS, index

PARTS = """parts => parts.map((part) =>
  [parseFloat(part.style.left), parseFloat(part.style.width)])"""


@pytest.mark.slow
def test_each_hit_has_a_bar_whose_parts_are_what_the_arms_added(
    open_page: Open, memory: MemorySync
) -> None:
    page = open_page()
    recall(page)
    expected = memory.search(QUERY, user_id="alice")
    assert texts(page, "li.hit .about .id") == [one.episode.id for one in expected]
    assert texts(page, "li.hit .rank") == [str(at) for at in range(1, len(expected) + 1)]
    made = [one.explain() for one in expected]
    longest = max(sum(part.contribution for part in one.components) for one in made)
    hits = page.locator("li.hit")
    for at, one in enumerate(made):
        shares = hits.nth(at).locator(".part").evaluate_all(PARTS)
        wanted, left = [], 0.0
        for part in one.components:
            if part.contribution:
                wanted.append([100 * left / longest, 100 * part.contribution / longest])
                left += part.contribution
        assert [pytest.approx(pair, abs=1e-3) for pair in wanted] == shares
        told = hits.nth(at).locator(".bar").get_attribute("aria-label")
        assert all(f"{part.arm} adds" in told for part in one.components)
        ranks = [f"rank {part.rank}" for part in one.components if part.rank]
        lines = hits.nth(at).locator(".arms").inner_text()
        assert all(rank in lines for rank in ranks)


@pytest.mark.slow
def test_the_trace_tells_steps_with_times_and_how_many_each_stage_dropped(
    open_page: Open, memory: MemorySync
) -> None:
    page = open_page()
    page.select_option("#recipe", "honeycomb")
    recall(page)
    expected = memory.search(QUERY, user_id="alice", recipe=hr.recipes.honeycomb)
    trace = expected.trace
    assert trace is not None
    assert len(texts(page, ".times tr")) == len(trace.milliseconds)
    assert all(line.endswith(("ms", "s")) for line in texts(page, ".times tr"))
    found = [line.split()[-1] for line in texts(page, ".found tr")]
    assert found == [str(count) for count in expected.tiers.values() if count]
    assert f"Nothing by {next(arm for arm, count in expected.tiers.items() if not count)}" in (
        page.inner_text(".trace")
    )
    stages = texts(page, ".stages > li")
    assert len(stages) == len(trace.stages) == 3
    for shown, stage in zip(stages, trace.stages, strict=True):
        assert stage.stage in shown
        assert f"{stage.n_in} in, {stage.n_out} out" in shown
    dropped = [stage.n_in - stage.n_out for stage in trace.stages]
    assert max(dropped) == 1
    assert "1 dropped: nearly the same as a memory that was kept" in stages[dropped.index(1)]
    assert "stands for 1 duplicate" in page.inner_text("ol.hits")
    row = expected.explain_dropped().stages[dropped.index(1)].rows[0]
    assert row.kept is not None
    told = stages[dropped.index(1)]
    assert f"{row.place} {row.key} duplicate of {row.kept.key}: similarity " in told
    assert "does not name it" not in page.inner_text(".trace")


@pytest.mark.slow
def test_a_reply_that_probably_holds_no_answer_says_so_and_every_one_how_sure_it_is(
    open_page: Open, memory: MemorySync, index_service: str
) -> None:
    page = open_page()
    for query, is_doubtful in ((QUERY, False), ("does Nora paint in May 1999", True)):
        recall(page, query)
        sure = memory.search(query, user_id="alice").confidence
        assert sure is not None
        assert (sure < 0.2) == is_doubtful
        assert f"confidence {sure:.2f}" in page.inner_text(".summary")
        told = page.inner_text("#reply")
        assert ("Probably nothing here answers: these are best guesses." in told) == is_doubtful
    page.select_option("#beside", "honeycomb")
    page.wait_for_selector(".both")
    assert page.inner_text(".both").count("Probably nothing here answers") == 2


@pytest.mark.slow
def test_a_degraded_reply_says_in_words_what_did_not_run(
    open_page: Open, plain_service: str
) -> None:
    page = open_page(plain_service)
    recall(page)
    told = page.inner_text(".degraded")
    assert "Less than it could be" in told
    assert "The embedder failed, so only words were matched" in told
    # Its recipe takes the largest part, so the parts lie one under the other.
    assert page.locator("li.hit .bar.largest").count() == page.locator("li.hit").count() > 0


def test_filters_and_scope_narrow_the_reply(open_page: Open, memory: MemorySync) -> None:
    page = open_page(user="bob")
    recall(page)
    assert texts(page, "li.hit .about .id") == ["bobs"]
    page.fill("[name=user_id]", "alice")
    page.click("#filters summary")
    page.fill("[name=filter]", '{"kind": "fact"}')
    page.fill("[name=limit]", "2")
    assert page.inner_text("#filters-count") == "(1 set)"
    recall(page)
    page.wait_for_selector("li.hit >> nth=1")
    wanted = memory.search(QUERY, user_id="alice", filter=hr.Filter(kind="fact"), limit=2)
    assert texts(page, "li.hit .about .id") == [one.episode.id for one in wanted]
    page.fill("[name=filter]", "{kind")
    page.press("[name=filter]", "Enter")
    page.wait_for_selector("#notice:not([hidden])")
    assert "Filter: expected JSON" in page.inner_text("#notice")


@pytest.mark.slow
def test_two_recipes_stand_side_by_side_with_the_differences_of_rank_marked(
    open_page: Open, memory: MemorySync
) -> None:
    page = open_page()
    query = "replica log volume tea"
    page.select_option("#beside", "honeycomb")
    recall(page, query)
    page.wait_for_selector(".both")
    ids = {
        name: [
            one.episode.id
            for one in memory.search(query, user_id="alice", recipe=getattr(hr.recipes, name))
        ]
        for name in ("default", "honeycomb")
    }
    assert ids["default"] != ids["honeycomb"]
    for at, (own, other) in enumerate((("default", "honeycomb"), ("honeycomb", "default"))):
        column = page.locator(".column").nth(at)
        shown = column.locator("li.hit .about .id").all_inner_texts()
        assert shown == ids[own]
        marks = [one.replace("\n", " ") for one in column.locator(".move").all_inner_texts()]
        for rank, (key, mark) in enumerate(zip(ids[own], marks, strict=True), 1):
            there = ids[other].index(key) + 1 if key in ids[other] else None
            if there is None:
                assert mark == f"not in {other}"
            elif there == rank:
                assert mark == f"same in {other}"
            else:
                assert mark.startswith("▲" if there > rank else "▼")
                assert mark.endswith(f" {abs(there - rank)}, rank {there} in {other}")
    shared = set(ids["default"]) & set(ids["honeycomb"])
    assert page.locator(".gutter path").count() == len(shared)
    assert f"{len(shared)} hits in both" in page.inner_text(".summary")


def test_an_index_is_asked_within_a_scope_and_filtered(open_page: Open, index_service: str) -> None:
    page = open_page(index_service)
    assert not page.is_visible("[data-view=files]")
    page.fill("#query", QUERY)
    page.press("#query", "Enter")
    page.wait_for_selector("#notice:not([hidden])")
    assert "scope: expected a cell of (user)" in page.inner_text("#notice")
    page.fill("[name=scope]", "alice")
    recall(page)
    own = index()
    wanted = own.recall_one(text=QUERY, scope="alice")
    assert texts(page, "li.hit .about .id") == [hit.key for hit in wanted]
    assert page.locator("li.hit").first.locator(".part").count() == 1  # a query without a vector
    assert TEXTS["twin"] in page.inner_text("ol.hits")
    assert len(texts(page, ".times tr")) >= 4
    page.fill("[name=scope]", '{"any_of": ["alice", "bob"]}')
    page.click("#filters summary")
    page.fill("[name=filter]", '{"kind": "note"}')
    recall(page, "tea replica")
    assert texts(page, "li.hit .about .id") == ["tea"]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::hyrecall.memory.IsolationWarning")
def test_a_newcomer_is_told_what_to_do_and_why_nothing_was_found(open_page: Open) -> None:
    page = open_page()
    told = page.inner_text("#welcome")
    assert "Type a query" in told
    assert "under User" in told
    assert "hyrecall remember" in told
    page.fill("[name=user_id]", "")
    recall(page)
    assert not page.is_visible("#welcome")
    assert "write the name under User" in page.inner_text("#reply .empty-list")
    page.fill("[name=user_id]", "nobody")
    recall(page)
    page.wait_for_selector("text=Nothing in this scope matches.")


# ---- one memory, and files ----


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
def test_words_of_the_query_are_marked_where_they_stand(
    open_page: Open, memory: MemorySync
) -> None:
    page = open_page()
    recall(page)
    found = memory.search(QUERY, user_id="alice")
    words = [one.episode.full_text[start:end] for one in found for start, end in one.highlights()]
    assert texts(page, "li.hit .text mark") == words


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
