"""Every entry against the library itself where it is installed, else against a slow loop of what its source says."""

import re
import warnings
from collections import defaultdict

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn.attention.bias import causal_lower_right, causal_upper_left
from torch.nn.attention.flex_attention import create_block_mask, create_mask
from torch.nn.functional import scaled_dot_product_attention
from transformers import (
    DynamicCache,
    Gemma3TextConfig,
    Llama4TextConfig,
    LlamaConfig,
    LongformerConfig,
    LongformerModel,
    MistralConfig,
    ModernBertConfig,
    T5GemmaModuleConfig,
    masking_utils,
)
from transformers.modeling_flash_attention_utils import _process_flash_attention_kwargs
from transformers.models.gemma3.modeling_gemma3 import Gemma3Attention, _bidirectional_window_overlay
from transformers.models.modernbert.modeling_modernbert import ModernBertAttention
from transformers.models.t5gemma.modeling_t5gemma import T5GemmaSelfAttention

from attnviz.masks import Neighborhood2D
from attnviz.masks.conventions import (
    BIDIRECTIONAL,
    CAUSAL,
    CHUNKED,
    DILATED,
    NAMED_MASKS,
    NEIGHBORHOOD,
    PACKED,
    POLARITY,
    PREFIX,
    SLIDING,
    disputed_cells,
    group_readings,
    readings,
    squarest_grid,
)
from attnviz.masks.mask import rule


def loop(allows):
    """The grid of a rule for query i and key j, given the size and the numbers of queries and keys."""
    return lambda size, queries, keys: torch.tensor(
        [[bool(allows(i, j, size, queries, keys)) for j in range(keys)] for i in range(queries)]
    )


def probed(**arguments):
    """What torch's attention lets through: a value that is 1 for one key alone takes out that key's weight."""

    def weights(size, queries, keys):
        given = {name: make(size, queries, keys) for name, make in arguments.items()}
        query, key = torch.randn(1, 1, queries, 4), torch.randn(1, 1, keys, 4)
        return scaled_dot_product_attention(query, key, torch.eye(keys)[None, None], **given)[0, 0] > 0

    return weights


def transformers(create, config, **more):
    """The mask that transformers makes for n_q new tokens of a text whose others are cached."""

    def mask(size, queries, keys):
        made = config(size)
        made._attn_implementation = "sdpa"
        cache = None
        if keys > queries:
            cache = DynamicCache()
            cache.update(torch.zeros(1, 1, keys - queries, 2), torch.zeros(1, 1, keys - queries, 2), 0)
        given = {name: make(size, made, keys) for name, make in more.items()}
        skip = {"allow_is_bidirectional_skip" if "bidirectional" in create.__name__ else "allow_is_causal_skip": False}
        given = {"attention_mask": None, "past_key_values": cache, **skip, **given}
        return create(made, torch.zeros(1, queries, 8), **given)[0, 0]

    return mask


def flash(i, j, window, queries, keys, *, causal=False, n_k_less_n_q=True):
    """flash_attn_func as documented: from i + n_k − n_q − left to i + n_k − n_q + right, both included; −1 is no
    bound, and causal bounds the right at 0."""
    left, right = window
    at = i + (keys - queries if n_k_less_n_q else 0)
    right = 0 if causal else right
    return (left < 0 or j >= at - left) and (right < 0 or j <= at + right)


def on_flash_attention(layer, causal):
    """What transformers makes of a layer's sliding_window when it calls FlashAttention."""

    def mask(size, queries, keys):
        given = _process_flash_attention_kwargs(
            queries, keys, is_causal=causal, sliding_window=layer(size), supports_mapping=defaultdict(lambda: True)
        )
        window = given.get("window_size", (-1, -1))
        return loop(lambda i, j, size, n_q, n_k: flash(i, j, window, n_q, n_k, causal=given["causal"]))(
            size, queries, keys
        )

    return mask


def longformer(size, queries, keys):
    """The inputs that each output of one Longformer layer has a gradient for."""
    config = LongformerConfig(
        attention_window=size,
        vocab_size=9,
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=1,
        intermediate_size=8,
        max_position_embeddings=64,
        pad_token_id=1,
    )
    model = LongformerModel(config).eval()
    x = torch.randn(1, keys, 8)
    jacobian = torch.autograd.functional.jacobian(lambda x: model(inputs_embeds=x).last_hidden_state[0], x)
    return (jacobian[:, :, 0] != 0).any(1).any(-1)


def natten(dilation):
    """Of the keys a multiple of the dilation away, as many as the kernel, those nearest to the query: `kernel // 2`
    before it and the rest after, all moved where they would stick out."""

    def mask(size, queries, keys):
        grid = torch.zeros(keys, keys, dtype=torch.bool)
        for query in range(keys):
            near = [key for key in range(keys) if (key - query) % dilation == 0]
            first = min(max(near.index(query) - size // 2, 0), len(near) - size)
            grid[query, near[first : first + size]] = True
        return grid

    return mask


def natten_2d(size, queries, keys):
    height, width = squarest_grid(keys)
    row, column = natten(1)(size, height, height), natten(1)(size, width, width)
    return torch.kron(row.int(), column.int()).bool()


def gym_natten(i, j, size, queries, keys):
    """generate_natten(canvas_w, canvas_h, size, size), which calls the row x and the column y."""
    canvas_h, canvas_w = squarest_grid(keys)
    center_x = min(max(i // canvas_w, size // 2), canvas_w - 1 - size // 2)
    center_y = min(max(i % canvas_w, size // 2), canvas_h - 1 - size // 2)
    return abs(center_x - j // canvas_w) <= size // 2 and abs(center_y - j % canvas_w) <= size // 2


def by_module(size, queries, keys):
    module = torch.nn.MultiheadAttention(4, 1, batch_first=True)
    query, key = torch.randn(1, queries, 4), torch.randn(1, keys, 4)
    weights = module(query, key, key, key_padding_mask=torch.arange(keys)[None] < size)[1][0]
    return weights.nan_to_num(0) > 0


def by_flex_attention(size, queries, keys):
    first = torch.arange(keys) < size
    block_mask = create_block_mask(lambda b, h, q, k: first[k], None, None, queries, keys, device="cpu")
    return create_mask(block_mask.mask_mod, None, None, queries, keys, device="cpu")[0, 0]


def wenet(left):
    def allows(i, j, size, queries, keys):
        start = 0 if left < 0 else max((i // size - left) * size, 0)
        return start <= j < min((i // size + 1) * size, keys)

    return loop(allows)


def documents(size, keys):
    return [position // size for position in range(keys)]


def same_document(allows):
    """A rule inside documents of `size` positions, with positions counted from each one's start."""

    def inside(i, j, size, queries, keys):
        of = documents(size, keys)
        return of[i] == of[j] and allows(i - of.index(of[i]), j - of.index(of[j]))

    return loop(inside)


TOP_LEFT = loop(lambda i, j, size, n_q, n_k: j <= i)
FLASH_CAUSAL = loop(lambda i, j, size, n_q, n_k: flash(i, j, (-1, -1), n_q, n_k, causal=True))
PADDED = loop(lambda i, j, size, n_q, n_k: j < size)
MODERN_BERT = {"hidden_size": 8, "num_attention_heads": 1, "layer_types": ["sliding_attention"], "num_hidden_layers": 1}
T5_GEMMA = {"hidden_size": 8, "num_attention_heads": 1, "num_key_value_heads": 1, "head_dim": 8, "num_hidden_layers": 1}


def modern_bert(size):
    return ModernBertConfig(local_attention=size, **MODERN_BERT)


def t5_gemma(size):
    config = T5GemmaModuleConfig(sliding_window=size, layer_types=["sliding_attention"], **T5_GEMMA)
    config.is_causal = False
    return config


def gemma(size):
    return Gemma3TextConfig(sliding_window=size, use_bidirectional_attention=True, num_hidden_layers=1)


# For each named, what each of its conventions must allow, in the order of the table.
ORACLES = {
    CAUSAL: [
        probed(is_causal=lambda size, n_q, n_k: True),
        probed(attn_mask=lambda size, n_q, n_k: causal_upper_left(n_q, n_k)),
        probed(attn_mask=lambda size, n_q, n_k: causal_lower_right(n_q, n_k)),
        FLASH_CAUSAL,
        loop(lambda i, j, size, n_q, n_k: flash(i, j, (-1, -1), n_q, n_k, causal=True, n_k_less_n_q=False)),
        transformers(masking_utils.create_causal_mask, lambda size: LlamaConfig()),
        TOP_LEFT,
        TOP_LEFT,
        loop(lambda i, j, size, n_q, n_k: n_k - j >= n_q - i),  # no key nearer to the last than the query to its last
        loop(lambda i, j, size, n_q, n_k: n_k - j >= n_q - i),
    ],
    SLIDING: [
        transformers(masking_utils.create_sliding_window_causal_mask, lambda size: MistralConfig(sliding_window=size)),
        on_flash_attention(lambda size: size, causal=True),
        loop(lambda i, j, size, n_q, n_k: flash(i, j, (size, 0), n_q, n_k, causal=True)),
        loop(lambda i, j, size, n_q, n_k: i >= j and i - j <= size),
        loop(lambda i, j, size, n_q, n_k: n_q - i <= n_k - j < n_q - i + size),  # distances from the last
        loop(lambda i, j, size, n_q, n_k: i - size <= j + n_q - n_k <= i),
        loop(lambda i, j, size, n_q, n_k: (at := n_k - n_q + i) >= j and at < j + size),
    ],
    BIDIRECTIONAL: [
        transformers(masking_utils.create_bidirectional_sliding_window_mask, t5_gemma),
        on_flash_attention(lambda size: T5GemmaSelfAttention(t5_gemma(size), 0).sliding_window, causal=False),
        transformers(masking_utils.create_bidirectional_sliding_window_mask, modern_bert),
        transformers(
            masking_utils.create_sliding_window_causal_mask,
            gemma,
            or_mask_function=lambda size, config, keys: _bidirectional_window_overlay(config.sliding_window),
        ),
        longformer,
        loop(lambda i, j, size, n_q, n_k: flash(i, j, (size, size), n_q, n_k)),
        loop(lambda i, j, size, n_q, n_k: i - size <= j + n_q - n_k <= i + size),
        loop(lambda i, j, size, n_q, n_k: abs(i - j) <= size and abs(i - j) % 1 == 0),
        natten(1),
    ],
    PREFIX: [
        loop(lambda i, j, size, n_q, n_k: j < size or i >= j),
        transformers(
            masking_utils.create_causal_mask,
            lambda size: LlamaConfig(),
            block_sequence_ids=lambda size, config, keys: torch.tensor([[0] * size + [-1] * (keys - size)])[:, :keys],
        ),
        transformers(masking_utils.create_causal_mask, lambda size: LlamaConfig()),
    ],
    DILATED: [
        loop(lambda i, j, size, n_q, n_k: abs(i - j) <= size and abs(i - j) % 2 == 0),
        loop(lambda i, j, size, n_q, n_k: j in [i + 2 * (place - size) for place in range(2 * size + 1)]),
        natten(2),
    ],
    CHUNKED: [
        transformers(
            masking_utils.create_chunked_causal_mask, lambda size: Llama4TextConfig(attention_chunk_size=size)
        ),
        loop(
            lambda i, j, size, n_q, n_k: (
                flash(i, j, (-1, -1), n_q, n_k, causal=True)
                and (at := i + n_k - n_q) - at % size <= j < at - at % size + size
            )
        ),
        wenet(-1),
        wenet(0),
    ],
    PACKED: [
        transformers(
            masking_utils.create_causal_mask,
            lambda size: LlamaConfig(),
            position_ids=lambda size, config, keys: torch.arange(keys)[None] % size,
        ),
        transformers(masking_utils.create_causal_mask, lambda size: LlamaConfig()),
        same_document(lambda i, j: j <= i),
        same_document(lambda i, j: j <= i),
        same_document(lambda i, j: True),
        same_document(lambda i, j: j <= i),
    ],
    NEIGHBORHOOD: [natten_2d, loop(gym_natten)],
    POLARITY: [
        probed(attn_mask=lambda size, n_q, n_k: (torch.arange(n_k) < size).expand(n_q, n_k)),
        by_module,
        by_flex_attention,
        transformers(
            masking_utils.create_bidirectional_mask,
            lambda size: LlamaConfig(),
            attention_mask=lambda size, config, keys: torch.arange(keys)[None] < size,
            past_key_values=lambda size, config, keys: None,
        ),
        PADDED,
    ],
}
# The places of those conventions that take as many queries as keys, and what else some refuse.
EQUAL_LENGTHS = {
    BIDIRECTIONAL: {0, 1, 2, 3, 4, 8},
    DILATED: {1, 2},
    CHUNKED: {2, 3},
    PACKED: set(range(6)),
    NEIGHBORHOOD: {0, 1},
}
REFUSED = {
    (BIDIRECTIONAL, 4): lambda size, keys: size % 2 == 1 or size == 2,
    (BIDIRECTIONAL, 8): lambda size, keys: size < 2 or size > keys,
    (DILATED, 2): lambda size, keys: size < 2 or 2 * size > keys,
    (NEIGHBORHOOD, 0): lambda size, keys: size % 2 == 0 or size > squarest_grid(keys)[0],
    (NEIGHBORHOOD, 1): lambda size, keys: size % 2 == 0 or size > squarest_grid(keys)[0],
}
SAME = [(9, 9), (12, 12), (15, 15), (16, 16)]
CACHED = [(1, 6), (3, 7), (5, 12)]


@pytest.mark.parametrize("named", NAMED_MASKS, ids=lambda named: named.name)
@pytest.mark.parametrize("size", [3, 4, 1, 2, 5])
@pytest.mark.parametrize(("queries", "keys"), SAME + CACHED)
def test_every_convention_is_what_its_library_does(named, size, queries, keys):
    if size < named.least:
        with pytest.raises(ValueError, match=rf"needs a size of {named.least} or more; it got {size}\."):
            readings(named, size, queries, keys)
        return
    for place, (reading, oracle) in enumerate(zip(readings(named, size, queries, keys), ORACLES[named], strict=True)):
        odd_one = REFUSED.get((named, place), lambda size, keys: False)
        if (queries != keys and place in EQUAL_LENGTHS.get(named, ())) or odd_one(size, keys):
            assert reading.allowed is reading.mask is None
            assert reading.refusal.endswith(".")
        else:
            assert torch.equal(reading.allowed, oracle(size, queries, keys)), reading.convention


@pytest.mark.parametrize("size", [1, 2, 3])
def test_the_windows_that_longformer_refuses(size):
    """It says that an odd window cannot be, and fails at 2."""
    with pytest.raises((AssertionError, RuntimeError)):
        longformer(size, 8, 8)


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5])
@pytest.mark.parametrize(
    ("place", "layer"),
    [
        (2, lambda size: ModernBertAttention(modern_bert(size), 0)),
        (3, lambda size: Gemma3Attention(gemma(size), 0)),
    ],
    ids=["ModernBERT", "Gemma 3"],
)
def test_encoders_that_are_the_same_on_flash_attention(place, layer, size):
    assert layer(size).is_causal is False
    on_flash = on_flash_attention(lambda size: layer(size).sliding_window, causal=False)(size, 9, 9)
    assert torch.equal(readings(BIDIRECTIONAL, size, 9, 9)[place].allowed, on_flash)


def test_more_queries_than_keys():
    """Not a cache; what then becomes of the first queries is in FlashAttention's documentation, old and new."""
    _, _, lower_right, flash_now, flash_before, *_ = (reading.allowed.tolist() for reading in readings(CAUSAL, 0, 5, 2))
    assert flash_before == [[1, 0], [1, 1], [1, 1], [1, 1], [1, 1]]
    assert flash_now == lower_right == [[0, 0], [0, 0], [0, 0], [1, 0], [1, 1]]
    with warnings.catch_warnings(action="ignore"):  # that its output may be NaN
        assert probed(attn_mask=lambda size, n_q, n_k: causal_lower_right(n_q, n_k))(0, 5, 2).tolist() == lower_right


@pytest.mark.parametrize("named", NAMED_MASKS, ids=lambda named: named.name)
@pytest.mark.parametrize(("queries", "keys"), [(12, 12), (3, 7), (7, 3)])
def test_every_mask_can_be_written_down_and_said(named, queries, keys):
    at = torch.tensor(0), torch.tensor(0), torch.arange(queries)[:, None], torch.arange(keys)
    for reading in readings(named, 3, queries, keys):
        if reading.mask is not None:
            assert torch.equal(rule(reading.mask, queries, keys)(*at).expand(queries, keys), reading.allowed)
            assert reading.mask.describe().startswith("A query sees ")
            assert str(reading.mask)


@given(st.sampled_from(NAMED_MASKS), st.integers(3, 6), st.integers(1, 16), st.integers(0, 6))
def test_what_is_disputed_and_who_agrees(named, size, queries, more):
    given = readings(named, size, queries, queries + more)
    accepted = [reading for reading in given if reading.allowed is not None]
    if not accepted:
        with pytest.raises(ValueError, match=re.escape(given[0].refusal)):
            disputed_cells(given)
        return
    for i in range(queries):
        for j in range(queries + more):
            assert disputed_cells(given)[i, j] == (len({bool(reading.allowed[i, j]) for reading in accepted}) > 1)
    groups = group_readings(given)
    assert sorted(map(id, (reading for group in groups for reading in group))) == sorted(map(id, accepted))
    for one in accepted:
        for other in accepted:
            together = any(one in group and other in group for group in groups)
            assert together == torch.equal(one.allowed, other.allowed)
    assert (len(groups) > 1) == bool(disputed_cells(given).any())


def test_what_libraries_disagree_on():
    """The disagreements that the table is there to show."""

    def groups(named, size, queries, keys):
        return [
            [reading.convention.library for reading in group]
            for group in group_readings(readings(named, size, queries, keys))
        ]

    assert len(groups(CAUSAL, 0, 6, 6)) == 1
    assert len(groups(CAUSAL, 0, 3, 7)) == 2
    assert disputed_cells(readings(SLIDING, 4, 9, 9)).nonzero().tolist() == [[i, i - 4] for i in range(4, 9)]
    eager, flash = readings(BIDIRECTIONAL, 4, 9, 9)[:2]
    assert sorted({abs(i - j) for i, j in (eager.allowed & ~flash.allowed).nonzero().tolist()}) == [4]
    assert len(groups(NEIGHBORHOOD, 3, 16, 16)) == 1
    assert len(groups(NEIGHBORHOOD, 3, 12, 12)) == 2
    assert bool(disputed_cells(readings(POLARITY, 4, 6, 6)).all())


def test_attention_gyms_windows_on_a_grid_that_is_no_square():
    """Wider than high, all windows near the bottom stick out of the grid and lose keys."""
    natten, gym = readings(NEIGHBORHOOD, 3, 15, 15)
    assert natten.mask == Neighborhood2D(5, 3, 3)
    assert natten.allowed.sum(-1).tolist() == [9] * 15
    assert gym.allowed.sum(-1).tolist() != [9] * 15


def test_a_call_has_the_number_in_it():
    assert (
        readings(SLIDING, 4, 1, 1)[2].convention.call_with(4)
        == "flash_attn_func(q, k, v, causal=True, window_size=(4, 0))"
    )
    for named in NAMED_MASKS:
        for convention in named.conventions:
            assert convention.call_with(7) == convention.call.replace("{size}", "7")


def test_the_grid_that_positions_fill():
    grids = {12: (3, 4), 15: (3, 5), 16: (4, 4), 1: (1, 1), 7: (1, 7), 100: (10, 10), 18: (3, 6)}
    assert {positions: squarest_grid(positions) for positions in grids} == grids


@pytest.mark.parametrize(("queries", "keys"), [(0, 3), (3, 0)])
def test_nothing_to_look_at_is_refused_in_words(queries, keys):
    with pytest.raises(ValueError, match=f"Give at least one query and one key; there are {queries} and {keys}."):
        readings(CAUSAL, 0, queries, keys)
