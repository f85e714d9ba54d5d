"""Empty rows: the queries without an allowed key, and what each convention computes for them."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import torch

from attnviz.base.formatting import number, visible
from attnviz.base.language import _
from attnviz.masks import Full
from attnviz.masks.empty_rows import masked_softmax
from attnviz.normalizers import Identity
from attnviz.page.blocks import Block, Control, Note, Paragraph, Table
from attnviz.pages.masks.mask_pair import MaskPair
from attnviz.pages.masks.state import SIDES, MasksState

MOST_TOKENS = 12  # rows, and columns


def empty_row_blocks(state: MasksState, pair: MaskPair) -> Iterator[Block]:
    """Yields the empty rows of both masks, and the weights of a convention for them."""
    convention = state.empty_row
    yield Control(MasksState.empty_row, state)
    yield Note(
        _(
            "Here {masking}. An empty row becomes {result}. This is the behavior of {libraries}.",
            masking=_(convention.masking),
            result=_(convention.result),
            libraries=_(convention.libraries),
        )
    )
    inputs = pair.inputs
    heads = [pair.head] if isinstance(pair.head, int) else list(range(inputs.heads))
    for side, mechanism in zip(SIDES, pair.mechanisms, strict=True):
        allowed = [mechanism.mask.matrix(inputs.queries, inputs.keys, head) for head in heads]
        empty = ~torch.stack(allowed).any(-1)
        if not bool(empty.any()):
            yield Paragraph(_("{side} has no empty row: every query may look at something.", side=side))
            continue
        first = int(empty.any(-1).nonzero()[0])
        rows = empty[first].nonzero().flatten().tolist()
        listed = rows[:MOST_TOKENS]
        tokens = ", ".join(visible(inputs.query_tokens[row]) for row in listed)
        sentence = (
            _(
                "{side}: {count} of {queries} queries may look at nothing in head {head} "
                "(heads with empty rows: {empty_heads} of {heads}): {tokens}"
            )
            if len(heads) > 1
            else _("{side}: {count} of {queries} queries may look at nothing: {tokens}")
        )
        values = {
            "side": side, "count": len(rows), "queries": inputs.queries, "head": heads[first],
            "empty_heads": int(empty.any(-1).sum()), "heads": len(heads), "tokens": tokens,
        }  # fmt: skip
        yield Paragraph(sentence.format(**values) + (" …" if len(rows) > MOST_TOKENS else "."))
        unmasked = replace(mechanism, mask=Full(), normalizer=Identity())
        [scores] = unmasked(inputs, heads=[heads[first]], rows=listed).scores
        weights = masked_softmax(scores, torch.zeros_like(scores, dtype=torch.bool), convention.name).numpy()
        yield _weights_table([inputs.query_tokens[row] for row in listed], inputs.key_tokens, weights)


def _weights_table(queries: list[str], keys: tuple[str, ...], weights: np.ndarray) -> Table:
    more = ["…"] * (len(keys) > MOST_TOKENS)
    rows = [
        [visible(query), *("NaN" if np.isnan(weight) else number(float(weight)) for weight in row[:MOST_TOKENS]), *more]
        for query, row in zip(queries, weights, strict=True)
    ]
    return Table(["", *map(visible, keys[:MOST_TOKENS]), *more], rows)
