"""What Transformer shows."""

from collections.abc import Callable, Iterable, Iterator

from attnviz.page.blocks import Block, Tabs, available
from attnviz.pages.transformer.attention_uses import three_uses
from attnviz.pages.transformer.forward_pass import forward_pass
from attnviz.pages.transformer.state import FORWARD_PASS, THREE_USES, TRAINING, TransformerState
from attnviz.pages.transformer.training import training


def transformer(state: TransformerState) -> Iterator[Block]:
    """Yields the open tab. Raises ValueError if the model does not take the text."""
    parts: dict[str, Callable[[TransformerState], Iterable[Block]]] = {
        FORWARD_PASS: forward_pass,
        THREE_USES: three_uses,
        TRAINING: training,
    }
    yield Tabs(TransformerState.tab, state, available(parts[state.tab](state)))
