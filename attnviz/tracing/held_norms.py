"""Norms of torch whose scales are held, so that they are affine."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import layer_norm, normalize, rms_norm


def _layer_norm(
    hold: Callable[[Tensor], Tensor],
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    axes = tuple(range(-len(normalized_shape), 0))
    centered = input - input.mean(axes, keepdim=True)
    result = centered * hold((centered.square().mean(axes, keepdim=True) + eps).rsqrt())
    result = result if weight is None else result * weight
    return result if bias is None else result + bias


def _rms_norm(
    hold: Callable[[Tensor], Tensor],
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    eps: float | None = None,
) -> Tensor:
    axes = tuple(range(-len(normalized_shape), 0))
    eps = torch.finfo(input.dtype).eps if eps is None else eps
    result = input * hold((input.square().mean(axes, keepdim=True) + eps).rsqrt())
    return result if weight is None else result * weight


def _normalize(
    hold: Callable[[Tensor], Tensor], input: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12, out: None = None
) -> Tensor:
    return input / hold(input.norm(p, dim, keepdim=True).clamp_min(eps))


NORMS: dict[Any, Callable[..., Tensor]] = {layer_norm: _layer_norm, rms_norm: _rms_norm, normalize: _normalize}
