"""The Steps page without a browser: what a link says is shown, and bad input is said and loses nothing."""

import json
from functools import partial
from pathlib import Path

from streamlit.testing.v1 import AppTest

from attnviz.biases import ALiBi
from attnviz.masks import Causal
from attnviz.pages.steps.all_steps import Steps, compute_steps
from attnviz.pages.steps.sentence_example import SentenceExample
from attnviz.pages.steps.state import SECOND
from attnviz.pages.steps.translator_example import TranslatorExample
from attnviz.translator.encoder_decoder import USES
from tests.support.app import errors, open_page

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
        one.name: [
            [f"{value:.2f}".replace("-inf", "−∞").replace("-0.00", "0.00").replace("-", "−") for value in row]
            for row in one.values.tolist()
        ]
        for one in expected.for_head(head)
    }
    return texts == wanted


def test_begins_with_the_example_and_its_first_stage() -> None:
    app = page()
    assert shows(app, compute_steps(SentenceExample()))
    data = shown(app)
    assert data["stage"] == "queries"
    assert [stage["title"] for stage in data["stages"]] == [
        "Queries",
        "Keys",
        "Similarity",
        "Scaling",
        "Exponential",
        "Softmax",
        "Values",
        "Weighted sum",
    ]
    assert not errors(app)


def test_a_link_holds_the_whole_state() -> None:
    app = page(
        sentence="to be or not",
        attention="Cross",
        second="sein oder nicht",
        d_k="3",
        heads="2",
        head_shown="Head 1",
        masked="Causal",
        biases="ALiBi",
        query="2 · or",
        stage="softmax",
        edits="Q1.2.0_0.5~X.0.1_-2.0",
    )
    example = SentenceExample("to be or not", "sein oder nicht", 3, 2, Causal(), (ALiBi(),))
    assert shows(app, compute_steps(example, {"Q1": {(2, 0): 0.5}, "X": {(0, 1): -2.0}}), head=1)
    data = shown(app)
    assert (data["stage"], data["row"], data["edits"]) == ("softmax", 2, True)
    assert (data["named"], data["concat"]) == ("head₁ =", "Concat(head₀, head₁)")
    assert "keys and values come from the second sentence" in data["stages"][0]["caption"]


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


def test_a_link_with_nonsense_begins_as_if_it_were_not_there() -> None:
    app = page(stage="nowhere", d_k="1e999", heads="-1", masked="?", query="9 · x")
    assert shows(app, compute_steps(SentenceExample()))
    assert shown(app)["stage"] == "queries"


def test_the_weights_are_predicted_from_the_scores_before_they_are_shown() -> None:
    app = page(part="Predict")
    assert not app.exception
    told = " ".join(one.body for one in app.get("html"))
    assert "2.87" in told
    assert "The most important key is" not in told
    app.pills[0].set_value(["the"]).run()
    app.button(key="head-reveal").click().run()
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


def test_a_link_to_what_cannot_be_shown_begins_with_the_example() -> None:
    app = page(attention="Translator", similarity="Additive")
    assert "too many to be written out" in errors(app)
    assert shows(app, compute_steps(SentenceExample()))
    app.selectbox(key="similarity").select("Dot").run()
    assert not errors(app)
    assert shows(app, compute_steps(TranslatorExample(similarity="dot")))


def test_from_a_sentence_to_the_translator_and_back() -> None:
    app = page()
    app.selectbox(key="attention").select("Translator").run()
    assert shows(app, compute_steps(TranslatorExample()))
    app.selectbox(key="attention").select("Self").run()
    assert shows(app, compute_steps(SentenceExample()))
