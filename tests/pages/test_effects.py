"""The Effects page: what it says of a measure without a head, an MLP or a word, and what cannot be measured."""

import re

import pytest
import torch
from streamlit.testing.v1 import AppTest
from transformers import BertConfig, BertForSequenceClassification, BertModel, BloomConfig, BloomForCausalLM

from attnviz.base.language import language
from attnviz.lessons.lesson_files import Lesson, LessonStep
from attnviz.lessons.lesson_text import lesson_text, name_in_link
from attnviz.models import MINILM, TRANSLATOR
from attnviz.pages.effects.head_effects import effects_key
from attnviz.pages.effects.state import CIRCUITS, LENS, MANY_TEXTS, MORE, PATCHED, PATCHING, EffectsState
from attnviz.ui.server.jobs import finished
from tests.support.app import contents, errors, ok, open_page
from tests.support.page_texts import link_of, said, summary
from tests.support.tiny_models import SMALL, TEXT
from tests.support.waiting import until

OTHERS = {"other-texts": f"{TEXT} The lazy dog jumps.\n{TEXT} A naïve fox stops over it."}
LONGER = TEXT.replace("brown", "brown little")
MEASURES = {
    "difference of two logits": "Now the logit of “.+” above that of “.+” is ",
    "logit": "Now the logit of “.+” is ",
    "probability": "Now the probability of “.+” is ",
    "KL of all tokens": "Measured is the KL divergence .+: 0.00 where nothing is taken away",
    "loss of the text": "Now the loss .in bits a token. of the text after “.+” is ",
}
REASON = (
    "It works through others|Others make up for|its own share changes by|what others write changes the measure little"
)
CIRCUITS_OPEN = {"inspect": MORE, "effects_more": CIRCUITS}


def measured(app: AppTest) -> AppTest:
    """The page, where every head and every MLP has been measured."""
    until(lambda: " so far" not in " ".join(bar.proto.text for bar in ok(app.run()).get("progress")), pause=0.1)
    return app


def effects(model: object, **link: object) -> str:
    return said("effects", **{"why-model": model} | link)


def tiny(saved, name: str = "gpt2", **link: object) -> str:
    return effects(saved / name, **{"text": TEXT} | link)


def largest(text: str) -> list[tuple[str, str]]:
    """The names and effects of the table."""
    [table] = re.findall(r"<table[^>]*attnviz-shares.*?</table>", text)
    return re.findall(r"<th[^>]*>(?:<a [^>]*>)?([^<]+)(?:</a>)?</th><td>(.*?)</td>", table)


# Heads and words


def test_the_page_opens_with_heads_that_a_difference_rests_on() -> None:
    text = said("effects", effects_head="layer 23, head 3")
    assert "Now the logit of “Mary” above that of “John” is 6.09." in text
    assert dict(largest(text))["23.3"] == "−3.11"
    assert (
        "Layer 23, head 3 looks from “to” most at “John” (0.77). What it writes adds +2.95. Without the head: −3.11."
        in text
    )


@pytest.mark.parametrize("name", ["gpt2", "gemma2", "t5"])
def test_every_measure_of_tiny_models(saved, name: str) -> None:
    for measure, sentence in MEASURES.items():
        text = tiny(saved, name, measure=measure, **OTHERS)
        assert re.search(sentence, text), summary(text)
        assert len(largest(text)) == 10
        assert "changes most: by" in text


def test_models_that_are_installed() -> None:
    for model, measure in ((MINILM, "cosine"), (TRANSLATOR, "the logit of")):
        text = effects(model)
        assert len(largest(text)) == 10
        assert measure in text
        assert "changes most: by" in text


def test_other_texts_say_what_a_head_writes(saved) -> None:
    own = largest(tiny(saved, instead="its mean over other texts"))
    for instead in ("its mean over other texts", "its output on another text"):
        other = largest(tiny(saved, instead=instead, **OTHERS))
        assert len(other) == 10
        assert other != own


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (" \n ", "Between 1 and 20 texts are read, one on each line; these are 0."),
        ("a dog\n" * 21, "these are 21."),
        ("a\n" * 10_000, "these are 10,000."),
        ("a" * 2_001, "A text has at most 2,000 characters, and one of these has 2,001."),
        ("fox", "A resampled text has at least as many tokens as the text"),
    ],
    ids=["none", "too many", "10,000", "too long", "too short"],
)
@pytest.mark.parametrize("compared", [False, True])
def test_other_texts_that_cannot_be_used_are_refused(saved, lines: str, reason: str, compared: bool) -> None:
    with pytest.raises(ValueError, match=reason):
        tiny(saved, instead="its output on another text", other_texts=lines, compared=str(compared).lower())


def test_what_cannot_be_read_keeps_the_last_picture(saved) -> None:
    app = measured(open_page("effects", **{"why-model": saved / "gpt2", "text": TEXT, "instead": "nothing"}))
    text = contents(app)
    for unreadable in (" ", "fox " * 900):
        app.text_input(key="text").set_value(unreadable).run()
        assert errors(app) or app.info
        assert summary(contents(app)) == summary(text)
        assert largest(contents(app)) == largest(text)


@pytest.mark.parametrize("link", [{"effects-head": "layer 99, head 1"}, {"measure": "x"}, {"after": "99 · no"}])
def test_what_a_link_does_not_have_is_left_out(saved, link: dict[str, str]) -> None:
    base = link_of(**{"why-model": saved / "gpt2", "text": TEXT})
    state = EffectsState.read([*base, *link.items()])
    assert state == EffectsState.read(base)
    assert state.refused


def test_a_token_that_does_not_exist_is_refused_and_the_example_is_below(saved) -> None:
    app = open_page("effects", **{"why-model": saved / "gpt2", "text": TEXT, "says": "#99999"})
    assert "There is no token 99999" in errors(app)
    assert summary(contents(app))


def test_a_model_of_images_has_a_region_that_is_hidden(saved) -> None:
    text = effects(saved / "vit")
    assert "1 of 16 patches gray" in summary(text)
    assert "Layer 0, head 0: “[CLS]” gives" in text
    assert len(open_page("effects", **{"why-model": saved / "vit"}).get("file_uploader")) == 1


def test_a_classifier_is_measured_by_its_labels(saved, tmp_path) -> None:
    for labels, sentence in ((3, "above that of “LABEL_"), (1, "Now the logit of “LABEL_0” is")):
        folder = bert(saved, tmp_path / str(labels), BertForSequenceClassification, num_labels=labels)
        assert sentence in effects(folder, text=TEXT)


def test_models_with_nothing_finite_to_measure_are_refused(saved, tmp_path) -> None:
    headless = bert(saved, tmp_path / "headless", BertModel)
    with pytest.raises(ValueError, match="gives neither a next token, nor labels, nor a vector of a sentence"):
        effects(headless, text=TEXT)
    damaged = bert(saved, tmp_path / "nan", BertForSequenceClassification, weight=torch.nan, num_labels=2)
    with pytest.raises(ValueError, match="The measure is nan here"):
        effects(damaged, text=TEXT)


def bert(saved, folder, kind, weight: float | None = None, **config: object):
    """The folder of a tiny BERT with another head."""
    torch.manual_seed(0)
    model = kind(BertConfig(vocab_size=120, **SMALL, **config))
    if weight is not None:
        model.bert.encoder.layer[0].intermediate.dense.weight.data[:] = weight
    return with_tokenizer(saved / "bert", model, folder)


def with_tokenizer(other, model, folder):
    """The folder of a model with the tokenizer of another one."""
    model.save_pretrained(folder)
    for file in ("tokenizer.json", "tokenizer_config.json"):
        (folder / file).write_bytes((other / file).read_bytes())
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
    until(lambda: ok(app.run()) and finished(*key) is not None, pause=0.1)  # a run is a look, as each browser has
    assert finished(*key).is_complete


# Weight, share and effect compared


def test_heads_that_disagree_most_and_the_chosen_one_have_reasons(saved) -> None:
    text = tiny(saved, compared="true")
    assert "Where share and effect disagree most" in text
    assert len(re.findall(REASON, text)) >= 5
    listed = re.findall(r"layer (\d), head (\d)</a>", text)
    assert len(listed) == 5
    assert "Where weight and effect disagree most" in tiny(saved, compared="true", heads_across="weight")
    others = [(layer, head) for layer in "01" for head in "0123" if (layer, head) not in listed]
    chosen = tiny(saved, compared="true", effects_head=f"layer {others[0][0]}, head {others[0][1]}")
    assert len(re.findall(REASON, chosen)) >= 6


def test_a_chosen_head_may_have_no_reason(saved) -> None:
    for head in range(4):
        assert tiny(saved, compared="true", measure="probability", effects_head=f"layer 1, head {head}")


def test_a_measure_that_is_no_sum_has_weights_and_effects() -> None:
    state = EffectsState.read(link_of(why_model=MINILM, compared="true"))
    assert [*EffectsState.across.options(state)] == ["weight", "effect"]
    text = effects(MINILM, compared="true")
    assert "Where weight and effect disagree most" in text
    assert re.search(r"what it reads there is (small: )?[\d.]+% of the largest vector", text)


def test_a_model_without_known_weights_says_so(saved, tmp_path) -> None:
    torch.manual_seed(0)
    bloom = BloomForCausalLM(BloomConfig(vocab_size=400, hidden_size=32, n_layer=2, n_head=4))
    text = effects(with_tokenizer(saved / "gpt2", bloom, tmp_path), text=TEXT, compared="true")
    assert "they have no weight" in text
    assert "unknown" in text


def test_each_tab_is_drawn_in_the_app(saved) -> None:
    link = {"why-model": saved / "gpt2", "text": TEXT}
    lens = ok(open_page("effects", **link, inspect=MORE, effects_more=LENS))
    assert "is the likeliest token" in summary(contents(lens))
    assert lens.get("bidi_component")
    app = open_page("effects", **link, compared="true")
    until(lambda: not ok(app.run()).get("progress"), pause=0.1)
    assert len(app.get("bidi_component")) >= 2
    assert contents(app).count("effects-head=") == 6  # links that choose a head
    lines = {"many-texts": f"{TEXT} | brown | dog\n{TEXT}", "other-texts": f"{TEXT}\n{TEXT}"}
    many = contents(measured(open_page("effects", **link, **lines, inspect=MANY_TEXTS)))
    assert "Over 2 texts, the logit of what a text says above that of the other is" in summary(many)
    assert "The mean of 2 texts, ±" in many
    patched = measured(open_page("effects", **link, inspect=PATCHING, corrupted=LONGER, **{"aligned-token": "0"}))
    assert re.search(r"belongs to:.*href='[^']*corrections=0-[^']*'>no token", contents(patched))
    before = summary(contents(patched))
    patched.text_input(key="corrupted").set_value("zzz").run()
    assert "No token of the clean text belongs to one of the corrupted text" in contents(patched) + errors(patched)
    assert summary(contents(patched)) == before


# Patching


def patching(saved, name: str = "gpt2", corrupted: str = TEXT.replace("quick brown", "brown quick"), **link) -> str:
    return tiny(saved, name, inspect=PATCHING, corrupted=corrupted, **link)


def alignment(text: str) -> list[str]:
    """The classes of the columns of tokens."""
    return re.findall(r'<div class=["\']attnviz-(same|other|alone)', text)


@pytest.mark.parametrize("name", ["gpt2", "t5", "gemma2"])
def test_every_part_of_tiny_models_is_patched(saved, name: str) -> None:
    for part, what in PATCHED.items():
        if name == "gemma2" and what == "pattern":  # of texts of different lengths
            continue
        text = patching(
            saved, name, patched=part, effects_head="layer 1, head 1" if name != "t5" else "decoder 1, head 1"
        )
        assert re.search(r"in the clean run, .* in the corrupted one. Most is recovered ", summary(text))
        assert {"same", "alone" if name == "gemma2" else "other"} <= {*alignment(text)}


def test_paths_lead_into_the_chosen_head(saved) -> None:
    paths = {"patched": "the output of a head", "paths": "the key"}
    assert "Direct paths: " in patching(saved, **paths, effects_head="layer 1, head 1")
    assert "Paths lead from heads of earlier layers" in patching(saved, **paths, effects_head="layer 0, head 1")


def test_the_alignment_is_shown_and_corrected(saved) -> None:
    text = patching(saved, corrupted=LONGER)
    assert "click one of the corrupted text" in text
    before = alignment(text)
    assert "alone" in before
    assert before[0] == "same"
    corrected = patching(saved, corrupted=LONGER, corrections="0-")
    assert alignment(corrected).count("alone") == before.count("alone") + 2
    assert "Undo 1 correction" in corrected


def test_texts_that_cannot_be_patched_are_refused(saved) -> None:
    for corrupted, reason in ((" ", "There is no text yet"), ("fox " * 900, "tokens, and")):
        with pytest.raises(ValueError, match=reason):
            patching(saved, corrupted=corrupted)
    app = open_page("effects", **{"why-model": saved / "gpt2"}, text=TEXT, inspect=PATCHING, corrupted=LONGER,
                    patched="the weights of a head")  # fmt: skip
    assert "A pattern is taken from a text of the same number of tokens" in errors(app)
    assert alignment(contents(app)), "the tokens are shown, so that they can be corrected"


# Logit lens, and circuits of heads


@pytest.mark.parametrize("name", ["gpt2", "gemma2", "t5"])
def test_the_logit_lens_of_tiny_models(saved, name: str) -> None:
    lens = {"inspect": MORE, "effects_more": LENS}
    text = tiny(saved, name, **lens, lens_cell="1.2")
    assert "is the likeliest token" in summary(text)
    assert len(re.findall("Why this word\\?</a>", text)) == 5
    assert summary(tiny(saved, name, **lens, lens_color="entropy", measure="KL of all tokens"))


def test_a_head_shows_its_circuits_in_the_app(saved) -> None:
    app = ok(open_page("effects", why_model=saved / "gpt2", **CIRCUITS_OPEN, effects_head="layer 1, head 1"))
    assert len(app.get("bidi_component")) >= 2
    before = contents(app)
    assert re.search("When it looks from “.+”, it prefers and avoids", before)
    assert "is a part of the key of" in before
    app.text_input(key="reads").set_value("#7")
    app.selectbox(key="composition").set_value("the query")
    text = contents(ok(app.run()))
    assert summary(text) != summary(before)
    assert "is a part of the query of" in text


def test_what_is_not_known_of_circuits_is_said_in_its_place(saved) -> None:
    app = open_page("effects", why_model=MINILM, **CIRCUITS_OPEN)
    assert "norms or other maps lie in the residual stream" in errors(app)
    text = contents(ok(open_page("effects", why_model=TRANSLATOR, **CIRCUITS_OPEN, effects_head="encoder 0, head 1")))
    assert "encoder 0 writes to no logits" in text
    assert "is a part of the key of" in text
    with pytest.raises(ValueError, match="norms or other maps lie in the residual stream"):
        effects(saved / "bart", **CIRCUITS_OPEN)


@pytest.mark.parametrize("name", ["gpt2", "llama", "gemma2", "t5"])
def test_saved_models_show_circuits_in_both_languages(saved, name: str) -> None:
    assert "Its copying score is" in effects(saved / name, **CIRCUITS_OPEN)
    with language("de"):
        assert "Standardabweichungen" in effects(saved / name, **CIRCUITS_OPEN)
