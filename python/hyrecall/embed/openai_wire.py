"""Builds requests for an OpenAI-like embedding endpoint, and checks its replies.

``POST <base>/embeddings`` with ``{"model": ..., "input": ...}``; the reply holds
``data[i].embedding``.
"""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import SplitResult, urlsplit

import numpy as np
import numpy.typing as npt

from hyrecall.embed.protocol import EmbedError, EmbedFault, check_vectors, embed_error
from hyrecall.errors import DTypeError, OptionError, error

_PORTS = {"http": 80, "https": 443}
_MOST_SAID = 200  # characters of an endpoint's message
_SHORTEST_QUOTE = 16  # characters in common that are a quotation of a text
_SHORTEST_WHOLE = 3  # of a whole text
_QUOTED = "[...]"


@dataclass(frozen=True)
class Endpoint:
    """The URL that texts are posted to, in parts."""

    is_tls: bool
    host: str
    port: int
    target: str
    name: str

    @classmethod
    def of(cls, argument: str, url: object, *, has_key: bool) -> Endpoint:
        """Read a URL; ``/embeddings`` is appended to a path that does not end in it."""
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
    """Return the body for some texts: one goes as a str, several as a list."""
    asked: dict[str, Any] = {"model": model} if model else {}
    asked["input"] = texts[0] if len(texts) == 1 else list(texts)
    return json.dumps(asked).encode()  # ASCII: a lone surrogate is escaped like any other


def read_reply(
    body: bytes, n_texts: int, dim: int | None, secrets: Sequence[str] = ()
) -> npt.NDArray[np.float32]:
    """Read the vectors of a reply, in the order of the texts."""
    try:
        reply = json.loads(body)
        if isinstance(reply, dict) and "data" not in reply and (told := said(body, secrets)):
            wish = "JSON with data[i].embedding"
            raise embed_error(EmbedFault.MALFORMED, wish, "an error", told)
        data = reply["data"]
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
    return embed_error(EmbedFault.MALFORMED, expected, got)


def said(body: bytes, secrets: Sequence[str], *, plain: bool = True) -> str:
    """Return an endpoint's own error message from its reply, shortened; "" if it has none."""
    # What the message repeats of the texts or the key is cut out.
    try:
        message = _message(json.loads(body))
    except (ValueError, RecursionError):
        text = body.decode(errors="replace").strip()
        is_told = plain and not text.startswith(("<", "{", "["))  # HTML, or JSON that was cut
        message = text if is_told else ""
    shown = "".join(one if one.isprintable() else " " for one in message[: 2 * _MOST_SAID])
    kept = _unquoted(_normal(shown), [_normal(one) for one in secrets])
    return kept if len(kept) <= _MOST_SAID else f"{kept[: _MOST_SAID - 3]}..."


def _message(reply: Any) -> str:
    """Return the message in what an endpoint sends as an error: several spellings are in use."""
    if isinstance(reply, list):  # as FastAPI lists what is wrong
        return "; ".join(filter(None, map(_message, reply[:3])))
    if isinstance(reply, dict):
        named = (reply.get(name) for name in ("error", "message", "detail", "msg"))
        return next((told for told in map(_message, named) if told), "")
    return reply if isinstance(reply, str) else ""


def _normal(text: str) -> str:
    return " ".join(text.split())


def _unquoted(message: str, texts: list[str]) -> str:
    """Cut out of a message what is long, or all of a text, and stands in that text."""
    kept, at = "", 0
    for word in re.finditer(r"\w+", message):
        begin = word.start()
        if begin < at:
            continue
        n = max((_n_quoted(message[begin:], text) for text in texts), default=0)
        if n:
            kept += message[at:begin] + _QUOTED
            at = begin + n
    return kept + message[at:]


def _n_quoted(message: str, text: str) -> int:
    """Return how many first characters of a message are a quotation of a text."""
    n = place = 0
    while n < len(message):
        place = text.find(message[: n + 1], place)  # never before that of the shorter one
        if place < 0:
            break
        n += 1
    is_whole = n >= _SHORTEST_WHOLE and message[:n].strip() == text
    return n if n >= _SHORTEST_QUOTE or is_whole else 0
