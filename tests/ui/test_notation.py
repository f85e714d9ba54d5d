"""The tab “In symbols”: every size, name and formula against the running model."""

import math
import re
from html import unescape
from urllib.parse import parse_qsl, urlsplit

import pytest
import torch
from torch.nn.functional import layer_norm

from attnviz.formatting import dimensions
from attnviz.state.steps import StepsState
from attnviz.steps.all_steps import compute_steps
from attnviz.steps.translator_example import TranslatorExample
from attnviz.translator import EXAMPLES, VARIANTS, Translation, Translator, load
from attnviz.translator.encoder_decoder import LAYERS, ForwardPass, Use
from attnviz.ui.transformer import notation
from attnviz.ui.transformer.notation import (
    AttentionLayer,
    attention_layer,
    formulas,
    named_tensors,
    product_diagram,
    steps_link,
    tensor_table,
)

USES: tuple[Use, ...] = ("encoder", "decoder", "cross")
every = pytest.mark.parametrize(
    ("variant", "use", "number"), [(variant, use, i) for variant in VARIANTS for use in USES for i in range(LAYERS)]
)


def ran_with_inputs(variant: str, use: Use, number: int) -> tuple[Translator, Translation, AttentionLayer, dict]:
    """An attention, and what its module was given and gave in the last step of a translation."""
    translator = load(variant)
    this = attention_layer(translator, translator.translate(EXAMPLES[1]), use, number)
    seen: dict = {}

    def keep(module: torch.nn.Module, given: tuple, gave: torch.Tensor) -> None:
        seen.update(zip(("vectors", "forward_pass", "memory"), given, strict=False))
        seen["gave"] = gave

    hook = this.module.register_forward_hook(keep)
    translation = translator.translate(EXAMPLES[1])
    hook.remove()
    return translator, translation, this, seen


@every
def test_every_size_is_that_of_the_tensor_which_the_code_names(variant: str, use: Use, number: int) -> None:
    translator, translation, this, seen = ran_with_inputs(variant, use, number)
    module, layer = this.code
    names = {"translator": translator, "translation": translation, "i": 2, "vectors": seen["vectors"][0]}
    names |= {"attention": eval(module, names), "layer": eval(layer, names), "forward_pass": ForwardPass()}
    names["done"] = names["layer"].mechanism(names["layer"].inputs)
    if use == "cross":
        names["memory"] = seen["memory"][0]
    assert names["attention"] is this.module
    assert names["layer"].id == this.layer.id
    counted = {"n": len(translation.english), "m": len(translation.steps), r"d_\text{model}": 64, "d_k": 16, "d_v": 16}
    counted |= {"h d_v": 4 * 16, "r": 32}
    for name, one in named_tensors(this).items():
        assert tuple(counted[letter] for letter in one.letters) == one.shape, name
        if name == "result":  # the module itself, which takes a batch
            batch = {key: names[key][None] for key in ("vectors", "memory") if key in names}
            assert eval(one.code, names | batch)[0].shape == one.shape
        else:
            assert eval(one.code, names).shape == one.shape, name


@every
def test_the_tensors_make_each_other_as_the_formulas_say(variant: str, use: Use, number: int) -> None:
    _, _, this, seen = ran_with_inputs(variant, use, number)
    module, i, inputs = this.module, 3, this.layer.inputs
    own = slice(16 * i, 16 * i + 16)
    done = this.layer.mechanism(inputs)
    vectors = seen["vectors"][0]
    memory = seen["memory"][0] if use == "cross" else vectors
    for role, source in (("query", vectors), ("key", memory), ("value", memory)):
        linear = getattr(module, role)
        torch.testing.assert_close(source @ linear.weight[own].T + linear.bias[own], getattr(inputs, role)[i])
    q, k = inputs.query[i], inputs.key[i]
    weights = dict(module.similarity.named_parameters())
    kind = variant if use == "cross" else "scaled dot"
    scores = {
        "scaled dot": lambda: q @ k.T / 16**0.5,
        "dot": lambda: q @ k.T,
        "general": lambda: q @ weights["weight"] @ k.T,
        "additive": lambda: torch.stack(
            [torch.stack([weights["vector"] @ torch.tanh(weights["query_weight"] @ a + weights["key_weight"] @ b)
                          for b in k]) for a in q]
        ),
    }[kind]()  # fmt: skip
    torch.testing.assert_close(scores, done.raw[i], rtol=1e-4, atol=1e-4)
    masked = "+ M" in formulas(this)
    assert masked == (use == "decoder")
    if masked:
        scores = scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).triu(1), -torch.inf)
    torch.testing.assert_close(scores.softmax(-1) @ inputs.value[i], done.output[i], rtol=1e-4, atol=1e-4)
    joined = torch.cat(list(done.output), -1)
    made = joined @ module.output.weight.T + module.output.bias
    torch.testing.assert_close(made, seen["gave"][0], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("variant", "formula"),
    [
        ("scaled dot", r"\frac{QK^{\mathsf T}}{\sqrt{d_k}}"),
        ("dot", r"softmax}\left(QK^{\mathsf T}\right)"),
        ("general", r"QWK^{\mathsf T}"),
        ("additive", r"S_{jl} = v^{\mathsf T} \tanh(W_q\, q_j + W_k\, k_l)"),
    ],
)
def test_the_formula_is_that_of_the_score_in_use(variant: str, formula: str) -> None:
    translator = load(variant)
    translation = translator.translate(EXAMPLES[0])
    assert formula in formulas(attention_layer(translator, translation, "cross", 0))
    for use in ("encoder", "decoder"):
        assert r"\frac{QK^{\mathsf T}}{\sqrt{d_k}}" in formulas(attention_layer(translator, translation, use, 1))


@every
def test_the_link_opens_the_same_head_on_the_steps_page(variant: str, use: Use, number: int) -> None:
    translator = load(variant)
    translation = translator.translate(EXAMPLES[4])
    shown = steps_link(translator, translation, use, number, 1)
    if variant == "additive" and use == "cross":
        assert "too many to be written out" in shown
        assert "<a" not in shown
        return
    link = urlsplit(unescape(re.findall("href='(.*?)'", shown)[0]))
    assert link.path == "./steps"
    example = StepsState.read(parse_qsl(link.query)).example
    assert example == TranslatorExample(" ".join(translation.english), variant, use, number, 1)
    weights = (
        attention_layer(translator, translation, use, number)
        .layer.mechanism(attention_layer(translator, translation, use, number).layer.inputs)
        .weights[1]
    )
    torch.testing.assert_close(
        compute_steps(example).matrices["weights0"].values.float(), weights, rtol=1e-4, atol=1e-5
    )


@every
def test_the_picture_is_made_of_rectangles_as_large_as_the_tensors(variant: str, use: Use, number: int) -> None:
    translator = load(variant)
    this = attention_layer(translator, translator.translate(EXAMPLES[5]), use, number)
    tensors = named_tensors(this)
    box = r"<b>(.*?)</b><i .*?--rows:(\d+);--columns:(\d+).*?</i><span>(.*?)</span>"
    sizes = {}
    for symbol, rows, columns, written in re.findall(box, product_diagram(this, tensors)):
        assert written == f"{rows} × {columns}"
        sizes[symbol] = int(rows), int(columns)
    given = {"encoder": "X", "decoder": "Y", "cross": "Y"}[use]
    assert sizes[given] == tensors["vectors"].shape
    assert sizes["Concat"] == tensors["joined"].shape
    assert sizes["A"] == tensors["weights"].shape
    if variant != "additive" or use != "cross":
        assert sizes["K<sup>T</sup>"] == tensors["key"].shape[::-1]
    # What is multiplied fits together.
    for left, right, made in (
        (given, "W<sub>i</sub><sup>Q</sup>", "Q"),
        ("A", "V", "head<sub>i</sub>"),
        ("Concat", "W<sup>O</sup>", "MultiHead"),
    ):
        assert sizes[left][1] == sizes[right][0]
        assert sizes[made] == (sizes[left][0], sizes[right][1])


def test_the_table_holds_every_tensor_once_with_its_size() -> None:
    translator = load()
    tensors = named_tensors(attention_layer(translator, translator.translate(EXAMPLES[0]), "cross", 0))
    rows = tensor_table(tensors).splitlines()[2:]
    assert len(rows) == len(tensors) == len({one.symbol for one in tensors.values()})
    for row, one in zip(rows, tensors.values(), strict=True):
        assert f"| {dimensions(one.shape)} |" in row
        assert f"`{one.code}`" in row


@pytest.mark.parametrize("variant", VARIANTS)
def test_it_is_said_what_is_as_in_the_paper_and_what_is_not(variant: str) -> None:
    translator = load(variant)
    translation = translator.translate(EXAMPLES[0])
    said = notation.compare_with_paper(translator, attention_layer(translator, translation, "cross", 0))
    assert "= 64, $h$ = 4, $d_k = d_v$ = 16, 2 + 2 layers; in the paper’s base model 512, 8, 64, 6 + 6" in said
    assert ("the scores of encoder–decoder attention" in said) == (variant != "scaled dot")
    model = translator.model
    # It adds sinusoids, to embeddings times √d_model, and normalizes what it reads.
    assert not any(isinstance(part, torch.nn.Dropout) for part in model.modules())
    assert all(part.bias is not None for part in model.modules() if isinstance(part, torch.nn.Linear))
    read: list[torch.Tensor] = []
    hook = model.encoder[0].attention.register_forward_pre_hook(lambda _, given: read.append(given[0]))
    words = torch.tensor([[5, 6, 7]])
    model.encode(words, ForwardPass())
    hook.remove()
    angles = [[place / 10000 ** (2 * (i // 2) / 64) for i in range(64)] for place in range(3)]
    sinusoids = [[math.cos(angle) if i % 2 else math.sin(angle) for i, angle in enumerate(row)] for row in angles]
    summed = model.english(words)[0] * math.sqrt(64) + torch.tensor(sinusoids)
    norm = model.encoder[0].norms[0]
    expected = layer_norm(summed, (64,), norm.weight, norm.bias)
    torch.testing.assert_close(read[0][0], expected, rtol=1e-4, atol=1e-4)
