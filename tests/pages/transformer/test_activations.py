"""Every activation is the one that the model computed in a forward pass of its own."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
import transformers as hf
from torch import Tensor, nn
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

from attnviz.attribution.linearized_pass import LinearizedPass
from attnviz.models.minilm import minilm
from attnviz.models.model import LoadedModel
from attnviz.models.smollm2 import smollm2
from attnviz.models.translator import translator
from attnviz.pages.transformer.activation import ActivationRecord
from attnviz.pages.transformer.model_activations import MOST_TOKENS, model_activations
from attnviz.pages.transformer.sampling import NextWord
from attnviz.tracing import capture
from attnviz.tracing.forward_arguments import example_arguments
from attnviz.translator import EXAMPLES, load
from attnviz.translator.encoder_decoder import TARGET_VOCABULARY
from tests.support import tiny_models
from tests.support.tiny_models import GROUPED, SMALL

TEXT = "The animal was too tired."


@contextmanager
def outputs(model: nn.Module) -> Iterator[dict[str, Tensor]]:
    """The output of each module in its latest call, without the axis of the batch."""
    seen: dict[str, Tensor] = {}

    def keep(name: str):
        def hook(module: nn.Module, args: object, result: object) -> None:
            first = result[0] if isinstance(result, tuple) else result
            if isinstance(first, Tensor):
                seen[name] = first[0]

        return hook

    hooks = [module.register_forward_hook(keep(name)) for name, module in model.named_modules()]
    try:
        yield seen
    finally:
        for hook in hooks:
            hook.remove()


def close(ours: Tensor, theirs: Tensor) -> None:
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=2e-5)


def joined(values: Tensor) -> Tensor:
    return values.transpose(0, 1).flatten(1)


FUNCTIONS = {"GELU": nn.functional.gelu, "ReLU": torch.relu, "SiLU": nn.functional.silu}


def of_all_heads(values: Tensor, like: Tensor) -> Tensor:
    """Keys or values of each head, where several heads share them."""
    return values if values.ndim < 3 else values.repeat_interleave(len(like) // len(values), 0)


def check_sources(record: ActivationRecord, eps: float = 0.0, gelu: str = "none") -> None:
    """Each activation follows from its sources alone."""
    for one in record.values():
        sources = [source.values for source in one.sources]
        if one.operation == "add":
            close(one.values, torch.stack(sources).sum(0))
        elif one.operation == "product":
            close(one.values, sources[0] * sources[1])
        elif one.operation == "softmax":
            close(one.values, torch.softmax(sources[0], -1))
        elif one.operation == "weighted sum":
            close(one.values, sources[0] @ of_all_heads(sources[1], sources[0]))
        elif one.operation == "concat":
            close(one.values, joined(sources[0]))
        elif one.operation == "scores":
            keys = of_all_heads(sources[1], sources[0])
            dots = sources[0] @ keys.transpose(-1, -2) / sources[0].shape[-1] ** 0.5
            close(one.values, torch.where(one.values.isneginf(), one.values, dots))
        elif one.operation == "rotation":
            (low, high), half = sources[0][..., : one.rotated].chunk(2, -1), one.rotated // 2
            close(one.values[..., :half] ** 2 + one.values[..., half : one.rotated] ** 2, low**2 + high**2)
            close(one.values[..., one.rotated :], sources[0][..., one.rotated :])
            close(one.values[:, 0], sources[0][:, 0])  # the angle at the first position is 0
        elif one.operation == "norm":
            mean = 0 if "RMSNorm" in one.formula else sources[0].mean(-1, keepdim=True)
            spread = ((sources[0] - mean).square().mean(-1, keepdim=True) + eps).sqrt()
            close(one.values, (sources[0] - mean) / spread * one.weight + (0 if one.bias is None else one.bias))
        elif one.operation == "linear":
            product = sources[0] @ one.weight + (0 if one.bias is None else one.bias.unsqueeze(-2))
            name = one.formula.split("(")[0].split()[-1] if "(" in one.formula else ""
            if name == "GELU" and gelu != "none":
                product = nn.functional.gelu(product, approximate=gelu)
            elif name:
                product = FUNCTIONS[name](product)
            close(one.values, product[-len(one.rows) :] if one.part == "logits" else product)
        else:
            assert one.operation == "input"
            assert not one.sources


@pytest.mark.parametrize("english", [EXAMPLES[0], EXAMPLES[5]])
def test_the_translators_activations_are_those_of_its_own_forward_pass(english: str) -> None:
    own = load()
    model = own.model
    with outputs(model) as seen:
        translation = own.translate(english)
    step = len(translation.steps) - 1  # the latest call
    record = model_activations(translator(), english)
    check_sources(record)
    for stack, layers in (("encoder", model.encoder), ("decoder", model.decoder)):
        for i in range(len(layers)):
            parts = {"attention": "attention", "cross": "cross"} if stack == "decoder" else {"attention": "attention"}
            for number, (kind, module) in enumerate(parts.items()):
                ours, theirs = f"{stack} {i} {kind}", f"{stack}.{i}.{module}"
                close(record[f"{ours} norm"].values, seen[f"{stack}.{i}.norms.{number}"])
                for part, name in (("queries", "query"), ("keys", "key"), ("values", "value")):
                    close(joined(record[f"{ours} {part}"].values), seen[f"{theirs}.{name}"])
                close(record[f"{ours} output"].values, seen[theirs])
            close(record[f"{stack} {i} network norm"].values, seen[f"{stack}.{i}.norms.{len(parts)}"])
            close(record[f"{stack} {i} network hidden"].values, seen[f"{stack}.{i}.inner.1"])
            close(record[f"{stack} {i} network output"].values, seen[f"{stack}.{i}.inner"])
            close(record[f"{stack} {i} network sum"].values, seen[f"{stack}.{i}"])
    close(record["memory vectors"].values, seen["norms.0"])
    close(record["output norm"].values, seen["norms.1"])
    for one in translation.steps[step].records:
        name = f"{one.id.stack} {one.id.index} {'cross' if one.id.cross else 'attention'}"
        close(record[f"{name} weights"].values, one.weights[0])
    logits = record["output logits"]
    assert tuple(logits.columns[:]) == TARGET_VOCABULARY
    close(logits.values[0].softmax(-1), translation.steps[step].probabilities)


def test_each_word_is_written_by_the_activations_of_its_step() -> None:
    for i, step in enumerate(load().translate(EXAMPLES[1]).steps):
        logits = model_activations(translator(), EXAMPLES[1], count=i + 1)["output logits"]
        assert logits.columns[int(logits.values.argmax())] == step.word


def test_the_decoder_reads_what_is_written() -> None:
    record = model_activations(translator(), "I sleep.", "je dors")
    assert record["decoder 1 cross weights"].rows == ("<start>", "je", "dors")
    forced = load().teacher_forced(("I", "sleep", "."), ("je", "dors"))
    close(record["output logits"].values[0].softmax(-1), forced.steps[-1].probabilities)


def test_the_encoders_activations_are_those_of_its_forward_pass() -> None:
    model = minilm()
    record = model_activations(model, TEXT)
    check_sources(record)
    batch = model.encode(TEXT).batch
    with outputs(model.model) as seen, torch.no_grad():
        result = model.model(**batch, output_hidden_states=True)
    states = [one[0] for one in result.hidden_states]
    close(record["encoder embedding norm"].values, states[0])
    for i, layer in enumerate(capture(model.model, batch)):
        ours, theirs = f"encoder {i}", f"encoder.layer.{i}"
        close(record[f"{ours} network norm"].values, states[i + 1])
        for part, name in (("queries", "query"), ("keys", "key"), ("values", "value")):
            close(joined(record[f"{ours} attention {part}"].values), seen[f"{theirs}.attention.self.{name}"])
        close(record[f"{ours} attention weights"].values, layer.mechanism(layer.inputs).weights)
        close(record[f"{ours} attention concat"].values, seen[f"{theirs}.attention.self"])
        close(record[f"{ours} attention output"].values, seen[f"{theirs}.attention.output.dense"])
        close(record[f"{ours} attention norm"].values, seen[f"{theirs}.attention.output"])
        close(record[f"{ours} network hidden"].values, seen[f"{theirs}.intermediate"])
        close(record[f"{ours} network output"].values, seen[f"{theirs}.output.dense"])


def test_smollm2s_activations_are_those_of_its_forward_pass() -> None:
    model = smollm2()
    record = model_activations(model, TEXT)
    check_sources(record, model.model.config.rms_norm_eps)
    batch = model.encode(TEXT).batch
    with outputs(model.model) as seen, torch.no_grad():
        result = model.model(**batch, output_hidden_states=True)
        angles = model.model.model.rotary_emb(result.logits, torch.arange(len(batch["input_ids"][0]))[None])
    states = [one[0] for one in result.hidden_states]
    close(record["decoder embedding words"].values, states[0])
    for i, layer in enumerate(capture(model.model, batch)):
        ours, theirs = f"decoder {i}", f"model.layers.{i}"
        close(record[f"{ours} attention norm"].values, seen[f"{theirs}.input_layernorm"])
        for part, name in (("queries", "q_proj"), ("keys", "k_proj"), ("values", "v_proj")):
            close(joined(record[f"{ours} attention {part}"].values), seen[f"{theirs}.self_attn.{name}"])
        made = [record[f"{ours} attention {part}"].values[None] for part in ("queries", "keys")]
        for part, rotated in zip(("queries", "keys"), apply_rotary_pos_emb(*made, *angles), strict=True):
            close(record[f"{ours} attention rotated {part}"].values, rotated[0])
        close(record[f"{ours} attention weights"].values, layer.mechanism(layer.inputs).weights)
        close(record[f"{ours} attention output"].values, seen[f"{theirs}.self_attn.o_proj"])
        close(record[f"{ours} network norm"].values, seen[f"{theirs}.post_attention_layernorm"])
        close(record[f"{ours} network gate"].values, seen[f"{theirs}.mlp.act_fn"])
        close(record[f"{ours} network up"].values, seen[f"{theirs}.mlp.up_proj"])
        close(record[f"{ours} network output"].values, seen[f"{theirs}.mlp"])
        close(record[f"{ours} network sum"].values, seen[theirs])
    assert record["decoder 0 attention keys"].shared == 3
    close(record["decoder 0 attention keys"].head_values(5), record["decoder 0 attention keys"].values[1])
    close(record["output norm"].values, seen["model.norm"])
    logits = record["output logits"]
    close(logits.values[0], result.logits[0, -1])
    best = int(logits.values.argmax())
    assert logits.columns[best].strip() == model.tokenizer.decode([best]).strip()


@pytest.mark.parametrize("model", [minilm, smollm2])
def test_heads_and_mlps_write_what_an_attribution_divides(model: Callable[[], LoadedModel]) -> None:
    record = model_activations(model(), TEXT)
    network, batch = model().model, model().encode(TEXT).batch
    _output, run = LinearizedPass(network, example_arguments(network, batch)).ran
    for part, writers in (("attention heads", run.heads), ("network output", run.mlps)):
        ours = [one.values for one in record.values() if one.name.endswith(part)]
        for values, writer in zip(ours, writers, strict=True):
            close(values if values.ndim < 3 else values.transpose(0, 1), writer.value.detach()[0])


GPT_NEOX = {"vocab_size": 400, "max_position_embeddings": 64, **SMALL}
LARGE = {"vocab_size": 400, "max_position_embeddings": 64, **GROUPED}
ARCHITECTURES = {  # norms before and after, with and without a gate; projections of their own and in one; in parallel
    "gpt2": lambda: tiny_models.gpt2(),
    "llama": lambda: tiny_models.llama(),
    "gemma": lambda: hf.GemmaForCausalLM(hf.GemmaConfig(**LARGE)),
    "gemma3": lambda: hf.Gemma3ForCausalLM(hf.Gemma3TextConfig(query_pre_attn_scalar=8, **LARGE)),
    "qwen2": lambda: hf.Qwen2ForCausalLM(hf.Qwen2Config(**LARGE)),
    "qwen3": lambda: hf.Qwen3ForCausalLM(hf.Qwen3Config(**LARGE)),
    "phi": lambda: hf.PhiForCausalLM(hf.PhiConfig(**GPT_NEOX)),
    "phi3": lambda: hf.Phi3ForCausalLM(hf.Phi3Config(**LARGE)),
    "gpt_neox": lambda: hf.GPTNeoXForCausalLM(hf.GPTNeoXConfig(**GPT_NEOX)),
    "opt": lambda: hf.OPTForCausalLM(hf.OPTConfig(word_embed_proj_dim=32, ffn_dim=48, **GPT_NEOX)),
    "roberta": lambda: hf.RobertaModel(hf.RobertaConfig(**GPT_NEOX)),
    "eurobert": lambda: hf.EuroBertModel(hf.EuroBertConfig(mask_token_id=3, **LARGE)),
}
TANH = ("gpt2", "gemma", "gemma3", "phi")  # with GELU by a hyperbolic tangent


def loaded(network: Any, tokenizer: Any, outputs: str) -> LoadedModel:
    torch.manual_seed(3)
    for parameter in network.parameters():
        parameter.data = torch.randn_like(parameter) * 0.2 + (parameter.ndim == 1)
    return LoadedModel(network.eval(), tokenizer, type(network).__name__, outputs=outputs)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_parts_of_many_architectures_are_found(architecture: str) -> None:
    network = ARCHITECTURES[architecture]()
    writes = "LM" in type(network).__name__
    model = loaded(network, tiny_models.byte_level(), "next token" if writes else "sentence vector")
    record = model_activations(model, "The quick fox")
    eps = next(one.eps if hasattr(one, "eps") else one.variance_epsilon
               for name, one in network.named_modules() if "norm" in type(one).__name__.lower())  # fmt: skip
    check_sources(record, eps, gelu="tanh" if architecture in TANH else "none")
    network.set_attn_implementation("eager")
    with torch.no_grad():
        result = network(**model.encode("The quick fox").batch, output_hidden_states=True, output_attentions=True)
    stack = "decoder" if writes else "encoder"
    for i, weights in enumerate(result.attentions):
        close(record[f"{stack} {i} attention weights"].values, weights[0])
        close(record[f"{stack} {i} attention {'norm' if architecture != 'roberta' else 'queries'}"].sources[0].values,
              result.hidden_states[i][0])  # fmt: skip
    last = record["output norm" if "output norm" in record else f"{stack} 1 network norm"]
    close(last.values, result.hidden_states[-1][0])
    if writes:
        close(record["output logits"].values[0], result.logits[0, -1])


@pytest.mark.parametrize("name", ["gemma2", "t5"])
def test_a_model_with_other_parts_is_refused_in_a_sentence(name: str) -> None:
    network, tokenizer = (make() for make in tiny_models.MODELS[name])
    with pytest.raises(ValueError, match=r"cannot be shown here: at “.*(o_proj|relative_attention_bias)”"):
        model_activations(loaded(network, tokenizer, "next token"), "The quick fox")


def test_an_encoder_without_a_last_norm_gives_its_output_to_the_decoder() -> None:
    network, tokenizer = (make() for make in tiny_models.MODELS["bart"])
    model = loaded(network, tokenizer, "next token")
    record = model_activations(model, "The quick fox", "A dog")
    check_sources(record, 1e-5)
    network.set_attn_implementation("eager")
    with torch.no_grad():
        result = network(**model.encode("The quick fox", "A dog").batch, output_attentions=True)
    close(record["memory vectors"].values, result.encoder_last_hidden_state[0])
    for i, weights in enumerate(result.cross_attentions):
        close(record[f"decoder {i} cross weights"].values, weights[0])
    close(record["output logits"].values[0], result.logits[0, -1])


def test_a_model_without_queries_and_keys_is_refused_in_a_sentence() -> None:
    network = hf.BloomForCausalLM(hf.BloomConfig(vocab_size=400, hidden_size=32, n_layer=2, n_head=4))
    with pytest.raises(ValueError, match="BloomForCausalLM cannot be shown here: at “layer 0”"):
        model_activations(loaded(network, tiny_models.byte_level(), "next token"), "The quick fox")


def test_a_model_that_scales_its_logits_is_refused_in_a_sentence() -> None:
    network = tiny_models.llama()
    network.register_forward_hook(lambda _module, _args, result: result.__setitem__("logits", result.logits * 0.5))
    with pytest.raises(ValueError, match="LlamaForCausalLM cannot be shown here: at “LlamaForCausalLM”"):
        model_activations(loaded(network, tiny_models.byte_level(), "next token"), "The quick fox")


def test_a_model_that_fails_is_refused_in_a_sentence() -> None:
    network = tiny_models.llama()
    network.model.layers[1].register_forward_pre_hook(lambda _module, _args: 1 / 0)
    with pytest.raises(ValueError, match="LlamaForCausalLM fails on this example"):
        model_activations(loaded(network, tiny_models.byte_level(), "next token"), "The quick fox")


def test_models_in_bfloat16_are_followed_within_their_rounding() -> None:
    model = loaded(tiny_models.llama().bfloat16(), tiny_models.byte_level(), "next token")
    record = model_activations(model, "The quick fox")
    with torch.no_grad():
        logits = model.model(**model.encode("The quick fox").batch).logits[0, -1].float()
    torch.testing.assert_close(record["output logits"].values[0], logits)


def test_a_text_that_is_too_long_to_be_drawn_is_refused() -> None:
    with pytest.raises(ValueError, match=f"At most {MOST_TOKENS} tokens"):
        model_activations(minilm(), "cat " * MOST_TOKENS)


def test_the_drawn_word_follows_from_the_seed_and_the_probabilities() -> None:
    logits = torch.tensor([0.0, 3.0, 1.0, -1.0])
    words = ("a", "b", "c", "d")
    assert {NextWord(words, logits, 0.0, seed).drawn for seed in range(20)} == {1}
    counts = [[NextWord(words, logits, 2.0, seed).drawn for seed in range(2000)].count(i) for i in range(4)]
    expected = (logits / 2).softmax(-1)
    for count, probability in zip(counts, expected.tolist(), strict=True):
        assert abs(count / 2000 - probability) < 0.04
    assert NextWord(words, logits, 2.0, 7).drawn == NextWord(words, logits, 2.0, 7).drawn
    assert NextWord(words, logits, 0.0).likeliest(2) == [1, 2]
    last = next(word for seed in range(99) if (word := NextWord(words, logits, 3.0, seed)).drawn == 3)
    assert last.likeliest(2) == [1, 3]  # the drawn word is always shown
    with pytest.raises(ValueError, match="0 or more"):
        NextWord(words, logits, -1.0)
