import copy
import math
from itertools import islice

import pytest
import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention

from attnviz import Mechanism, translator
from attnviz.masks import Causal, Full
from attnviz.translator import EXAMPLES, VARIANTS, generate_sentences, parse_sentence, weights
from attnviz.translator.encoder_decoder import (
    D_MODEL,
    END,
    HEADS,
    LAYERS,
    PAD,
    SOURCE_VOCABULARY,
    START,
    TARGET_VOCABULARY,
    ForwardPass,
    KeyValueCache,
)
from attnviz.translator.train import CHECKPOINTS, DECAY, LOG_EVERY, SAMPLES, SEED, STEPS, TIMELINE, sample, train
from attnviz.translator.translation import detokenize, source_ids, target_ids

TEXT = "the small black cat does not look at the young birds ."


@pytest.fixture
def some():
    return list(islice(generate_sentences("test", seed=7), 12))


def last_row(shown, french, english=TEXT):
    """Logarithms of the probabilities of the word after this French, with nothing kept from before."""
    forward_pass = ForwardPass()
    memory = shown.model.encode(source_ids([translator.tokenize(english)]), forward_pass)
    return shown.model.decode(torch.tensor([french]), memory, forward_pass)[0, -1].log_softmax(-1)


# What is shipped.


def test_what_is_shipped_is_small_and_has_a_timeline():
    files = list(weights.FOLDER.iterdir())
    assert sum(file.stat().st_size for file in files) < 8_100_000
    assert {file.suffix for file in files} == {".safetensors", ".json"}
    assert translator.checkpoints() == CHECKPOINTS
    assert len(CHECKPOINTS) >= 15
    assert (CHECKPOINTS[0], CHECKPOINTS[-1]) == (0, STEPS)
    for variant in set(VARIANTS) - {TIMELINE}:
        assert translator.checkpoints(variant) == (STEPS,)
    assert sum(numbers.numel() for numbers in translator.load().model.parameters()) < 300_000


@pytest.mark.parametrize("variant", VARIANTS)
def test_shipped_weights_are_as_good_as_the_log_says(variant, as_installed):
    logged = translator.training_log(variant).evaluations[-1]
    assert logged.step == STEPS
    assert logged.exact >= 0.99
    assert logged.combinations >= 0.97
    found = translator.evaluate(translator.load(variant), logged.loss)
    assert found.exact == pytest.approx(logged.exact, abs=0.004)
    assert found.combinations == pytest.approx(logged.combinations, abs=0.004)
    torch.testing.assert_close(torch.tensor(found.agreement), torch.tensor(logged.agreement), atol=0.002, rtol=0)
    assert found.best >= 0.9


@pytest.mark.parametrize("step", [0, 300])
def test_the_timeline_is_as_the_log_says(step, as_installed):
    logged = next(one for one in translator.training_log().evaluations if one.step == step)
    found = translator.evaluate(translator.load(step=step), logged.loss)
    assert found.exact == pytest.approx(logged.exact, abs=0.004)
    assert found.best == pytest.approx(logged.best, abs=0.004)


def test_the_log_covers_the_training():
    for variant in VARIANTS:
        log = translator.training_log(variant)
        assert (log.every, len(log.losses)) == (LOG_EVERY, STEPS // LOG_EVERY + 1)
        assert tuple(one.step for one in log.evaluations) == CHECKPOINTS
        assert log.losses[0] == pytest.approx(math.log(len(TARGET_VOCABULARY)), abs=2)
        assert max(log.losses[-10:]) < 0.15


def test_what_a_teacher_would_try():
    shown = translator.load()
    for example in EXAMPLES:
        made = shown.translate(example)
        assert made.steps[-1].word == "<end>"
        assert (made.french, made.alignment) == (made.reference.french, made.reference.alignment)
    assert shown.translate("The old king doesn't see the small white birds").text == (
        "le vieux roi ne voit pas les petits oiseaux blancs."
    )
    assert shown.translate("I like my school").text == "j'aime mon école."


def test_what_is_not_shipped_is_refused_in_words(tmp_path, monkeypatch):
    with pytest.raises(ValueError, match="'cosine'"):
        translator.load("cosine")
    with pytest.raises(ValueError, match=r"no weights of scaled dot after step 3\. Use one of 0, 10"):
        translator.load(step=3)
    with pytest.raises(ValueError, match="'cosine'"):
        next(train(variant="cosine"))
    monkeypatch.setattr(weights, "FOLDER", tmp_path)
    with pytest.raises(RuntimeError, match=r"weights are missing\. Train it again"):
        translator.load()
    (tmp_path / "dot-00001.safetensors").write_bytes(b"cos\nsystem\n(S'exit'\ntR.")
    with pytest.raises(RuntimeError, match=r"dot-00001\.safetensors cannot be read"):
        translator.load("dot")


def test_weights_of_other_words_are_refused(tmp_path, monkeypatch):
    shown = translator.load("general")
    monkeypatch.setattr(weights, "FOLDER", tmp_path)
    monkeypatch.setattr(weights, "VOCABULARY_DIGEST", "others")
    weights.save(translator.Translator(copy.deepcopy(shown.model), "dot", 77))
    monkeypatch.setattr(weights, "VOCABULARY_DIGEST", "mine")
    with pytest.raises(RuntimeError, match="trained on other words"):
        translator.load("dot", 77)


# The model.


def test_layers_are_those_of_torch():
    model = translator.load().model

    def moved(one, layer):
        """One of our attentions' weights in torch's own."""
        parts = (one.query, one.key, one.value)
        layer.in_proj_weight.copy_(torch.cat([part.weight for part in parts]))
        layer.in_proj_bias.copy_(torch.cat([part.bias for part in parts]))
        layer.out_proj.load_state_dict(one.output.state_dict())

    settings = {"dim_feedforward": 128, "dropout": 0.0, "batch_first": True, "norm_first": True}
    english, lengths = torch.randint(1, 100, (3, 9)), torch.tensor([9, 4, 7])
    french = torch.randint(1, 100, (3, 6))
    padding = torch.arange(9) >= lengths[:, None]
    with torch.no_grad():
        x = model.english(english) * 8
        x = x + sinusoid(9)
        for ours in model.encoder:
            layer = nn.TransformerEncoderLayer(D_MODEL, HEADS, **settings).train()  # no fused path
            moved(ours.attention, layer.self_attn)
            for i, part in enumerate(("linear1", None, "linear2")):
                if part:
                    getattr(layer, part).load_state_dict(ours.inner[i].state_dict())
            for i in range(2):
                getattr(layer, f"norm{i + 1}").load_state_dict(ours.norms[i].state_dict())
            x = layer(x, src_key_padding_mask=padding)
        memory = model.norms[0](x)
        y = model.french(french) * 8 + sinusoid(6)
        for ours in model.decoder:
            layer = nn.TransformerDecoderLayer(D_MODEL, HEADS, **settings).train()
            moved(ours.attention, layer.self_attn)
            moved(ours.cross, layer.multihead_attn)
            layer.linear1.load_state_dict(ours.inner[0].state_dict())
            layer.linear2.load_state_dict(ours.inner[2].state_dict())
            for i in range(3):
                getattr(layer, f"norm{i + 1}").load_state_dict(ours.norms[i].state_dict())
            causal = nn.Transformer.generate_square_subsequent_mask(6)
            y = layer(y, memory, tgt_mask=causal, memory_key_padding_mask=padding)
        expected = model.norms[1](y) @ model.french.weight.T
        forward_pass = ForwardPass(lengths=lengths)
        torch.testing.assert_close(
            model.decode(french, model.encode(english, forward_pass), forward_pass), expected, atol=1e-4, rtol=1e-4
        )


def sinusoid(count):
    rows = [
        [(math.sin, math.cos)[i % 2](place / 10000 ** ((i - i % 2) / D_MODEL)) for i in range(D_MODEL)]
        for place in range(count)
    ]
    return torch.tensor(rows)


@pytest.mark.parametrize("variant", VARIANTS)
def test_each_variant_attends_to_the_english_by_its_score(variant):
    cross = [one for one in translator.load(variant).translate(TEXT).layers() if one.kind == "cross"]
    assert [type(one.mechanism.score) for one in cross] == [VARIANTS[variant]] * LAYERS
    for layer in cross:
        q, k, v = (getattr(layer.inputs, name).double() for name in ("query", "key", "value"))
        if variant == "general":
            k = k @ layer.mechanism.score.weight.double().T
        if variant == "additive":
            score = layer.mechanism.score
            w_q, w_k, vector = (w.double() for w in (score.query_weight, score.key_weight, score.vector))
            scores = torch.stack(
                [
                    torch.stack([torch.tanh(q[:, i] @ w_q.T + k[:, j] @ w_k.T) @ vector for j in range(k.shape[1])], -1)
                    for i in range(q.shape[1])
                ],
                1,
            )
            expected = scores.softmax(-1) @ v
        else:
            expected = scaled_dot_product_attention(q, k, v, scale=None if variant == "scaled dot" else 1.0)
        torch.testing.assert_close(layer.mechanism(layer.inputs).output.double(), expected, atol=1e-4, rtol=1e-4)


# Translating.


def test_the_layers_are_what_ran(monkeypatch):
    ran, stages = [], Mechanism.stages

    def watched(self, *args):
        done = stages(self, *args)
        ran.append(done.weights)
        return done

    monkeypatch.setattr(Mechanism, "stages", watched)
    made = translator.load("general").translate(TEXT)
    monkeypatch.undo()
    encoder, decoder = ran[:LAYERS], ran[LAYERS:]
    assert len(decoder) == len(made.steps) * 2 * LAYERS
    for step in range(len(made.steps)):
        layers = made.layers(step)
        here = encoder + decoder[step * 2 * LAYERS : (step + 1) * 2 * LAYERS]
        assert [layer.name for layer in layers] == [
            *("encoder 0", "encoder 1", "decoder 0", "decoder 0 cross", "decoder 1", "decoder 1 cross")
        ]
        for layer, weighed in zip(layers, here, strict=True):
            shown = layer.mechanism(layer.inputs)
            assert shown.weights.shape == weighed[0].shape
            torch.testing.assert_close(shown.weights, weighed[0], atol=1e-6, rtol=1e-5)


def test_layers_say_what_they_are():
    made = translator.load().translate(TEXT)
    fed = ("<start>", *made.french)
    for layer in made.layers():
        crosses, encodes = layer.name.endswith("cross"), layer.name.startswith("encoder")
        assert layer.kind == ("cross" if crosses else "self" if encodes else "causal")
        assert layer.inputs.query_tokens == (made.english if encodes else made.decoder_rows)
        assert layer.inputs.key_tokens == (fed if layer.kind == "causal" else made.english)
        assert layer.inputs.special_queries == (() if encodes else (0,))
        assert layer.mechanism.mask == (Causal() if layer.kind == "causal" else Full())
    assert made.layers(2)[2].inputs.query_tokens == made.decoder_rows[:3]


def test_steps_tell_how_likely_each_word_was():
    made = translator.load().translate(TEXT)
    for i, step in enumerate(made.steps):
        row = last_row(translator.load(), [START, *(TARGET_VOCABULARY.index(one.word) for one in made.steps[:i])]).exp()
        torch.testing.assert_close(step.probabilities, row, atol=1e-5, rtol=1e-4)
        assert step.word == TARGET_VOCABULARY[int(row.argmax())]
        assert float(step.probabilities.sum()) == pytest.approx(1, abs=1e-5)
    assert made.steps[-1].word == "<end>"
    assert made.text == "le petit chat noir ne regarde pas les jeunes oiseaux."


@pytest.mark.parametrize("variant", ["scaled dot", "additive"])
def test_a_cache_changes_nothing(variant, some):
    model, cache = translator.load(variant).model, KeyValueCache()
    english, french = [one.english for one in some], [one.french for one in some]
    lengths = torch.tensor([len(words) for words in english])
    plain, cached = ForwardPass(lengths=lengths), ForwardPass(lengths=lengths, cache=cache)
    memory, words = model.encode(source_ids(english), plain), target_ids(french)
    whole = model.decode(words, memory, plain)
    rows = [model.decode(words[:, :n], memory, cached) for n in (1, 2, 3, 6)]  # also several words at once
    assert [row.shape[1] for row in rows] == [1, 1, 1, 3]
    torch.testing.assert_close(torch.cat(rows, 1), whole[:, :6], atol=1e-4, rtol=1e-4)


def test_many_at_once_are_translated_as_one_by_one(some):
    shown = translator.load(step=200)  # where it is still often wrong
    made = shown.translate_batch([one.english for one in some])
    assert made == [shown.translate(" ".join(one.english)).french for one in some]
    assert 0 < shown.exact_match(some) < 1
    assert shown.exact_match(some) == sum(a == one.french for a, one in zip(made, some, strict=True)) / len(some)


def test_agreement_is_the_share_of_words_that_look_at_their_own(some):
    shown = translator.load(step=300)
    agreed, count = torch.zeros(LAYERS, HEADS), 0
    for one in some:
        forward_pass = ForwardPass(records=[])
        memory = shown.model.encode(source_ids([one.english]), forward_pass)
        shown.model.decode(target_ids([one.french]), memory, forward_pass)
        cross = [record.weights[0] for record in forward_pass.records if record.use == "cross"]
        for place, english in enumerate(one.alignment):
            count += 1
            for layer in range(LAYERS):
                for head in range(HEADS):
                    row = cross[layer][head, place].tolist()
                    agreed[layer, head] += row.index(max(row)) in english
    torch.testing.assert_close(shown.agreement(some), agreed / count)


def test_french_is_spelled_as_it_is_written():
    assert detokenize(("l'", "enfant", "n'", "aime", "pas", "l'", "île", "aujourd'hui", ".")) == (
        "l'enfant n'aime pas l'île aujourd'hui."
    )
    assert detokenize(("est-ce", "qu'", "elle", "dort", "?")) == "est-ce qu'elle dort ?"


# Training.


def test_training_again_gives_what_the_log_says(as_installed):
    losses = [one.loss for one in islice(train(SEED, TIMELINE, STEPS), 41) if one.step % LOG_EVERY == 0]
    assert losses == pytest.approx(translator.training_log().losses[:5], rel=0.02)


def test_a_training_can_be_repeated_and_learns(as_installed):
    runs = ((1, 31), (1, 11), (2, 11))
    first, again, other = ([one.loss for one in islice(train(seed, TIMELINE, 30), count)] for seed, count in runs)
    assert first[:11] == pytest.approx(again, rel=1e-4)
    assert first[:11] != pytest.approx(other, rel=1e-2)
    assert len(first) == 31
    assert first[-1] < first[0] - 1.5


def test_a_training_is_that_of_torchs_own_optimizer(as_installed, monkeypatch):
    losses = [one.loss for one in train(1, steps=4)]
    optimizers = []

    def step(parameters, gradients, *_, lr, **__):
        if not optimizers:
            optimizers.append(torch.optim.AdamW(parameters, betas=(0.9, 0.98), weight_decay=DECAY))
        optimizers[0].param_groups[0]["lr"] = lr
        optimizers[0].step()

    monkeypatch.setattr(torch, "_fused_adamw_", step)
    assert [one.loss for one in train(1, steps=4)] == pytest.approx(losses, rel=1e-5)
    assert optimizers


def test_every_weight_learns(as_installed):
    for variant in VARIANTS:
        start, end = (one.translator().model for one in train(0, variant, 5) if one.step in (0, 5))
        # What is added to every key changes no dot product's softmax.
        still = {
            name
            for (name, a), b in zip(start.named_parameters(), end.parameters(), strict=True)
            if torch.allclose(a, b, atol=1e-7)
        }
        assert all(name.endswith("key.bias") for name in still)


def test_progress_can_be_looked_at_and_stopped(as_installed):
    state = torch.get_rng_state()
    training = train(seed=0, steps=500)
    first = next(training)
    early = first.translator()
    numbers = early.model.english.weight.clone()
    for _ in range(5):
        now = next(training)
    late = now.translator()
    training.close()
    assert (first.step, now.step, late.step, late.variant) == (0, 5, 5, "scaled dot")
    assert torch.equal(early.model.english.weight, numbers)
    assert not torch.equal(late.model.english.weight, numbers)
    assert late.translate(TEXT).steps
    assert not any(weight.requires_grad for weight in late.model.parameters())
    assert torch.equal(torch.get_rng_state(), state)


def test_what_is_trained_on_are_sentences_for_training(as_installed):
    known = {}
    for number in (0, SAMPLES - 1):
        english, french = sample(number)
        known[number] = [tuple(SOURCE_VOCABULARY[word] for word in row if word != PAD) for row in english.tolist()]
        assert all(parse_sentence(words).split == "train" for words in known[number])
        lengths = [len(words) for words in known[number]]
        assert lengths == sorted(lengths)
        assert french[:, 0].eq(START).all()
        assert [tuple(TARGET_VOCABULARY[word] for word in row[1 : row.index(END)]) for row in french.tolist()] == [
            parse_sentence(words).french for words in known[number]
        ]
    assert len(set(known[0]) & set(known[SAMPLES - 1])) < len(known[0]) / 10


def test_a_batch_is_translated_as_each_sentence_is():
    shown = translator.load()
    sentences = [tuple(one.split()) for one in EXAMPLES]
    assert shown.translate_batch(sentences) == [shown.translate(one).french for one in EXAMPLES]
