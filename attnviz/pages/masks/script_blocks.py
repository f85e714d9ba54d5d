"""The export of a mechanism as a script."""

from collections.abc import Iterator
from functools import partial

from attnviz.base.formatting import byte_size
from attnviz.base.language import _
from attnviz.export import EXPORTS
from attnviz.page.blocks import Block, Caption, Control, Download, Note, Row, Script
from attnviz.page.result_cache import result_cache
from attnviz.pages.masks.mask_pair import MaskPair
from attnviz.pages.masks.state import SIDES, MasksState

LONGEST_SCRIPT = 100_000  # characters that are shown


def script_blocks(state: MasksState, pair: MaskPair) -> Iterator[Block]:
    """Yields a script for one of the two mechanisms, in one of three libraries, at the length that is chosen."""
    inputs, (queries, keys), kind = pair.inputs, state.tokens, state.code_in
    fields = MasksState.code_of, MasksState.code_in, MasksState.tokens
    yield Row([Control(field, state) for field in fields], "mask-script")
    mechanism = pair.mechanisms[SIDES.index(state.code_of)]
    sizes = {"heads": inputs.heads, "kv_heads": inputs.key.shape[0], "width": inputs.query.shape[-1]}
    script = result_cache().once(
        partial(EXPORTS[kind], mechanism, queries, keys, **sizes),
        *("script", kind, mechanism, queries, keys, sizes),
        work=inputs.heads * queries * keys,
    )
    if len(script) > LONGEST_SCRIPT:
        size = byte_size(len(script))
        yield Note(_("This script is long: it holds the numbers of the mask ({count}). Download it.", count=size))
    else:
        yield Script(script)
    yield Download([(_("Download"), f"attention_{kind.lower()}.py", lambda: script)])
    yield Caption(
        _(
            "When it runs, it compares its weights of a random example: in PyTorch with a softmax of "
            "all scores, in NumPy with what attnviz computes. A difference is an error. For a long text, "
            "PyTorch compares some queries and keys, and NumPy nothing."
        )
    )
