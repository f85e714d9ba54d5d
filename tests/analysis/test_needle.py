"""The mass of heads on a passage, against whole maps; and where a passage stands among tokens."""

from collections.abc import Callable

import pytest
import torch

from attnviz.analysis.needle import find_passage, passage_mass
from attnviz.inputs import Inputs
from attnviz.layer import Kind, Layer, LayerId
from attnviz.masks import Causal, Full, SlidingWindow
from attnviz.mechanism import Mechanism
from attnviz.normalizers import Sink, Sparsemax
from attnviz.sources.haystack import FACT, FILLER, QUESTION, Haystack

N = 700  # more than a block
QUERIES, KEYS = slice(650, 700), slice(280, 310)


def layer(index: int, mechanism: Mechanism) -> Layer:
    generator = torch.Generator().manual_seed(index)
    query = torch.randn(4, N, 8, generator=generator)
    key, value = torch.randn(2, 2, N, 8, generator=generator)
    names = tuple(map(str, range(N)))
    return Layer(LayerId(index=index), Kind.SELF, Inputs(query, key, value, names, names), mechanism)


MECHANISMS: dict[str, Callable[[], Mechanism]] = {
    "full": lambda: Mechanism(mask=Full()),
    "causal": lambda: Mechanism(mask=Causal()),
    "window": lambda: Mechanism(mask=Causal() & SlidingWindow(380)),
    "sink": lambda: Mechanism(mask=Causal(), normalizer=Sink(torch.tensor([0.0, 3.0, -1.0, 5.0]))),
    "sparsemax": lambda: Mechanism(mask=Causal(), normalizer=Sparsemax()),
}


@pytest.mark.parametrize("name", MECHANISMS)
def test_the_mass_is_that_of_the_whole_map(name: str) -> None:
    layers = [layer(index, MECHANISMS[name]()) for index in range(2)]
    found = passage_mass(layers, QUERIES, KEYS)
    assert found.layers.tolist() == [0] * 4 + [1] * 4
    assert found.heads.tolist() == [0, 1, 2, 3] * 2
    attentions = [layer.mechanism(layer.inputs) for layer in layers]
    for i, (index, head) in enumerate(zip(found.layers, found.heads, strict=True)):
        attention = attentions[index]
        assert torch.allclose(found.mass[i], attention.weights[head, QUERIES, KEYS].sum(-1).mean(), atol=1e-5)
        allowed = attention.allowed[head].double()
        uniform = allowed[QUERIES, KEYS].sum(-1) / allowed[QUERIES].sum(-1)
        assert abs(float(found.uniform[i]) - float(uniform.mean())) < 1e-6


def test_a_head_that_copies_is_found() -> None:
    names = tuple(map(str, range(N)))
    vectors = torch.eye(N)[None]
    same = Inputs(vectors, vectors.roll(600, dims=1), vectors, names, names)  # query q scores highest at (q + 600) % N
    sharp = Layer(
        LayerId(index=0), Kind.SELF, Inputs(same.query * 1e4, same.key, same.value, names, names), Mechanism()
    )
    assert passage_mass([sharp], slice(10, 20), slice(610, 620)).mass[0] == pytest.approx(1)
    assert passage_mass([sharp], slice(10, 20), slice(600, 610)).mass[0] == pytest.approx(0)


@pytest.mark.parametrize(
    ("tokens", "passage", "expected"),
    [
        (["a", "b", "c"], "b", slice(1, 2)),
        (["[CLS]", "the", "light", "##house", "is", "[SEP]"], "Lighthouse", slice(2, 4)),
        (["▁the", "▁light", "house", "."], "the lighthouse.", slice(0, 4)),
        (["a", "", "b"], "a b", slice(0, 3)),
        (["x", "y", "x", "y"], "x y", slice(2, 4)),
        (["high", "light", "s"], "light", slice(1, 2)),
    ],
)
def test_a_passage_is_found_among_tokens(tokens: list[str], passage: str, expected: slice) -> None:
    assert find_passage(tokens, passage) == expected


@pytest.mark.parametrize("passage", ["z", "", " "])
def test_a_passage_that_is_not_there_is_said(passage: str) -> None:
    with pytest.raises(ValueError, match="has no passage"):
        find_passage(["a", "b"], passage)


@pytest.mark.parametrize("depth", [0, 1, 33, 50, 99, 100])
@pytest.mark.parametrize("words", [1, 60, 250, 5_000])
def test_the_fact_stands_at_its_depth(words: int, depth: int) -> None:
    text = Haystack(words, depth).text
    assert text.count(FACT) == text.count(QUESTION) == 1
    assert text.endswith(QUESTION)
    before, after = text.removesuffix(QUESTION).split(FACT)
    longest = max(len(sentence.split()) for sentence in FILLER)
    count = len(before.split()) + len(after.split())
    assert abs(len(before.split()) - depth / 100 * count) <= longest
    assert 0 <= len(text.split()) - max(words, len(f"{FACT} {QUESTION}".split())) < longest


def test_the_filler_says_nothing_of_the_fact() -> None:
    words = {*FACT.lower().strip(".").split()} - {"the", "of", "is", "number", "old"}
    assert not words & {*" ".join(FILLER).lower().replace(".", "").replace(",", "").split()}
