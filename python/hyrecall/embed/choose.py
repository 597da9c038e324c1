"""Chooses an embedder: the caller's, or one from the environment, or the packaged model.

Settings files are not read here: a program passes its settings.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from inspect import isroutine
from typing import Any, ClassVar, Final, Literal, TypeAlias, get_args

from hyrecall.base.arguments import as_items, check_keywords, number, set_fields
from hyrecall.embed.guard import Off
from hyrecall.embed.http import HttpEmbedder
from hyrecall.embed.onnx import MiniLMEmbedder
from hyrecall.embed.protocol import Embedder
from hyrecall.embed.static import StaticEmbedder
from hyrecall.errors import DTypeError, HyrecallError, OptionError, error

# ---- Reads durations in Go's notation: ``500ms``, ``1m30s``, ``1.5s`` ----

_NANOSECONDS = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
}
# [0-9], because \d also matches digits that are not ASCII.
_PART = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ns|us|µs|ms|s|m|h)")
_WHOLE = re.compile(rf"[+-]?(?:{_PART.pattern})+")
_MOST = 2**63 - 1  # nanoseconds: 292 years


def duration(text: str) -> float:
    """Convert a duration to seconds."""
    wish = "a duration like 500ms, 3s or 1m30s"
    if text in ("0", "+0", "-0"):
        return 0.0
    if len(text) > 100 or not _WHOLE.fullmatch(text):
        raise error(OptionError, "duration", wish, repr(text[:40]))
    total = sum(float(number) * _NANOSECONDS[unit] for number, unit in _PART.findall(text))
    if total > _MOST:
        raise error(OptionError, "duration", wish, repr(text))
    return (-total if text.startswith("-") else total) / 1_000_000_000


def timeout_of(text: str | None) -> float:
    """Return a variable's seconds; 5 if it is not set or not a positive duration."""
    try:
        seconds = duration(text) if text else 0.0
    except OptionError:
        return 5.0
    return seconds if seconds > 0 else 5.0


# ---- Chooses an embedder: the caller's, or one from the environment, or the packaged model ----


class Auto(Enum):
    """The type of :data:`AUTO`."""

    AUTO = "AUTO"

    def __repr__(self) -> str:
        return self.name


AUTO: Final = Auto.AUTO
"""Choose by the environment variables, otherwise use the packaged model."""

LocalModel = Literal["static", "minilm"]

LOCAL: Final = get_args(LocalModel)
"""The embedders whose weights come with a package, so that files may name them."""

NAMES: Final = (*LOCAL, "off")
"""What may be named in place of the URL of an endpoint."""

Given: TypeAlias = Embedder | Off | str | Literal[Auto.AUTO] | None

# Our own names come first: other programs may have set the others.
DISABLE = ("HYRECALL_EMBED_DISABLE", "LTM_EMBED_DISABLE")
URL = ("HYRECALL_EMBEDDING_URL", "LTM_EMBEDDING_URL")
MODEL = ("HYRECALL_EMBEDDING_MODEL", "LTM_EMBEDDING_MODEL")
KEY = ("HYRECALL_EMBEDDING_API_KEY", "LTM_EMBEDDING_API_KEY", "OPENAI_API_KEY")
TIMEOUT = ("HYRECALL_EMBED_TIMEOUT", "LTM_EMBED_TIMEOUT")

_NOT_DISABLED = {"", "0", "false", "no", "off"}
_LONGEST_TIMEOUT = 3_600.0
_SHORTEST_TIMEOUT = 0.001


def embedder(
    given: Given = AUTO,
    environ: Mapping[str, str] | None = None,
    settings: Mapping[str, Any] | None = None,
    *,
    packaged: bool = True,
) -> Embedder | Off:
    """Choose an embedder, without sending or loading anything."""
    # docs/memory.md says by what: first what is given, then the environment, the settings, and the
    # packaged model. A key that is set but empty means no key. The argument of an error names where
    # the wrong value was set.
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


def named_timeout(
    environ: Mapping[str, str] | None = None, settings: Mapping[str, Any] | None = None
) -> float | None:
    """Return the seconds that the environment, or a setting, gives an endpoint for a request."""
    _, timeout = _first(TIMEOUT, os.environ if environ is None else environ)
    timeout = timeout or (settings or {}).get("embed_timeout")
    seconds = timeout_of(timeout)
    return max(_SHORTEST_TIMEOUT, min(seconds, _LONGEST_TIMEOUT)) if timeout else None


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
        if given == "minilm":
            return MiniLMEmbedder()
        if given.startswith(("http://", "https://")):
            return _http(argument, given, environ, settings)
        wish = '"static", "minilm", "off" or the URL of an endpoint'
        raise error(OptionError, argument, wish, repr(given[:80]))
    if isinstance(given, Embedder | Off):
        return given
    wish = 'an embedder, "static", "minilm", "off", a URL or None'
    raise error(DTypeError, argument, wish, type(given).__name__)


def _http(
    argument: str, url: str, environ: Mapping[str, str], settings: Mapping[str, Any]
) -> HttpEmbedder:
    """Make the embedder of an endpoint; errors name the place where a value was set."""
    _, model = _first(MODEL, environ)
    key_name, key = _first(KEY, environ)
    seconds = named_timeout(environ, settings)
    try:
        return HttpEmbedder(
            url,
            model=model or settings.get("embedding_model") or "",
            key=key or None,
            timeout=timeout_of(None) if seconds is None else seconds,
        )
    except HyrecallError as fault:
        told = str(fault).removeprefix(f"{fault.argument}: ")
        place = {"url": argument, "key": key_name}.get(str(fault.argument), str(fault.argument))
        remedy = f"; {key_name}= sends no key" if key and "the key" in told else ""
        made = type(fault)(f"{place}: {told}{remedy}")
        made.argument = place
        raise made from None


def _first(names: tuple[str, ...], environ: Mapping[str, str]) -> tuple[str, str | None]:
    """Return the name and value of the first variable that is set."""
    for name in names:
        if name in environ:
            return name, environ[name].strip()
    return names[0], None


# ---- Says by which embedder an index makes the vectors of an arm, from which columns ----

_SECONDS = "seconds in (0, 3600]"


EmbedFunction: TypeAlias = Callable[[list[str]], Any]
"""A function of texts that returns a row of numbers for each."""


@dataclass(frozen=True)
class _OfFunction:
    """A plain function as an embedder, known by its name."""

    function: EmbedFunction
    dim: ClassVar[int | None] = None

    def __post_init__(self) -> None:
        if self.function.__name__ == "<lambda>":
            wish = "a function with a name, which files keep"
            raise error(DTypeError, "embedder", wish, "a lambda")

    @property
    def model(self) -> str:
        return self.function.__qualname__

    def embed(self, texts: Sequence[str]) -> Any:
        return self.function(list(texts))


@check_keywords
@dataclass(frozen=True)
class EmbedBy:
    """Makes the vectors of an index's arm with an embedder, for ``embed=`` of an index.

    Parameters
    ----------
    embedder : Embedder or str or callable
        What a store takes as its embedder, too: ``"static"``, ``"minilm"``, the URL of an endpoint,
        or an object of :mod:`hyrecall.embed`; or a function of a list of texts that returns a row
        of numbers for each. Files know a function by its ``__qualname__`` alone: an object whose
        ``model`` names its weights tells two models apart.
    columns : str or sequence of str, default ()
        The text columns of a document to embed, with a line break between them; they need not be
        in the schema. Default: those that a saved index names, else those of the first text arm.
    timeout : float, default 1.5
        The most seconds for the queries of a call, in (0, 3600]. Documents have 60 seconds for
        each 64 of them.

    Raises
    ------
    DTypeError, OptionError, MissingExtraError
        Not an embedder, or columns or a timeout that cannot be one.

    Examples
    --------
    >>> from hyrecall.embed import HashEmbedder
    >>> EmbedBy(HashEmbedder(dim=16), columns=["title", "text"]).columns
    ('title', 'text')
    """

    embedder: Embedder | Off | str | EmbedFunction
    columns: str | Sequence[str] = ()
    timeout: float = 1.5
    is_named: bool = field(default=False, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Choose the embedder and check the options."""
        chosen = self.embedder
        given: Given = _OfFunction(chosen) if isroutine(chosen) else chosen  # type: ignore[assignment]
        if given is None:
            raise error(DTypeError, "embedder", "an embedder, or the name of one", "None")
        columns = as_items((self.columns,) if isinstance(self.columns, str) else self.columns)
        if columns is None or not all(isinstance(name, str) for name in columns):
            raise error(DTypeError, "columns", "names of columns", repr(self.columns))
        seconds = number("timeout", self.timeout, 0.0, 3600.0, _SECONDS)
        if seconds == 0:
            raise error(OptionError, "timeout", _SECONDS, self.timeout)
        set_fields(self, is_named=isinstance(given, str))  # then nobody else closes it
        set_fields(self, embedder=embedder(given), columns=columns, timeout=seconds)

    @property
    def chosen(self) -> Embedder | Off:
        """The embedder; an :class:`Off` if embedding is switched off."""
        assert isinstance(self.embedder, Embedder | Off)  # chosen by the constructor
        return self.embedder

    @property
    def text_columns(self) -> tuple[str, ...]:
        """The columns as a tuple."""
        assert isinstance(self.columns, tuple)  # made so by the constructor
        return self.columns


Embeds: TypeAlias = (
    "EmbedBy | Embedder | Off | str | EmbedFunction"
    " | Mapping[str, EmbedBy | Embedder | Off | str | EmbedFunction] | None"
)
"""The forms of ``embed=``."""
