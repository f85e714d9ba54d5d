"""The model that pages share: what one of them has captured, the others show."""

import pytest

import attnviz
from attnviz.models.minilm import minilm
from attnviz.page.result_cache import ResultCache, result_cache, set_result_cache

TEXT = "one+text+on+every+page"
LINKS = [  # of all pages but Path, which needs what every module of a model returns
    f"explore?text={TEXT}",
    f"explore?text={TEXT}&layer=encoder+5&mask=Causal",
    f"masks?text={TEXT}&look=For+engineers&part=Empty+rows",  # two masks are read by the model, too
    f"scores?text={TEXT}",
    f"explore?text={TEXT}&layer=encoder+5&head=Rollout+up+to+this+layer",
    f"explore?model=https://huggingface.co/sentence-transformers/all-MiniLM-L6-v2&text={TEXT}",
    f"side_by_side?text={TEXT}&right-text={TEXT}",
]


@pytest.fixture
def forwards():
    """The forward passes of the default model, which has read nothing yet, and no page has results."""
    model, passes, before = minilm(), [], result_cache()
    model.forget_examples()
    set_result_cache(ResultCache())
    hook = model.model.base_model.register_forward_pre_hook(lambda module, given: passes.append(1))
    yield passes
    hook.remove()
    set_result_cache(before)


@pytest.mark.parametrize("links", [LINKS, LINKS[::-1]], ids=["Explore first", "Explore last"])
def test_a_text_is_captured_once_for_all_pages(links: list[str], forwards) -> None:
    for link in links:
        attnviz.view(link)
    assert len(forwards) == 1
