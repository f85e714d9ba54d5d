"""The encoder of a model that writes, which `generate` runs by itself, before the decoder."""

import pytest
import torch
import transformers as hf

from attnviz import capture, capturing
from attnviz.tracing.joined_passes import joined_layers

IDS = torch.tensor([[5, 9, 11, 7], [3, 8, 6, 10]])
ENDS = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0, "decoder_start_token_id": 3}
SIZES = {"vocab_size": 40, "d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "encoder_ffn_dim": 16}
SIZES |= {"encoder_attention_heads": 4, "decoder_attention_heads": 4, "decoder_ffn_dim": 16, **ENDS}
T5 = {"vocab_size": 40, "d_model": 16, "d_kv": 4, "d_ff": 16, "num_layers": 1, "num_heads": 4, **ENDS}
BERT = {"vocab_size": 40, "hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 4}
PROPHET = {"hidden_size": 16, "num_encoder_layers": 1, "num_decoder_layers": 1, "num_encoder_attention_heads": 4}
PROPHET |= {"vocab_size": 40, "num_decoder_attention_heads": 4, "encoder_ffn_dim": 16, "decoder_ffn_dim": 16, **ENDS}


def berts():
    config = hf.EncoderDecoderConfig.from_encoder_decoder_configs(hf.BertConfig(**BERT), hf.BertConfig(**BERT))
    model = hf.EncoderDecoderModel(config)
    model.config.update(ENDS)
    model.generation_config = hf.GenerationConfig(**ENDS)
    return model


MODELS = {
    "bart": lambda: hf.BartForConditionalGeneration(hf.BartConfig(**SIZES, forced_eos_token_id=None)),
    "marian": lambda: hf.MarianMTModel(hf.MarianConfig(**SIZES, forced_eos_token_id=None)),
    "pegasus": lambda: hf.PegasusForConditionalGeneration(hf.PegasusConfig(**SIZES, forced_eos_token_id=None)),
    "mbart": lambda: hf.MBartForConditionalGeneration(hf.MBartConfig(**SIZES, forced_eos_token_id=None)),
    "m2m100": lambda: hf.M2M100ForConditionalGeneration(hf.M2M100Config(**SIZES)),
    "blenderbot": lambda: hf.BlenderbotForConditionalGeneration(
        hf.BlenderbotConfig(**SIZES, forced_eos_token_id=None, encoder_no_repeat_ngram_size=0)
    ),
    "t5": lambda: hf.T5ForConditionalGeneration(hf.T5Config(**T5, num_decoder_layers=1)),
    "umt5": lambda: hf.UMT5ForConditionalGeneration(hf.UMT5Config(**T5, num_decoder_layers=1)),
    "prophetnet": lambda: hf.ProphetNetForConditionalGeneration(hf.ProphetNetConfig(**PROPHET)),
    "berts": berts,
}


def named(ids):
    return [f"t{one}" for one in ids]


def model_of(name):
    torch.manual_seed(0)
    model = MODELS[name]().eval()
    for one in model.parameters():
        torch.nn.init.normal_(one, std=0.3)
    return model


def written(model, ids=IDS[:1], tokens=2, **options):
    with torch.no_grad():
        return model.generate(ids, max_new_tokens=tokens, min_new_tokens=tokens, do_sample=False, **options)


@pytest.mark.parametrize("name", MODELS)
def test_the_source_has_its_tokens_and_the_encoder_its_layers(name):
    model = model_of(name)
    with capturing(model, tokens=named) as traces:
        written(model)
    first, second = traces
    assert [trace.missing for trace in traces] == [(), ()] or name == "prophetnet"
    assert [layer.name for layer in first if layer.name.startswith("encoder")] == ["encoder 0"]
    assert not any(layer.name.startswith("encoder") for layer in second)
    own = capture(model, {"input_ids": IDS[:1], "decoder_input_ids": torch.tensor([[3]])}, tokens=named)
    for layer, other in zip(first, own, strict=True):
        assert (layer.name, layer.kind, layer.fidelity) == (other.name, other.kind, other.fidelity)
        assert layer.inputs.key_tokens == other.inputs.key_tokens
        torch.testing.assert_close(layer.maps().nan_to_num(0), other.maps().nan_to_num(0))
    for trace in traces:
        cross = [layer for layer in trace if "cross" in layer.name]
        assert [layer.inputs.key_tokens for layer in cross] == [("t5", "t9", "t11", "t7")]
        assert [layer.inputs.key_ids for layer in cross] == [(5, 9, 11, 7)]


@pytest.mark.parametrize("name", ["bart", "t5"])
@pytest.mark.parametrize("example", range(4))
def test_a_batch_with_beams(name, example):
    """What is written of one text are several examples of the decoder."""
    model = model_of(name)
    with capturing(model, example=example, tokens=named) as traces:
        written(model, IDS, num_beams=2)
    source = tuple(named(IDS[example // 2].tolist()))
    for trace in traces:
        for layer in trace:
            if "cross" in layer.name or layer.name.startswith("encoder"):
                assert layer.inputs.key_tokens == source
    has_encoder = any(layer.name.startswith("encoder") for layer in traces[0])
    assert has_encoder == (example != 1)  # which is of the first text, and the second was recorded
    assert traces[0].missing == (
        () if has_encoder else ("The encoder is not shown: it was recorded for another example of its batch.",)
    )


def test_passes_are_joined_with_the_encoder():
    model = model_of("bart")
    with capturing(model, tokens=named) as traces:
        written(model, tokens=3)
    layers = {str(layer.id): layer for layer in joined_layers(traces)}
    assert [*layers] == ["encoder 0", "decoder 0", "decoder 0 cross"]
    assert layers["decoder 0 cross"].inputs.key_tokens == ("t5", "t9", "t11", "t7")
    assert layers["decoder 0 cross"].inputs.queries == 3


def test_two_texts_are_not_confused():
    model = model_of("bart")
    with capturing(model, tokens=named) as traces, torch.no_grad():
        encoded = [model.get_encoder()(ids[None]) for ids in IDS]
        for states in reversed(encoded):
            model(encoder_outputs=states, decoder_input_ids=torch.tensor([[3]]))
        model.get_encoder()(IDS[:1] + 1)
    kinds = [[layer.name for layer in trace] for trace in traces]
    decoder = ["decoder 0", "decoder 0 cross"]
    assert kinds == [["encoder 0"], ["encoder 0", *decoder], decoder, ["encoder 0"]]
    assert [trace[-1].inputs.key_tokens[0] for trace in traces] == ["t5", "t3", "t5", "t6"]
    assert [trace.missing for trace in traces] == [()] * 4


@pytest.mark.parametrize("observes", [True, False], ids=["capturing", "capture"])
def test_an_encoder_that_ran_before_is_missing(observes):
    model = model_of("bart")
    with torch.no_grad():
        batch = {"encoder_outputs": model.get_encoder()(IDS[:1]), "decoder_input_ids": torch.tensor([[3]])}
    if observes:
        with capturing(model, tokens=named) as traces, torch.no_grad():
            model(**batch)
        [trace] = traces
    else:
        trace = capture(model, batch, tokens=named)
    assert "The encoder is not shown: it ran before" in trace.missing[0]
    assert trace[1].inputs.key_tokens == ("0", "1", "2", "3")


def test_sounds_have_no_tokens():
    config = hf.WhisperConfig(**SIZES, num_mel_bins=8, max_source_positions=8, max_target_positions=16)
    torch.manual_seed(0)
    model = hf.WhisperForConditionalGeneration(config).eval()
    with capturing(model) as traces, torch.no_grad():
        states = model.get_encoder()(torch.randn(1, 8, 16))
        model(encoder_outputs=states, decoder_input_ids=torch.tensor([[3, 4]]))
    [trace] = traces
    assert [layer.name for layer in trace] == ["encoder 0", "decoder 0", "decoder 0 cross"]
    assert trace.missing == ()
