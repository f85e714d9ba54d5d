"""What if, on the Models page, without a browser: what is drawn and said is what the library gives."""

import re
from functools import cache, partial
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers as hf

from attnviz.analysis import work
from attnviz.analysis.head_maps import head_map
from attnviz.formatting import number
from attnviz.masks import Band, Causal, SinksAndWindow
from attnviz.models import model_cache
from attnviz.models.intervention_run import (
    Candidate,
    TokenLabel,
    cosine,
    head_mass_shifts,
    run_with_interventions,
    sentence_similarity,
)
from attnviz.models.interventions import Intervention
from attnviz.models.minilm import minilm
from attnviz.normalizers import Sink, Softmax
from attnviz.scores import Cosine
from attnviz.server import jobs
from attnviz.text import EXAMPLE
from attnviz.ui.intervention_widgets import SIDES
from attnviz.ui.models import outcome, what_if
from attnviz.views.mechanism_sentences import part_name
from tests.models.test_interventions import GROUPED, SMALL, TEXT, bart, bert, bloom, llama, reads
from tests.support.app import contents, ok, open_page

ROOT = Path(__file__).parents[2]
OTHER = "The dog ran over the road."
ALL = tuple(range(6))
WHOLE = tuple((3, head) for head in range(12))
TRIES = {
    "Ablate this head": Intervention(ablated=((3, 1),), layers=ALL),
    "Ablate this layer’s heads": Intervention(ablated=WHOLE, layers=ALL),
    "Temperature 4": Intervention(normalizer=Softmax(4.0), layers=ALL),
    "Only the neighbors": Intervention(Band(1), layers=ALL),
    "Only what came before": Intervention(Causal(), layers=ALL),
}


page = partial(open_page, "models", inspect="What if")


def gemma2():
    config = hf.Gemma2Config(**GROUPED | {"attn_implementation": "eager"}, attn_logit_softcapping=20.0)
    return hf.Gemma2ForCausalLM(config)


@pytest.fixture
def folder(tmp_path):
    """A function that gives the folder of a tiny model."""

    def saved(make):
        model_cache.shared_cache.cache_clear()
        model = reads(make)
        model.model.save_pretrained(tmp_path)
        model.tokenizer.save_pretrained(tmp_path)
        return str(tmp_path)

    yield saved
    model_cache.shared_cache.cache_clear()


def cells(chart):
    small = getattr(chart.spec, "downsampled", None)  # the colors of such a map show another number
    return np.array(small.maximum if small else chart.figure.data[0].z, dtype=float)


@cache
def trained_layers(text, pair):
    return minilm().layers(text, pair)


def check(drawn, intervention, layer=3, head=1, text=EXAMPLE, pair=None):
    """Both maps and the grid are those of the library; gives the cosine of the vectors with and without."""
    result = run_with_interventions(minilm(), [intervention], text, pair)
    before, after = trained_layers(text, pair), result.layers
    for key, layers in (("if-before", before), ("if-after", after)):
        one = layers[layer]
        np.testing.assert_allclose(cells(drawn[key]), head_map(one.inputs, one.mechanism, head), atol=2e-6)
    layouts = [drawn[key].figure.layout for key in what_if.KEYS]
    ends = [layout[axis].cmax for layout in layouts for axis in layout if "coloraxis" in axis]
    assert len(set(ends)) == 1, "one range of colors"
    expected = np.stack([head_mass_shifts(*pair).numpy() for pair in zip(before, after, strict=True)])
    for place in intervention.ablated:
        expected[place] = np.nan
    np.testing.assert_allclose(cells(drawn["if-moved"]), expected, atol=1e-5)
    return cosine(minilm().output(minilm().encode(text, pair)), result.output)


def test_nothing_is_changed_until_somebody_changes_it(drawn):
    app = ok(page())
    assert "Nothing is changed." in contents(app)
    assert app.pills(key="if-try").value == "Everything as trained"
    check(drawn, Intervention())
    assert cells(drawn["if-moved"]).max() < 1e-6


def test_every_try_gives_what_the_library_gives(drawn):
    app = ok(page())
    assert app.pills(key="if-try").options == ["Everything as trained", *TRIES]
    for name, intervention in TRIES.items():
        app.pills(key="if-try").select(name).run()
        assert f"a cosine of {check(drawn, intervention):.3f} with" in contents(ok(app))
        assert app.pills(key="if-try").value == name
    app.pills(key="if-try").select("Everything as trained").run()
    assert "Nothing is changed." in contents(ok(app))


def test_the_work_is_that_of_what_changes(drawn, monkeypatch):
    """Ablated heads cost nothing but the forward pass, and all heads' mass shift is computed in the background. Layers
    that are too much work are refused with what can be done, and what is marked is what is shown."""
    one_layer = 12 * 16 * 16
    monkeypatch.setattr(work, "MOST_WORK", one_layer)
    monkeypatch.setattr("attnviz.ui.cache.LONG_WORK", one_layer)
    app = ok(page())
    for name in ("Ablate this head", "Ablate this layer’s heads"):
        app.pills(key="if-try").select(name).run()
        assert "a cosine of" in contents(ok(app))
        assert app.pills(key="if-try").value == name
        assert not app.error
        [job] = [job for key, job in jobs._shared._jobs.items() if repr(TRIES[name]) in key]
        job.thread.join()
        app.run()
        check(drawn, TRIES[name])
    app.pills(key="if-try").select("Everything as trained").run()
    app.pills(key="if-try").select("Temperature 4").run()
    assert "Change fewer layers, or use a shorter text." in app.error[0].value.replace("\\", "")
    assert "Nothing is changed." in contents(app)
    assert app.pills(key="if-try").value == "Everything as trained"
    app.selectbox(key="if-where").select("This layer").run()
    assert not app.error
    assert "a cosine of" in contents(ok(app))
    monkeypatch.setattr(work, "MOST_WORK", one_layer - 1)
    app.number_input(key="if-normalizer.temperature").set_value(3.0).run()
    assert "at most 3,071 are done for one figure. Use a shorter text. The figure" in app.error[0].value.replace(
        "\\", ""
    )


def test_the_marked_preset_brings_its_widgets_back(monkeypatch):
    monkeypatch.setattr(work, "MOST_WORK", 1)
    app = ok(page())
    app.pills(key="if-try").select("Temperature 4").run()
    assert app.error
    app.pills(key="if-try").unselect("Everything as trained").run()  # a click on the marked one
    assert not app.error
    assert app.selectbox(key="if-normalizer").value == "As in the model"


def test_what_is_made_by_hand_is_what_a_link_makes(drawn):
    app = ok(page(layer="encoder 2", head="Head 5"))
    app.selectbox(key="if-normalizer").select("Softmax").run()
    app.number_input(key="if-normalizer.temperature").set_value(2.5).run()
    app.selectbox(key="if-score").select("Cosine").run()
    app.selectbox(key="if-where").select("This layer").run()
    app.multiselect(key="if-off").select("encoder 4, head 0").run()
    intervention = Intervention(score=Cosine(), normalizer=Softmax(2.5), ablated=((4, 0),), layers=(2,))
    check(drawn, intervention, 2, 5)
    link = {"if-normalizer": "Softmax", "if-normalizer.temperature": "2.5", "if-score": "Cosine"}
    link |= {"if-where": "This layer", "if-off": "encoder 4, head 0", "layer": "encoder 2", "head": "Head 5"}
    drawn.clear()
    again = ok(page(**link))
    assert f"a cosine of {check(drawn, intervention, 2, 5):.3f} with" in contents(again)
    assert again.pills(key="if-try").value is None


def test_the_caption_says_how_each_side_attends():
    app = ok(page(**{"if-off": "encoder 3, head 1", "if-normalizer": "Softmax", "if-normalizer.temperature": "2.0"}))
    captions = [one.value.replace("\\", "") for one in app.caption]
    assert "Scores: Scaled dot. Every query sees every key. Weights: Softmax." in captions
    assert "This head is ablated: it sees nothing, and adds nothing." in captions
    app.selectbox(key="head").select("Head 2").run()
    captions = [one.value.replace("\\", "") for one in app.caption]
    assert "Scores: Scaled dot. Every query sees every key. Weights: Softmax with temperature 2." in captions


def test_the_caption_names_biases_in_the_order_in_which_they_act(folder):
    app = ok(page(model=folder(gemma2), text=TEXT, **{"if-normalizer": "Softmax", "if-normalizer.temperature": "2"}))
    captions = [one.value.replace("\\", "") for one in app.caption]
    capped = "Scores: Scaled dot with scale 0.0625, squeezed between −20 and 20 (soft cap). "
    capped += "A query sees a key if the key is not after it."
    assert f"{capped} Weights: Softmax." in captions
    assert f"{capped} Weights: Softmax with temperature 2." in captions


def test_what_is_changed_is_said_beside_what_comes_of_it():
    link = {"if-mask": "Causal", "if-score": "Cosine", "if-where": "This layer"}
    text = contents(ok(page(**link, **{"if-off": ["encoder 3, head 1", "encoder 3, head 4", "encoder 5, head 0"]})))
    assert "Changed in encoder 3. Scores: Cosine. A query sees a key if the key is not after it. Ablated: " in text
    assert "Ablated: encoder 3, heads 1, 4; encoder 5, head 0." in text


@pytest.mark.parametrize(
    ("intervention", "words"),
    [
        (Intervention(), ""),
        (Intervention(normalizer=Softmax(4.0)), "Changed in all layers. Weights: Softmax with temperature 4."),
        (TRIES["Temperature 4"], "Changed in all layers. Weights: Softmax with temperature 4."),
        (Intervention(Band(1), layers=(0, 1, 4)), f"Changed in encoder 0–1, encoder 4. {Band(1).describe()}"),
        (TRIES["Ablate this layer’s heads"], "Ablated: all heads of encoder 3."),
        (Intervention(sparse=Band(1), layers=(2,)), "Laid over the masks of encoder 2: band(1)."),
    ],
)
def test_what_is_changed_in_words(intervention, words):
    assert what_if.describe_intervention(minilm().layers(EXAMPLE), intervention) == words


def test_a_sparse_mask_in_words_is_laid_over_and_a_mistake_in_it_is_said():
    text = contents(ok(page(**{"if-sparse": "band(1)"})))
    assert "Laid over the masks of all layers: band(1)." in text
    app = page(**{"if-sparse": "band(1"})
    assert "At the end" in contents(app)


def test_sinks_that_a_model_has_learned_are_named_without_their_numbers():
    assert part_name(Sink(torch.zeros(4))) == "Sink"
    assert part_name(Sink(2.0)) == "Sink with logit 2"


def test_of_two_texts_it_says_how_similar_they_are(drawn):
    intervention = TRIES["Temperature 4"]
    app = ok(page(second=OTHER, **{"if-normalizer": "Softmax", "if-normalizer.temperature": "4.0"}))
    check(drawn, intervention, 3, 1, pair=OTHER)
    plain, now = sentence_similarity(minilm(), [intervention], EXAMPLE, OTHER)
    assert f"have vectors with a cosine of {plain:.3f}; with the change it is {now:.3f}." in contents(app)


def test_the_next_token_with_and_without(drawn, folder):
    path = folder(llama)
    app = ok(page(model=path, text=TEXT, **{"if-normalizer": "Softmax", "if-normalizer.temperature": "3.0"}))
    model = model_cache.model(path)
    before = model.output(model.encode(TEXT))
    for layer in model.model.model.layers:
        layer.self_attn.q_proj.weight.data /= 3
    after = model.output(model.encode(TEXT))
    p, q = before.double().softmax(-1), after.double().softmax(-1)
    first = sorted(range(40), key=lambda i: -max(p[i], q[i]))[:10]
    for trace, distribution in zip(drawn["if-next"].figure.data, (p, q), strict=True):
        np.testing.assert_allclose(np.array(trace.y, dtype=float), distribution[first], atol=1e-5)
    assert [trace.name for trace in drawn["if-next"].figure.data] == list(SIDES)
    read = drawn["if-next"].spec.sentences[0]
    assert read.endswith(f": {number(float(p[first[0]]))} as trained, {number(float(q[first[0]]))} changed")
    bits = float((p * (p / q).log2()).sum())
    assert bits > 1e-3
    assert f"KL(as trained ‖ changed) is {number(bits)} bits." in contents(app)


def test_a_model_that_hands_over_no_queries_is_told_in_a_sentence(folder):
    path = folder(bloom)
    app = ok(page(model=path, text=TEXT))
    assert re.search(
        r"Nothing can be changed in .*the score, the mask and the normalizer cannot be changed", contents(app)
    )


def test_a_model_without_an_output_shows_maps_alone(drawn, folder):
    app = ok(page(model=folder(bert), text=TEXT, **{"if-mask": "Causal"}))
    assert "gives neither a next token, nor labels, nor a vector of a sentence" in contents(app)
    assert "if-next" not in drawn
    assert np.isnan(cells(drawn["if-after"])[0, 1:]).all()


def test_what_cannot_be_computed_leaves_the_last_good_picture(drawn):
    app = ok(page(**{"if-normalizer": "Softmax", "if-normalizer.temperature": "4.0"}))
    app.selectbox(key="if-mask").select("Longformer").run()
    box = next(one for one in app.text_input if one.key.startswith("if-mask"))
    ok(app)
    last = cells(drawn["if-after"])
    box.input("two three").run()
    assert not app.exception
    assert "“two” is not one" in contents(app)
    assert "The figure below is the last one that could be made." in contents(app)
    np.testing.assert_array_equal(cells(drawn["if-after"]), last)
    box.input("4 5 7").run()
    ok(app)


def test_of_an_encoder_and_a_decoder_it_is_the_decoders_next_token(drawn, folder):
    path = folder(bart)
    off = {"if-off": [f"decoder {layer} cross, head {head}" for layer in range(2) for head in range(4)]}
    app = ok(page(model=path, text=TEXT, second="the cat sat", **off))
    model = model_cache.model(path)
    read = model.encode(TEXT, "the cat sat")
    before = model.output(read)
    for layer in model.model.model.decoder.layers:  # what no head of the cross-attention adds
        layer.encoder_attn.v_proj.weight.data *= 0
        layer.encoder_attn.v_proj.bias.data *= 0
    after = model.output(read)
    assert (before - after).abs().max() > 1e-3
    for trace, logits in zip(drawn["if-next"].figure.data, (before, after), strict=True):
        first = torch.maximum(before.softmax(-1), after.softmax(-1)).argsort(descending=True, stable=True)[:10]
        np.testing.assert_allclose(np.array(trace.y, dtype=float), logits.softmax(-1)[first], atol=1e-5)
    assert "The decoder’s likeliest next token " in contents(app)
    typed = model.tokenizer.decode(read.batch["decoder_input_ids"][0, 1:])
    assert typed.startswith("the cat")
    assert f"The decoder has written “{typed}”, as you typed. What may come next?" in contents(app)
    app.text_area(key="second").set_value("").run()
    written = " ".join(model.encode(TEXT).target.tokens[1:])  # [1] and the like, which the tokenizer does not know
    assert f"{written[-20:]}” by itself, without the change. What may come next?" in contents(ok(app))
    names = list(drawn["if-moved"].figure.layout.yaxis.ticktext)
    assert names == ["encoder 0", "encoder 1", "decoder 0", "decoder 0 cross", "decoder 1", "decoder 1 cross"]


def classifier(kind="BertForSequenceClassification", labels=("<b>good</b>", "bad"), **more):
    config = hf.BertConfig(**SMALL, max_position_embeddings=64, id2label=dict(enumerate(labels)), **more)
    model = getattr(hf, kind)(config)
    model.classifier.weight.data *= 100
    return model


def test_a_classifiers_labels_are_compared(drawn, folder):
    path = folder(classifier)
    app = ok(page(model=path, text=TEXT, **{"if-mask": "Causal"}))
    model = model_cache.model(path)
    before, after = (
        model.output(model.encode(TEXT)),
        run_with_interventions(model, [Intervention(Causal())], TEXT).output,
    )
    names = {"&lt;b&gt;good&lt;/b&gt;": 0, "bad": 1}  # as text, and not as markup
    order = [names[name] for name in drawn["if-next"].figure.layout.xaxis.ticktext]
    for logits, bars in zip((before, after), drawn["if-next"].figure.data, strict=True):
        np.testing.assert_allclose(bars.y, logits.softmax(-1)[order], atol=1e-5)
    assert "The likeliest label" in contents(app)
    assert "**The likeliest labels**" in contents(app)


def test_a_score_and_labels_of_tokens_are_compared_in_a_sentence(drawn, folder):
    app = ok(page(model=folder(partial(classifier, labels=("score",))), text=TEXT, **{"if-mask": "Causal"}))
    assert re.search(r"The model’s score is −?\d+\.\d{3}; with the change it is −?\d+\.\d{3}\.", contents(app))
    app = ok(page(model=folder(partial(classifier, "BertForTokenClassification")), text=TEXT, **{"if-mask": "Causal"}))
    assert re.search(r"get other likeliest labels|gets another likeliest label|Each token keeps its", contents(app))
    assert "if-next" not in drawn


def test_a_model_that_sees_says_nothing_of_sentences(isolated, tmp_path):
    config = hf.ViTConfig(image_size=32, patch_size=8, num_hidden_layers=2, num_attention_heads=4, hidden_size=32)
    hf.ViTModel(config).save_pretrained(tmp_path)
    app = ok(page(model=str(tmp_path), **{"if-mask": "Causal"}))
    assert f"The output of {tmp_path.name} for the image is not compared: the maps show" in contents(app)
    assert "of a sentence" not in contents(app)


def test_the_result_stands_above_the_widgets_of_ones_own(drawn):
    """On a phone the sentence and the maps are seen after a tap: the widgets are folded away, and still count."""
    app = ok(page(**{"if-mask": "Causal"}))
    [own] = [one for one in app.expander if one.label == "Change it yourself"]
    assert not own.proto.expanded
    assert {"if-mask", "if-score", "if-normalizer", "if-where"} <= {one.key for one in own.selectbox}
    assert "a cosine of" in contents(app)


def test_a_long_text_is_drawn_in_fewer_cells(drawn, monkeypatch):
    monkeypatch.setattr("attnviz.state.viewport.MOST_CELLS", 16 * 16 - 1)
    monkeypatch.setattr("attnviz.views.selected_maps.CELLS", 5)
    ok(page(**{"if-normalizer": "Softmax", "if-normalizer.temperature": "4.0"}))
    for key, layers in (("if-before", minilm().layers(EXAMPLE)), ("if-after", None)):
        layers = layers or run_with_interventions(minilm(), [TRIES["Temperature 4"]], EXAMPLE).layers
        whole = head_map(layers[3].inputs, layers[3].mechanism, 1).numpy()
        ends = [slice(i * 16 // 5, (i + 1) * 16 // 5) for i in range(5)]
        np.testing.assert_allclose(cells(drawn[key]), [[whole[a, b].max() for b in ends] for a in ends], atol=2e-6)
        assert drawn[key].spec.link == "what-if"


def test_links_that_make_no_sense_change_nothing():
    app = ok(page(**{"if-off": ["encoder 9, head 1", "x"], "if-where": "Nowhere", "if-mask": "Mask", "if-score": ""}))
    assert "Nothing is changed." in contents(app)


def test_another_model_with_a_head_off_that_it_has_not(folder):
    app = ok(page(**{"if-off": "encoder 3, head 1"}))
    assert "a cosine of" in contents(app)
    app.text_input(key="another").input(folder(llama)).run()
    ok(app)
    assert "Nothing is changed." in contents(app)


# The sentences


def test_the_sentence_about_tokens():
    stays = [Candidate("cat", 0, 0.5, 0.25), Candidate("dog", 1, 0.25, 0.125)]
    assert outcome.candidate_sentence(stays, 0.5, "The likeliest next token").startswith(
        "The likeliest next token stays “cat”: 0.50 before, 0.25 with the"
    )
    turns = [Candidate("cat", 0, 0.5, 0.25), Candidate("\n", 1, 0.25, 0.625)]
    assert "was “cat” (0.50, and 0.25 with the change); now it is “␊” (0.63)." in outcome.candidate_sentence(
        turns, 0.5, "The token"
    )


def test_the_sentence_about_labels_of_tokens():
    labels = [TokenLabel(0, "O", "O"), TokenLabel(1, "O", "B-PER")]
    assert outcome.token_label_sentence(labels, ["the", "cat"]) == (
        "1 of 2 tokens gets another likeliest label: cat (O → B-PER)."
    )
    assert outcome.token_label_sentence(labels[:1], ["the"]) == "Each token keeps its likeliest label."
    many = outcome.token_label_sentence([TokenLabel(i, "O", "X") for i in range(6)], "abcdef")
    assert many == "6 of 6 tokens get other likeliest labels: a (O → X), b (O → X), c (O → X), d (O → X), e (O → X), …"


def test_the_sentence_about_what_the_decoder_has_written():
    assert outcome.written_sentence("", is_typed=False).startswith(
        "The decoder has written nothing by itself, without the"
    )
    long = outcome.written_sentence("word " * 40, is_typed=True)
    assert "written “… " in long
    assert len(long) < 140


def test_the_sentences_about_vectors():
    assert "a cosine of 0.998 with" in outcome.vector_sentence(0.99787)
    assert "a cosine of 0.500; with the change it is −0.250." in outcome.similarity_sentence(0.5, -0.25)


@pytest.mark.parametrize(("sparse", "said"), [(SinksAndWindow(4, 4), True), (Band(1), False), (None, False)])
def test_streaming_llm_is_said_to_be_its_mask_alone(sparse, said):
    change = what_if.describe_intervention(minilm().layers(EXAMPLE), Intervention(sparse=sparse))
    assert ("numbers positions anew" in change) == said
