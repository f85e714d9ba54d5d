"""The atlas of a model: what is written, read again and gone on with."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers as hf

import attnviz
from attnviz.analysis import atlas as module
from attnviz.analysis.atlas import FILE, Atlas, atlas
from attnviz.analysis.atlas_examples import RANDOM, WEIGHT, WRITTEN
from attnviz.analysis.atlas_part import read_part
from attnviz.analysis.engines import Local
from attnviz.effects import NEUTRAL_TEXTS
from attnviz.models.minilm import minilm
from attnviz.models.model import LoadedModel
from attnviz.models.smollm2 import smollm2
from attnviz.models.texts import Texts
from tests.support.output_projections import named
from tests.support.tiny_models import (
    GROUPED,
    TEXT,
    bert,
    byte_fallback,
    byte_level,
    gpt2,
    t5,
    unigram,
    word_pieces,
)

TEXTS = NEUTRAL_TEXTS[:7]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Atlas, Path]:
    folder = tmp_path_factory.mktemp("atlas")
    return atlas(minilm(), TEXTS, folder, part_size=3), folder


def test_its_statistics_are_those_of_the_values_of_each_text(made: tuple[Atlas, Path]) -> None:
    found, _folder = made
    part = read_part(minilm(), Texts(minilm(), TEXTS))
    values = part.values[part.texts.argsort()].double().numpy()
    np.testing.assert_allclose(found.means, np.nanmean(values, 0), atol=1e-5)
    np.testing.assert_allclose(found.deviations, np.nanstd(values, 0), atol=1e-3)
    np.testing.assert_allclose(found.values, values, rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(
        found.share_above("Entropy", 2.0), (values[:, found.metrics.index("Entropy")] >= 2).mean(0)
    )
    assert found.lengths.tolist() == [[len(minilm().encode(text).source.tokens), 0] for text in TEXTS]
    assert found.counts.max() == len(TEXTS)


REPEATING = "The zebra saw a car. The zebra saw a"


@pytest.fixture(scope="module")
def of_smollm2() -> Atlas:
    return atlas(smollm2(), [REPEATING, TEXTS[0]])


def test_the_head_that_repeats_is_found_by_its_examples(of_smollm2: Atlas) -> None:
    head = of_smollm2.head(18, 6)
    ids = smollm2().tokenizer(REPEATING)["input_ids"]
    query, key = next(pair[1:3] for pair in of_smollm2.pairs(head, WEIGHT) if pair.text == 0)
    assert ids[key - 1] == ids[query]  # the token before the key is the query, earlier
    assert of_smollm2.values[0, of_smollm2.metrics.index("Induction"), head] > 0.5


def test_what_an_example_raises_are_the_logits_of_what_is_written(of_smollm2: Atlas) -> None:
    model, (layer, head) = smollm2(), (20, 4)
    number = of_smollm2.head(layer, head)
    places = of_smollm2.examples[WRITTEN].places[number].tolist()
    example = next(i for i, (text, *_pair) in enumerate(places) if text == 1)
    attention, values = model.model.model.layers[layer].self_attn, {}
    hook = attention.v_proj.register_forward_hook(lambda _module, _args, output: values.update(value=output[0]))
    with torch.no_grad():
        model.model(**model.encode(TEXTS[0]).batch)
        hook.remove()
        value = values["value"].view(-1, 3, 64)[places[example][2], head // 3]
        written = attention.o_proj.weight[:, head * 64 : (head + 1) * 64] @ value
        logits = model.model.lm_head(model.model.model.norm.weight * written)
    assert of_smollm2.raised[number, example, 0].tolist() == logits.topk(5).indices.tolist()
    assert of_smollm2.raised[number, example, 1].tolist() == (-logits).topk(5).indices.tolist()


def test_it_is_read_as_it_was_written(made: tuple[Atlas, Path]) -> None:
    found, folder = made
    assert [path.name for path in folder.iterdir()] == [FILE]
    again = attnviz.load(folder / FILE).result
    assert isinstance(again, Atlas)
    assert (again.texts, again.layers, again.metrics) == (found.texts, found.layers, found.metrics)
    for name in ("means", "values", "raised", "neighbors", "likeness"):
        torch.testing.assert_close(getattr(again, name), getattr(found, name), equal_nan=True)
    assert (folder / FILE).stat().st_size < 4 << 20
    assert len(again.to_frame()) == len(found.heads)


def test_a_run_that_was_ended_goes_on_to_the_same_bits(made: tuple[Atlas, Path], tmp_path: Path, monkeypatch) -> None:
    whole, _folder = made

    def end(done: int, _count: int) -> None:
        if done >= 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        atlas(minilm(), TEXTS, tmp_path, part_size=3, on_progress=end)
    assert len([*tmp_path.glob("parts-*/*.safetensors")]) == 1
    read, read_before = [], module.read_part
    monkeypatch.setattr(
        module, "read_part", lambda *given, **more: read.append(given[2]) or read_before(*given, **more)
    )
    again = atlas(minilm(), TEXTS, tmp_path, part_size=3)
    assert read == [3, 6]
    for name in ("means", "values", "likeness"):
        assert torch.equal(getattr(again, name).nan_to_num(-1), getattr(whole, name).nan_to_num(-1))
    assert [path.name for path in tmp_path.iterdir()] == [FILE]


def test_threads_give_the_same_bits(made: tuple[Atlas, Path]) -> None:
    found = atlas(minilm(), TEXTS, engine=Local(2), part_size=3)
    assert torch.equal(found.means.nan_to_num(-1), made[0].means.nan_to_num(-1))


class Lost:
    """An engine whose machines are not reached."""

    def map(self, *_given: object) -> Iterator[object]:
        raise ConnectionError("The cluster is not reached.")


def test_only_a_folder_that_cannot_be_written_is_said_to_be_one(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match="The folder cannot be written"):
        atlas(minilm(), TEXTS, tmp_path / "file")
    with pytest.raises(ConnectionError, match="not reached"):
        atlas(minilm(), TEXTS, tmp_path / "new", engine=Lost())


@pytest.mark.parametrize(("layer", "head"), [(99, 0), (0, 99), ("nowhere", 0)])
def test_a_head_that_is_not_there(made: tuple[Atlas, Path], layer: Any, head: int) -> None:
    with pytest.raises(ValueError, match="There is no head"):
        made[0].head(layer, head)


def kinds_of_models() -> dict[str, Any]:
    gemma3 = hf.Gemma3TextConfig(
        vocab_size=400, max_position_embeddings=128, sliding_window=4, **GROUPED | {"num_hidden_layers": 6}
    )
    mixtral = hf.MixtralConfig(vocab_size=400, max_position_embeddings=128, num_local_experts=2, **GROUPED)
    return {
        "GPT-2": (gpt2, byte_level),
        "T5": (t5, unigram),
        "BERT": (bert, word_pieces),
        "Gemma 3": (lambda: hf.Gemma3ForCausalLM(gemma3), byte_fallback),
        "Mixtral": (lambda: hf.MixtralForCausalLM(mixtral), byte_fallback),
    }


@pytest.mark.parametrize("name", ["GPT-2", "T5", "BERT", "Gemma 3", "Mixtral"])
def test_heads_of_any_model_are_counted_by_its_own_weights(name: str, tmp_path: Path) -> None:
    make, tokenizer = kinds_of_models()[name]
    torch.manual_seed(0)
    own = make().eval()
    own.set_attn_implementation("eager")
    outputs = "next token" if own.can_generate() else ""
    model, texts = LoadedModel(own, tokenizer(), name, outputs=outputs), [TEXT, "the lazy dog", "a naïve fox jumps"]
    found = atlas(model, texts, tmp_path)
    largest, first = [torch.zeros(len(texts), len(found.heads)) for _ in range(2)]
    for row, text in enumerate(texts):
        with torch.no_grad():
            output = own(**model.encode(text).batch, output_attentions=True)
        names = ("attentions", "encoder_attentions", "decoder_attentions", "cross_attentions")
        by_kind = {kind: [one[0] for one in output.get(kind) or ()] for kind in names}
        stacks = [*by_kind["attentions"], *by_kind["encoder_attentions"]]
        for pair in zip(by_kind["decoder_attentions"], by_kind["cross_attentions"], strict=True):
            stacks += pair  # as they run
        weights = [head for layer in stacks for head in layer]
        largest[row] = torch.stack([head.amax(-1).mean() for head in weights])
        first[row] = torch.stack([head[(head > 0).sum(-1) > 1, 0].mean() for head in weights])
    by_name = dict(zip(found.metrics, found.means, strict=True))
    torch.testing.assert_close(by_name["Largest weight"], largest.mean(0), rtol=0, atol=1e-4)
    torch.testing.assert_close(by_name["First token"], first.mean(0), rtol=0, atol=1e-4)
    again = attnviz.load(tmp_path / FILE).result
    assert (again.layers, again.texts) == (found.layers, tuple(texts))
    assert bool((found.examples[WRITTEN].order[:, 0] > 0).all())


MLPS = {
    "GPT-2": r"h\.\d\.mlp", "T5": "DenseReluDense", "BERT": r"\d\.output\.dense",
    "Gemma 3": r"layers\.\d\.mlp", "Mixtral": r"layers\.\d\.mlp",
}  # fmt: skip


@pytest.mark.parametrize("name", [*MLPS])
def test_mlps_of_any_model_are_counted_by_what_their_modules_return(name: str) -> None:
    make, tokenizer = kinds_of_models()[name]
    torch.manual_seed(0)
    own = make().eval()
    model = LoadedModel(own, tokenizer(), name, outputs="next token" if own.can_generate() else "")
    texts = [TEXT, "the lazy dog", "a naïve fox jumps"]
    found, modules = atlas(model, texts), named(own, MLPS[name])
    paths = {module: path for path, module in own.named_modules()}
    means, norms = torch.zeros(len(texts), len(modules)), []
    for row, text in enumerate(texts):
        inputs, written = model.encode(text), dict[Any, torch.Tensor]()
        hooks = [
            one.register_forward_hook(lambda one, _args, out, written=written: written.update({one: out}))
            for one in modules
        ]
        with torch.no_grad():
            own(**inputs.batch)
        for hook in hooks:
            hook.remove()
        for column, one in enumerate(modules):
            axis = inputs.target if paths[one].startswith("decoder") else inputs.source
            assert axis is not None
            ordinary = [i for i in range(1, len(axis.tokens)) if i not in axis.special]
            norms.append(written[one].reshape(-1, written[one].shape[-1]).norm(dim=-1))
            means[row, column] = norms[-1][ordinary].mean()
    torch.testing.assert_close(found.mlps.values, means, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(found.mlps.means.float(), means.mean(0), rtol=1e-4, atol=1e-5)
    writes_to_logits = {"GPT-2": [0, 1], "T5": [2, 3], "Mixtral": [0, 1]}.get(name, [])  # a norm follows in Gemma 3
    assert (found.raised_by_mlps >= 0).flatten(1).all(1).nonzero().flatten().tolist() == writes_to_logits
    for mlp in range(len(modules)):
        for kind in (WRITTEN, RANDOM):
            examples = found.tokens_of_mlp(mlp, kind)
            assert {one.text for one in examples} == {0, 1, 2}
            for text, token, key, norm in examples:
                assert token == key
                assert norm == pytest.approx(float(norms[text * len(modules) + mlp][token]), rel=1e-4)
        assert [one.weight for one in found.tokens_of_mlp(mlp)] == sorted(
            (one.weight for one in found.tokens_of_mlp(mlp)), reverse=True
        )


def test_what_an_mlp_raises_are_the_logits_of_what_it_writes(of_smollm2: Atlas) -> None:
    model, mlp = smollm2(), 29
    text, token, _key, norm = of_smollm2.tokens_of_mlp(mlp)[0]
    written: list[torch.Tensor] = []
    hook = model.model.model.layers[mlp].mlp.register_forward_hook(lambda _module, _args, out: written.append(out[0]))
    with torch.no_grad():
        model.model(**model.encode(of_smollm2.texts[text]).batch)
        hook.remove()
        vector = written[0][token]
        logits = model.model.lm_head(model.model.model.norm.weight * vector)
    assert norm == pytest.approx(float(vector.norm()), rel=1e-4)
    assert of_smollm2.raised_by_mlps[mlp, 0, 0].tolist() == logits.topk(5).indices.tolist()
    assert of_smollm2.raised_by_mlps[mlp, 0, 1].tolist() == (-logits).topk(5).indices.tolist()
