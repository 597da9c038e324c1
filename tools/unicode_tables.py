"""Generate csrc/text/unicode_tables.inc: what the native analyzer knows about characters.

Facts come from two places only: this Python's `unicodedata` and `str` methods (Unicode 14 for
Python 3.11), and the token streams that this Python's SQLite FTS5 gives for every single character.

    python tools/unicode_tables.py csrc/text/unicode_tables.inc
"""

import argparse
import re
import sqlite3
import sys
import unicodedata
from collections.abc import Iterable, Sequence
from pathlib import Path

# The generator's own version: raise it when a rule below changes what a table says to every preset.
# For one preset alone, raise its rules_version (csrc/text/analyzer.cpp).
TABLE_VERSION = 1
LIMIT = 0x110000
# Bits of a character; csrc/text/unicode.hpp has the same list.
WORD, CASED, CASE_IGNORABLE, FTS_START, FTS_MARK, LETTER, MARK, IGNORABLE = (
    1 << i for i in range(8)
)
UPPER, LOWER, DIGIT, FOLD_MARKS = (1 << i for i in range(8, 12))
DENSE_SHIFT = 12
MAY_COMPOSE = 1 << 15
DOTTED_I = 0x130
# Scripts cut into pairs of characters, by the names of their letters. One group = one kind of run.
DENSE_NAMES = (
    re.compile(
        r"CJK UNIFIED|CJK COMPATIBILITY IDEOGRAPH|^IDEOGRAPHIC|"
        r"HIRAGANA|KATAKANA|HENTAIGANA|KANA REPEAT"
    ),
    re.compile(r"^THAI "),
    re.compile(r"^LAO "),
    re.compile(r"^KHMER "),
    re.compile(r"^MYANMAR "),
    re.compile(r"^(HALFWIDTH )?HANGUL "),
)
EMOJI_GROUP = 7
# Emoji of Unicode 14, and what it keeps for later ones (emoji-data.txt: Emoji, and above U+FFFF
# Extended_Pictographic too), as Lucene's ICU tokenizer has them: not ASCII, (c), (r), TM, U+3030
# and U+303D. Letters and numbers (U+2139, U+3297, U+3299) stay what they are, and U+2194 to U+21AA
# are signs, as all arrows of their block.
EMOJI_RANGES = """
203C 2049 231A-231B 2328 23CF 23E9-23F3 23F8-23FA 24C2 25AA-25AB 25B6 25C0
25FB-25FE 2600-2604 260E 2611 2614-2615 2618 261D 2620 2622-2623 2626 262A 262E-262F 2638-263A
2640 2642 2648-2653 265F-2660 2663 2665-2666 2668 267B 267E-267F 2692-2697 2699 269B-269C
26A0-26A1 26A7 26AA-26AB 26B0-26B1 26BD-26BE 26C4-26C5 26C8 26CE-26CF 26D1 26D3-26D4 26E9-26EA
26F0-26F5 26F7-26FA 26FD 2702 2705 2708-270D 270F 2712 2714 2716 271D 2721 2728 2733-2734 2744
2747 274C 274E 2753-2755 2757 2763-2764 2795-2797 27A1 27B0 27BF 2934-2935 2B05-2B07 2B1B-2B1C
2B50 2B55 1F000-1F0FF 1F10D-1F10F 1F12F 1F16C-1F171 1F17E-1F17F 1F18E 1F191-1F19A 1F1AD-1F1FF
1F201-1F20F 1F21A 1F22F 1F232-1F23A 1F23C-1F23F 1F249-1F53D 1F546-1F64F 1F680-1F6FF 1F774-1F77F
1F7D5-1F7FF 1F80C-1F80F 1F848-1F84F 1F85A-1F85F 1F888-1F88F 1F8AE-1F8FF 1F90C-1F93A 1F93C-1F945
1F947-1FAFF 1FC00-1FFFD
"""
EMOJI = {
    c
    for one in EMOJI_RANGES.split()
    for c in range(int(one[:5].rstrip("-"), 16), int(one.rpartition("-")[2], 16) + 1)
}
FOLDING_SCRIPTS = re.compile(r"^(LATIN|GREEK|CYRILLIC|HEBREW|ARABIC) ")
STROKED = re.compile(r"^LATIN SMALL LETTER ([A-Z]) WITH STROKE$")
PLAIN = {"\u0131": "i", "\u00e6": "ae", "\u0153": "oe", "\u0671": "\u0627"}  # alef wasla: alef
TATWEEL = 0x0640
IOTA_SUBSCRIPT = "\u0345"
ZERO_WIDTH_SPACE = 0x200B
# Invisible letters and marks (Unicode's Default_Ignorable_Code_Point, less the format characters).
INVISIBLE = {0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x180B, 0x180C, 0x180D, 0x180F, 0x3164, 0xFFA0}
INVISIBLE |= set(range(0xFE00, 0xFE10)) | set(range(0xE0100, 0xE01F0))

Pairs = list[tuple[int, int]]


def code_points() -> Iterable[int]:
    """Every scalar value."""
    return (c for c in range(LIMIT) if not 0xD800 <= c < 0xE000)


def word_flags(c: int) -> int:
    """What `re` and `str.lower` say of a character: they are asked, not modelled."""
    char = chr(c)
    lowered = char.lower()
    in_words = [re.match(r"\w", x) is not None for x in lowered]
    if c == DOTTED_I:
        assert in_words == [True, False]  # the one letter that lower-casing splits; the code knows
        in_words = [True]
    assert len(set(in_words)) == 1, hex(c)
    # The rule for the final sigma tells which characters are cased and which it looks through.
    before_cased = f"A\u03a3{char}A".lower()[1] == "\u03c3"
    at_end = f"A\u03a3{char}".lower()[1] == "\u03c3"
    flags = WORD if in_words[0] else 0
    if before_cased:
        flags |= CASED if at_end else CASE_IGNORABLE
    return flags


def dense_group(c: int, category: str, name: str) -> int:
    """1-based group of a letter of a script without spaces, 0 for all others."""
    if category[0] == "N" and c != 0x3007:  # a circled ideograph is the ideograph
        char = unicodedata.normalize("NFKD", chr(c))[0]
        category, name = unicodedata.category(char), unicodedata.name(char, "")
    if category[0] != "L" and c != 0x3007:
        return 0
    return next((i for i, rule in enumerate(DENSE_NAMES, 1) if rule.search(name)), 0)


def is_drawn_out(char: str, name: str) -> bool:
    """Whether it is Arabic without a letter: a tatweel, or a vowel sign that stands alone."""
    if not name.startswith("ARABIC ") or unicodedata.category(char)[0] != "L":
        return False
    spread = unicodedata.normalize("NFKD", char)
    return all(x in (" ", chr(TATWEEL)) or unicodedata.combining(x) for x in spread)


def unicode_flags(c: int) -> int:
    """The classes of the `unicode` preset."""
    char = chr(c)
    category, name = unicodedata.category(char), unicodedata.name(char, "")
    if c in INVISIBLE or category == "Me" or (category == "Cf" and c != ZERO_WIDTH_SPACE):
        return IGNORABLE
    if is_drawn_out(char, name):
        return IGNORABLE
    flags = 0
    if category[0] in "LN":
        flags |= LETTER
    if category[0] == "M":
        flags |= MARK
    if category in ("Lu", "Lt"):
        flags |= UPPER
    if category == "Ll":
        flags |= LOWER
    if category[0] == "N":
        flags |= DIGIT
    if FOLDING_SCRIPTS.match(name) or category[0] == "N":
        flags |= FOLD_MARKS
    group = EMOJI_GROUP if c in EMOJI else dense_group(c, category, name)
    return flags | group << DENSE_SHIFT


def fold(char: str) -> str:
    """Case and compatibility forms removed until nothing changes; strokes and digits made plain."""
    now, before = char, ""
    while now != before:
        before = now
        # The iota subscript is a mark like any accent; casefold alone would make it a letter.
        spread = unicodedata.normalize("NFKD", now)
        now = "".join(x if x == IOTA_SUBSCRIPT else x.casefold() for x in spread)
        now = unicodedata.normalize("NFKD", now)
        plain = []
        for x in now:
            stroke = STROKED.match(unicodedata.name(x, ""))
            decimal = unicodedata.decimal(x, None)
            if stroke:
                plain.append(stroke[1].lower())
            elif decimal is not None:
                plain.append(str(decimal))
            else:
                plain.append(PLAIN.get(x, x))
        now = "".join(plain)
    return now


def fold_rows(flags: Sequence[int]) -> list[tuple[int, str]]:
    """Rows (character, folded form) where the two differ; Hangul is left to arithmetic."""
    rows = []
    for c in code_points():
        if flags[c] & IGNORABLE:
            rows.append((c, ""))
            continue
        if not flags[c] & (LETTER | MARK) or 0xAC00 <= c <= 0xD7A3:
            continue
        folded = "".join(x for x in fold(chr(c)) if not flags[ord(x)] & IGNORABLE)
        # A form with a character outside words (a space, a fraction slash) would split the term.
        if folded == chr(c) or any(not flags[ord(x)] & (LETTER | MARK) for x in folded):
            continue
        assert folded, hex(c)
        dense = flags[c] >> DENSE_SHIFT & 7
        assert all(
            dense == flags[ord(x)] >> DENSE_SHIFT & 7 or flags[ord(x)] & MARK for x in folded
        )
        rows.append((c, folded))
    return rows


def compositions() -> list[tuple[int, int, int]]:
    """Canonical compositions (base, mark, composed); Hangul is arithmetic."""
    rows = []
    for c in code_points():
        parts = unicodedata.decomposition(chr(c)).split()
        if len(parts) != 2 or parts[0].startswith("<"):
            continue
        base, mark = (int(x, 16) for x in parts)
        if unicodedata.normalize("NFC", chr(base) + chr(mark)) == chr(c):
            rows.append((base, mark, c))
    return sorted(rows)


def fts5_terms(tokenizer: str) -> tuple[dict[int, str], set[int]]:
    """Ask FTS5 for each character c: its form in `a<c>b` if it joins them; does it start one."""
    database = sqlite3.connect(":memory:")
    database.execute(f"CREATE VIRTUAL TABLE t USING fts5(inside, first, tokenize='{tokenizer}')")
    database.execute("CREATE VIRTUAL TABLE v USING fts5vocab(t, instance)")
    rows = ((c, f"a{chr(c)}b", chr(c)) for c in code_points() if c > 0)
    database.executemany("INSERT INTO t(rowid, inside, first) VALUES (?, ?, ?)", rows)
    inside: dict[int, list[str]] = {}
    starts = set()
    for c, column, term in database.execute("SELECT doc, col, term FROM v"):
        if column == "inside":
            inside.setdefault(c, []).append(term)
        else:
            starts.add(c)
    return {c: terms[0][1:-1] for c, terms in inside.items() if len(terms) == 1}, starts


def fts5_rows(simple: dict[int, str], full: dict[int, str]) -> tuple[Pairs, Pairs]:
    """Folds of remove_diacritics=1, and those that remove_diacritics=2 changes. 0 drops."""
    as_int = {"": 0}
    first = [(c, ord(t) if t else 0) for c, t in sorted(simple.items()) if t != chr(c)]
    second = [
        (c, as_int.get(t, ord(t) if t else 0)) for c, t in sorted(full.items()) if t != simple[c]
    ]
    return first, second


def runs(values: Iterable[int]) -> list[tuple[int, int, int]]:
    """(first, last, value) of every run of one non-zero value."""
    rows: list[tuple[int, int, int]] = []
    for c, value in enumerate(values):
        if not value:
            continue
        if rows and rows[-1][1] == c - 1 and rows[-1][2] == value:
            rows[-1] = (rows[-1][0], c, value)
        else:
            rows.append((c, c, value))
    return rows


def emit(kind: str, name: str, rows: Sequence[Sequence[int]] | Sequence[int]) -> str:
    """One constexpr array, wrapped at 100 columns."""
    cells = [
        f"{row:#x}," if isinstance(row, int) else "{" + ",".join(f"{x:#x}" for x in row) + "},"
        for row in rows
    ]
    lines, line = [], "   "
    for cell in cells:
        if len(line) + len(cell) + 1 > 100:
            lines.append(line)
            line = "   "
        line += " " + cell
    lines.append(line)
    return f"constexpr {kind} {name}[] = {{\n" + "\n".join(lines) + "\n};\n"


def pooled(rows: Iterable[tuple[int, str]]) -> tuple[Pairs, str]:
    """Where the string of each character begins in the pool of them all, and the pool."""
    index, pool = [], ""
    for c, made in rows:
        index.append((c, len(pool)))
        pool += made
    return [*index, (LIMIT, len(pool))], pool


def tables() -> str:
    """The whole generated file."""
    flags = [0] * LIMIT
    for c in code_points():
        flags[c] = word_flags(c) | unicode_flags(c)
    simple, starts = fts5_terms("unicode61 remove_diacritics 1")
    full, _ = fts5_terms("unicode61 remove_diacritics 2")
    assert simple.keys() == full.keys()
    for c in simple:
        flags[c] |= FTS_START if c in starts else FTS_MARK
    composed = compositions()
    seconds = {mark for _, mark, _ in composed} | {*range(0x1161, 0x1176), *range(0x11A8, 0x11C3)}
    for c in code_points():
        char = chr(c)
        if (
            c in seconds
            or unicodedata.combining(char)
            or unicodedata.normalize("NFC", char) != char
        ):
            flags[c] |= MAY_COMPOSE
    index, pool = pooled(fold_rows(flags))
    canonical_index, canonical_pool = pooled(
        (c, unicodedata.normalize("NFD", chr(c)))
        for c in code_points()
        if unicodedata.normalize("NFD", chr(c)) != chr(c) and not 0xAC00 <= c <= 0xD7A3
    )
    lower = [(c, ord(chr(c).lower())) for c in code_points()
             if c != DOTTED_I and chr(c).lower() != chr(c)]  # fmt: skip
    fts_simple, fts_full = fts5_rows(simple, full)
    classes = [unicodedata.combining(chr(c)) for c in range(LIMIT)]
    version = f"unicode-{unicodedata.unidata_version}+fts5-{sqlite3.sqlite_version}+{TABLE_VERSION}"
    return "\n".join(
        [
            "// Generated by tools/unicode_tables.py; do not edit.",
            f'constexpr char kTableVersion[] = "{version}";\n',
            emit("Range", "kFlagRanges", runs(flags)),
            emit("Range", "kCombiningClasses", runs(classes)),
            emit("Pair", "kLowerCase", lower),
            emit("Pair", "kFts5Fold", fts_simple),
            emit("Pair", "kFts5FoldMore", fts_full),
            emit("Pair", "kFoldIndex", index),
            emit("char32_t", "kFoldPool", [ord(x) for x in pool]),
            emit("Composition", "kCompositions", composed),
            emit("Pair", "kCanonicalIndex", canonical_index),
            emit("char32_t", "kCanonicalPool", [ord(x) for x in canonical_pool]),
        ]
    )


def main() -> int:
    """Write the tables, or with --check say whether the committed ones are these."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path", type=Path)
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    options = parser.parse_args()
    made = tables()
    if options.check:
        return 0 if options.path.read_text() == made else 1
    options.path.write_text(made)
    return 0


if __name__ == "__main__":
    sys.exit(main())
