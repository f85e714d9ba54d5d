"""The same named mask as different libraries define it, and the cells on which they differ.

Each entry was read in the library's source, which it names; {size} is the parameter of the named mask.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isqrt

import torch
from jaxtyping import Bool
from torch import Tensor

from attnviz.language import N_, _
from attnviz.masks.direction import Causal, PrefixLM
from attnviz.masks.mask import Array, Mask, Not, Symbol
from attnviz.masks.segments import BlockCausal, Chunked, Padding
from attnviz.masks.terms import Variable
from attnviz.masks.vision import Neighborhood2D
from attnviz.masks.window import Band, DilatedWindow, SlidingWindow

DILATION = 2  # of the dilated window, whose size is the number


@dataclass(frozen=True)
class Convention:
    """How one library defines a named mask."""

    library: str
    call: str  # what an engineer writes
    # The mask here that is the same, for a size and the numbers of queries and keys; ValueError where it refuses.
    mask: Callable[[int, int, int], Mask]
    source: str  # where the library says so
    note: str = ""

    def call_with(self, size: int) -> str:
        """Returns the call with this size."""
        return self.call.format(size=size)


@dataclass(frozen=True)
class NamedMask:
    """A named mask and its conventions."""

    name: str
    question: str  # what the conventions answer differently
    conventions: tuple[Convention, ...]
    size: str = ""  # what the number is; empty where there is none
    least: int = 1
    start: int = 4  # a size that shows the difference


@dataclass(frozen=True, eq=False)
class Reading:
    """The mask of one convention, or the reason why it refuses."""

    convention: Convention
    mask: Mask | None  # None where it refuses
    allowed: Bool[Tensor, "queries keys"] | None
    refusal: str = ""


def readings(named_mask: NamedMask, size: int, queries: int, keys: int) -> tuple[Reading, ...]:
    """Returns the mask of each convention of a named mask, for a size and these numbers of queries and keys.

    Raises ValueError if the size is too small, or there are no queries or keys.
    """
    if named_mask.size and size < named_mask.least:
        raise ValueError(
            _(
                "{name} needs a size of {least} or more; it got {size}.",
                name=named_mask.name,
                least=named_mask.least,
                size=size,
            )
        )
    if min(queries, keys) < 1:
        raise ValueError(
            _("Give at least one query and one key; there are {queries} and {keys}.", queries=queries, keys=keys)
        )
    return tuple(_read_convention(convention, size, queries, keys) for convention in named_mask.conventions)


def _read_convention(convention: Convention, size: int, queries: int, keys: int) -> Reading:
    try:
        mask = convention.mask(size, queries, keys)
    except ValueError as refusal:
        return Reading(convention, None, None, str(refusal))
    return Reading(convention, mask, mask.matrix(queries, keys))


def disputed_cells(readings: Sequence[Reading]) -> Bool[Tensor, "queries keys"]:
    """Returns the cells on which the conventions differ, without those that refuse.

    Raises ValueError, with the message of the first one, if all of them refuse.
    """
    allowed = [reading.allowed for reading in readings if reading.allowed is not None]
    if not allowed:
        raise ValueError(readings[0].refusal)
    stacked = torch.stack(allowed)
    return stacked.any(0) & ~stacked.all(0)


def group_readings(readings: Sequence[Reading]) -> list[list[Reading]]:
    """Groups readings that allow the same cells, in the order of the first of each, without those that refuse."""
    groups: dict[bytes, list[Reading]] = {}
    for reading in readings:
        if reading.allowed is not None:
            groups.setdefault(reading.allowed.numpy().tobytes(), []).append(reading)
    return list(groups.values())


def squarest_grid(positions: int) -> tuple[int, int]:
    """Returns the height and width of the grid of these positions nearest to a square, never taller than wide."""
    height = max(rows for rows in range(1, isqrt(positions) + 1) if positions % rows == 0)
    return height, positions // height


def count_from_first(make: Callable[[int], Mask]) -> Callable[[int, int, int], Mask]:
    """Counts the positions of queries and of keys both from 0."""
    return lambda size, queries, keys: make(size)


def count_from_last(make: Callable[[int], Mask]) -> Callable[[int, int, int], Mask]:
    """Aligns the last query with the last key, as where earlier keys are cached."""

    def mask(size: int, queries: int, keys: int) -> Mask:
        if queries == keys:
            return make(size)
        b, h, q, k, n_q, n_k = (Symbol(Variable(name)) for name in ("b", "h", "q", "k", "n_q", "n_k"))
        return make(size)(b, h, q + n_k - n_q, k).mask

    return mask


def need_equal_lengths(make: Callable[[int, int], Mask]) -> Callable[[int, int, int], Mask]:
    """Makes a mask for a size and a number of positions; refuses different numbers of queries and keys."""

    def mask(size: int, queries: int, keys: int) -> Mask:
        if queries != keys:
            raise ValueError(
                _(
                    "This takes as many queries as keys; here there are {queries} and {keys}.",
                    queries=queries,
                    keys=keys,
                )
            )
        return make(size, keys)

    return mask


@dataclass(frozen=True)
class Nearest(Mask):
    """The `kernel` nearest of `positions`, among those a multiple of `dilation` away. Near an edge the window moves
    inward, as in NATTEN's `na1d`."""

    positions: int
    kernel: int
    dilation: int

    def __call__(self, b: Array, h: Array, q: Array, k: Array) -> Array:
        step = self.dilation
        last = (self.positions - 1 - q % step) // step  # of those the query may see, counted in steps
        # An even window has one key more before its middle than after it.
        return (q % step == k % step) & _in_window(q // step, k // step, last, self.kernel // 2, (self.kernel - 1) // 2)

    def condition(self) -> str:
        if self.dilation == 1:
            return _("the key is one of the {kernel} nearest to it", kernel=self.kernel)
        return _(
            "the key is one of the {kernel} nearest to it of those a multiple of {dilation} positions away",
            kernel=self.kernel, dilation=self.dilation,
        )  # fmt: skip


@dataclass(frozen=True)
class MixedUpNeighborhood2D(Mask):
    """A square around each query on a grid, which is moved inwards at the edges of another grid: one as high as this
    is wide and as wide as this is high. attention-gym's `generate_natten`; right where the grid is a square."""

    CONDITION = N_(
        "on a grid of {height} × {width}, the key is in the square of {kernel} × {kernel} around it, moved inwards "
        "at the edges of one of {width} × {height}"
    )

    height: int
    width: int
    kernel: int

    def __call__(self, b: Array, h: Array, q: Array, k: Array) -> Array:
        half = self.kernel // 2
        rows = _in_window(q // self.width, k // self.width, self.width - 1, half, half)
        return rows & _in_window(q % self.width, k % self.width, self.height - 1, half, half)


def _in_window(q: Array, k: Array, last: Array | int, before: int, after: int) -> Array:
    """Returns whether k lies in a window around q that is moved inward at 0 and at the last position."""
    first = (q - before).clamp(min=0).clamp(max=last - before - after)
    return (first <= k) & (k <= first + before + after)


def _natten(dilation: int) -> Callable[[int, int, int], Mask]:
    def make(size: int, positions: int) -> Mask:
        if not 2 <= size <= positions // dilation:
            times = f" times the dilation of {dilation}" if dilation > 1 else ""
            raise ValueError(
                _(
                    "NATTEN takes a kernel of 2 or more that{times} is at most {positions}; it got {size}.",
                    times=times,
                    positions=positions,
                    size=size,
                )
            )
        return Nearest(positions, size, dilation)

    return need_equal_lengths(make)


def _on_grid(make: Callable[[int, int, int], Mask]) -> Callable[[int, int, int], Mask]:
    """Makes a mask for the height and width of the grid of the positions, and for an odd size no larger than it."""

    def on(size: int, positions: int) -> Mask:
        height, width = squarest_grid(positions)
        if size % 2 == 0 or not 3 <= size <= height:
            raise ValueError(
                _(
                    "A square kernel of {size} does not fit: it must be odd, 3 or more, and no larger "
                    "than the grid, which is {height} × {width} for {positions} positions.",
                    size=size,
                    height=height,
                    width=width,
                    positions=positions,
                )
            )
        return make(height, width, size)

    return need_equal_lengths(on)


def _longformer(size: int, positions: int) -> Mask:
    if size % 2 or size < 4:  # at 2 its sliding chunks fail
        raise ValueError(
            _("Longformer takes an even window of 4 or more, half of it on each side; it got {size}.", size=size)
        )
    return Band(size // 2)


TRANSFORMERS = "Hugging Face transformers"
FLASH = "FlashAttention"
TORCH = "PyTorch"
GYM = "attention-gym"
XFORMERS = "xFormers"
MLX = "MLX"

CAUSAL = NamedMask(
    "Causal, other numbers of queries than keys",
    "Is the diagonal counted from the first query and key, or from the last?",
    (
        Convention(
            TORCH,
            "scaled_dot_product_attention(q, k, v, is_causal=True)",
            count_from_first(lambda size: Causal()),
            "torch.nn.functional.scaled_dot_product_attention, documentation of is_causal",
            "Wrong for new queries on cached keys: the first new query then sees key 0 alone.",
        ),
        Convention(
            TORCH,
            "scaled_dot_product_attention(q, k, v, attn_mask=causal_upper_left(n_q, n_k))",
            count_from_first(lambda size: Causal()),
            "torch/nn/attention/bias.py, CausalVariant.UPPER_LEFT",
        ),
        Convention(
            TORCH,
            "scaled_dot_product_attention(q, k, v, attn_mask=causal_lower_right(n_q, n_k))",
            count_from_first(lambda size: Causal("bottom right")),
            "torch/nn/attention/bias.py, CausalVariant.LOWER_RIGHT",
        ),
        Convention(
            FLASH,
            "flash_attn_func(q, k, v, causal=True)",
            count_from_first(lambda size: Causal("bottom right")),
            "flash_attn/flash_attn_interface.py, flash_attn_func",
            "From version 2.1; a query that sees nothing gets zeros.",
        ),
        Convention(
            FLASH + " before 2.1",
            "flash_attn_func(q, k, v, causal=True)",
            count_from_first(lambda size: Causal()),
            "README.md, “2.1: Change behavior of causal flag”",
        ),
        Convention(
            TRANSFORMERS,
            "model(input_ids, past_key_values=cache)",
            count_from_first(lambda size: Causal("bottom right")),
            "transformers/masking_utils.py, create_causal_mask (q_offset of the cache) and causal_mask_function",
            "Positions count from the start of the text; the queries come after what is cached.",
        ),
        Convention(
            GYM,
            "causal_mask",
            count_from_first(lambda size: Causal()),
            "attn_gym/masks/causal.py, causal_mask",
            "As every FlexAttention mask_mod: positions count from 0 unless an offset is added.",
        ),
        Convention(
            XFORMERS,
            "memory_efficient_attention(q, k, v, attn_bias=LowerTriangularMask())",
            count_from_first(lambda size: Causal()),
            "xformers/ops/fmha/attn_bias.py, LowerTriangularMask",
        ),
        Convention(
            XFORMERS,
            "memory_efficient_attention(q, k, v, attn_bias=LowerTriangularFromBottomRightMask())",
            count_from_first(lambda size: Causal("bottom right")),
            "xformers/ops/fmha/attn_bias.py, LowerTriangularFromBottomRightMask",
        ),
        Convention(
            MLX,
            'mx.fast.scaled_dot_product_attention(q, k, v, scale=scale, mask="causal")',
            count_from_first(lambda size: Causal("bottom right")),
            "mlx.core.fast.scaled_dot_product_attention, documentation of mask",
        ),
    ),
)

SLIDING = NamedMask(
    "Sliding window",
    "Does the size count the keys seen, the query's own included, or the steps back?",
    (
        Convention(
            TRANSFORMERS,
            "config.sliding_window = {size}",
            count_from_last(SlidingWindow),
            "transformers/masking_utils.py, sliding_window_causal_mask_function",
        ),
        Convention(
            TRANSFORMERS + " on FlashAttention",
            'config.sliding_window = {size}  # attn_implementation="flash_attention_2"',
            count_from_last(SlidingWindow),
            "transformers/modeling_flash_attention_utils.py, _process_flash_attention_kwargs",
            "The same mask by another number: it calls FlashAttention with causal=True and "
            "window_size=(size − 1, size − 1).",
        ),
        Convention(
            FLASH,
            "flash_attn_func(q, k, v, causal=True, window_size=({size}, 0))",
            count_from_last(lambda size: SlidingWindow(size, "steps back")),
            "flash_attn/flash_attn_interface.py, flash_attn_func",
            "Both bounds are inclusive, so size + 1 keys.",
        ),
        Convention(
            GYM,
            "generate_sliding_window({size})",
            count_from_first(lambda size: SlidingWindow(size, "steps back")),
            "attn_gym/masks/sliding_window.py, generate_sliding_window",
        ),
        Convention(
            XFORMERS,
            "LowerTriangularFromBottomRightMask().make_local_attention({size})",
            count_from_last(SlidingWindow),
            "xformers/ops/fmha/attn_bias.py, LowerTriangularFromBottomRightLocalAttentionMask",
        ),
        Convention(
            XFORMERS,
            "LocalAttentionFromBottomRightMask(window_left={size}, window_right=0)",
            count_from_last(lambda size: SlidingWindow(size, "steps back")),
            "xformers/ops/fmha/attn_bias.py, LocalAttentionFromBottomRightMask",
        ),
        Convention(
            MLX + " (mlx-lm)",
            "create_causal_mask(N, offset, window_size={size})",
            count_from_last(SlidingWindow),
            "mlx_lm/models/base.py, create_causal_mask",
            "An earlier version of the same function saw one key more (linds > rinds + window_size was masked).",
        ),
    ),
    size="Window",
)

BIDIRECTIONAL = NamedMask(
    "Window on both sides",
    "Is the size one side or both, and what happens at the edges?",
    (
        Convention(
            TRANSFORMERS + ", T5Gemma's encoder",
            "config.sliding_window = {size}",
            need_equal_lengths(lambda size, positions: Band(size)),
            "transformers/masking_utils.py, sliding_window_bidirectional_overlay (eager, SDPA, FlexAttention)",
            "2 · size + 1 keys.",
        ),
        Convention(
            TRANSFORMERS + ", T5Gemma's encoder on FlashAttention",
            'config.sliding_window = {size}  # attn_implementation="flash_attention_2"',
            need_equal_lengths(lambda size, positions: Band(size - 1)),
            "transformers/modeling_flash_attention_utils.py, _process_flash_attention_kwargs; "
            "transformers/models/t5gemma/modeling_t5gemma.py, T5GemmaSelfAttention",
            "One step less on each side than the same model in eager attention: it calls FlashAttention with "
            "window_size=(size − 1, size − 1).",
        ),
        Convention(
            TRANSFORMERS + ", ModernBERT",
            "ModernBertConfig(local_attention={size})",
            need_equal_lengths(lambda size, positions: Band(size // 2)),
            "transformers/models/modernbert, ModernBertConfig.sliding_window and ModernBertAttention",
            "Its attention adds 1 to the half before FlashAttention takes 1 away, so both agree.",
        ),
        Convention(
            TRANSFORMERS + ", Gemma 3",
            "Gemma3TextConfig(sliding_window={size}, use_bidirectional_attention=True)",
            need_equal_lengths(lambda size, positions: Band(size // 2)),
            "transformers/models/gemma3, Gemma3TextConfig.__post_init__ and _bidirectional_window_overlay",
        ),
        Convention(
            TRANSFORMERS + ", Longformer",
            "LongformerConfig(attention_window={size})",
            need_equal_lengths(_longformer),
            "transformers/models/longformer/modeling_longformer.py, LongformerSelfAttention",
        ),
        Convention(
            FLASH,
            "flash_attn_func(q, k, v, window_size=({size}, {size}))",
            count_from_last(Band),
            "flash_attn/flash_attn_interface.py, flash_attn_func",
        ),
        Convention(
            XFORMERS,
            "LocalAttentionFromBottomRightMask(window_left={size}, window_right={size})",
            count_from_last(Band),
            "xformers/ops/fmha/attn_bias.py, LocalAttentionFromBottomRightMask",
        ),
        Convention(
            GYM,
            "generate_dilated_sliding_window({size}, dilation=1)",
            count_from_first(Band),
            "attn_gym/masks/dilated_sliding_window.py, generate_dilated_sliding_window",
        ),
        Convention(
            "NATTEN",
            "na1d(q, k, v, kernel_size={size})",
            _natten(1),
            "src/natten/backends/flex.py, get_na_flex_mask",
            "Always size keys: at the edges the window moves inwards rather than lose some.",
        ),
    ),
    size="Window",
)

PREFIX = NamedMask(
    "Prefix seen by all",
    "May a query before the end of the prefix see all of it?",
    (
        Convention(
            GYM,
            "generate_prefix_lm_mask({size})",
            count_from_first(PrefixLM),
            "attn_gym/masks/prefix_lm.py, generate_prefix_lm_mask",
        ),
        Convention(
            TRANSFORMERS,
            "create_causal_mask(…, block_sequence_ids=[0] * {size} + [-1] * (n - {size}))",
            count_from_last(PrefixLM),
            "transformers/masking_utils.py, blockwise_overlay",
            "Positions of one block, numbered from 0, see each other; −1 is text.",
        ),
        Convention(
            TRANSFORMERS + ", no blocks given",
            "create_causal_mask(…)",
            count_from_first(lambda size: Causal("bottom right")),
            "transformers/masking_utils.py, create_causal_mask",
        ),
    ),
    size="Prefix",
    least=0,
)

DILATED = NamedMask(
    "Dilated window",
    "Does the size count positions, or the keys seen at every second one?",
    (
        Convention(
            GYM,
            "generate_dilated_sliding_window({size}, dilation=2)",
            count_from_first(lambda size: DilatedWindow(size, DILATION)),
            "attn_gym/masks/dilated_sliding_window.py, generate_dilated_sliding_window",
            "Positions on each side.",
        ),
        Convention(
            "Longformer (allenai)",
            "diagonaled_mm(query, key, w={size}, d=2)",
            need_equal_lengths(lambda size, positions: DilatedWindow(size * DILATION, DILATION)),
            "longformer/diagonaled_mm_tvm.py, DiagonaledMM",
            "Keys on each side.",
        ),
        Convention(
            "NATTEN",
            "na1d(q, k, v, kernel_size={size}, dilation=2)",
            _natten(DILATION),
            "src/natten/backends/flex.py, get_na_flex_mask",
            "Keys in all, the query's own included, and as many at the edges.",
        ),
    ),
    size="Window",
)

CHUNKED = NamedMask(
    "Chunks",
    "May a query see what comes later in its chunk, and the chunks before?",
    (
        Convention(
            TRANSFORMERS + ", Llama 4",
            "config.attention_chunk_size = {size}",
            count_from_last(Chunked),
            "transformers/masking_utils.py, chunked_causal_mask_function",
        ),
        Convention(
            "FlashAttention 3",
            "flash_attn_func(q, k, v, causal=True, attention_chunk={size})",
            count_from_last(Chunked),
            "the reference in its tests, construct_chunk_mask",
        ),
        Convention(
            "WeNet",
            "subsequent_chunk_mask(n, {size})",
            need_equal_lengths(lambda size, positions: BlockCausal(size)),
            "wenet/utils/mask.py, subsequent_chunk_mask",
            "All of its own chunk, and all chunks before.",
        ),
        Convention(
            "WeNet",
            "subsequent_chunk_mask(n, {size}, num_left_chunks=0)",
            need_equal_lengths(lambda size, positions: BlockCausal(size, 0)),
            "wenet/utils/mask.py, subsequent_chunk_mask",
        ),
    ),
    size="Chunk",
)

PACKED = NamedMask(
    "Documents packed into one sequence",
    "Does each document see itself alone, and only what came before?",
    (
        Convention(
            TRANSFORMERS,
            "model(input_ids, position_ids=[0, …, {size} - 1, 0, …, {size} - 1, …])",
            need_equal_lengths(lambda size, positions: Chunked(size)),
            "transformers/masking_utils.py, find_packed_sequence_indices and packed_sequence_mask_function",
            "Only without attention_mask and cache.",
        ),
        Convention(
            TRANSFORMERS + ", position_ids left out",
            "model(input_ids)",
            need_equal_lengths(lambda size, positions: Causal()),
            "transformers/masking_utils.py, _preprocess_mask_arguments",
            "Each document sees those before it; so it is too where a 2-D attention_mask is given.",
        ),
        Convention(
            FLASH,
            "flash_attn_varlen_func(q, k, v, cu_seqlens_q=[0, {size}, …], cu_seqlens_k=[0, {size}, …], …, causal=True)",
            need_equal_lengths(lambda size, positions: Chunked(size)),
            "flash_attn/flash_attn_interface.py, flash_attn_varlen_func",
        ),
        Convention(
            GYM,
            "generate_doc_mask_mod(causal_mask, offsets=[0, {size}, …])",
            need_equal_lengths(lambda size, positions: Chunked(size)),
            "attn_gym/masks/document_mask.py, generate_doc_mask_mod",
        ),
        Convention(
            XFORMERS,
            "BlockDiagonalMask.from_seqlens([{size}, …])",
            need_equal_lengths(lambda size, positions: BlockCausal(size, 0)),
            "xformers/ops/fmha/attn_bias.py, BlockDiagonalMask",
            "In both directions, unless .make_causal() follows.",
        ),
        Convention(
            XFORMERS,
            "BlockDiagonalMask.from_seqlens([{size}, …]).make_causal()",
            need_equal_lengths(lambda size, positions: Chunked(size)),
            "xformers/ops/fmha/attn_bias.py, BlockDiagonalCausalMask",
        ),
    ),
    size="Positions of each document",
)

NEIGHBORHOOD = NamedMask(
    "Neighborhood on a grid",
    "Where do the rows and the columns end?",
    (
        Convention(
            "NATTEN",
            "na2d(q, k, v, kernel_size={size})",
            _on_grid(lambda height, width, size: Neighborhood2D(width, size, size)),
            "src/natten/backends/flex.py, get_na_flex_mask",
        ),
        Convention(
            GYM,
            "generate_natten(canvas_w, canvas_h, {size}, {size})",
            _on_grid(MixedUpNeighborhood2D),
            "attn_gym/masks/natten.py, generate_natten (version 0.0.17)",
            "It takes idx // canvas_w, the row, for x, and keeps it between the edges of the width. On a square "
            "canvas that is the same; on another, windows at the edges lose keys or miss their query.",
        ),
    ),
    size="Kernel",
    least=3,
    start=3,
)

POLARITY = NamedMask(
    "A boolean mask for padding",
    "What does True mean, where the first keys are True and the others are False?",
    (
        Convention(
            TORCH,
            "scaled_dot_product_attention(q, k, v, attn_mask=first)",
            count_from_first(Padding),
            "torch.nn.functional.scaled_dot_product_attention, documentation of attn_mask",
            "True may be looked at.",
        ),
        Convention(
            TORCH,
            "nn.MultiheadAttention(…)(q, k, v, key_padding_mask=first)",
            count_from_first(lambda size: Not(Padding(size))),
            "torch.nn.MultiheadAttention.forward, documentation of key_padding_mask",
            "True is ignored; so it is in attn_mask of the same module, and in nn.TransformerEncoder.",
        ),
        Convention(
            TORCH,
            "flex_attention(q, k, v, block_mask=create_block_mask(lambda b, h, q, k: first[k], …))",
            count_from_first(Padding),
            "torch.nn.attention.flex_attention.create_block_mask, documentation of mask_mod",
            "True may be looked at.",
        ),
        Convention(
            TRANSFORMERS,
            "model(input_ids, attention_mask=first)",
            count_from_first(Padding),
            "transformers/masking_utils.py, padding_mask_function",
            "1 or True may be looked at, 0 is padding.",
        ),
        Convention(
            MLX,
            "mx.fast.scaled_dot_product_attention(q, k, v, scale=scale, mask=first)",
            count_from_first(Padding),
            "mlx_lm/models/base.py, quantized_scaled_dot_product_attention",
            "True may be looked at.",
        ),
    ),
    size="Keys that are True",
    least=0,
)

# The order of the menu.
NAMED_MASKS = (CAUSAL, SLIDING, BIDIRECTIONAL, PREFIX, DILATED, CHUNKED, PACKED, NEIGHBORHOOD, POLARITY)
