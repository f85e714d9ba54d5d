"""Links to Why: what is asked is the weight or the next token that the link is beside."""

from dataclasses import replace

import pytest
import torch

from attnviz.analysis.head_maps import Aggregate, Special
from attnviz.attribution.linearized_pass import most_tokens
from attnviz.attribution.named_pass import MOST_BYTES
from attnviz.layer import LayerId
from attnviz.masks import Causal
from attnviz.models import MINILM, SMOLLM2, TRANSLATOR
from attnviz.page.selection import Selection
from attnviz.page.session_fields import LONGEST_LINK
from attnviz.pages.why.links import score_links, selection_links, text_of_model, text_of_writer
from attnviz.pages.why.state import LOGIT_QUESTION, SCORE_QUESTION, WhyState
from attnviz.pages.write.state import decoder_layers
from attnviz.sources import Model, Toy
from attnviz.sources.model import TRANSLATED
from attnviz.sources.upload import File
from attnviz.sources.written import Written

CAT = "the cat sat on the mat"


def selection(source, layer=0, head=1, **more):
    return Selection(source=source, layers=source.layers(), index=layer, head=head, **more)


def opened(link):
    """The state of a link, all of which is taken."""
    state = WhyState.read(link)
    assert (state.problem, state.refused) == ("", ())
    return state


def source_of(name, saved):
    text = TRANSLATED if name == TRANSLATOR else CAT
    return Model(text, name if name in (MINILM, SMOLLM2, TRANSLATOR) else str(saved / name))


@pytest.mark.parametrize("name", [MINILM, SMOLLM2, TRANSLATOR, "bert", "gpt2", "gemma2", "t5", "bart"])
def test_a_weight_has_the_link_of_its_layer_head_and_tokens(name, saved, isolated):
    source = replace(source_of(name, saved), text_alone=True)
    for layer in {0, len(source.layers()) // 2, len(source.layers()) - 1}:
        chosen = selection(source, layer)
        query, key = chosen.inputs.queries - 1, chosen.inputs.keys // 2
        state = opened(selection_links(chosen).link(query, key))
        assert (state.source, state.question) == (source, SCORE_QUESTION)
        assert (state.layer, state.head, state.query, state.key, state.over) == (layer, 1, query, key, "mean")
        weights = chosen.layer.maps([1])[0].nan_to_num()
        torch.testing.assert_close(state.run.weights(layer, 1, query), weights[query], atol=1e-4, rtol=0)


def test_the_decoder_of_a_link_has_written_the_same_text():
    source = Model(TRANSLATED, TRANSLATOR, "la petite", text_alone=True)
    chosen = selection(source, 5)
    state = opened(selection_links(chosen).link(2, 4))
    assert (state.source, state.run.queries(5)[2], state.run.keys(5)[4]) == (source, "petite", "is")


def test_positions_are_those_of_all_tokens_where_some_are_hidden():
    chosen = selection(Model(), 3, special=Special.HIDDEN)
    state = opened(selection_links(chosen).link(chosen.queries[9], chosen.keys[1]))
    assert (state.query, state.key) == (10, 2)


def test_what_why_cannot_be_asked_about_has_no_link(saved, isolated):
    chosen = selection(Model(), 3)
    other = chosen.with_mechanism(replace(chosen.mechanism, mask=Causal()))
    named = [replace(layer, id=LayerId("encoder", layer.id.index, sub_indices=(1,))) for layer in chosen.layers]
    long = "cat " * (LONGEST_LINK // 4)
    most = most_tokens(Model(name=SMOLLM2).model().model, MOST_BYTES)
    without = [
        selection(Toy()),
        replace(chosen, head=Aggregate.MEAN),
        other,
        replace(chosen, layers=named),
        selection(Model(pair="It slept.")),
        selection(Model(f"{long}.")),
        selection(Model("cat" * 2 + " cat" * (most + 1), SMOLLM2)),
    ]
    assert [selection_links(each) for each in without] == [None] * len(without)
    for source in (Model(long), Model("cat" + " cat" * (most - 1), SMOLLM2)):
        assert selection_links(selection(source)) is not None
    assert text_of_model(Model(name=str(saved / "vit"), image=File("a.png", b""))) is None  # which no link has


def test_a_patch_of_a_drawing_has_the_link_of_its_score(saved):
    source = Model(name=str(saved / "vit"), drawing="shapes")
    state = opened(text_of_model(source).score_link(source.layers()[1].id, 2, query=6, key=9))
    assert (state.layer, state.head, state.query, state.key, state.drawing) == (1, 2, 6, 9, "shapes")
    assert selection_links(selection(source)).in_general is None  # which Heads says of texts alone


def test_a_next_token_has_the_link_of_its_place_and_of_another_token():
    source = Model(CAT, SMOLLM2)
    (first, _p), (second, _q) = opened(text_of_model(source).link(LOGIT_QUESTION)).run.likeliest(-1, 2)
    state = opened(text_of_model(source).token_link(first, second))
    assert (state.question, state.position, state.tokens) == (LOGIT_QUESTION, len(CAT.split()) - 1, (first, second))


WRITTEN = [Written(), Written("Who are you?", is_chat=True, tokens=4), Written(TRANSLATED, TRANSLATOR)]


@pytest.mark.parametrize("source", WRITTEN, ids=["text", "chat", "translator"])
def test_a_written_token_has_the_link_to_its_logit(source):
    text = source.write()
    read, first = text_of_writer(source, text), text.prompt_length - text.encoder_length - 1
    for number, step in enumerate(text.steps):
        other = step.alternatives[1]
        state = opened(read.token_link(step.token_id, other.token_id, first + number))
        assert state.tokens == (step.token_id, other.token_id)
        likeliest = state.run.likeliest(state.position, 2)
        assert [token for token, _ in likeliest] == [one.token_id for one in step.alternatives[:2]]
        assert likeliest[1][1] == pytest.approx(other.probability, abs=1e-4)


@pytest.mark.parametrize("source", WRITTEN, ids=["text", "chat", "translator"])
def test_a_weight_of_a_written_text_has_a_link(source):
    text = source.write()
    layers, read = decoder_layers(text), text_of_writer(source, text)
    for index in (0, len(layers) - 1):
        layer = layers[index]
        state = opened(score_links(read, layer, 2).link(layer.inputs.queries - 1, 1))
        weights = layer.maps([2])[0, -1]
        own = state.run.weights(state.layer, 2, state.query)
        torch.testing.assert_close(own[: len(weights)], weights.nan_to_num(), atol=1e-5, rtol=0)


def test_a_text_that_is_encoded_otherwise_has_no_links():
    half = Written("Smile: 😀 😀 😀", tokens=1)
    text = half.write()
    steps = tuple(replace(step, token_id=242) for step in text.steps)  # a part of the bytes of a character
    assert text_of_writer(half, text) is not None
    assert text_of_writer(half, replace(text, steps=steps)) is None
    assert score_links(None, text.trace[0], 0) is None


def test_a_token_is_named_by_its_word_or_else_by_its_number():
    inputs = Model(name=SMOLLM2).model().text_inputs
    rome, number = inputs.word_ids("Rome"), inputs.word_ids("#1")
    assert inputs.token_name(rome[0]) == "Rome"
    letters = inputs.tokenizer("Rome")["input_ids"]
    assert [inputs.token_name(token) for token in letters] == [f"#{token}" for token in letters]
    assert all(inputs.token_name(token).startswith("#") for token in number[:1])
