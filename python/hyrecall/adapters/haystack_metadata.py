"""What Haystack asks of a store's metadata: distinct values, types, least and largest values.

These calls read the documents themselves, so that the fields need not be declared.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from hyrecall.adapters.awaiting import awaited
from hyrecall.adapters.haystack_filters import field_name

if TYPE_CHECKING:
    from haystack import Document

__all__ = ["MetadataQueries"]

_TYPES = {bool: "boolean", int: "int", float: "float"}


class MetadataQueries:
    """The methods of a document store that describe metadata; they read ``filter_documents``."""

    def filter_documents(self, filters: dict[str, Any] | None = None) -> list[Document]:
        """Return the documents that pass a filter."""
        raise NotImplementedError  # the class with the documents has it

    def _values(self, field: str, filters: dict[str, Any] | None = None) -> list[Any]:
        """Return the values of a field, without nulls, in the order of the documents."""
        name = field_name(field)
        found = (document.meta.get(name) for document in self.filter_documents(filters))
        return [value for value in found if value is not None]

    def count_unique_metadata_by_filter(
        self, filters: dict[str, Any], metadata_fields: list[str]
    ) -> dict[str, int]:
        """Return how many distinct values each field has in the documents that pass a filter."""
        return {
            field_name(field): len(_distinct(self._values(field, filters)))
            for field in metadata_fields
        }

    def get_metadata_fields_info(self) -> dict[str, dict[str, str]]:
        """Return the type of each field: boolean, int, float or keyword."""
        found: dict[str, dict[str, str]] = {}
        for document in self.filter_documents():
            for name, value in document.meta.items():
                if value is not None:
                    found[name] = {"type": _TYPES.get(type(value), "keyword")}
        return found

    def get_metadata_field_min_max(self, metadata_field: str) -> dict[str, Any]:
        """Return the least and the largest value of a field; None where they do not compare."""
        values = [one for one in self._values(metadata_field) if isinstance(one, int | float | str)]
        try:
            return {"min": min(values), "max": max(values)}
        except (TypeError, ValueError):  # numbers beside strings; no value
            return {"min": None, "max": None}

    def get_metadata_field_unique_values(
        self,
        metadata_field: str,
        search_term: str | None = None,
        from_: int = 0,
        size: int = 10,
        filters: dict[str, Any] | None = None,
    ) -> tuple[list[Any], int]:
        """Return a page of a field's distinct values, sorted as text, and the number of them."""
        values = _distinct(self._values(metadata_field, filters))
        wanted = (search_term or "").lower()
        found = sorted((one for one in values if wanted in str(one).lower()), key=str)
        return found[from_ : from_ + size], len(found)

    count_unique_metadata_by_filter_async = awaited(count_unique_metadata_by_filter)
    get_metadata_fields_info_async = awaited(get_metadata_fields_info)
    get_metadata_field_min_max_async = awaited(get_metadata_field_min_max)
    get_metadata_field_unique_values_async = awaited(get_metadata_field_unique_values)


def _distinct(values: list[Any]) -> list[Any]:
    """Return each value once; 1, 1.0, "1" and true are four."""
    return list({json.dumps(value, sort_keys=True): value for value in values}.values())
