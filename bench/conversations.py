"""Draw the gain of each part of the ranking of conversations, from the table of its page.

python -m bench.conversations                 into docs/plots/conversations.svg
python -m bench.conversations --out FILE
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from bench.svg import bar_chart

DOCS = Path(__file__).parents[1] / "docs"
PAGE = DOCS / "ranking-conversations.md"
OUT = DOCS / "plots" / "conversations.svg"
MEASURE = "any@10"
BEGIN, END = "<!-- bench.conversations: begin -->", "<!-- bench.conversations: end -->"


def table(page: str) -> dict[str, dict[str, float]]:
    """Read the table between the marks of a page: the measures of each row by name."""
    lines = page.partition(BEGIN)[2].partition(END)[0].strip().splitlines()
    head, _, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {name: dict(zip(head[1:], map(float, values), strict=True)) for name, *values in rows}


def draw(page: str) -> str:
    """Draw one measure of every row of the page's table."""
    bars = [(name, of_row[MEASURE]) for name, of_row in table(page).items()]
    return bar_chart(f"LoCoMo, 1,536 questions: {MEASURE}", bars, low=0.6, high=0.85)


def main(arguments: list[str] | None = None) -> int:
    """Write the drawing."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.conversations",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--out", type=Path, default=OUT)
    given = parser.parse_args(arguments)
    given.out.write_text(draw(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    print(given.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
