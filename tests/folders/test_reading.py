"""A folder as chunks: which files are read, what is told of the others, and what a row says."""

import os
import sys
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest

from hyrecall.errors import MissingExtraError
from hyrecall.folders import read


def write(folder: Path, files: dict[str, str | bytes]) -> Path:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


def test_a_row_says_where_its_chunk_stands(tmp_path: Path) -> None:
    write(tmp_path, {"b/two.md": "# Two\r\n\r\nx\r\n\r\n## Sub\r\n\r\ny z\r\n", "a.txt": "\ufeffa"})
    os.utime(tmp_path / "a.txt", ns=(0, 1_700_000_000_123_456_789))
    made = read(tmp_path, chunk_tokens=4)
    rows = made.table.to_pylist()
    assert [
        (row["id"], row["path"], row["place"], row["heading"], row["line"]) for row in rows
    ] == [
        ("a.txt#0", "a.txt", 0, "", 1),
        ("b/two.md#0", "b/two.md", 0, "Two", 1),
        ("b/two.md#1", "b/two.md", 1, "Two > Sub", 5),
    ]
    assert rows[0]["text"] == "a"
    assert rows[0]["modified"] == datetime(2023, 11, 14, 22, 13, 20, 123456, UTC)
    assert rows[0]["hash"] != rows[1]["hash"] == rows[2]["hash"]
    assert pa.table(made).equals(made.table)
    assert made.skipped == ()


@pytest.mark.parametrize(("seconds", "year"), [(400 * 10**9, 9999), (-(400 * 10**9), 1)])
def test_a_time_that_no_date_holds_is_the_nearest_date(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: int, year: int
) -> None:
    write(tmp_path, {"a.md": "a"})
    facts = os.stat_result(os.stat(tmp_path / "a.md"), {"st_mtime_ns": seconds * 10**9})
    monkeypatch.setattr(os, "fstat", lambda _: facts)  # few file systems hold such a time
    assert read(tmp_path).table["modified"][0].as_py().year == year


def test_what_is_not_read_is_told_and_nothing_outside_is_read(tmp_path: Path) -> None:
    outside = write(tmp_path / "outside", {"secret.md": "secret"})
    folder = write(tmp_path / "docs", {
        "a.md": "read", ".hidden.md": "secret", ".git/x.md": "secret", "no.py": "secret",
        "zero.txt": b"secret\0", "latin.txt": b"secret \xe9t\xe9", "empty.md": " \n",
        "sub/b.md": "b",
    })  # fmt: skip
    (folder / "link.md").symlink_to(outside / "secret.md")
    (folder / "inner.md").symlink_to(folder / "a.md")
    (folder / "far").symlink_to(outside)
    os.mkfifo(folder / "pipe.md")
    with open(folder / "huge.txt", "wb") as huge:
        huge.truncate((64 << 20) + 1)
    (folder / os.fsdecode(b"n\xff.md")).write_text("secret")
    made = read(folder)
    assert made.table["path"].to_pylist() == ["a.md", "sub/b.md"]
    assert dict(made.skipped) == {
        ".git": "hidden", ".hidden.md": "hidden", "far": "a symbolic link",
        "link.md": "a symbolic link", "inner.md": "a symbolic link", "pipe.md": "not a file",
        "zero.txt": "binary: it has a zero byte", "empty.md": "no text in it",
        "latin.txt": "not UTF-8: invalid continuation byte at byte 7",
        "huge.txt": "more than 64 MiB", "n\\xff.md": "a name that is not UTF-8",
    }  # fmt: skip
    assert read(tmp_path / "docs" / "far").table.num_rows == 1  # a folder that is named is read


def test_a_folder_that_becomes_a_link_while_it_is_read_is_not_followed(tmp_path: Path) -> None:
    outside = write(tmp_path / "outside", {"b.md": "secret"})
    folder = write(tmp_path / "docs", {"a.md": "a", "sub/b.md": "b"})

    def swap(done: int, total: int) -> None:
        if not (folder / "sub").is_symlink():
            (folder / "sub").rename(folder / "old")
            (folder / "sub").symlink_to(outside)

    ticks = iter(range(0, 1000, 2))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("time.monotonic", lambda: next(ticks))
        made = read(folder, progress=swap)
    assert made.table["path"].to_pylist() == ["a.md"]
    assert made.skipped == (("sub/b.md", "not readable: Not a directory"),)


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_what_may_not_be_read_is_told(tmp_path: Path) -> None:
    folder = write(tmp_path, {"a.md": "a", "b.md": "b", "c/d.md": "d"})
    (folder / "b.md").chmod(0)
    (folder / "c").chmod(0)
    try:
        assert dict(read(folder).skipped) == dict.fromkeys(
            ("b.md", "c"), "not readable: Permission denied"
        )
    finally:
        (folder / "c").chmod(0o700)


@pytest.mark.parametrize(
    ("patterns", "found"),
    [
        ("*.md", ["a.md"]),
        ("**/*.md", ["a.md", "x/B.MD", "x/y/c.md"]),
        ("x/**", ["x/B.MD", "x/y/c.md", "x/y/d.py"]),
        (["x/*/c.*", "**/y/?.py"], ["x/y/c.md", "x/y/d.py"]),
        ("**/x/**/*.md", ["x/B.MD", "x/y/c.md"]),
    ],
)
def test_patterns_choose_files_by_their_paths(
    tmp_path: Path, patterns: str | list[str], found: list[str]
) -> None:
    write(tmp_path, dict.fromkeys(["a.md", "x/B.MD", "x/y/c.md", "x/y/d.py"], "text"))
    assert read(tmp_path, patterns=patterns).table["path"].to_pylist() == found


def test_html_is_read_as_its_text(tmp_path: Path) -> None:
    page = (
        "<!doctype html><html><head><title>Site</title><style>no</style></head>\n<body><h1>Top "
        "&amp; <em>more</em></h1>\n<p>one\n two</p><script>no()</script><h2>Code</h2>\n"
        "<pre>a\n  b</pre><ul><li>x<li>y</ul><table><tr><td>1<td>2</table>"
    )
    rows = read(write(tmp_path, {"p.html": page})).table.to_pylist()
    assert [(row["heading"], row["line"]) for row in rows] == [
        ("Site > Top & more", 1), ("Site > Top & more > Code", 4)
    ]  # fmt: skip
    assert rows[0]["text"] == "Site\n\nTop & more\n\none two"
    assert rows[1]["text"] == "Code\n\na\n  b\n\nx\n\ny\n\n1 2"


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ("a<b and 1 < 2 </ x", "a"),  # a tag that is not closed ends with the file
        ("1 < 2 <= 3", "1 < 2 <= 3"),
        ("<p title='a>b' x=it's>c<p y=\"d", "c"),
        ("a<!-- <p>no --> b<!doctype x>c<?php d ?>e", "a bce"),
        ("a<SCRIPT>no</scripts></Script >b<svg/>c<style>no", "abc"),
        ("<pre>a\n  b</PRE>&lt;p&gt; &#x26; &amp;amp;", "a\n  b\n\n<p> & &amp;"),
    ],
)
def test_html_that_is_odd_is_read_as_browsers_do(tmp_path: Path, page: str, text: str) -> None:
    rows = read(write(tmp_path, {"p.html": page})).table.to_pylist()
    assert [row["text"] for row in rows] == [text]


@pytest.mark.timeout(60)
@pytest.mark.parametrize("part", ["<!--", "<a ", "<", "</", "<a b='", "&#", "<h1>", "<pre>", "<p>x",
                                  "<svg>", "<a =", "</svg", "<h1>x</h1>",
                                  "<pre>x</pre><h1>t</h1>"])  # fmt: skip
def test_hostile_html_takes_linear_time(tmp_path: Path, part: str) -> None:
    write(tmp_path, {"p.html": "x" + part * 20_000})
    assert read(tmp_path).table.num_rows > 0


def test_titles_of_restructured_text_are_headings(tmp_path: Path) -> None:
    table = "====  ====\n1     2\n====  ====\n"
    text = f"=====\nGuide\n=====\n\nx\n\nSetup\n-----\n\ny\n\na | b\n\n{table}"
    rows = read(write(tmp_path, {"p.rst": text})).table.to_pylist()
    assert [(row["heading"], row["line"]) for row in rows] == [("Guide", 1), ("Guide > Setup", 7)]


def pdf(*pages: str) -> bytes:
    """Return a PDF with a text on each page."""
    kids = " ".join(f"{3 + 2 * at} 0 R" for at in range(len(pages)))
    font = "<< /Font << /F << /Type /Font /Subtype /Type1 /BaseFont /Helvetica >> >> >>"
    objects = ["<< /Type /Catalog /Pages 2 0 R >>",
               f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>"]  # fmt: skip
    for at, text in enumerate(pages):
        shown = f"BT /F 12 Tf 72 720 Td ({text}) Tj ET"
        objects += [f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Resources {font} "
                    f"/Contents {4 + 2 * at} 0 R >>",
                    f"<< /Length {len(shown)} >>\nstream\n{shown}\nendstream"]  # fmt: skip
    out, places = "%PDF-1.4\n", []
    for number, one in enumerate(objects, 1):
        places.append(len(out))
        out += f"{number} 0 obj\n{one}\nendobj\n"
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    out += f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}"
    start = out.index("xref\n")
    out += f"trailer\n<< /Size {len(objects) + 1} /Root 1 0 R >>\nstartxref\n{start}\n%%EOF"
    return out.encode()


def test_a_page_of_a_pdf_is_a_section(tmp_path: Path) -> None:
    pytest.importorskip("pypdf", reason="the extra [pdf] is not installed")
    made = read(write(tmp_path, {"a.pdf": pdf("green tea", "milk"), "b.pdf": b"%PDF-1.4 broken"}))
    assert made.table.select(["heading", "text", "line"]).to_pylist() == [
        {"heading": "page 1", "text": "green tea", "line": None},
        {"heading": "page 2", "text": "milk", "line": None},
    ]
    assert [path for path, _ in made.skipped] == ["b.pdf"]


def test_a_pdf_without_the_extra_is_skipped_unless_it_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pypdf", None)
    folder = write(tmp_path, {"a.pdf": pdf("tea"), "b.md": "tea"})
    assert read(folder).skipped == (("a.pdf", "a PDF: pip install 'hyrecall[pdf]' reads it"),)
    with pytest.raises(MissingExtraError, match="patterns: expected pypdf"):
        read(folder, patterns="*.pdf")
