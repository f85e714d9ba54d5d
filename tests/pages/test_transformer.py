"""Transformer without a browser: what is drawn at each depth, and what a person or a link can choose."""

import json
from functools import partial
from html import unescape
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
import torch
from streamlit.testing.v1 import AppTest

from attnviz.models import MINILM, SMOLLM2, TRANSLATOR
from attnviz.models.translator import translator
from attnviz.pages.transformer.model_activations import model_activations
from attnviz.pages.transformer.path_picture import path_picture
from attnviz.pages.transformer.sampling import NextWord
from attnviz.pages.transformer.state import TransformerState
from attnviz.sources.model import TRANSLATED
from attnviz.sources.written import PROMPT
from attnviz.translator import EXAMPLES, load
from tests.support.app import contents, healthy, linked, open_page

page = partial(open_page, "transformer")
TOKENS = ["The", "small", "red", "car", "is", "beautiful", "."]  # of the example
MOST_BYTES = 500_000  # of one picture; compressed on its way


def picture(app: AppTest) -> dict[str, Any]:
    """The picture that is sent to the browser."""
    drawn = [json.loads(one.proto.json) for one in healthy(app).get("bidi_component") if one.proto.json]
    return next(one for one in drawn if "depth" in one)


def tab(name: str, **link: str) -> AppTest:
    return page(tab=name, **link)


def test_the_whole_model_opens_with_the_next_word() -> None:
    drawn = picture(page())
    assert drawn["depth"] == "model"
    assert [band["title"] for band in drawn["bands"]] == ["Encoder", "Decoder"]
    assert [band["tokens"] for band in drawn["bands"]] == [TOKENS, ["<start>", "la", "petite"]]
    step = load().translate(TRANSLATED).steps[2]
    assert drawn["next"]["words"][0]["word"] == step.word
    assert drawn["next"]["words"][0]["probability"] == pytest.approx(float(step.probabilities.max()), abs=1e-5)
    cross = next(stage for stage in drawn["stages"] if stage["name"] == "decoder 1 cross")
    assert torch.tensor(cross["weights"]) == pytest.approx(step.records[-1].weights[0].mean(0).numpy(), abs=0.001)


@pytest.mark.parametrize("model", [TRANSLATOR, MINILM, SMOLLM2])
def test_every_layer_and_every_part_can_be_drawn(model: str) -> None:
    state = TransformerState(model=model, **({"text": EXAMPLES[1], "word": 11} if model == TRANSLATOR else {}), head=1)
    record = state.record
    sizes = {"": json.dumps(path_picture(state), allow_nan=False)}
    for name in (*record.layers, *record):
        if name in record.layers or model == TRANSLATOR or " 5" in name or "embedding" in name:
            drawn = path_picture(state.updated(open=name))
            sizes[name] = json.dumps(drawn, allow_nan=False)
            assert [crumb["open"] for crumb in drawn["trail"]][-1] == name
    assert max(map(len, sizes.values())) < MOST_BYTES


def test_a_layer_and_a_part_open_by_their_links() -> None:
    layer = picture(page(open="decoder 0", path_head="2"))
    assert layer["depth"] == "layer"
    assert [lane["title"] for lane in layer["lanes"]] == ["Self-attention", "Encoder–decoder attention", "MLP"]
    assert layer["head"] == 2
    part = picture(page(open="encoder 1 attention weights", path_head="3"))
    expected = load().translate(TRANSLATED).steps[0].records[1].weights[0, 3]
    assert torch.tensor(part["result"]["values"]) == pytest.approx(expected.numpy(), abs=1e-5)
    assert part["sources"][0]["name"] == "encoder 1 attention scores"


@pytest.mark.parametrize("stack", ["encoder", "decoder"])
@pytest.mark.parametrize("part", ["queries", "weights", "heads"])
def test_a_part_of_a_head_links_to_its_numbers(stack: str, part: str) -> None:
    drawn = picture(page(open=f"{stack} 1 attention {part}", path_head="3", text="I sleep ."))
    (numbers,) = (urlsplit(link["address"]) for link in drawn["links"])
    assert numbers.path == "./steps"
    steps = open_page("steps", **dict(parse_qsl(numbers.query)))
    (component,) = healthy(steps).get("bidi_component")
    shown = {one["name"]: one for one in json.loads(component.proto.json)["matrices"]}
    name = {"queries": "Q0", "weights": "weights0", "heads": "output0"}[part]
    values = drawn["result"]["values"]  # of the words so far; Steps has the whole translation
    for ours, theirs in zip(values, shown[name]["exact"], strict=False):
        assert ours == pytest.approx([float(one) for one in theirs[: len(ours)]], abs=1e-4)


def test_parts_of_all_heads_and_of_other_models_have_no_links() -> None:
    assert picture(page(open="decoder 0 attention concat"))["links"] == []
    assert picture(page(open="decoder 0 attention weights", written="la grande"))["links"] == []
    assert picture(page(open="encoder 0 attention weights", transformer_model=MINILM))["links"] == []


def test_minilm_is_drawn_without_a_next_word() -> None:
    app = page(transformer_model=MINILM, text="The cat sleeps.")
    drawn = picture(app)
    assert linked(app.run(), "transformer-model") == [MINILM]
    assert drawn["next"] is None
    assert drawn["bands"][0]["tokens"] == ["[CLS]", "The", "cat", "sleeps", ".", "[SEP]"]
    assert len(drawn["frames"]) == 7
    assert picture(page(transformer_model=MINILM, open="encoder 3 network hidden"))["weight"]["values"] is None


def test_a_language_model_is_drawn_with_its_next_token() -> None:
    drawn = picture(page(transformer_model=SMOLLM2, text="The capital of France is"))
    assert drawn["bands"] == [
        {"stack": "decoder", "title": "Decoder", "tokens": ["The", "␣capital", "␣of", "␣France", "␣is"]}
    ]
    assert drawn["next"]["words"][0]["word"] == "␣Paris"
    assert drawn["next"]["words"][0]["probability"] == pytest.approx(0.7725, abs=1e-3)
    assert "49,152 tokens of the vocabulary" in drawn["next"]["caption"]
    assert [frame["title"] for frame in drawn["frames"]][:4] == ["Words", "Layer 0", "1", "2"]
    assert [frame["title"] for frame in drawn["frames"]][-2:] == ["28", "Layer 29"]
    assert [stage["kind"] for stage in drawn["stages"]].count("slim") == 28


def test_a_layer_of_a_language_model_has_its_gate_and_its_rotation() -> None:
    layer = picture(page(transformer_model=SMOLLM2, text="The cat", open="decoder 17", path_head="5"))
    assert layer["neighbors"] == ["decoder 16", "decoder 18"]
    attention, network = ([panel["title"] for panel in lane["panels"]] for lane in layer["lanes"])
    assert attention[:7] == ["Input", "Norm", "Queries", "Rotated Q", "Keys", "Rotated K", "Scores"]
    assert network == ["Input", "Norm", "Gate", "Up-projection", "Hidden units", "Output", "Add"]
    part = picture(page(transformer_model=SMOLLM2, text="The cat", open="decoder 17 attention keys", path_head="5"))
    assert "Here 3 heads in a row share them." in part["caption"]
    keys = TransformerState(model=SMOLLM2, text="The cat").record["decoder 17 attention keys"].values
    assert keys.shape == (3, 2, 64)
    assert torch.tensor(part["result"]["values"]) == pytest.approx(keys[1].numpy(), rel=1e-4, abs=1e-5)


def test_the_text_that_nobody_has_typed_follows_the_model() -> None:
    app = page(transformer_model=MINILM)
    app.selectbox(key="transformer-model").set_value(SMOLLM2).run()
    assert healthy(app).text_input(key="text").value == PROMPT
    app.text_input(key="text").set_value("One cat.").run()
    app.selectbox(key="transformer-model").set_value(MINILM).run()
    assert healthy(app).text_input(key="text").value == "One cat."


def test_a_model_of_other_parts_says_so_and_what_to_do(saved) -> None:
    app = healthy(page(transformer_model=saved / "gemma2", text="fox"))
    assert "gemma2 cannot be shown here: at “model.layers.0.self_attn.o_proj”" in contents(app)
    assert "Look at its attention on Explore." in contents(app)
    assert "sees images" in contents(healthy(page(transformer_model=saved / "vit", text="fox")))
    assert picture(page(transformer_model=saved / "llama", text="fox"))["bands"][0]["title"] == "Decoder"
    both = picture(page(transformer_model=saved / "bart", text="fox"))
    assert [band["title"] for band in both["bands"]] == ["Encoder", "Decoder"]


def test_the_last_text_stays_when_the_next_is_too_long_for_a_picture() -> None:
    app = page(transformer_model=SMOLLM2, text="The cat")
    app.text_input(key="text").set_value("cat " * 40).run()
    assert "At most 24 tokens" in contents(healthy(app))
    assert picture(app)["bands"][0]["tokens"] == ["The", "␣cat"]


def test_the_temperature_and_the_random_number_decide_what_is_drawn() -> None:
    greedy = picture(page(temperature="0.0"))["next"]
    assert greedy["drawn"] == greedy["greedy"] == "voiture"
    assert greedy["words"][0]["probability"] == 1
    assert len({picture(page(temperature="3.0", draw=seed))["next"]["drawn"] for seed in range(4)}) > 1
    logits = model_activations(translator(), TRANSLATED, count=3)["output logits"]
    drawn = NextWord(logits.columns, logits.values[0], 3.0, 2).drawn
    assert picture(page(temperature="3.0", draw=2))["next"]["drawn"] == logits.columns[drawn]


@pytest.mark.parametrize("name", ["Forward pass", "Three uses", "How attention forms"])
def test_an_unknown_word_is_named_and_another_model_offered(name: str) -> None:
    app = healthy(tab(name))
    app.text_input(key="text").set_value("I love the birdd").run()
    shown = contents(app)
    assert "knows 180 words, but not “love” and “birdd”" in shown
    assert "Did you mean “bird”?" in shown
    (link,) = [one.body for one in app.get("html") if "Read this text with SmolLM2" in one.body]
    address = urlsplit(unescape(link.split("href='")[1].split("'")[0]))
    opened = page(**{key.replace("-", "_"): value for key, value in parse_qsl(address.query)})
    assert picture(opened)["bands"][0]["tokens"] == ["I", "␣love", "␣the", "␣bir", "dd"]


def test_other_models_are_one_click_away() -> None:
    (links,) = [one.body for one in healthy(page()).get("html") if "attnviz-choices" in one.body]
    assert f"transformer-model={SMOLLM2.replace('/', '%2F')}" in links
    assert "SmolLM2" in links


def test_a_shorter_translation_opens_at_its_third_word() -> None:
    app = page(word="8", text=EXAMPLES[1])
    app.text_input(key="text").set_value("I sleep .").run()
    drawn = picture(app)
    assert drawn["bands"][1]["tokens"] == ["<start>", "je", "dors"]
    assert drawn["next"]["greedy"] == "."


@pytest.mark.parametrize(
    "link",
    [
        {"open": "<script>", "path_head": "-1", "word": "99", "temperature": "nan", "draw": "-5"},
        {"transformer_model": "", "temperature": "1e9", "draw": "1e99", "word": "two"},
        {"open": "encoder 7 attention weights", "path_head": "99", "unfolded": "<script>"},
        {"transformer_model": MINILM, "tab": "How attention forms", "step": "7", "encoder_head": "9.9"},
    ],
)
def test_a_link_that_asks_for_what_cannot_be_still_gives_a_picture(link: dict[str, str]) -> None:
    assert picture(page(**link))["depth"] == "model"


def test_what_is_named_in_the_link_is_unfolded() -> None:
    folded = {one.label: one.proto.expanded for one in healthy(page(unfolded="Before attention")).expander}
    assert folded["Before attention"]
    assert not folded["In symbols"]


@pytest.mark.parametrize(
    ("link", "charts"),
    [
        ({"tab": "Three uses"}, 6),
        ({"tab": "Three uses", "transformer_model": SMOLLM2, "text": "The cat"}, 2),
        ({"tab": "How attention forms", "step": "200"}, 9),
    ],
)
def test_each_use_has_a_map_and_the_heads(link: dict[str, str], charts: int) -> None:
    assert len(healthy(page(**link)).get("bidi_component")) == charts


def test_the_film_of_the_training_goes_from_step_to_step() -> None:
    app = healthy(tab("How attention forms", step="0"))
    assert "After 0 steps it writes" in contents(app)
    app.select_slider(key="step").set_value("2,400").run()
    assert "After 2,400 steps it writes" in contents(healthy(app))
    assert "la petite voiture rouge est belle." in contents(app)
