"""Where tokens stand: what ``text[start:end]`` is, in every script and spelling."""

import unicodedata
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

from laws.effort import Effort
from seams import Analyzer

PRESETS = (
    "word", "unicode", "unicode61", "porter",
    "unicode:english", "snowball:english", "snowball:turkish", "snowball:greek",
)  # fmt: skip
WORDS = (
    "tea", "Straße", "Crème", "brûlée", "ﬁre", "한", "𝒜𝒷", "𐐀𐐁", "ΣΑΣ", "Ångström", "ǰa",
    "Ёлка", "Ｗｉｄｅ", "Łódź", "İzmir",
)  # fmt: skip
CHAINS = (("INV", "-", "2026"), ("ünï", ".", "Cödé"), ("crème", "Brûlée"), ("a1", "_", "b2"))
DENSE = (
    ("東", "京", "都"), ("か\u3099", "ｶﾞ", "ー", "ﾊ"), ("น้", "ท", "ย"), ("ក្", "ខ"),
    ("한", "국", "어"), tuple(unicodedata.normalize("NFD", one) for one in "한국어"),
)  # fmt: skip
EMOJI = (
    "😀", "👨\u200d👩\u200d👧", "👍🏽", "❤\ufe0f", "🇩🇪", "1\ufe0f\u20e3",
    "🏴\U000e0067\U000e0062\U000e007f",
)  # fmt: skip
BETWEEN = (" ", ", ", "\n", "。", "! \u0301")
Spans = list[tuple[int, int]]
Locate = Callable[[str, str], Spans]


def nfd(text: str) -> str:
    return unicodedata.normalize("NFD", text)


def spans(name: str, text: str) -> Spans:
    return [(one.start or 0, one.end or 0) for one in Analyzer(name).explain(text)]


def check_words(locate: Locate, name: str, words: list[tuple[str, str]]) -> None:
    """Every word has the place at which it was put; ``word`` ends words after a dotted I."""
    text, placed = "", []
    for word, between in words:
        if name != "word" or "i̇" not in word.lower():
            placed.append((len(text), len(text) + len(word)))
            text += word
        text += between
    assert locate(name, text) == placed


def check_parts(locate: Locate, runs: list[tuple[tuple[str, ...], bool, str]]) -> None:
    """Identifiers: the whole and its parts; scripts without spaces: characters and pairs."""
    text, placed = "", set()
    for parts, is_dense, between in runs:
        at = len(text)
        ends = [at + len("".join(parts[: n + 1])) for n in range(len(parts))]
        starts = [at, *ends[:-1]]
        if is_dense:
            placed |= {*zip(starts, ends, strict=True), *zip(starts, ends[1:], strict=False)}
        else:
            placed.add((at, ends[-1]))
            placed |= {
                (start, end)
                for part, start, end in zip(parts, starts, ends, strict=True)
                if part not in "-._"
            }
        text += "".join(parts) + between
    assert set(locate("unicode", text)) == placed


def in_bytes(name: str, text: str) -> Spans:
    sizes = [len(text[:at].encode()) for at in range(len(text) + 1)]
    return [(sizes[start], sizes[end]) for start, end in spans(name, text)]


def of_composed_text(name: str, text: str) -> Spans:
    return spans(name, unicodedata.normalize("NFC", text))


def spelled(name: str) -> st.SearchStrategy[tuple[str, str]]:
    """A word and what stands after it; emoji are words of ``unicode`` alone."""
    words, between = (*WORDS, *map(nfd, WORDS)), BETWEEN
    if name.partition(":")[0] == "unicode":
        words += EMOJI
    else:
        between += (" 😀 ", " 👨\u200d👩\u200d👧 ")
    return st.tuples(st.sampled_from(words), st.sampled_from(between))


runs = st.one_of(
    st.tuples(
        st.sampled_from((*CHAINS, *(tuple(map(nfd, one)) for one in CHAINS))), st.just(False)
    ),
    st.tuples(st.sampled_from(DENSE), st.just(True)),
)


@pytest.mark.parametrize("name", PRESETS)
def test_a_word_has_the_place_at_which_it_was_put(effort: Effort, name: str) -> None:
    @settings(max_examples=effort.cases(quick=40, full=400))
    @given(st.lists(spelled(name)))
    def check(words: list[tuple[str, str]]) -> None:
        check_words(spans, name, words)

    check()


def test_parts_and_pairs_have_their_places(effort: Effort) -> None:
    @settings(max_examples=effort.cases(quick=60, full=600))
    @given(st.lists(st.tuples(runs, st.sampled_from(BETWEEN))))
    def check(given_runs: list[tuple[tuple[tuple[str, ...], bool], str]]) -> None:
        check_parts(spans, [(*run, between) for run, between in given_runs])

    check()


@pytest.mark.parametrize("planted", [in_bytes, of_composed_text])
def test_wrong_places_are_noticed(planted: Locate) -> None:
    with pytest.raises(AssertionError):
        check_words(planted, "unicode", [(nfd("Crème"), " "), ("tea", " ")])
    with pytest.raises(AssertionError):
        check_parts(planted, [(("か\u3099", "ｶﾞ"), True, " "), (("INV", "-", "2026"), False, "")])


ODD = st.text(
    st.sampled_from(
        "aAiIıİßΣσ1_-.@+#'ﾞｶか゛東ก้ำ㌀각\u1100\u1161\u11a8ﬀ😀𝒜क़\u0930 \n"
        "\u0307\u0301\u0328\u200d\u00ad\ufe0f\u20e3🇩🏽❤한ﾡא\u05b8اآ\u0640\u064e\u0654"
    )
)


@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize("role", ["document", "query"])
def test_places_do_not_change_the_tokens(effort: Effort, name: str, role: Any) -> None:
    analyzer = Analyzer(name)

    @settings(max_examples=effort.cases(quick=60, full=1000))
    @given(st.one_of(ODD, st.text()))
    def check(text: str) -> None:
        terms, _, ids, positions, _ = analyzer.native.analyze([text], role)
        made = analyzer.explain(text, role=role)
        assert [(one.term, one.position) for one in made] == [
            (terms[at], position) for at, position in zip(ids, positions, strict=True)
        ]
        places = [(one.start or 0, one.end or 0) for one in made]
        assert all(0 <= start < end <= len(text) for start, end in places)
        assert [start for start, _ in places] == sorted(start for start, _ in places)

    check()


def test_a_tokenizer_tells_its_own_places_and_a_function_none() -> None:
    tokenizer = Tokenizer(models.WordLevel({"cafe": 0, "tea": 1, "?": 2}, unk_token="?"))
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.NFD(), normalizers.StripAccents(), normalizers.Lowercase()]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    text = "😀 CAFÉ tea"
    made = Analyzer.from_tokenizer(tokenizer).explain(text)
    assert [(one.term, text[one.start : one.end]) for one in made][1:] == [
        ("cafe", "CAFÉ"), ("tea", "tea"),
    ]  # fmt: skip
    split = Analyzer.from_callable(str.split, name="spaces", version="1")
    assert [(one.start, one.end) for one in split.explain(text)] == [(None, None)] * 3


def test_one_character_may_be_several_terms() -> None:
    text = "x น้ำ"  # its last letter is a mark and a vowel
    made = Analyzer().explain(text)
    assert [one.term for one in made] == ["x", "น้\u0e4d", "น้\u0e4d\u0e32", "\u0e32"]
    assert [text[one.start : one.end] for one in made] == ["x", *["น้ำ"] * 3]
