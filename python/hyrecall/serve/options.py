"""Defines the options of the service with its limits, and its callers with their rights."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, TypeAlias

from hyrecall.base.arguments import check_keywords, convert_field
from hyrecall.errors import DTypeError, OptionError, error

LOOPBACK = ("127.0.0.1", "localhost", "::1")
"""Hosts that only this machine can reach, and that browsers on it name."""


@check_keywords
@dataclass(frozen=True, kw_only=True)
class ServiceOptions:
    """How a store or an index is served.

    Parameters
    ----------
    host : str, default "127.0.0.1"
        The address to listen at. Another one than loopback needs `tokens`.
    port : int, default 8765
        0: a free port.
    tokens : path-like, optional
        The file of ``hyrecall token``. Without it every caller on this machine may do everything.
    allowed_hosts : tuple of str, default ()
        Values of the header ``Host``, without port, beside loopback and `host`.
    allowed_origins : tuple of str, default ()
        Values of the header ``Origin`` of pages that may call, beside the service's own, as
        ``"https://app.example"``. ``"*"`` is refused.
    max_body, max_arrow_body : int, default 1 MiB, 64 MiB
        Bytes of a request's body; the second for batches as Arrow streams.
    max_query : int, default 32,768
        Bytes of one query.
    max_limit : int, default 1,000
        Of ``limit``, and of ``offset + limit``.
    max_batch : int, default 256
        Queries, or memories, in one request of JSON.
    max_arrow_batch : int, default 65,536
        Queries in one Arrow stream.
    max_store_batch : int, default 1,024
        Queries in one Arrow stream to a store, which searches a few at a time: a stream that
        needs more than `deadline` has no reply.
    max_hits, max_arrow_hits : int, default 100,000, 1,000,000
        Hits that one request may ask for: its queries times their limits, each hit with what is
        shown around it; the second for Arrow streams to an index, whose hits are no objects.
    max_reply : int, default 256 MiB
        Bytes of a reply, but for exports.
    max_levels : int, default 16
        Levels of JSON in a request.
    max_ids : int, default 10,000
        Ids, tags or values in one list of a request.
    deadline : float, default 30
        Seconds that a request may take from its last byte to the first byte of its reply.
    max_running, max_waiting : int, default 64, 256
        Requests at work, and those that wait for one of them to end. One more is refused (503).
    max_per_token : int, default 64
        Requests of one token, at work or waiting. One more is refused (429). Tokens whose requests
        wait take turns, and one token has three quarters of `max_running` at work at most; of a
        store, which answers on 16 threads, 12 requests.
    slow : float, default 10
        Seconds for a request's headers, for its body, and for a client to take a part of a reply.
    drain : float, default 10
        Seconds for requests under way after SIGTERM.
    keep_alive : float, default 5
        Seconds that a connection may rest between two requests. Behind a proxy it has to be longer
        than the proxy's own, which is often 60.
    join : bool, default True
        Join index searches that wait for one another to one batch. No reply changes by it.
    max_joined : int, default 64
        Queries in such a batch.

    Raises
    ------
    OptionError
        A number out of range; an origin that is not named.

    Examples
    --------
    >>> ServiceOptions(port=0).host
    '127.0.0.1'
    >>> ServiceOptions(allowed_origins=("*",))
    Traceback (most recent call last):
    ...
    hyrecall.errors.OptionError: allowed_origins: expected origins by name, got '*'
    """

    host: str = "127.0.0.1"
    port: int = 8765
    tokens: str | os.PathLike[str] | None = None
    allowed_hosts: tuple[str, ...] = ()
    allowed_origins: tuple[str, ...] = ()
    max_body: int = 1 << 20
    max_arrow_body: int = 64 << 20
    max_query: int = 32 << 10
    max_limit: int = 1_000
    max_batch: int = 256
    max_arrow_batch: int = 65_536
    max_store_batch: int = 1_024
    max_hits: int = 100_000
    max_arrow_hits: int = 1_000_000
    max_reply: int = 256 << 20
    max_levels: int = 16
    max_ids: int = 10_000
    deadline: float = 30.0
    max_running: int = 64
    max_waiting: int = 256
    max_per_token: int = 64
    slow: float = 10.0
    drain: float = 10.0
    keep_alive: float = 5.0
    join: bool = True
    max_joined: int = 64

    def __post_init__(self) -> None:
        """Check every field; the service starts with valid options or not at all."""
        for field in fields(self):
            value, kind = getattr(self, field.name), type(field.default)
            if kind is int:
                least = 0 if field.name in ("max_waiting", "port") else 1
                _check_number(field.name, value, int, least)
            elif kind is float:
                _check_number(field.name, value, (int, float), 0.001)
            elif field.name.startswith("allowed_"):
                convert_field(self, field.name, _names)
        if not isinstance(self.host, str) or not self.host:
            raise error(DTypeError, "host", "a str", repr(self.host))
        if self.port > 65_535:
            raise error(OptionError, "port", "<= 65535", self.port)
        if not isinstance(self.join, bool):
            raise error(DTypeError, "join", "True or False", repr(self.join))
        if not self.is_local and self.tokens is None:
            wish = "tokens with a host that other machines can reach (hyrecall token makes them)"
            raise error(OptionError, "tokens", wish, f"none, and host={self.host!r}")

    @property
    def is_local(self) -> bool:
        """Whether only this machine can connect."""
        return self.host in LOOPBACK or (self.host.startswith("127.") and _is_ipv4(self.host))


def _is_ipv4(host: str) -> bool:
    parts = host.split(".")
    return len(parts) == 4 and all(part.isdecimal() and int(part) < 256 for part in parts)


def _check_number(name: str, value: object, kind: type | tuple[type, ...], least: float) -> None:
    if isinstance(value, bool) or not isinstance(value, kind):
        raise error(DTypeError, name, "an int" if kind is int else "a number", repr(value))
    if not least <= value < 1 << 40:  # type: ignore[operator]  # NaN fails too
        raise error(OptionError, name, f">= {least} and finite", value)


def _names(name: str, value: object) -> tuple[str, ...]:
    if isinstance(value, str) or not isinstance(value, tuple | list):
        raise error(DTypeError, name, "a tuple of str", repr(value))
    for one in value:
        if not isinstance(one, str) or not one:
            raise error(DTypeError, name, "a tuple of str", repr(value))
        if "*" in one:
            wish = f"{name.removeprefix('allowed_')} by name"
            raise error(OptionError, name, wish, repr(one))
    return tuple(one.lower().rstrip("/") for one in value)


# ---- Who calls, and what it may do: plain data, for a service over HTTP and over MCP alike ----

Right: TypeAlias = Literal["read", "write", "upkeep"]
RIGHTS: frozenset[Right] = frozenset(("read", "write", "upkeep"))
"""To recall and read; to change memories; to see numbers of the whole service."""


@dataclass(frozen=True, kw_only=True)
class Caller:
    """On whose behalf a request is answered; tokens say it, requests do not.

    Parameters
    ----------
    org, workspace, user_id : str, optional
        The user and its partition. None is the anonymous one, never "all".
    agent : str, optional
        The name of an agent, where the token is of one.
    rights : frozenset of {"read", "write", "upkeep"}
    may_choose_user : bool, default False
        Whether a request may name any user of the partition.
    may_choose_partition : bool, default False
        Whether a request may name org and workspace.
    cells : tuple of tuple, optional
        Of a served index, the cells that may be read; None: a request names them.
    name : str, default ""
        The token's public part, for logs.
    """

    org: str | None = None
    workspace: str | None = None
    user_id: str | None = None
    agent: str | None = None
    rights: frozenset[Right] = frozenset(("read",))
    may_choose_user: bool = False
    may_choose_partition: bool = False
    cells: tuple[tuple[Any, ...], ...] | None = ()
    name: str = ""

    @property
    def may_name_any(self) -> bool:
        """Whether it speaks for no user or agent, and may name any user."""
        return "user_id" in free_names(self)


def caller_data(who: Caller) -> dict[str, Any]:
    """Return a caller as plain data, without its name."""
    data = asdict(who) | {"rights": sorted(who.rights)}
    del data["name"]
    return data


def free_names(who: Caller) -> tuple[str, ...]:
    """Return which of ``user_id``, ``org`` and ``workspace`` a request of a caller may name."""
    # They are those that the caller leaves open and may choose; an agent leaves no user open.
    may = {"user_id": who.may_choose_user and who.agent is None}
    may |= dict.fromkeys(("org", "workspace"), who.may_choose_partition)
    return tuple(name for name, is_free in may.items() if is_free and getattr(who, name) is None)


ANYBODY = Caller(rights=RIGHTS, may_choose_user=True, may_choose_partition=True, cells=None)
"""Who calls a service without tokens, which only this machine can reach."""
