"""Turns texts into terms, for both the documents and the queries of a text arm."""

from __future__ import annotations

import json
import os
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import xxhash

from hyrecall import _core
from hyrecall.base.arguments import check_keywords, check_unicode, set_fields
from hyrecall.errors import DTypeError, OptionError, error

if TYPE_CHECKING:
    from tokenizers import Tokenizer


# ---- The Python functions that an analyzer calls: stemmers, token functions, tokenizers, callables

NATIVE_PRESETS = ("word", "unicode", "unicode61", "porter")
SNOWBALL = "snowball:"
UNICODE_STEMS = "unicode:"

Batch = Callable[[list[str]], Sequence[Sequence[str]]]
LocatedBatch = Callable[[list[str]], list[list[tuple[str, int, int]]]]


@check_keywords
@dataclass(frozen=True)
class TokenFunction:
    """A callable that turns one token of a preset into terms.

    It is called once for each distinct token, never once for each occurrence.

    Parameters
    ----------
    function : callable
        ``function(token)`` returns a list of str. Several terms take successive positions; an
        empty list drops the token but keeps its position. Equal tokens must give equal lists.
    name, version : str
        Identify the function in the analyzer's hash. Raise the version if the function changes.

    Raises
    ------
    OptionError
        ``function`` is not callable, ``name`` or ``version`` is not a non-empty str.

    Examples
    --------
    >>> from hyrecall.text.analyzer import Analyzer
    >>> singular = TokenFunction(lambda t: [t.removesuffix("s")], name="singular", version="1")
    >>> Analyzer("unicode", token_function=singular).explain("two cats")
    ('two'@0, 'cat'@1)
    """

    function: Callable[[str], Sequence[str]] = field(compare=False, repr=False)
    name: str = field(kw_only=True)
    version: str = field(kw_only=True)

    def __post_init__(self) -> None:
        """Check the fields."""
        check_named(self.function, self.name, self.version)


@dataclass(frozen=True)
class TextFunction:
    """Turns whole texts into terms, by a user's callable or a tokenizer."""

    name: str
    version: str
    call: Batch
    function: Callable[[str], Sequence[str]] | None = None
    tokenizer_json: str | None = None
    locate: LocatedBatch | None = None


def check_named(function: object, name: object, version: object) -> None:
    """Refuse a function that is not callable, and an empty name or version."""
    if not callable(function):
        raise error(OptionError, "function", "a callable", repr(function))
    for argument, value in (("name", name), ("version", version)):
        if not isinstance(value, str) or not value:
            raise error(OptionError, argument, "a non-empty str", repr(value))


def take_stopwords(stopwords: str | Iterable[str] | None) -> str | tuple[str, ...] | None:
    """Check stop words; return a list of them as a tuple."""
    if stopwords is None or (isinstance(stopwords, str) and stopwords == "english"):
        return stopwords
    wish = "None, 'english' or a list of str"
    if isinstance(stopwords, (str, bytes)):
        raise error(OptionError, "stopwords", wish, repr(stopwords))
    try:
        words = tuple(stopwords)
    except TypeError:
        raise error(OptionError, "stopwords", wish, repr(stopwords)) from None
    for word in words:
        if not isinstance(word, str):
            raise error(OptionError, "stopwords", wish, f"{word!r} in it")
        check_unicode("stopwords", word)
    return words


def read_preset(name: str) -> tuple[str, Batch | None]:
    """Return the native preset of a name and its stemmer, if any; refuse unknown names."""
    for prefix, preset in ((SNOWBALL, "word_marks"), (UNICODE_STEMS, "unicode")):
        if name.startswith(prefix):
            language = name.removeprefix(prefix)
            stem = _stemmer(prefix, language)
            if prefix == UNICODE_STEMS:
                return preset, _of_words(stem)
            return "turkish" if language == "turkish" else preset, _respelled(stem, language)
    if name not in NATIVE_PRESETS:
        known = ", ".join(NATIVE_PRESETS) + ", unicode:<language>, snowball:<language>"
        raise error(OptionError, "name", f"one of {known}", repr(name))
    return name, None


def has_stemmer(name: str) -> bool:
    """Return whether the preset stems."""
    return name.startswith((SNOWBALL, UNICODE_STEMS))


def _stemmer(prefix: str, language: str) -> Batch:
    """Load the Snowball stemmer of a language."""
    try:
        from Stemmer import Stemmer, algorithms
    except ImportError:  # CPython 3.15: docs/decisions/0086-pystemmer-or-its-rules-in-python.md
        from snowballstemmer import algorithms, stemmer
    else:
        stemmer = None
    if language not in algorithms():
        known = ", ".join(algorithms())
        raise error(OptionError, "name", f"{prefix} and one of {known}", repr(prefix + language))
    if stemmer is not None:
        # A new one for each batch: it holds the word at work, and threads share an analyzer.
        return lambda words: [[stem] for stem in stemmer(language).stemWords(words)]
    stem_words = Stemmer(language, 0).stemWords  # no cache: the analyzer has one
    return lambda words: [[stem] for stem in stem_words(words)]


# Releases of snowballstemmer with the version of PyStemmer that gives the same stems.
_SAME_STEMS = {"3.1.0": "3.1.0", "3.1.1": "3.1.0"}


def stemmer_version() -> str:
    """Return the version of PyStemmer whose stems the presets have; indexes keep it in a hash."""
    try:
        import Stemmer
    except ImportError:
        from importlib.metadata import version

        found = version("snowballstemmer")
        return _SAME_STEMS.get(found, f"snowballstemmer {found}")
    return str(Stemmer.version())


# Letters that people and keyboards exchange: in words, and in stems, since the Turkish endings need
# them as they are.
_WORDS_RESPELLED = {
    "armenian": str.maketrans({"\u0587": "\u0565\u0582"}),
    "dutch": str.maketrans({"\u0133": "ij"}),
    "dutch_porter": str.maketrans({"\u0133": "ij"}),
    "persian": str.maketrans({"\u064a": "\u06cc", "\u0649": "\u06cc", "\u0643": "\u06a9"}),
}
_STEMS_RESPELLED = {"turkish": str.maketrans({"\u0131": "i"})}


def _respelled(stem: Batch, language: str) -> Batch:
    """Return a stemmer for which the spellings of a word are one word."""
    words, stems = _WORDS_RESPELLED.get(language), _STEMS_RESPELLED.get(language)
    if words is not None:
        return lambda given: stem([word.translate(words) for word in given])
    if stems is not None:
        return lambda given: [[one.translate(stems) for one in made] for made in stem(given)]
    return stem


def _of_words(stem: Batch) -> Batch:
    """Restrict a stemmer to tokens of letters and marks; identifiers and numbers stay unchanged."""

    def call(tokens: list[str]) -> Sequence[Sequence[str]]:
        are_words = [_is_word(token) for token in tokens]
        stems = iter(
            stem([token for token, is_word in zip(tokens, are_words, strict=True) if is_word])
        )
        return [
            next(stems) if is_word else [token]
            for token, is_word in zip(tokens, are_words, strict=True)
        ]

    return call


def _is_word(token: str) -> bool:
    return token.isalpha() or all(unicodedata.category(one)[0] in "LM" for one in token)


def batched(stems: Batch | None, token_function: TokenFunction | None) -> Batch | None:
    """Return one function for a batch of distinct tokens: stem, then call the user's function."""
    if token_function is None:
        return stems
    function = token_function.function
    if stems is None:
        return lambda tokens: [function(token) for token in tokens]
    stem = stems

    def stem_then_call(words: list[str]) -> Sequence[Sequence[str]]:
        stemmed = [made[0] for made in stem(words)]
        answers = {token: function(token) for token in dict.fromkeys(stemmed)}
        return [answers[token] for token in stemmed]

    return stem_then_call


def load_tokenizer(source: str | os.PathLike[str] | Tokenizer) -> TextFunction:
    """Load a tokenizer as a function of whole texts."""
    from tokenizers import Tokenizer

    wish = "a path, a JSON str or a tokenizers.Tokenizer"
    if isinstance(source, Tokenizer):
        text = source.to_str()
    elif isinstance(source, str) and source.lstrip().startswith("{"):
        text = source
    elif isinstance(source, (str, os.PathLike)):
        try:
            text = Path(source).read_text(encoding="utf-8")
        except (OSError, ValueError) as cause:
            raise error(OptionError, "tokenizer", wish, f"{source!r} ({cause})") from cause
    else:
        raise error(DTypeError, "tokenizer", wish, type(source).__name__)
    try:
        # Our own copy: the caller's object may truncate or pad, or change later.
        tokenizer = Tokenizer.from_str(text)
    except Exception as cause:  # the package raises bare Exception
        raise error(OptionError, "tokenizer", wish, str(cause)) from cause
    tokenizer.no_truncation()
    tokenizer.no_padding()
    special = {i for i, t in tokenizer.get_added_tokens_decoder().items() if t.special}

    def locate(texts: list[str]) -> list[list[tuple[str, int, int]]]:
        return [
            [
                (token, *place)
                for token, i, place in zip(made.tokens, made.ids, made.offsets, strict=True)
                if i not in special
            ]
            for made in tokenizer.encode_batch(texts, add_special_tokens=False)
        ]

    def call(texts: list[str]) -> list[list[str]]:
        encodings = tokenizer.encode_batch(texts, add_special_tokens=False)
        return [
            [token for token, i in zip(made.tokens, made.ids, strict=True) if i not in special]
            for made in encodings
        ]

    return TextFunction("tokenizer", "", call, tokenizer_json=tokenizer.to_str(), locate=locate)


# ---- Turns texts into terms, for both the documents and the queries of a text arm ----

# The classic English list of Lucene.
_ENGLISH = (
    "a an and are as at be but by for if in into is it no not of on or such that the their then "
    "there these they this to was will with"
)
ENGLISH_STOPWORDS = tuple(_ENGLISH.split())


_NAMED = ("name", "version")
_STORED = {"preset": ("name", "stopwords"), "callable": _NAMED, "tokenizer": ("json",)}
"""The fields of each kind of stored analyzer."""


@dataclass(frozen=True)
class Token:
    """One term of an analyzed text.

    Parameters
    ----------
    term : str
        The term as the index stores it.
    position : int
        Counted from 0; terms in the same place share it.
    start, end : int or None
        What it was made of: ``text[start:end]``, whatever the text's spelling. None: the analyzer
        is a function of the caller's, which does not tell.
    """

    term: str
    position: int
    start: int | None = None
    end: int | None = None

    def __repr__(self) -> str:
        """Show term and position, as 'term'@0."""
        return f"{self.term!r}@{self.position}"


@check_keywords
class Analyzer:
    """Turns text into terms; immutable, hashable, and equal to another with the same ``hash``.

    Parameters
    ----------
    name : str, default "unicode"
        The preset:

        ``word``
            Exactly ``re.findall(r"\\w+", unicodedata.normalize("NFC", text.lower()))`` of Python
            3.11 (Unicode 14). It folds nothing but case: ``café`` is not ``cafe``; ``İstanbul``,
            which Python lowers to an i with a mark, is ``i``, ``stanbul``.
        ``unicode``
            Unicode words, case and accents folded; identifiers whole and split; pairs of
            characters in Korean and in scripts without spaces; emoji. See Notes.
        ``unicode61``
            The tokens of SQLite FTS5's ``unicode61 remove_diacritics 2``, of the text in NFC.
        ``porter``
            The tokens of FTS5's ``porter unicode61`` (where remove_diacritics is 1), likewise.
        ``unicode:<language>``
            The words of ``unicode``, then PyStemmer's stemmer of that language on words of letters
            alone: not on identifiers or numbers. English leaves words of other scripts as they are.
        ``snowball:<language>``
            Words as in ``word``, but with combining marks inside them and no dot over a small i,
            then PyStemmer's stemmer of that language. Turkish has Turkish small letters and stems
            without a dotless i, so ``İstanbul``, ``Istanbul`` and ``istanbul`` are one word;
            letters that keyboards exchange are one in Armenian, Dutch and Persian.
    stopwords : None, "english" or iterable of str, default None
        Terms removed before stemming and before ``token_function``. "english" is the classic
        list of 33. Stop words are folded like text; each must be a single term of the preset. A
        removed word keeps its position, so phrases do not match across it, and does not count in
        the document's length.
    token_function : TokenFunction, optional
        Applied to the terms of the preset (stems included).

    Attributes
    ----------
    hash : str
        16 hex digits over all inputs that affect terms: preset, stop words, versions of
        tables, rules and stemmer, names and versions of callables, the JSON of a tokenizer.

    Raises
    ------
    OptionError
        An unknown name (the message lists the known ones) or a stop word that is not one term.

    Notes
    -----
    *Words of* ``unicode``: runs of letters, numbers and their combining marks; invisible format
    characters inside a word are dropped. Each emoji is a word: all that readers see as one picture
    (skin tone, family, flag, keycap), without variation selectors, so ``❤️`` and ``❤`` are one.
    ``©``, ``®``, ``™``, ``↔`` and other symbols are not words.

    *Folding* makes these spellings one. The marks of other scripts are kept (Indic and Thai vowels,
    Syriac, Thaana), in composed form, so that NFC and NFD spellings agree.

    ====================  ====================================  ====================
    Text                  What is folded                        Example
    ====================  ====================================  ====================
    every script          case, compatibility forms (NFKD)      ``ﬁne`` ``ＷＩＤＥ``
    Latin, Greek,         marks; strokes, ligatures and the     ``Łódź`` is ``lodz``
    Cyrillic, numbers     dotless i become plain letters
    digits                of every script: ``0`` to ``9``       ``٢٠٢٦`` is ``2026``
    Hebrew                points (niqqud) and accents           ``שָׁלוֹם`` is ``שלום``
    Arabic                vowel signs (harakat), tatweel, what  ``أَحْمَد`` is ``احمد``
                          alef carries (``آ أ إ ٱ`` are ``ا``)
    ====================  ====================================  ====================

    Arabic letters that stand for other letters stay: a hamza on waw or yeh, teh marbuta, alef
    maksura. ``unicode:arabic`` stems them.

    *Identifiers* are kept whole and also split; the whole has the position of its first part. They
    are: words joined by ``.``, ``@`` or underscores; words joined by hyphens if one has a digit;
    camelCase; a trailing ``++`` or ``#``. ``INV-2026-0042`` gives ``inv-2026-0042`` and ``inv``,
    ``2026``, ``0042``. Chains of more than 128 characters are only split.
    *Ordinary words* with hyphens or apostrophes are only split: ``well-known`` is ``well``,
    ``known``; ``don't`` is ``don``, ``t`` (so ``John`` finds ``John's``).

    *Pairs.* Of Han, kana, Thai, Lao, Khmer, Myanmar and Hangul, documents hold single characters
    and pairs; queries hold pairs, or one character that stands alone. Korean has spaces, and no
    pair crosses them; by its pairs ``한국어`` finds ``한국어를``, and the other way round.

    Every preset gives NFC and NFD spellings of a text the same terms.

    Invalid UTF-8 separates words, as NUL does. Beside NFC, this is the one known difference from
    FTS5: SQLite reads an invalid byte as a character (0xAA as ``ª``); here it becomes U+FFFD.

    Examples
    --------
    >>> Analyzer().explain("Crème brûlée, CVE-2024-1234")
    ('creme'@0, 'brulee'@1, 'cve-2024-1234'@2, 'cve'@2, '2024'@3, '1234'@4)
    >>> Analyzer("unicode:english").explain("Deploys: settings.v2s")
    ('deploy'@0, 'settings.v2s'@1, 'set'@1, 'v2s'@2)
    >>> Analyzer("snowball:english", stopwords="english").explain("the running of the bulls")
    ('run'@1, 'bull'@4)
    >>> Analyzer().explain("東京都 한국어를", role="query")
    ('東京'@0, '京都'@1, '한국'@3, '국어'@4, '어를'@5)
    >>> Analyzer().explain("I ❤️ 🍕 in שָׁלוֹם")
    ('i'@0, '❤'@1, '🍕'@2, 'in'@3, 'שלום'@4)
    """

    __slots__ = (
        "__weakref__",
        "_hash",
        "_native",
        "_stopwords",
        "_text",
        "_token_function",
        "name",
    )

    name: str

    def __init__(
        self,
        name: str = "unicode",
        *,
        stopwords: Literal["english"] | Iterable[str] | None = None,
        token_function: TokenFunction | None = None,
    ) -> None:
        """Make the analyzer that the class documents."""
        if not isinstance(name, str):
            raise error(OptionError, "name", "a str", repr(name))
        if token_function is not None and not isinstance(token_function, TokenFunction):
            wish = "hyrecall.TokenFunction"
            raise error(OptionError, "token_function", wish, repr(token_function))
        preset, stems = read_preset(name)
        set_fields(self, name=name, _stopwords=take_stopwords(stopwords))
        set_fields(self, _token_function=token_function, _text=None, _hash=None)
        function = batched(stems, token_function)
        words = list(self._stopword_list())
        native = _core.Analyzer(
            preset, stopwords=words, token_function=function,
            function_stems=stems is not None and token_function is None,
        )  # fmt: skip
        set_fields(self, _native=native)

    _stopwords: str | tuple[str, ...] | None
    _token_function: TokenFunction | None
    _text: TextFunction | None
    _hash: str | None
    _native: _core.Analyzer

    @classmethod
    def from_callable(
        cls, function: Callable[[str], Sequence[str]], *, name: str, version: str
    ) -> Analyzer:
        """Make an analyzer that calls a function on whole texts.

        Parameters
        ----------
        function : callable
            ``function(text)`` returns the text's terms, a list of str, one position each. Bytes
            of a column that are not UTF-8 arrive as U+FFFD.
        name, version : str
            Identify the function in the hash.

        Returns
        -------
        Analyzer
            Opening a saved index needs the callable again.

        Examples
        --------
        >>> Analyzer.from_callable(str.split, name="spaces", version="1").explain("a b")
        ('a'@0, 'b'@1)
        """
        check_named(function, name, version)
        text_function = TextFunction(
            name, version, lambda texts: [function(text) for text in texts], function=function
        )
        return cls._from_text(text_function)

    @classmethod
    def from_tokenizer(cls, tokenizer: str | os.PathLike[str] | Tokenizer) -> Analyzer:
        """Make an analyzer from a tokenizer of the `tokenizers` package.

        Parameters
        ----------
        tokenizer : path, JSON str or tokenizers.Tokenizer
            Its token strings are the terms; special tokens are dropped, truncation and padding off.

        Raises
        ------
        OptionError
            Not a tokenizer that the package can read.
        """
        return cls._from_text(load_tokenizer(tokenizer))

    @classmethod
    def _from_text(cls, text: TextFunction) -> Analyzer:
        made = cls.__new__(cls)
        set_fields(made, name=text.name, _stopwords=None, _token_function=None)
        native = _core.Analyzer.from_text_function(text.call, text.locate)
        set_fields(made, _text=text, _hash=None, _native=native)
        return made

    @property
    def native(self) -> _core.Analyzer:
        """The engine's own analyzer."""
        return self._native

    @property
    def stopwords(self) -> str | tuple[str, ...] | None:
        """The stop words as given: None, "english" or a tuple of str."""
        return self._stopwords

    @property
    def token_function(self) -> TokenFunction | None:
        """The function applied to the terms of the preset, or None."""
        return self._token_function

    @property
    def has_callable(self) -> bool:
        """Whether it has a callable, which opening a saved index needs again."""
        return self._function() is not None

    @property
    def hash(self) -> str:
        """16 hex digits over all inputs that affect terms."""
        if self._hash is None:
            text = json.dumps(self._identity(), sort_keys=True)
            set_fields(self, _hash=xxhash.xxh3_64_hexdigest(text.encode()))
        assert self._hash is not None
        return self._hash

    def _stopword_list(self) -> tuple[str, ...]:
        return ENGLISH_STOPWORDS if self._stopwords == "english" else tuple(self._stopwords or ())

    def _identity(self) -> dict[str, Any]:
        identity = self.to_dict()
        if self._text is None:
            identity["stopwords"] = sorted(set(self._stopword_list()))
            identity["text_version"] = _core.text_version(read_preset(self.name)[0])
            if has_stemmer(self.name):
                identity["stemmer"] = stemmer_version()
        return identity

    def explain(
        self, text: str, *, role: Literal["document", "query"] = "document"
    ) -> tuple[Token, ...]:
        """Show the terms of one text.

        Parameters
        ----------
        text : str
        role : "document" or "query"
            They differ only in scripts that are cut into pairs of characters.

        Returns
        -------
        tuple of Token
            In text order; positions never decrease. A token that is cut out of a character with
            its marks has the place of both.

        Examples
        --------
        >>> text = "Ju\u0308rgens Straße"
        >>> [(one.term, one.start, one.end) for one in Analyzer().explain(text)]
        [('jurgens', 0, 8), ('strasse', 9, 15)]
        """
        located = self._native.locate(text, role) if isinstance(text, str) else None
        if located is not None:
            return tuple(Token(*one) for one in located)
        terms, _, term_ids, positions, _ = self._native.analyze([text], role)
        pairs = zip(term_ids.tolist(), positions.tolist(), strict=True)
        return tuple(Token(terms[term], position) for term, position in pairs)

    def to_dict(self) -> dict[str, Any]:
        """Return this analyzer as JSON types for :meth:`from_dict`; a callable only by name."""
        text = self._text
        if text is None:
            made: dict[str, Any] = {"kind": "preset", "name": self.name, "stopwords": None}
            if self._stopwords is not None:
                english = self._stopwords == "english"
                made["stopwords"] = "english" if english else list(self._stopwords)
            if self._token_function is not None:
                named = self._token_function
                made["token_function"] = {"name": named.name, "version": named.version}
            return made
        if text.tokenizer_json is not None:
            return {"kind": "tokenizer", "json": text.tokenizer_json}
        return {"kind": "callable", "name": text.name, "version": text.version}

    @classmethod
    def from_dict(
        cls,
        stored: Mapping[str, Any],
        *,
        function: Callable[[str], Sequence[str]] | None = None,
    ) -> Analyzer:
        """Make an analyzer from the result of :meth:`to_dict`.

        Parameters
        ----------
        stored : mapping
        function : callable, optional
            The callable of the stored analyzer, if it has one; callables are not stored.

        Raises
        ------
        OptionError
            The callable is missing or would not be used, or ``stored`` is not valid.
        """
        kind = stored.get("kind") if isinstance(stored, Mapping) else None
        if not isinstance(kind, str) or kind not in _STORED:
            wish = "kind 'preset', 'callable' or 'tokenizer'"
            raise error(OptionError, "stored", wish, repr(kind))
        named = stored if kind == "callable" else stored.get("token_function")
        if not _has(stored, _STORED[kind]) or not (named is None or _has(named, _NAMED)):
            raise error(OptionError, "stored", f"the fields of a {kind}", "others")
        if named is not None and function is None:
            wanted = f"the callable {named['name']!r} version {named['version']!r}"
            raise error(OptionError, "function", f"{wanted} (callables are not stored)", "None")
        if named is None and function is not None:
            raise error(
                OptionError, "function", "None (this analyzer has no callable)", repr(function)
            )
        if kind == "tokenizer":
            return cls.from_tokenizer(stored["json"])
        if named is None or function is None:
            return cls(stored["name"], stopwords=stored["stopwords"])
        if kind == "callable":
            return cls.from_callable(function, name=named["name"], version=named["version"])
        token_function = TokenFunction(function, name=named["name"], version=named["version"])
        return cls(stored["name"], stopwords=stored["stopwords"], token_function=token_function)

    def _function(self) -> Callable[[str], Sequence[str]] | None:
        if self._text is not None:
            return self._text.function
        return self._token_function.function if self._token_function is not None else None

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle the result of :meth:`to_dict` and the callable."""
        return _restore, (self.to_dict(), self._function())

    def __setattr__(self, name: str, value: object) -> None:
        """Raise AttributeError: analyzers are immutable."""
        raise AttributeError(f"cannot assign to field {name!r}")

    def __delattr__(self, name: str) -> None:
        """Raise AttributeError: analyzers are immutable."""
        raise AttributeError(f"cannot delete field {name!r}")

    def __eq__(self, other: object) -> bool:
        """Return whether both analyzers turn every text into the same terms."""
        return self.hash == other.hash if isinstance(other, Analyzer) else NotImplemented

    def __hash__(self) -> int:
        """Return a hash that is the same for equal analyzers."""
        return int(self.hash, 16)

    def __repr__(self) -> str:
        """Show the call that makes this analyzer."""
        if self._text is not None and self._text.tokenizer_json is not None:
            return f"Analyzer.from_tokenizer(<{len(self._text.tokenizer_json)} characters of JSON>)"
        if self._text is not None:
            return f"Analyzer.from_callable(name={self.name!r}, version={self._text.version!r})"
        options = [repr(self.name)]
        if self._stopwords is not None:
            options.append(f"stopwords={self._stopwords!r}")
        if self._token_function is not None:
            options.append(f"token_function={self._token_function!r}")
        return f"Analyzer({', '.join(options)})"


def _has(stored: object, names: Iterable[str]) -> bool:
    return isinstance(stored, Mapping) and stored.keys() >= set(names)


def _restore(stored: dict[str, Any], function: Callable[[str], Sequence[str]] | None) -> Analyzer:
    return Analyzer.from_dict(stored, function=function)


# ---- Reads an argument or a setting that is an analyzer or a preset's name ----


def read_analyzer(argument: str, given: object) -> Analyzer | None:
    """Return the analyzer that is given, or that has the given name; None for None."""
    if given is None or isinstance(given, Analyzer):
        return given
    if not isinstance(given, str):
        wish = "an hr.Analyzer or the name of a preset"
        raise error(DTypeError, argument, wish, type(given).__name__)
    try:
        return Analyzer(given)
    except OptionError as fault:
        made = OptionError(str(fault).replace("name", argument, 1))
        made.argument = argument
        raise made from None
