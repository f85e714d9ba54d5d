"""What a mask costs, against counts of every cell, closed forms, and a decoder that drops what it no longer needs."""

import operator
import re
import tracemalloc
from contextlib import contextmanager

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn.attention.flex_attention import create_block_mask
from torch.utils.flop_counter import FlopCounterMode

from attnviz.masks import (
    MASKS,
    Axial,
    Band,
    BigBird,
    BlockCausal,
    Causal,
    Chunked,
    Compare,
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
    terms,
)
from attnviz.masks import comparisons as comparisons
from attnviz.masks import cost as module
from attnviz.masks.cost import Cost, attention_flops, cost, layer_cost, row_intervals
from attnviz.masks.parser import parse
from attnviz.masks.terms import Arithmetic, Function, Lookup, Number, Variable

# beartype looks at a random item of a tuple, which Hypothesis would rather draw itself.
pytestmark = pytest.mark.filterwarnings("ignore:Do not use the `random` module inside strategies")

N = 131_072
Q, K = Variable("q"), Variable("k")
CAUSAL_OR_SINK = Causal() & Compare((Arithmetic("-", Q, K), Number(4)), ("<",)) | Compare((K, Number(2)), ("<",))

SAMPLES = [
    Full(),
    Causal(),
    Causal("bottom right"),
    PrefixLM(5),
    SlidingWindow(7),
    SlidingWindow(0),
    SlidingWindow(3, "steps back"),
    Band(4),
    DilatedWindow(9, 3),
    DilatedWindow(200, 150),
    Longformer(6, (0, 9, 11, 12, 29)),
    Strided(5),
    Strided(150),
    Fixed(6, 2),
    Fixed(140, 3),
    BigBird(4, 2),
    Logarithmic(),
    VerticalSlash(),
    Causal() & VerticalSlash((3, 40, 41), (0, 7, 90)),
    Padding(11),
    Padding(0),
    Documents((4, 13, 1, 6)),
    Documents((4, 13, 1, 6), Strided(3) | Band(1)),
    SharedPrefix(),
    Chunked(6),
    BlockCausal(4),
    BlockCausal(5, 2),
    Axial(7),
    Axial(135),
    Neighborhood2D(6, 3, 5),
    Neighborhood2D(136, 3, 5),
    ShiftedWindow2D(9, 4, 1),
    ShiftedWindow2D(140, 8, 3),
    ImageAndText((3, 8, 2, 9)),
    CrossToImage((2, 6, 17), 5),
    Sinks(3),
    SinksAndWindow(2, 5),
    Tree(6),
    Shifted(Band(2), 3),
    ~Chunked(6) & Causal(),
    Strided(6) | SlidingWindow(6),
    Strided(4) & Fixed(6, 2) | Sinks(1),
    Documents((9, 9, 9)) & Axial(4),
    CAUSAL_OR_SINK,
]
# Heads 0, 2, 4, … see all that is before, others a window; and rules of other kinds that differ by head.
BY_HEAD = [
    parse("causal & (q - k < 4 | h % 2 == 0)"),
    parse("h == 1 & band(2) | h != 1 & causal & (q - k) % (h + 1) == 0"),
    parse("k <= q - 3 * h | k == h // 2"),
    parse("h < 2"),
]


@pytest.fixture
def never_looked_at(monkeypatch):
    """Pairs are not looked at one by one, whatever the rule."""
    monkeypatch.setattr(module, "MOST_PAIRS", 0)


grid = Mask.matrix


def counted(mask, queries, keys, head=0, block=128):
    """The cost, by looking at every pair, every block, and every step of a decoder."""
    allowed = grid(mask, queries, keys, head)
    corners = [(row, column) for row in range(0, queries, block) for column in range(0, keys, block)]
    return Cost(
        queries=queries,
        keys=keys,
        kept=int(allowed.sum()),
        most=max(int(row.sum()) for row in allowed),
        empty=sum(not row.any() for row in allowed),
        cached=largest_cache(allowed) if queries == keys else None,
        block=block,
        blocks=len(corners),
        blocks_kept=sum(bool(allowed[row : row + block, column : column + block].any()) for row, column in corners),
        blocks_full=sum(
            int(allowed[row : row + block, column : column + block].sum()) == block**2 for row, column in corners
        ),
    )


def largest_cache(*heads):
    """A decoder that takes in one key at a time, and drops from each kv head those that it will not look at again."""
    last = {
        (head, key): max(column.nonzero()[:, 0].tolist(), default=-1)
        for head, allowed in enumerate(heads)
        for key, column in enumerate(allowed.T)
    }
    cache, largest = set(), 0
    for time in range(len(heads[0])):
        taken_in = {(head, time) for head in range(len(heads))}
        cache = {key for key in cache | taken_in if last[key] >= time}
        largest = max(largest, len(cache))
    return largest


def test_every_mask_of_the_catalogue_is_here():
    assert set(MASKS) <= {type(mask) for mask in SAMPLES}


@pytest.mark.usefixtures("never_looked_at")
@pytest.mark.parametrize("mask", SAMPLES, ids=str)
@pytest.mark.parametrize(("queries", "keys", "block"), [(1, 1, 128), (37, 37, 4), (21, 40, 8), (40, 21, 5)])
def test_the_cost_is_what_a_look_at_every_pair_counts(mask, queries, keys, block):
    assert cost(mask, queries, keys, block=block) == counted(mask, queries, keys, block=block)


@pytest.mark.usefixtures("never_looked_at")
@pytest.mark.parametrize("mask", [*SAMPLES, *BY_HEAD], ids=str)
@pytest.mark.parametrize(("queries", "keys", "block"), [(520, 700, 128), (256, 384, 128), (100, 64, 32)])
def test_full_and_partial_blocks_are_those_of_flex_attention(mask, queries, keys, block):
    bound = mask.bind(queries, keys, 3)
    theirs = create_block_mask(bound, 1, 3, queries, keys, device="cpu", BLOCK_SIZE=block)
    found = layer_cost(mask, queries, keys, heads=3, block=block)
    assert found.blocks_full == theirs.full_kv_num_blocks.sum()
    assert found.blocks_partial == theirs.kv_num_blocks.sum()
    assert found.blocks == 3 * -(-queries // block) * -(-keys // block)
    assert found.pairs_computed == found.blocks_kept * block**2 >= found.kept


@pytest.mark.usefixtures("never_looked_at")
@pytest.mark.parametrize("mask", [*SAMPLES, *BY_HEAD], ids=str)
@pytest.mark.parametrize(("heads", "kv_heads"), [(4, 4), (4, 2), (6, 1)])
def test_the_cost_of_a_layer_is_what_a_look_at_every_head_counts(mask, heads, kv_heads):
    found = layer_cost(mask, 25, 25, heads=heads, kv_heads=kv_heads, block=4)
    costs = [counted(mask, 25, 25, head, 4) for head in range(heads)]
    for name in ("kept", "empty", "blocks", "blocks_kept", "blocks_full"):
        assert getattr(found, name) == sum(getattr(each, name) for each in costs)
    assert found.most == max(each.most for each in costs)
    assert (found.heads, found.pairs) == (heads, heads * 25 * 25)
    assert {head: rule.cost for rule in found.rules for head in rule.heads} == dict(enumerate(costs))
    allowed = torch.stack([grid(mask, 25, 25, head) for head in range(heads)])
    assert found.cached == largest_cache(*allowed.view(kv_heads, heads // kv_heads, 25, 25).any(1))


def test_heads_that_share_a_rule_are_counted_once(monkeypatch):
    heads = []
    monkeypatch.setattr(
        module, "RowIntervals", lambda *sizes: heads.append(sizes[3]) or row_intervals.RowIntervals(*sizes)
    )
    found = layer_cost(BY_HEAD[0], N, N, heads=12)
    assert heads == [0, 1]
    assert [(rule.heads, rule.cost.cached) for rule in found.rules] == [
        ((0, 2, 4, 6, 8, 10), N),
        ((1, 3, 5, 7, 9, 11), 4),
    ]
    assert found.cached == 6 * N + 6 * 4
    # Where a pair of heads shares its keys, the head that sees all needs all of them.
    assert layer_cost(BY_HEAD[0], N, N, heads=12, kv_heads=6).cached == 6 * N


def test_floating_point_operations_are_those_of_two_products():
    with FlopCounterMode(display=False) as counter:
        query, key, value = torch.zeros(5, 8), torch.zeros(7, 8), torch.zeros(7, 3)
        (query @ key.T) @ value
    assert attention_flops(5 * 7, 8, 3) == counter.get_total_flops()


def test_many_heads_have_one_limit():
    """Heads with rules of their own were counted each within the limit of one."""
    assert len(layer_cost(BigBird(), 200, 200, heads=64).rules) == 64
    with pytest.raises(ValueError, match=r"follow 64 rules\. 131,072 × 131,072 in blocks of 128 × 128 are too many"):
        layer_cost(BigBird(128), N, N, heads=64)
    unstructured = parse("(k * k + q * k * -3 + h * q) % 7919 < 5")
    with pytest.raises(ValueError, match=r"in 12 rules of heads\. .* Use at most 3,\d\d\d × 3,\d\d\d\."):
        layer_cost(unstructured, 8192, 8192, heads=12)
    assert layer_cost(unstructured, 40, 40, heads=2, block=9).kept == sum(
        counted(unstructured, 40, 40, head, 9).kept for head in range(2)
    )


def test_a_mask_written_for_tensors_alone_is_counted_in_each_head():
    class Alternating(Mask):
        def __call__(self, b, h, q, k):
            return torch.where(h % 2 == 0, k <= q, k >= q)

    found = layer_cost(Alternating(), 9, 9, heads=2, block=2)
    assert [rule.cost for rule in found.rules] == [counted(Alternating(), 9, 9, head, 2) for head in range(2)]


@pytest.mark.parametrize(("heads", "kv_heads"), [(0, None), (4, 3), (4, 0)])
def test_impossible_heads_of_a_layer_are_refused(heads, kv_heads):
    with pytest.raises(ValueError, match="kv heads that divide the heads evenly"):
        layer_cost(Causal(), 5, 5, heads=heads, kv_heads=kv_heads)


@pytest.mark.usefixtures("never_looked_at")
def test_each_head_has_its_own_cost():
    mask = BigBird(2, 3)
    costs = [cost(mask, 30, 30, head=head, block=4) for head in range(4)]
    assert costs == [counted(mask, 30, 30, head=head, block=4) for head in range(4)]
    assert len(set(costs)) > 1
    each = Compare(
        (Arithmetic("%", Arithmetic("-", Q, K), Arithmetic("+", Variable("h"), Number(2))), Number(0)), ("==",)
    )
    assert [cost(each, 30, 30, head=h, block=4) for h in (0, 5)] == [counted(each, 30, 30, h, 4) for h in (0, 5)]


def small(low, high):
    return st.builds(Number, st.integers(low, high))


# Terms that are made of lines, bent, divided or repeated, of which the cost is counted in pieces at any length.
LINE = st.builds(
    lambda a, b, c: Arithmetic("+", Arithmetic("*", Number(a), Q), Arithmetic("+", Arithmetic("*", Number(b), K), c)),
    st.integers(-2, 2),
    st.integers(-2, 2),
    small(-9, 9),
)
BENT = st.one_of(
    LINE,
    st.builds(lambda a: Function("abs", (a,)), LINE),
    st.builds(lambda name, a, b: Function(name, (a, b)), st.sampled_from(["min", "max"]), LINE, LINE),
    st.builds(lambda a: Lookup((3, 1, 1, 4, 1, 5, 9, 2, 6), Arithmetic("%", a, Number(9))), LINE),
)
STRUCTURED = BENT | st.builds(Arithmetic, st.sampled_from(["//", "%"]), BENT, small(1, 9))
# And terms of any kind.
ANY = st.recursive(
    st.sampled_from([Q, K, Variable("h")]) | small(-3, 9),
    lambda inner: st.one_of(
        st.builds(Arithmetic, st.sampled_from(["+", "-", "*"]), inner, inner),
        st.builds(Arithmetic, st.sampled_from(["//", "%"]), inner, small(1, 9)),
        st.builds(lambda a: Function("abs", (a,)), inner),
        st.builds(lambda name, a, b: Function(name, (a, b)), st.sampled_from(["min", "max"]), inner, inner),
    ),
    max_leaves=6,
)
SIGN = st.sampled_from(["<", "<=", "==", "!=", ">=", ">"])


def masks_of(comparisons):
    return st.recursive(
        comparisons | st.sampled_from(SAMPLES),
        lambda inner: (
            st.builds(operator.and_, inner, inner)
            | st.builds(operator.or_, inner, inner)
            | st.builds(operator.inv, inner)
        ),
        max_leaves=4,
    )


LENGTH = st.integers(1, 33)
CHAIN = st.builds(lambda a, b, c, s, t: Compare((a, b, c), (s, t)), small(-3, 3), ANY, ANY, SIGN, SIGN)


def in_pieces(mask, queries, keys, head, block):
    """The cost as it is counted where there are too many pairs to look at; None if that is refused."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "MOST_PAIRS", 0)
        try:
            return cost(mask, queries, keys, head=head, block=block)
        except ValueError:
            return None


@given(masks_of(st.builds(lambda a, n, s: Compare((a, n), (s,)), STRUCTURED, small(-9, 9), SIGN)), LENGTH, LENGTH)
def test_combinations_are_counted_in_pieces(mask, queries, keys):
    assert in_pieces(mask, queries, keys, 1, 4) == counted(mask, queries, keys, 1, 4)


@given(masks_of(CHAIN), LENGTH, st.integers(1, 5))
def test_any_rule_is_counted_one_way_or_the_other(mask, length, block):
    expected = counted(mask, length, length, 3, block)
    assert cost(mask, length, length, head=3, block=block) == expected
    assert in_pieces(mask, length, length, 3, block) in (expected, None)


@given(masks_of(CHAIN), st.integers(1, 20), st.integers(1, 5))
def test_the_cost_of_any_layer_is_the_sum_of_its_heads(mask, length, heads):
    found = layer_cost(mask, length, length, heads=heads, block=4)
    costs = [counted(mask, length, length, head, 4) for head in range(heads)]
    assert {head: rule.cost for rule in found.rules for head in rule.heads} == dict(enumerate(costs))
    allowed = [grid(mask, length, length, head) for head in range(heads)]
    assert found.cached == largest_cache(*allowed)
    assert layer_cost(mask, length, length, heads=heads, kv_heads=1).cached == largest_cache(
        torch.stack(allowed).any(0)
    )


def test_when_pieces_become_too_many_pairs_are_looked_at(monkeypatch):
    found = cost(Logarithmic(), 600, 600)
    assert in_pieces(Logarithmic(), 600, 600, 0, 128) == found
    monkeypatch.setattr(module, "MOST_STEPS", 4_000_000)
    assert in_pieces(Logarithmic(), 600, 600, 0, 128) is None
    assert cost(Logarithmic(), 600, 600) == found


@pytest.mark.usefixtures("never_looked_at")
@pytest.mark.parametrize("mask", [Logarithmic(), Strided(5) | Band(4), Axial(7), Documents((4, 13, 1, 6))], ids=str)
def test_few_pieces_at_once_give_the_same(mask, monkeypatch):
    monkeypatch.setattr(row_intervals, "MAX_PIECES", 12)
    assert cost(mask, 37, 37, block=4) == counted(mask, 37, 37, block=4)


def test_pairs_are_looked_at_in_blocks_of_rows():
    mask = Compare((Arithmetic("-", Arithmetic("*", K, K), Arithmetic("*", Q, K)), Number(9)), ("<",))
    assert cost(mask, 1500, 1500).kept == int(grid(mask, 1500, 1500).sum())
    assert cost(mask, 40, 23, block=7) == counted(mask, 40, 23, block=7)


def test_a_mask_written_for_tensors_alone_is_looked_at():
    class Checkered(Mask):
        def __call__(self, b, h, q, k):
            return torch.where(q % 2 == 0, k % 2 == 0, k % 2 == 1)

    assert cost(Checkered(), 9, 9, block=2) == counted(Checkered(), 9, 9, block=2)


def sum_over_queries(seen):
    return sum(map(seen, range(N)))


LENGTHS = tuple((i * 7919) % 4000 + 1 for i in range(40))  # of documents, mixed
REST = N - sum(LENGTHS)
# What is kept, the most that a query sees, and the cache, at 131,072 positions.
CLOSED_FORMS = [
    (Full(), N * N, N, N),
    (Causal(), N * (N + 1) // 2, N, N),
    (PrefixLM(1000), sum_over_queries(lambda q: max(1000, q + 1)), N, N),
    (SlidingWindow(4096), 4096 * N - 4096 * 4095 // 2, 4096, 4096),
    (Band(4096), 8193 * N - 4096 * 4097, 8193, 4097),
    (DilatedWindow(4096, 2), 4097 * N - 2048 * (4096 + 2), 4097, 4097),
    (Longformer(512, (0,)), 513 * N - 256 * 257 + 2 * (N - 257), N, 258),
    (Strided(362), sum_over_queries(lambda q: q // 362 + 1), 363, N - 361),
    (Logarithmic(), sum_over_queries(lambda q: 1 + q.bit_length()), 18, 65537),
    (Padding(100_000), 100_000 * N, 100_000, 100_000),
    (Padding((True,) * 70_000 + (False,) * (N - 70_000)), 70_000 * N, 70_000, 70_000),
    (Chunked(8192), 16 * 8192 * 8193 // 2, 8192, 8192),
    (BlockCausal(64), sum_over_queries(lambda q: (q // 64 + 1) * 64), N, N),
    (BlockCausal(64, 3), sum_over_queries(lambda q: (min(q // 64, 3) + 1) * 64), 256, 256),
    (Documents(LENGTHS), sum(n * (n + 1) // 2 for n in (*LENGTHS, REST)), max(*LENGTHS, REST), max(*LENGTHS, REST)),
    (SinksAndWindow(4, 4096), sum_over_queries(lambda q: min(q + 1, 4100)), 4100, 4100),
    (Sinks(4), 4 * N - 6, 4, 4),
    (ImageAndText((100, 256) * 30), N * (N + 1) // 2 + 30 * 256 * 255 // 2, N, N),
    (CrossToImage((0, 1000, 2000), 64), 64 * N, 64, 192),
    (Tree(131_000, (-1, 0, 0, 1)), 131_000 * N + 72 + 1 + 1 + 2, 131_003, 131_003),
    (CAUSAL_OR_SINK, sum_over_queries(lambda q: min(q + 1, 6)) + 1, 6, 6),
]


@pytest.mark.usefixtures("never_looked_at")
@pytest.mark.parametrize(("mask", "kept", "most", "cached"), CLOSED_FORMS, ids=lambda x: type(x).__name__)
def test_closed_forms_at_131072(mask, kept, most, cached):
    found = cost(mask, N, N)
    assert (found.kept, found.most, found.cached, found.empty) == (kept, most, cached, 0)


@pytest.mark.usefixtures("never_looked_at")
def test_grids_of_images_at_131044():
    n = 362 * 362
    assert cost(Neighborhood2D(362, 13, 7), n, n).kept == n * 13 * 7
    assert cost(Axial(362), n, n).kept == n * (362 + 362 - 1)
    assert cost(Axial(362), n, n, head=1).cached == n - 361  # all but what the last row has not seen
    windows = cost(ShiftedWindow2D(360, 8, 0), 360 * 360, 360 * 360)
    assert (windows.kept, windows.most) == (360 * 360 * 64, 64)


@pytest.mark.usefixtures("never_looked_at")
def test_blocks_at_131072():
    assert cost(Causal(), N, N).blocks_kept == 1024 * 1025 // 2
    assert cost(SlidingWindow(129), N, N).blocks_kept == 1024 + 1023
    assert cost(SlidingWindow(130), N, N).blocks_kept == 1024 + 1023 + 1022
    assert cost(Full(), N, N // 2, block=64).blocks_kept == 2048 * 1024
    # On its own diagonal, 3 beside it, in the first or last row or column: the blocks of BigBird that are not random.
    assert cost(BigBird(128, 0), N, N).blocks_kept == 2 * 1024 + 2 * 1022 + sum(
        len({row - 1, row, row + 1} - {0, 1023}) for row in range(1, 1023)
    )


@pytest.mark.usefixtures("never_looked_at")
@pytest.mark.parametrize(
    "mask",
    [
        Strided(362) | SlidingWindow(362),
        Documents(LENGTHS, Strided(8)),
        Neighborhood2D(362, 13, 13),
    ],
    ids=lambda mask: str(mask)[:40],
)
def test_memory_stays_small_at_131072(mask):
    tracemalloc.start()
    try:
        cost(mask, N, N)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 200e6


UNEVEN = Compare(
    (Arithmetic("+", Arithmetic("*", K, K), Arithmetic("*", Arithmetic("*", Number(-3), Q), K)), Number(5)), ("<",)
)


@pytest.mark.parametrize(
    ("mask", "why"),
    [
        (UNEVEN, "holds k * k + -3 * q * k, which rises and falls"),
        (Compare((Arithmetic("//", Q, Arithmetic("+", K, Number(1))), Number(5)), ("<",)), "divides by k + 1"),
        (
            Compare((Arithmetic("%", Q, Arithmetic("+", K, Number(1))), Number(5)), ("<",)),
            "takes the remainder of k + 1",
        ),
        (
            Compare((Arithmetic("%", Arithmetic("*", Number(7919), K), Number(4096)), Q), ("<",)),
            "changes too often along the keys",
        ),
    ],
    ids=lambda x: str(x),
)
def test_what_can_only_be_looked_at_has_a_limit(mask, why):
    sentence = (
        rf"{re.escape(why)}, so its pairs .* 131,072 × 131,072 are too many .* at most 1[34],\d\d\d × 1[34],\d\d\d\."
    )
    with pytest.raises(ValueError, match=sentence):
        cost(mask, N, N)
    assert cost(mask, 50, 50, block=9) == counted(mask, 50, 50, block=9)


def test_many_operations_have_a_lower_limit():
    """Each pair of a long rule takes as many steps as it has operations: two visitors' rules took minutes."""
    rule = parse(" & ".join(f"(q*k + {i} + q*q*0) % 11 < 9" for i in range(28)))
    with pytest.raises(ValueError, match=r"16,384 × 16,384 are too many .* at most 2,6\d\d × 2,6\d\d\."):
        cost(rule, 16_384, 16_384)
    assert cost(rule, 50, 50, block=9) == counted(rule, 50, 50, block=9)


PARTS = st.sampled_from(
    [
        *(
            "axial()",
            "axial(97)",
            "axial(64)",
            "strided(3)",
            "strided(211)",
            "logarithmic",
            "documents",
            "big_bird(4, 3)",
        ),
        *("tree", "fixed(7, 3)", "neighborhood_2d(9, 3, 3)", "dilated_window(90, 7)", "vertical_slash", "causal"),
        *("(q*k) % 7 == 1", "(7919*k) % 401 < q % 400", "abs(abs(abs(q - k) - 90) - 40) < 9", "k*k - 3*q*k < 5"),
        *("(q + k) % 89 < 4", "(q - k) % 97 % 11 < 3", "k // 3 % 2 == q % 2", "max(min(k, q) % 5, k % 3) > 1"),
        *("q * (h + 1) % 13 < k % 11", "(k + h) % (h + 2) == 0", "h % 3 == q % 3", "shared_prefix | k % 2 == 0"),
    ]
)
HOSTILE = st.recursive(
    PARTS,
    lambda inner: st.builds("({} {} {})".format, inner, st.sampled_from("&|"), inner) | inner.map("~({})".format),
    max_leaves=12,
)


@contextmanager
def counted_work():
    """Counts what numpy and torch compute, number by number, into the list that it gives."""
    computed = [0]

    def counted_operation(operation):
        def compute(*operands):
            result = operation(*operands)
            computed[0] += result.numel() if isinstance(result, torch.Tensor) else getattr(result, "size", 1)
            return result

        return compute

    with pytest.MonkeyPatch.context() as patch:
        for operations in (terms.OPERATIONS, comparisons.COMPARISONS):
            for sign, operation in operations.items():
                patch.setitem(operations, sign, counted_operation(operation))
        yield computed


@given(HOSTILE, st.sampled_from([(512, 512), (700, 300), (2_000, 40)]), st.sampled_from([1, 8]))
def test_any_mask_takes_bounded_work_before_its_cost_or_its_refusal(text, sizes, heads):
    """Each number that is computed is at least a step; the limits are a hundredth of the real ones."""
    mask, most = parse(text), module.MOST_STEPS // 100
    with pytest.MonkeyPatch.context() as patch, counted_work() as computed:
        patch.setattr(module, "MOST_STEPS", most)
        patch.setattr(module, "MOST_PAIR_STEPS", module.MOST_PAIR_STEPS // 100)
        try:
            layer_cost(mask, *sizes, heads=heads, block=16)
        except ValueError as refusal:
            assert re.search(r"Use (at most [\d,]+ × [\d,]+|fewer tokens)", str(refusal))  # noqa: PT017
    assert computed[0] <= most


@pytest.mark.parametrize(
    ("text", "most"),
    [
        ("axial(3) & axial(4097)", 140e6),
        ("logarithmic | (q*k) % 7 == 1", 60e6),
    ],
)
def test_a_mask_of_a_long_text_is_refused_before_it_takes_long(text, most):
    """It took 3.5 seconds until these were refused."""
    with counted_work() as computed, pytest.raises(ValueError, match="changes too often along the keys"):
        cost(parse(text), N, N)
    assert computed[0] < most


@pytest.mark.usefixtures("never_looked_at")
def test_rules_of_the_distance_alone_are_one_table():
    many = parse(" | ".join(f"k - q + {i * i} == 0" for i in range(40)) + " | abs(q - k) < 3 & k <= q")
    with counted_work() as computed:
        found = cost(many, 2_000, 2_000, block=64)
    assert computed[0] < 3e6  # rule by rule it is 11 million
    assert found == counted(many, 2_000, 2_000, block=64)


def test_pairs_are_counted_in_parts_that_threads_do_not_share(monkeypatch):
    """Threads that wait for each other at every operation took 27 seconds beside other processes, and 2 alone."""
    sizes = []
    monkeypatch.setattr(
        torch.Tensor,
        "expand",
        lambda self, *shape, expand=torch.Tensor.expand: sizes.append(shape) or expand(self, *shape),
    )
    cost(UNEVEN, 1500, 1500)
    assert max(rows * keys for rows, keys in sizes) < 2**15


def test_splitting_rows_has_a_limit_for_long_terms(monkeypatch):
    """The places that a search looks at count as steps, and so does every operation there."""
    rule = parse("k*k*k + q*k > 7000 & k*k > q")
    assert in_pieces(rule, 60, 60, 0, 128) == cost(rule, 60, 60)
    monkeypatch.setattr(module, "MOST_STEPS", 1_000_000)
    assert in_pieces(rule, 60, 60, 0, 128) is None


def test_what_may_overflow_or_divide_by_zero_is_refused_in_words():
    large = Arithmetic("*", Arithmetic("*", Q, K), Arithmetic("*", Q, Number(10**6)))
    with pytest.raises(ValueError, match="can be too large to compute with"):
        cost(Compare((large, Number(0)), (">",)), N, N)
    with pytest.raises(ValueError, match="may be 0"):
        cost(Compare((Arithmetic("%", Q, K), Number(0)), ("==",)), 9, 9)


@pytest.mark.parametrize("asked", [(0, 5), (5, 0)])
def test_a_cost_of_nothing_is_refused(asked):
    with pytest.raises(ValueError, match=r"A cost needs at least 1 query, 1 key"):
        cost(Causal(), *asked)


def test_impossible_blocks_and_heads_are_refused():
    for more in ({"block": 0}, {"head": -1}):
        with pytest.raises(ValueError, match=r"blocks of 1 and a head counted from 0"):
            cost(Causal(), 5, 5, **more)
    with pytest.raises(ValueError, match=r"17,179,869,184 blocks are too many to count. Use larger ones than 1 × 1."):
        cost(Causal(), N, N, block=1)


def test_a_mask_that_does_not_fit_says_so():
    with pytest.raises(ValueError, match="Padding is given for 4 keys; here there are 5"):
        cost(Padding((True,) * 4), 5, 5)


def test_the_cache_of_a_cross_attention_is_not_counted():
    assert cost(Causal(), 5, 6).cached is None
