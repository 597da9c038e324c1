"""The Python face: stop words, callables, tokenizers, hashes, storage, errors, threads."""

import copy
import doctest
import json
import pickle
import re
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
from snowballstemmer import algorithms, stemmer
from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers

from hyrecall import _core
from hyrecall.errors import DTypeError, OptionError, ShapeError
from seams import ENGLISH_STOPWORDS, Analyzer, Token, TokenFunction
from seams import analyzer as analyzer_module


def pairs(analyzer: Analyzer, text: str) -> list[tuple[str, int]]:
    return [(t.term, t.position) for t in analyzer.explain(text)]


def split_dashes(token: str) -> list[str]:
    return token.split("x")


def small_tokenizer() -> Tokenizer:
    words = {"[UNK]": 0, "[CLS]": 1, "cat": 2, "dog": 3, "s": 4}
    made = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.add_special_tokens([AddedToken("[UNK]", special=True), AddedToken("[CLS]", special=True)])
    return made


@pytest.mark.parametrize("language", algorithms())
def test_snowball_stems_lower_cased_words(language: str) -> None:
    text = "Running houses Häuser maisons correndo Привет книги हिन्दी किताबें மரங்கள் 2026"
    words = re.findall(r"[\w\u0900-\u0903\u093a-\u094f\u0bbe-\u0bcd]+", text.lower())
    stems = [s for s in stemmer(language).stemWords(words) if s]
    assert [t for t, _ in pairs(Analyzer(f"snowball:{language}"), text)] == stems


def test_the_english_list_is_the_classic_one() -> None:
    assert len(ENGLISH_STOPWORDS) == len(set(ENGLISH_STOPWORDS)) == 33


@pytest.mark.parametrize(
    "name", ["word", "unicode", "unicode61", "unicode:english", "snowball:english"]
)
def test_a_removed_stop_word_keeps_its_position_and_does_not_count(name: str) -> None:
    analyzer = Analyzer(name, stopwords="english")
    assert pairs(analyzer, "The cat AND the dog") == [("cat", 1), ("dog", 4)]
    assert analyzer.native.analyze(["The cat AND the dog", "of the"], "document")[4].tolist() == [
        2,
        0,
    ]


def test_stop_words_act_before_stemming() -> None:
    # "this" would be stemmed to "thi", which is on no list.
    assert pairs(Analyzer("snowball:porter", stopwords=["this"]), "this cats") == [("cat", 1)]


def test_stop_words_are_folded_as_the_preset_folds() -> None:
    assert pairs(Analyzer("unicode", stopwords=["OÙ"]), "où va ou") == [("va", 1)]
    assert pairs(Analyzer("word", stopwords=["Le"]), "LE chat le") == [("chat", 1)]
    assert pairs(Analyzer("unicode", stopwords=["的"]), "的") == []


def test_a_stop_word_inside_a_compound_leaves_the_whole() -> None:
    analyzer = Analyzer("unicode", stopwords=["not"])
    assert pairs(analyzer, "not_found") == [("not_found", 0), ("found", 1)]


def test_a_token_function_sees_each_distinct_token_once() -> None:
    calls: Counter[str] = Counter()

    def count(token: str) -> list[str]:
        calls[token] += 1
        return [token]

    analyzer = Analyzer("unicode", token_function=TokenFunction(count, name="count", version="1"))
    for role in ("document", "query"):
        analyzer.native.analyze(["Cat cat CAT dog", "dog Cát INV-1"], role)
    assert calls == {"cat": 1, "dog": 1, "inv-1": 1, "inv": 1, "1": 1}


def test_a_token_functions_terms_take_successive_positions() -> None:
    split = Analyzer("word", token_function=TokenFunction(split_dashes, name="x", version="1"))
    assert pairs(split, "axb c") == [("a", 0), ("b", 1), ("c", 2)]
    whole = Analyzer("unicode", token_function=TokenFunction(split_dashes, name="x", version="1"))
    assert pairs(whole, "axb_c d") == [("a", 0), ("b_c", 0), ("a", 0), ("b", 1), ("c", 2), ("d", 3)]


def test_a_token_without_terms_keeps_its_position() -> None:
    drop = Analyzer(
        token_function=TokenFunction(lambda t: [] if t == "b" else [t], name="d", version="1")
    )
    assert pairs(drop, "a b c") == [("a", 0), ("c", 2)]
    assert drop.native.analyze(["a b c"], "document")[4].tolist() == [2]


def test_a_token_function_follows_the_stemmer() -> None:
    shout = TokenFunction(lambda t: [t.upper()], name="shout", version="1")
    assert pairs(Analyzer("snowball:english", token_function=shout), "running runs") == [
        ("RUN", 0),
        ("RUN", 1),
    ]


def test_whole_texts_go_through_a_callable_once_a_batch() -> None:
    seen: list[str] = []

    def spaces(text: str) -> list[str]:
        seen.append(text)
        return text.split()

    analyzer = Analyzer.from_callable(spaces, name="spaces", version="1")
    terms, _, ids, positions, lengths = analyzer.native.analyze(["b a b", "", b"a\xff"], "query")
    assert terms == ["b", "a", "a\ufffd"]
    assert ids.tolist() == [0, 1, 0, 2]
    assert positions.tolist() == [0, 1, 2, 0]
    assert lengths.tolist() == [3, 0, 1]
    assert seen == ["b a b", "", "a\ufffd"]


def test_a_tokenizer_gives_its_tokens_without_special_ones(tmp_path: Path) -> None:
    source = small_tokenizer()
    path = tmp_path / "tokenizer.json"
    source.save(str(path))
    for given in (source, source.to_str(), path, str(path)):
        analyzer = Analyzer.from_tokenizer(given)
        assert pairs(analyzer, "[CLS] cat what dog") == [("cat", 0), ("dog", 1)]
        assert analyzer.hash == Analyzer.from_tokenizer(source).hash
    source.enable_truncation(1)
    assert pairs(Analyzer.from_tokenizer(source), "cat dog s") == [("cat", 0), ("dog", 1), ("s", 2)]


def test_every_part_of_an_analyzer_changes_its_hash(monkeypatch: pytest.MonkeyPatch) -> None:
    def named(name: str, version: str) -> TokenFunction:
        return TokenFunction(split_dashes, name=name, version=version)

    other = small_tokenizer()
    other.add_tokens(["new"])
    made = [
        Analyzer(), Analyzer("word"), Analyzer("unicode61"), Analyzer("porter"),
        Analyzer("snowball:english"), Analyzer("snowball:porter"),
        Analyzer(stopwords="english"), Analyzer(stopwords=["a"]), Analyzer(stopwords=["a", "b"]),
        Analyzer(token_function=named("f", "1")), Analyzer(token_function=named("f", "2")),
        Analyzer(token_function=named("g", "1")),
        Analyzer("word", token_function=named("f", "1")),
        Analyzer.from_callable(split_dashes, name="f", version="1"),
        Analyzer.from_callable(split_dashes, name="f", version="2"),
        Analyzer.from_callable(split_dashes, name="unicode", version="1"),
        Analyzer.from_tokenizer(small_tokenizer()), Analyzer.from_tokenizer(other),
        Analyzer("unicode:english"), Analyzer("unicode:porter"),
    ]  # fmt: skip
    hashes = [a.hash for a in made]
    assert all(re.fullmatch("[0-9a-f]{16}", h) for h in hashes)
    assert len(set(hashes)) == len(hashes)
    with monkeypatch.context() as patch:
        patch.setattr(_core, "text_version", lambda preset: f"another {preset}")
        assert Analyzer().hash != hashes[0]
    with monkeypatch.context() as patch:
        patch.setattr(analyzer_module, "stemmer_version", lambda: "another")
        assert Analyzer("snowball:english").hash != hashes[4]
        assert Analyzer("unicode:english").hash != hashes[-2]
        assert Analyzer().hash == hashes[0]


def test_what_gives_the_same_terms_has_the_same_hash() -> None:
    assert Analyzer(stopwords=["a", "b"]) == Analyzer(stopwords=("b", "a", "a"))
    assert Analyzer(stopwords="english") == Analyzer(stopwords=list(ENGLISH_STOPWORDS))
    assert Analyzer(stopwords=[]) == Analyzer()
    assert len({Analyzer(), Analyzer("unicode"), Analyzer("word")}) == 2
    assert Analyzer() != "unicode"


def test_an_analyzer_is_made_again_from_its_stored_form() -> None:
    function = TokenFunction(split_dashes, name="f", version="1")
    for analyzer, again in (
        (Analyzer(), None),
        (Analyzer("snowball:german", stopwords=["und", "der"]), None),
        (Analyzer("word", stopwords="english"), None),
        (Analyzer("unicode:english", stopwords="english"), None),
        (Analyzer("porter", token_function=function), split_dashes),
        (Analyzer.from_callable(split_dashes, name="f", version="1"), split_dashes),
        (Analyzer.from_tokenizer(small_tokenizer()), None),
    ):
        stored = json.loads(json.dumps(analyzer.to_dict()))
        made = Analyzer.from_dict(stored, function=again)
        assert made == analyzer
        text = "Der axb und the running cat"
        assert made.explain(text) == analyzer.explain(text)
        assert pickle.loads(pickle.dumps(analyzer)) == copy.deepcopy(analyzer) == analyzer


@pytest.mark.parametrize(
    "analyzer",
    [
        Analyzer(token_function=TokenFunction(split_dashes, name="f", version="7")),
        Analyzer.from_callable(split_dashes, name="f", version="7"),
    ],
)
def test_a_callable_must_be_passed_again(analyzer: Analyzer) -> None:
    with pytest.raises(OptionError, match="function: expected the callable 'f' version '7'"):
        Analyzer.from_dict(analyzer.to_dict())
    with pytest.raises(OptionError, match="function: expected None"):
        Analyzer.from_dict(Analyzer().to_dict(), function=split_dashes)


@pytest.mark.parametrize(
    ("answer", "kind", "message"),
    [
        ("a", DTypeError, "function: expected a list of terms, got str"),
        ([1], DTypeError, "function: expected terms of type str, got int"),
        (["\ud800"], OptionError, "function: expected terms of valid Unicode"),
    ],
)
def test_a_callable_that_answers_wrongly_is_named(answer, kind, message: str) -> None:
    token_function = TokenFunction(lambda _: answer, name="f", version="1")
    with pytest.raises(kind, match=message):
        Analyzer(token_function=token_function).explain("a")
    with pytest.raises(kind, match=message):
        Analyzer.from_callable(lambda _: answer, name="f", version="1").explain("a")
    with pytest.raises(ShapeError, match="token_function: expected 2 lists of terms, got 1"):
        _core.Analyzer("word", token_function=lambda _: [["x"]]).analyze(["a b"], "query")


def test_an_error_of_the_callable_reaches_the_caller_and_nothing_is_remembered() -> None:
    fails = [True]

    def sometimes(token: str) -> list[str]:
        if fails[0]:
            raise KeyError(token)
        return [token]

    analyzer = Analyzer(token_function=TokenFunction(sometimes, name="f", version="1"))
    with pytest.raises(KeyError, match="a"):
        analyzer.explain("a")
    fails[0] = False
    assert pairs(analyzer, "a") == [("a", 0)]


def test_an_analyzer_is_frozen_and_says_what_it_is() -> None:
    analyzer = Analyzer("word", stopwords=["a"])
    with pytest.raises(AttributeError):
        analyzer.name = "unicode"
    with pytest.raises(AttributeError):
        del analyzer.name
    assert repr(analyzer) == "Analyzer('word', stopwords=('a',))"
    assert repr(Analyzer().explain("Hi there")) == "('hi'@0, 'there'@1)"
    assert Analyzer().explain("Hi") == (Token("hi", 0, 0, 2),)
    assert repr(Analyzer.from_callable(str.split, name="s", version="2")) == (
        "Analyzer.from_callable(name='s', version='2')"
    )
    assert "characters of JSON" in repr(Analyzer.from_tokenizer(small_tokenizer()))
    function = TokenFunction(split_dashes, name="f", version="1")
    assert repr(Analyzer(token_function=function)) == (
        "Analyzer('unicode', token_function=TokenFunction(name='f', version='1'))"
    )


def test_threads_share_an_analyzer_and_agree(table) -> None:
    function = TokenFunction(lambda t: [t[:3]], name="cut", version="1")
    for analyzer in (Analyzer(), Analyzer(token_function=function), Analyzer("snowball:english")):
        wanted = [a.tolist() for a in analyzer.native.analyze(table, "document")[1:]]
        fresh = Analyzer.from_dict(
            analyzer.to_dict(), function=function.function if analyzer.token_function else None
        )
        answers: list[list[list[int]]] = []

        def work(shared: Analyzer = fresh, out: list[list[list[int]]] = answers) -> None:
            out.append([a.tolist() for a in shared.native.analyze(table, "document")[1:]])

        threads = [threading.Thread(target=work) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert answers == [wanted] * 6


def test_other_threads_run_while_a_text_is_analysed() -> None:
    text = "some words to look at " * 400_000
    ticks, done = [0], threading.Event()

    def tick() -> None:
        while not done.is_set():
            ticks[0] += 1
            done.wait(0.0005)

    other = threading.Thread(target=tick)
    other.start()
    before = ticks[0]
    Analyzer("word").native.analyze([text], "document")
    during = ticks[0] - before
    done.set()
    other.join()
    assert during >= 3


@pytest.mark.slow
def test_more_tokens_than_the_cache_holds_change_nothing() -> None:
    analyzer = Analyzer("word")
    for start in (0, 600_000):
        text = " ".join(f"T{i}" for i in range(start, start + 600_000))
        terms, _, ids, _, lengths = analyzer.native.analyze([text], "document")
        assert lengths.tolist() == [600_000]
        assert (terms[0], terms[-1]) == (f"t{start}", f"t{start + 599_999}")
        assert ids[-1] == 599_999


TEN_MEGABYTES: dict[str, Callable[[], str]] = {
    "words": lambda: "word " * 2_000_000,
    "one word": lambda: "a" * 10_000_000,
    "chain": lambda: "Ab1-" * 2_500_000,
    "dense": lambda: "中国人民" * 830_000,
    "sigmas": lambda: "ΑΣ'" * 2_000_000,
    "marks": lambda: "a" + "\u0301\u0323" * 2_500_000,
    "nothing": lambda: " " * 10_000_000,
}


@pytest.mark.plain_cases(4)
@pytest.mark.parametrize("kind", TEN_MEGABYTES)
@pytest.mark.parametrize("name", ["word", "unicode", "porter"])
def test_ten_megabytes_in_one_text_are_analysed_in_linear_time(name: str, kind: str) -> None:
    native = Analyzer(name).native
    start = time.thread_time()
    native.analyze([TEN_MEGABYTES[kind]()], "query")
    assert time.thread_time() - start < 5  # measured at most 1; quadratic work would take hours


@pytest.mark.parametrize("module", [analyzer_module])
def test_the_examples_of_the_docstrings_run(module: ModuleType) -> None:
    result = doctest.testmod(module)
    assert result.attempted > 0
    assert result.failed == 0


def test_stemmers_and_tokenizers_are_imported_only_when_used() -> None:
    code = (
        "import sys; from hyrecall.text.analyzer import Analyzer; Analyzer().explain('a');"
        "stemmers = {'Stemmer', 'snowballstemmer'};"
        "assert not (stemmers | {'tokenizers'}) & set(sys.modules);"
        "Analyzer('snowball:english'); assert stemmers & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
