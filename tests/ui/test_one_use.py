"""The maps of the three uses of attention: as they ran, as they are marked, and what the page says of them."""

import json
from functools import cache, partial
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import torch
from streamlit.testing.v1 import AppTest

from attnviz.masks import Full
from attnviz.models.interventions import Intervention
from attnviz.state.transformer import HEAD_NAMES, agreement, first_head
from attnviz.translator import VARIANTS, Translator, generate_sentences, load
from attnviz.translator.encoder_decoder import USE_LAYERS, USES, ForwardPass, Use
from attnviz.translator.grammar import ADJECTIVE, NOUN, Sentence
from attnviz.translator.translation import source_ids, target_ids
from attnviz.ui.transformer import one_use, three_uses
from attnviz.views.translator_maps import use_maps
from tests.support.app import contents, open_page

ROOT = Path(__file__).parents[2]
NEGATED = "the old king does not see the young birds ."
LONGEST = "is her white apple of every beautiful flower pretty under these letters of an apple ?"
SHORTEST = "I dance ."


page = partial(open_page, "transformer")


@cache
def some(count: int) -> list[Sentence]:
    return list(islice(generate_sentences("test"), count))


@pytest.mark.parametrize("text", [SHORTEST, NEGATED, LONGEST])
@pytest.mark.parametrize("use", USES)
def test_maps_are_what_ran_and_keep_their_size(use: Use, text: str) -> None:
    translation = load().translate(text)
    english, words = len(translation.english), len(translation.steps)
    for step, at in enumerate(translation.steps):
        actual = use_maps(translation, use, step)
        ran = torch.cat([one.weights[0] for one in at.records if one.use == use]).numpy()
        rows, keys = english if use == "encoder" else step + 1, step + 1 if use == "decoder" else english
        size = {"encoder": (english, english), "decoder": (words, words)}.get(use, (words, english))
        allowed = np.tri(*size, dtype=bool) if use == "decoder" else np.ones(size, dtype=bool)
        done = allowed & (np.arange(size[0])[:, None] < rows) & (np.arange(size[1]) < keys)
        expected = np.full((8, *size), np.nan)
        expected[:, done] = ran[:, done[:rows, :keys]]
        np.testing.assert_allclose(actual.weights, expected, atol=1e-6)
        np.testing.assert_array_equal(actual.coming, np.broadcast_to(allowed & ~done, (8, *size)))


def test_rows_are_named_by_what_goes_in_and_comes_out() -> None:
    translation = load().translate(SHORTEST)
    assert use_maps(translation, "encoder").queries == ("I", "dance", ".")
    rows = ("<start> → je", "je → danse", "danse → .", ". → <end>")
    assert use_maps(translation, "decoder").queries == use_maps(translation, "cross").queries == rows
    assert use_maps(translation, "decoder").keys == ("<start>", "je", "danse", ".")
    assert use_maps(translation, "cross").keys == ("I", "dance", ".")


def test_words_to_come_with_a_full_mask_and_with_an_ablated_head() -> None:
    seeing = load().translate(NEGATED, [Intervention(mask=Full(), ablated=((4, 2),), layers=USE_LAYERS["decoder"])])
    shown = use_maps(seeing, "decoder", 3)
    assert not np.isnan(shown.weights[0, :4, :4]).any()
    assert shown.coming[0, :4, 4:].all()
    assert shown.coming[0, 4:].all()
    assert np.isnan(shown.weights[6]).all()
    assert not shown.coming[6].any()


@pytest.mark.parametrize("variant", VARIANTS)
def test_agreement_of_one_sentence_is_that_of_the_library(variant: str) -> None:
    translator, compared = load(variant), 0
    for sentence in some(12):
        shown = use_maps(translator.translate(" ".join(sentence.english)), "cross")
        if shown.true:
            words = len(sentence.french)
            expected = (translator.agreement([sentence]) * words).flatten().round().int().tolist()
            assert [shown.agreed(head) for head in range(8)] == expected
            compared += 1
    assert compared > 8


def test_the_true_alignment_is_outlined_in_the_rows_that_are_there() -> None:
    shown = use_maps(load().translate(NEGATED), "cross", 5)
    # le vieux roi ne voit pas: "ne" and "pas" both stand for "not".
    expected = [(0, 0), (1, 1), (2, 2), (3, 4), (4, 5), (5, 4)]
    assert shown.marked == expected
    chart = one_use.head_figure(shown, 7, largest=1.0)
    outlined = {(round((one.y0 + one.y1) / 2), round((one.x0 + one.x1) / 2)) for one in chart.figure.layout.shapes}
    assert outlined == set(expected)
    cells = chart.spec.cell_sentences
    assert {cell for cell, words in cells.items() if "translates" in words} == set(expected)
    assert cells[6, 0] == cells[10, 9] == "“{query}” comes in a later step."
    assert (5, 0) not in cells


def test_masked_cells_and_words_to_come_look_and_read_differently() -> None:
    chart = one_use.head_figure(use_maps(load().translate(NEGATED), "decoder", 3), 0, largest=1.0)
    cells = chart.spec.cell_sentences
    assert cells[4, 0] == "“{query}” comes in a later step."  # a row to come
    assert (0, 4) not in cells  # masked, whatever comes
    assert (4, 5) not in cells
    assert chart.spec.sentences.masked == "“{query}” may not look at “{key}”."
    covered = ~np.isnan(chart.figure.data[1].z)
    assert covered[4, 0]
    assert not covered[4, 5]
    assert not covered[:4].any()
    labels = chart.spec.query_labels
    assert ["span" in label for label in labels] == [False] * 4 + [True] * (len(labels) - 4)


def test_nothing_is_outlined_where_no_true_alignment_is_known() -> None:
    shown = use_maps(load().translate("cat the sleeps red"), "cross")
    assert not shown.marked
    assert not one_use.head_figure(shown, 0, largest=1.0).figure.layout.shapes


def described(words: tuple[str, ...], place: int) -> int | None:
    """The place of the noun that an adjective describes: the one before which it stands, or the subject."""
    after = next((i for i in range(place + 1, len(words)) if words[i] not in ADJECTIVE), None)
    if after is not None and words[after] in NOUN:
        return after
    first = next((i for i in range(place) if words[i] in NOUN), None)
    return first if words[0] not in ("I", "he", "she", "they", "who") else None


def looked(translator: Translator, examples: list[Sentence]) -> dict[Use, torch.Tensor]:
    """Where each word of each sentence looks most: sentences, layers times heads, words."""
    english, records = [one.english for one in examples], []
    forward_pass = ForwardPass(lengths=torch.tensor([len(words) for words in english]), records=records)
    memory = translator.model.encode(source_ids(english), forward_pass)
    translator.model.decode(target_ids([one.french for one in examples]), memory, forward_pass)
    return {use: torch.cat([one.weights for one in records if one.use == use], 1).argmax(-1) for use in USES}


@pytest.mark.parametrize("variant", VARIANTS)
def test_what_is_said_of_the_telling_heads_is_so(variant: str) -> None:
    translator = load(variant)
    examples = some(150)
    top = looked(translator, examples)
    nouns, negations = [], []
    for sentence, encoder, decoder in zip(examples, top["encoder"], top["decoder"], strict=True):
        for place, word in enumerate(sentence.english):
            if word in ADJECTIVE and (noun := described(sentence.english, place)) is not None:
                nouns.append(int(encoder[first_head("encoder", translator), place]) == noun)
        if "pas" in sentence.french:
            (ne,) = (i for i, word in enumerate(sentence.french) if word in three_uses.NE)
            # Row i is where word i comes out; column i + 1 is word i, after <start>.
            row = decoder[first_head("decoder", translator), sentence.french.index("pas")]
            negations.append(int(row) == ne + 1)
    assert len(nouns) > 100
    assert np.mean(nouns) > 0.7  # "most"
    assert len(negations) > 20
    assert np.mean(negations) > 0.9


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_head_that_is_shown_first_agrees_most(variant: str) -> None:
    translator = load(variant)
    found = translator.agreement(some(150)).flatten()
    first = first_head("cross", translator)
    assert found[first] > found.max() - 0.02  # of fewer sentences than the log's
    assert agreement(translator)[first] == max(agreement(translator))


def test_the_page_shows_three_uses_and_the_score_of_the_head() -> None:
    app = page(english=NEGATED)
    words = contents(app)
    for name in USES.values():
        assert f"**{name}**" in words
    shown = use_maps(load().translate(NEGATED), "cross")
    assert f"**{shown.agreed(7)} of 10 words**" in words
    assert "97% in 500 test sentences" in words
    assert three_uses.HEAD_NOTES["encoder"] in words
    assert three_uses.HEAD_NOTES["decoder"] in words
    other = contents(app.selectbox(key="cross-head").select("Layer 1, head 2").run())
    assert f"**{shown.agreed(6)} of 10 words**" in other
    assert "71% in 500 test sentences" in other


def test_what_a_sentence_does_not_have_is_not_said() -> None:
    words = contents(page(english=SHORTEST))
    assert three_uses.HEAD_NOTES["encoder"] not in words
    assert three_uses.HEAD_NOTES["decoder"] not in words


def test_a_sentence_that_the_grammar_does_not_know_has_no_score() -> None:
    words = contents(page(english="cat the sleeps red"))
    assert "The grammar does not know this sentence" in words
    assert "look most at a word" not in words


@pytest.mark.parametrize(
    ("row", "pinned"), [("2 · king", 2), *((no, None) for no in ("2 · cat", "2", "99", "-1", "²", "", "9" * 5000))]
)
def test_a_link_pins_a_row_of_the_encoder_or_none(row: str, pinned: int | None) -> None:
    app = page(english=NEGATED, encoder_row=row)
    sent = [one.proto.bytes for one in app.get("bidi_component")]
    headers = [json.loads(bytes_[8 : 8 + int.from_bytes(bytes_[:8], "little")]) for bytes_ in sent]
    assert [one["pinned"] for one in headers if one["key"] == "encoder-map"] == [pinned]


def script() -> None:
    import streamlit as st

    from attnviz.ui.transformer import controls

    st.text(str(controls.choose_heads(st.session_state.get("variant", "scaled dot"))["cross_head"]))


def test_a_head_follows_the_translator_until_one_is_chosen() -> None:
    app = AppTest.from_function(script).run()
    best = {variant: str(first_head("cross", load(variant))) for variant in VARIANTS}
    assert app.text[0].value == best["scaled dot"]
    for variant in ("additive", "general", "scaled dot"):
        app.session_state["variant"] = variant
        assert app.run().text[0].value == best[variant]
    app.selectbox(key="cross-head").select(HEAD_NAMES[2]).run()
    for variant in ("additive", "general"):
        app.session_state["variant"] = variant
        assert app.run().text[0].value == "2"
    assert not app.exception
