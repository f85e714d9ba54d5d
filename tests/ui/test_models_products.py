"""The sentences about one score, on the Models page: what is said is what the layer computes."""

import re
from html import unescape

import numpy as np
import pytest
import torch

from attnviz import Mechanism
from attnviz.biases import ALiBi, Distances, SoftCap, SSMax
from attnviz.formatting import number
from attnviz.layer import Kind, Layer, LayerId
from attnviz.masks import Causal
from attnviz.opaque_parts import CellTable, ModelBias
from attnviz.scores import ScaledDot
from attnviz.ui.models.products import bias_steps, score_text
from attnviz.views.mechanism_sentences import bias_phrase

TERMS = np.array([0.5, -2.0, 1.0, 0.25])
DISTANCES = Distances(torch.linspace(-2, 3, 4 * 11).reshape(4, 11), 5)
TABLE = ModelBias(CellTable(torch.linspace(-1, 1, 4 * 5 * 7).reshape(1, 4, 5, 7), 5, 7))


def read(html: str) -> str:
    return unescape(re.sub("<.*?>", "", html.replace("<br>", " ").replace("</p>", " ")))


@pytest.mark.parametrize(
    "biases", [(), (SoftCap(0.5),), (SoftCap(2.0), DISTANCES), (DISTANCES, TABLE), (ALiBi(), SSMax())], ids=str
)
def test_what_biases_make_of_a_score_is_what_the_layer_computes(random_inputs, biases) -> None:
    inputs = random_inputs(heads=4, kv_heads=2, queries=5, keys=7, d_k=16)
    layer = Layer(LayerId(index=0), Kind.CAUSAL, inputs, Mechanism(biases=biases, mask=Causal()))
    whole = layer.mechanism(inputs)
    for head, query, key in ((0, 4, 1), (3, 3, 3)):
        steps = bias_steps(layer, head, query, key, float(whole.raw[head, query, key]))
        assert [phrase for phrase, _ in steps] == [bias_phrase(bias) for bias in biases]
        last = steps[-1][1] if steps else whole.raw[head, query, key]
        assert last == pytest.approx(float(whole.scores[head, query, key]), abs=1e-5)


@pytest.mark.parametrize(
    ("bias", "words"),
    [
        (SoftCap(50.0), "squeezed between −50 and 50 (soft cap)"),
        (DISTANCES, "plus the model’s number for the distance from query to key"),
        (TABLE, "plus the model’s number for the pair of query and key"),
        (ALiBi(), "changed by ALiBi"),
    ],
)
def test_biases_are_said_bias_phrase(bias, words: str) -> None:
    assert bias_phrase(bias) == words


def test_the_line_says_what_is_divided_and_the_weight_comes_of_the_score() -> None:
    text = read(score_text(TERMS, 32**-0.5, ("it", "animal"), [], 0.68))
    assert text.startswith("Query it and key animal q · k / √32 = −0.25 This is the sum of 4 products, a bar each: ")
    assert "a number of the query × one of the key / √32. Dimension 1 counts most, −2.00." in text
    assert text.strip().endswith("A score of −0.25 becomes a weight of 0.68.")
    assert "q · k = −0.25" in read(score_text(TERMS, 1.0, ("it", "animal"), [], 0.68))
    assert "q · k × 0.30 = −0.25" in read(score_text(TERMS, 0.3, ("it", "animal"), [], 0.68))


def test_of_a_score_with_biases_the_last_number_becomes_the_weight() -> None:
    steps = [(bias_phrase(SoftCap(2.0)), -0.2), (bias_phrase(DISTANCES), 1.3)]
    text = read(score_text(TERMS, 1.0, ("a", "b"), steps, 0.5))
    assert "−0.25, squeezed between −2 and 2 (soft cap), makes −0.20. −0.20, plus the model’s number for" in text
    assert "from query to key, makes 1.30. A score of 1.30 becomes a weight of 0.50." in text


def test_a_masked_key_and_a_rescaled_row() -> None:
    assert read(score_text(TERMS, 1.0, ("a", "b"), [], np.nan)).strip().endswith("The mask hides this key.")
    assert "a weight of 0.50, rescaled with its row." in read(
        score_text(TERMS, 1.0, ("a", "b"), [], 0.5, rescaled=True)
    )


def test_names_of_patches_are_no_products() -> None:
    text = read(score_text(TERMS, 1.0, ("3·3", "4·4"), [], 0.5))
    assert text.startswith("Query 3·3 and key 4·4 q · k = −0.25")
    assert "<b>x" not in score_text(TERMS, 1.0, ("<b>x", "&"), [], 0.5)


def test_scaled_dot_has_the_scale_that_is_score_text(random_inputs) -> None:
    inputs = random_inputs(d_k=16)
    [raw] = Mechanism(ScaledDot(0.3))(inputs, heads=0, rows=1).raw[0, :, :1].tolist()
    terms = (inputs.query[0, 1] * inputs.key[0, 0]).double().numpy() * 0.3
    assert f"× 0.30 = {number(raw[0])}" in read(score_text(terms, 0.3, ("a", "b"), [], 0.5))
