"""Makes models of values that are known to be valid, without checking them again."""

from __future__ import annotations

from typing import Any, TypeVar

from pydantic import BaseModel

from hyrecall.base.arguments import set_fields

__all__ = ["construct"]

Model_ = TypeVar("Model_", bound=BaseModel)


def construct(
    kind: type[Model_], fields: dict[str, Any], private: dict[str, Any] | None = None
) -> Model_:
    """Return a model with these fields, which it keeps: all that it has, in their order."""
    # ``model_construct`` does the same, and looks at each field's alias and default first. A search
    # makes three models a match.
    made = kind.__new__(kind)
    set_fields(
        made,
        __dict__=fields,
        __pydantic_fields_set__=set(fields),
        __pydantic_extra__=None,
        __pydantic_private__=private,
    )
    return made
