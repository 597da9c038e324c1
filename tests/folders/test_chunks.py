"""Texts cut into chunks: nothing is lost, nothing is too long, and each part knows its headings."""

import re
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hyrecall.folders import Chunk, chunks
from laws.effort import Effort

UNSPACED = re.compile("[\u0e00-\u0eff\u3000-\u30ff\u4e00-\u9fff\uff00-\uffef]")


def count(text: str) -> int:
    """Count tokens, from their definition."""
    total = 0
    for word in text.split():
        alone = UNSPACED.findall(word)
        total += len(alone) + sum(-(-len(part) // 16) for part in UNSPACED.split(word))
    return total


def faults(text: str, made: list[Chunk], tokens: int, overlap: int) -> list[str]:
    """Return which promises the chunks of a text without headings break."""
    out, before = [], Chunk("", "", 0, 0)
    for at, one in enumerate(made):
        own = count(text[before.end : one.end])
        repeated = 0 if at == 0 else count(text[one.begin : before.end])
        if one.text != text[one.begin : one.end] or not one.text.strip():
            out.append(f"{at}: another text")
        if text[before.end : one.begin].strip() or one.end <= before.end:
            out.append(f"{at}: a part is missing before it")
        if count(one.text) > tokens:
            out.append(f"{at}: too long")
        if repeated != min(overlap, tokens - own, count(text[: before.end])):
            out.append(f"{at}: another overlap")
        before = one
    return out + (["the end is missing"] if text[before.end :].strip() else [])


TEXTS = st.lists(
    st.sampled_from(
        [*"abc", "tea ", "Hot. ", "\n", "\n\n", "- ", "?! ", "茶", "。", "x" * 40, "\t", "{}", "é"]
    ),
    max_size=80,
).map("".join)


def test_nothing_is_lost_or_too_long_and_the_overlap_is_as_told(effort: Effort) -> None:
    @settings(max_examples=effort.cases(quick=150, full=5000), deadline=None)
    @given(TEXTS, st.integers(1, 12), st.integers(0, 11))
    def check(text: str, tokens: int, overlap: int) -> None:
        before = min(overlap, tokens - 1)
        made = chunks(text, tokens=tokens, overlap=before, markdown=False)
        assert faults(text, made, tokens, before) == []

    check()


LETTERS = "a b c d e f g h i j k l"
PLANTED: list[tuple[str, Callable[[list[Chunk]], list[Chunk]]]] = [
    ("a part is missing", lambda made: made[:1] + made[2:]),
    ("the end is missing", lambda made: made[:-1]),
    ("a part is missing", lambda made: [made[1], made[0], *made[2:]]),
    ("too long", lambda made: [replace(made[0], end=9, text=LETTERS[:9] + " x")]),
    ("another overlap", lambda made: [made[0], replace(made[1], begin=made[1].begin + 2)]),
    ("another text", lambda made: [replace(made[0], text=made[1].text), *made[1:]]),
]


@pytest.mark.parametrize(("told", "plant"), PLANTED)
def test_a_planted_bug_is_found(told: str, plant: Callable[[list[Chunk]], list[Chunk]]) -> None:
    made = chunks(LETTERS, tokens=5, overlap=2)
    assert faults(LETTERS, made, 5, 2) == []
    assert any(told in fault for fault in faults(LETTERS, plant(made), 5, 2))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(["# a\n", "## b\n", "```\n", "c\n", "d e.\n", "\n"]), max_size=30))
def test_markdown_loses_nothing_either(lines: list[str]) -> None:
    text, before = "".join(lines), 0
    for one in chunks(text, tokens=4, overlap=1):
        assert not text[before : one.begin].strip()
        assert count(one.text) <= 4
        before = one.end
    assert not text[before:].strip()


MARKDOWN = """---
title: no heading
---
Before.

# The [guide](x.md)

## `Setup` ##

Install it.

```sh
# no heading
pip install

run
```

Under lined
===========

- item
---

### Deep {#deep}
deep

## Alone
"""


def test_headings_of_markdown_stand_above_their_chunks() -> None:
    found = chunks(MARKDOWN)
    assert [one.heading for one in found] == [
        "", "The guide > Setup", "Under lined", "Under lined > Deep", "Under lined > Alone"
    ]  # fmt: skip
    assert found[1].text.startswith("# The [guide]")
    assert found[1].text.endswith("run\n```")


def test_a_chunk_ends_where_a_paragraph_then_a_sentence_then_a_line_ends() -> None:
    def texts(text: str) -> list[str]:
        return [one.text for one in chunks(text, tokens=4, overlap=0)]

    assert texts("a b c\n\nd e\n\nf g") == ["a b c", "d e\n\nf g"]
    assert texts("a b. c d e. f g") == ["a b.", "c d e.", "f g"]
    assert texts("a b\nc d e\nf") == ["a b", "c d e\nf"]
    assert texts("茶は熱い。水は冷たい。") == ["茶は熱い", "。", "水は冷た", "い。"]
    assert texts("กำลัง") == ["กำลั", "ง"]  # the mark above stays with its letter


def test_a_block_of_code_stays_whole_where_it_fits() -> None:
    code = "```\n  a b\n\n  c d\n```"
    text = f"one two. three four.\n\n{code}\n\nfive six seven"
    assert code in [one.text for one in chunks(text, tokens=6, overlap=2)]
    assert [one.text for one in chunks("    x\n    y z", tokens=3, overlap=0, markdown=False)] == [
        "    x\n    y z"
    ]
    halves = [one.text for one in chunks(code, tokens=3, overlap=0)]
    assert halves == ["```\n  a b", "  c d\n```"]


@pytest.mark.parametrize("text", ["\n" * 200_000, "# " + " " * 200_000 + "x", "[" * 200_000,
                                  "```" * 70_000, ".'" * 100_000, "===\n" * 50_000,
                                  "# a\nb\n```\nx\n```\n" * 20_000,
                                  "ก" + "\u0e31" * 200_000])  # fmt: skip
def test_a_hostile_text_takes_no_more_than_linear_time(text: str) -> None:
    assert len(chunks(text)) <= 1 + len(text) // 16
