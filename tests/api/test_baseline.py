"""The public API is the one that ``baseline.txt`` holds: names, parameters, defaults, members.

After a change that is meant, ``pytest tests/api --update-api`` writes the file anew. Read what git
shows of it, and name each change that breaks callers in CHANGELOG.md.
"""

import difflib
import enum
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import hyrecall
from api.description import describe, load

BASELINE = Path(__file__).parent / "baseline.txt"
MODULES = (
    *("hyrecall", "hyrecall.arms", "hyrecall.recipe", "hyrecall.recipes", "hyrecall.stages"),
    "hyrecall.memory",
    *(
        "hyrecall.embed",
        "hyrecall.evaluate",
        "hyrecall.folders",
        "hyrecall.replicas",
        "hyrecall.rerank",
        "hyrecall.migrate",
        "hyrecall.distributed",
        "hyrecall.distributed.ray_serve",
        "hyrecall.serve",
        "hyrecall.serve.mcp",
        "hyrecall.adapters.degraded",
        "hyrecall.adapters.documents",
        "hyrecall.cli",
        "hyrecall.systems.loom",
        "hyrecall.systems.hypergraph",
        "hyrecall.systems.l0",
    ),
)
MORE = {"hyrecall": ("Episode", "EpisodeMatch")}
HOW_TO_UPDATE = (
    "The public API differs from tests/api/baseline.txt. If the change is meant, run "
    "`pytest tests/api --update-api` and read the difference in git; if it breaks callers, "
    "CHANGELOG.md says so."
)


def test_the_public_api_is_the_one_of_the_baseline(request: pytest.FixtureRequest) -> None:
    for package in ("apsw", "pydantic", "fastapi", "uvicorn", "prometheus_client", "mcp"):
        pytest.importorskip(package, reason="the extra [serve] is not installed")
    found = describe(load(MODULES, MORE))
    if request.config.getoption("--update-api"):
        BASELINE.write_text(found, "utf-8")
    changed = differences(BASELINE.read_text("utf-8"), found)
    assert not changed, "\n".join([HOW_TO_UPDATE, *changed])


def test_a_method_of_the_index_that_loses_its_parameters_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = describe(load(("hyrecall",), {}))
    monkeypatch.setattr(hyrecall.Index, "count", lambda _: 0)
    assert differences(before, describe(load(("hyrecall",), {}))) == [
        "-[hyrecall] class Index: method count(*, text=None, scope=None, filter=None)",
        "+[hyrecall] class Index: method count()",
    ]


def differences(before: str, after: str) -> list[str]:
    """Lines that only one of two descriptions has, each behind - or +, with their headings."""
    lines = difflib.unified_diff(named(before), named(after), n=0, lineterm="")
    return [line for line in lines if not line.startswith(("---", "+++", "@@"))]


def named(text: str) -> list[str]:
    """Lines with the module and the class that they are of."""
    lines, module, owner = [], "", ""
    for line in text.splitlines():
        if line.startswith("["):
            module = line
        elif line.startswith("    "):
            lines.append(f"{module} {owner}: {line.strip()}")
        elif line:
            owner = line
            lines.append(f"{module} {line}")
    return lines


# ---- planted changes, each of which must be found ----


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


@dataclass(frozen=True)
class Value:
    size: int
    parts: list[int] = field(default_factory=list)
    _cache: int = 0

    @property
    def total(self) -> int:
        return sum(self.parts)


class Shape:
    """A shape.

    Parameters
    ----------
    name : str
    """

    def __init__(self, name: str, colour: Colour = Colour.RED) -> None:
        self.name, self.colour = name, colour

    def __len__(self) -> int:
        return 0

    @classmethod
    def open(cls, path: str, /, *, wait: float = 0.0) -> "Shape":
        return cls(path)

    def draw(self, *points: int, width: int = 1, **style: str) -> None:
        pass

    async def load(self) -> None:
        pass

    @property
    def area(self) -> int:
        return 0

    def _hidden(self) -> None:
        pass


def area(shape: Shape, scale: float = 1.0) -> float:
    return shape.area * scale


class ShapeError(ValueError):
    pass


for _kind in (Colour, Value, Shape, ShapeError):  # as if the package defined them
    _kind.__module__ = "hyrecall.shapes"

NAMES: dict[str, Any] = {
    "Colour": Colour, "Shape": Shape, "ShapeError": ShapeError, "Value": Value, "area": area,
    "LIMIT": 3,
}  # fmt: skip
DESCRIPTION = """\
[shapes]
class Colour(Enum)
    member BLUE
    member RED
value LIMIT: int
class Shape
    async method load()
    classmethod open(path, /, *, wait=0.0)
    method draw(*points, width=1, **style)
    new Shape(name, colour=RED)
    property area
    special __len__
class ShapeError(ValueError)
class Value
    field parts
    field size
    new Value(size, parts=<new>)
    property total
function area(shape, scale=1.0)
"""


def test_a_description_names_everything_public_and_nothing_private() -> None:
    assert describe({"shapes": NAMES}) == DESCRIPTION


def test_a_class_of_two_modules_is_described_once() -> None:
    text = describe({"shapes": {"Value": Value}, "more": {"Value": Value}})
    assert text.endswith("[more]\nclass Value: as shapes.Value\n")


def remade(kind: type, **members: Any) -> type:
    """Return a class with other members; a member given as None is left out."""
    kept = {
        name: value for name, value in vars(kind).items() if name not in ("__dict__", "__weakref__")
    }
    changed = {name: value for name, value in {**kept, **members}.items() if value is not None}
    return type(kind.__name__, kind.__bases__, changed)


def _draw_wider(self: Shape, *points: int, width: int = 2, **style: str) -> None: ...


def _draw_renamed(self: Shape, *points: int, line: int = 1, **style: str) -> None: ...


def _load_now(self: Shape) -> None: ...


def _plain_area(self: Shape) -> int: ...


def _area_by_name(shape: Shape, *, scale: float = 1.0) -> float: ...


@dataclass(frozen=True)
class WiderValue(Value):
    depth: int = 0


WiderValue.__module__, WiderValue.__name__ = "hyrecall.shapes", "Value"
CHANGES: dict[str, tuple[Callable[[], dict[str, Any]], list[str]]] = {
    "a name is gone": (
        lambda: {"area": None},
        ["-[shapes] function area(shape, scale=1.0)"],
    ),
    "a parameter is keyword-only": (
        lambda: {"area": _area_by_name},
        ["-[shapes] function area(shape, scale=1.0)",
         "+[shapes] function area(shape, *, scale=1.0)"],
    ),
    "a default of a method is another": (
        lambda: {"Shape": remade(Shape, draw=_draw_wider)},
        ["-[shapes] class Shape: method draw(*points, width=1, **style)",
         "+[shapes] class Shape: method draw(*points, width=2, **style)"],
    ),
    "a parameter of a method has another name": (
        lambda: {"Shape": remade(Shape, draw=_draw_renamed)},
        ["-[shapes] class Shape: method draw(*points, width=1, **style)",
         "+[shapes] class Shape: method draw(*points, line=1, **style)"],
    ),
    "a method is no longer awaited": (
        lambda: {"Shape": remade(Shape, load=_load_now)},
        ["-[shapes] class Shape: async method load()", "+[shapes] class Shape: method load()"],
    ),
    "a property is a method": (
        lambda: {"Shape": remade(Shape, area=_plain_area)},
        ["+[shapes] class Shape: method area()", "-[shapes] class Shape: property area"],
    ),
    "a special method is gone": (
        lambda: {"Shape": remade(Shape, __len__=None)},
        ["-[shapes] class Shape: special __len__"],
    ),
    "a class has one field more": (
        lambda: {"Value": WiderValue},
        ["+[shapes] class Value: field depth",
         "-[shapes] class Value: new Value(size, parts=<new>)",
         "+[shapes] class Value: new Value(size, parts=<new>, depth=0)"],
    ),
    "an error is no ValueError": (
        lambda: {"ShapeError": type("ShapeError", (Exception,), {})},
        ["-[shapes] class ShapeError(ValueError)", "+[shapes] class ShapeError(Exception)"],
    ),
    "an enumeration lacks a member": (
        lambda: {"Colour": enum.Enum("Colour", ["RED"], module="hyrecall.shapes")},
        ["-[shapes] class Colour(Enum): member BLUE"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
def test_a_planted_change_of_the_api_is_found(name: str) -> None:
    make, wanted = CHANGES[name]
    changed = {key: thing for key, thing in {**NAMES, **make()}.items() if thing is not None}
    assert sorted(differences(DESCRIPTION, describe({"shapes": changed}))) == sorted(wanted)


def test_where_code_lies_does_not_show() -> None:
    moved = remade(Shape, __module__="hyrecall.elsewhere.shapes")
    inherited = remade(Shape, draw=None)
    mixin = type("Draws", (), {"draw": Shape.draw, "__module__": "hyrecall.elsewhere"})
    mixed = type("Shape", (mixin, *inherited.__bases__), dict(vars(remade(Shape, draw=None))))
    for kind in (moved, mixed):
        assert describe({"shapes": {**NAMES, "Shape": kind}}) == DESCRIPTION
