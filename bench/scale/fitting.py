"""Measured times become a model: time by rows, by question, and how a machine varies them.

The work of a step is

    base(rows) x question x jitter + interruptions

- ``base``: processor time by the rows that a query sees, linear between measured points; beyond
  them with their mean slope.
- ``question``: how much longer or shorter a question takes than the mean one. It is drawn once a
  query, since all shards answer the same question.
- ``jitter``: the time over the question's own median, drawn for each shard by itself; of steps that
  take two milliseconds or more, since a short step's is made of what the next point counts.
- ``interruptions``: times that are above the median by more than half of it and half a millisecond.
  They come by chance, at so many a millisecond of work, and add what they are above the median.
  Their lengths beyond half a millisecond follow a generalised Pareto distribution, fitted by
  probability-weighted moments (Hosking and Wallis 1987).

Time in which other programs had the core is left out, unless the fit is asked to count it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Entry = dict[str, Any]
SHORTEST_MS = 0.5  # of an interruption
LONG_MS = 2.0  # of a step whose variation is not made of short interruptions
HEAVIEST = 0.49  # shape of a tail; from 0.5 on its variance is infinite, and no run is long enough
GRID = np.linspace(0, 1, 51)


@dataclass(frozen=True)
class Tail:
    """Lengths: ``SHORTEST_MS`` and a generalised Pareto variable."""

    scale: float
    shape: float  # 0: exponential; above: heavier

    @classmethod
    def fitted(cls, lengths: Sequence[float] | Floats) -> Tail:
        """Fit by probability-weighted moments; fewer than two lengths all count as shortest."""
        beyond = np.sort(np.asarray(lengths, float)) - SHORTEST_MS
        if len(beyond) < 2:
            return cls(0.0, 0.0)
        below = (np.arange(1, len(beyond) + 1) - 0.35) / len(beyond)
        mean, weighted = beyond.mean(), (beyond * (1 - below)).mean()
        shape = 2 - mean / (mean - 2 * weighted)
        if shape > HEAVIEST:  # the heaviest that is allowed, with the same mean
            return cls(float(mean * (1 - HEAVIEST)), HEAVIEST)
        return cls(float(2 * mean * weighted / (mean - 2 * weighted)), float(shape))

    @property
    def mean(self) -> float:
        """The mean length."""
        return SHORTEST_MS + self.scale / (1 - self.shape)

    def lengths(self, drawn: Floats) -> Floats:
        """Return the lengths at uniform numbers from [0, 1)."""
        if abs(self.shape) < 1e-6:
            return SHORTEST_MS - self.scale * np.log1p(-drawn)
        beyond = ((1 - drawn) ** -self.shape - 1) * self.scale / self.shape
        return np.asarray(SHORTEST_MS + beyond, float)


@dataclass(frozen=True)
class Noise:
    """How one machine varies the time of one question."""

    jitter: Floats  # quantiles at GRID
    rate: float  # interruptions a millisecond
    tail: Tail

    @classmethod
    def fitted(cls, wall: Sequence[Floats], busy: Sequence[Floats]) -> Noise:
        """Fit to wall and processor times of questions, a row for each."""
        jitter, lengths, total = [], [], 0.0
        for took, used in zip(wall, busy, strict=True):
            median = np.median(used, axis=1, keepdims=True)
            over = took - median
            is_late = over > np.maximum(SHORTEST_MS, median / 2)
            lengths.append(over[is_late])
            total += float(median.sum() * took.shape[1])
            jitter.append((took / median)[~is_late & (median >= LONG_MS)])
        ratios = np.concatenate(jitter)
        if not len(ratios):  # a tiny measurement has no long step
            ratios = np.ones(1)
        all_lengths = np.concatenate(lengths)
        return cls(np.quantile(ratios, GRID), len(all_lengths) / total, Tail.fitted(all_lengths))

    def of_idle_machine(self) -> Noise:
        """Return the same without interruptions."""
        return Noise(self.jitter, 0.0, self.tail)

    def vary(self, work: Floats, rng: np.random.Generator) -> Floats:
        """Return times that these works take."""
        made = work * np.interp(rng.random(work.shape), GRID, self.jitter)
        counts = rng.poisson(self.rate * work)
        if counts.any():
            lengths = self.tail.lengths(rng.random(int(counts.sum())))
            places = np.repeat(np.arange(counts.size), counts.ravel())
            more = np.bincount(places, lengths, counts.size)
            made = made + more.reshape(work.shape)
        return np.asarray(made, float)

    def mean(self, work: float) -> float:
        """Return the mean of the times that a work takes."""
        mean_jitter = float(np.trapezoid(self.jitter, GRID))
        return work * (mean_jitter + self.rate * self.tail.mean)


def line(x: Sequence[float], y: Sequence[float]) -> tuple[float, float]:
    """Return the intercept and the slope of the least squares line."""
    slope, intercept = np.polyfit(np.asarray(x, float), np.asarray(y, float), 1)
    return float(intercept), float(slope)


def between(x: Sequence[float], y: Sequence[float], at: npt.ArrayLike) -> Floats:
    """Read a value from measured points: linear between them, beyond them with their mean slope.

    (The last slope alone would say too little where a scan begins to read heads in between.)
    """
    places = np.asarray(at, float)
    found = np.interp(places, x, y)
    if len(x) > 1:
        slope = max(0.0, (y[-1] - y[0]) / (x[-1] - x[0]))
        found = found + np.maximum(0.0, places - x[-1]) * slope
    return np.asarray(found, float)


# ---- what is kept of a measurement ----


def rounded(value: float) -> float:
    """Keep four digits."""
    return float(f"{value:.4g}")


def condensed(entry: Entry, steps: Sequence[str]) -> Entry:
    """Keep means, the factors of questions, and medians of wall times."""
    kept = {name: value for name, value in entry.items() if name not in steps}
    kept["bytes"] = {name: round(value) for name, value in entry["bytes"].items()}
    kept["batched"] = {name: rounded(value) for name, value in entry["batched"].items()}
    for step in steps:
        medians = np.median(np.asarray(entry[step]["busy"]), axis=1)
        kept[step] = {
            "ms": rounded(medians.mean()),
            "wall_ms": rounded(float(np.median(entry[step]["wall"]))),
            "questions": [rounded(one) for one in medians / medians.mean()],
        }
    return kept


def noise_entry(
    entries: Sequence[Entry], steps: Sequence[str], *, beside_others: bool = False
) -> Entry:
    """Return the fitted noise of measured entries as JSON.

    ``beside_others``: waiting for a core behind other programs is an interruption too.
    """
    times = [entry[step] for entry in entries for step in steps]
    busy = [np.asarray(one["busy"]) for one in times]
    # Clocks are read one after the other, so that what was queued may be a little too much.
    wall = [
        np.maximum(
            np.asarray(one["wall"]) - (0.0 if beside_others else np.asarray(one["queued"])), used
        )
        for one, used in zip(times, busy, strict=True)
    ]
    noise = Noise.fitted(wall, busy)
    return {
        "jitter": [rounded(one) for one in noise.jitter],
        "rate": rounded(noise.rate),
        "tail": {"scale": rounded(noise.tail.scale), "shape": rounded(noise.tail.shape)},
        "times": sum(one.size for one in wall),
    }


def noise_from(entry: Entry) -> Noise:
    """Read what :func:`noise_entry` made."""
    tail = Tail(entry["tail"]["scale"], entry["tail"]["shape"])
    return Noise(np.asarray(entry["jitter"]), entry["rate"], tail)
