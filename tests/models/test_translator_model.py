"""The translator as a model of transformers: its attention and its words are those of the Transformer page."""

import pytest
import torch

from attnviz import translator as own
from attnviz.layer import Fidelity
from attnviz.models import TRANSLATOR, load
from attnviz.models.random_tokens import repeated_random_tokens
from attnviz.models.sampling import Sampler
from attnviz.models.token_choices import TokenChoice
from attnviz.models.translator import translator
from attnviz.models.written_text import Ending, Writers
from attnviz.translator.encoder_decoder import TARGET_VOCABULARY
from attnviz.translator.translation import TARGET_IDS

GENERATED = [" ".join(sentence.english) for sentence, _ in zip(own.generate_sentences("test"), range(6), strict=False)]


def written(text, count=32, choices=()):
    return Writers(1 << 30).write(count, translator(), text, Sampler(), choices)


@pytest.mark.parametrize("text", [*own.EXAMPLES, *GENERATED])
def test_its_layers_are_those_of_its_own_translation(text):
    translation, trace = own.load().translate(text), translator().layers(text)
    assert not trace.missing
    assert {layer.fidelity for layer in trace} == {Fidelity.VERIFIED}
    expected = translation.layers()
    assert [(layer.id, layer.kind) for layer in trace] == [(layer.id, layer.kind) for layer in expected]
    for layer, other in zip(trace, expected, strict=True):
        torch.testing.assert_close(layer.maps(), other.maps(), atol=2e-6, rtol=0, equal_nan=True)
    encoder, decoder = trace[0].inputs, trace[-1].inputs
    assert encoder.query_tokens == decoder.key_tokens == translation.english
    assert decoder.query_tokens == translation.decoder_inputs


@pytest.mark.parametrize("text", own.EXAMPLES)
def test_it_writes_the_translation_with_the_same_probabilities(text):
    translation, text = own.load().translate(text), written(text)
    assert text.ending is Ending.END_TOKEN
    assert "".join(text.parts[text.prompt_length - 1 :]) == f"<start> {translation.text}<end>".replace(" ?", "?")
    assert [step.token for step in text.steps] == [step.word for step in translation.steps]
    for step, other in zip(text.steps, translation.steps, strict=True):
        assert step.probability == pytest.approx(float(other.probabilities[TARGET_IDS[other.word]]), abs=1e-6)
        likeliest = [(one.token, pytest.approx(one.probability, abs=1e-6)) for one in step.alternatives]
        best = other.probabilities.topk(len(likeliest))
        names = [TARGET_VOCABULARY[index] for index in best.indices]
        assert [*zip(names, best.values.tolist(), strict=True)] == likeliest


def test_it_goes_on_after_another_word_as_with_teacher_forcing():
    [une] = translator().text_inputs.word_ids("une")
    text = written("I see a cat.", choices=[TokenChoice(2, (une,))])
    words = [step.token for step in text.steps][:-1]
    assert words[2] == "une"
    forced = own.load().teacher_forced(own.tokenize("I see a cat."), tuple(words))
    for step, other in zip(text.steps, forced.steps, strict=True):
        assert step.probability == pytest.approx(float(other.probabilities[TARGET_IDS[other.word]]), abs=1e-6)
    for layer, other in zip(text.trace, forced.layers(), strict=True):
        torch.testing.assert_close(layer.maps(), other.maps(), atol=2e-6, rtol=0, equal_nan=True)


def test_its_words_are_those_that_were_typed():
    trace = translator().layers("The cats don’t sleep", "L’enfant dort !")
    assert trace[0].inputs.query_tokens == ("The", "cats", "do", "n’t", "sleep", ".")
    assert trace[-1].inputs.query_tokens == ("<start>", "L’", "enfant", "dort", "!")
    assert trace[-1].inputs.special_queries == (0,)
    batch = translator().encode("The cats don’t sleep", "L’enfant dort !").batch
    same = translator().encode("the cats do not sleep .", "l' enfant dort .").batch
    assert all(torch.equal(batch[name], same[name]) for name in batch)


@pytest.mark.parametrize(
    ("texts", "sentence"),
    [
        (("the zebra sleeps",), "knows 180 words, but not “zebra”"),
        (("the cat sleeps", "le zèbre dort"), "knows 251 words, but not “zèbre”"),
        (("the cat " * 9,), "This text has 19 tokens, and this translator reads at most 16"),
        (("the cat sleeps", "le chat " * 13), "reads at most 24"),
    ],
)
def test_what_it_cannot_read_is_refused_in_its_own_words(texts, sentence):
    with pytest.raises(ValueError, match=sentence):
        translator().layers(*texts)


def test_random_tokens_are_of_the_language_that_each_side_reads():
    batch, source, target = repeated_random_tokens(translator().text_inputs, 0, decoder=True)
    count = len(batch["input_ids"][0])
    assert count == 22
    english, french = source.tokens, target.tokens[1:]
    assert english[: count // 2] == english[count // 2 :]
    assert french[: len(french) // 2] == french[len(french) // 2 :]
    assert {*english} <= {*own.encoder_decoder.SOURCE_VOCABULARY}
    assert {*french} <= {*own.encoder_decoder.TARGET_VOCABULARY}
    assert not {*english, *french} & {"<pad>", "<start>", "<end>"}


def test_it_is_found_by_its_name():
    assert load(TRANSLATOR) is translator()
