"""Haystack's filters, read by ours and by Haystack's own function on the same documents."""

import random
from typing import Any

import pytest

pytest.importorskip("haystack", reason="Haystack is not installed: .ci/frameworks haystack")

from haystack import Document
from haystack.utils.filters import document_matches_filter

import hyrecall as hr
from hyrecall.adapters.haystack import HyrecallDocumentStore
from seams import haystack_filters

FIELDS: dict[str, list[Any]] = {
    "number": [-2, 0, 3, 7],
    "name": ["a", "b", ""],
    "rating": [0.5, 1.0, 2.5],
    "done": [True, False],
    "date": ["1969-07-21T20:17:40", "1972-12-11T19:54:58", "1989-11-09T17:53:00"],
}
KINDS = {"number": "int", "name": "str", "rating": "float", "done": "bool", "date": "datetime"}
ORDERED = ("number", "rating", "date")


def random_filter(draw: random.Random, depth: int = 2) -> dict[str, Any]:
    if depth and draw.random() < 0.6:
        parts = [random_filter(draw, depth - 1) for _ in range(draw.randint(1, 3))]
        return {"operator": draw.choice(["AND", "OR", "NOT"]), "conditions": parts}
    name = draw.choice(list(FIELDS))
    order = [">", ">=", "<", "<="] if name in ORDERED else []
    operator = draw.choice(["==", "!=", "in", "not in", *order])
    value: Any = draw.choice([*FIELDS[name], None])
    if operator in ("in", "not in"):
        value = draw.sample([*FIELDS[name], None], draw.randint(0, 3))
    return {"field": f"meta.{name}", "operator": operator, "value": value}


def filter_faults() -> list[dict[str, Any]]:
    """Return the random filters that find other documents than Haystack's own function."""
    draw = random.Random(20261126)
    documents = []
    for at in range(30):
        meta = {name: draw.choice(values) for name, values in FIELDS.items()}
        kept = {name: value for name, value in meta.items() if draw.random() < 0.8}
        documents.append(Document(id=str(at), content="x", meta=kept))
    store = HyrecallDocumentStore(cell="ann", attributes=KINDS)
    store.write_documents(documents)
    found = []
    for _ in range(150):
        asked = random_filter(draw)
        expected = [one for one in documents if document_matches_filter(asked, one)]
        if store.filter_documents(asked) != expected:
            found.append(asked)
    return found


def test_filters_find_what_haystack_itself_finds() -> None:
    assert filter_faults() == []


@pytest.mark.parametrize(
    ("operator", "wrong"),
    [
        (">", lambda value: [(value, None)]),
        ("<=", lambda value: [(None, value), hr.NoneOf(value)]),
        ("<", lambda value: [hr.NoneOf(value)]),
    ],
)
def test_a_planted_wrong_comparison_is_found(
    operator: str, wrong: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(haystack_filters._COMPARISONS, operator, wrong)
    assert filter_faults()


@pytest.mark.parametrize("name", ["AND", "NOT"])
def test_a_planted_wrong_join_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(haystack_filters._LOGIC, name, haystack_filters._LOGIC["OR"])
    assert filter_faults()
