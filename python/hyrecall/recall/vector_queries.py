"""``vectors=`` -> the dense arms of a request, their queries on the host or on a device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from hyrecall import _core
from hyrecall.errors import OptionError, error
from hyrecall.segments.facts import IndexFacts
from hyrecall.table.device_tensors import take_guest
from hyrecall.table.tensors import check_finite, query_vectors

__all__ = ["Matrix", "add_dense", "check_arms", "check_idle", "name_vectors", "read_vectors"]

_ALL_VALID = np.zeros(0, np.uint8)

Matrix: TypeAlias = "tuple[npt.NDArray[np.float32], npt.NDArray[np.bool_] | None]"


def check_arms(argument: str, given: Mapping[str, object], arms: Sequence[str]) -> None:
    """Check that every arm a call names is one of these."""
    for arm in given:
        if arm not in arms:
            raise error(OptionError, argument, f"arms of {list(arms)}", repr(arm))


def name_vectors(facts: IndexFacts, vectors: object) -> dict[str, tuple[Any, str]]:
    """Return (value, what to call it in messages) of each arm."""
    if vectors is None:
        return {}
    names = facts.vector_arms
    if not isinstance(vectors, list) and isinstance(vectors, Mapping):
        check_arms("vectors", vectors, names)
        return {arm: (vectors[arm], f"vectors[{arm!r}]") for arm in names if arm in vectors}
    if len(names) != 1:
        wish = (
            f"{{arm: array}} for arms of {list(names)}"
            if names
            else "None (the index has no vector arm)"
        )
        raise error(OptionError, "vectors", wish, type(vectors).__name__)
    return {names[0]: (vectors, "vectors")}


def read_vectors(
    facts: IndexFacts,
    snapshot: _core.Snapshot,
    given: Mapping[str, tuple[Any, str]],
    *,
    may_stay: bool,
) -> tuple[dict[str, _core.Guest], dict[str, Matrix]]:
    """Return, by arm, the queries that the search reads where they lie, and those on the host."""
    # ``may_stay`` False: all are read to the host and checked. Else :func:`add_dense` looks for NaN
    # as it copies them, and :func:`check_idle` in the vectors of arms that will not run.
    guests = {}
    if snapshot.device is not None and may_stay:
        folder, ordinal = snapshot.device
        for arm, (value, _) in given.items():
            guest = take_guest(value, folder=folder, ordinal=ordinal, dim=facts.dims[arm])
            if guest is not None:
                guests[arm] = guest
    arms = [arm for arm in given if arm not in guests]
    return guests, _on_host(facts, given, arms, are_checked_later=may_stay)


def check_idle(
    facts: IndexFacts,
    given: Mapping[str, tuple[Any, str]],
    guests: Mapping[str, _core.Guest],
    vectors: Mapping[str, Matrix],
    running: Sequence[str],
) -> None:
    """Check the vectors of arms that will not run."""
    if guests:
        _on_host(facts, given, [arm for arm in guests if arm not in running])
    for arm, (matrix, _) in vectors.items():
        if arm not in running:
            check_finite(matrix, given[arm][1])


def _on_host(
    facts: IndexFacts,
    given: Mapping[str, tuple[Any, str]],
    arms: Sequence[str],
    *,
    are_checked_later: bool = False,
) -> dict[str, Matrix]:
    """Read the vectors of these arms in host memory; check their values, or leave it for later."""
    return {
        arm: query_vectors(
            given[arm][0],
            dim=facts.dims[arm],
            argument=given[arm][1],
            is_checked_later=are_checked_later,
        )
        for arm in arms
    }


def add_dense(
    facts: IndexFacts,
    request: _core.BatchRequest,
    arms: Sequence[str],
    vectors: Mapping[str, Matrix],
    guests: Mapping[str, _core.Guest],
    given: Mapping[str, tuple[Any, str]],
    floors: Mapping[str, tuple[float, bool] | None],
    tables: Sequence[int | None],
) -> None:
    """Add the dense arms with their queries, each for every table."""
    for column, arm in enumerate(facts.vector_arms):
        if arm not in arms:
            continue
        if arm in guests:
            request.add_guest(column, arm, guests[arm], given[arm][1], floors.get(arm))
        elif arm in vectors:
            matrix, valid = vectors[arm]
            present = _ALL_VALID if valid is None else valid.view(np.uint8)
            try:
                for table in tables:
                    request.add_dense(column, arm, matrix, present, floors.get(arm), table)
            except OptionError:  # of a norm, which NaN and infinity have too
                check_finite(matrix, given[arm][1])
                raise
