"""``hyrecall feedback``: says which memories of a store helped with a query."""

from __future__ import annotations

from typing import Annotated

import typer

from hyrecall.base.text_tables import Column, Row
from hyrecall.cli.memory_options import AsJson, Org, StorePath, User, Workspace, opened
from hyrecall.cli.show import print_json, print_table

__all__ = ["feedback"]


def feedback(
    query: Annotated[
        str | None,
        typer.Argument(metavar="QUERY", show_default="list what was said", help="What was asked."),
    ] = None,
    used: Annotated[
        list[str] | None,
        typer.Argument(metavar="ID", show_default="none", help="The memories that helped."),
    ] = None,
    path: StorePath = None,
    user: User = None,
    org: Org = None,
    workspace: Workspace = None,
    as_json: AsJson = False,
) -> None:
    """Say which memories helped with a query; without a query, list what was said.

    hyrecall learn DIR --user NAME learns from it how to rank for this user.
    """
    where = {"user_id": user, "org": org, "workspace": workspace}
    if query is not None:
        with opened(path) as memory:
            n_new = memory.feedback(used=used or [], query=query, **where)
        print_json({"new": n_new}) if as_json else print(n_new)
        return
    with opened(path, read_only=True) as memory:
        said = memory.list_feedback(**where)
    if as_json:
        rows = [{"query": one.query, "used": one.used, "at": one.at.isoformat()} for one in said]
        print_json({"feedback": rows})
    else:
        columns = Column("query", wraps=True), Column("used", wraps=True), Column("at")
        print_table(
            columns,
            [Row([one.query, " ".join(one.used), f"{one.at:%Y-%m-%d %H:%M}"]) for one in said],
        )
