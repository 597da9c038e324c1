"""Code in documents runs, and names how it recalls, so that another default changes none of it."""

import ast
import asyncio
import doctest
import importlib
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import hyrecall
from frameworks import FRAMEWORKS
from hyrecall.embed import StaticEmbedder
from hyrecall.errors import MissingExtraError

# ---- python blocks of the pages, and the examples of docstrings ----

ROOT = Path(__file__).parents[2]
FRAMEWORK_PAGES = sorted((ROOT / "docs" / "frameworks").glob("*.md"))
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *FRAMEWORK_PAGES]
FRAMEWORK_PACKAGES = {package.partition(".")[0] for package in FRAMEWORKS.values()}
# How a block says that it goes on from another; without it, it runs alone.
AFTER_FIRST, AFTER_ABOVE = "# After the first example:\n", "# After the example above:\n"
# Absent without their extras: modules of these may be skipped by name, no others.
EXTRAS = {"typer", "rich", "wordllama", "safetensors", "torch"}
# What shows measures needs the extra [evaluate].
MEASURES = {"evaluation.md", "hyrecall.evaluate"}


def python_blocks(text: str) -> list[tuple[int, str]]:
    """Line and code of every python block of a page."""
    blocks = re.finditer(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    return [(text.count("\n", 0, block.start(1)), block[1]) for block in blocks]


def before(blocks: list[tuple[int, str]], number: int) -> list[int]:
    """Return which blocks a block goes on from, by its first line; the earliest first."""
    code = blocks[number][1]
    if number and code.startswith(AFTER_FIRST):
        return [0]
    if number and code.startswith(AFTER_ABOVE):
        return [*before(blocks, number - 1), number - 1]
    return []


def run_block(page: Path, number: int) -> None:
    """Run one block of a page as a program, with what it says that it goes on from."""
    blocks = python_blocks(page.read_text(encoding="utf-8"))
    names: dict[str, object] = {"__name__": "__main__"}
    loop = asyncio.new_event_loop()  # a program that makes one leaves it to its end
    asyncio.set_event_loop(loop)
    try:
        for one in [*before(blocks, number), number]:
            line, code = blocks[one]
            exec(compile("\n" * line + code, str(page), "exec"), names)
    finally:
        asyncio.set_event_loop(None)
        loop.close()


ON_RAY = [pytest.mark.filterwarnings("ignore")]  # of Ray, at its start
BLOCKS = [
    pytest.param(page, number, id=f"{page.name}-{number}-ray", marks=ON_RAY)
    if "import ray\n" in code
    else pytest.param(page, number, id=f"{page.name}-{number}")
    for page in PAGES
    for number, (_, code) in enumerate(python_blocks(page.read_text(encoding="utf-8")))
]


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
    except MissingExtraError:
        module = name.removeprefix("hyrecall.adapters.").removeprefix("hyrecall.systems.loom.")
        adapter = next((one for one in FRAMEWORKS if f"{module}_".startswith(f"{one}_")), None)
        if adapter is None:
            raise
        pytest.skip(f"{adapter} is not installed: .ci/frameworks {adapter}")
    except ModuleNotFoundError as fault:
        package = (fault.name or "").partition(".")[0]
        if package not in EXTRAS and not (
            name.startswith("hyrecall.adapters.") and package in FRAMEWORK_PACKAGES
        ):
            raise
        pytest.skip(f"{name} needs {fault.name}")


# Pydantic AI of a year ago calls griffe in a way that griffe deprecated at that time.
@pytest.mark.filterwarnings("ignore:Passing additional options:DeprecationWarning")
@pytest.mark.parametrize(("page", "number"), BLOCKS)
def test_a_block_of_a_page_runs_alone(
    page: Path, number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    needs_measures(page.name)
    if page in FRAMEWORK_PAGES and page.stem in FRAMEWORKS:
        needs_framework(page.stem)
    if "import ray\n" in python_blocks(page.read_text(encoding="utf-8"))[number][1]:
        pytest.importorskip("ray", reason="ray is not installed: .ci/frameworks ray")
    if page.name == "reranking.md":
        write_reranker(tmp_path)
    run_block(page, number)


def write_reranker(folder: Path) -> None:
    """Write the model that a page names; skip by name where the package that makes it is absent."""
    from rerank.models import make_folder

    make_folder(folder / "models" / "reranker")


def needs_measures(name: str) -> None:
    if name in MEASURES or name.rpartition(".")[0] in MEASURES:
        pytest.importorskip("ir_measures", reason="the extra [evaluate] is not installed")


def needs_framework(name: str) -> None:
    package = FRAMEWORKS[name]
    pytest.importorskip(package, reason=f"{name} is not installed: .ci/frameworks {name}")


def test_the_scores_made_by_hand_are_looked_at() -> None:
    assert python_blocks((ROOT / "docs" / "scoring.md").read_text(encoding="utf-8"))


def test_code_that_fails_alone_would_be_seen(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    blocks = [
        "x = 1\n",
        "assert x == 1\n",
        f"{AFTER_FIRST}y = x + 1\n",
        f"{AFTER_ABOVE}assert (x, y) == (1, 2)\n",
        f"{AFTER_FIRST}assert x == 2\n",
    ]
    page.write_text("Text\n\n```sh\nrm\n```\n" + "".join(f"```python\n{b}```\n" for b in blocks))
    run_block(page, 0)
    with pytest.raises(NameError):
        run_block(page, 1)
    run_block(page, 2)
    run_block(page, 3)
    with pytest.raises(AssertionError):
        run_block(page, 4)


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


# ---- examples name how they recall ----
# A store that is opened names its recipe; a recall by texts and by vectors its recipe or its
# fusion; commands on a store set the recipe first.

NAMED_PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
OPENING = {"open", "in_memory"}
STORES = {"Memory", "MemorySync"}
RECALLS = {"recall", "arecall", "recall_one", "arecall_one"}


def unnamed(code: str) -> list[str]:
    """Every call of a program that leaves to a default how is recalled."""
    tree = ast.parse(code)
    # What a dict holds that is handed over with **: enough for examples.
    spread = {
        key.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Dict)
        for key in node.keys
        if isinstance(key, ast.Constant)
    }
    return [
        ast.unparse(call)
        for call in ast.walk(tree)
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)
        if _leaves_it_open(call, call.func, spread)
    ]


def _leaves_it_open(call: ast.Call, method: ast.Attribute, spread: set[object]) -> bool:
    given = {
        one.arg
        for one in call.keywords
        if not (isinstance(one.value, ast.Constant) and one.value.value is None)
    }
    if None in given:
        given |= spread
    if method.attr in OPENING and isinstance(method.value, ast.Name) and method.value.id in STORES:
        return "recipe" not in given
    has_both = "text" in given and bool(given & {"vector", "vectors"})
    return method.attr in RECALLS and has_both and not given & {"recipe", "fusion"}


def docstrings(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield ast.get_docstring(node) or ""


def programs() -> Iterator[tuple[str, str]]:
    """Every example: the file that has it, and its code."""
    for page in NAMED_PAGES:
        for _, code in python_blocks(page.read_text(encoding="utf-8")):
            yield page.name, code
    for path in sorted((ROOT / "examples").glob("*.py")):
        yield f"examples/{path.name}", path.read_text(encoding="utf-8")
    package = ROOT / "python"
    for path in sorted(package.rglob("*.py")):
        for text in docstrings(path):
            lines = [one.source for one in doctest.DocTestParser().get_examples(text)]
            if lines:
                yield str(path.relative_to(package)), "".join(lines)


def test_every_example_names_its_recipe_or_its_fusion() -> None:
    seen = list(programs())
    assert len(seen) > 150
    assert [(where, call) for where, code in seen for call in unnamed(code)] == []


@pytest.mark.parametrize(
    ("code", "n_unnamed"),
    [
        ("MemorySync.open(path, embedder=None)", 1),
        ("MemorySync.open(path, recipe=recipes.l0)", 0),
        ("async def f():\n async with Memory.open(path) as m: pass", 1),
        ("Memory.in_memory()", 1),
        ("options = {'recipe': l0}\nMemory.open(path, **options)", 0),
        ("Index.open(path)", 0),
        ("index.recall(text=a, vectors=b)", 1),
        ("index.recall_one(text=a, vector=b, scope=c)", 1),
        ("index.recall(text=a, vectors=None)", 0),
        ("index.recall(text=a, vectors=b, fusion=hr.RRF())", 0),
        ("index.recall(text=a, vectors=b, recipe=hr.recipes.default)", 0),
        ("index.recall(text=a, vectors=b, recipe=None)", 1),
        ("index.recall(text=a, scope=c)", 0),
    ],
)
def test_a_call_that_names_neither_would_be_seen(code: str, n_unnamed: int) -> None:
    assert len(unnamed(code)) == n_unnamed


@pytest.mark.parametrize("page", NAMED_PAGES, ids=lambda page: page.name)
def test_commands_on_a_store_set_its_recipe_first(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for block in re.findall(r"^```console\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        if re.search(r"^hyrecall remember", block, re.MULTILINE):
            assert block.startswith("hyrecall config set recipe ")
