"""An adapter whose framework is not installed says how to install it."""

import importlib
import sys
import tomllib
from pathlib import Path

import pytest

import hyrecall as hr
from frameworks import FRAMEWORKS, module_of
from seams import needs_extra

PYTHON = Path(hr.__file__).parents[1]
PROJECT = Path(__file__).parents[2] / "pyproject.toml"
PLACES = {name: PYTHON / f"{module_of(name).replace('.', '/')}.py" for name in FRAMEWORKS}
PRESENT = [name for name, place in PLACES.items() if place.exists()]


def without(monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    """Make the import of a package, and of what it holds, fail as if it were not installed."""
    for name in [one for one in sys.modules if f"{one}.".startswith(f"{package}.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)


@pytest.mark.parametrize("name", PRESENT)
def test_an_adapter_without_its_framework_names_the_extra(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    without(monkeypatch, FRAMEWORKS[name].partition(".")[0])
    monkeypatch.delitem(sys.modules, module_of(name), raising=False)
    extra = name.replace("_", "-")
    with pytest.raises(hr.MissingExtraError, match=rf"pip install 'hyrecall\[{extra}\]'"):
        importlib.import_module(module_of(name))
    assert extra in tomllib.loads(PROJECT.read_text())["project"]["optional-dependencies"]


def test_the_error_names_the_package_and_other_faults_stay_as_they_are() -> None:
    with pytest.raises(hr.MissingExtraError) as raised, needs_extra("some"):
        importlib.import_module("no_such_package")
    told = "adapters: expected the extra [some] (pip install 'hyrecall[some]'), got no package "
    assert str(raised.value) == f"{told}no_such_package"
    with pytest.raises(ModuleNotFoundError, match="no_such_module"), needs_extra("some"):
        importlib.import_module("hyrecall.no_such_module")
