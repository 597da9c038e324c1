"""Answers from a folder of documents: context for a prompt with its sources, kept up to date."""

import tempfile
from pathlib import Path

import hyrecall as hr
from hyrecall import folders

QUESTION = "How do I replace a disk of a replica?"


def context(index: hr.Index, question: str, limit: int = 3) -> str:
    """Return the best chunks, each with the chunks beside it and under the place it stands at."""
    hits = index.recall_one(
        text=question,
        limit=limit,
        group="thread",  # one hit a file
        surrounding=1,
    )
    parts = []
    for number, hit in enumerate(hits, 1):
        rows = sorted([(0, hit.text), *((row.step, row.text) for row in hit.surrounding)])
        text = "\n".join(text for _, text in rows)
        parts.append(f"[{number}] {hit['path']}:{hit['line']} ({hit['heading']})\n{text}")
    return "\n\n".join(parts)


def prompt(index: hr.Index, question: str) -> str:
    """Return what a language model is asked."""
    told = "Answer from the sources alone, and name them by their numbers."
    return f"{told}\n\n{context(index, question)}\n\nQuestion: {question}"


with tempfile.TemporaryDirectory() as temporary:
    docs, saved = Path(temporary, "docs"), Path(temporary, "docs.index")
    (docs / "guides").mkdir(parents=True)
    (docs / "guides" / "disks.md").write_text(
        "# Disks\n\n## Check\n\nRun `smartctl -a` once a week.\n\n"
        "## Replace\n\nStop the replica, then replace its disk.\n\n"
        "## Afterwards\n\nWatch the lag until it is zero.\n"
    )
    (docs / "faq.html").write_text("<h1>FAQ</h1><h2>Backups</h2><p>Every night, to a bucket.</p>")
    (docs / "logo.md").write_bytes(b"\x89PNG\0")  # is told, and not read

    # With the extra [local], build(..., embed="static") also finds other words of one meaning.
    read = folders.read(docs)
    print(read)
    assert read.skipped == (("logo.md", "binary: it has a zero byte"),)
    folders.build(read, analyzer=hr.Analyzer("unicode:english")).save(saved)

    index = hr.Index.open(saved)
    asked = prompt(index, QUESTION)
    print(asked)
    assert "[1] guides/disks.md:7 (Disks > Replace)\n" in asked
    assert "Run `smartctl" in asked  # the chunk before
    assert "Watch the lag" in asked  # and the one after

    # The guide is changed, a page is gone, another comes. A service would do this every minute.
    guide = docs / "guides" / "disks.md"
    guide.write_text(guide.read_text().replace("Stop the replica", "Drain and stop the replica"))
    (docs / "faq.html").unlink()
    (docs / "on-call.rst").write_text("On call\n=======\n\nA replica that lags pages ann.\n")
    reader = hr.Index.open(saved)  # another process, say
    found = folders.sync(index, docs)
    print(f"\nnew {found.new}, changed {found.changed}, removed {found.removed}")
    assert (found.new, found.changed, found.removed) == (
        ("on-call.rst",), ("guides/disks.md",), ("faq.html",)
    )  # fmt: skip
    index.save(saved)
    assert not folders.sync(index, docs)  # nothing to save

    assert "Drain and stop" not in context(reader, QUESTION)
    assert reader.reload()
    assert "Drain and stop the replica" in context(reader, QUESTION)
    assert "pages ann" in context(reader, "Who is called when a replica lags?")
