"""Says by which embedder an index makes the vectors of an arm, from which columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from hyrecall.base.arguments import as_items, number, set_fields
from hyrecall.base.keywords import check_keywords
from hyrecall.embed.choose import Given, embedder
from hyrecall.embed.guard import Off
from hyrecall.embed.protocol import Embedder
from hyrecall.errors import DTypeError, OptionError, error

__all__ = ["EmbedBy", "Embeds"]

_SECONDS = "seconds in (0, 3600]"


@check_keywords
@dataclass(frozen=True)
class EmbedBy:
    """Makes the vectors of an index's arm with an embedder, for ``embed=`` of an index.

    Parameters
    ----------
    embedder : Embedder or str
        What a store takes as its embedder, too: ``"static"``, ``"minilm"``, the URL of an endpoint,
        or an object of :mod:`hyrecall.embed`.
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

    embedder: Embedder | Off | str
    columns: str | Sequence[str] = ()
    timeout: float = 1.5
    is_named: bool = field(default=False, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Choose the embedder and check the options."""
        given: Given = self.embedder
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
        """The embedder, or what stands for one that is switched off."""
        assert not isinstance(self.embedder, str)  # chosen by the constructor
        return self.embedder

    @property
    def text_columns(self) -> tuple[str, ...]:
        """The columns as a tuple."""
        assert isinstance(self.columns, tuple)  # made so by the constructor
        return self.columns


Embeds: TypeAlias = (
    "EmbedBy | Embedder | Off | str | Mapping[str, EmbedBy | Embedder | Off | str] | None"
)
"""The forms of ``embed=``."""
