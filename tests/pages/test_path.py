"""The Path page without a browser: what is drawn at each depth, and what a person or a link can choose."""

import json
from functools import partial
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
import torch
from streamlit.testing.v1 import AppTest

from attnviz.masks import Full
from attnviz.models import MINILM, SMOLLM2, TRANSLATOR
from attnviz.models.interventions import Intervention
from attnviz.path.sampling import NextWord
from attnviz.path.translator_activations import translator_activations
from attnviz.sources.written import PROMPT
from attnviz.state.path import PathState
from attnviz.translator import EXAMPLES, load
from attnviz.translator.encoder_decoder import USE_LAYERS, USES
from attnviz.ui.path import depths
from tests.support.app import contents, healthy, linked, open_page

page = partial(open_page, "path")
MOST_BYTES = 500_000  # of one picture; compressed on its way


def picture(app: AppTest) -> dict[str, Any]:
    """The picture that is sent to the browser."""
    (component,) = healthy(app).get("bidi_component")
    return json.loads(component.proto.json)


def test_the_whole_model_opens_with_the_next_word() -> None:
    drawn = picture(page())
    assert drawn["depth"] == "model"
    assert [band["title"] for band in drawn["bands"]] == ["Encoder", "Decoder"]
    assert drawn["bands"][0]["tokens"] == EXAMPLES[0].split()
    assert drawn["bands"][1]["tokens"] == ["<start>", "la", "petite"]
    translation = load().translate(EXAMPLES[0])
    word, probability = translation.steps[2].likeliest(1)[0]
    assert drawn["next"]["words"][0]["word"] == word
    assert drawn["next"]["words"][0]["probability"] == pytest.approx(probability, abs=1e-5)
    cross = next(stage for stage in drawn["stages"] if stage["name"] == "decoder 1 cross")
    record = translation.steps[2].records[-1]
    assert torch.tensor(cross["weights"]) == pytest.approx(record.weights[0].mean(0).numpy(), abs=0.001)


@pytest.mark.parametrize("model", [TRANSLATOR, MINILM, SMOLLM2])
def test_every_layer_and_every_part_can_be_drawn(model: str) -> None:
    state = PathState(model=model, **({"english": EXAMPLES[1], "word": 11} if model == TRANSLATOR else {}), head=1)
    record = state.record
    sizes = {"": json.dumps(depths.path_picture(state), allow_nan=False)}
    for name in (*record.layers, *record):
        if name in record.layers or model == TRANSLATOR or " 5" in name or "embedding" in name:
            drawn = depths.path_picture(state.updated(open=name))
            sizes[name] = json.dumps(drawn, allow_nan=False)
            assert [crumb["open"] for crumb in drawn["trail"]][-1] == name
    assert max(map(len, sizes.values())) < MOST_BYTES


def test_a_layer_and_a_part_open_by_their_links() -> None:
    layer = picture(page(open="decoder 0", path_head="2"))
    assert layer["depth"] == "layer"
    assert [lane["title"] for lane in layer["lanes"]] == ["Self-attention", "Encoder–decoder attention", "MLP"]
    assert layer["head"] == 2
    part = picture(page(open="encoder 1 attention weights", path_head="3"))
    expected = load().translate(EXAMPLES[0]).steps[0].records[1].weights[0, 3]
    assert torch.tensor(part["result"]["values"]) == pytest.approx(expected.numpy(), abs=1e-5)
    assert part["sources"][0]["name"] == "encoder 1 attention scores"


@pytest.mark.parametrize("stack", ["encoder", "decoder"])
@pytest.mark.parametrize("part", ["queries", "weights", "heads"])
def test_a_part_of_a_head_links_to_its_numbers_and_its_formula(stack: str, part: str) -> None:
    drawn = picture(page(open=f"{stack} 1 attention {part}", path_head="3", english="I sleep ."))
    numbers, formula = (urlsplit(link["address"]) for link in drawn["links"])
    assert (numbers.path, formula.path) == ("./steps", "./transformer")
    steps = open_page("steps", **dict(parse_qsl(numbers.query)))
    (component,) = healthy(steps).get("bidi_component")
    shown = {one["name"]: one for one in json.loads(component.proto.json)["matrices"]}
    name = {"queries": "Q0", "weights": "weights0", "heads": "output0"}[part]
    values = drawn["result"]["values"]  # of the words so far; Steps has the whole translation
    for ours, theirs in zip(values, shown[name]["exact"], strict=False):
        assert ours == pytest.approx([float(one) for one in theirs[: len(ours)]], abs=1e-4)
    symbols = healthy(open_page("transformer", **dict(parse_qsl(formula.query))))
    assert symbols.segmented_control(key="symbols-of").value == USES[stack]
    assert symbols.selectbox(key=f"{stack}-head").value == "Layer 1, head 3"


def test_parts_of_all_heads_and_of_a_changed_mask_have_no_links() -> None:
    assert picture(page(open="decoder 0 attention concat"))["links"] == []
    assert picture(page(open="decoder 0 attention weights", path_mask="Full"))["links"] == []
    assert picture(page(open="encoder 0 attention weights", path_model="MiniLM"))["links"] == []


def test_what_is_not_there_opens_the_whole_model() -> None:
    assert picture(page(open="encoder 7 attention weights", path_head="99"))["depth"] == "model"
    app = page(open="decoder 1", path_head="3")
    app.selectbox(key="path-model").set_value(MINILM).run()
    assert picture(app)["depth"] == "model"


@pytest.mark.parametrize("name", ["MiniLM", MINILM])
def test_minilm_is_drawn_without_a_next_word(name: str) -> None:
    app = page(path_model=name, text="The cat sleeps.")
    drawn = picture(app)
    assert linked(app.run(), "path-model") == [MINILM]
    assert drawn["next"] is None
    assert drawn["bands"][0]["tokens"] == ["[CLS]", "The", "cat", "sleeps", ".", "[SEP]"]
    assert len(drawn["frames"]) == 7
    assert picture(page(path_model="MiniLM", open="encoder 3 network hidden"))["weight"]["values"] is None


def test_a_language_model_is_drawn_with_its_next_token() -> None:
    drawn = picture(page(path_model=SMOLLM2, text="The capital of France is"))
    assert drawn["bands"] == [
        {"stack": "decoder", "title": "Decoder", "tokens": ["The", "␣capital", "␣of", "␣France", "␣is"]}
    ]
    assert drawn["next"]["words"][0]["word"] == "␣Paris"
    assert drawn["next"]["words"][0]["probability"] == pytest.approx(0.7725, abs=1e-3)
    assert "49,152 tokens of the vocabulary" in drawn["next"]["caption"]
    assert [frame["title"] for frame in drawn["frames"]][:4] == ["Words", "Layer 0", "1", "2"]
    assert [frame["title"] for frame in drawn["frames"]][-2:] == ["28", "Layer 29"]
    assert [stage["kind"] for stage in drawn["stages"]].count("slim") == 28
    assert page(path_model=SMOLLM2).text_input(key="text").value.endswith("The capital of Italy is")


def test_a_layer_of_a_language_model_has_its_gate_and_its_rotation() -> None:
    layer = picture(page(path_model=SMOLLM2, text="The cat", open="decoder 17", path_head="5"))
    assert layer["neighbors"] == ["decoder 16", "decoder 18"]
    attention, network = ([panel["title"] for panel in lane["panels"]] for lane in layer["lanes"])
    assert attention[:7] == ["Input", "Norm", "Queries", "Rotated Q", "Keys", "Rotated K", "Scores"]
    assert network == ["Input", "Norm", "Gate", "Up-projection", "Hidden units", "Output", "Add"]
    part = picture(page(path_model=SMOLLM2, text="The cat", open="decoder 17 attention keys", path_head="5"))
    assert "Here 3 heads in a row share them." in part["caption"]
    record = PathState(model=SMOLLM2, text="The cat").record
    keys = record["decoder 17 attention keys"].values
    assert keys.shape == (3, 2, 64)
    assert torch.tensor(part["result"]["values"]) == pytest.approx(keys[1].numpy(), rel=1e-4, abs=1e-5)


def test_the_text_that_nobody_has_typed_follows_the_model() -> None:
    app = page(path_model=MINILM)
    app.selectbox(key="path-model").set_value(SMOLLM2).run()
    assert healthy(app).text_input(key="text").value == PROMPT
    app.text_input(key="text").set_value("One cat.").run()
    app.selectbox(key="path-model").set_value(MINILM).run()
    assert healthy(app).text_input(key="text").value == "One cat."


def test_a_model_of_other_parts_says_so_and_what_to_do(saved) -> None:
    app = healthy(page(path_model=saved / "gemma2", text="fox"))
    assert not app.get("bidi_component")
    assert "gemma2 cannot be shown here: at “model.layers.0.self_attn.o_proj”" in contents(app)
    assert "Look at its attention on Explore." in contents(app)
    assert "has an encoder and a decoder" in contents(healthy(page(path_model=saved / "bart", text="fox")))
    assert "sees images, and reads no text" in contents(healthy(page(path_model=saved / "vit", text="fox")))
    assert "“GPT”" in contents(healthy(page(path_model="GPT")))
    assert picture(page(path_model=saved / "llama", text="fox"))["bands"][0]["title"] == "Decoder"


def test_the_last_text_stays_when_the_next_is_too_long_for_a_picture() -> None:
    app = page(path_model=SMOLLM2, text="The cat")
    app.text_input(key="text").set_value("cat " * 40).run()
    assert "At most 24 tokens" in contents(healthy(app))
    assert picture(app)["bands"][0]["tokens"] == ["The", "␣cat"]


def test_the_temperature_and_the_random_number_decide_what_is_drawn() -> None:
    greedy = picture(page(temperature="0.0"))["next"]
    assert greedy["drawn"] == greedy["greedy"] == "voiture"
    assert greedy["words"][0]["probability"] == 1
    assert len({picture(page(temperature="3.0", draw=seed))["next"]["drawn"] for seed in range(4)}) > 1
    logits = translator_activations(load(), tuple(EXAMPLES[0].split()), ("la", "petite"))["output logits"]
    drawn = NextWord(logits.columns, logits.values[0], 3.0, 2).drawn
    assert picture(page(temperature="3.0", draw=2))["next"]["drawn"] == logits.columns[drawn]


def test_another_mask_is_computed_by_the_model() -> None:
    drawn = picture(page(path_mask="Full", open="decoder 1 attention weights"))
    interventions = (Intervention(Full(), layers=USE_LAYERS["decoder"]),)
    record = load().translate(EXAMPLES[0], interventions).steps[2].records[4]
    assert torch.tensor(drawn["result"]["values"]) == pytest.approx(record.weights[0, 0].numpy(), abs=1e-5)
    assert drawn["result"]["values"][0][2] > 0  # the future is seen
    assert "changed mask" in json.dumps(picture(page(path_mask="Full", open="decoder 0")), ensure_ascii=False)


def test_an_unknown_word_is_named_and_the_last_picture_stays() -> None:
    app = healthy(page())
    app.text_input(key="english").set_value("the small zebra sleeps .").run()
    assert "zebra" in contents(app)
    assert picture(app)["bands"][0]["tokens"] == EXAMPLES[0].split()
    long = page(path_model="MiniLM", text="cat " * 40)
    assert "At most 24 tokens" in contents(long)
    assert picture(long)["bands"][0]["tokens"][1:3] == ["The", "animal"]


def test_a_shorter_translation_opens_at_its_third_word() -> None:
    app = page(word="8", english=EXAMPLES[1])
    app.text_input(key="english").set_value("I sleep .").run()
    drawn = picture(app)
    assert drawn["bands"][1]["tokens"] == ["<start>", "je", "dors"]
    assert drawn["next"]["greedy"] == "."
    assert "word" not in app.query_params
    app.text_input(key="english").set_value(EXAMPLES[1]).run()
    assert len(picture(app)["bands"][1]["tokens"]) == 8  # the last choice in this sentence


@pytest.mark.parametrize(
    "link",
    [
        {"open": "<script>", "path_head": "-1", "word": "99", "temperature": "nan", "draw": "-5"},
        {"path_model": "", "temperature": "1e9", "draw": "1e99", "word": "two"},
        {"path_mask": "Sliding window", "path-mask.w": "0"},
        {"english": "."},
        {"path_model": "MiniLM", "text": ""},
    ],
)
def test_a_link_that_asks_for_what_cannot_be_still_gives_a_picture(link: dict[str, str]) -> None:
    assert picture(page(**link))["depth"] == "model"


def test_another_page_does_not_take_over_the_choice_of_the_model() -> None:
    app = page()
    app.selectbox(key="path-model").set_value(SMOLLM2).run()
    app.switch_page("../../pages/explore.py").run()
    assert healthy(app).selectbox(key="model").value == MINILM
