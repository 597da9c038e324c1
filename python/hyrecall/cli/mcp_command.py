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
from typing import TYPE_CHECKING, Any, Unpack

import typer

from hyrecall.cli.declare import Whose
from hyrecall.cli.memory_options import opened
from hyrecall.cli.options import refuse
from hyrecall.cli.show import say
from hyrecall.errors import OptionError, error

if TYPE_CHECKING:
    from hyrecall.memory import Memory, MemorySync
    from hyrecall.serve import Caller


_PORT = 8766


def mcp(
    ctx: typer.Context,
    *,
    path: Path | None = None,
    agent: str | None = None,
    any_user: bool = False,
    readonly: bool = False,
    recipe: str | None = None,
    systems: list[str] | None = None,
    http: bool = False,
    host: str | None = None,
    port: int | None = None,
    tokens: Path | None = None,
    allowed_hosts: list[str] | None = None,
    allowed_origins: list[str] | None = None,
    **whose: Unpack[Whose],
) -> None:
    """Serve a store by the Model Context Protocol, over stdin and stdout.

    A program such as Claude or VS Code starts this command; variables of its configuration
    (HYRECALL_*, LTM_*) take effect. Messages go to stdout, notes to stderr.

    Options
    user_id --user NAME: The user whose memories these are; with the recipe l0, user. [default:
        HYRECALL_USER, else LTM_SCOPE, else memories without a user]
    agent NAME: Read and write as this agent, not --user.
    any_user: Let each call name a user (in tools of l0: a scope), not --user.
    readonly: List and answer only tools that read.
    recipe NAME: How to recall: $ALL_RECIPES. [default: that of the settings, or default]
    systems --system NAME: Also list the tools that this system documents: hypergraph, l0, honeycomb
        or hebb; repeat for several. The store's recipe has to share an index with that system's.
        [default: that of the store's recipe]
    http: Serve streamable HTTP at /mcp, instead of stdio.
    host ADDRESS: Address for --http; another one than loopback needs --tokens. [default: 127.0.0.1]
    port N: Port for --http; 0 is a free one. [default: 8766]
    tokens FILE: For --http: the tokens of callers, which hyrecall token makes. [default: none:
        callers on this machine are --user]
    allowed_hosts --allowed-host NAME: For --http: a name of the server, as the header Host has it;
        repeat for several.
    allowed_origins --allowed-origin URL: For --http: an origin whose pages may call, as
        https://app.example; repeat for several.
    """
    # A missing extra is reported before a store is made.
    from hyrecall.serve import ServiceOptions
    from hyrecall.serve import mcp as served

    if http:
        served.http_app  # noqa: B018
    from hyrecall.memory import IsolationWarning

    named: dict[str, Any] = {
        "host": host, "port": port, "tokens": tokens, "allowed_hosts": allowed_hosts,
        "allowed_origins": allowed_origins,
    }  # fmt: skip
    if not http:
        refuse(ctx, "--http with it", *named)
    if tokens is not None:
        wish = "no such option with --tokens, which say who calls"
        refuse(ctx, wish, "agent", "any_user", *whose)
    given = {name: one for name, one in named.items() if one is not None}
    options = ServiceOptions(**{"port": _PORT, **given})
    with opened(path, read_only=readonly, makes=not readonly, recipe=recipe, warm=True) as memory:
        # A token says whose memories are meant, also if they are those without a user.
        warnings.simplefilter("once" if tokens is None else "ignore", IsolationWarning)
        caller = None
        if tokens is None:
            caller = caller_of(memory, agent, any_user=any_user, readonly=readonly, **whose)
        asked: dict[str, Any] = {
            "caller": caller, "systems": systems or None, "readonly": readonly, "options": options,
        }  # fmt: skip
        if http:
            from hyrecall.serve import run

            app = served.http_app(_awaited(memory), **asked)
            with _ending_at_sigterm():
                run(app, started=lambda url: say(f"note: serving {url}/mcp"))
        else:
            asyncio.run(_over_stdio(memory, asked))


def caller_of(
    memory: MemorySync,
    agent: str | None,
    *,
    any_user: bool,
    readonly: bool,
    user_id: str | None,
    org: str | None,
    workspace: str | None,
) -> Caller:
    """Return who calls, from options and the environment."""
    from hyrecall.serve import Caller

    fixed = [name for name, one in (("--user", user_id), ("--agent", agent)) if one is not None]
    fixed += ["--any-user"] if any_user else []
    if len(fixed) > 1:
        wish = "one of --user, --agent and --any-user"
        raise error(OptionError, fixed[0], wish, " and ".join(fixed))
    if agent is not None and (org is None or workspace is None):
        raise error(OptionError, "--agent", "--org and --workspace with it", "less")
    if not fixed:
        default = "user" if memory._store.recipe.name == "l0" else None
        user_id = os.environ.get("HYRECALL_USER") or os.environ.get("LTM_SCOPE") or default
    return Caller(
        org=org,
        workspace=workspace,
        user_id=user_id,
        agent=agent,
        rights=frozenset(("read",) if readonly else ("read", "write")),
        may_choose_user=any_user,
    )


async def _over_stdio(sync: MemorySync, asked: dict[str, Any]) -> None:
    from hyrecall.serve.mcp import create_server, run_stdio

    async with _awaited(sync) as memory:
        await run_stdio(create_server(memory, **asked), max_line=asked["options"].max_body)


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
