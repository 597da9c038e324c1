"""Vectors from an HTTP endpoint of the OpenAI kind, under a deadline."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from hyrecall.base.arguments import as_int, check_keywords, number
from hyrecall.embed.openai_wire import Endpoint, read_reply, request_body
from hyrecall.errors import DTypeError, MissingExtraError, OptionError, error

if TYPE_CHECKING:
    import ssl

    from hyrecall.embed.http_client import HttpClient


_BYTES_AROUND = 65_536  # of a reply, beside its vectors
_BYTES_A_TEXT = 2**20  # more than 40,000 numbers; reading JSON lets no other thread run meanwhile
_LONGEST = 3_600.0


@check_keywords
class HttpEmbedder:
    """Embed texts by an endpoint that speaks as OpenAI's does: vLLM, Ollama, llama.cpp, OpenAI.

    Needs the extra ``[http]``. One POST for a batch of texts. Redirects are not followed, proxies
    of the environment not used; replies are held to their size, length and finiteness. The key goes
    to the URL's host only, and is in no error, log or repr.

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
    MissingExtraError
        The extra ``[http]`` is not installed.

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
        n_retries = _count("retries", retries, 0)
        self._max_bytes = _count("max_bytes", max_bytes, 1)
        self._dim: int | None = None
        self._client = _make_client(self._endpoint, key, context, n_retries)
        self._make = partial(
            type(self), url, model=model, key=key, timeout=timeout, batch=batch, retries=retries,
            max_bytes=max_bytes, context=context,
        )  # fmt: skip

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy or pickle what it was made of; a copy has connections of its own."""
        return self._make, (), {"_dim": self._dim}

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
            An endpoint that is not reached, too slow, or replies with something else. Its ``fault``
            says whether a text, the key or the endpoint is to blame, ``said`` what the endpoint's
            own message is.
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
        EmbedError
            As in :meth:`embed`; also if the time is over.
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
            reply = self._client.post(
                request_body(self._sent_model, some),
                min(self._max_bytes, _BYTES_AROUND + _BYTES_A_TEXT * len(some)),
                min(until, time.monotonic() + self.timeout),
                some,
            )
            rows = read_reply(reply, len(some), self._dim, (*some, self._key or ""))
            self._dim = rows.shape[1]
            parts.append(rows)
        return np.concatenate(parts) if parts else np.zeros((0, self._dim or 0), np.float32)

    def close(self) -> None:
        """Close the connections that are kept; a later call makes new ones."""
        self._client.close()

    def __repr__(self) -> str:
        """Show where it posts to; not the key, nor the URL's query."""
        return f"HttpEmbedder({self._endpoint.name!r}, model={self._sent_model!r})"


def _make_client(
    endpoint: Endpoint, key: str | None, context: ssl.SSLContext | None, retries: int
) -> HttpClient:
    try:
        from hyrecall.embed.http_client import HttpClient
    except ImportError:
        wish = "an HTTP client (pip install 'hyrecall[http]')"
        raise error(MissingExtraError, "embedder", wish, "no package httpcore2") from None
    return HttpClient(endpoint, key, context, retries)


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
    count = as_int(value)
    if count is None or count < low:
        raise error(OptionError, argument, f"an int of at least {low}", repr(value))
    return count
