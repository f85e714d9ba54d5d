"""Fixtures and settings of all tests, loaded by conftest.py where tests run."""

import gc
import os
from functools import cache

import beartype  # noqa: F401 (before attnviz: what its checked modules import first is compiled anew)
import entmax  # noqa: F401
import jaxtyping
import pytest
import torch
import transformers.modeling_utils  # noqa: F401
from hypothesis import settings
from streamlit.components.v2 import manifest_scanner
from streamlit.testing.v1 import local_script_runner

from attnviz import Inputs

# The same examples in every run, so that a test that passed does not fail on another day.
settings.register_profile("attnviz", deadline=None, derandomize=True, max_examples=50)
settings.load_profile("attnviz")

# Every run of an AppTest would look for components in the metadata of all installed packages, which takes longer than
# most pages do; a server does so once.
manifest_scanner.scan_component_manifests = cache(manifest_scanner.scan_component_manifests)

# It would also compile all pages anew, which a server does once.
local_script_runner.ScriptCache = cache(local_script_runner.ScriptCache)

# Small tensors gain nothing from threads, and threads that wait for each other on a busy machine lose much: here, and
# in the processes that tests start.
torch.set_num_threads(1)
os.environ["OMP_NUM_THREADS"] = "1"

# Modules and tests stay until the end: to look through them for garbage took a fifth of the time of their collection,
# and a twentieth of that of tests of pages.
gc.disable()


def pytest_collection_finish():
    gc.freeze()
    gc.enable()


@pytest.fixture(autouse=True)
def seeded():
    torch.default_generator.manual_seed(0)  # torch.manual_seed would format a stack for each kind of device


PAGES = {"pages", "ui"}  # folders of tests


def pytest_runtest_setup(item):
    """Shapes are checked in the tests of what makes them; pages call it a thousand times, as it is installed."""
    jaxtyping.config.update("jaxtyping_disable", item.path.parent.name in PAGES)


@pytest.fixture
def as_installed(monkeypatch):
    """Without the shape checks that pytest turns on: what the library itself says to who gives it wrong shapes."""
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)


@pytest.fixture(scope="session")
def random_inputs():
    """A function that makes Inputs of random numbers."""

    def make(*, heads=2, kv_heads=None, queries=5, keys=7, d_k=8, d_v=6, seed=0, **more):
        def random(*shape):
            return torch.randn(shape, generator=generator)

        generator, kv_heads = torch.Generator().manual_seed(seed), kv_heads or heads
        return Inputs(
            query=random(heads, queries, d_k),
            key=random(kv_heads, keys, d_k),
            value=random(kv_heads, keys, d_v),
            query_tokens=tuple(map(str, range(queries))),
            key_tokens=tuple(map(str, range(keys))),
            **more,
        )

    return make


@pytest.fixture
def drawn(monkeypatch):
    """The charts that a page draws, by their keys."""
    from attnviz.ui import blocks, chart

    charts, show = {}, chart.chart

    def kept(picture, key, **how):
        charts[key] = picture
        return show(picture, key, **how)

    monkeypatch.setattr(blocks, "chart", kept)
    return charts
