"""Emoji are words of ``unicode``: one for each character that readers see."""

import re
from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laws.effort import Effort
from seams import Analyzer

EMOJI = {
    "👨\u200d👩\u200d👧👍🏽": ["👨\u200d👩\u200d👧", "👍🏽"],
    "🏳\ufe0f\u200d🌈 🏳\u200d🌈": ["🏳\u200d🌈"] * 2,
    "❤ ❤\ufe0f ❤\ufe0e ❤\u0301": ["❤"] * 4,
    "🇩🇪🇫🇷🇩 🇩🇪": ["🇩🇪", "🇫🇷", "🇩", "🇩🇪"],
    "🏴\U000e0067\U000e0062\U000e007f🏴": ["🏴\U000e0067\U000e0062\U000e007f", "🏴"],
    "a1\ufe0f\u20e3b 2024-3\u20e3": ["a", "1\u20e3", "b", "2024", "3\u20e3"],
    "C#\u20e3 *\ufe0f\u20e3 C# e\u20e3": ["c", "#\u20e3", "*\u20e3", "c#", "c", "e"],
    "go🍕go \U0001fae8": ["go", "🍕", "go", "\U0001fae8"],  # the last one is of Unicode 15
    "© ® ™ ★ → ↔ ∑": [],
    "😀\u200d a\u200d😀": ["😀", "a", "😀"],
    "한🍕국": ["한", "🍕", "국"],
}


@pytest.mark.parametrize(("text", "wanted"), EMOJI.items())
def test_an_emoji_is_one_word(text: str, wanted: list[str]) -> None:
    for role in ("document", "query"):
        assert [one.term for one in Analyzer().explain(text, role=role)] == wanted


def test_other_presets_have_no_emoji() -> None:
    for name in ("word", "unicode61", "porter", "snowball:english"):
        assert [one.term for one in Analyzer(name).explain("go 😀🇩🇪 up")] == ["go", "up"]


# ---- the definition ----

Cut = Callable[[str], list[str]]
PICTURES, FLAGS, JOINER, MARKS = "😀❤🍕👩", "🇩🇪", "\u200d", "\ufe0f\u0301\u20e3\u200d🏽"

KEYCAP = re.compile("[1#]\ufe0f?\u20e3")


def cut(text: str) -> list[str]:
    """The emoji of a text as it is written, by the rules GB9, GB11, GB12 and GB13 of UAX #29."""
    starts = [at for at in range(len(text)) if at == 0 or not goes_on(text, at)]
    clusters = [text[a:b] for a, b in pairwise([*starts, len(text)])]
    return [one for one in clusters if one[0] in PICTURES + FLAGS or KEYCAP.match(one)]


def goes_on(text: str, at: int) -> bool:
    """Whether the character belongs to the one before."""
    before = text[:at]
    if text[at] in FLAGS:
        return (len(before) - len(before.rstrip(FLAGS))) % 2 == 1
    if text[at] in PICTURES:
        return before.endswith(JOINER) and before.rstrip(MARKS)[-1:] in {*PICTURES}
    return text[at] in MARKS


def explained(text: str) -> list[str]:
    made = [text[one.start : one.end] for one in Analyzer().explain(text)]
    return [one for one in made if one[0] != "1" or KEYCAP.match(one)]


def by_code_point(text: str) -> list[str]:
    return re.findall(f"[{PICTURES}{FLAGS}]", text)


def with_half_flags(text: str) -> list[str]:
    made = explained(text)
    return [part for one in made for part in ([*one] if one[0] in FLAGS else [one])]


def joined_to_anything(text: str) -> list[str]:
    return explained(re.sub(f"[1{FLAGS}]", "🍕", text))


def without_keycaps(text: str) -> list[str]:
    return explained(text.replace("\u20e3", ""))


def check_emoji(cut_by: Cut, effort: Effort) -> None:
    parts = st.sampled_from((*PICTURES, *FLAGS, *"\u200d\ufe0f\u0301\u20e31# ", "👩🏽"))

    @settings(max_examples=effort.cases(quick=200, full=4000))
    @given(st.lists(parts, max_size=12).map("".join))
    def check(text: str) -> None:
        assert cut_by(text) == cut(text)

    check()


def test_an_emoji_begins_and_ends_where_readers_see_it(effort: Effort) -> None:
    check_emoji(explained, effort)


@pytest.mark.parametrize(
    "planted", [by_code_point, with_half_flags, joined_to_anything, without_keycaps]
)
def test_a_wrong_cut_is_noticed(planted: Cut, effort: Effort) -> None:
    with pytest.raises(AssertionError):
        check_emoji(planted, effort)
