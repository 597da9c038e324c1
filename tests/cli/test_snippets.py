"""A text is shown by its best part, the query's words marked as the analyzer sees them."""

from typing import Any

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers

import hyrecall as hr
from seams import Snippets, print_stored

STEMS = hr.Analyzer("snowball:english", stopwords="english")


def marked(query: str, text: str, analyzer: hr.Analyzer | None = None) -> list[str]:
    line = Snippets(query, analyzer or hr.Analyzer()).show(text)
    return [line.text[begin:end] for begin, end, style in line.spans if style == "mark"]


@pytest.mark.parametrize(
    ("query", "text", "words"),
    [
        ("tea", "Hot TEA, tea-time and teas", ["TEA", "tea"]),
        ("crème", "A creme, a CRÈME", ["creme", "CRÈME"]),
        ("INV-2026-0042", "Pay INV-2026-0042, not INV-2026-0043", ["INV-2026-0042", "INV", "2026"]),
        ("0042", "invoice INV-2026-0042.", ["0042"]),
        ("anne@example.org", "write to anne@example.org.", ["anne@example.org"]),
        ("camel", "the camelCase of it", ["camel"]),
        ("don", "I don't", ["don"]),
        ("东京 酒店", "东京的会议在五月，酒店已经预订好了。", ["东京", "酒店"]),
        ("東京都", "東京都庁と京都", ["東京都", "京都"]),
        ("ไทย", "ภาษาไทย", ["ไทย"]),
        ("", "nothing", []),
        ("!!", "nothing!!", []),
    ],
)
def test_words_of_the_query_are_marked(query: str, text: str, words: list[str]) -> None:
    assert marked(query, text) == words


def test_a_stemming_analyzer_marks_other_forms_and_no_stop_words() -> None:
    text = "Deploys run on Friday; we deployed on Monday"
    assert marked("when do we deploy on it", text, STEMS) == ["Deploys", "we", "deployed"]


def test_a_text_of_a_tokenizer_of_ones_own_is_marked_too() -> None:
    pieces = Tokenizer(models.WordPiece({"a": 0, "##x": 1, "##e": 2, "?": 3}, unk_token="?"))
    pieces.pre_tokenizer = pre_tokenizers.Whitespace()
    assert marked("ax", "axe box", hr.Analyzer.from_tokenizer(pieces)) == ["ax"]


def test_a_long_text_is_cut_to_the_part_with_the_most_words_of_the_query() -> None:
    filler = "word " * 100
    text = f"{filler}amber {filler}amber and basin with cedar {filler}"
    line = Snippets("amber basin cedar", hr.Analyzer()).show(text)
    assert "amber and basin with cedar" in line.text
    assert (line.text[:3], line.text[-3:]) == ("...", "...")
    assert len(line.text) <= 226
    assert [line.text[a:b] for a, b, _ in line.spans] == ["amber", "basin", "cedar"]
    assert Snippets("no such", hr.Analyzer()).show(text).text.startswith("word word")


def test_a_huge_text_is_looked_at_in_part_only() -> None:
    line = Snippets("end", hr.Analyzer()).show("x " * 500_000 + "end")
    assert (line.spans, line.text[-3:], len(line.text) < 230) == ((), "...", True)
    assert Snippets("x", hr.Analyzer()).show("x" * 30_000).text.endswith("...")


def test_marks_are_shown_on_a_terminal_and_nothing_is_added_elsewhere(
    run: Any, filled: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = run("recall", "postgres", "--user", "ann").out
    assert "\x1b" not in plain
    monkeypatch.setenv("FORCE_COLOR", "1")
    shown = run("recall", "postgres", "--user", "ann").out
    assert "\x1b[1;33mPostgres\x1b[0m replication" in shown
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[1mPostgres\x1b[0m replication" in run("recall", "postgres", "--user", "ann").out


@pytest.mark.slow
def test_a_text_that_the_terminal_cannot_encode_is_escaped(
    process: Any, store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    assert process("remember", "tea in 東京", "--user", "ann").returncode == 0
    reply = process("recall", "tea", "--user", "ann")
    assert (reply.returncode, "tea in \\u6771\\u4eac" in reply.stdout) == (0, True), reply.stderr


def test_stored_text_cannot_send_control_characters(run: Any, store: Any) -> None:
    run("remember", "tea \x1b[2J\x9b\x07", "--user", "ann", "--id", "a\x1b[31m")
    reply = run("recall", "tea", "--user", "ann")
    assert reply.code == 0
    assert "\\x1b[2J\\x9b\\x07" in reply.out
    assert not any(ord(one) < 32 and one != "\n" for one in reply.out)


def test_a_browsed_file_is_itself_but_sends_no_control_characters_to_a_terminal(
    run: Any, store: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run("remember", "tea \x1b[2J", "--user", "ann", "--id", "a")
    for command in (["cat", "/memories/episodic/a.md"], ["grep", "tea"]):
        assert "tea \x1b[2J" in run("browse", *command, "--user", "ann").out
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    print_stored("tea \x1b[2J\n\tmilk")
    assert capsys.readouterr().out == "tea \\x1b[2J\n\tmilk"
