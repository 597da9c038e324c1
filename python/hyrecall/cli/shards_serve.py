"""``hyrecall shards serve``: serves the shards of an index over HTTP."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hyrecall.cli.opening_options import Memory, Pin, Verify, opening_of
from hyrecall.cli.service_options import (
    AllowedHosts,
    AllowedOrigins,
    EngineThreads,
    Host,
    LogLevel,
    MoreOptions,
    NoJoin,
    Port,
    Tokens,
    check_log_level,
    log_to_stderr,
    options_of,
    service_fields,
)
from hyrecall.cli.show import say

__all__ = ["serve"]


def serve(
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="DIR",
            help="A folder of shards, or folders of saved indexes that are shards of one.",
        ),
    ],
    processes: Annotated[
        bool, typer.Option("--processes", help="Open each shard in a process of its own.")
    ] = False,
    replicas: Annotated[
        int,
        typer.Option(
            "--replicas",
            metavar="N",
            help="Processes for each shard, which share its questions; 2 or more mean --processes.",
        ),
    ] = 1,
    timeout: Annotated[
        float | None,
        typer.Option(
            "--timeout",
            metavar="SECONDS",
            show_default="a third of the deadline of a request",
            help="The longest that a process may take for an answer; then its shard is lost.",
        ),
    ] = None,
    hedge: Annotated[
        float | None,
        typer.Option(
            "--hedge",
            metavar="SECONDS",
            show_default="never",
            help="Ask a second replica if the first takes longer.",
        ),
    ] = None,
    host: Host = "127.0.0.1",
    port: Port = 8765,
    tokens: Tokens = None,
    allowed_hosts: AllowedHosts = None,
    allowed_origins: AllowedOrigins = None,
    threads: EngineThreads = None,
    memory: Memory = None,
    verify: Verify = None,
    pin: Pin = None,
    no_join: NoJoin = False,
    options: MoreOptions = None,
    log_level: LogLevel = "info",
) -> None:
    """Serve the shards of an index over HTTP until SIGTERM or an interrupt, read-only.

    Replies are those of one index with all documents. Saved indexes are loaded again when they are
    saved anew, a folder of shards when it is rebalanced or built anew. A reply that lacks a shard
    says so; GET /readyz names the shards that are lost.
    """
    check_log_level(log_level)
    fields = service_fields(host, port, tokens, allowed_hosts, allowed_origins, no_join, options)
    service = options_of(fields)
    opening = opening_of(threads, memory, verify, pin)
    from hyrecall.distributed import ShardedIndex
    from hyrecall.serve import create_app, run

    log_to_stderr(log_level)
    is_apart = processes or replicas > 1
    index = ShardedIndex.open(
        paths,
        processes=is_apart,
        replicas=replicas,
        timeout=service.deadline / 3 if is_apart and timeout is None else timeout,
        hedge=hedge,
        **opening.options,
    )
    with index:
        index.reload()  # processes start, and open their shards, before the first request comes
        told = f"serving {len(index)} shards"
        run(create_app(index, service), started=lambda url: say(f"{told} at {url}"))
