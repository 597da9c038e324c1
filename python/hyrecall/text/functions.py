"""The Python functions that an analyzer calls: stemmers, token functions, tokenizers, callables."""

import os
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from hyrecall.base.arguments import check_unicode
from hyrecall.base.keywords import check_keywords
from hyrecall.errors import DTypeError, OptionError, error

if TYPE_CHECKING:
    from tokenizers import Tokenizer

NATIVE_PRESETS = ("word", "unicode", "unicode61", "porter")
SNOWBALL = "snowball:"
UNICODE_STEMS = "unicode:"

Batch = Callable[[list[str]], Sequence[Sequence[str]]]


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
    """Turns whole texts into terms: a user's callable, or a tokenizer with its JSON."""

    name: str
    version: str
    call: Batch
    function: Callable[[str], Sequence[str]] | None = None
    tokenizer_json: str | None = None


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
    import Stemmer

    if language not in Stemmer.algorithms():
        known = ", ".join(Stemmer.algorithms())
        raise error(OptionError, "name", f"{prefix} and one of {known}", repr(prefix + language))
    stem_words = Stemmer.Stemmer(language, 0).stemWords  # no cache: the analyzer has one
    return lambda words: [[stem] for stem in stem_words(words)]


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


def load_tokenizer(source: "str | os.PathLike[str] | Tokenizer") -> TextFunction:
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

    def call(texts: list[str]) -> list[list[str]]:
        encodings = tokenizer.encode_batch(texts, add_special_tokens=False)
        return [
            [token for token, i in zip(made.tokens, made.ids, strict=True) if i not in special]
            for made in encodings
        ]

    return TextFunction("tokenizer", "", call, tokenizer_json=tokenizer.to_str())
