"""Levels of JSON are counted before it is parsed, whatever a request calls or encodes it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hyrecall.serve import ServiceOptions, create_app
from seams import Opening, is_deeper, n_levels
from serve.test_guards import SMALL, ask, nested


@pytest.mark.parametrize(
    ("text", "levels"),
    [
        ("", 0),
        ("1", 0),
        ("[]", 1),
        ('{"a": [1, {"b": 2}]}', 3),
        ('["[[[["]', 1),
        (r'["\"[[[["]', 1),
        (r'["\\", [[]]]', 3),
        ('["[[[[', 1),
        ('"\\', 0),
        ("[" * 1_000, 1_000),
        ("]]]][", 0),
    ],
)
def test_levels_of_json_are_counted_outside_of_strings(text: str, levels: int) -> None:
    body, kind = text.encode(), "application/json"
    assert n_levels(body, kind) == levels
    assert [is_deeper(body, kind, most) for most in (levels - 1, levels)] == [True, False]


@pytest.mark.parametrize(
    "media_type", ["application/JSON", "Application/Json; charset=utf-8", "application/x+JSON"]
)
def test_the_case_of_a_media_type_does_not_matter_to_levels(media_type: str) -> None:
    assert n_levels(b"[[[1]]]", media_type) == 3
    assert is_deeper(b"[[[1]]]", media_type, 2)


QUOTE_LIKE = "\u0122"
"""In UTF-16 one of its bytes is that of a quote, which hides all that follows."""


def test_deep_json_under_another_name_or_encoding_is_refused_before_it_is_parsed(
    store: Opening,
) -> None:
    def sent(levels: int, encoding: str, media_type: str) -> tuple[str, str, dict[str, Any]]:
        text = json.dumps({"source": QUOTE_LIKE, **nested(levels)}, ensure_ascii=False)
        content, headers = text.encode(encoding), {"content-type": media_type}
        return "POST", "/v1/memories", {"content": content, "headers": headers}

    plain = "application/json"
    deep, shallow = SMALL.max_levels + 1, SMALL.max_levels
    replies = ask(
        create_app(store, SMALL),
        sent(deep, "utf-8", "application/JSON"),
        sent(deep, "utf-8", "APPLICATION/X+JSON"),
        *(sent(deep, name, plain) for name in ("utf-16-le", "utf-16-be", "utf-16", "utf-32")),
        sent(shallow, "utf-16-le", plain),
        sent(shallow, "utf-8", "application/JSON"),
        sent(shallow, "utf-8", plain),
    )
    assert [one.status_code for one in replies] == [422] * 7 + [201] * 2
    told = [one.json()["error"]["message"] for one in replies[:7]]
    assert told[:2] == ["expected at most 4 levels of JSON"] * 2
    assert all("UTF-8" in one for one in told[2:])


@pytest.mark.parametrize(
    ("content", "wish"),
    [
        (b'{"text": "\xe9"}', "JSON in UTF-8"),
        (
            b'{"importance": ' + b"9" * 5_000 + b"}",
            "integers of at most 4300 digits",
        ),
    ],
    ids=["Latin-1", "5,000 digits"],
)
@pytest.mark.parametrize("path", ["/v1/memories", "/v1/recall"])
def test_json_that_python_does_not_read_is_told_why(
    store: Opening, path: str, content: bytes, wish: str
) -> None:
    sent = {"content": content, "headers": {"content-type": "application/json"}}
    (reply,) = ask(create_app(store, ServiceOptions()), ("POST", path, sent))
    assert reply.status_code == 422
    assert reply.json()["error"] == {"type": "Invalid", "message": f"body: expected {wish}"}


def test_counting_levels_reads_each_character_once() -> None:
    # Quadratic in any of these, it would take hours.
    for hostile in (b'"\\"' * 300_000, b'["' * 500_000, b'"' + b"\\" * 999_999, b"[]" * 500_000):
        assert n_levels(hostile, "application/json") >= 0
