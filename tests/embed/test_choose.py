"""Which embedder is chosen, from what is given, the environment and the settings; its durations."""

import re
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hyrecall.embed import AUTO, HashEmbedder, HttpEmbedder, StaticEmbedder
from hyrecall.errors import DTypeError, MissingExtraError, OptionError
from seams import Off, choose_embedder, duration, timeout_of
from seams import choose as choose_module

# ---- the choice ----

OWN = {"HYRECALL_EMBEDDING_URL": "http://own.example/v1"}
LTM = {"LTM_EMBEDDING_URL": "http://ltm.example/v1"}
needs_local = pytest.mark.skipif(not StaticEmbedder.available(), reason="needs the extra [local]")


def http(given: Any = AUTO, environ: Any = None, settings: Any = None) -> HttpEmbedder:
    made = choose_embedder(given, environ or {}, settings)
    assert isinstance(made, HttpEmbedder)
    return made


def test_an_object_is_taken_as_it_is() -> None:
    given = HashEmbedder()
    assert choose_embedder(given, OWN) is given
    off = Off("because")
    assert choose_embedder(off, OWN) is off


def test_none_is_a_choice_and_off_is_none() -> None:
    assert choose_embedder(None, OWN) == Off("embedder=None", is_choice=True)
    assert choose_embedder("off", OWN) == Off('embedder="off"')
    assert choose_embedder(AUTO, {}, {"embedder": "off"}) == Off('settings.embedder="off"')


@pytest.mark.parametrize("name", ["HYRECALL_EMBED_DISABLE", "LTM_EMBED_DISABLE"])
@pytest.mark.parametrize("value", ["1", "true", "yes", " 1 ", "on"])
def test_the_switch_wins_over_everything(name: str, value: str) -> None:
    for asked in (AUTO, "static", "http://localhost/v1", HashEmbedder()):
        chosen = choose_embedder(asked, OWN | LTM | {name: value}, {"embedder": "static"})
        assert chosen == Off(f"{name} is set")
    chosen = choose_embedder(None, {name: value})
    assert isinstance(chosen, Off)
    assert chosen.is_choice


@pytest.mark.parametrize("value", ["", "0", "false", "no", "OFF"])
def test_a_switch_that_is_not_on_switches_nothing(value: str) -> None:
    assert http(environ=LTM | {"LTM_EMBED_DISABLE": value}).model == "ltm.example/v1/embeddings"


def test_own_names_go_before_others_and_both_before_the_settings() -> None:
    settings = {"embedding_url": "http://settings.example", "embedding_model": "s"}
    assert "own.example" in repr(http(environ=OWN | LTM, settings=settings))
    assert "ltm.example" in repr(http(environ=LTM, settings=settings))
    assert "settings.example" in repr(http(settings=settings))
    assert "here.example" in repr(http("http://here.example", OWN | LTM, settings))
    assert http(settings=settings).model == "s"
    models = {"LTM_EMBEDDING_MODEL": "ltm"}
    assert http(environ=LTM | models, settings=settings).model == "ltm"
    models["HYRECALL_EMBEDDING_MODEL"] = "own"
    assert http(environ=LTM | models, settings=settings).model == "own"


def test_the_key_is_looked_for_in_order_and_an_empty_one_is_none() -> None:
    environ = {"HYRECALL_EMBEDDING_URL": "https://h/v1", "OPENAI_API_KEY": "openai"}
    assert http(environ=environ)._key == "openai"
    environ["LTM_EMBEDDING_API_KEY"] = "ltm"
    assert http(environ=environ)._key == "ltm"
    environ["HYRECALL_EMBEDDING_API_KEY"] = "own"
    assert http(environ=environ)._key == "own"
    environ["HYRECALL_EMBEDDING_API_KEY"] = ""
    assert http(environ=environ)._key is None


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("3s", 3.0), ("500ms", 0.5), ("1m30s", 90.0), ("1.5s", 1.5), ("2", 5.0), ("", 5.0),
        ("soon", 5.0), ("0s", 5.0), ("-1s", 5.0), ("2h", 3600.0), ("1ns", 0.001),
    ],
)  # fmt: skip
def test_the_timeout_is_a_go_duration(value: str, seconds: float) -> None:
    assert http(environ=LTM | {"LTM_EMBED_TIMEOUT": value}).timeout == seconds
    assert http(environ=LTM, settings={"embed_timeout": value}).timeout == seconds


def test_what_is_wrong_is_said_of_where_it_was_read() -> None:
    for environ, settings, wish in [
        ({"LTM_EMBEDDING_URL": "ftp://h"}, {}, "LTM_EMBEDDING_URL: expected the URL of an endp"),
        ({}, {"embedding_url": "ftp://h"}, r"settings\.embedding_url: expected the URL"),
        (
            {},
            {"embedder": "stattic"},
            r'settings\.embedder: expected "static", "minilm", "off" or the URL',
        ),
        (LTM | {"OPENAI_API_KEY": "a b"}, {}, "OPENAI_API_KEY: expected printable ASCII"),
    ]:
        with pytest.raises(OptionError, match=wish):
            choose_embedder(AUTO, environ, settings)
    with pytest.raises(OptionError, match="OPENAI_API_KEY= sends no key") as caught:
        choose_embedder(AUTO, LTM | {"OPENAI_API_KEY": "sk-1234"})
    assert "sk-1234" not in str(caught.value)
    assert caught.value.argument == "LTM_EMBEDDING_URL"
    with pytest.raises(
        OptionError, match='embedder: expected "static", "minilm", "off" or the URL'
    ):
        choose_embedder("localhost:80", {})
    with pytest.raises(DTypeError, match=r"embedder: expected an embedder, .* got int"):
        choose_embedder(5, {})  # type: ignore[arg-type]


@needs_local
def test_without_anything_it_is_the_packaged_model() -> None:
    assert isinstance(choose_embedder(AUTO, {}), StaticEmbedder)
    assert isinstance(choose_embedder("static", OWN), StaticEmbedder)
    assert isinstance(choose_embedder(AUTO, {"OPENAI_API_KEY": "sk-1"}), StaticEmbedder)


def test_where_there_is_nothing_the_reason_names_what_could_be(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(StaticEmbedder, "available", staticmethod(lambda: False))
    chosen = choose_embedder(AUTO, {})
    assert isinstance(chosen, Off)
    assert not chosen.is_choice
    assert "hyrecall[local]" in chosen.detail
    assert "LTM_EMBEDDING_URL" in chosen.detail

    def missing() -> None:
        raise MissingExtraError("embedder: expected [local], got none")

    monkeypatch.setattr(choose_module, "StaticEmbedder", missing)
    with pytest.raises(MissingExtraError):
        choose_embedder("static", {})


def test_the_environment_of_the_process_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HYRECALL_EMBED_DISABLE", "1")
    assert choose_embedder() == Off("HYRECALL_EMBED_DISABLE is set")
    assert repr(AUTO) == "AUTO"


# ---- durations against Go's rules ----

# From the table of Go's own test of time.ParseDuration.
GOOD = [
    ("0", 0), ("5s", 5), ("30s", 30), ("1478s", 1478), ("-5s", -5), ("+5s", 5), ("-0", 0),
    ("+0", 0), ("5.0s", 5), ("5.6s", 5.6), ("5.s", 5), (".5s", 0.5), ("1.0s", 1), ("1.00s", 1),
    ("1.004s", 1.004), ("100.00100s", 100.001), ("10ns", 1e-8), ("11us", 1.1e-5), ("12µs", 1.2e-5),
    ("13ms", 0.013), ("14s", 14), ("15m", 900), ("16h", 57600), ("3h30m", 12600),
    ("10.5s4m", 250.5), ("-2m3.4s", -123.4), ("1h2m3s4ms5us6ns", 3723.004005006),
    ("52763797000ns", 52.763797), ("0.3333333333333333333h", 1200),
]  # fmt: skip
BAD = [
    "", "3", "-", "s", ".", "-.", ".s", "+.s", "1.2.3s", "--5s", " 5s", "5s ", "5 s", "5S", "1d",
    "s5", "5x", "1e3s", "٣s", "9223372036854775808ns", "3000000h", "1m-30s", "0" * 200 + "s",
    "5s\n",
]  # fmt: skip


@pytest.mark.parametrize(("text", "seconds"), GOOD)
def test_what_go_reads_is_read(text: str, seconds: float) -> None:
    assert duration(text) == pytest.approx(seconds, rel=1e-12, abs=1e-9)


@pytest.mark.parametrize("text", BAD)
def test_what_go_refuses_is_refused(text: str) -> None:
    with pytest.raises(OptionError, match="duration: expected a duration like"):
        duration(text)
    assert timeout_of(text) == 5.0


@given(st.lists(st.tuples(st.integers(0, 999), st.sampled_from(["h", "m", "s", "ms"])), max_size=6))
def test_parts_add_up(parts: list[tuple[int, str]]) -> None:
    text = "".join(f"{n}{unit}" for n, unit in parts)
    if not parts:
        return
    factor = {"h": Fraction(3600), "m": Fraction(60), "s": Fraction(1), "ms": Fraction(1, 1000)}
    assert duration(text) == float(sum(n * factor[unit] for n, unit in parts))


@given(st.text(alphabet="0123456789.hmsnuµ+- ", max_size=12))
def test_any_text_is_a_duration_or_refused(text: str) -> None:
    is_good = text in {"0", "+0", "-0"} or re.fullmatch(
        r"[+-]?((\d+\.?\d*|\.\d+)(ns|us|µs|ms|s|m|h))+", text, re.ASCII
    )
    try:
        duration(text)
    except OptionError:
        assert not is_good or float(re.findall(r"[\d.]+", text)[0]) > 1e5
    else:
        assert is_good


def test_a_timeout_that_is_none_is_the_default() -> None:
    assert (timeout_of(None), timeout_of("0s"), timeout_of("-3s")) == (5.0, 5.0, 5.0)
    assert timeout_of("nonsense") == 5.0
