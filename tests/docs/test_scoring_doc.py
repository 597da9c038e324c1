"""Every formula is on the page docs/scoring.md, and none is written twice."""

import re
from pathlib import Path

import pytest

from docs.definitions import code_of, cxx_functions, named_places, python_names, sources

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "scoring.md"
HOME = "csrc/core/formulas.hpp"
# Writes formulas out for a reader and computes none; tests/explained.py follows what it writes.
WRITTEN_OUT = "python/hyrecall/hits/explain_text.py"

# What a copy of a formula would look like, whatever its names: in C++ and in Python.
_DOT = r"(?:\w+(?:\.|->))*"
TELL_TALES = {
    "idf": r"\+ ?0?\.5f?\)+ ?/ ?\(",
    "bm25l": r"/ ?\(\w*k1\w* ?\+",
    "impact": r"/ ?\((?:\w+[(<>\w]*\()?\(?(?:tf|freq|term_freq)\w*\)? ?\+",
    "length norm": rf"\b1(?:\.0?f?)? ?- ?{_DOT}b\b",
    "rrf": rf"/ ?\(?\((?:{_DOT}(?:rank_constant|rrf_k|k_rrf|kRankConstant)|60(?:\.0?)?) ?\+",
    "rrf, turned": rf"/ ?\(\w+ ?\+ ?{_DOT}(?:rank_constant|rrf_k|kRankConstant)\)",
    "min-max": r"- ?\w*(?:low|min|lo|minimum)\w*\)? ?/ ?\(\w*(?:high|max|hi|maximum)\w* ?-",
    "distribution": r"/ ?\(?6(?:\.0?)? ?\* ?\w",
    "cosine": r"(?: \* ?|\w\*(?=\w))\w*inv\w*norm\w*",
    "logarithm": r"(?:\bstd::|\bmath\.|\bnp\.|\bnumpy\.)log(?:f|1p|2|10)?\(",
}


def formulas(root: Path) -> set[str]:
    """The functions of formulas.hpp."""
    return cxx_functions(code_of(root / HOME))


def copies(root: Path) -> list[str]:
    """Every place but formulas.hpp where a formula stands: by its name or by its looks."""
    found = []
    names = formulas(root)
    for path in sources(root):
        place = path.relative_to(root).as_posix()
        if place in (HOME, WRITTEN_OUT):
            continue
        code = code_of(path)
        defined = python_names(path) if path.suffix == ".py" else cxx_functions(code)
        found += [f"{place} defines {name}" for name in sorted(names & defined)]
        found += [
            f"{place} looks like {what}: {match[0]}"
            for what, pattern in TELL_TALES.items()
            if (match := re.search(pattern, code)) is not None
        ]
    return found


def test_every_formula_is_on_the_page() -> None:
    names = {name for place, name in named_places(PAGE) if place == HOME}
    assert len(formulas(ROOT)) >= 10
    assert formulas(ROOT) <= names


def test_every_tell_tale_knows_its_formula() -> None:
    home = code_of(ROOT / HOME)
    own = {"logarithm", "rrf, turned"}  # forms that formulas.hpp does not use
    assert {what for what in TELL_TALES if re.search(TELL_TALES[what], home)} == (
        TELL_TALES.keys() - own
    )


@pytest.mark.slow
def test_no_formula_is_written_twice() -> None:
    assert len(sources(ROOT)) > 60
    assert copies(ROOT) == []


COPIES = {
    "idf": ("python", "def f(n, df):\n    return (n - df + .5) / (df + 0.5)\n"),
    "idf, in float32": ("csrc", "float f(float n, float d) { return (n - d + 0.5f) / (d + .5f); }"),
    "impact": ("csrc", "float f(float w, float tf, float c) { return w * tf / (tf + c); }"),
    "impact of a count": (
        "csrc",
        "float f(float w, int tf, float c) { return w / (static_cast<float>(tf) + c); }",
    ),
    "length norm": (
        "python",
        "def f(p, dl, mean):\n    return p.k1 * (1 - p.b + p.b * dl / mean)\n",
    ),
    "rrf": ("python", "def f(rank, rank_constant=60):\n    return 1 / (rank_constant + rank)\n"),
    "rrf of 60": ("csrc", "double f(int rank) { return 1.0 / (60 + rank); }"),
    "rrf, turned": ("csrc", "double f(P p, int rank) { return 1.0 / (rank + p.rank_constant); }"),
    "min-max": ("python", "def f(x, low, high):\n    return (x - low) / (high - low)\n"),
    "bm25l": ("python", "def f(x, k1):\n    return x / (k1 + x)\n"),
    "distribution": ("python", "def f(x, m, s):\n    return (x - m + 3 * s) / (6 * s)\n"),
    "cosine": ("csrc", "float f(float dot, float inv_norm) { return dot * inv_norm; }"),
    "logarithm": ("python", "import math\n\n\ndef f(x):\n    return math.log(x)\n"),
    "a name": ("csrc", "double natural_log(double x) { return x; }"),
    "a name, in Python": ("python", "def bm25_idf(n, df):\n    return n\n"),
    "a template": ("csrc", "template <typename T> T fold_lanes(T* lanes) { return *lanes; }"),
}


@pytest.mark.parametrize("what", COPIES)
def test_a_second_copy_would_be_seen(what: str, tmp_path: Path) -> None:
    folder, text = COPIES[what]
    home = tmp_path / HOME
    home.parent.mkdir(parents=True)
    home.write_text((ROOT / HOME).read_text(encoding="utf-8"), encoding="utf-8")
    assert copies(tmp_path) == []
    copy = tmp_path / folder / ("copy.py" if folder == "python" else "engine/copy.cpp")
    copy.parent.mkdir(parents=True, exist_ok=True)
    copy.write_text(text, encoding="utf-8")
    assert copies(tmp_path)


def test_a_formula_in_a_comment_is_no_copy(tmp_path: Path) -> None:
    home = tmp_path / HOME
    home.parent.mkdir(parents=True)
    home.write_text((ROOT / HOME).read_text(encoding="utf-8"), encoding="utf-8")
    (tmp_path / "csrc" / "note.cpp").write_text("// 1 / (60 + rank)\n/* a / (tf + c) */ int x;\n")
    (tmp_path / "python").mkdir()
    (tmp_path / "python" / "note.py").write_text(
        '"""1 / (60 + rank)"""\n# 1 / (60 + rank)\nx = 1\n'
    )
    assert copies(tmp_path) == []
