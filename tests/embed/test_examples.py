"""The examples in the docstrings of the embedders run."""

import doctest
import importlib
import pkgutil

import pytest

import hyrecall.embed
from hyrecall.embed import StaticEmbedder

MODULES = [module.name for module in pkgutil.iter_modules(hyrecall.embed.__path__)]


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_a_module_run(name: str) -> None:
    if name == "static" and not StaticEmbedder.available():
        pytest.skip("needs the extra [local]")
    module = importlib.import_module(f"hyrecall.embed.{name}")
    assert doctest.testmod(module, extraglobs={"np": __import__("numpy")}).failed == 0
