"""Types that Haystack's store takes: of attributes by their names, and of what it refuses."""

from typing import Any

import pytest

pytest.importorskip("haystack", reason="Haystack is not installed: .ci/frameworks haystack")

from hyrecall.adapters.haystack import HyrecallDocumentStore
from hyrecall.errors import DTypeError


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: HyrecallDocumentStore(cell="ann", attributes={"year": "integer"}),
            r"^attributes\['year'\]: expected str, int, .*, got 'integer'",
        ),
        (
            lambda: HyrecallDocumentStore(cell="ann", attributes={"tags": "list[text]"}),
            r"^attributes\['tags'\]: expected str, int, .*, got 'text'",
        ),
        (
            lambda: HyrecallDocumentStore(cell="ann", documents="folder"),  # type: ignore[arg-type]
            "^documents: expected a DocumentIndex, got str",
        ),
        (
            lambda: HyrecallDocumentStore(cell="ann").write_documents([], policy="fail"),  # type: ignore[arg-type]
            "^policy: expected a DuplicatePolicy, got 'fail'",
        ),
    ],
)
def test_a_value_of_another_type_is_named(call: Any, message: str) -> None:
    with pytest.raises(DTypeError, match=message):
        call()


def test_types_of_attributes_have_names_that_say_which() -> None:
    kinds = {"half": "float32", "whole": "float", "few": "list[int]"}
    store = HyrecallDocumentStore(cell="ann", attributes=kinds)
    assert store.to_dict()["init_parameters"]["attributes"] == kinds
    again = HyrecallDocumentStore.from_dict(store.to_dict())
    assert again.to_dict() == store.to_dict()
