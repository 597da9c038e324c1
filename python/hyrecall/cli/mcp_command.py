"""``hyrecall mcp``: serves a store to programs with a language model."""

from __future__ import annotations

import asyncio
import os
import warnings
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hyrecall import recipes
from hyrecall.cli.memory_options import Org, StorePath, Workspace, opened
from hyrecall.cli.show import say
from hyrecall.errors import OptionError, error

if TYPE_CHECKING:
    from hyrecall.memory import MemorySync
    from hyrecall.serve import Caller, ServiceOptions

__all__ = ["caller_of", "mcp"]

_PORT = 8766

_Names = Annotated[
    list[str] | None,
    typer.Option(
        "--system",
        metavar="NAME",
        show_default="that of the store's recipe",
        help="Also list the tools that this system documents: hypergraph, l0, honeycomb or hebb; "
        "repeat for several. The store's recipe has to share an index with that system's.",
    ),
]


def mcp(
    path: StorePath = None,
    user: Annotated[
        str | None,
        typer.Option(
            "--user",
            metavar="NAME",
            show_default="HYRECALL_USER, else LTM_SCOPE, else memories without a user",
            help="The user whose memories these are; with the recipe l0, user.",
        ),
    ] = None,
    org: Org = None,
    workspace: Workspace = None,
    agent: Annotated[
        str | None,
        typer.Option("--agent", metavar="NAME", help="Read and write as this agent, not --user."),
    ] = None,
    any_user: Annotated[
        bool,
        typer.Option(
            "--any-user", help="Let each call name a user (in tools of l0: a scope), not --user."
        ),
    ] = False,
    readonly: Annotated[
        bool, typer.Option("--readonly", help="List and answer only tools that read.")
    ] = False,
    recipe: Annotated[
        str | None,
        typer.Option(
            "--recipe",
            metavar="NAME",
            show_default="that of the settings, or default",
            help=f"How to recall: {', '.join(recipes.__all__)}.",
        ),
    ] = None,
    systems: _Names = None,
    http: Annotated[
        bool, typer.Option("--http", help="Serve streamable HTTP at /mcp, instead of stdio.")
    ] = False,
    host: Annotated[
        str, typer.Option("--host", metavar="HOST", help="Address for --http.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", metavar="PORT", help="Port for --http; 0: a free one.")
    ] = _PORT,
) -> None:
    """Serve a store by the Model Context Protocol, over stdin and stdout.

    A program such as Claude or VS Code starts this command; variables of its configuration
    (HYRECALL_*, LTM_*) take effect. Messages go to stdout, notes to stderr.
    """
    import hyrecall.serve.mcp  # noqa: F401  # a missing extra is reported before a store is made
    from hyrecall.memory import IsolationWarning
    from hyrecall.serve import ServiceOptions

    options = ServiceOptions(host=host, port=port)
    with opened(path, read_only=readonly, makes=not readonly, recipe=recipe, warm=True) as memory:
        warnings.simplefilter("once", IsolationWarning)
        caller = caller_of(
            memory, user, org, workspace, agent, any_user=any_user, readonly=readonly
        )
        run = _over_http if http else _over_stdio
        asyncio.run(run(memory, caller, systems or None, options))


def caller_of(
    memory: MemorySync,
    user: str | None,
    org: str | None,
    workspace: str | None,
    agent: str | None,
    *,
    any_user: bool,
    readonly: bool,
) -> Caller:
    """Return who calls, from options and the environment."""
    from hyrecall.serve import Caller

    fixed = [name for name, one in (("--user", user), ("--agent", agent)) if one is not None]
    fixed += ["--any-user"] if any_user else []
    if len(fixed) > 1:
        wish = "one of --user, --agent and --any-user"
        raise error(OptionError, fixed[0], wish, " and ".join(fixed))
    if agent is not None and (org is None or workspace is None):
        raise error(OptionError, "--agent", "--org and --workspace with it", "less")
    if not fixed:
        default = "user" if memory._store.recipe.name == "l0" else None
        user = os.environ.get("HYRECALL_USER") or os.environ.get("LTM_SCOPE") or default
    return Caller(
        org=org,
        workspace=workspace,
        user_id=user,
        agent=agent,
        rights=frozenset(("read",) if readonly else ("read", "write")),
        may_choose_user=any_user,
    )


async def _over_stdio(
    sync: MemorySync, caller: Caller, systems: list[str] | None, options: ServiceOptions
) -> None:
    from hyrecall.serve.mcp import create_server, run_stdio

    async with _awaited(sync) as memory:
        server = create_server(memory, caller=caller, systems=systems, options=options)
        await run_stdio(server, max_line=options.max_body)


async def _over_http(
    sync: MemorySync, caller: Caller, systems: list[str] | None, options: ServiceOptions
) -> None:
    from hyrecall.serve.mcp import http_app
    from hyrecall.serve.mcp.http import listen

    async with _awaited(sync) as memory:
        app = http_app(memory, caller=caller, systems=systems, options=options)
        await listen(app, options, lambda url: say(f"note: serving {url}"))


def _awaited(sync: MemorySync) -> Any:
    """Return the store with methods to be awaited."""
    from hyrecall.memory import Memory

    return Memory(sync, ThreadPoolExecutor(16, thread_name_prefix="hyrecall-mcp"))
