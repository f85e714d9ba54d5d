"""What tests of models share; their folders are in tests/support/tiny_models.py."""

import pytest

from attnviz.models.loading import inspect_folder
from tests.support.tiny_models import MODELS


@pytest.fixture(autouse=True)
def fresh(isolated):
    pass


@pytest.fixture(scope="session")
def loaded(saved):
    return {name: inspect_folder(saved / name).load() for name in MODELS}
