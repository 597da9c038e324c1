"""Random indexes, histories and requests against the oracle; see :mod:`fuzz.checks`.

Short in the plain run. ``--laws=full`` runs 400 cases, ``--fuzz-seconds=600`` as many as fit in
that time, from ``--fuzz-seed=N`` on. ``--fuzz-seed=N`` alone repeats one case; a failure names it.
"""

import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from fuzz.checks import Broken, Counts, one_seed
from laws.effort import Effort
from seams import ages, arrow_values

QUICK = (3, 19)  # cases in which the planted bugs below show


def seeds(config: pytest.Config, effort: Effort) -> Iterator[int]:
    """The cases of this run."""
    seed: int | None = config.getoption("--fuzz-seed")
    seconds: float | None = config.getoption("--fuzz-seconds")
    if seconds is not None:
        end = time.monotonic() + seconds
        for number in count(seed or 0):
            if time.monotonic() > end:
                return
            yield number
    elif seed is not None:
        yield seed
    else:
        yield from range(400) if effort.full else QUICK


def test_random_indexes_reply_as_the_oracle_does(
    request: pytest.FixtureRequest, effort: Effort, tmp_path: Path
) -> None:
    counts, n_cases = Counts(), 0
    for seed in seeds(request.config, effort):
        counts = counts.plus(one_seed(seed, tmp_path))
        n_cases += 1
    print(f"{n_cases} random indexes, {counts}")
    assert n_cases
    assert min(counts) > 0 or n_cases == 1  # each kind of check was made


# ---- planted bugs ----


def wrapped_ages(times: pa.Array, now: datetime) -> Any:
    """Ages as they once were: in int64, which wraps."""
    unit = ages._unit(times.type)
    missing = times.is_null().to_numpy(zero_copy_only=False)
    wide = pa.int32() if pa.types.is_date32(times.type) else pa.int64()
    ticks = times.view(wide).cast(pa.int64()).fill_null(0).to_numpy()
    fine = min(ages._NANOSECONDS[unit], 1000)
    instant = (now - ages._EPOCH) // timedelta(microseconds=1) * (1000 // fine) % 2**64
    factor = np.uint64(ages._NANOSECONDS[unit] // fine)
    wrapped = np.uint64(instant) - ticks.view(np.uint64) * factor
    return np.where(missing, np.nan, wrapped.view(np.int64).astype(np.float64) / (10**9 // fine))


def batch_wide_values(array: pa.Array) -> list[Any]:
    """Values whose type depends on the other rows of the batch."""
    one_by_one = [arrow_values._value(scalar) for scalar in array]
    if any(isinstance(value, np.datetime64) for value in one_by_one):
        return [None if value is None else str(value) for value in one_by_one]
    return one_by_one


def batch_wide_importances(ratings: pa.Array, default: float, scale: float) -> Any:
    """A missing rating counts as the batch's mean, so other queries change a score."""
    given = ratings.cast(pa.float64()).to_numpy(zero_copy_only=False)
    mean = float(np.nanmean(given)) if np.isfinite(given).any() else default
    return np.clip(np.where(np.isnan(given), mean, given) / scale, 0.0, 1.0)


def untyped_check(column: pa.ChunkedArray, *_: object) -> None:
    """A bad column raises Arrow's own error."""
    for chunk in column.chunks:
        chunk.validate(full=True)


PLANTED: dict[str, tuple[dict[str, object], int]] = {
    "wrapped ages": (
        {"hyrecall.stages.age.age_seconds": wrapped_ages},
        3,
    ),
    "batch-wide values": ({"hyrecall.hits.reply.python_values": batch_wide_values}, 3),
    "batch-wide importances": (
        {"hyrecall.stages.age.importances": batch_wide_importances},
        19,
    ),
    "the least count is no time": ({"hyrecall.table.arrow_values.NAT": None}, 3),
    "an untyped refusal": ({"hyrecall.table.columns.check_column": untyped_check}, 3),
}  # fmt: skip


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_bug_is_caught(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    changes, seed = PLANTED[name]
    assert seed in QUICK  # where the test above sees that the case is sound
    for target, planted in changes.items():
        monkeypatch.setattr(target, planted)
    with pytest.raises(Broken, match=f"^--fuzz-seed={seed}: "):
        one_seed(seed, tmp_path)
