"""Text that models write: the tokens are those of `generate`, and the attention is the model's own in each step."""

import gc
import re
import weakref
from contextlib import closing
from dataclasses import replace
from functools import cache
from itertools import count, product
from pathlib import Path
from random import Random
from threading import Thread

import pytest
import torch
import transformers as hf
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

import attnviz
from attnviz.layer import Fidelity, Kind
from attnviz.models.generation import REFUSED
from attnviz.models.loading import inspect_folder
from attnviz.models.sampling import drawn_index, random_number
from attnviz.tracing import capture, capturing, growing_layers
from attnviz.tracing.memory_budget import MemoryBudget
from tests.support.architectures import BOTH, GROUPED, SLIDING, WORDS, ZOO, left
from tests.support.tiny_models import TEXT

ROOT = Path(__file__).parents[2]
NEW, FEW = 9, 5  # tokens that are written; with the prompt, more than any window or chunk has
SEED = 46  # of a model that repeats tokens of its prompt and its own, drawn or not
# Which keys a token may attend to depends on later ones: a whole forward pass is not what ran.
CHOOSING = ("Doge", "DeepSeek-V3.2")
DECODERS = [one for one in ZOO if one.given is left and one.name != "XLNet"]  # XLNet reads other tokens than it writes
WINDOWS = (
    "Mistral",
    "Qwen2",
    "Gemma 2",
    "Gemma 3",
    "gpt-oss",
    "Llama 4",
    "Cohere 2",
    "EXAONE 4",
    "Gemma 4",
    "VaultGemma",
    "MiMo-V2-Flash",
    "T5Gemma",
)
BOTH_SIDES = [one for one in ZOO if one.name in ("T5", "UMT5", "BART", "Marian", "Pegasus", "M2M-100", "T5Gemma")]


def language_model(architecture):
    is_encoder_decoder = architecture in BOTH_SIDES
    model = replace(architecture, auto=f"AutoModelFor{'Seq2Seq' if is_encoder_decoder else 'Causal'}LM").model()
    model.generation_config.eos_token_id = None
    return model


def batch(padded=0, count=8):
    ids = torch.randint(4, WORDS - 2, (1, count), generator=torch.Generator().manual_seed(2))
    mask = torch.ones_like(ids)
    mask[:, :padded] = 0
    return {"input_ids": ids, "attention_mask": mask}


def llama(**options):
    torch.manual_seed(0)
    model = hf.LlamaForCausalLM(hf.LlamaConfig(**GROUPED | options)).eval()
    for parameter in model.parameters():
        if parameter.ndim == 2:
            parameter.data *= 8
    return model


def peaked(words=WORDS, seed=0, architecture="Llama"):
    """A model whose likeliest token differs from step to step."""
    torch.manual_seed(seed)
    config = hf.BartConfig(**BOTH) if architecture == "BART" else hf.LlamaConfig(**GROUPED | {"vocab_size": words})
    kind = hf.BartForConditionalGeneration if architecture == "BART" else hf.LlamaForCausalLM
    model = kind(config).eval()
    for parameter in model.parameters():
        if parameter.ndim == 2:
            torch.nn.init.normal_(parameter, std=0.3)
    model.generation_config.eos_token_id = None
    return model


def tokenizer_of_words():
    own = Tokenizer(models.BPE({chr(0x20 + i): i for i in range(WORDS)}, []))
    own.decoder = decoders.Fuse()
    return hf.PreTrainedTokenizerFast(tokenizer_object=own)


def byte_tokenizer():
    names = [*sorted(pre_tokenizers.ByteLevel.alphabet()), "ab", "Ġa", "Ã©"]
    own = Tokenizer(models.BPE({name: i for i, name in enumerate(names)}, [("a", "b"), ("Ġ", "a"), ("Ã", "©")]))
    own.pre_tokenizer, own.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    return hf.PreTrainedTokenizerFast(tokenizer_object=own)


def piece_tokenizer():
    pieces = ["▁", *"abcdefé.,", "▁a", "ab", "bc", "▁de", "cd.", "▁▁"]
    return hf.T5Tokenizer(vocab=[("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), *((piece, -1.0) for piece in pieces)])


def written(*arguments, **options):
    return [step.token_id for step in attnviz.writing(*arguments, **options)]


def own_maps(model, given, kind, count=FEW):
    """The weights of each layer of `generate`, (heads, queries, keys), zero where a key came later or is gone."""
    result = model.generate(
        **given,
        do_sample=False,
        num_beams=1,
        max_new_tokens=count,
        pad_token_id=0,
        return_dict_in_generate=True,
        output_attentions=True,
    )
    steps, maps = result[kind], []
    for layer in zip(*steps, strict=True):
        keys = layer[-1].shape[-1] if kind == "cross_attentions" else sum(one.shape[-2] for one in layer)
        rows, read = [], 0
        for weights in layer:
            read += weights.shape[-2]
            last = keys if kind == "cross_attentions" else read
            row = torch.zeros(*weights.shape[1:3], keys)
            row[..., last - weights.shape[-1] : last] = weights[0]
            rows.append(row)
        maps.append(torch.cat(rows, 1))
    return result.sequences[0, -count:].tolist(), maps


def assert_dropped_keys_are_masked(steps):
    """Where a cache drops keys that a window does not reach, the map of the last query is NaN there."""
    assert steps[-1].evicted
    for step in steps:
        for layer in step.trace:
            weights = layer.maps()[:, -1]
            assert weights[:, : step.evicted.get(layer.name, 0)].isnan().all()
            assert not weights[:, -1].isnan().any()


@pytest.mark.parametrize("padded", [0, 3])
@pytest.mark.parametrize("architecture", DECODERS, ids=lambda one: one.name)
def test_a_decoder_writes_the_tokens_of_generate_with_its_own_weights(architecture, padded):
    model, given = language_model(architecture), batch(padded)
    steps = [*attnviz.writing(model, None, given, FEW)]
    layers = steps[-1].trace.layers
    assert len(layers) == architecture.layers
    assert not steps[-1].trace.missing
    if architecture.name not in ("MPT", "DiffLlama"):  # which return another attention, or that of half of the layers
        tokens, maps = own_maps(model, given, "attentions")
        assert [step.token_id for step in steps] == tokens
        for layer, expected in zip(layers, maps, strict=True):
            found = layer.maps().nan_to_num(0)
            torch.testing.assert_close(found[:, padded:], expected[:, padded:], atol=1e-5, rtol=0)
    if not padded:
        assert {layer.fidelity for layer in layers} == {architecture.fidelity} or architecture.name in CHOOSING
        if architecture.name in WINDOWS:
            assert_dropped_keys_are_masked(steps)


def test_the_memory_of_a_text_grows_with_what_is_written(monkeypatch):
    """It had free places for all tokens that may be written: 60 MB for a sentence by SmolLM2."""
    monkeypatch.setattr(growing_layers, "FREE_PLACES", 2)
    model, given = llama(attn_implementation="eager"), batch()
    with closing(attnviz.writing(model, None, given, 400)) as steps:
        written = [next(steps) for _ in range(NEW)]
    for step, read in zip(written, count(8)):
        for layer in step.trace.layers:
            for vectors in layer.inputs.tensors.values():
                assert vectors.shape[1] == read
                token = 4 * len(step.trace) * vectors[:, 0].numel()  # bytes, of all layers
                assert vectors.untyped_storage().nbytes() <= 2 * (read + 2) * token
    _, maps = own_maps(model, given, "attentions", NEW)
    for layer, expected in zip(written[-1].trace.layers, maps, strict=True):
        torch.testing.assert_close(layer.maps().nan_to_num(0), expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("padded", [0, 3])
@pytest.mark.parametrize(
    "architecture", [one for one in DECODERS if one.name not in CHOOSING], ids=lambda one: one.name
)
def test_a_decoder_has_the_attention_of_one_whole_forward_pass(architecture, padded):
    model, given = language_model(architecture), batch(padded)
    if model._supports_sdpa:
        model.set_attn_implementation("sdpa")
    *_, last = steps = [*attnviz.writing(model, None, given, FEW)]
    new = torch.tensor([[step.token_id for step in steps[:-1]]])
    mask = torch.cat([given["attention_mask"], torch.ones_like(new)], 1)
    whole = {"input_ids": torch.cat([given["input_ids"], new], 1), "attention_mask": mask}
    if padded and "position_ids" in hf.utils.generic.inspect.signature(model.forward).parameters:
        whole["position_ids"] = (mask.cumsum(-1) - 1).clamp(min=0)
    for layer, expected in zip(last.trace, capture(model, whole), strict=True):
        assert layer.id == expected.id
        assert layer.kind is expected.kind
        found, own = (one.maps().nan_to_num(0)[:, padded:] for one in (layer, expected))
        torch.testing.assert_close(found, own, atol=1e-5, rtol=0)
        assert layer.inputs.query_ids == tuple(whole["input_ids"][0].tolist())


@pytest.mark.parametrize("padded", [0, 3])
@pytest.mark.parametrize("architecture", BOTH_SIDES, ids=lambda one: one.name)
def test_a_decoder_writes_with_its_cross_attention(architecture, padded):
    model, given = language_model(architecture), batch(padded)
    steps = [*attnviz.writing(model, None, given, NEW)]
    if not padded and architecture.name in WINDOWS:
        assert_dropped_keys_are_masked(steps)
    for kind, is_cross in (("decoder_attentions", False), ("cross_attentions", True)):
        tokens, maps = own_maps(model, given, kind, NEW)
        assert [step.token_id for step in steps] == tokens
        layers = [one for one in steps[-1].trace if one.id.stack == "decoder" and one.id.cross is is_cross]
        for layer, expected in zip(layers, maps, strict=True):
            torch.testing.assert_close(layer.maps().nan_to_num(0), expected, atol=1e-5, rtol=0)
            assert layer.inputs.keys == (8 if is_cross else NEW)
    encoder = [one for one in steps[-1].trace if one.id.stack == "encoder"]
    for layer, expected in zip(encoder, capture(model.get_encoder(), given), strict=True):
        torch.testing.assert_close(layer.maps(), expected.maps(), atol=1e-5, rtol=0, equal_nan=True)
    assert {layer.fidelity for layer in steps[-1].trace} == {Fidelity.VERIFIED}
    assert not steps[-1].trace.missing


# Steps


def test_a_step_has_the_models_probabilities():
    model, given = llama(), batch()
    steps = [*attnviz.writing(model, None, given, 5, forced={2: 7})]
    ids = torch.cat([given["input_ids"], torch.tensor([[step.token_id for step in steps]])], 1)
    with torch.no_grad():
        probabilities = model(ids).logits[0, 7:-1].softmax(-1)
    for position, step in enumerate(steps):
        row = probabilities[position]
        assert step.position == position
        assert step.probability == pytest.approx(float(row[step.token_id]), abs=1e-6)
        assert [one.token_id for one in step.alternatives] == row.argsort(descending=True)[:10].tolist()
        expected = row.sort(descending=True).values[:10].tolist()
        assert [one.probability for one in step.alternatives] == pytest.approx(expected, abs=1e-6)
        assert [layer.inputs.queries for layer in step.trace] == [8 + position] * 2
    assert steps[2].token_id == 7


def test_an_end_token_is_the_last_step():
    model, given = llama(), batch()
    free = written(model, None, given, 6)
    model.generation_config.eos_token_id = [free[3], WORDS - 1]
    steps = [*attnviz.writing(model, None, given, 6)]
    end = free.index(free[3])
    assert [step.token_id for step in steps] == free[: end + 1]
    assert [step.end for step in steps] == [""] * end + ["end token"]
    assert steps[-1].is_last


def test_writing_ends_where_the_model_has_no_more_positions():
    model = hf.GPT2LMHeadModel(hf.GPT2Config(vocab_size=WORDS, n_embd=8, n_layer=1, n_head=2, n_positions=12)).eval()
    model.generation_config.eos_token_id = None
    steps = [*attnviz.writing(model, None, batch(), 50)]
    assert (len(steps), steps[-1].end, steps[-1].trace[0].inputs.keys) == (5, "limit", 12)
    assert not any(step.is_last for step in steps[:-1])


# What each field of a generation config does here: the same as for `generate`, nothing, or a refusal.
OBEYED = {  # by the tokens that are written without it
    "sequence_bias": lambda own: [[[own[0]], -50.0]],
    "encoder_repetition_penalty": lambda own: 100.0,
    "repetition_penalty": lambda own: 3.0,
    "no_repeat_ngram_size": lambda own: 1,
    "encoder_no_repeat_ngram_size": lambda own: 1,
    "bad_words_ids": lambda own: [[own[1]], [own[2], own[3]]],
    "min_length": lambda own: 8 + 4,
    "min_new_tokens": lambda own: 4,
    "forced_eos_token_id": lambda own: own[1],
    "exponential_decay_length_penalty": lambda own: (1, 3.0),
    "suppress_tokens": lambda own: [own[3]],
    "begin_suppress_tokens": lambda own: [own[0]],
    "eos_token_id": lambda own: [own[3]],
    "stop_strings": lambda own: [tokenizer_of_words().decode(own[2:4])],
    # without effect on the text of a decoder alone that is not padded
    "forced_bos_token_id": lambda own: own[4],
    "remove_invalid_values": lambda own: True,
    "renormalize_logits": lambda own: True,
    "pad_token_id": lambda own: own[0],
    "bos_token_id": lambda own: own[0],
    "decoder_start_token_id": lambda own: own[0],
}
DRAWN = {"min_p": 0.5, "top_h": 0.1, "typical_p": 0.3, "epsilon_cutoff": 0.2, "eta_cutoff": 0.5}
WITHOUT_EFFECT = [
    *[("cache_implementation", "static"), ("cache_config", {"max_cache_len": 9}), ("max_cache_len", 9)],
    *[("use_cache", False), ("max_time", 1e-9), ("max_length", 4), ("max_new_tokens", 1), ("prefill_chunk_size", 2)],
    *[("prompt_lookup_num_tokens", 3), ("assistant_early_exit", 1), ("use_mtp", True), ("is_assistant", True)],
    *[("temperature", 1.7), ("top_k", 9), ("top_p", 0.6)],
    *[("do_sample", True), ("num_beams", 3), ("num_beam_groups", 2), ("num_return_sequences", None)],
    *[("return_dict_in_generate", True), ("output_attentions", True), ("output_hidden_states", True)],
    *[("output_scores", True), ("output_logits", True), ("low_memory", True), ("disable_compile", True)],
    *[("early_stopping", True), ("length_penalty", 2.0), ("diversity_penalty", 0.5), ("compile_config", None)],
    *[("num_assistant_tokens", 2), ("num_assistant_tokens_schedule", "constant"), ("max_matching_ngram_size", 2)],
    *[("assistant_confidence_threshold", 0.9), ("assistant_lookbehind", 2), ("target_lookbehind", 2)],
    *[("assistant_ensemble_weight", 0.5), ("speculation_type", None), ("continuous_batching_config", None)],
    *[("transformers_version", "5.0.0"), ("_from_model_config", True)],
]
NOT_OBEYED = [
    *[("guidance_scale", 3.0), ("watermarking_config", hf.WatermarkingConfig()), ("token_healing", True)],
    *[("penalty_alpha", 0.6), ("dola_layers", "high"), ("constraints", [1]), ("force_words_ids", [[5]])],
]


def test_each_field_of_a_generation_config_has_its_place():
    named = [*OBEYED, *DRAWN, *(name for name, _ in (*WITHOUT_EFFECT, *NOT_OBEYED))]
    assert len(named) == len({*named})
    assert {*named} == vars(hf.GenerationConfig()).keys()
    table = (ROOT / "docs" / "capture.md").read_text().partition("| fields of the")[2]
    assert {*named} - {"_from_model_config"} <= {*re.findall("`([a-z_]+)`", table)}


def drawn_as_here(monkeypatch, seed):
    """Makes `generate` draw with the random numbers of `writing`."""
    positions = count()

    def multinomial(probabilities, num_samples):
        number = random_number((seed * 0x9E3779B1 + next(positions)) % (1 << 63))
        return torch.tensor([[drawn_index(probabilities[0], number)]])

    monkeypatch.setattr(torch, "multinomial", multinomial)


SAMPLED = {"temperature": 1.2, "top_k": 40, "top_p": 0.95}


@cache
def written_plainly(sampled):
    """What the model writes with a plain generation config."""
    return written(peaked(seed=SEED), tokenizer_of_words(), batch(), NEW, **(SAMPLED if sampled else {}), seed=3)


@pytest.mark.parametrize(
    ("name", "sampled"), [*((name, sampled) for name in OBEYED for sampled in (False, True)), *product(DRAWN, [True])]
)
def test_what_a_generation_config_sets_is_obeyed_as_by_generate(name, sampled, monkeypatch):
    given, model, tokenizer = batch(), peaked(seed=SEED), tokenizer_of_words()
    own = SAMPLED if sampled else {}
    plain = written_plainly(sampled)
    if name in ("min_length", "min_new_tokens", "exponential_decay_length_penalty"):
        model.generation_config.eos_token_id = 96 if name.startswith("exp") else plain[1]
        plain = written(model, tokenizer, given, NEW, **own, seed=3)
    value = OBEYED[name]((*plain, *[0] * NEW)) if name in OBEYED else DRAWN[name]
    setattr(model.generation_config, name, value)
    with monkeypatch.context() as patched:
        drawn_as_here(patched, 3)
        result = model.generate(
            **given, do_sample=sampled, max_new_tokens=NEW, pad_token_id=0, tokenizer=tokenizer, **own
        )
    steps = [*attnviz.writing(model, tokenizer, given, NEW, **own, seed=3)]
    tokens = [step.token_id for step in steps]
    assert tokens == result[0, 8:].tolist()
    assert sampled or all(step.alternatives[0].token_id == step.token_id for step in steps)
    if name in [*OBEYED][:-6] or name in DRAWN:
        assert tokens != plain
    assert written(model, tokenizer, given, NEW, **own, seed=3, forced={0: tokens[:3]}) == tokens


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *[("decoder_start_token_id", 9), ("forced_bos_token_id", 5), ("encoder_repetition_penalty", 100.0)],
        *[("encoder_no_repeat_ngram_size", 1), ("no_repeat_ngram_size", 1)],
    ],
)
def test_an_encoder_decoder_obeys_its_generation_config_as_generate_does(name, value):
    model, given = peaked(seed=3, architecture="BART"), batch(count=30)
    plain = written(model, None, given, NEW)
    setattr(model.generation_config, name, value)
    steps = [*attnviz.writing(model, None, given, NEW)]
    tokens = [step.token_id for step in steps]
    assert tokens == model.generate(**given, do_sample=False, num_beams=1, max_new_tokens=NEW)[0, 1:].tolist() != plain
    assert name != "forced_bos_token_id" or steps[0].probability == 1.0


@pytest.fixture(scope="module")
def plain():
    """A model with a plain generation config, and what it writes."""
    model = llama()
    return model, written(model, None, batch(), 4)


@pytest.mark.parametrize(("name", "value"), WITHOUT_EFFECT)
def test_a_generation_config_does_not_choose_another_way_to_write(plain, monkeypatch, name, value):
    model, tokens = plain
    monkeypatch.setattr(model.generation_config, name, value)
    steps = [*attnviz.writing(model, None, batch(), 4)]
    assert [step.token_id for step in steps] == tokens
    assert {layer.fidelity for layer in steps[-1].trace} == {Fidelity.VERIFIED}


@pytest.mark.parametrize(("name", "value"), NOT_OBEYED)
def test_a_generation_config_of_other_passes_is_refused_by_name(plain, monkeypatch, name, value):
    model, tokens = plain
    monkeypatch.setattr(model.generation_config, name, value)
    with pytest.raises(ValueError, match=f"The generation config of LlamaForCausalLM sets {name} to .*= None"):
        attnviz.writing(model, None, batch())
    monkeypatch.setattr(model.generation_config, name, REFUSED[name])
    assert written(model, None, batch(), 2) == tokens[:2]


def test_stop_strings_need_a_tokenizer():
    model = llama()
    model.generation_config.stop_strings = "a"
    with pytest.raises(ValueError, match="has stop strings, which only its tokenizer can find"):
        attnviz.writing(model, None, batch())


@pytest.mark.parametrize("kind", ["bytes", "pieces"])
def test_stop_strings_end_a_text_where_they_end_that_of_generate(kind):
    tokenizer = byte_tokenizer() if kind == "bytes" else piece_tokenizer()
    random, ended = Random(0), 0
    for seed in range(16):
        model = peaked(len(tokenizer), seed)
        given = tokenizer("ab é", return_tensors="pt")
        ids = {"input_ids": given["input_ids"], "attention_mask": given["attention_mask"]}
        free = model.generate(**ids, do_sample=False, max_new_tokens=12, pad_token_id=0)[0]
        text = tokenizer.decode(free)
        first = random.randrange(len(text) - 2)
        stop = text[first : first + random.randint(1, 4)].replace("\ufffd", "") or "é"
        model.generation_config.stop_strings = [stop, "never"]
        expected = model.generate(**ids, do_sample=False, max_new_tokens=12, pad_token_id=0, tokenizer=tokenizer)
        steps = [*attnviz.writing(model, tokenizer, ids, 12)]
        shown = [step.token_id for step in steps]
        assert (stop, shown) == (stop, expected[0, ids["input_ids"].shape[1] :].tolist())
        if len(shown) < 12:
            ended += 1
            assert steps[-1].end == "stop string"
    assert ended >= 5


# Choices


@pytest.mark.parametrize("name", ["Gemma 2", "BLOOM", "Llama 4"])
def test_a_branch_goes_on_with_the_same_random_numbers(name):
    model = language_model(next(one for one in DECODERS if one.name == name))
    given, sampled = batch(), {"temperature": 1.5, "seed": 4}
    steps = [*attnviz.writing(model, None, given, NEW, **sampled)]
    tokens = [step.token_id for step in steps]
    branch = [*attnviz.writing(model, None, given, NEW, forced={0: tokens[:4], 6: tokens[6]}, **sampled)]
    assert [step.token_id for step in branch] == tokens
    for step, other in zip(steps, branch, strict=True):
        assert step.probability == pytest.approx(other.probability, abs=1e-5)
        for layer, expected in zip(other.trace, step.trace, strict=True):
            maps = layer.maps().nan_to_num(0), expected.maps().nan_to_num(0)
            torch.testing.assert_close(*maps, atol=1e-5, rtol=0)
            assert layer.inputs.query_tokens == expected.inputs.query_tokens
    assert written(model, None, given, NEW, temperature=1.5, seed=5) != tokens


def test_a_forced_prefix_is_read_with_the_prompt():
    model, read = llama(), []
    model.register_forward_hook(lambda *given: read.append(given[2].logits.shape[1]))
    assert len(written(model, None, batch(), 6, forced={0: [5, 6, 7], 4: 9})) == 6
    assert read == [4, 1, 1]


# Models of other kinds


@pytest.mark.parametrize("count", [1, 8])
@pytest.mark.parametrize("name", ["Gemma 3", "BART", "M2M-100"])
def test_a_first_query_alone_attends_to_itself(name, count):
    """Nothing says then that its mask is causal."""
    model = language_model(next(one for one in ZOO if one.name == name))
    model.set_attn_implementation("sdpa")
    *_, last = attnviz.writing(model, None, batch(count=count), 7)
    for layer in last.trace:
        if layer.id.stack != "encoder" and not layer.id.cross:
            maps = layer.maps()
            assert maps.triu(1).nan_to_num(0).max() == 0
            assert maps.isnan()[:, 0, 1:].all()
            assert layer.kind is Kind.CAUSAL


def test_a_model_without_a_cache_reads_its_text_again():
    torch.manual_seed(0)
    model = hf.OpenAIGPTLMHeadModel(hf.OpenAIGPTConfig(vocab_size=WORDS, n_embd=16, n_layer=2, n_head=2)).eval()
    given = batch()
    steps = [*attnviz.writing(model, None, given, NEW)]
    expected = model.generate(**given, do_sample=False, max_new_tokens=NEW)[0]
    assert [step.token_id for step in steps] == expected[8:].tolist()
    for layer, other in zip(steps[-1].trace, capture(model, expected[None, :-1]), strict=True):
        torch.testing.assert_close(layer.maps().nan_to_num(0), other.maps().nan_to_num(0), atol=1e-5, rtol=0)


def test_a_model_without_attention_is_refused():
    model = hf.MambaForCausalLM(hf.MambaConfig(vocab_size=WORDS, hidden_size=8, num_hidden_layers=1)).eval()
    with pytest.raises(ValueError, match="MambaForCausalLM"):
        next(attnviz.writing(model, None, batch(), 2))


# Others use the model meanwhile


def test_others_may_run_the_model_between_two_steps():
    model, given = llama(), batch()
    model.train()
    expected = [*attnviz.writing(llama(), None, given, 6)]
    with capturing(model) as traces, closing(attnviz.writing(model, None, given, 6)) as steps:
        for step in steps:
            assert model.training
            assert model.config._attn_implementation == "sdpa"
            capture(model, given)
            model(**batch(count=5))
            assert step.token_id == expected[step.position].token_id
            for layer, other in zip(step.trace, expected[step.position].trace, strict=True):
                torch.testing.assert_close(layer.maps(), other.maps(), equal_nan=True)
                assert layer.fidelity is Fidelity.VERIFIED
    assert len(traces) == 6
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())


def test_two_threads_write_with_one_model():
    model, given, found = llama(), [batch(), batch(count=5)], [[], []]
    expected = [written(model, None, one, 12) for one in given]

    def write(number):
        found[number] = written(model, None, given[number], 12)

    threads = [Thread(target=write, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == expected


def test_a_closed_generator_frees_what_it_has_recorded():
    model = llama()
    steps = attnviz.writing(model, None, batch(), 9)
    next(steps)
    query = weakref.ref(next(steps).trace[0].inputs.query.untyped_storage())
    assert query() is not None
    steps.close()
    del steps
    gc.collect()
    assert query() is None


def test_a_model_that_fails_is_as_it_was():
    model = llama().train()
    steps = attnviz.writing(model, None, batch(), 9)
    next(steps)
    attention = model.model.layers[1].self_attn
    attention.o_proj.weight = torch.nn.Parameter(torch.zeros(3, 3))
    with pytest.raises(ValueError, match="LlamaForCausalLM cannot continue this text"):
        next(steps)
    assert model.training
    assert not any(module._forward_hooks for module in model.modules())


# What the traces say


def test_a_layer_that_computes_otherwise_meanwhile_is_missing():
    model = llama()
    steps = attnviz.writing(model, None, batch(), 5)
    next(steps)
    model.model.layers[1].self_attn.scaling *= 2
    trace = next(steps).trace
    assert [layer.name for layer in trace] == ["layer 0"]
    assert trace.missing == ("layer 1 is not shown: its output is not what its queries, keys and values give here.",)


def test_a_bias_that_changes_meanwhile_is_missing():
    model = language_model(next(one for one in ZOO if one.name == "T5"))
    steps = attnviz.writing(model, None, batch(), 6)
    next(steps), next(steps), next(steps)
    with torch.no_grad():
        model.decoder.block[0].layer[0].SelfAttention.relative_attention_bias.weight *= 1.5
    trace = next(steps).trace
    reason = "is not shown: what it adds to its scores depends on more than distances."
    assert trace.missing == (f"decoder 0 {reason}", f"decoder 1 {reason}")
    assert [layer.name for layer in trace] == ["encoder 0", "encoder 1", "decoder 0 cross", "decoder 1 cross"]


def test_numbers_that_are_not_finite_are_named():
    model = llama()
    steps = attnviz.writing(model, None, batch(), 5)
    next(steps)
    with torch.no_grad():
        model.model.layers[1].self_attn.v_proj.weight.fill_(torch.inf)
    reason = "layer 1 is not shown: it computes with numbers that are not finite, or too large."
    assert next(steps).trace.missing == (reason,)


def test_a_window_shows_when_the_text_is_longer_than_it():
    torch.manual_seed(0)
    model = hf.MistralForCausalLM(hf.MistralConfig(**SLIDING)).eval()
    model.generation_config.eos_token_id = None
    steps = [*attnviz.writing(model, None, batch(count=3), 6)]
    masks = [str(step.trace[0].mechanism.mask) for step in steps]
    assert masks == ["causal"] * 3 + ["sliding_window(5)"] * 3
    assert [step.evicted for step in steps] == [{}] * 3 + [{"layer 0": one, "layer 1": one} for one in (1, 2, 3)]
    assert {layer.fidelity for step in steps for layer in step.trace} == {Fidelity.VERIFIED}


def test_traces_of_earlier_steps_stay_as_they_were():
    steps, known = [], []
    for step in attnviz.writing(llama(), None, batch(), 20):
        steps.append(step)
        known.append([layer.maps().clone() for layer in step.trace])
    for step, maps in zip(steps, known, strict=True):
        for layer, expected in zip(step.trace, maps, strict=True):
            assert torch.equal(layer.maps().nan_to_num(-1), expected.nan_to_num(-1))
    assert len({step.trace[0].inputs.query.untyped_storage().data_ptr() for step in steps}) < 5


def test_weights_alone_say_when_they_take_too_much_memory(monkeypatch):
    monkeypatch.setattr(MemoryBudget.__init__, "__defaults__", (5000,))
    model = language_model(next(one for one in ZOO if one.name == "BLOOM"))
    *_, last = attnviz.writing(model, None, batch(), 30)
    assert not last.trace.layers
    assert all("its weights would take" in sentence for sentence in last.trace.missing)
    assert len(last.trace.missing) == 2


def test_a_model_of_16_bits_is_verified_within_its_precision():
    model, given = llama().bfloat16(), batch()
    steps = [*attnviz.writing(model, None, given, NEW)]
    assert [step.token_id for step in steps] == model.generate(**given, do_sample=False, max_new_tokens=NEW)[
        0, 8:
    ].tolist()
    assert {layer.fidelity for layer in steps[-1].trace} == {Fidelity.VERIFIED}
    assert "bfloat16" in steps[-1].trace[0].comparison
    ids = torch.cat([given["input_ids"], torch.tensor([[step.token_id for step in steps[:-1]]])], 1)
    for layer, expected in zip(steps[-1].trace, capture(model, ids), strict=True):
        torch.testing.assert_close(layer.maps(), expected.maps(), atol=0.05, rtol=0, equal_nan=True)


def test_the_callers_autocast_is_not_that_of_the_comparison():
    with torch.autocast("cpu", torch.bfloat16):
        *_, last = attnviz.writing(llama(), None, batch(), NEW)
    assert {layer.fidelity for layer in last.trace} == {Fidelity.VERIFIED}
    assert len(last.trace) == 2


# Prompts


@pytest.fixture(scope="module")
def tiny(saved):
    return {name: inspect_folder(saved / name).load() for name in ("gpt2", "llama", "t5")}


@pytest.mark.parametrize("name", ["gpt2", "llama", "t5"])
def test_a_text_and_its_ids_are_the_same_prompt(tiny, name):
    model, tokenizer = tiny[name].model, tiny[name].tokenizer
    ids = tokenizer(TEXT)["input_ids"]
    given, tokens = tiny[name].text_inputs.encode(TEXT)
    expected = written(model, tokenizer, TEXT, 5)
    for prompt in (ids, torch.tensor(ids), torch.tensor([ids]), given):
        assert written(model, tokenizer, prompt, 5) == expected
    [step, *_] = attnviz.writing(model, tokenizer, given, 2, tokens=tokens.tokens, special=tokens.special)
    axis = step.trace[0].inputs
    assert (axis.query_tokens, axis.special_queries) == (tokens.tokens, tokens.special)


def test_tokens_have_the_texts_of_the_tokenizer(tiny):
    model, tokenizer = tiny["gpt2"].model, tiny["gpt2"].tokenizer
    accent = tokenizer("é")["input_ids"]
    steps = [*attnviz.writing(model, tokenizer, "the fox", 4, forced={0: accent})]
    assert [step.token for step in steps[:2]] == ["byte 0xC3", "byte 0xA9"]
    assert steps[1].trace[0].inputs.query_tokens[-1] == "byte 0xC3"
    assert steps[2].trace[0].inputs.query_tokens[-2:] == ("é·byte 0xC3", "é·byte 0xA9")
    assert all(one.token for step in steps for one in step.alternatives)


@pytest.mark.parametrize(
    ("prompt", "options", "sentence"),
    [
        ("the fox", {}, "A text needs a tokenizer. Give the model's, or the ids of the tokens."),
        ([], {}, r"A prompt is a text, the ids of its tokens.*the shape \(1, 0\)"),
        (torch.zeros(2, 3, dtype=torch.long), {}, r"shape \(2, 3\)"),
        (torch.zeros(1, 3), {}, r"A prompt is a text"),
        ({"attention_mask": torch.ones(1, 3)}, {}, "A prompt is a text"),
        ([WORDS], {}, "The model knows 97 tokens, counted from 0; there is no token 97."),
        ([-1], {}, "there is no token -1"),
        ([3] * 65, {}, "This text has 65 tokens, and LlamaForCausalLM reads at most 64."),
        (
            {"input_ids": torch.ones(1, 2, dtype=torch.long), "attention_mask": torch.tensor([[1, 0]])},
            {},
            "The padding of a prompt is on its left; this one ends with padding.",
        ),
        ([3], {"max_new_tokens": 0}, "max_new_tokens must be a whole number from 1 to .*; it is 0."),
        ([3], {"temperature": -1.0}, "temperature must be from 0 to 100; it is -1.0."),
        ([3], {"temperature": float("nan")}, "temperature must be from 0 to 100; it is nan."),
        ([3], {"top_p": 0.0}, "top_p must be above 0 and at most 1; it is 0.0."),
        ([3], {"top_k": -1}, "top_k must be a whole number from 0"),
        ([3], {"seed": -1}, "seed must be a whole number from 0 .*; it is -1."),
        ([3], {"forced": {-1: 3}}, "A position in forced must be a whole number from 0"),
        ([3], {"forced": {0: [3, WORDS]}}, "there is no token 97"),
        ([3], {"alternatives": -1}, "alternatives must be a whole number from 0"),
    ],
)
def test_what_is_wrong_is_said_before_the_model_runs(prompt, options, sentence):
    with pytest.raises(ValueError, match=sentence):
        attnviz.writing(llama(), None, prompt, **options)


def test_a_model_that_writes_nothing_is_refused():
    model = hf.BertModel(hf.BertConfig(hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8))
    with pytest.raises(ValueError, match="BertModel does not write text"):
        attnviz.writing(model, None, [3])
