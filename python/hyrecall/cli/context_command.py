"""``hyrecall context``: prints memories for a prompt, as the hook of a coding agent adds them."""

from __future__ import annotations

from typing import Annotated

import typer

from hyrecall.cli.memory_options import Org, StorePath, User, Workspace
from hyrecall.cli.options import Limit, by_arm, number
from hyrecall.cli.quick import BUDGET, stdin_text
from hyrecall.cli.recall_command import StoreRecall, recall_from_store


def context(
    query: Annotated[
        str,
        typer.Option(
            "--query", metavar="TEXT", help="The text to look for; - reads it from stdin."
        ),
    ],
    budget: Annotated[
        int, typer.Option("--budget", metavar="N", min=1, help="The most tokens to print.")
    ] = BUDGET,
    limit: Limit = 10,
    path: StorePath = None,
    user: User = None,
    org: Org = None,
    workspace: Workspace = None,
    agent: Annotated[
        str | None,
        typer.Option("--agent", metavar="NAME", help="Only what this agent of --org may see."),
    ] = None,
    recipe: Annotated[
        str | None,
        typer.Option(
            "--recipe",
            metavar="NAME",
            show_default="the setting recipe, or default",
            help="How to rank, as of recall.",
        ),
    ] = None,
    min_score: Annotated[
        list[str] | None,
        typer.Option(
            "--min-score",
            metavar="[ARM=]SCORE",
            help="The lowest score: bm25=SCORE, cosine=SCORE, or SCORE for the fused score.",
        ),
    ] = None,
) -> None:
    """Print the memories that fit a prompt, marked as data, in a number of tokens.

    Nothing is printed if nothing is found.
    """
    asked = StoreRecall(
        stdin_text() if query == "-" else query, path, user, org, workspace, recipe=recipe,
        limit=limit, agent=agent, token_budget=budget,
        min_score=by_arm("--min-score", min_score, number),
    )  # fmt: skip
    recall_from_store(asked, form="context")
