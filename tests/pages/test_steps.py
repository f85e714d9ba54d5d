"""The Steps page without a browser: what a link says is shown, and bad input is said and loses nothing."""

import json
import re
from functools import partial
from html import unescape
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import pytest
from streamlit.testing.v1 import AppTest

from attnviz.biases import ALiBi
from attnviz.formatting import number
from attnviz.masks import Causal
from attnviz.state.steps import SECOND
from attnviz.steps.all_steps import Steps, compute_steps
from attnviz.steps.scaling import WIDTHS, measure_scaling
from attnviz.steps.sentence_example import SentenceExample
from attnviz.steps.translator_example import TranslatorExample
from attnviz.translator.encoder_decoder import USES
from tests.support.app import contents, errors, healthy, open_page

ROOT = Path(__file__).parents[2]


page = partial(open_page, "steps")


def shown(app: AppTest) -> dict:
    """What the browser is given."""
    assert not app.exception
    [one] = app.get("bidi_component")
    return json.loads(one.proto.json)


def shows(app: AppTest, expected: Steps, head: int = 0) -> bool:
    texts = {one["name"]: one["texts"] for one in shown(app)["matrices"]}
    wanted = {
        one.name: [[f"{value:.2f}".replace("-inf", "−∞").replace("-0.00", "0.00").replace("-", "−") for value in row]
                   for row in one.values.tolist()]
        for one in expected.for_head(head)
    }  # fmt: skip
    return texts == wanted


def test_begins_with_the_example_and_its_first_stage() -> None:
    app = page()
    assert shows(app, compute_steps(SentenceExample()))
    data = shown(app)
    assert data["stage"] == "vectors"
    assert [stage["title"] for stage in data["stages"]] == [
        "Vectors", "Similarity", "Scaling", "Exponential", "Softmax", "Weighted sum"
    ]  # fmt: skip
    assert not errors(app)


def test_a_link_holds_the_whole_state() -> None:
    app = page(
        sentence="to be or not", attention="Cross", second="sein oder nicht", d_k="3", heads="2", head_shown="Head 1",
        masked="Causal", biases="ALiBi", query="2 · or", stage="softmax", edits="Q1.2.0_0.5~X.0.1_-2.0",
    )  # fmt: skip
    example = SentenceExample("to be or not", "sein oder nicht", 3, 2, Causal(), (ALiBi(),))
    assert shows(app, compute_steps(example, {"Q1": {(2, 0): 0.5}, "X": {(0, 1): -2.0}}), head=1)
    data = shown(app)
    assert (data["stage"], data["row"], data["edits"]) == ("softmax", 2, True)
    assert (data["named"], data["concat"]) == ("head₁ =", "Concat(head₀, head₁)")
    assert "keys and values come from the second sentence" in data["stages"][0]["caption"]


def test_what_is_lit_and_said_is_that_of_the_library() -> None:
    app = page(heads="2", masked="Causal")
    found = compute_steps(SentenceExample(heads=2, mask=Causal()))
    for one in shown(app)["matrices"]:
        matrix = found.matrices[one["name"]]
        rows, columns = matrix.values.shape
        assert one["formulas"] == [[matrix.formula(i, j) for j in range(columns)] for i in range(rows)]
        for i in range(rows):
            for j in range(columns):
                lit = [
                    [p.matrix, p.rows.start, p.rows.stop, p.columns.start, p.columns.stop]
                    for p in matrix.operands(i, j)
                ]
                assert one["operands"][i][j] == lit


def test_each_stage_says_what_is_true_of_its_numbers() -> None:
    app = page(masked="Causal", query="2 · sat")
    found = compute_steps(SentenceExample(mask=Causal())).matrices
    data = shown(app)
    captions = {stage["name"]: stage["caption"] for stage in data["stages"]}
    best = int(found["weights0"].values[2].argmax())
    assert f"Most comes from “{found['weights0'].columns[best]}”" in captions["output"]
    assert "√4" in captions["scaling"]
    assert float(found["weights0"].values[2].sum()) == pytest.approx(1)
    for stage in data["stages"]:
        name, row, column = stage["cell"]
        assert row == 2
        assert found[name].stage == stage["name"]
        assert " = " in found[name].formula(row, column)


def test_too_many_words_are_refused_and_the_last_good_stays() -> None:
    app = page(sentence="to be or not", edits="X.0.0_1.0")
    good = compute_steps(SentenceExample("to be or not"), {"X": {(0, 0): 1.0}})
    for text, why in (("w " * 9, "has 9 words"), ("one", "has 1 word"), ("", "There is no text yet")):
        app.text_input(key="sentence").set_value(text).run()
        assert why in errors(app)
        assert shows(app, good)
    app.text_input(key="sentence").set_value("not to be").run()
    assert not errors(app)
    assert shows(app, compute_steps(SentenceExample("not to be"), {"X": {(0, 0): 1.0}}))


def test_an_empty_second_sentence_is_refused() -> None:
    app = page(attention="Cross")
    app.text_input(key="second").set_value(" ").run()
    assert "There is no text yet" in errors(app)
    assert shows(app, compute_steps(SentenceExample(second=SECOND)))


def test_fewer_heads_than_the_one_shown_begin_with_the_first() -> None:
    app = page(heads="3", head_shown="Head 2")
    app.number_input(key="heads").set_value(2).run()
    assert shows(app, compute_steps(SentenceExample(heads=2)))
    app.number_input(key="heads").set_value(1).run()
    assert shows(app, compute_steps(SentenceExample()))


@pytest.mark.parametrize(
    ("edits", "why"),
    [
        ("X.0.0_1.0~Y.0.0_1.0~K0.0.9_1.0", "2 numbers written by hand had a place that does not exist here"),
        ("nonsense", "“nonsense” is not a number of a matrix"),
    ],
)
def test_edits_of_a_link_that_cannot_be_are_said(edits: str, why: str) -> None:
    app = page(sentence="to be or not", edits=edits)
    assert why in errors(app)
    assert shown(app)["matrices"]


def test_a_link_with_nonsense_begins_as_if_it_were_not_there() -> None:
    app = page(stage="nowhere", d_k="1e999", heads="-1", masked="?", query="9 · x")
    assert shows(app, compute_steps(SentenceExample()))
    assert shown(app)["stage"] == "vectors"


def test_a_stage_that_is_no_longer_there_becomes_the_first() -> None:
    app = page(masked="Causal", stage="mask")
    assert shown(app)["stage"] == "mask"
    app.selectbox(key="masked").select("Full").run()
    assert shown(app)["stage"] == "vectors"


@pytest.mark.parametrize("width", [2, 64, 512])
def test_why_dot_products_are_divided_is_said_in_numbers(width: int) -> None:
    app = page(part="Why scale", d=str(width))
    assert not app.exception
    assert len(app.get("bidi_component")) == 3
    found, at = measure_scaling(), WIDTHS.index(width)
    [sentence] = [one.body for one in app.get("html") if "class='attnviz-why'" in one.body]
    for measured in (found.variance, found.greatest, found.gradient):
        for value in measured[:, at]:
            assert f"<b>{number(float(value))}</b>" in sentence
    assert f"(in theory {width})" in sentence


def test_the_weights_are_predicted_from_the_scores_before_they_are_shown() -> None:
    app = page(part="Predict")
    assert not app.exception
    told = " ".join(one.body for one in app.get("html"))
    assert "2.87" in told
    assert "The most important key is" not in told
    app.pills[0].set_value(["the"]).run()
    app.button(key="steps-reveal").click().run()
    told = " ".join(one.body for one in app.get("html"))
    assert "The most important key is the, with 0.55: as you predicted." in told


def test_a_link_opens_a_head_of_the_translator() -> None:
    english = "I like my new school ."
    link = {
        "english": english,
        "similarity": "General",
        "translator-use": USES["cross"],
        "translator-layer": "1",
        "translator-head": "2",
    }
    app = page(attention="Translator", **link, stage="softmax", edits="Q0.1.15_0.5~W.2.3_-1.0", query="1 · aime")
    expected = compute_steps(
        TranslatorExample(english, "general", "cross", 1, 2), {"Q0": {(1, 15): 0.5}, "W": {(2, 3): -1.0}}
    )
    assert shows(app, expected)
    assert shown(app)["stage"] == "softmax"
    assert not errors(app)


def test_what_the_translator_cannot_read_or_show_is_refused() -> None:
    app = page(attention="Translator")
    good = compute_steps(TranslatorExample("the cat sleeps ."))
    app.text_input(key="english").set_value("the cat sleeps .").run()
    assert shows(app, good)
    app.text_input(key="english").set_value("the dgo sleeps .").run()
    assert "but not “dgo”" in errors(app)
    assert shows(app, good)
    app.text_input(key="english").set_value("the cat sleeps .").run()
    app.selectbox(key="similarity").select("Additive").run()
    assert "Choose another similarity, or a self-attention" in errors(app)
    assert shows(app, good)
    app.selectbox(key="translator-use").select("Encoder self-attention").run()
    assert not errors(app)
    assert shows(app, compute_steps(TranslatorExample("the cat sleeps .", "additive", "encoder")))


def test_a_link_to_what_cannot_be_shown_begins_with_an_example_of_its_kind() -> None:
    app = page(attention="Translator", similarity="Additive")
    assert "too many to be written out" in errors(app)
    assert shows(app, compute_steps(TranslatorExample()))


def test_also_the_weights_of_the_translator_are_predicted() -> None:
    app = page(attention="Translator", part="Predict", **{"translator-use": USES["encoder"]})
    assert not app.exception
    found = compute_steps(TranslatorExample(use="encoder")).matrices
    told = " ".join(one.body for one in app.get("html"))
    for score in found["scaled0"].values[1].tolist():
        assert f"<td>{score:.2f}</td>".replace("-", "−") in told
    best = found["weights0"].columns[int(found["weights0"].values[1].argmax())]
    app.pills[0].set_value([best]).run()
    app.button(key="steps-reveal").click().run()
    assert f"The most important key is {best}, with" in " ".join(one.body for one in app.get("html"))


def test_from_a_sentence_to_the_translator_and_back() -> None:
    app = page()
    app.selectbox(key="attention").select("Translator").run()
    assert shows(app, compute_steps(TranslatorExample()))
    app.selectbox(key="attention").select("Self").run()
    assert shows(app, compute_steps(SentenceExample()))


def test_a_head_of_the_translator_says_where_all_heads_of_its_layer_are() -> None:
    assert "Several heads" not in contents(page())
    head = {"translator_use": USES["encoder"], "english": "I sleep .", "similarity": "Dot"}
    shown = contents(page(attention="Translator", **head))
    link = urlsplit(unescape(next(one for one in re.findall("href='(.*?)'", shown) if "unfolded" in one)))
    several = healthy(open_page("transformer", **dict(parse_qsl(link.query))))
    assert several.text_input(key="text").value == "I sleep ."
    assert "Encoder layer 0, Self-attention: mean of all rows" in contents(several)
