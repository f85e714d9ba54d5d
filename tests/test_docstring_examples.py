"""The examples in docstrings give what they say."""

import doctest
import importlib
import pkgutil

import pytest

import attnviz

MODULES = [
    module.name
    for module in pkgutil.walk_packages(attnviz.__path__, "attnviz.")
    if not module.name.startswith("attnviz.ui")  # pages' parts, which run in Streamlit alone
]


@pytest.mark.parametrize("name", MODULES)
def test_examples_run(name: str) -> None:
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    assert not doctest.testmod(importlib.import_module(name), optionflags=flags).failed


@pytest.mark.parametrize("name", ["torch", "pandas"])
def test_importing_a_module_takes_nothing_from_the_others(name: str) -> None:
    """Some modules are programs, too, which do without what would be slow to import."""
    for module in MODULES:
        importlib.import_module(module)
    importlib.import_module(name)
