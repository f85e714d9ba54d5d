"""FlexAttention: masks and biases of attnviz come back as they are, others by what they compute."""

import subprocess
import sys
from textwrap import dedent

import pytest
import torch
from torch import nn
from torch.nn.attention.flex_attention import BlockMask, create_block_mask, flex_attention

from attnviz.biases import ALiBi, SoftCap
from attnviz.layer import Fidelity
from attnviz.masks import Causal, Documents, Full, SlidingWindow
from attnviz.trace.opaque_parts import ModelMask
from attnviz.tracing import capture

B, H, L, S, E = 2, 4, 9, 12, 8
pytestmark = pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")


class Flexible(nn.Module):
    """Attention by FlexAttention, which may have more heads for queries than for keys."""

    def __init__(self, kv_heads=H, keys=L, compiled=False, **options):
        super().__init__()
        self.kv_heads, self.keys, self.options = kv_heads, keys, options | {"enable_gqa": kv_heads != H}
        self.function = torch.compile(flex_attention, backend="eager") if compiled else flex_attention
        self.results = []

    def forward(self, x):
        draw = torch.Generator().manual_seed(0)
        shapes = (H, L), (self.kv_heads, self.keys), (self.kv_heads, self.keys)
        query, key, value = (2 * torch.randn(B, *shape, E, generator=draw) for shape in shapes)
        self.results.append(self.function(query, key, value, **self.options))


X = torch.randn(B, L, E)


def block_mask(mask_mod, keys=L):
    return create_block_mask(mask_mod, B, H, L, keys, device="cpu")


def captured(example=0, **options):
    model = Flexible(**options)
    [layer] = capture(model, X, example=example)
    with torch.compiler.set_stance("force_eager"):  # the checks of shapes in the tests cannot be compiled
        model(X)
    seen, alone = model.results
    assert torch.equal(seen, alone)
    if not layer.locked:
        assert layer.fidelity is Fidelity.VERIFIED
        output = layer.mechanism(layer.inputs).output
        torch.testing.assert_close(output, alone[example], atol=1e-5, rtol=0)
    return layer


@pytest.mark.parametrize(
    "mask", [Causal(), SlidingWindow(3), Documents((4, 5)), Causal() & ~SlidingWindow(2) | SlidingWindow(1), Full()]
)
def test_a_mask_of_attnviz_comes_back_as_itself(mask):
    layer = captured(block_mask=block_mask(mask.bind(L, L, H)))
    assert layer.mechanism.mask == mask
    assert layer.fidelity is Fidelity.VERIFIED


def test_a_mask_that_depends_on_the_lengths_comes_back_as_itself():
    mask = Causal("bottom right")
    layer = captured(keys=S, block_mask=block_mask(mask.bind(L, S, H), S))
    assert layer.mechanism.mask == mask


def test_no_mask_is_full():
    assert captured().mechanism.mask == Full()


@pytest.mark.parametrize(("scale", "kv_heads"), [(None, 2), (0.3, 1), (1.0, H)])
def test_scales_and_shared_keys(scale, kv_heads):
    layer = captured(scale=scale, kv_heads=kv_heads, block_mask=block_mask(Causal()))
    assert layer.mechanism.score.scale == scale
    assert len(layer.inputs.key) == kv_heads
    assert layer.kind == "causal"


@pytest.mark.parametrize("bias", [SoftCap(2.0), ALiBi().bind(L, L, H)])
def test_a_bias_of_attnviz_comes_back_as_itself(bias):
    layer = captured(score_mod=bias, block_mask=block_mask(Causal()))
    assert layer.mechanism.biases == (bias,)
    assert layer.fidelity is Fidelity.VERIFIED


def test_a_mask_function_is_recognized_or_computed_where_it_is_needed():
    assert captured(block_mask=block_mask(lambda b, h, q, k: q >= k)).mechanism.mask == Causal()
    parts = torch.tensor([0, 0, 1, 1, 2, 0, 2, 1, 1])
    layer = captured(block_mask=block_mask(lambda b, h, q, k: parts[q] == parts[k]))
    assert isinstance(layer.mechanism.mask, ModelMask)
    assert torch.equal(layer.mechanism.mask.matrix(L, L), parts[:, None] == parts)
    assert layer.fidelity is Fidelity.VERIFIED


@pytest.mark.parametrize("example", [0, 1])
def test_a_function_of_examples_and_heads(example):
    lengths = torch.tensor([L, 5])
    padded = captured(example, block_mask=block_mask(lambda b, h, q, k: k < lengths[b]))
    assert torch.equal(padded.mechanism(padded.inputs).allowed[0, 0], torch.arange(L) < lengths[example])
    of_heads = captured(example, block_mask=block_mask(lambda b, h, q, k: (q - k).abs() <= h + b))
    distance = (torch.arange(L)[:, None] - torch.arange(L)).abs()
    expected = torch.stack([distance <= head + example for head in range(H)])
    assert torch.equal(of_heads.mechanism(of_heads.inputs).allowed, expected)


def test_a_score_mod_of_ones_own_gives_the_weights():
    layer = captured(score_mod=lambda score, b, h, q, k: score - (q - k).abs(), block_mask=block_mask(Causal()))
    assert layer.fidelity is Fidelity.WEIGHTS_ONLY
    weights = layer.weights
    assert not weights.triu(1).any()
    torch.testing.assert_close(weights.sum(-1), torch.ones(H, L))


def test_compiled_flex_attention_is_seen_too():
    assert captured(compiled=True, block_mask=block_mask(Causal())).mechanism.mask == Causal()


def test_a_block_mask_made_of_blocks():
    one = torch.ones(1, 1, 1, dtype=torch.int32)
    blocks = BlockMask.from_kv_blocks(one, one[..., None] - 1, mask_mod=Causal(), BLOCK_SIZE=16, seq_lengths=(L, L))
    assert captured(block_mask=blocks).mechanism.mask == Causal()


def test_flex_attention_is_seen_in_a_process_that_has_compiled_nothing():
    program = """
        import sys, torch
        from torch import nn
        from torch.nn.attention.flex_attention import flex_attention
        from attnviz.tracing import capture

        class Flexible(nn.Module):
            def forward(self, x):
                return flex_attention(*(x.unflatten(-1, (2, 8)).transpose(1, 2),) * 3)

        assert "torch._dynamo" not in sys.modules
        print(*capture(Flexible(), torch.randn(1, 5, 16)))
    """
    result = subprocess.run([sys.executable, "-c", dedent(program)], capture_output=True, text=True, timeout=120)
    assert "2 heads, 5 queries × 5 keys, verified" in result.stdout, result.stderr
