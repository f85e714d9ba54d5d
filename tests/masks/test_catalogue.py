import hashlib
import operator
import re
from contextlib import suppress
from dataclasses import fields, replace
from itertools import accumulate
from typing import get_args

import attn_gym.masks as gym
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn.attention.bias import causal_lower_right
from torch.nn.attention.flex_attention import create_mask
from torch.nn.functional import scaled_dot_product_attention
from transformers import BigBirdConfig, BigBirdModel, LongformerConfig, LongformerModel, SwinConfig, masking_utils
from transformers.models.gemma3.modeling_gemma3 import get_block_sequence_ids_for_mask
from transformers.models.swin.modeling_swin import SwinLayer

from attnviz import Mechanism, masks
from attnviz.masks import (
    GROUPS,
    MASKS,
    Axial,
    Band,
    BigBird,
    BlockCausal,
    Causal,
    Chunked,
    CrossToImage,
    DilatedWindow,
    Documents,
    Fixed,
    Full,
    ImageAndText,
    Logarithmic,
    Longformer,
    Mask,
    Neighborhood2D,
    Padding,
    PrefixLM,
    SharedPrefix,
    Shifted,
    ShiftedWindow2D,
    Sinks,
    SinksAndWindow,
    SlidingWindow,
    Strided,
    Tree,
    VerticalSlash,
)
from attnviz.masks.mask import rule
from tests.support.mask_strategies import masks_of_kind

# beartype looks at a random item of a tuple, which Hypothesis would rather draw itself.
pytestmark = pytest.mark.filterwarnings("ignore:Do not use the `random` module inside strategies")

SIZES = [(1, 1), (6, 6), (3, 7), (7, 3), (1, 5), (5, 1), (16, 16), (13, 17), (18, 11)]
BOTTOM_RIGHT = Causal("bottom right")


# Slow definitions, each of one query i and one key j among n_q and n_k.


def fixed(block, columns):
    def sees(i, j, n_q, n_k):
        summaries = [at for at in range(n_k) if at % block in range(block - columns, block)]
        return j in range(i // block * block, i + 1) or (j <= i and j in summaries)

    return sees


def big_bird(block, random, seed, head=0):
    """The blocks drawn for row r and head h are numbers of one hash: each picks one of the blocks that are left."""

    def sees(i, j, n_q, n_k):
        rows, columns = -(-n_q // block), -(-n_k // block)
        row, column = i // block, j // block
        seen = {0, columns - 1, row - 1, row, row + 1}
        if row in (0, rows - 1):
            return True
        digest = hashlib.shake_256(f"BigBird {seed}".encode()).digest(4 * 64 * rows * random)
        left = [at for at in range(columns) if at not in seen]
        for draw in range(random):
            place = 4 * ((row * 64 + head % 64) * random + draw)
            if left:
                seen.add(left.pop(int.from_bytes(digest[place : place + 4], "little") % len(left)))
        return column in seen

    return sees


def members(lengths):
    """The number of the segment that each position is in, and one more for what comes after."""
    return [*(segment for segment, length in enumerate(lengths) for _ in range(length)), *([len(lengths)] * 99)]


def documents(lengths, inner):
    def sees(i, j, n_q, n_k):
        of = members(lengths)
        start = of.index(of[i])
        return of[i] == of[j] and inner(i - start, j - start)

    return sees


def shared_prefix(lengths, prefixes):
    def sees(i, j, n_q, n_k):
        of = members(lengths)
        own = of[i] == of[j] and j <= i
        return own or (of[i] < len(lengths) and of[j] == prefixes[of[i]] != of[i])

    return sees


def block_causal(size, left):
    def sees(i, j, n_q, n_k):
        start = 0 if left < 0 else max((i // size - left) * size, 0)
        return j in range(start, (i // size + 1) * size)

    return sees


def axial(width):
    def sees(i, j, n_q, n_k):
        (row, column), (other_row, other_column) = divmod(i, width), divmod(j, width)
        return row == other_row or column == other_column

    return sees


def neighborhood(width, kernel_height, kernel_width):
    """NATTEN's window: it begins half a kernel before the query, but neither before the grid nor so that it ends
    after it."""

    def along(query, key, length, kernel):
        start = max(min(query - kernel // 2, length - kernel), 0)
        return key in range(start, start + kernel)

    def sees(i, j, n_q, n_k):
        height = len(range(0, n_k, width))
        rows = along(i // width, j // width, height, kernel_height)
        return rows and along(i % width, j % width, width, kernel_width)

    return sees


def shifted_window(width, window, shift):
    """As Swin does it: pad the grid to whole windows, roll it, number its regions, cut it into windows."""

    def placed(at, length):
        padded = -(-length // window) * window
        rolled = (at - shift) % padded
        region = (rolled >= padded - window) + (shift > 0 and rolled >= padded - shift)
        return rolled // window, region

    def sees(i, j, n_q, n_k):
        height = len(range(0, max(n_q, n_k), width))
        rows = placed(i // width, height) == placed(j // width, height)
        return rows and placed(i % width, width) == placed(j % width, width)

    return sees


def image_and_text(spans):
    def sees(i, j, n_q, n_k):
        of = members(spans)
        image = of[i] < len(spans) and of[i] % 2 == 1
        return j <= i or (image and of[i] == of[j])

    return sees


def cross_to_image(images_at, tokens):
    def sees(i, j, n_q, n_k):
        before = [image for image, at in enumerate(images_at) if at <= i]
        return bool(before) and j in range(before[-1] * tokens, (before[-1] + 1) * tokens)

    return sees


def tree(prefix, parents):
    def sees(i, j, n_q, n_k):
        seen, node = {i}, i - prefix
        while 0 <= node < len(parents):
            seen.add(prefix + node)
            node = parents[node]
        return j < prefix or j in seen

    return sees


POWERS = [0, *(2**power for power in range(9))]

# Each mask and its rule for query i and key j, where there are n queries and m keys.
RULES = [
    (Full(), lambda i, j, n, m: True),
    (Causal(), lambda i, j, n, m: j <= i),
    (BOTTOM_RIGHT, lambda i, j, n, m: j <= i + m - n),
    (PrefixLM(0), lambda i, j, n, m: j <= i),
    (PrefixLM(3), lambda i, j, n, m: j in range(3) or j in range(i + 1)),
    (SlidingWindow(0), lambda i, j, n, m: False),
    (SlidingWindow(1), lambda i, j, n, m: j == i),
    (SlidingWindow(3), lambda i, j, n, m: j <= i and j > i - 3),
    (SlidingWindow(0, "steps back"), lambda i, j, n, m: j == i),
    (SlidingWindow(3, "steps back"), lambda i, j, n, m: j <= i and i - j <= 3),
    (Band(0), lambda i, j, n, m: j == i),
    (Band(2), lambda i, j, n, m: abs(i - j) <= 2),
    (DilatedWindow(4, 2), lambda i, j, n, m: j in (i - 4, i - 2, i, i + 2, i + 4)),
    (DilatedWindow(5, 3), lambda i, j, n, m: j in (i - 3, i, i + 3)),
    (DilatedWindow(0, 1), lambda i, j, n, m: j == i),
    (Longformer(4, (0,)), lambda i, j, n, m: j in range(i - 2, i + 3) or 0 in (i, j)),
    (Longformer(2, (9, 1)), lambda i, j, n, m: j in (i - 1, i, i + 1) or i in (1, 9) or j in (1, 9)),
    (Longformer(0, ()), lambda i, j, n, m: j == i),
    (Strided(4), lambda i, j, n, m: j in range(i, -1, -4)),
    (Strided(1), lambda i, j, n, m: j <= i),
    (Strided(3) | SlidingWindow(3), lambda i, j, n, m: j in range(i, -1, -3) or j in (i - 2, i - 1, i)),
    (Fixed(4, 1), fixed(4, 1)),
    (Fixed(5, 2), fixed(5, 2)),
    (Fixed(3, 0), fixed(3, 0)),
    (BigBird(2, 1, 0), big_bird(2, 1, 0)),
    (BigBird(1, 3, 7), big_bird(1, 3, 7)),
    (BigBird(3, 0, 0), big_bird(3, 0, 0)),
    (BigBird(2, 8, 1), big_bird(2, 8, 1)),
    (Logarithmic(), lambda i, j, n, m: i - j in POWERS),
    (VerticalSlash((0, 4), (0, 2)), lambda i, j, n, m: j in (0, 4) or i - j in (0, 2)),
    (VerticalSlash((9, 2, 5), (-3, 1, 40)), lambda i, j, n, m: j in (9, 2, 5) or i - j in (-3, 1, 40)),
    (VerticalSlash((), (3,)) & Causal(), lambda i, j, n, m: i - j == 3),
    (VerticalSlash((), ()), lambda i, j, n, m: False),
    (Padding(0), lambda i, j, n, m: False),
    (Padding(3), lambda i, j, n, m: j < 3),
    (Documents((4, 3, 5)), documents((4, 3, 5), lambda i, j: j <= i)),
    (Documents((1, 6), Band(1)), documents((1, 6), lambda i, j: abs(i - j) <= 1)),
    (Documents((3,), Full()), documents((3,), lambda i, j: True)),
    (
        Documents((2, 7), Chunked(3) | Sinks(1)),
        documents((2, 7), lambda i, j: 0 <= j <= i and (i // 3 == j // 3 or j < 1)),
    ),
    (
        Documents((2, 7), Documents((3, 2))),
        documents((2, 7), lambda i, j: members((3, 2))[i] == members((3, 2))[j] and j <= i),
    ),
    (SharedPrefix((3, 2, 2, 3, 2, 2), (0, 0, 0, 3, 3, 3)), shared_prefix((3, 2, 2, 3, 2, 2), (0, 0, 0, 3, 3, 3))),
    (SharedPrefix((2, 1, 3), (0, 1, 0)), shared_prefix((2, 1, 3), (0, 1, 0))),
    (Chunked(4), lambda i, j, n, m: j in range(i // 4 * 4, i + 1)),
    (Chunked(1), lambda i, j, n, m: j == i),
    (BlockCausal(3), block_causal(3, -1)),
    (BlockCausal(3, 0), block_causal(3, 0)),
    (BlockCausal(2, 1), block_causal(2, 1)),
    (Axial(4), axial(4)),
    (Axial(1), axial(1)),
    (Neighborhood2D(4, 3, 3), neighborhood(4, 3, 3)),
    (Neighborhood2D(5, 1, 3), neighborhood(5, 1, 3)),
    (Neighborhood2D(2, 3, 5), neighborhood(2, 3, 5)),
    (ShiftedWindow2D(4, 2, 1), shifted_window(4, 2, 1)),
    (ShiftedWindow2D(5, 3, 2), shifted_window(5, 3, 2)),
    (ShiftedWindow2D(3, 2, 0), shifted_window(3, 2, 0)),
    (ImageAndText((3, 4, 5)), image_and_text((3, 4, 5))),
    (ImageAndText((0, 2, 1, 4)), image_and_text((0, 2, 1, 4))),
    (ImageAndText(()), lambda i, j, n, m: j <= i),
    (CrossToImage((0, 6), 4), cross_to_image((0, 6), 4)),
    (CrossToImage((1, 2, 9), 3), cross_to_image((1, 2, 9), 3)),
    (CrossToImage(()), lambda i, j, n, m: False),
    (Sinks(2), lambda i, j, n, m: j in range(2) and j <= i),
    (SinksAndWindow(2, 3), lambda i, j, n, m: j <= i and (j < 2 or i - j < 3)),
    (Tree(4, (-1, 0, 0, 1, 1, 2)), tree(4, (-1, 0, 0, 1, 1, 2))),
    (Tree(0, (-1, -1, 1, 0, 2)), tree(0, (-1, -1, 1, 0, 2))),
    (Tree(2, ()), tree(2, ())),
    (Causal() & Padding(3), lambda i, j, n, m: j <= i and j < 3),
    (~Causal(), lambda i, j, n, m: j > i),
    (~BOTTOM_RIGHT & Band(1), lambda i, j, n, m: j > i + m - n and abs(i - j) <= 1),
    (SlidingWindow(2) | Padding(2) & ~Band(3), lambda i, j, n, m: j <= i < j + 2 or (j < 2 and abs(i - j) > 3)),
    (~(BOTTOM_RIGHT | Band(1)), lambda i, j, n, m: not (j <= i + m - n or abs(i - j) <= 1)),
    (Shifted(Causal(), 2), lambda i, j, n, m: j <= i + 2),
    (Shifted(BOTTOM_RIGHT, 1), lambda i, j, n, m: j <= i + 1 + m - n),
]
EVERY = pytest.mark.parametrize(("mask", "sees"), RULES, ids=lambda x: repr(x) if isinstance(x, Mask) else "")
ONE_OF_EACH = pytest.mark.parametrize("mask", [kind() for kind in MASKS], ids=lambda mask: type(mask).__name__)


grid = Mask.matrix


def slowly(sees, queries, keys):
    return torch.tensor([[sees(i, j, queries, keys) for j in range(keys)] for i in range(queries)])


@EVERY
def test_a_mask_is_its_rule(mask, sees):
    for queries, keys in SIZES:
        assert torch.equal(grid(mask, queries, keys), slowly(sees, queries, keys)), (queries, keys)


@EVERY
@pytest.mark.parametrize(("queries", "keys"), [(16, 16), (7, 11)])
def test_a_fitted_mask_runs_unchanged_in_flex_attention(mask, sees, queries, keys):
    theirs = create_mask(mask.bind(queries, keys, 1), None, None, queries, keys, device="cpu")
    assert torch.equal(theirs[0, 0], slowly(sees, queries, keys))


@EVERY
def test_a_rule_written_down_says_the_same(mask, sees):
    for queries, keys in SIZES:
        written = rule(mask, queries, keys)
        assert torch.equal(grid(written, queries, keys), slowly(sees, queries, keys)), (queries, keys)


@pytest.mark.parametrize("by", [3, 40])
@pytest.mark.parametrize(("mask", "sees"), [(mask, sees) for mask, sees in RULES if mask.bind(5, 9, 1) == mask])
def test_a_rule_holds_for_queries_that_stand_further_on(mask, sees, by):
    expected = slowly(lambda i, j, n, m: sees(i + by, j, n + by, m), 5, 9)
    assert torch.equal(grid(Shifted(mask, by), 5, 9), expected)


@pytest.mark.parametrize(("queries", "keys"), [(3, 9), (20, 9)])
def test_positions_before_the_first_and_after_the_last_are_no_error(queries, keys):
    for mask, _ in RULES:
        for by in (-30, keys - queries, 30):
            bound = Shifted(mask, by)
            assert torch.equal(grid(rule(bound, queries, keys), queries, keys), grid(bound, queries, keys))


def test_every_mask_of_the_menu_has_a_rule_here():
    assert set(MASKS) <= {type(mask) for mask, _ in RULES}
    assert tuple(kind for group in GROUPS.values() for kind in group) == MASKS


@pytest.mark.parametrize("queries", [1, 3, 5])
def test_padding_by_pattern(queries):
    pattern = (True, False, True, True, False)
    expected = torch.tensor([pattern] * queries)
    assert torch.equal(grid(Padding(pattern), queries, 5), expected)
    assert torch.equal(create_mask(Padding(pattern), None, None, queries, 5, device="cpu")[0, 0], expected)


@pytest.mark.parametrize(
    "mask",
    [
        Padding((True,) * 4),
        Causal() & Padding((True,) * 4),
        Padding((True,) * 4) | Causal(),
        ~Padding((True,) * 4),
        Shifted(Padding((True,) * 4), 1),
    ],
    ids=repr,
)
def test_a_pattern_for_another_number_of_keys_is_refused(mask):
    with pytest.raises(ValueError, match=re.escape("Padding is given for 4 keys; here there are 5.")):
        mask.bind(3, 5, 1)


@pytest.mark.parametrize(("queries", "keys"), [(1, 1), (5, 5), (3, 7), (1, 6)])
def test_causal_bottom_right_as_torch_aligns_it(random_inputs, queries, keys):
    inputs = random_inputs(queries=queries, keys=keys)
    bias = causal_lower_right(queries, keys)
    expected = scaled_dot_product_attention(inputs.query, inputs.key, inputs.value, attn_mask=bias)
    torch.testing.assert_close(Mechanism(mask=BOTTOM_RIGHT)(inputs).output, expected)


@pytest.mark.parametrize("mask", [BOTTOM_RIGHT, BigBird(), Logarithmic(), Neighborhood2D()], ids=repr)
def test_a_mask_that_depends_on_the_lengths_needs_to_know_them(mask):
    with pytest.raises(ValueError, match=r"depends on the lengths: call bind\(queries, keys, heads\) first"):
        mask(*torch.zeros(4, dtype=torch.int64))


def test_a_mask_written_for_flex_attention_may_look_at_the_head(random_inputs):
    class PerHead(Mask):
        def __call__(self, b, h, q, k):
            return k <= q + h

    allowed = Mechanism(mask=PerHead())(random_inputs(heads=3, queries=4, keys=4)).allowed
    assert torch.equal(allowed, create_mask(PerHead(), None, 3, 4, 4, device="cpu")[0])


# What others compute.

IMAGES = torch.tensor([[0, 0, 1, 1, 1, 0, 1]])  # as Gemma 3's token types mark them
DOCUMENTS = torch.tensor([[0, 0, 0, 1, 1, 2, 2]])
CAUSAL = masking_utils.causal_mask_function


@pytest.mark.parametrize(
    ("mask", "theirs"),
    [
        (Full(), masking_utils.bidirectional_mask_function),
        (Causal(), CAUSAL),
        (SlidingWindow(3), masking_utils.sliding_window_causal_mask_function(3)),
        (Band(2), masking_utils.sliding_window_bidirectional_mask_function(2)),
        (Padding(3), masking_utils.padding_mask_function(torch.arange(7)[None] < 3)),
        (
            Causal() & Padding(3),
            masking_utils.and_masks(CAUSAL, masking_utils.padding_mask_function(torch.arange(7)[None] < 3)),
        ),
        (Chunked(3), masking_utils.chunked_causal_mask_function(3, torch.tensor([0]))),
        (Documents((3, 2), Full()), masking_utils.packed_sequence_mask_function(DOCUMENTS)),
        (
            Documents((3, 2), SlidingWindow(2)),
            masking_utils.packed_sequence_compatibility_function(
                masking_utils.sliding_window_causal_mask_function(2), torch.tensor([[0, 1, 2, 0, 1, 0, 1]]), DOCUMENTS
            ),
        ),
        (
            ImageAndText((2, 3, 1, 1)),
            masking_utils.or_masks(CAUSAL, masking_utils.blockwise_overlay(get_block_sequence_ids_for_mask(IMAGES))),
        ),
    ],
    ids=lambda x: repr(x) if isinstance(x, Mask) else "",
)
def test_masks_as_transformers_makes_them(mask, theirs):
    at = (torch.tensor(0), torch.tensor(0), torch.arange(7)[:, None], torch.arange(7))
    assert torch.equal(grid(mask, 7, 7), theirs(*at).expand(7, 7))


def offsets(*lengths):
    return torch.tensor([0, *accumulate(lengths)])


BLOCK_DIFFUSION = gym.generate_block_diffusion_mask(8, 3)
PARENTS = (-1, 0, 0, 1, 1, 2)


@pytest.mark.parametrize(
    ("mask", "theirs", "queries", "keys"),
    [
        (Causal(), gym.causal_mask, 6, 9),
        (PrefixLM(4), gym.generate_prefix_lm_mask(4), 9, 9),
        (SlidingWindow(3, "steps back"), gym.generate_sliding_window(3), 9, 7),
        (DilatedWindow(5, 2), gym.generate_dilated_sliding_window(5, 2), 9, 12),
        (Longformer(6, (2, 5)), gym.generate_global_sliding_window(3, torch.tensor([0, 0, 1, 0, 0, 1] * 2) > 0), 6, 6),
        (Documents((4, 1, 3)), gym.generate_packed_causal_doc_mask_mod(offsets(4, 1, 3)), 8, 8),
        (Documents((5, 3), Band(1)), gym.generate_doc_mask_mod(Band(1), offsets(5, 3)), 8, 8),
        (
            SharedPrefix((3, 2, 2, 4, 1), (0, 0, 0, 3, 3)),
            gym.generate_shared_prefix_mask_mod(offsets(3, 2, 2, 4, 1), torch.tensor([0, 0, 0, 3, 3])),
            12,
            12,
        ),
        (BlockCausal(3), lambda b, h, q, k: BLOCK_DIFFUSION(b, h, q + 8, k + 8), 8, 8),
        (Neighborhood2D(5, 3, 3), gym.generate_natten(5, 5, 3, 3), 25, 25),
        (
            CrossToImage((1, 5), 3),
            gym.generate_vision_cross_attention_mask_mod(torch.tensor([[1, 5], [5, 9]]), 3),
            9,
            6,
        ),
        (
            Shifted(Tree(3, PARENTS), 3),
            gym.generate_jetspec_tree_causal_mask_mod(3, gym.build_tree_ancestor_matrix(PARENTS, "cpu")),
            6,
            9,
        ),
    ],
    ids=lambda x: repr(x) if isinstance(x, Mask) else "",
)
def test_masks_as_attention_gym_makes_them(mask, theirs, queries, keys):
    ours, others = (
        create_mask(one, None, None, queries, keys, device="cpu") for one in (mask.bind(queries, keys, 1), theirs)
    )
    assert torch.equal(ours, others)


def seen_by(layer, tokens, width):
    """Which inputs each output of a layer depends on: the outputs that change when one input is another."""
    vectors, base = torch.randn(1, tokens, width), []
    changed = vectors.repeat(tokens, 1, 1, 1)
    changed[range(tokens), 0, range(tokens)] = torch.randn(tokens, width)
    with torch.no_grad():
        base = layer(vectors)[0]
        return torch.stack([(layer(one)[0] != base).any(-1) for one in changed], dim=1)


SMALL = {"vocab_size": 9, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}


def test_longformer_as_transformers_runs_it():
    config = LongformerConfig(**SMALL, attention_window=[4], max_position_embeddings=64, pad_token_id=0)
    model = LongformerModel(config, add_pooling_layer=False).eval()
    everywhere = torch.zeros(1, 12, dtype=torch.int64)
    everywhere[0, [0, 7]] = 1

    def layer(vectors):
        return model(inputs_embeds=vectors, global_attention_mask=everywhere).last_hidden_state

    assert torch.equal(seen_by(layer, 12, 8), grid(Longformer(4, (0, 7)), 12, 12))


def test_big_bird_as_transformers_runs_it():
    # Outside of training its random blocks are all the first one, which is seen anyway.
    config = BigBirdConfig(**SMALL, block_size=2, num_random_blocks=1, max_position_embeddings=64)
    model = BigBirdModel(config, add_pooling_layer=False).eval()
    seen = seen_by(lambda vectors: model(inputs_embeds=vectors).last_hidden_state, 20, 8)
    assert torch.equal(seen, grid(BigBird(2, random=0), 20, 20))


@pytest.mark.parametrize(
    ("height", "width", "window", "shift"), [(4, 6, 2, 1), (6, 6, 3, 1), (5, 7, 3, 2), (4, 4, 2, 0)]
)
def test_shifted_windows_as_transformers_runs_them(height, width, window, shift):
    config = SwinConfig(embed_dim=8, depths=[1], num_heads=[2], window_size=window)
    layer = SwinLayer(config, 8, (height, width), 2, shift_size=shift).eval()
    seen = seen_by(lambda vectors: layer(vectors, (height, width))[0], height * width, 8)
    assert torch.equal(seen, grid(ShiftedWindow2D(width, window, shift), height * width, height * width))


# BigBird's random blocks.


@pytest.mark.parametrize(("queries", "keys"), [(16, 16), (9, 21), (24, 10)])
def test_big_bird_draws_for_each_head(queries, keys):
    mask = BigBird(2, random=2, seed=5)
    heads = create_mask(mask.bind(queries, keys, 1), None, 3, queries, keys, device="cpu")[0]
    for head in range(3):
        expected = slowly(big_bird(2, 2, 5, head), queries, keys)
        assert torch.equal(heads[head], expected)
        assert torch.equal(grid(mask, queries, keys, head), expected)
        assert torch.equal(grid(rule(mask, queries, keys), queries, keys, head), expected)
    assert not torch.equal(grid(mask, 32, 32, 0), grid(mask, 32, 32, 1))
    assert torch.equal(grid(mask, 32, 32, 1), grid(mask, 32, 32, 65))


def test_big_bird_draws_for_fewer_heads_where_there_are_very_many_blocks():
    def row(head):
        bound = BigBird(1, 1).bind(2**14, 2**14, 1)
        return bound(torch.tensor(0), torch.tensor(head), torch.tensor(5000), torch.arange(2**14))

    assert torch.equal(row(0), row(8))
    assert not torch.equal(row(0), row(1))


@pytest.mark.parametrize("block", [64, 2])
def test_big_bird_draws_in_very_long_sequences(block):
    length, row = 131_072, torch.tensor([70_000])
    seen = BigBird(block, 3).bind(length, length, 1)(
        torch.tensor(0), torch.tensor(1), row[:, None], torch.arange(length)
    )
    blocks = set((seen[0].nonzero()[:, 0] // block).tolist())
    own = 70_000 // block
    assert {0, own - 1, own, own + 1, (length - 1) // block} < blocks
    assert len(blocks) == 8
    assert seen.sum() == 8 * block


# What holds for all masks.


ANY = st.recursive(
    st.one_of(*map(masks_of_kind, MASKS)),
    lambda inner: (
        st.builds(operator.and_, inner, inner) | st.builds(operator.or_, inner, inner) | st.builds(operator.inv, inner)
    ),
    max_leaves=6,
)
LENGTH = st.integers(1, 9)


@given(ANY, LENGTH, LENGTH)
def test_what_is_printed_evaluates_back_to_an_equal_mask(mask, queries, keys):
    for printed in (mask, mask.bind(queries, keys, 1)):
        read = eval(repr(printed), vars(masks))
        assert read == printed
        assert hash(read) == hash(printed)


@given(ANY, ANY)
def test_masks_that_print_alike_are_equal_and_others_are_not(a, b):
    assert (a == b) == (repr(a) == repr(b))


@given(ANY, LENGTH, LENGTH)
def test_a_mask_that_fits_still_fits(mask, queries, keys):
    bound = mask.bind(queries, keys, 1)
    assert bound.bind(queries, keys, 1) == bound


@ONE_OF_EACH
def test_a_mask_that_depends_on_the_lengths_follows_them_when_they_change(mask):
    assert torch.equal(grid(mask.bind(4, 4, 1), 9, 13), grid(mask, 9, 13))


# What a person reads.


@ONE_OF_EACH
def test_a_mask_is_told_in_a_sentence(mask):
    for told in (mask, mask.bind(9, 9, 1)):
        assert re.fullmatch(r"(A query sees|Every query sees every) [^.]+\.", told.describe())
    assert mask.bind(9, 9, 1).condition() == mask.condition()
    assert str(mask.bind(9, 9, 1)) == str(mask)


def otherwise(mask, setting):
    """The masks with another value of one field, as far as they accept it."""
    value = getattr(mask, setting.name)
    if isinstance(value, str):
        values = get_args(setting.type)
    elif isinstance(value, int):
        values = (value + 1, value + 2, value - 1)
    else:
        values = ((*value[:-1], value[-1] + 1), (*value[:-1], 0), (value[0] + 1, *value[1:]))
    for other in values:
        with suppress(ValueError):
            yield replace(mask, **{setting.name: other})


@ONE_OF_EACH
def test_the_sentence_and_the_cells_change_with_every_parameter(mask):
    for setting in fields(mask):
        if setting.metadata:
            others = [other for other in otherwise(mask, setting) if other != mask]
            assert all(other.describe() != mask.describe() for other in others), setting.name
            assert any(not torch.equal(grid(other, 30, 33), grid(mask, 30, 33)) for other in others), setting.name


def test_the_inner_mask_of_documents_is_told():
    assert "fewer than 4 positions before it" in Documents(inner=SlidingWindow(4)).describe()


@ONE_OF_EACH
def test_what_a_person_may_set_has_limits_and_begins_within_them(mask):
    assert mask.__doc__
    for setting in fields(mask):
        value, about = getattr(mask, setting.name), setting.metadata
        if isinstance(value, int | tuple):
            assert all(about["min"] <= one <= about["max"] for one in ([value] if isinstance(value, int) else value))
            assert isinstance(value, int) or len(value) <= about["many"]


@pytest.mark.usefixtures("as_installed")
@ONE_OF_EACH
def test_a_number_below_the_least_is_refused_in_words(mask):
    for setting in fields(mask):
        if "min" in setting.metadata:
            wrong = setting.metadata["min"] - 1
            value = wrong if isinstance(getattr(mask, setting.name), int) else (wrong,)
            sentence = f"{type(mask).__name__} needs {setting.name} ≥ {wrong + 1}; it got {wrong}."
            with pytest.raises(ValueError, match=re.escape(sentence)):
                replace(mask, **{setting.name: value})


@pytest.mark.usefixtures("as_installed")
@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: Causal("middle"), "Causal needs align to be one of top left, bottom right; it got 'middle'."),
        (
            lambda: SlidingWindow(2, "both"),
            "SlidingWindow needs counts to be one of keys seen, steps back; it got 'both'.",
        ),
        (lambda: Longformer(3), "Longformer needs an even window, half of it on each side; it got 3. Use 4."),
        (
            lambda: Fixed(4, 5),
            "Fixed needs no more columns than a block has; it got 5 columns of 4. Use at most 4.",
        ),
        (
            lambda: Documents((2, 1), Causal("bottom right")),
            "documents differ in length; it got causal(bottom_right). Use one such as causal or sliding_window(4).",
        ),
        (lambda: Documents((2, 2), Padding((True, False))), "Documents needs an inner mask that does not depend on"),
        (lambda: Documents((2, 1), Causal() & Neighborhood2D()), "it got causal & neighborhood_2d(4, 3, 3)."),
        (lambda: SharedPrefix((2, 2), (0,)), "SharedPrefix needs a prefix for each of its 2 documents; it got 1."),
        (lambda: SharedPrefix((2, 2), (0, 2)), "the prefix of document 1 to be itself, or an earlier document that"),
        (lambda: SharedPrefix((2, 2, 2), (0, 0, 1)), "the prefix of document 2 to be itself, or an earlier document"),
        (
            lambda: Neighborhood2D(4, 3, 2),
            "Neighborhood2D needs an odd kernel_width, so that it has a middle; it got 2. Use 3.",
        ),
        (lambda: ShiftedWindow2D(4, 2, 2), "needs a shift smaller than the window of 2; it got 2."),
        (lambda: CrossToImage((3, 3)), "positions from 0 that rise from image to image; it got 3 after 3."),
        (
            lambda: Tree(0, (-1, 1)),
            "Tree needs the parent of node 1 to be a node before it, or −1 for the prefix; it got 1.",
        ),
    ],
)
def test_impossible_parameters_are_refused_in_words(make, sentence):
    with pytest.raises(ValueError, match=re.escape(sentence)):
        make()
