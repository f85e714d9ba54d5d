"""Turns of models that are loaded or read an input: in the app as heavy work."""

import pytest

from attnviz.models import model_cache
from attnviz.models.minilm import minilm
from attnviz.page.blocks import available
from attnviz.pages.catalogue import BLOCKS
from attnviz.sources import Model
from attnviz.ui import cache  # noqa: F401 - heavy work takes turns in the app
from attnviz.ui.server import scheduling
from tests.support.tiny_models import TEXT

pytestmark = pytest.mark.usefixtures("isolated")


@pytest.fixture
def free(monkeypatch) -> list[int]:
    """The free heavy slots, at each load of a model."""
    slots, load = [], model_cache.ModelFolder.load

    def spy(folder):
        slots.append(scheduling._heavy._free)
        return load(folder)

    monkeypatch.setattr(model_cache.ModelFolder, "load", spy)
    yield slots
    assert slots == [scheduling._heavy.slots - 1] * len(slots)
    assert scheduling._heavy.is_unused


def test_a_model_dropped_from_memory_is_loaded_again_as_heavy_work(saved, free) -> None:
    source = Model(TEXT, str(saved / "bert"))
    for _ in range(2):
        model_cache.shared_cache.cache_clear()
        source.layers()
        source.layers()
    assert len(free) == 2


@pytest.mark.parametrize("ask", [lambda source: source.model(), lambda source: source.work, Model.layers])
def test_the_default_model_is_loaded_as_heavy_work(ask, free, monkeypatch) -> None:
    monkeypatch.setattr(minilm, "_loaded", {})
    ask(Model("a cat"))
    ask(Model("a dog"))
    assert len(free) == 1


@pytest.mark.parametrize("page", ["why", "effects"])
def test_every_pass_of_a_vision_model_takes_its_turn(page: str, copied) -> None:
    folder, page_of_blocks, turns = copied("vit"), BLOCKS[page], []
    model = model_cache.model(str(folder)).model
    with model.register_forward_pre_hook(lambda *_: turns.append(scheduling._run.is_heavy)):
        state = page_of_blocks.state.read([("why-model", str(folder))])
        assert not state.problem
        assert [*available(page_of_blocks.blocks(state))]
    assert turns
    assert all(turns)
