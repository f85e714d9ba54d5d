"""Attention that continues a cache, without a mask, against torch's with one."""

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from attnviz.tracing.call import continued_attention


@pytest.mark.parametrize(("queries", "keys"), [(1, 2), (1, 700), (300, 301), (300, 700), (699, 700)])
@pytest.mark.parametrize("kv_heads", [1, 2, 4])
@pytest.mark.parametrize("scale", [None, 3.0])
def test_it_is_the_last_rows_of_causal_attention(queries: int, keys: int, kv_heads: int, scale: float | None) -> None:
    generator = torch.Generator().manual_seed(queries)
    query = torch.randn(1, 4, queries, 16, generator=generator)
    key, value = torch.randn(2, 1, kv_heads, keys, 16, generator=generator)
    allowed = torch.ones(queries, keys, dtype=torch.bool).tril(keys - queries)
    expected = scaled_dot_product_attention(
        query.double(), key.double(), value.double(), attn_mask=allowed, scale=scale, enable_gqa=True
    )
    output = continued_attention(query, key, value, scale)
    assert output is not None
    torch.testing.assert_close(output.double(), expected, atol=1e-5, rtol=1e-5)


def test_values_of_another_width_take_the_mask() -> None:
    query, key = torch.randn(1, 2, 3, 8), torch.randn(1, 2, 9, 8)
    assert continued_attention(query, key, torch.randn(1, 2, 9, 4), None) is None
    assert continued_attention(query, key[:, :, :3], key[:, :, :3], None) is None
