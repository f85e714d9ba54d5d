"""The tab Together of the Models page without a browser.

What is drawn is compared with what the model itself says of its attention, run eagerly.
"""

import functools

import numpy as np
import pytest
import torch
import transformers as hf
from hypothesis import given
from hypothesis import strategies as st
from streamlit.testing.v1 import AppTest
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from attnviz.analysis import work
from attnviz.models import model_cache
from attnviz.models.hub import MINILM
from attnviz.models.minilm import minilm
from attnviz.state.aggregation_methods import METHODS, head_choices, layer_head_names
from attnviz.text import EXAMPLE
from tests.support.app import contents, healthy, linked, ok, open_page

TABS = ("Together",)
WIDE = EXAMPLE.replace("tired", "wide")


def page(tab: str, **link: object) -> AppTest:
    return open_page("models", inspect=tab, **link)


@functools.cache
def ran(text: str = EXAMPLE) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """The weights of all layers and heads, and the lengths of their values, as the model itself computes them."""
    kept = minilm()
    batch = kept.encode(text).batch
    with kept.lock, torch.no_grad():
        out = kept.model(**batch, output_attentions=True, output_hidden_states=True)
        values = [
            block.attention.self.value(states)[0].unflatten(-1, (12, -1)).norm(dim=-1).T
            for block, states in zip(kept.model.encoder.layer, out.hidden_states, strict=False)
        ]
    tokens = kept.tokenizer.convert_ids_to_tokens(batch["input_ids"][0])
    return torch.stack(out.attentions)[:, 0].double().numpy(), torch.stack(values).double().numpy(), tokens


def cells(chart) -> np.ndarray:
    small = chart.spec.downsampled  # the colors of such a map show another number
    return np.array(small.maximum if small else chart.figure.data[0].z, dtype=float)


def near(shown, expected) -> None:
    np.testing.assert_allclose(shown, expected, atol=2e-6)


@pytest.mark.parametrize(("head", "special"), [("Head 1", "Hidden, rows rescaled"), ("Maximum of heads", "Hidden")])
@pytest.mark.parametrize("part", TABS)
def test_every_tab_opens_for_one_head_and_for_several(part: str, head: str, special: str) -> None:
    ok(page(part, head=head, special_tokens=special))


@pytest.mark.parametrize("part", TABS)
def test_a_link_with_nonsense_opens(part: str) -> None:
    names = ["together", "heads-together", "tokens-together"]
    healthy(page(part, **dict.fromkeys(names, "<b>")))


def fewer(weights: np.ndarray, most: int = 5) -> list[list[float]]:
    """The largest weight in each of a number of disjoint cells along each side."""

    def ends(count: int) -> list[slice]:
        size = min(most, count)
        return [slice(i * count // size, (i + 1) * count // size) for i in range(size)]

    height, width = weights.shape
    return [[weights[rows, keys].max() for keys in ends(width)] for rows in ends(height)]


# Together


def test_all_heads_and_chosen_ones_together(drawn) -> None:
    weights = ran()[0]
    app = ok(page("Together", together="Maximum"))
    near(cells(drawn["together-map"]), weights.max((0, 1)))
    assert "Maximum of all 72 heads" in contents(app)
    app.multiselect(key="heads-together").set_value(["encoder 3", "encoder 1, head 4"]).run()
    some = np.concatenate([weights[3], weights[1, 4:5]])
    near(cells(drawn["together-map"]), some.max(0))
    assert "Maximum of encoder 1, head 4 and encoder 3" in contents(ok(app))
    # A frame around the head, and one around all of the layer.
    one, layer = drawn["together-heads"].figure.layout.shapes
    assert layer.y1 - layer.y0 == one.y1 - one.y0
    assert layer.x1 - layer.x0 > 12 * (one.x1 - one.x0)
    app.selectbox(key="special-tokens").select("Hidden").run()
    near(cells(drawn["together-map"]), some.max(0)[1:-1, 1:-1])


@pytest.mark.parametrize("layer", [0, 5])
def test_rollout_goes_through_all_layers_or_up_to_the_chosen_one(drawn, layer: int) -> None:
    weights, _, tokens = ran()
    rolled = np.eye(len(tokens))
    for one in weights[: layer + 1].mean(1):
        rolled = (one / 2 + np.eye(len(tokens)) / 2) @ rolled
    link = {} if layer == 5 else {"rollout_to": f"encoder {layer}"}  # whatever layer the sidebar has
    app = ok(page("Together", together="Rollout", layer="encoder 1", **link))
    near(cells(drawn["together-map"]), rolled)
    assert (f"Rollout, encoder 0 to encoder {layer}" if layer else "Rollout, encoder 0") in contents(app)
    assert f"after encoder {layer} comes from" in drawn["together-map"].spec.sentences.allowed
    app.selectbox(key="special-tokens").select("Hidden, rows rescaled").run()
    inner = rolled[1:-1, 1:-1]
    near(cells(drawn["together-map"]), inner / inner.sum(-1, keepdims=True))


def test_the_last_layer_of_a_rollout_is_chosen_and_kept_in_the_link() -> None:
    app = ok(page("Together", together="Rollout"))
    app.select_slider(key="rollout-to").set_value("encoder 2").run()
    assert "Rollout, encoder 0 to encoder 2" in contents(ok(app))
    app = ok(page("Together", together="Rollout", rollout_to="layer 7"))  # of another model
    assert "Rollout, encoder 0 to encoder 5" in contents(app)
    assert linked(app, "rollout-to") == []


def test_several_tokens_are_summed_over_their_keys(drawn) -> None:
    total = ran()[0].mean((0, 1))[[10, 13]].sum(0)
    app = ok(page("Together", tokens_together=["10 · it", "13 · tired"]))
    shown = drawn["together-sum"].figure.data
    near(np.nan_to_num(shown[0].y), total)
    assert np.isnan(shown[1].y).all()
    assert "it + tired: " in contents(app)
    marked = [label for label in drawn["together-map"].spec.query_labels if "●" in label]
    assert marked == ["<b>it ●</b>", "<b>tired ●</b>"]
    # The tokens of another text: those that are there are still chosen, with the numbers of the new one.
    app.text_area(key="text").set_value(WIDE).run()
    assert "it: " in contents(ok(app))
    near(np.nan_to_num(drawn["together-sum"].figure.data[0].y), ran(WIDE)[0].mean((0, 1))[10])


@pytest.mark.parametrize("name", [*METHODS])
def test_a_long_text_is_taken_together_in_fewer_cells_and_summed_exactly(drawn, monkeypatch, name: str) -> None:
    asked = {"together": name, "layer": "encoder 1", "head": "Head 3", "special_tokens": "Hidden"}
    ok(page("Together", **asked))
    whole = cells(drawn["together-map"])
    monkeypatch.setattr("attnviz.state.viewport.MOST_CELLS", 16 * 16 - 1)
    monkeypatch.setattr("attnviz.views.selected_maps.CELLS", 5)
    app = ok(page("Together", **asked, tokens_together=["10 · it", "13 · tired"]))
    near(cells(drawn["together-map"]), fewer(whole))
    near(np.nan_to_num(drawn["together-sum"].figure.data[0].y), whole[[9, 12]].sum(0))
    assert "it (10) + tired (13): " in contents(app)
    assert not any("●" in label for label in drawn["together-map"].spec.query_labels)
    ok(page("Together", **asked, part_of_queries=["9", "13"], part_of_keys=["2", "4"], tokens_together="10 · it"))
    near(cells(drawn["together-map"]), whole[8:13, 1:4])
    labels = drawn["together-map"].spec.query_labels
    assert labels == ("because", "<b>it ●</b>", "was", "too", "tired")


def test_of_a_long_text_one_layer_is_taken_together(monkeypatch, drawn) -> None:
    monkeypatch.setattr(work, "MOST_WORK", 12 * 16 * 16)
    app = ok(page("Together", layer="encoder 2"))
    near(cells(drawn["together-map"]), ran()[0][2].mean(0))
    assert "For a text of this length, these are the heads of encoder 2" in contents(app)
    app = page("Together", layer="encoder 2", together="Rollout")
    assert not app.exception
    assert "To take 72 heads together would take 18,432 steps; at most 3,072 are done" in contents(app)


@given(st.sets(st.tuples(st.integers(0, 5), st.integers(0, 11))), st.booleans())
def test_names_of_heads_say_which_they_are(heads: set[tuple[int, int]], whole: bool) -> None:
    layers = minilm().layers(EXAMPLE)
    heads |= {(2, head) for head in range(12)} if whole else set()
    named = head_choices(layers, range(6))
    names = layer_head_names(layers, heads)
    assert {head for name in names for head in named[name]} == heads
    assert ("encoder 2" in names) == all((2, head) in heads for head in range(12))


# A model with an encoder and a decoder


@pytest.fixture
def bart(saved: str, monkeypatch) -> str:
    """The folder of a tiny model that writes, in the menus: AppTest cannot choose what is in none."""
    monkeypatch.setattr(model_cache, "available_models", lambda *_: [MINILM, saved])
    return saved


@pytest.fixture(scope="module")
def saved(tmp_path_factory) -> str:
    words = ["<pad>", "</s>", "<unk>", "the", "animal", "street", "was", "tired", "too"]
    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, "<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    names = {"pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}
    config = hf.BartConfig(
        vocab_size=len(words), d_model=16, max_position_embeddings=32, encoder_layers=2, decoder_layers=2,
        encoder_attention_heads=2, decoder_attention_heads=2, encoder_ffn_dim=16, decoder_ffn_dim=16,
        pad_token_id=0, bos_token_id=1, eos_token_id=1, decoder_start_token_id=1, forced_eos_token_id=None,
    )  # fmt: skip
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("models") / "bart"
    hf.BartForConditionalGeneration(config).save_pretrained(folder)
    hf.PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names).save_pretrained(folder)
    return str(folder)


def test_only_heads_of_one_kind_are_taken_together(drawn, bart: str) -> None:
    link = {"model": bart, "text": "the animal was too tired", "second": "the street"}
    app = ok(page("Together", **link))
    layers = {name for name in app.multiselect(key="heads-together").options if "head" not in name}
    assert len(layers) == 2
    assert all(name.startswith("encoder") for name in layers)
    cross = next(name for name in app.selectbox(key="layer").options if "cross" in name)
    app.selectbox(key="layer").select(cross).run()
    assert "of all 4 heads" in contents(ok(app))
    assert cells(drawn["together-map"]).shape[0] != cells(drawn["together-map"]).shape[1]
    app.segmented_control(key="together").set_value("Rollout").run()
    assert "Rollout needs layers in which the same" in contents(healthy(app))
