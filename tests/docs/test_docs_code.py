"""Code in documents runs: python blocks of the pages, and the examples of docstrings."""

import doctest
import importlib
import pkgutil
import re
from pathlib import Path
from types import ModuleType

import pytest

import hyrecall
from hyrecall.embed import StaticEmbedder

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs").glob("*.md"))
# Absent without their extras: modules of these may be skipped by name, no others.
EXTRAS = {"typer", "rich", "wordllama", "safetensors", "torch"}
# What shows measures needs the extra [eval].
MEASURES = {"evaluation.md", "hyrecall.evaluate"}


def python_blocks(text: str) -> list[tuple[int, str]]:
    """Line and code of every python block of a page."""
    blocks = re.finditer(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    return [(text.count("\n", 0, block.start(1)), block[1]) for block in blocks]


def run_blocks(page: Path) -> int:
    """Run the blocks of a page in order, as one program; how many there are."""
    names: dict[str, object] = {"__name__": "__main__"}
    blocks = python_blocks(page.read_text(encoding="utf-8"))
    for line, code in blocks:
        exec(compile("\n" * line + code, str(page), "exec"), names)
    return len(blocks)


def modules() -> list[str]:
    """Every module of the package but the one that would start the command line.

    The CUDA library lies among them, and pkgutil takes any shared object for a module.
    """
    no_modules = ("hyrecall.libhyrecall_cuda", "hyrecall.cli.__main__")
    found = pkgutil.walk_packages(hyrecall.__path__, "hyrecall.")
    return [module.name for module in found if module.name not in no_modules]


def load(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as fault:
        if (fault.name or "").partition(".")[0] not in EXTRAS:
            raise
        pytest.skip(f"{name} needs {fault.name}")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_code_of_a_page_runs(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    needs_measures(page.name)
    run_blocks(page)


def needs_measures(name: str) -> None:
    if name in MEASURES or name.rpartition(".")[0] in MEASURES:
        pytest.importorskip("ir_measures", reason="the extra [eval] is not installed")


def test_the_scores_made_by_hand_are_looked_at() -> None:
    assert python_blocks((ROOT / "docs" / "scoring.md").read_text(encoding="utf-8"))


def test_code_that_fails_would_be_seen(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("Text\n\n```python\nx = 1\n```\n\nand\n\n```python\nassert x == 2\n```\n")
    with pytest.raises(AssertionError):
        run_blocks(page)
    page.write_text("```python\nx = 1\n```\n```sh\nrm\n```\n```python\nassert x == 1\n```\n")
    assert run_blocks(page) == 2


@pytest.mark.parametrize("name", modules())
def test_the_examples_of_a_module_run(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    needs_measures(name)
    module = load(name)
    if name == "hyrecall.embed.static" and not StaticEmbedder.available():
        pytest.skip("the extra [local] is not installed")
    failed, _ = doctest.testmod(module, optionflags=doctest.ELLIPSIS)
    assert failed == 0


def test_most_public_names_are_shown_at_work() -> None:
    tried = doctest.DocTestFinder(exclude_empty=True)
    shown = {
        name
        for name in hyrecall.__all__
        if any(test.examples for test in tried.find(getattr(hyrecall, name), name))
    }
    assert len(shown) >= 20
