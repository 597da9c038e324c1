"""Compare each target with its measurement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench.targets import A_SECOND, Target
from bench.turns import OURS

Entry = Mapping[str, Any]
WIDTH = 768  # of the rows that a dense target names; other widths are said beside the data


@dataclass(frozen=True)
class Line:
    """A target and what became of it, in words."""

    target: Target
    data: str = ""
    ours: Entry | None = None
    rival: Entry | None = None
    value: float | None = None
    figure: str = ""
    verdict: str = "not measured"

    @property
    def bound(self) -> str:
        """The target in words."""
        sign = ">=" if self.target.at_least else "<="
        return f"{sign} {written(self.target, self.target.bound)}"


def written(target: Target, value: float) -> str:
    """Write a value in the target's unit."""
    if target.figure in ("share", "reading"):
        return f"{value:.0%}"
    space = "" if target.unit in ("x", "%") else " "
    return f"{value:,.3g}{space}{target.unit}" if value < 1_000 else f"{value:,.0f} {target.unit}"


def share(entry: Entry, limits: Mapping[str, float]) -> float | None:
    """Return the least time the machine needs, for the bytes or the products, over the median."""
    reading = read_share(entry, limits)
    if reading is None or not limits.get("int8_gop_s"):
        return None
    multiplying = entry["limit_int8_ops"] / limits["int8_gop_s"] / 1e9
    return max(reading, float(multiplying / entry["stats"]["median"]))


def read_share(entry: Entry, limits: Mapping[str, float]) -> float | None:
    """Return the time that the bytes need as a stream, over the median."""
    if not entry.get("limit_bytes"):
        return None
    return float(entry["limit_bytes"] / limits["stream_gb_s"] / 1e9 / entry["stats"]["median"])


def judge(target: Target, entries: Sequence[Entry], limits: Mapping[str, float]) -> list[Line]:
    """Return a line for each data set that was measured; one that says so where none was."""
    mine = [entry for entry in entries if entry["who"] == OURS and fits(entry, target)]
    sizes = [docs_of(entry) for entry in mine]
    size = target.docs if target.docs in sizes else max(sizes, default=0)
    lines = [one_line(target, entry, entries, limits) for entry in mine if docs_of(entry) == size]
    # Another size has rows of its own in a table of several sizes: it does not stand in for this.
    if target.where.get("kind") in ("dense", "bm25") and size != target.docs:
        lines = []
    return lines or [Line(target)]


def docs_of(entry: Entry) -> int:
    """Return the documents of an entry; 0 where it has none, as the import of the package."""
    return int(entry.get("docs", 0))


def fits(entry: Entry, target: Target) -> bool:
    """Whether an entry is what the target speaks of."""
    return all(
        entry.get(name) in value if isinstance(value, frozenset) else entry.get(name) == value
        for name, value in target.where.items()
    )


def one_line(
    target: Target, ours: Entry, entries: Sequence[Entry], limits: Mapping[str, float]
) -> Line:
    """Work out the figure, and hold it to the bound."""
    data = str(ours.get("data", ""))
    if data and ours.get("dim", WIDTH) != WIDTH:
        data += f", x {ours['dim']}"
    rival = None
    if target.against is not None:
        found = (e for e in entries if e["group"] == ours["group"] and e["who"] == target.against)
        rival = next(found, None)
        if rival is None:
            return Line(target, data, ours)
    value, around = figure(target, ours, rival, limits)
    if value is None:
        return Line(target, data, ours, rival)
    text = written(target, value)
    if around is not None and around[0] < around[1]:
        text += f" ({written(target, around[0])}..{written(target, around[1])})"
    if target.docs is not None and docs_of(ours) != target.docs:
        return Line(target, data, ours, rival, value, f"{text} at {docs_of(ours):,}", "-")
    return Line(target, data, ours, rival, value, text, verdict(target, value))


def figure(
    target: Target, ours: Entry, rival: Entry | None, limits: Mapping[str, float]
) -> tuple[float | None, tuple[float, float] | None]:
    """Return the value that the bound speaks of, and the quartiles of ratios."""
    value: float | None = None
    around: tuple[float, float] | None = None
    match target.figure:
        case "ratio" if rival is not None:
            ratio = rival["ratio"]
            value, around = ratio["median"], (ratio["q1"], ratio["q3"])
        case "times" if rival is not None:
            ratio = rival["ratio"]
            value, around = 1 / ratio["median"], (1 / ratio["q3"], 1 / ratio["q1"])
        case "time" if ours.get("queries"):
            value = ours["stats"]["median"] / ours["queries"] * A_SECOND[target.unit]
        case "share":
            value = share(ours, limits)
        case "reading":
            value = read_share(ours, limits)
        case "fact":
            value = ours.get(target.fact)
        case "fact ratio" if rival is not None:
            mine, theirs = ours.get(target.fact), rival.get(target.fact)
            value = mine / theirs if mine is not None and theirs else None
    return value, around


def verdict(target: Target, value: float) -> str:
    """Say pass, or how much of the target was reached."""
    if (value >= target.bound) if target.at_least else (value <= target.bound):
        return "pass"
    return f"MISS ({value / target.bound:.0%} of it)"
