"""The source of the Models page: what of it is heavy work."""

import pytest

from attnviz.models import model_cache
from attnviz.ui import scheduling
from attnviz.ui.models.model_source import ModelSource
from tests.support.tiny_models import TEXT

pytestmark = pytest.mark.usefixtures("isolated")


def test_a_model_that_was_dropped_from_memory_is_loaded_again_as_heavy_work(saved, monkeypatch) -> None:
    free, source, load = [], ModelSource(str(saved / "bert"), TEXT), model_cache.ModelFolder.load

    def spy(folder):
        free.append(scheduling._heavy._free)
        return load(folder)

    monkeypatch.setattr(model_cache.ModelFolder, "load", spy)
    for _ in range(2):
        model_cache.shared_cache.cache_clear()
        source.run()
        source.run()
    assert free == [scheduling._heavy.slots - 1] * 2
    assert scheduling._heavy.is_unused
