"""Turns of models that are loaded or read an input: in the app as heavy work."""

import pytest

from attnviz.base import turns as base_turns
from attnviz.models import model_cache
from attnviz.models.minilm import minilm
from attnviz.page.blocks import available
from attnviz.pages.catalogue import BLOCKS
from attnviz.sources import Model
from attnviz.ui import cache  # noqa: F401 - heavy work takes turns in the app
from attnviz.ui.server import scheduling
from tests.support.page_links import link_of, tab_links
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


@pytest.mark.parametrize("page", BLOCKS)
@pytest.mark.parametrize("kind", ["llama", "t5", "vit"])
def test_every_pass_of_a_model_takes_its_turn(kind: str, page: str, copied, monkeypatch) -> None:
    monkeypatch.setattr(base_turns, "HEAVY_WORK", 0)  # also for a tiny model
    folder, (state_of, blocks_of, _words), taken = copied(kind), BLOCKS[page], []
    model, link = model_cache.model(str(folder)).model, link_of(page, "the red car", 1, folder)
    with model.register_forward_pre_hook(lambda *_: taken.append(getattr(scheduling._run, "is_heavy", False))):
        for tab in tab_links(page, link):
            state = state_of.read([*link, *tab])
            if not state.problem:  # such as that of a page of texts
                assert [*available(blocks_of(state))]
    assert all(taken)
