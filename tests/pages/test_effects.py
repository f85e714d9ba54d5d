"""The Effects page: what a measure becomes without a head, an MLP or a word, and what cannot be measured."""

import re

import pytest
import torch
from streamlit.testing.v1 import AppTest
from transformers import BertConfig, BertForSequenceClassification, BertModel

from attnviz.lessons.lesson_files import Lesson, LessonStep
from attnviz.lessons.lesson_text import lesson_text, name_in_link
from attnviz.models import MINILM, TRANSLATOR
from attnviz.pages.effects.head_effects import effects_key
from attnviz.pages.effects.state import EffectsState
from attnviz.ui.server.jobs import finished
from tests.support.app import contents, errors, ok, open_page
from tests.support.tiny_models import SMALL, TEXT
from tests.support.waiting import until

OTHERS = {"other-texts": f"{TEXT} The lazy dog jumps.\n{TEXT} A naïve fox stops over it."}
MOST_LINES = "Between 1 and 20 other texts are read"


def measured(app: AppTest) -> AppTest:
    """The page, where every head and every MLP has been measured."""
    until(lambda: " so far" not in progress(ok(app.run())), pause=1)
    return app


def progress(app: AppTest) -> str:
    return " ".join(bar.proto.text for bar in app.get("progress"))


def summary(app: AppTest) -> str:
    return " ".join(re.findall(r"attnviz-summary[^>]*>(.*?)</p>", contents(app)))


def largest(app: AppTest) -> list[tuple[str, str]]:
    """The names and effects of the table."""
    [table] = [html.body for html in app.get("html") if "attnviz-shares" in html.body]
    return re.findall(r"<th>(?:<a [^>]*>)?([^<]+)(?:</a>)?</th><td>([^<]*)</td>", table)


def tiny(saved, name: str, **link: object) -> AppTest:
    return open_page("effects", **{"why-model": saved / name, "text": TEXT} | link)


def test_the_page_opens_with_heads_that_a_difference_rests_on() -> None:
    app = measured(open_page("effects", effects_head="layer 23, head 3"))
    assert "Now the logit of “Mary” above that of “John” is 6.09." in contents(app)
    assert dict(largest(app))["23.3"] == "−3.11"
    assert (
        "Layer 23, head 3 looks from “to” most at “John” (0.77). What it writes adds +2.95. Without the head: −3.11."
        in contents(app)
    )


@pytest.mark.parametrize(
    ("measure", "sentence"),
    [
        ("difference of two logits", "Now the logit of “.+” above that of “.+” is "),
        ("logit", "Now the logit of “.+” is "),
        ("probability", "Now the probability of “.+” is "),
        ("KL of all tokens", "Measured is the KL divergence .+: 0.00 where nothing is taken away"),
        ("loss of the text", "Now the loss .in bits a token. of the text after “.+” is "),
    ],
    ids=["difference", "logit", "probability", "KL", "loss"],
)
@pytest.mark.parametrize("name", ["gpt2", "gemma2", "t5"])
def test_every_measure_of_tiny_models(saved, name: str, measure: str, sentence: str) -> None:
    app = measured(tiny(saved, name, measure=measure))
    assert re.search(sentence, contents(app)), summary(app)
    assert len(largest(app)) == 10
    assert "changes most: by" in contents(app)


@pytest.mark.parametrize("model", [MINILM, TRANSLATOR])
def test_models_that_are_installed(model: str) -> None:
    app = measured(open_page("effects", **{"why-model": model}))
    assert len(largest(app)) == 10
    assert "cosine" in contents(app) if model == MINILM else "the logit of" in contents(app)
    assert "changes most: by" in contents(app)


@pytest.mark.parametrize("instead", ["its mean over other texts", "its output on another text"])
def test_other_texts_say_what_a_head_writes_instead(saved, instead: str) -> None:
    app = measured(tiny(saved, "gpt2", instead=instead, **OTHERS))
    assert len(largest(app)) == 10
    assert largest(app) != largest(measured(tiny(saved, "gpt2")))


@pytest.mark.parametrize("instead", ["nothing", "its mean over other texts"])
def test_effects_are_the_mean_over_several_texts(saved, instead: str) -> None:
    app = measured(tiny(saved, "gpt2", instead=instead, averages="true", **OTHERS))
    assert "The mean of 3 texts, ±" in contents(app)
    assert largest(app) != largest(measured(tiny(saved, "gpt2", instead=instead, **OTHERS)))


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (" \n ", f"{MOST_LINES}, one on each line; these are 0."),
        ("a dog\n" * 21, "these are 21."),
        ("a\n" * 10_000, "these are 10,000."),
        ("a" * 2_001, "Another text has at most 2,000 characters, and one of these has 2,001."),
        ("fox", "A resampled text has at least as many tokens as the text"),
    ],
    ids=["none", "too many", "10,000", "too long", "too short"],
)
def test_other_texts_that_cannot_be_used_are_refused(saved, lines: str, reason: str) -> None:
    app = measured(tiny(saved, "gpt2", instead="its output on another text", other_texts=f"{TEXT} {TEXT}"))
    before = largest(app)
    app.text_area(key="other-texts").set_value(lines).run()
    assert reason in errors(app)
    assert largest(app) == before


def test_a_token_that_does_not_exist_is_refused(saved) -> None:
    app = tiny(saved, "gpt2", says="#99999")
    assert "There is no token 99999" in errors(app)
    assert summary(app), "the example is below"


@pytest.mark.parametrize("text", [" ", "fox " * 900])
def test_a_text_that_cannot_be_read_keeps_the_last_one(saved, text: str) -> None:
    app = measured(tiny(saved, "gpt2"))
    before = summary(app)
    app.text_input(key="text").set_value(text).run()
    assert errors(app) or app.info
    assert summary(app) == before


def test_a_word_is_hidden_from_a_layer_or_a_head(saved) -> None:
    app = measured(tiny(saved, "gpt2"))
    everywhere = summary(app)
    in_layer = summary(measured(app.selectbox(key="hidden-from").select("layer 1").run()))
    assert in_layer != everywhere
    assert summary(measured(app.selectbox(key="hidden-from-head").select("2").run())) != in_layer
    assert summary(measured(tiny(saved, "gpt2", hidden_from="layer 1", hidden_from_head="2"))) == summary(app)


@pytest.mark.parametrize("link", [{"effects-head": "layer 99, head 1"}, {"measure": "x"}, {"after": "99 · no"}])
def test_what_a_link_does_not_have_is_left_out(saved, link: dict[str, str]) -> None:
    assert summary(ok(tiny(saved, "gpt2", **link))) == summary(ok(tiny(saved, "gpt2")))


def test_a_classifier_is_measured_by_its_labels(saved, tmp_path) -> None:
    for labels, sentence in ((3, "above that of “LABEL_"), (1, "Now the logit of “LABEL_0” is")):
        folder = bert(saved, tmp_path / str(labels), BertForSequenceClassification, num_labels=labels)
        assert sentence in contents(measured(open_page("effects", **{"why-model": folder, "text": TEXT})))


def test_a_model_without_a_head_is_refused(saved, tmp_path) -> None:
    folder = bert(saved, tmp_path / "headless", BertModel)
    app = open_page("effects", **{"why-model": folder, "text": TEXT})
    assert "gives neither a next token, nor labels, nor a vector of a sentence" in errors(app)
    assert not app.get("bidi_component")


def test_a_model_of_images_is_refused(saved) -> None:
    app = open_page("effects", **{"why-model": saved / "vit"})
    assert "sees images" in errors(app)
    assert not app.get("bidi_component")


def test_a_model_whose_weights_are_not_finite_is_refused(saved, tmp_path) -> None:
    folder = bert(saved, tmp_path / "nan", BertForSequenceClassification, weight=torch.nan, num_labels=2)
    app = open_page("effects", **{"why-model": folder, "text": TEXT})
    assert "The measure is nan here" in errors(app)
    assert not app.get("bidi_component")


def bert(saved, folder, kind, weight: float | None = None, **config: object):
    """The folder of a tiny BERT with another head."""
    torch.manual_seed(0)
    model = kind(BertConfig(vocab_size=120, **SMALL, **config))
    if weight is not None:
        model.bert.encoder.layer[0].intermediate.dense.weight.data[:] = weight
    model.save_pretrained(folder)
    for file in ("tokenizer.json", "tokenizer_config.json"):
        (folder / file).write_bytes((saved / "bert" / file).read_bytes())
    return folder


def test_what_the_next_step_measures_is_begun_in_the_step_before(saved) -> None:
    first, second = (
        (("why-model", str(saved / "gpt2")), ("text", TEXT), ("measure", measure)) for measure in ("logit", "loss")
    )
    steps = (LessonStep("One?", "Yes.", "effects", first), LessonStep("Two?", "Yes.", "effects", second))
    name = name_in_link(lesson_text(Lesson("", "A lesson", "Of two steps.", steps)))
    key = effects_key(EffectsState.read(second))
    app = measured(open_page("effects", lesson=name, lesson_step="1", **dict(first)))
    assert "Step 1 of 2" in app.expander[0].label
    until(lambda: finished(*key) is not None)
    assert finished(*key).is_complete
