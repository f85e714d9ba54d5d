"""What a model says under two masks: the numbers are those of the model itself, with its weights changed by hand or its
mask given as an argument."""

from functools import partial

import numpy as np
import pytest
import torch
import transformers as hf

from attnviz.base.formatting import number
from attnviz.base.text import EXAMPLE
from attnviz.effects.intervention_run import Candidate, TokenLabel, run_with_interventions
from attnviz.masks import Band, Causal, Full, SinksAndWindow, SlidingWindow
from attnviz.models import SMOLLM2, model_cache
from attnviz.models.interventions import Intervention
from attnviz.models.minilm import minilm
from attnviz.normalizers import Softmax
from attnviz.page.blocks import Figure, Summary, Unavailable, every_block
from attnviz.pages.masks.blocks import masks
from attnviz.pages.masks.model_output import (
    candidate_sentence,
    model_output,
    similarity_sentence,
    token_label_sentence,
    vector_sentence,
)
from attnviz.pages.masks.state import EVERYWHERE, HERE, SAME_KIND, MasksState, layer_places
from attnviz.sources import Model, Toy
from tests.models.test_interventions import SMALL, TEXT, bart, bert, bloom, llama, reads

OTHER = "The dog ran over the road."


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


def shown(state: MasksState) -> tuple[str, dict[str, list[np.ndarray]]]:
    """The main sentence about the model, and the bars of each chart."""
    blocks = [*every_block(model_output(state))]
    [sentence] = [block.content for block in blocks if isinstance(block, Summary)]
    bars = {
        block.name: [np.array(trace.y, dtype=float) for trace in block.picture.figure.data]
        for block in blocks
        if isinstance(block, Figure)
    }
    return str(sentence), bars


def vector(intervention: Intervention, text: str = EXAMPLE, pair: str | None = None) -> torch.Tensor:
    return run_with_interventions(minilm(), [intervention], text, pair).output


def test_a_vector_is_compared_with_that_under_the_other_mask() -> None:
    sentence, bars = shown(MasksState(source=Model(EXAMPLE), mask_a=Band(1), mask_b=Causal()))
    both = [vector(Intervention(mask)) for mask in (Band(1), Causal())]
    angle = float(torch.nn.functional.cosine_similarity(*(each.double() for each in both), dim=0))
    assert f"a cosine of {angle:.3f}." in sentence
    assert not bars


def test_both_have_the_normalizer_and_its_own_mask_changes_nothing() -> None:
    state = MasksState(source=Model(EXAMPLE), mask_b=Full(), normalizer=Softmax(4.0))
    assert [each.normalizer for each in state.interventions] == [Softmax(4.0)] * 2
    assert [each.mask for each in state.interventions] == [None, None]
    assert "a cosine of 1.000." in shown(state)[0]


def test_two_sentences_have_a_cosine_under_each() -> None:
    state = MasksState(source=Model(EXAMPLE, pair=OTHER), mask_b=Causal())
    own = [minilm().output(minilm().encode(text)).double() for text in (EXAMPLE, OTHER)]
    changed = [vector(Intervention(Causal()), text).double() for text in (EXAMPLE, OTHER)]
    before, after = (float(torch.nn.functional.cosine_similarity(*pair, dim=0)) for pair in (own, changed))
    assert f"a cosine of {before:.3f} under A and {after:.3f} under B." in shown(state)[0].replace("−", "-")


def test_the_next_token_is_what_the_changed_model_says(folder) -> None:
    path = folder(llama)
    state = MasksState(source=Model(TEXT, path), mask_a=Causal(), mask_b=SlidingWindow(2))
    sentence, bars = shown(state)
    model = model_cache.model(path)
    inputs = model.encode(TEXT)
    count = inputs.batch["input_ids"].shape[1]
    window = torch.ones(count, count).tril().triu(-1)[None, None].bool()
    with torch.no_grad():
        before = model.model(**inputs.batch).logits[0].double()
        after = model.model(input_ids=inputs.batch["input_ids"], attention_mask=window).logits[0].double()
    p, q = before[-1].softmax(-1), after[-1].softmax(-1)
    first = sorted(range(len(p)), key=lambda i: -max(p[i], q[i]))[:10]
    np.testing.assert_allclose(bars["model-next"], [p[first], q[first]], atol=1e-5)
    bits = float((p * (p / q).log2()).sum())
    assert bits > 1e-3
    assert f"KL(A ‖ B) is {number(bits)} bits." in sentence
    ids = inputs.batch["input_ids"][0, 1:, None]
    text = [logits[:-1].softmax(-1).gather(-1, ids)[:, 0] for logits in (before, after)]
    np.testing.assert_allclose(bars["model-text"], torch.stack(text), atol=1e-5)


def test_laid_over_a_causal_mask_the_full_one_is_the_model_as_trained(folder) -> None:
    source = Model(TEXT, folder(llama))
    state = MasksState(source=source, laid_over=True, mask_b=Band(1))
    assert state.interventions[0].is_empty
    assert [mechanism.mask.describe() for mechanism in state.mechanisms] == [
        "A query sees itself and all keys before it.",
        "A query sees itself and the key before it.",
    ]
    replaced = MasksState(source=source, mask_a=Causal(), mask_b=SlidingWindow(2))
    assert shown(state)[0] == shown(replaced)[0]


def test_of_an_encoder_and_a_decoder_it_is_the_decoders_next_token(folder) -> None:
    path = folder(bart)
    layers = Model(TEXT, path, "the cat sat").layers()
    index = next(i for i, layer in enumerate(layers) if layer.id.cross)
    cross = layer_places(layers, index)[SAME_KIND]
    assert all(layers[i].id.cross for i in cross)
    state = MasksState(source=Model(TEXT, path, "the cat sat"), layer=index, mask_a=Full(), mask_b=~Full())
    assert state.model_layers == cross
    _sentence, bars = shown(state)
    model = model_cache.model(path)
    read = model.encode(TEXT, "the cat sat")
    before = model.output(read)
    for layer in model.model.model.decoder.layers:  # what no head of the cross-attention adds
        layer.encoder_attn.v_proj.weight.data *= 0
        layer.encoder_attn.v_proj.bias.data *= 0
    after = model.output(read)
    assert (before - after).abs().max() > 1e-3
    p, q = before.softmax(-1), after.softmax(-1)
    first = torch.maximum(p, q).argsort(descending=True, stable=True)[:10]
    np.testing.assert_allclose(bars["model-next"], [p[first], q[first]], atol=1e-5)


def classifier(kind="BertForSequenceClassification", labels=("<b>good</b>", "bad"), **more):
    config = hf.BertConfig(**SMALL, max_position_embeddings=64, id2label=dict(enumerate(labels)), **more)
    model = getattr(hf, kind)(config)
    model.classifier.weight.data *= 100
    return model


def test_labels_scores_and_labels_of_tokens(folder) -> None:
    path = folder(classifier)
    sentence, bars = shown(MasksState(source=Model(TEXT, path)))
    model = model_cache.model(path)
    p, q = (
        output.softmax(-1)
        for output in (
            model.output(model.encode(TEXT)),
            run_with_interventions(model, [Intervention(Causal())], TEXT).output,
        )
    )
    order = torch.maximum(p, q).argsort(descending=True, stable=True)
    np.testing.assert_allclose(bars["model-next"], [p[order], q[order]], atol=1e-5)
    assert "likeliest label" in sentence
    score, bars = shown(MasksState(source=Model(TEXT, folder(partial(classifier, labels=("score",))))))
    assert score.startswith("The model’s score is ")
    assert not bars
    tokens, bars = shown(MasksState(source=Model(TEXT, folder(partial(classifier, "BertForTokenClassification")))))
    assert "likeliest label" in tokens
    assert not bars


def test_only_a_model_that_says_something_is_run(folder) -> None:
    for source in (Toy("a b c"), Model(TEXT, folder(bert))):
        blocks = [*every_block(masks(MasksState(source=source)))]
        assert not [block for block in blocks if getattr(block, "name", "") == "model-output"]
    [refusal] = masks(MasksState(source=Model(TEXT, folder(bloom))))
    assert isinstance(refusal, Unavailable)


@pytest.mark.parametrize("where", [EVERYWHERE, HERE])
def test_a_link_says_in_which_layers_the_model_has_the_masks(where: str) -> None:
    state = MasksState.read([("text", EXAMPLE), ("model-layers", where), ("mask-b", "band(1)")])
    assert not state.refused
    assert MasksState.read(state.link()) == state
    assert state.model_layers == (tuple(range(6)) if where == EVERYWHERE else (state.layer,))
    both = [vector(Intervention(Band(1), layers=state.model_layers)), minilm().output(minilm().encode(EXAMPLE))]
    angle = float(torch.nn.functional.cosine_similarity(*(each.double() for each in both), dim=0))
    assert f"a cosine of {angle:.3f}." in shown(state)[0]


def test_the_sentence_about_candidates() -> None:
    stays = [Candidate("cat", 0, 0.5, 0.25), Candidate("dog", 1, 0.25, 0.125)]
    assert candidate_sentence(stays, 0.5, "next token") == (
        "Under A and under B the likeliest next token is “cat”, with 0.50 and 0.25. KL(A ‖ B) is 0.50 bits."
    )
    turns = [Candidate("cat", 0, 0.5, 0.25), Candidate("\n", 1, 0.25, 0.625)]
    assert candidate_sentence(turns, None, "next token") == (
        "Under A the likeliest next token is “cat”, with 0.50 (0.25 under B); under B it is “␊”, with 0.63 (0.25 "
        "under A)."
    )
    assert "is infinitely many bits." in candidate_sentence(stays, float("inf"), "label")


def test_the_sentence_about_labels_of_tokens() -> None:
    labels = [TokenLabel(0, "O", "O"), TokenLabel(1, "O", "B-PER")]
    one = "1 of 2 tokens has another likeliest label under B: cat (O → B-PER)."
    assert token_label_sentence(labels, ["the", "cat"]) == one
    assert token_label_sentence(labels[:1], ["the"]) == "Each token has the same likeliest label under A and under B."
    many = token_label_sentence([TokenLabel(i, "O", "X") for i in range(6)], "abcdef")
    assert many.endswith("a (O → X), b (O → X), c (O → X), d (O → X), e (O → X), …")


def test_the_sentences_about_vectors() -> None:
    assert "a cosine of 0.998." in vector_sentence(0.99787)
    assert "a cosine of 0.500 under A and −0.250 under B." in similarity_sentence(0.5, -0.25)


def test_the_probabilities_of_a_text_are_quantities_of_both_masks() -> None:
    text = "The animal didn't cross the street because it was too tired."
    state = MasksState(source=Model(text, SMOLLM2), laid_over=True, mask_b=SinksAndWindow(1, 4))
    [summary] = [block for block in every_block(model_output(state)) if isinstance(block, Summary)]
    quantities = summary.quantities() if summary.quantities else {}
    assert quantities["mean probability under A"] == pytest.approx(0.21, abs=0.005)
    assert quantities["mean probability under B"] == pytest.approx(0.18, abs=0.005)
    names = [name for name in quantities if name.endswith("under B")]
    assert "probability of ␣animal under B" in names
