"""What a link to Path shows: the weights that the model computed."""

from xml.etree import ElementTree

import numpy as np
import pytest
import torch

import attnviz
from attnviz.masks import Full
from attnviz.models.interventions import Intervention
from attnviz.models.minilm import minilm
from attnviz.page.page_view import PageView
from attnviz.text import EXAMPLE
from attnviz.translator import EXAMPLES, load
from attnviz.translator.encoder_decoder import USE_LAYERS

LATER = np.triu(np.ones((3, 3), dtype=bool), 1)


def panels(link: str) -> dict[str, np.ndarray]:
    view = attnviz.view(f"path?{link}")
    assert not view.quantities
    assert view.largest == 1
    return {panel.title: panel.weights for panel in view.panels}


def ran(step: int, record: int, *interventions: Intervention) -> np.ndarray:
    """The weights of all heads of one attention, as the translator computed them when it wrote a word."""
    return load().translate(EXAMPLES[0], interventions).steps[step].records[record].weights[0].numpy()


def test_the_whole_model_has_the_mean_of_the_heads_of_each_attention() -> None:
    shown = panels("")
    assert list(shown) == [
        "Encoder layer 0: self-attention, mean of heads", "Encoder layer 1: self-attention, mean of heads",
        "Decoder layer 0: self-attention, mean of heads", "Decoder layer 0: encoder–decoder attention, mean of heads",
        "Decoder layer 1: self-attention, mean of heads", "Decoder layer 1: encoder–decoder attention, mean of heads",
    ]  # fmt: skip
    for record, weights in enumerate(shown.values()):
        expected = ran(2, record).mean(0)
        np.testing.assert_allclose(np.nan_to_num(weights), expected, atol=1e-5)
    assert (np.isnan(shown["Decoder layer 0: self-attention, mean of heads"]) == LATER).all()


def test_a_layer_has_all_its_heads_and_a_part_the_selected_one() -> None:
    layer = panels("open=decoder+1&word=3&path-head=2")
    assert len(layer) == 8
    np.testing.assert_allclose(layer["Decoder layer 1: encoder–decoder attention, head 3"], ran(2, 5)[3], atol=1e-5)
    for part in ("weights", "scores", "queries", "heads", "concat", "sum"):
        (one,) = panels(f"open=decoder+1+cross+{part}&word=3&path-head=2").values()
        np.testing.assert_allclose(one, ran(2, 5)[2], atol=1e-5)


def test_another_mask_and_another_word_are_computed_by_the_model() -> None:
    changed = Intervention(Full(), layers=USE_LAYERS["decoder"])
    (one,) = panels("path-mask=Full&open=decoder+0+attention+weights&word=5&path-head=1").values()
    np.testing.assert_allclose(one, ran(4, 2, changed)[1], atol=1e-5)


def test_an_encoder_has_its_own_weights() -> None:
    example = minilm().encode(EXAMPLE)
    with torch.no_grad():
        output = minilm().model(**example.batch, output_attentions=True)
    (one,) = panels("path-model=MiniLM&open=encoder+5+attention+weights&path-head=11").values()
    np.testing.assert_allclose(one, output.attentions[5][0, 11].numpy(), atol=1e-5)
    assert len(panels("path-model=MiniLM&open=encoder+5")) == 12


@pytest.mark.parametrize("name", ["memory", "output", "encoder embedding", "encoder 0 network hidden", "output logits"])
def test_what_has_no_attention_says_so(name: str) -> None:
    with pytest.raises(ValueError, match=f"“{name}” has no weights of attention. Open a layer"):
        attnviz.view(f"path?open={name.replace(' ', '+')}")


def test_a_sentence_that_the_model_does_not_take_says_why() -> None:
    with pytest.raises(ValueError, match="zebra"):
        attnviz.view("path?english=the+zebra+sleeps+.")
    with pytest.raises(ValueError, match="At most 24 tokens"):
        attnviz.view("path?path-model=MiniLM&text=" + "cat+" * 40)


def test_a_picture_has_all_maps() -> None:
    view = attnviz.view("path?open=decoder+1")
    assert isinstance(view, PageView)
    assert len(ElementTree.fromstring(view.to_svg()).findall("{http://www.w3.org/2000/svg}svg")) == 8
