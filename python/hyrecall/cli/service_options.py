"""Options of the commands that serve over HTTP, and how they become those of the service."""

from __future__ import annotations

import json
import logging
import sys
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from hyrecall.errors import OptionError, error

if TYPE_CHECKING:
    from hyrecall.serve import ServiceOptions

__all__ = [
    "AllowedHosts",
    "AllowedOrigins",
    "EngineThreads",
    "Host",
    "LogLevel",
    "MoreOptions",
    "NoJoin",
    "Port",
    "Tokens",
    "check_log_level",
    "log_to_stderr",
    "options_of",
    "service_fields",
]

LEVELS = ("debug", "info", "warning", "error")

Host: TypeAlias = Annotated[
    str,
    typer.Option(
        "--host",
        metavar="ADDRESS",
        help="The address to listen at; another one than loopback needs --tokens.",
    ),
]
Port: TypeAlias = Annotated[
    int, typer.Option("--port", metavar="N", help="The port to listen at; 0 is a free one.")
]
Tokens: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--tokens",
        metavar="FILE",
        show_default="none: every caller on this machine may do everything",
        help="The tokens of callers, which hyrecall token makes.",
    ),
]
AllowedHosts: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--allowed-host",
        metavar="NAME",
        help="A name of the service, as the header Host has it; repeat for several.",
    ),
]
AllowedOrigins: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--allowed-origin",
        metavar="URL",
        help="An origin whose pages may call, as https://app.example; repeat for several.",
    ),
]
EngineThreads: TypeAlias = Annotated[
    int | None,
    typer.Option(
        "--threads",
        metavar="N",
        show_default="the processor's cores",
        help="Threads of the engine in each process.",
    ),
]
NoJoin: TypeAlias = Annotated[
    bool, typer.Option("--no-join", help="Do not join searches that wait to a batch.")
]
MoreOptions: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--option",
        metavar="NAME=VALUE",
        help="Another option of hyrecall.serve.ServiceOptions, as max_body=2000000; repeat for "
        "several.",
    ),
]
LogLevel: TypeAlias = Annotated[
    str, typer.Option("--log-level", metavar="|".join(LEVELS), help="What is logged.")
]


def check_log_level(level: str) -> None:
    """Refuse a level that is none."""
    if level not in LEVELS:
        raise error(OptionError, "--log-level", f"one of {', '.join(LEVELS)}", repr(level))


def service_fields(
    host: str,
    port: int,
    tokens: Path | None,
    allowed_hosts: list[str] | None,
    allowed_origins: list[str] | None,
    no_join: bool,
    options: list[str] | None,
) -> dict[str, Any]:
    """Return fields of the service's options, all of which JSON can hold."""
    return {
        **_more_options(options),
        "host": host,
        "port": port,
        "tokens": None if tokens is None else str(tokens),
        "allowed_hosts": allowed_hosts or [],
        "allowed_origins": allowed_origins or [],
        "join": not no_join,
    }


def _more_options(given: list[str] | None) -> dict[str, Any]:
    """Read ``NAME=VALUE`` of numbers."""
    from hyrecall.serve import ServiceOptions

    known = [one.name for one in fields(ServiceOptions) if isinstance(one.default, int | float)]
    numbers = [name for name in known if name not in ("port", "join")]
    made: dict[str, Any] = {}
    for one in given or ():
        name, _, value = one.partition("=")
        if name not in numbers:
            raise error(OptionError, "--option", f"one of {', '.join(numbers)}", repr(name))
        try:
            made[name] = json.loads(value)
        except ValueError:
            raise error(OptionError, f"--option {name}", "a number", repr(value)) from None
    return made


def options_of(given: dict[str, Any]) -> ServiceOptions:
    """Make the options of the service of :func:`service_fields`."""
    from hyrecall.serve import ServiceOptions

    lists = {name: tuple(given[name]) for name in ("allowed_hosts", "allowed_origins")}
    return ServiceOptions(**{**given, **lists})


def log_to_stderr(level: str) -> None:
    """Write the service's logs to standard error."""
    logging.basicConfig(
        stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s %(message)s", level="WARNING"
    )
    for name in ("hyrecall", "uvicorn"):
        logging.getLogger(name).setLevel(level.upper())
