"""What the pages name is there: files, tests, planted bugs, links, headings."""

import re
from pathlib import Path

import pytest

import test_layers
import test_layers_cpp
from distributed.planted import PLANTED
from distributed.planted_routers import ROUTERS
from docs.definitions import defines, named_places, python_names
from laws import planted, planted_life
from laws.planted_life import LIVES

# ---- places and planted bugs ----

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "ARCHITECTURE.md", *sorted((ROOT / "docs").glob("*.md"))]
GUARANTEES = ROOT / "docs" / "guarantees.md"


def first_cells(heading: str) -> list[str]:
    """Return the names in the first column of the table below a heading of ARCHITECTURE.md."""
    section = (ROOT / "ARCHITECTURE.md").read_text().split(f"## {heading}\n")[1].split("\n## ")[0]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    return [
        name.removesuffix(".py").rstrip("/") for row in rows for name in re.findall("`(.+?)`", row)
    ]


def test_the_architecture_has_a_line_for_every_room_and_folder() -> None:
    rooms = [room for room in test_layers.ROOMS if room not in ("", "__main__")]
    assert first_cells("python/hyrecall, nearest first") == rooms
    files = test_layers_cpp.cpp_files(ROOT)
    folders = {path.relative_to(ROOT / "csrc").parent.as_posix() for path in files}
    assert set(first_cells("csrc, nearest first")) == folders


def test_both_pages_that_name_places_are_looked_at() -> None:
    assert len(named_places(ROOT / "docs" / "scoring.md")) > 40
    assert len(named_places(GUARANTEES)) > 15


@pytest.mark.parametrize(
    ("place", "name"),
    sorted({pair for page in PAGES for pair in named_places(page)}),
    ids="::".join,
)
def test_what_a_page_names_is_there(place: str, name: str) -> None:
    assert (ROOT / place).is_file()
    assert defines(ROOT / place, name)


@pytest.mark.parametrize(
    ("place", "name"),
    [
        ("csrc/core/formulas.hpp", "bm25_idfs"),
        ("csrc/core/formulas.hpp", "memcpy"),  # called there, not defined
        ("csrc/engine/fusion/fusion.cpp", "rrf_term"),
        ("csrc/engine/fusion/fusion.cpp", "Nowhere::best"),
        ("csrc/engine/lexical/bm25.cpp", "bm25_impact"),
        ("python/hyrecall/recall/explain.py", "dataclass"),
    ],
)
def test_a_name_that_is_not_there_would_be_seen(place: str, name: str) -> None:
    assert not defines(ROOT / place, name)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_that_a_page_names_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    named = re.findall(r"(?<![\w/])((?:csrc|python|tests|docs|tools)/[\w./-]*\w)", text)
    named = [path for path in named if "NNNN" not in path]
    assert [path for path in named if not any(ROOT.glob(path + "*"))] == []


def test_the_guarantees_tell_of_every_planted_bug_and_of_no_other() -> None:
    told, quoted = set(), set()
    for line in re.findall(r"- Planted:(.*?)(?:\n\n|\Z)", GUARANTEES.read_text("utf-8"), re.DOTALL):
        sentences = re.findall(r'"(.+?)"', " ".join(line.split()))
        names = re.findall(r"[A-Z]\w+", re.sub(r'".+?"', "", line, flags=re.DOTALL))
        quoted |= set(sentences)
        told |= {word for word in names if not re.fullmatch(r"L\d", word)}
    assert quoted == {name for bugs in planted.LAWS.values() for name in bugs} | {*LIVES}
    lives = {name for name in python_names(Path(planted_life.__file__)) if name[0].isupper()}
    shards = {bug.__name__ for bug, _ in PLANTED} | {bug.__name__ for bug in ROUTERS}
    assert told == shards | lives - {"Ghosts", "LIVES"}


def test_the_guarantees_have_a_heading_for_every_law() -> None:
    headings = re.findall(r"^## (L\d) ", GUARANTEES.read_text("utf-8"), re.MULTILINE)
    assert headings == [f"L{number}" for number in range(1, 9)]


# ---- every link leads to a file, and to a heading of it ----

LINKS_PAGES = sorted(
    path
    for pattern in ("*.md", "docs/*.md", "docs/*/*.md", "bench/*.md")
    for path in ROOT.glob(pattern)
)


def headings(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    text = re.sub(r"^```.*?^```$", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def broken_links(page: Path) -> list[str]:
    """Return the links of a page that lead nowhere."""
    broken = []
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text("utf-8")):
        if re.match(r"\w+://", link):
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        is_known = target.exists() and (not anchor or anchor in headings(target))
        broken += [] if is_known else [link]
    return broken


@pytest.mark.parametrize("page", LINKS_PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_links_of_a_page_lead_somewhere(page: Path) -> None:
    assert broken_links(page) == []


def test_a_link_that_leads_nowhere_is_seen(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A `title`, here\n[a](#a-title-here) [b](#b) [c](page.md) [d](no.md)\n")
    assert broken_links(page) == ["#b", "no.md"]


def test_the_readme_links_every_page_of_docs() -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    pages = sorted((ROOT / "docs").glob("*.md"))
    assert pages
    assert [page.name for page in pages if f"](docs/{page.name})" not in text] == []
