"""``hyrecall context``: prints memories for a prompt, as the hook of a coding agent adds them."""

from __future__ import annotations

from pathlib import Path
from typing import Unpack

from hyrecall.cli.declare import Whose
from hyrecall.cli.options import at_least, by_arm, number
from hyrecall.cli.quick import BUDGET, stdin_text
from hyrecall.cli.recall_command import recall_from_store


def context(
    *,
    query: str,
    budget: int = BUDGET,
    limit: int = 10,
    path: Path | None = None,
    agent: str | None = None,
    recipe: str | None = None,
    min_score: list[str] | None = None,
    **whose: Unpack[Whose],
) -> None:
    """Print the memories that fit a prompt, marked as data, in a number of tokens.

    Nothing is printed if nothing is found.

    Options
    query TEXT: The text to look for; - reads it from stdin.
    budget N: The most tokens to print.
    agent NAME: Only what this agent of --org may see.
    recipe NAME: How to rank, as of recall. [default: the setting recipe, or default]
    min_score [ARM=]SCORE: The lowest score: bm25=SCORE, cosine=SCORE, or SCORE for the fused score.
    """
    at_least("--budget", budget, 1)
    recall_from_store(
        path, stdin_text() if query == "-" else query, "context", agent=agent, recipe=recipe,
        limit=limit, token_budget=budget, min_score=by_arm("--min-score", min_score, number),
        **whose,
    )  # fmt: skip
