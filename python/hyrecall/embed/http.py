"""Vectors from an HTTP endpoint of the OpenAI kind, under a deadline."""

from __future__ import annotations

import http.client
import os
import random
import ssl
import time
import weakref
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from hyrecall.arguments import number, whole
from hyrecall.embed.bounded import BoundedConnection
from hyrecall.embed.openai_wire import Endpoint, read_reply, request_body
from hyrecall.embed.protocol import EmbedError, EmbedFault
from hyrecall.errors import DTypeError, OptionError, error
from hyrecall.keywords import check_keywords

__all__ = ["HttpEmbedder"]

_CHUNK = 65_536
_BYTES_AROUND = 65_536  # of a reply, beside its vectors
_BYTES_A_TEXT = 2**20  # more than 40,000 numbers; reading JSON lets no other thread run meanwhile
_PAUSE = (0.05, 0.2)  # seconds before a second try
_MOST_IDLE = 4
_LONGEST = 3_600.0


@check_keywords
class HttpEmbedder:
    """Embed texts by an endpoint that speaks as OpenAI's does: vLLM, Ollama, llama.cpp, OpenAI.

    One POST for a batch of texts. Redirects are not followed, proxies of the environment not used;
    replies are held to their size, length and finiteness. The key goes to the URL's host only, and
    is in no error, log or repr.

    Parameters
    ----------
    url : str
        As it is if its path ends in ``/embeddings``, else with that appended. https, or any scheme
        on the loopback; http elsewhere only without a key.
    model : str, default ""
        Sent in the request; "": the endpoint has but one, which is then named by the URL.
    key : str, optional
        Sent as bearer token.
    timeout : float, default 5
        Seconds for a request with all its tries.
    batch : int, default 64
        Texts in a request.
    retries : int, default 1
        Further tries after a connection that broke, status 429 or 5xx, while there is time.
    max_bytes : int, default 64 MiB
        Longest reply that is read; a reply may also have 1 MiB a text at most.
    context : ssl.SSLContext, optional
        Default: the system's authorities, host names checked.

    Raises
    ------
    DTypeError, OptionError
        An argument that is not as above.

    Examples
    --------
    >>> HttpEmbedder("http://127.0.0.1:11434/v1", model="nomic-embed-text")
    HttpEmbedder('127.0.0.1:11434/v1/embeddings', model='nomic-embed-text')
    """

    def __init__(
        self,
        url: str,
        *,
        model: str = "",
        key: str | None = None,
        timeout: float = 5.0,
        batch: int = 64,
        retries: int = 1,
        max_bytes: int = 64 * 2**20,
        context: ssl.SSLContext | None = None,
    ) -> None:
        """Check the arguments; nothing is sent yet."""
        self._key = _check_key(key)
        self._endpoint = Endpoint.of("url", url, has_key=key is not None)
        if not isinstance(model, str):
            raise error(DTypeError, "model", "a str", type(model).__name__)
        self._sent_model = model
        self.model = model or self._endpoint.name
        self.timeout = number("timeout", timeout, 0.001, _LONGEST, "seconds from 0.001 to 3600")
        self._batch = _count("batch", batch, 1)
        self._retries = _count("retries", retries, 0)
        self._max_bytes = _count("max_bytes", max_bytes, 1)
        self._tls = (context or ssl.create_default_context()) if self._endpoint.is_tls else None
        self._dim: int | None = None
        self._pid = os.getpid()
        self._idle: list[BoundedConnection] = []  # threads pop and append without a lock
        weakref.finalize(self, _close_all, self._idle)

    @property
    def dim(self) -> int | None:
        """Length of a vector, from the first reply on, and then for good."""
        return self._dim

    def embed(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """Embed texts, each request of them within the timeout.

        Parameters
        ----------
        texts : sequence of str

        Returns
        -------
        ndarray, shape (len(texts), dim), float32
            Finite, as the endpoint gives them. (0, dim) of no text, without a request.

        Raises
        ------
        EmbedError
            An endpoint that is not reached, too slow, or replies with something else.
        OptionError
            A blank text: an endpoint may refuse all for it.
        DTypeError
            One str, or something that is none.
        """
        return self.embed_within(texts, _LONGEST)

    def embed_within(self, texts: Sequence[str], seconds: float) -> npt.NDArray[np.float32]:
        """Embed texts within so many seconds in all.

        Parameters
        ----------
        texts : sequence of str
        seconds : float
            For all requests together; each has the timeout too.

        Returns
        -------
        ndarray, shape (len(texts), dim), float32
            As :meth:`embed` gives it.

        Raises
        ------
        EmbedError, OptionError, DTypeError
            As there.
        """
        if isinstance(texts, str):
            raise error(DTypeError, "texts", "a sequence of str", "one str")
        for at, text in enumerate(texts):
            if not isinstance(text, str):
                raise error(DTypeError, f"texts[{at}]", "a str", type(text).__name__)
            if not text.strip():
                raise error(OptionError, f"texts[{at}]", "a text", "a blank one")
        until = time.monotonic() + seconds
        parts = []
        for first in range(0, len(texts), self._batch):
            some = texts[first : first + self._batch]
            body = self._post(some, min(until, time.monotonic() + self.timeout))
            rows = read_reply(body, len(some), self._dim)
            self._dim = rows.shape[1]
            parts.append(rows)
        return np.concatenate(parts) if parts else np.zeros((0, self._dim or 0), np.float32)

    def close(self) -> None:
        """Close the connections that are kept; a later call makes new ones."""
        _close_all(self._idle)

    def _post(self, texts: Sequence[str], until: float) -> bytes:
        """Post, and once more after what may be over in a moment."""
        body = request_body(self._sent_model, texts)
        most = min(self._max_bytes, _BYTES_AROUND + _BYTES_A_TEXT * len(texts))
        for tries_left in range(self._retries, -1, -1):
            try:
                return self._post_once(body, most, until)
            except _PassingError as fault:
                pause = random.uniform(*_PAUSE)
                if not tries_left or time.monotonic() + pause >= until:
                    raise fault.named from None
            time.sleep(pause)
        raise AssertionError("unreachable")

    def _post_once(self, body: bytes, most: int, until: float) -> bytes:
        connection = self._take()
        if connection.sock is not None:
            connection.set_until(until)
            try:
                response = self._send(connection, body)
            except (OSError, http.client.HTTPException) as fault:
                connection.close()
                if isinstance(fault, TimeoutError):
                    raise _late() from None
                # The endpoint had closed it while it was idle: that is no failure.
                connection = self._make()
            else:
                return self._finish(connection, response, most)
        connection.set_until(until)
        try:
            response = self._send(connection, body)
        except (OSError, http.client.HTTPException) as fault:
            connection.close()
            raise _named(fault) from None
        return self._finish(connection, response, most)

    def _send(self, connection: BoundedConnection, body: bytes) -> http.client.HTTPResponse:
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if self._key is not None:
            headers["Authorization"] = f"Bearer {self._key}"
        connection.request("POST", self._endpoint.target, body, headers)
        return connection.getresponse()

    def _finish(
        self, connection: BoundedConnection, response: http.client.HTTPResponse, most: int
    ) -> bytes:
        try:
            with response:
                body = _read(response, most)
        except (OSError, http.client.HTTPException) as fault:
            connection.close()
            raise _named(fault) from None
        except BaseException:
            connection.close()
            raise
        if response.will_close:
            connection.close()
        else:
            self._keep(connection)
        return body

    def _take(self) -> BoundedConnection:
        if self._pid != os.getpid():  # replies on those are the parent's
            self._pid = os.getpid()
            self.close()
        try:
            return self._idle.pop()
        except IndexError:
            return self._make()

    def _make(self) -> BoundedConnection:
        return BoundedConnection(self._endpoint.host, self._endpoint.port, self._tls)

    def _keep(self, connection: BoundedConnection) -> None:
        if len(self._idle) < _MOST_IDLE:
            self._idle.append(connection)
        else:
            connection.close()

    def __repr__(self) -> str:
        """Show where it posts to; not the key, nor the URL's query."""
        return f"HttpEmbedder({self._endpoint.name!r}, model={self._sent_model!r})"


def _close_all(connections: list[BoundedConnection]) -> None:
    while connections:
        connections.pop().close()


class _PassingError(Exception):
    """A fault that may be over in a moment."""

    def __init__(self, named: EmbedError) -> None:
        super().__init__()
        self.named = named


def _read(response: http.client.HTTPResponse, most: int) -> bytes:
    """Read a reply to its end."""
    status = response.status
    if status != 200:
        if 300 <= status < 400:
            raise EmbedError.of(EmbedFault.MALFORMED, "status 200, not a redirect", status)
        named = EmbedError.of(EmbedFault.UNREACHABLE, "status 200", f"status {status}")
        if status == 429 or status >= 500:
            raise _PassingError(named)
        raise named
    chunks = bytearray()
    while chunk := response.read(_CHUNK):
        chunks += chunk
        if len(chunks) > most:
            raise EmbedError.of(EmbedFault.MALFORMED, f"a reply of at most {most} bytes", "more")
    if response.length:  # read() ends without a word where the connection does
        raise http.client.IncompleteRead(b"")
    return bytes(chunks)


def _named(fault: OSError | http.client.HTTPException) -> EmbedError | _PassingError:
    """Return a fault of the connection its name; its own message may hold anything."""
    if isinstance(fault, TimeoutError):
        return _late()
    if isinstance(fault, http.client.HTTPException) and not isinstance(
        fault, http.client.IncompleteRead | http.client.RemoteDisconnected
    ):
        return EmbedError.of(EmbedFault.MALFORMED, "an HTTP reply", type(fault).__name__)
    named = EmbedError.of(EmbedFault.UNREACHABLE, "a connection", type(fault).__name__)
    is_passing = isinstance(fault, ConnectionError | http.client.IncompleteRead)
    is_refused = isinstance(fault, ConnectionRefusedError)
    return _PassingError(named) if is_passing and not is_refused else named


def _late() -> EmbedError:
    return EmbedError.of(EmbedFault.TIMEOUT, "a reply in time", "none")


def _check_key(key: object) -> str | None:
    """Take a key; what no header can carry is refused without showing it."""
    if key is None:
        return None
    if not isinstance(key, str):
        raise error(DTypeError, "key", "a str, or None", type(key).__name__)
    if not key or not key.isascii() or not key.isprintable() or " " in key:
        raise error(OptionError, "key", "printable ASCII without a space", "something else")
    return key


def _count(argument: str, value: object, low: int) -> int:
    count = whole(value)
    if count is None or count < low:
        raise error(OptionError, argument, f"an int of at least {low}", repr(value))
    return count
