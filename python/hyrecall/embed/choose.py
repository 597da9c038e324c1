"""Which embedder: what the caller says, else the environment, else the packaged one.

A program with settings of its own passes them; none are read here.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from enum import Enum
from typing import Any, Final, Literal, TypeAlias

from hyrecall.base.keywords import check_keywords
from hyrecall.embed.durations import timeout_of
from hyrecall.embed.guard import Off
from hyrecall.embed.http import HttpEmbedder
from hyrecall.embed.protocol import Embedder
from hyrecall.embed.static import StaticEmbedder
from hyrecall.errors import DTypeError, HyrecallError, OptionError, error

__all__ = ["AUTO", "Auto", "Given", "embedder"]


class Auto(Enum):
    """The type of :data:`AUTO`."""

    AUTO = "AUTO"

    def __repr__(self) -> str:
        """Show it as it is written."""
        return self.name


AUTO: Final = Auto.AUTO
"""Choose by the environment, else take the packaged model."""

Given: TypeAlias = Embedder | Off | str | Literal[Auto.AUTO] | None

# Own names first: a program beside ours may have set the others.
DISABLE = ("HYRECALL_EMBED_DISABLE", "LTM_EMBED_DISABLE")
URL = ("HYRECALL_EMBEDDING_URL", "LTM_EMBEDDING_URL")
MODEL = ("HYRECALL_EMBEDDING_MODEL", "LTM_EMBEDDING_MODEL")
KEY = ("HYRECALL_EMBEDDING_API_KEY", "LTM_EMBEDDING_API_KEY", "OPENAI_API_KEY")
TIMEOUT = ("HYRECALL_EMBED_TIMEOUT", "LTM_EMBED_TIMEOUT")

_NOT_DISABLED = {"", "0", "false", "no", "off"}
_LONGEST_TIMEOUT = 3_600.0
_SHORTEST_TIMEOUT = 0.001


@check_keywords
def embedder(
    given: Given = AUTO,
    environ: Mapping[str, str] | None = None,
    settings: Mapping[str, Any] | None = None,
    *,
    packaged: bool = True,
) -> Embedder | Off:
    """Choose an embedder; nothing is sent or loaded.

    Parameters
    ----------
    given : Embedder, Off, str, None or AUTO, default AUTO
        ``"static"``, ``"off"``, the URL of an endpoint, or an object. None: words only, by choice.
    environ : mapping, default ``os.environ``
        ``HYRECALL_EMBED_DISABLE=1`` switches off whatever is given. Further
        ``HYRECALL_EMBEDDING_URL``, ``_MODEL``, ``_API_KEY`` and ``HYRECALL_EMBED_TIMEOUT``, each
        with ``LTM_`` too; ``OPENAI_API_KEY`` is the last key looked for. A key that is set but
        empty means none.
    settings : mapping, optional
        ``embedder``, ``embedding_url``, ``embedding_model``, ``embed_timeout``.
    packaged : bool, default True
        Take the packaged model where nothing is said. False: words only, by choice.

    Returns
    -------
    Embedder or Off
        ``given`` itself if it is one of these.

    Raises
    ------
    DTypeError, OptionError
        It is none of these, or a URL that is no endpoint's; the argument names where it is from.
    MissingExtraError
        ``"static"`` without the extra ``[local]``, or a URL without ``[http]``.

    Examples
    --------
    >>> embedder("off", {}, {})
    Off(detail='embedder="off"', is_choice=False)
    >>> embedder(AUTO, {"LTM_EMBEDDING_URL": "http://localhost:1234/v1"}, {})
    HttpEmbedder('localhost:1234/v1/embeddings', model='')
    """
    environ = os.environ if environ is None else environ
    settings = settings or {}
    if given is None:
        return Off("embedder=None", is_choice=True)
    for name in DISABLE:
        if environ.get(name, "").strip().lower() not in _NOT_DISABLED:
            return Off(f"{name} is set")
    if given is not AUTO:
        return _named("embedder", given, environ, settings)
    where, url = _first(URL, environ)
    if url:
        return _http(where, url, environ, settings)
    return _by_settings(environ, settings, packaged=packaged)


def _by_settings(
    environ: Mapping[str, str], settings: Mapping[str, Any], *, packaged: bool
) -> Embedder | Off:
    if settings.get("embedder"):
        return _named("settings.embedder", settings["embedder"], environ, settings)
    if settings.get("embedding_url"):
        return _http("settings.embedding_url", settings["embedding_url"], environ, settings)
    if not packaged:
        return Off("no endpoint is set: LTM_EMBEDDING_URL", is_choice=True)
    if StaticEmbedder.available():
        return StaticEmbedder()
    return Off("none is installed or set: pip install 'hyrecall[local]', or LTM_EMBEDDING_URL")


def _named(
    argument: str, given: object, environ: Mapping[str, str], settings: Mapping[str, Any]
) -> Embedder | Off:
    if isinstance(given, str):
        if given == "off":
            return Off(f'{argument}="off"')
        if given == "static":
            return StaticEmbedder()
        if given.startswith(("http://", "https://")):
            return _http(argument, given, environ, settings)
        wish = '"static", "off" or the URL of an endpoint'
        raise error(OptionError, argument, wish, repr(given[:80]))
    if isinstance(given, Embedder | Off):
        return given
    wish = 'an embedder, "static", "off", a URL or None'
    raise error(DTypeError, argument, wish, type(given).__name__)


def _http(
    argument: str, url: str, environ: Mapping[str, str], settings: Mapping[str, Any]
) -> HttpEmbedder:
    """Make the embedder of an endpoint; what is wrong is said of where it was read."""
    _, model = _first(MODEL, environ)
    key_name, key = _first(KEY, environ)
    _, timeout = _first(TIMEOUT, environ)
    seconds = timeout_of(timeout or settings.get("embed_timeout"))
    try:
        return HttpEmbedder(
            url,
            model=model or settings.get("embedding_model") or "",
            key=key or None,
            timeout=max(_SHORTEST_TIMEOUT, min(seconds, _LONGEST_TIMEOUT)),
        )
    except HyrecallError as fault:
        told = str(fault).removeprefix(f"{fault.argument}: ")
        place = {"url": argument, "key": key_name}.get(str(fault.argument), str(fault.argument))
        remedy = f"; {key_name}= sends no key" if key and "the key" in told else ""
        made = type(fault)(f"{place}: {told}{remedy}")
        made.argument = place
        raise made from None


def _first(names: tuple[str, ...], environ: Mapping[str, str]) -> tuple[str, str | None]:
    """Return the first variable that is set, and its value."""
    for name in names:
        if name in environ:
            return name, environ[name].strip()
    return names[0], None
