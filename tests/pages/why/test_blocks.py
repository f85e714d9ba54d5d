"""Why: questions, answers and their pictures, of models of several kinds."""

import csv
import gc
import io
import weakref
from itertools import accumulate

import numpy as np
import pytest
import torch
from transformers import BertConfig, BertForSequenceClassification, CLIPConfig, CLIPModel

from attnviz import view
from attnviz.attribution import Logit, circuit
from attnviz.attribution.sum_term import SumTerm
from attnviz.attribution.text_attribution import read_text
from attnviz.attribution.trail import TrailStep
from attnviz.figures.shares import signed
from attnviz.models import MINILM, TRANSLATOR
from attnviz.models.loading import inspect_folder
from attnviz.page.blocks import every_block, page_view
from attnviz.page.result_cache import ResultCache
from attnviz.page.source_field import source_layers
from attnviz.page.text_question import AVERAGE_TOKEN, _texts
from attnviz.pages.why.answer import why_answer
from attnviz.pages.why.blocks import shares_csv, why, why_quantities
from attnviz.pages.why.examples import WHY_EXAMPLES
from attnviz.pages.why.sentences import (
    answer_sentence,
    largest_sentences,
    question_sentence,
    reading_sentences,
    sum_sentence,
)
from attnviz.pages.why.state import LOGIT_QUESTION, SCORE_QUESTION, WhyState
from attnviz.pages.why.tables import term_rows
from tests.support.shares_by_hand import AGAIN, MARY, ForwardPass
from tests.support.tiny_models import SMALL, TEXT

LOWERS = "It looks most at “{word}”, and directly lowers the logit of “{word}”."
LOOKS_FROM_TO_AT_MARY = (("question", SCORE_QUESTION), ("why-over", "0 · When"), ("why-side", "the query"))


def answered(*link: tuple[str, str]):
    state = WhyState.read(link)
    assert not state.problem
    assert not state.refused
    return why_answer(state)


def test_the_page_opens_with_a_head_that_looks_at_john() -> None:
    shown = answered()
    assert shown.attribution.total == pytest.approx(6.094, abs=1e-3)
    assert (shown.reading.layer, shown.reading.head, shown.reading.term.position) == (23, 3, 13)
    assert shown.reading.keys[shown.reading.strongest_key] == "John"
    assert question_sentence(shown) == "Why does it say “Mary” rather than “John” after “to”?"
    assert "6.09 above" in answer_sentence(shown)
    assert "443 times as likely" in answer_sentence(shown)
    assert reading_sentences(shown, shown.reading)[-1] == LOWERS.format(word="John")
    assert "301 writers at 14 positions" in sum_sentence(shown)


def test_a_head_is_said_to_lower_the_logit_of_the_token_that_it_lowers() -> None:
    shown = answered(("term", "24.4.13"))
    assert shown.term.share == pytest.approx(-1.09, abs=0.01)
    added, last = reading_sentences(shown, shown.reading)[-2:]
    assert "it adds −1.38 to the logit of “Mary” and −0.29 to that of “John”" in added
    assert last == LOWERS.format(word="Mary")


def test_a_head_against_the_difference_may_raise_the_token_it_looks_at() -> None:
    shown = answered(("term", "21.5.13"))  # raises “Mary”, and “John” more
    assert shown.term.share < 0
    assert shown.reading.keys[shown.reading.strongest_key] == "Mary"
    assert not any("lowers" in sentence for sentence in reading_sentences(shown, shown.reading))


def test_a_small_change_of_a_token_is_not_said_to_raise_or_to_lower_it() -> None:
    small = large = 0
    run, names = WhyState().run, (1, 3, 9)  # positions of “Mary” and of “John”
    for layer in range(30):
        for head in range(9):
            if int(run.weights(layer, head, 13).argmax()) in names:
                shown = answered(("term", f"{layer}.{head}.13"))
                assert shown.reading.keys[shown.reading.strongest_key] in ("Mary", "John")
                said = "directly" in reading_sentences(shown, shown.reading)[-1]
                small, large = small + (not said), large + said
    assert small > large > 0


def test_what_speaks_for_the_number_comes_first() -> None:
    shown = answered(("text", "She looked up at the clear blue"))
    shares = [row.term.share for row in term_rows(shown)]
    assert question_sentence(shown).startswith("Why does it say “sky” rather than “horizon”")
    assert shown.attribution.largest(1)[0].share < 0 < shown.attribution.total
    assert shown.term.share > 0
    assert largest_sentences(shown).startswith("The largest share for it is")
    assert " The largest share against it is" in largest_sentences(shown)
    assert [share > 0 for share in shares] == sorted((share > 0 for share in shares), reverse=True)
    sums = accumulate(shares, initial=shown.attribution.constant + shown.attribution.bias)
    assert [row.sum_so_far for row in term_rows(shown)] == [*map(signed, sums)][1:]


def test_what_makes_a_negative_number_comes_first() -> None:
    shown = answered(("trail", "value.24.4.13.1"))
    assert shown.attribution.total == pytest.approx(-1.16, abs=0.01)
    assert shown.term.share < 0
    assert largest_sentences(shown).startswith("The largest share against it is that of layer 0, MLP at “Mary”: −0.62")


def test_pictures_add_up_to_the_number() -> None:
    for shown in (answered(), answered(*LOOKS_FROM_TO_AT_MARY), answered(("why-model", TRANSLATOR))):
        total = shown.attribution.total
        assert np.nansum(shown.numbers.cells) == pytest.approx(total, abs=1e-4)
        rest = shown.attribution.constant + shown.attribution.bias
        assert shown.by_word.sum() + rest == pytest.approx(total, abs=1e-3)
        assert sum(shown.parts.values()) == pytest.approx(total, abs=0.03)
        rows = list(csv.reader(io.StringIO(shares_csv(shown).decode("utf-8-sig"))))[1:]
        assert sum(float(row[-1]) for row in rows) == pytest.approx(total, abs=1e-4)


def test_a_cell_of_the_grid_opens_its_largest_term() -> None:
    shown = answered()
    places = {(int(row) - 1, int(column)) for row, column in np.argwhere(np.isfinite(shown.numbers.cells))}
    assert {*shown.terms_by_place} == places - {(-1, 0)}, "the constant has no term"
    assert shown.terms_by_place[23, 3] == SumTerm(13, 23, 3)
    assert shown.terms_by_place[28, 9] == SumTerm(13, 28)
    assert f"{shown.numbers.name((23, 3))}: {shown.numbers.text((23, 3))}" == "layer 23, head 3: +2.95"
    assert shown.short_name(shown.attribution.largest(1)[0]) in ("23.3", "MLP 28")


def test_what_a_head_carries_is_a_share_of_the_whole() -> None:
    shown = answered(("trail", "value.23.3.13.9"))
    assert "48% of the +6.09" in answer_sentence(shown)
    assert shown.attribution.total == pytest.approx(2.949, abs=1e-3)
    assert len(shown.trail_drawing().spec.sentences) == 4  # the head, and the largest terms behind it
    again = answered(("trail", "value.29.1.13.13-value.23.3.13.9"))
    assert "13% of the +6.09" in answer_sentence(again)


def test_the_largest_head_is_followed_until_there_is_none() -> None:
    shown = answered()
    assert shown.next_step() == TrailStep("value", 23, 3, 13, 9)
    assert answered(("trail", "value.23.3.13.9")).next_step() is None  # MLPs wrote it


def test_a_score_is_asked_by_both_sides() -> None:
    shown = answered(*LOOKS_FROM_TO_AT_MARY)
    assert shown.attribution.total == pytest.approx(1.926, abs=1e-3)
    assert shown.attribution.heads[23, 0].sum() == pytest.approx(1.94, abs=0.01)
    assert question_sentence(shown) == "Why does layer 24, head 4 look from “to” at “Mary” rather than at “When”?"
    assert "6.9 times its weight" in answer_sentence(shown)
    by_key = answered(*LOOKS_FROM_TO_AT_MARY[:2])
    assert by_key.attribution.total == pytest.approx(shown.attribution.total, abs=1e-4)
    assert by_key.attribution.heads[23, 0].sum() != pytest.approx(1.94, abs=0.1)


@pytest.mark.parametrize("example", WHY_EXAMPLES, ids=lambda example: example.title)
def test_each_example_is_three_steps_that_say_what_is_there(example) -> None:
    assert len(example.steps) == 3
    answers = [answered(*link) for _text, link in example.steps]
    for number, shown in enumerate(answers):
        assert example.step_of(shown.state.link()) == number
    first, second, third = answers
    if example.title == "A capital":
        assert first.reading.keys[first.reading.strongest_source] == "France"
        assert second.attribution.largest(1)[0][1:4] == (3, 0, None)  # the first MLP, at “France”
        tree = circuit(third.sums[0])
        assert tree[0].term[1:4] == (4, 23, 4)
        assert third.columns[tree[0].source] == "France"
    if example.title == "A word again":
        assert first.reading.keys[first.reading.strongest_key] == "Baker"
        heads = [term for term in second.attribution.largest(50) if term.head is not None]
        assert (heads[0].layer, heads[0].head) == (18, 6)
        assert (third.reading.layer, third.reading.head) == (16, 0)
        assert third.reading.keys[third.reading.strongest_key] == "Mrs"


@torch.no_grad()
def test_what_examples_say_of_heads_is_measured() -> None:
    run = ForwardPass(MARY)
    assert run.logit(run.head(24, 4), "Mary") == pytest.approx(-1.38, abs=0.01)
    assert int(run.weights[24, 4, -1].argmax()) == MARY.split().index("Mary")
    assert run.logit(run.head(23, 3), "John") == pytest.approx(-3.04, abs=0.01)
    assert abs(run.logit(run.head(23, 3), "Mary")) < 0.1
    baker, last, induction = 3, 11, (18, 6)
    whole, unmarked = ForwardPass(AGAIN), ForwardPass(AGAIN, [(16, 0)], baker)
    for each, weight in ((whole, 0.74), (unmarked, 0.41)):
        assert float(each.weights[*induction, last, baker]) == pytest.approx(weight, abs=0.005)
    # What this example does not say: that another head looks there by what the induction head wrote alone.
    assert ForwardPass(AGAIN, [induction], last).weights[23, 1, last].argmax() == baker


def test_a_token_that_is_less_likely_is_said_to_be() -> None:
    shown = answered(("says", "John"))
    assert answer_sentence(shown) == ("The logit of “John” is 6.09 below that of “Mary”, which is 443 times as likely.")
    likely = shown.run.logits(13).softmax(-1)
    first, second = shown.state.tokens
    assert float(likely[second] / likely[first]) == pytest.approx(443, abs=1)


def test_an_encoder_is_asked_where_its_heads_look() -> None:
    shown = answered(("why-model", MINILM))
    assert shown.state.question == SCORE_QUESTION
    assert "look from “it” at “animal”" in question_sentence(shown)
    assert shown.attribution.total == pytest.approx(4.156, abs=1e-2)


def test_a_translator_is_asked_in_both_texts() -> None:
    said = answered(("why-model", TRANSLATOR), ("written", "la petite voiture"), ("after", "2 · petite"))
    assert said.columns[-4:] == ("<start>", "la", "petite", "voiture")
    assert said.state.question == LOGIT_QUESTION
    looks = answered(("why-model", TRANSLATOR), ("question", SCORE_QUESTION), ("why-layer", "decoder 1 cross"))
    assert looks.run.keys(looks.state.layer)[0] == "The"
    shares = looks.attribution
    encoder = sum(abs(term.share) for term in shares.terms if term.stack == "encoder")
    assert encoder > 0.9 * sum(abs(term.share) for term in shares.terms)  # the keys are the encoder's


@pytest.mark.parametrize("name", ["bert", "gpt2", "llama", "t5", "bart"])
def test_tiny_models_of_five_kinds_answer(saved, name) -> None:
    model, text = str(saved / name), TEXT
    shown = answered(("why-model", model), ("text", text))
    assert np.nansum(shown.numbers.cells) == pytest.approx(shown.attribution.total, abs=1e-3)
    shown.term_chart()
    shown.tree_drawing()
    assert page_view(why(shown.state)).panels
    looks = answered(
        ("why-model", model), ("text", text), ("question", SCORE_QUESTION), ("why-layer", shown.run.layers[0])
    )
    assert np.nansum(looks.numbers.cells) == pytest.approx(looks.attribution.total, abs=1e-3)


def test_the_other_token_is_another_one_than_that_which_is_said() -> None:
    assert answered(("says", "John")).state.other == "Mary"
    shown = answered(("text", "The capital of France is"))
    assert answered(*shown.state.link(), ("says", shown.state.other)).state.other == shown.state.token


def test_a_classifier_with_a_single_label_is_asked_for_its_logit(saved, tmp_path) -> None:
    torch.manual_seed(0)
    BertForSequenceClassification(BertConfig(vocab_size=120, num_labels=1, **SMALL)).save_pretrained(tmp_path)
    for file in ("tokenizer.json", "tokenizer_config.json"):
        (tmp_path / file).write_bytes((saved / "bert" / file).read_bytes())
    shown = answered(("why-model", str(tmp_path)), ("text", TEXT))
    assert shown.metric == Logit(0)
    assert question_sentence(shown) == "Why does it say “LABEL_0”?"


def test_two_logits_that_are_about_the_same_have_no_factor() -> None:
    shown = answered(("text", "日本の首都は東京です。フランスの首都は"))
    assert 0 < shown.attribution.total < 0.05
    assert "times" not in answer_sentence(shown)


def test_a_cap_of_logits_is_a_factor_that_is_named(saved) -> None:
    shown = answered(("why-model", str(saved / "gemma2")), ("text", TEXT))
    assert np.nansum(shown.numbers.cells) == pytest.approx(shown.attribution.total, abs=1e-3)
    assert shown.attribution.gates == ("Gemma2ForCausalLM",)


@pytest.mark.parametrize(
    ("link", "reason"),
    [
        ((("says", "#99999"),), "There is no token 99999"),
        ((("trail", "value.23.3.99.9"),), "no position 99"),
        ((("trail", "value.99.3.13.9"),), "no layer 99"),
        ((("trail", "key.24.4.3.9"),), "The mask forbids this key"),
        ((("text", "word " * 400),), "Give it at most 194"),
        ((("text", " "),), "Type a word or a sentence"),
        ((("why-model", "org/none"),), "org/none"),
        ((("says", "London"), ("rather-than", "London")), "London is compared with itself"),
        ((("question", SCORE_QUESTION), ("why-over", "1 · ␣Mary")), "The key is compared with itself"),
    ],
)
def test_what_is_not_there_is_said(link, reason) -> None:
    def shown():
        state = WhyState.read(link)
        if state.problem:
            raise ValueError(state.problem)
        return why_answer(state)

    with pytest.raises(ValueError, match=reason):
        shown()


@pytest.mark.parametrize("link", [("after", "99 · no"), ("term", "x"), ("trail", "x"), ("tree", "?")])
def test_what_a_link_cannot_say_is_named(link) -> None:
    state = WhyState.read([link])
    assert len(state.refused) == 1
    assert why_answer(state).attribution.total == pytest.approx(6.094, abs=1e-3)


def test_a_score_of_a_patch_is_a_sum_over_what_wrote_it(saved) -> None:
    link = (
        ("why-model", str(saved / "vit")),
        ("question", SCORE_QUESTION),
        ("why-layer", "layer 1"),
        ("why-from", "6 · 1·1"),
    )
    for side in ("the key", "the query"):
        shown = answered(*link, ("why-head", "2"), ("why-at", "8 · 1·3"), ("why-side", side))
        inputs = source_layers(shown.state.source)[1].inputs
        scores = inputs.query_of(2)[6] @ inputs.key_of(2).T / inputs.query.shape[-1] ** 0.5
        assert shown.attribution.total == pytest.approx(float(scores[8] - scores.mean()), abs=1e-5)
        parts = shown.attribution.constant + sum(term.share for term in shown.attribution.terms)
        assert parts == pytest.approx(shown.attribution.total, abs=1e-5)
        assert "Why does layer 1, head 2 look from “1·1” at “1·3”" in question_sentence(shown)


def test_a_click_on_the_picture_asks_about_a_patch(saved) -> None:
    state = WhyState.read([("why-model", str(saved / "vit")), ("question", SCORE_QUESTION)])
    [picture] = [block for block in every_block(why(state)) if getattr(block, "name", "") == "why-picture"]
    weights = state.run.weights(state.layer, state.head, state.query)
    np.testing.assert_allclose(picture.picture.spec.row.weights, weights[1:], atol=1e-6)
    assert WhyState.read(picture.opens(5, 0)).key == 6  # after [CLS]


def test_a_classifier_of_images_says_a_label_by_its_patches(saved) -> None:
    state = WhyState.read([("why-model", str(saved / "vit"))])
    shown = why_answer(state)
    with torch.no_grad():
        logits = state.source.model().model(**state.source.model().encode().batch).logits[0]
    assert shown.attribution.total == pytest.approx(float(logits.max() - logits.min()), abs=1e-5)
    names = {getattr(block, "name", "") for block in every_block(why(state))}
    assert "why-words" in names


def test_a_model_of_texts_with_pictures_is_refused(tmp_path) -> None:
    text = {"vocab_size": 60, "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    CLIPModel(CLIPConfig(text_config=text, vision_config=text | {"image_size": 32, "patch_size": 8})).save_pretrained(
        tmp_path
    )
    assert "reads texts together with images" in WhyState.read([("why-model", str(tmp_path))]).problem


def test_a_term_that_is_not_there_leaves_the_sum() -> None:
    shown = answered(("term", "29.8.99"))
    assert shown.term is None
    assert shown.term_chart() is None


def test_the_average_token_is_the_mean_logit() -> None:
    shown = answered(("rather-than", AVERAGE_TOKEN))
    logits = shown.run.logits(13)
    token, _other = shown.state.tokens
    assert shown.attribution.total == pytest.approx(float(logits[token] - logits.mean()), abs=1e-3)


def test_a_translator_has_the_names_of_its_layers_in_every_picture() -> None:
    shown = answered(("why-model", TRANSLATOR), ("tree", "true"))
    rows = shown.tree_drawing().figure.layout.yaxis.ticktext
    assert {"decoder 0 cross", "decoder 1 cross"} <= {*rows} <= {"words", *shown.run.layers}
    assert any(sentence.startswith("decoder 1, MLP") for sentence in shown.numbers.sentences)
    assert "3" in shown.tree_drawing().figure.data[0].text, "the row names the layer"


def test_the_average_token_has_its_name_in_each_language() -> None:
    assert WhyState.read([("rather-than", "das durchschnittliche Token")]).tokens[1] == "mean"


def test_tokens_are_known_by_their_names() -> None:
    run = answered().run
    for token, _probability in run.likeliest(13, 200):
        assert run.token_id(run.name(token)) == token
    assert run.name(run.token_id("Mary")) == "Mary"


def test_the_passes_of_a_model_end_with_it(saved) -> None:
    loaded = inspect_folder(saved / "llama").load()
    texts = ResultCache(2)
    _texts[loaded] = texts
    texts.once(lambda: read_text(loaded, TEXT), TEXT).attribution(Logit(5))
    models, passes = weakref.ref(loaded), weakref.ref(texts)
    del loaded, texts
    gc.collect()
    assert models() is None
    assert passes() is None


def test_lessons_check_what_the_page_shows() -> None:
    page = view("/why?term=24.4.13")
    numbers = why_quantities(answered(("term", "24.4.13")))
    assert page.quantities == pytest.approx(numbers)
    assert numbers["total"] == pytest.approx(6.094, abs=1e-3)
    assert numbers["share of 23.3"] == pytest.approx(2.95, abs=0.01)
    assert numbers["weight of Mary"] == pytest.approx(0.81, abs=0.01)
    assert numbers["share from Mary"] == pytest.approx(-1.16, abs=0.01)
    assert [panel.is_row for panel in page.panels] == [True] * 4
    assert page.panels[0].key_tokens[:3] == ["23.3 to", "29.1 to", "MLP 28 to"]
    assert page.to_svg().startswith("<svg")


def test_shares_have_a_scale_of_their_own_and_weights_are_the_file() -> None:
    page = page_view(why(WhyState()))
    terms, _words, weights, shares = page.panels
    assert page.maps == (weights,)
    assert page.end(weights) == weights.weights.max() < 1 < page.end(shares) <= page.end(terms)
    assert page.writers[".csv"]().decode("utf-8-sig").splitlines()[0].startswith(",When,Mary,and,John")
    of_mlp = page_view(why(WhyState.read([("term", "mlp.28.13")])))
    assert of_mlp.maps == ()
    assert "2.95" in of_mlp.writers[".csv"]().decode("utf-8-sig")
    with pytest.raises(ValueError, match="These panels have different sizes"):
        of_mlp.writers[".npz"]()


def test_the_colors_of_a_sum_say_what_they_are_for() -> None:
    for link, word in (
        ((), "Mary"),
        ((("trail", "value.24.4.13.1"),), "Mary"),
        (LOOKS_FROM_TO_AT_MARY, "Mary"),
        ((("trail", "query.23.3.13.9"),), "John"),
        ((("trail", "query.23.3.13.9-value.22.4.13.1"),), "John"),
    ):
        bar = answered(*link).numbers.chart().figure.layout.coloraxis3.colorbar
        assert bar.ticktext[0].startswith("against −")
        assert bar.ticktext[-1].endswith(f" for “{word}”")
