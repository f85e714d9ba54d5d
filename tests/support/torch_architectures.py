"""Modules of torch and timm, and modules of one's own, and how they compare with what `capture` shows of them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

from attnviz.biases import SoftCap
from attnviz.layer import Fidelity
from attnviz.masks import SlidingWindow
from attnviz.tracing import capture, capturing
from tests.support.architectures import Row, side_by_side
from tests.support.timm_models import import_timm

B, N, WIDTH, HEADS = 2, 14, 32, 4
PICTURES = {"img_size": 32, "embed_dim": 32, "num_classes": 3}
VIT = PICTURES | {"patch_size": 8, "depth": 2, "num_heads": 4}


def states(seed: int = 1) -> Tensor:
    return torch.randn(B, N, WIDTH, generator=torch.Generator().manual_seed(seed))


def no_later() -> Tensor:
    return torch.ones(N, N).triu(1).bool()


def padded() -> Tensor:
    return torch.arange(N) >= torch.tensor([[N], [N - 4]])


class Projected(nn.Module):
    """Queries, keys and values of a function of attention, of which some may share keys."""

    def __init__(self, function: Callable[..., Tensor], kv_heads: int = HEADS, width: int = WIDTH // HEADS) -> None:
        super().__init__()
        self.function, self.width = function, width
        self.query, self.both = nn.Linear(WIDTH, HEADS * width), nn.Linear(WIDTH, 2 * kv_heads * width)

    def forward(self, x: Tensor) -> Tensor:
        parts = (self.query(x), *self.both(x).chunk(2, dim=-1))
        query, key, value = (one.unflatten(-1, (-1, self.width)).transpose(1, 2) for one in parts)
        return self.function(query, key, value)


def flexible(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    mask = create_block_mask(SlidingWindow(5), None, None, N, N, device="cpu")
    return flex_attention(query, key, value, score_mod=SoftCap(3.0), block_mask=mask, scale=0.5, enable_gqa=True)


@contextmanager
def slow_attention() -> Iterator[list[Tensor]]:
    """The weights of every attention of torch, (sequences, heads, queries, keys), by the formula itself."""
    weights: list[Tensor] = []

    def attention(
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> Tensor:
        scores = query @ key.mT * (query.shape[-1] ** -0.5 if scale is None else scale)
        if is_causal:
            scores = scores.masked_fill(torch.ones_like(scores).triu(1).bool(), -torch.inf)
        if attn_mask is not None:
            scores = scores.masked_fill(~attn_mask, -torch.inf) if attn_mask.dtype == torch.bool else scores + attn_mask
        weights.append(scores.softmax(-1))
        return weights[-1] @ value

    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with patch.object(functional, "scaled_dot_product_attention", attention):
            yield weights
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)


def slow_weights(model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Tensor]:
    with slow_attention() as weights, torch.no_grad():
        model(*args, **kwargs)
    return weights


def identity_weights(model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Tensor]:
    """What a model's own function gives for values that are an identity matrix."""
    weights: list[Tensor] = []
    own = model.function

    def attention(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        weights.append(own(query, key, torch.eye(N).expand(*key.shape[:2], N, N)))
        return own(query, key, value)

    # The checks of shapes in the tests cannot be compiled.
    with patch.object(model, "function", attention), torch.no_grad(), torch.compiler.set_stance("force_eager"):
        model(*args, **kwargs)
    return weights


@dataclass(frozen=True)
class TorchArchitecture:
    name: str
    config: str  # where its class or function is
    make: Callable[[], nn.Module]
    args: Callable[[], tuple[Any, ...]]
    kwargs: Callable[[], dict[str, Any]] = dict
    layers: int = 1
    weights: Callable[..., list[Tensor]] = slow_weights
    fidelity: Fidelity = Fidelity.VERIFIED

    def model(self) -> nn.Module:
        """A model whose rows of attention are far from uniform, as a trained model's are."""
        torch.manual_seed(0)
        model = self.make().eval()
        generator = torch.Generator().manual_seed(0)
        with torch.no_grad():
            for name, weight in model.named_parameters():
                if weight.ndim == 2 and any(part in name for part in ("in_proj", "qkv", "query", "both")):
                    weight.copy_(torch.randn(weight.shape, generator=generator) * (3 / weight.shape[1]) ** 0.5)
        return model


def timm_model(name: str, **sizes: Any) -> nn.Module:
    return import_timm().create_model(name, **sizes)


def pictures() -> tuple[Tensor]:
    return (torch.randn(B, 3, 32, 32, generator=torch.Generator().manual_seed(1)),)


# fmt: off
TORCH_ZOO = (
    TorchArchitecture("MultiheadAttention", "torch.nn.MultiheadAttention",
        partial(nn.MultiheadAttention, WIDTH, HEADS, add_bias_kv=True, batch_first=True), lambda: (states(),) * 3,
        lambda: {"key_padding_mask": padded(), "need_weights": False}),
    TorchArchitecture("TransformerEncoder", "torch.nn.TransformerEncoder",
        lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(WIDTH, HEADS, 48, batch_first=True), 2),
        lambda: (states(),), lambda: {"src_key_padding_mask": padded()}, layers=2),
    TorchArchitecture("TransformerDecoder", "torch.nn.TransformerDecoder",
        lambda: nn.TransformerDecoder(nn.TransformerDecoderLayer(WIDTH, HEADS, 48, batch_first=True), 2),
        lambda: (states(), states(2)), lambda: {"tgt_mask": no_later()}, layers=4),
    TorchArchitecture("Transformer", "torch.nn.Transformer",
        lambda: nn.Transformer(WIDTH, HEADS, 2, 1, 48, batch_first=True), lambda: (states(), states(2)),
        lambda: {"tgt_mask": no_later(), "tgt_is_causal": True}, layers=4),
    TorchArchitecture("SDPA", "torch.nn.functional.scaled_dot_product_attention",
        lambda: Projected(partial(functional.scaled_dot_product_attention, is_causal=True)), lambda: (states(),),
        weights=identity_weights),
    TorchArchitecture("FlexAttention", "torch.nn.attention.flex_attention", lambda: Projected(flexible, kv_heads=2),
        lambda: (states(),), weights=identity_weights),
    TorchArchitecture("timm ViT", "timm.models.vision_transformer",
        partial(timm_model, "vit_tiny_patch16_224", **VIT), pictures, layers=2),
    TorchArchitecture("timm EVA-02", "timm.models.eva", partial(timm_model, "eva02_tiny_patch14_224", **VIT), pictures,
        layers=2),
    TorchArchitecture("timm BEiT", "timm.models.beit", partial(timm_model, "beit_base_patch16_224", **VIT), pictures,
        layers=2),
    TorchArchitecture("timm DeiT", "timm.models.deit",
        partial(timm_model, "deit_tiny_distilled_patch16_224", **VIT), pictures, layers=2),
)
# fmt: on


def compared_module(architecture: TorchArchitecture) -> Row:
    """Every head of every layer of both examples, in the order of the calls. Both are captured, and the second one is
    watched."""
    model, args, kwargs = architecture.model(), architecture.args(), architecture.kwargs()
    own, differences, sharpness = architecture.weights(model, args, kwargs), [0.0], []
    with capturing(model, example=1) as traces, torch.no_grad():
        model(*args, **kwargs)
    seen = [(example, capture(model, *args, example=example, **kwargs)) for example in range(B)] + [(1, traces[0])]
    for example, layers in seen:
        for layer, weights in zip(layers, own, strict=True):
            expected, ours = side_by_side(weights, example), layer.maps().nan_to_num(0)
            assert ours.shape == expected.shape, f"{architecture.name}, {layer.name}: {ours.shape}, {expected.shape}"
            differences.append(float((ours - expected).abs().max()))
            sharpness.append(float(expected.amax(-1).mean()))
    fidelities = ", ".join(sorted({layer.fidelity for _, layers in seen for layer in layers}))
    mean, missing = sum(sharpness) / len(sharpness), sum(len(layers.missing) for _, layers in seen)
    return Row(architecture.name, len(layers), fidelities, max(differences), mean, missing)
