"""Draw charts as SVG, without any package; the text can be compared."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 480, 320
LEFT, RIGHT, TOP, BOTTOM = 62, 14, 34, 46
COLOURS = ("#1f6feb", "#d1730f", "#2d8a4e", "#8250df")  # read on white and on black
GREY = "#888888"


@dataclass(frozen=True)
class Series:
    """A named line: points by rising x, all positive."""

    name: str
    points: Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Axis:
    """A logarithmic axis between two values, on so many pixels."""

    low: float
    high: float
    begin: float
    end: float

    @classmethod
    def over(cls, values: Sequence[float], begin: float, end: float) -> Axis:
        """Span the values, with some room on both sides."""
        room = 1.15
        return cls(min(values) / room, max(values) * room, begin, end)

    def __call__(self, value: float) -> float:
        """Return the pixel of a value."""
        share = math.log(value / self.low) / math.log(self.high / self.low)
        return self.begin + share * (self.end - self.begin)

    def ticks(self) -> Iterator[float]:
        """Return 1, 2 and 5 times powers of ten, or the powers alone where those are many."""
        first, last = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
        steps = (1, 2, 5) if last - first <= 3 else (1,)
        for power in range(first, last + 1):
            for step in steps:
                if self.low <= step * 10.0**power <= self.high:
                    yield step * 10.0**power


def number(value: float) -> str:
    """Write a tick: 0.02, 5, 10k, 1M."""
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= size:
            return f"{value / size:g}{unit}"
    return f"{value:g}"


def text(x: float, y: float, words: str, *, anchor: str = "middle", more: str = "") -> str:
    """Write words at a place."""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{more}>{escape(words)}</text>'


def line_chart(title: str, x_label: str, y_label: str, series: Sequence[Series]) -> str:
    """Draw lines over logarithmic axes."""
    points = [point for one in series for point in one.points]
    across = Axis.over([x for x, _ in points], LEFT, WIDTH - RIGHT)
    up = Axis.over([y for _, y in points], HEIGHT - BOTTOM, TOP)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" '
        f'viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="11" fill="{GREY}">',
        text(WIDTH / 2, 16, title, more=' font-size="13"'),
        text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 10, x_label),
        text(
            0,
            0,
            y_label,
            more=f' transform="translate(14 {(TOP + HEIGHT - BOTTOM) / 2:.0f}) rotate(-90)"',
        ),
    ]
    for tick in across.ticks():
        x = across(tick)
        parts.append(_rule(x, TOP, x, HEIGHT - BOTTOM))
        parts.append(text(x, HEIGHT - BOTTOM + 15, number(tick)))
    for tick in up.ticks():
        y = up(tick)
        parts.append(_rule(LEFT, y, WIDTH - RIGHT, y))
        parts.append(text(LEFT - 6, y + 4, number(tick), anchor="end"))
    for place, (one, colour) in enumerate(zip(series, COLOURS, strict=False)):
        pixels = [(across(x), up(y)) for x, y in one.points]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in pixels)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in pixels]
        parts.append(
            text(
                LEFT + 8, TOP + 14 * (place + 1), one.name, anchor="start", more=f' fill="{colour}"'
            )
        )
    return "\n".join([*parts, "</svg>", ""])


def bar_chart(title: str, bars: Sequence[tuple[str, float]], *, low: float, high: float) -> str:
    """Draw a horizontal bar for each name, from ``low`` to ``high``, with its value behind it."""
    left, step = 140, 30
    height = TOP + step * len(bars) + 8
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
        f'viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" font-size="12" fill="{GREY}">',
        text(WIDTH / 2, 18, title, more=' font-size="13"'),
    ]
    for place, (name, value) in enumerate(bars):
        y = TOP + step * place
        width = (value - low) / (high - low) * (WIDTH - RIGHT - 40 - left)
        colour = COLOURS[0] if place + 1 < len(bars) else COLOURS[2]
        parts.append(
            f'<rect x="{left}" y="{y}" width="{width:.1f}" height="{step - 10}" fill="{colour}"/>'
        )
        parts.append(text(left - 8, y + 15, name, anchor="end"))
        parts.append(text(left + width + 6, y + 15, f"{value:.3f}", anchor="start"))
    return "\n".join([*parts, "</svg>", ""])


def _rule(x1: float, y1: float, x2: float, y2: float) -> str:
    return (
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{GREY}" '
        'stroke-opacity="0.25"/>'
    )
