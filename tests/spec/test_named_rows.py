"""Row tests name their recipe, so that another default changes no row."""

from pathlib import Path

import pytest

from spec.named_recipes import unnamed_in

TESTS = Path(__file__).parents[1]


def test_every_store_of_a_row_test_names_its_recipe() -> None:
    found = {
        path.relative_to(TESTS).as_posix(): calls
        for path in sorted(TESTS.rglob("test_*.py"))
        if (calls := unnamed_in(path.read_text("utf-8")))
    }
    assert found == {}


ROW = "def test_A01_a_row():\n    "
HELPER = "def helper(**options):\n    return MemorySync.open(path, **options)\n\n"


@pytest.mark.parametrize(
    ("source", "n_unnamed"),
    [
        (f"{ROW}MemorySync.open(path, embedder=None)", 1),
        (f"{ROW}MemorySync.open(path, recipe=recipes.l0)", 0),
        (f"{ROW}MemorySync.open(path, recipe=None)", 1),
        (f"{ROW}Memory.open(path)", 1),
        (f"{ROW}MemorySync.in_memory()", 1),
        (f"{ROW}open_store()", 1),
        (f"{ROW}open_store(recipe=recipes.hebb)", 0),
        (f"{ROW}with open_store() as a, open_store() as b: pass", 2),
        (f"{ROW}given = {{'recipe': recipes.l0}}\n    open_store(**given)", 0),
        (f"{ROW}given = {{'dim': 8}}\n    open_store(**given)", 1),
        (f"{ROW}Index.open(path)", 0),
        (f"def helper():\n    return open_store()\n\n{ROW}helper()", 1),
        (f"{HELPER}{ROW}helper()", 1),
        (f"{HELPER}{ROW}helper(recipe=recipes.l0)", 0),
        (f"{HELPER}def outer(**more):\n    return helper(**more)\n\n{ROW}outer()", 1),
        (f"class TestA34Lazy:\n    def test_it(self):\n        open_store()\n\n{ROW}pass", 1),
        (f"def test_another_thing():\n    open_store()\n\n{ROW}pass", 0),
        ("def test_another_thing():\n    open_store()", 0),
    ],
)
def test_a_store_that_leaves_its_recipe_to_the_default_is_found(
    source: str, n_unnamed: int
) -> None:
    assert len(unnamed_in(source)) == n_unnamed
