"""What is said to an endpoint of the OpenAI kind, and what its replies must be.

``POST <base>/embeddings`` with ``{"model": ..., "input": ...}``; the reply holds
``data[i].embedding``.
"""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import SplitResult, urlsplit

import numpy as np
import numpy.typing as npt

from hyrecall.embed.protocol import EmbedError, EmbedFault, check_vectors
from hyrecall.errors import DTypeError, OptionError, error

__all__ = ["Endpoint", "read_reply", "request_body"]

_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True)
class Endpoint:
    """Where texts are posted to.

    Attributes
    ----------
    is_tls : bool
    host : str
        As ASCII, without brackets.
    port : int
    target : str
        Path and query of the request.
    name : str
        Host, port and path: what may be shown. A query may hold a key.
    """

    is_tls: bool
    host: str
    port: int
    target: str
    name: str

    @classmethod
    def of(cls, argument: str, url: object, *, has_key: bool) -> Endpoint:
        """Read a URL; ``/embeddings`` is appended to a path that does not end in it.

        Raises
        ------
        DTypeError
            No str.
        OptionError
            No http(s) URL of an endpoint; or a key would go over the network in the clear.

        Examples
        --------
        >>> Endpoint.of("url", "http://localhost:8080/v1", has_key=False).target
        '/v1/embeddings'
        """
        if not isinstance(url, str):
            raise error(DTypeError, argument, "a URL (str)", type(url).__name__)
        wish = "the URL of an endpoint, like https://host/v1"
        if not url.isascii() or any(c.isspace() or not c.isprintable() for c in url):
            raise error(OptionError, argument, f"{wish}, in printable ASCII", "another character")
        try:
            parts = urlsplit(url)
            port = parts.port or _PORTS.get(parts.scheme, 0)
            (parts.hostname or "").encode("idna")  # as the look-up of its address will
        except ValueError as fault:
            raise error(OptionError, argument, wish, str(fault)) from None
        _check_parts(argument, wish, parts)
        host = parts.hostname or ""
        if has_key and parts.scheme == "http" and not _is_loopback(host):
            shown = f"http to {host}"
            raise error(OptionError, argument, "https, so that nobody reads the key", shown)
        path = parts.path.rstrip("/")
        path = path if path.endswith("/embeddings") else f"{path}/embeddings"
        query = f"?{parts.query}" if parts.query else ""
        shown = f"[{host}]" if ":" in host else host
        name = shown if port == _PORTS[parts.scheme] else f"{shown}:{port}"
        return cls(parts.scheme == "https", host, port, path + query, name + path)


def _check_parts(argument: str, wish: str, parts: SplitResult) -> None:
    if parts.scheme not in _PORTS:
        raise error(OptionError, argument, wish, f"scheme {parts.scheme!r}")
    if not parts.hostname:
        raise error(OptionError, argument, wish, "one without a host")
    if parts.username is not None or parts.password is not None:
        raise error(OptionError, argument, f"{wish}, and the key in key=", "a user in it")
    if parts.fragment:
        raise error(OptionError, argument, wish, "one with a fragment")


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def request_body(model: str, texts: Sequence[str]) -> bytes:
    """Return the body for some texts: one goes as a str, several as a list.

    Examples
    --------
    >>> request_body("small", ["tea"])
    b'{"model": "small", "input": "tea"}'
    """
    asked: dict[str, Any] = {"model": model} if model else {}
    asked["input"] = texts[0] if len(texts) == 1 else list(texts)
    return json.dumps(asked).encode()  # ASCII: a lone surrogate is escaped like any other


def read_reply(body: bytes, n_texts: int, dim: int | None) -> npt.NDArray[np.float32]:
    """Read the vectors of a reply, in the order of the texts.

    Raises
    ------
    EmbedError
        MALFORMED or WRONG_SIZE.
    """
    try:
        data = json.loads(body)["data"]
        if not isinstance(data, list) or len(data) != n_texts:
            raise _malformed(f"{n_texts} vectors in data", "another number")
        rows = [one["embedding"] for one in _in_order(data)]
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as fault:
        raise _malformed("JSON with data[i].embedding", type(fault).__name__) from None
    return check_vectors(rows, n_texts, dim)


def _in_order(data: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Order by ``index`` where the endpoint gives it; it may answer in any order."""
    places = [one.get("index") for one in data]
    if all(place is None for place in places):
        return data
    if any(type(place) is not int for place in places) or {*places} != {*range(len(data))}:
        raise _malformed("each index once", "others")
    return sorted(data, key=lambda one: one["index"])


def _malformed(expected: str, got: str) -> EmbedError:
    return EmbedError.of(EmbedFault.MALFORMED, expected, got)
