"""The forward pass as blocks: the weights that the model computed, its tables, and what clicks open."""

from xml.etree import ElementTree

import numpy as np
import pytest
import torch

import attnviz
from attnviz.base.text import EXAMPLE
from attnviz.models.minilm import minilm
from attnviz.page.blocks import ModelPath, More, Table, every_block
from attnviz.page.nodes import page_nodes
from attnviz.pages.catalogue import page_blocks
from attnviz.pages.transformer.blocks import transformer
from attnviz.pages.transformer.layer_tables import head_contributions, symbol_blocks
from attnviz.pages.transformer.state import TransformerState
from attnviz.sources.model import TRANSLATED
from attnviz.translator import load
from attnviz.translator.sentence_lengths import shipped_accuracies

LATER = np.triu(np.ones((3, 3), dtype=bool), 1)


def panels(link: str) -> dict[str, np.ndarray]:
    return {panel.title: panel.weights for panel in attnviz.view(f"transformer?{link}").panels}


def ran(step: int, record: int) -> np.ndarray:
    """The weights of all heads of one attention, as the translator computed them when it wrote a word."""
    return load().translate(TRANSLATED).steps[step].records[record].weights[0].numpy()


def test_the_whole_model_has_the_mean_of_the_heads_of_each_attention() -> None:
    shown = panels("")
    assert list(shown) == [
        "Encoder layer 0: self-attention, mean of heads",
        "Encoder layer 1: self-attention, mean of heads",
        "Decoder layer 0: self-attention, mean of heads",
        "Decoder layer 0: encoder–decoder attention, mean of heads",
        "Decoder layer 1: self-attention, mean of heads",
        "Decoder layer 1: encoder–decoder attention, mean of heads",
    ]
    for record, weights in enumerate(shown.values()):
        np.testing.assert_allclose(np.nan_to_num(weights), ran(2, record).mean(0), atol=1e-5)
    assert (np.isnan(shown["Decoder layer 0: self-attention, mean of heads"]) == LATER).all()


def test_a_layer_has_all_its_heads_and_a_part_the_selected_one() -> None:
    layer = panels("open=decoder+1&word=3&path-head=2")
    assert len(layer) == 8
    np.testing.assert_allclose(layer["Decoder layer 1: encoder–decoder attention, head 3"], ran(2, 5)[3], atol=1e-5)
    for part in ("weights", "scores", "queries", "heads", "concat", "sum"):
        (one,) = panels(f"open=decoder+1+cross+{part}&word=3&path-head=2").values()
        np.testing.assert_allclose(one, ran(2, 5)[2], atol=1e-5)
    image = ElementTree.fromstring(attnviz.view("transformer?open=decoder+1").to_svg())
    assert len(image.findall("{http://www.w3.org/2000/svg}svg")) == 8


def test_what_a_decoder_has_written_is_read() -> None:
    (one,) = panels("text=I+sleep+.&written=il+dort&word=3&open=decoder+0+attention+weights&path-head=1").values()
    forced = load().teacher_forced(("I", "sleep", "."), ("il", "dort")).steps[2].records[2].weights[0, 1]
    np.testing.assert_allclose(np.nan_to_num(one), forced.numpy(), atol=1e-5)


def test_an_encoder_has_its_own_weights() -> None:
    example = minilm().encode(EXAMPLE)
    with torch.no_grad():
        output = minilm().model(**example.batch, output_attentions=True)
    model = "transformer-model=sentence-transformers/all-MiniLM-L6-v2"
    (one,) = panels(f"{model}&open=encoder+5+attention+weights&path-head=11").values()
    np.testing.assert_allclose(one, output.attentions[5][0, 11].numpy(), atol=1e-5)
    assert len(panels(f"{model}&open=encoder+5")) == 12


def test_a_text_that_the_model_does_not_take_says_why() -> None:
    with pytest.raises(ValueError, match="not “zebra”"):
        attnviz.view("transformer?text=the+zebra+sleeps+.")
    with pytest.raises(ValueError, match="At most 24 tokens"):
        attnviz.view("transformer?transformer-model=sentence-transformers/all-MiniLM-L6-v2&text=" + "cat+" * 40)


def test_clicks_open_layers_parts_heads_and_another_draw() -> None:
    state = TransformerState()
    (drawn,) = [block for block in every_block(transformer(state)) if isinstance(block, ModelPath)]
    for link, expected in [
        (drawn.opens("decoder 1"), {"open": "decoder 1"}),
        (drawn.opens("decoder 1 cross weights"), {"open": "decoder 1 cross weights"}),
        (drawn.heads(3), {"head": 3}),
        (drawn.again, {"draw": 1}),
    ]:
        assert link is not None
        assert TransformerState.read(link) == state.updated(**expected)
    assert drawn.opens("decoder 9") is None
    assert drawn.heads(4) is None


def test_the_nodes_of_a_page_have_what_each_part_of_the_picture_opens() -> None:
    (node,) = [node for node in page_nodes(page_blocks("transformer", ()), "key").nodes if node["kind"] == "path"]
    assert set(node["parts"]) >= {"", "memory", "output", "encoder 0", "decoder 1"}
    assert node["parts"]["decoder 1"] == "open=decoder+1"
    assert 'class="attnviz-path"' in node["html"]
    layer = page_nodes(page_blocks("transformer", (("open", "decoder 1"),)), "key")
    (node,) = [node for node in layer.nodes if node["kind"] == "path"]
    assert {"decoder 0", "output", "decoder 1 cross weights"} <= set(node["parts"])
    assert node["heads"] == ["open=decoder+1" + f"&path-head={head}" * (head > 0) for head in range(4)]


@pytest.mark.parametrize("model", ["attnviz/translator-en-fr", "sentence-transformers/all-MiniLM-L6-v2"])
def test_the_heads_of_a_layer_add_up_to_its_output(model: str) -> None:
    state = TransformerState(model=model)
    for sublayer in state.record.sublayers:
        parts = {each.part: each for each in sublayer.activations}
        if "heads" in parts:
            output = parts["output"]
            added = head_contributions(parts["heads"], output).sum(0) + output.bias
            torch.testing.assert_close(added, output.values, rtol=1e-4, atol=1e-4)


def test_symbols_have_the_sizes_of_what_ran() -> None:
    state = TransformerState(open="decoder 1 cross weights")
    own, cross = (block for block in symbol_blocks(state) if isinstance(block, Table))
    sizes = {str(row[0]): row[2] for row in cross.rows}
    assert (sizes["Queries"], sizes["Keys"], sizes["Weights"]) == ("4 × 3 × 16", "4 × 7 × 16", "4 × 3 × 7")
    assert {str(row[0]): row[2] for row in own.rows}["Weights"] == "4 × 3 × 3"


def test_one_vector_is_beside_attention() -> None:
    text = "the small black cat does not look at the birds ."
    quantities = attnviz.view(f"transformer?text={text.replace(' ', '+')}").quantities
    attention, fixed = ({one.length: one.sentences for one in line} for line in shipped_accuracies().values())
    assert quantities["sentences right with attention"] == attention[len(text.split())]
    assert quantities["sentences right with one vector"] == fixed[len(text.split())]
    right = len(load().translate(text).reference.french)  # type: ignore[union-attr]
    assert quantities["words right with attention"] == right


def test_only_the_translator_has_one_vector_beside_attention() -> None:
    titles = [block.title for block in transformer(TransformerState()).__next__().blocks if isinstance(block, More)]  # type: ignore[attr-defined]
    assert titles == ["Before attention", "In symbols", "Several heads"]
