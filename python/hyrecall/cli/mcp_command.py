"""``hyrecall mcp``: serves a store to programs with a language model."""

from __future__ import annotations

import asyncio
import os
import signal
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hyrecall import recipes
from hyrecall.cli.memory_options import Org, StorePath, Workspace, opened
from hyrecall.cli.show import say
from hyrecall.errors import OptionError, error

if TYPE_CHECKING:
    from hyrecall.memory import Memory, MemorySync
    from hyrecall.serve import Caller, ServiceOptions


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
        str | None,
        typer.Option(
            "--host",
            metavar="ADDRESS",
            show_default="127.0.0.1",
            help="Address for --http; another one than loopback needs --tokens.",
        ),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(
            "--port", metavar="N", show_default="8766", help="Port for --http; 0 is a free one."
        ),
    ] = None,
    tokens: Annotated[
        Path | None,
        typer.Option(
            "--tokens",
            metavar="FILE",
            show_default="none: callers on this machine are --user",
            help="For --http: the tokens of callers, which hyrecall token makes.",
        ),
    ] = None,
    allowed_hosts: Annotated[
        list[str] | None,
        typer.Option(
            "--allowed-host",
            metavar="NAME",
            help="For --http: a name of the server, as the header Host has it; repeat for several.",
        ),
    ] = None,
    allowed_origins: Annotated[
        list[str] | None,
        typer.Option(
            "--allowed-origin",
            metavar="URL",
            help="For --http: an origin whose pages may call, as https://app.example; repeat for "
            "several.",
        ),
    ] = None,
) -> None:
    """Serve a store by the Model Context Protocol, over stdin and stdout.

    A program such as Claude or VS Code starts this command; variables of its configuration
    (HYRECALL_*, LTM_*) take effect. Messages go to stdout, notes to stderr.
    """
    # A missing extra is reported before a store is made.
    from hyrecall.serve import mcp as served

    if http:
        served.http_app  # noqa: B018
    from hyrecall.memory import IsolationWarning

    of_http = {
        "--host": host, "--port": port, "--tokens": tokens, "--allowed-host": allowed_hosts,
        "--allowed-origin": allowed_origins,
    }  # fmt: skip
    of_caller = {"--user": user, "--agent": agent, "--any-user": any_user or None}
    of_caller |= {"--org": org, "--workspace": workspace}
    if not http:
        _refuse(of_http, "--http with it")
    if tokens is not None:
        _refuse(of_caller, "no such option with --tokens, which say who calls")
    options = _options(host, port, tokens, allowed_hosts, allowed_origins)
    with opened(path, read_only=readonly, makes=not readonly, recipe=recipe, warm=True) as memory:
        # A token says whose memories are meant, also if they are those without a user.
        warnings.simplefilter("once" if tokens is None else "ignore", IsolationWarning)
        caller = None
        if tokens is None:
            caller = caller_of(
                memory, user, org, workspace, agent, any_user=any_user, readonly=readonly
            )
        asked: dict[str, Any] = {
            "caller": caller, "systems": systems or None, "readonly": readonly, "options": options,
        }  # fmt: skip
        if http:
            _over_http(memory, asked)
        else:
            asyncio.run(_over_stdio(memory, asked))


def _refuse(given: dict[str, Any], wish: str) -> None:
    """Refuse options that would be ignored."""
    for name, value in given.items():
        if value not in (None, []):
            raise error(OptionError, name, wish, "none" if "with it" in wish else "one")


def _options(
    host: str | None,
    port: int | None,
    tokens: Path | None,
    allowed_hosts: list[str] | None,
    allowed_origins: list[str] | None,
) -> ServiceOptions:
    from hyrecall.serve import ServiceOptions

    return ServiceOptions(
        host="127.0.0.1" if host is None else host,
        port=_PORT if port is None else port,
        tokens=tokens,
        allowed_hosts=tuple(allowed_hosts or ()),
        allowed_origins=tuple(allowed_origins or ()),
    )


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


async def _over_stdio(sync: MemorySync, asked: dict[str, Any]) -> None:
    from hyrecall.serve.mcp import create_server, run_stdio

    async with _awaited(sync) as memory:
        await run_stdio(create_server(memory, **asked), max_line=asked["options"].max_body)


def _over_http(sync: MemorySync, asked: dict[str, Any]) -> None:
    from hyrecall.serve import run
    from hyrecall.serve.mcp import http_app

    memory = _awaited(sync)
    app = http_app(memory, **asked)
    with _ending_at_sigterm():
        run(app, started=lambda url: say(f"note: serving {url}/mcp"))


@contextmanager
def _ending_at_sigterm() -> Iterator[None]:
    """Leave by an exit, so that the store is closed, when the server repeats the signal."""

    def end(*_: object) -> None:
        raise SystemExit(0)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _awaited(sync: MemorySync) -> Memory:
    """Return the store with methods to be awaited."""
    from hyrecall.memory import Memory

    return Memory(sync, ThreadPoolExecutor(16, thread_name_prefix="hyrecall-mcp"))
