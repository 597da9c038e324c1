"""A face tells the truth: it lacks what it says, offers all else, and names a real difference."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from conformance.conftest import INDEXES_BY_NAME, STORES, has_device
from conformance.differences import DIFFERENCES
from conformance.faces import Face
from conformance.index_faces import Index
from conformance.matrix import ORDER
from conformance.store_face import Store

FACES: dict[str, type[Face]] = {f"store by {name}": one for name, one in STORES.items()}
FACES |= {f"index by {name}": one for name, one in INDEXES_BY_NAME.items()}
PLUMBING = {"as_user", "setup", "reopen", "fill", "offers", "open"}


def verbs(face: type[Face]) -> set[str]:
    kind = Store if issubclass(face, Store) else Index
    return {name for name in vars(kind) if not name.startswith("_")} - PLUMBING - {"user", "folder"}


@pytest.mark.parametrize("name", FACES)
def test_what_a_face_lacks_the_product_does_not_offer_there(name: str) -> None:
    face = FACES[name]
    offered = [asked for asked in face.lacks if face.offers(*asked.split("."))]
    assert offered == []


@pytest.mark.parametrize("name", FACES)
def test_what_a_face_does_not_lack_it_offers(name: str) -> None:
    face = FACES[name]
    for verb in verbs(face):
        assert (verb in face.lacks) != face.offers(verb), verb


@pytest.mark.parametrize("name", FACES)
def test_reasons_are_words(name: str) -> None:
    known = verbs(FACES[name])
    for asked, why in FACES[name].lacks.items():
        assert asked.split(".")[0] in known
        assert len(why) > 8


def test_the_matrix_knows_every_face() -> None:
    assert sorted(ORDER) == sorted({one.name for one in FACES.values()})


def test_scenarios_run_on_a_device_too(request: pytest.FixtureRequest) -> None:
    if not has_device(request):
        pytest.skip("HYRECALL_EMULATED names no folder, and there is no --device=cuda:0")


def test_differences_are_of_scenarios_and_faces() -> None:
    scenarios = {
        node.name
        for path in Path(__file__).parent.glob("test_*.py")
        for node in ast.parse(path.read_text("utf-8")).body
        if isinstance(node, ast.FunctionDef)
    }
    for scenario, face in DIFFERENCES:
        assert scenario in scenarios
        assert face in STORES or face in INDEXES_BY_NAME
