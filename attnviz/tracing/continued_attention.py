"""Causal attention of queries that continue a cache, without their mask: the keys of the cache are open to all of them,
and among the new keys the mask is the usual triangle. The two parts are merged by their log-sum-exp."""

import torch
from torch import Tensor

_flash = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu


def continued_attention(query: Tensor, key: Tensor, value: Tensor, scale: float | None) -> Tensor | None:
    """Returns the output (1, heads, queries, width) of the last `queries` of the keys (1, kv_heads, keys, width), each
    attending to all up to itself. None where torch has no such kernel: not on the CPU, or for other widths of values.
    """
    (_, heads, queries, width), (_, kv_heads, keys, _) = query.shape, key.shape
    past = keys - queries
    if query.device.type != "cpu" or value.shape[-1] != width or past <= 0:
        return None
    # Heads that share keys are rows of one head, so that the keys of the cache are not repeated for them.
    rows = query.reshape(1, kv_heads, -1, width)
    before, before_lse = _flash(rows, key[:, :, :past], value[:, :, :past], scale=scale)
    new = (part[:, :, past:].repeat_interleave(heads // kv_heads, 1) for part in (key, value))
    after, after_lse = _flash(query, *new, is_causal=True, scale=scale)
    share = torch.sigmoid(before_lse.reshape(after_lse.shape) - after_lse)[..., None]
    merged = share * before.reshape(after.shape).float() + (1 - share) * after.float()
    return merged.to(query.dtype)
