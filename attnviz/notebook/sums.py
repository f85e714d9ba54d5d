"""A number that a model computes as a sum, whose terms a reader opens one after the other."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import nn

from attnviz.attribution.linearized_pass import MOST_BYTES
from attnviz.attribution.metrics import Logit, LogitDifference, Metric
from attnviz.attribution.named_pass import NamedPass, named_pass
from attnviz.base.link import Link
from attnviz.base.token_texts import TokenTexts
from attnviz.notebook.page_viewer import PageViewer, page_viewer
from attnviz.page.blocks import Block
from attnviz.pages.why.answer import StateAnswer
from attnviz.pages.why.blocks import sum_blocks
from attnviz.pages.why.state import SumState

if TYPE_CHECKING:
    from attnviz.models.model import LoadedModel  # with huggingface_hub


def why(
    model: "nn.Module | LoadedModel | str | Path",
    batch: Any,
    of: Metric | None = None,
    *,
    tokens: TokenTexts = (),
    decoder_tokens: TokenTexts = (),
    most_bytes: int = MOST_BYTES,
) -> PageViewer:
    """Returns a number that a model computes as a sum over what wrote to its residual stream, as the page Why shows it:
    the shares of heads, MLPs and embeddings, what a head has read, and what it found there, or why it looks there, as
    sums again.

    `model` and `batch` are those of `attnviz.attribute`, with `tokens` and `decoder_tokens` as for `attnviz.capture`:
    the texts of the tokens, or the model's tokenizer, with which `batch` may be a text. A model of `attnviz.models`, or
    its name, reads a text, too. `of` is the number: `Logit`, `LogitDifference`, `Score` or `Activation` of
    `attnviz.attribution`; by default the logit of the likeliest next token, or label, above that of the second.

    `most_bytes` is that of `attribute`. With anywidget installed, clicks are answered by Python. The `link` of the
    result is what is opened, as in links to Why: "trail=value.23.3.13.9&term=mlp.0.9", and empty at first. Raises
    ValueError as `attribute` does.

    Example:
        >>> why("attnviz/translator-en-fr", "the cat sleeps .").quantities["total"] > 0
        True
    """
    if isinstance(model, str | Path):
        from attnviz.models import load

        model = load(model)
    if isinstance(model, nn.Module):
        if isinstance(batch, str) and callable(tokens) and hasattr(tokens, "convert_ids_to_tokens"):
            batch = tokens(batch, return_tensors="pt")
        run = named_pass(model, batch, tokens, decoder_tokens, most_bytes)
    elif isinstance(batch, str):
        from attnviz.attribution.text_attribution import read_text

        run = read_text(model, batch, most_bytes=most_bytes)
    else:
        raise ValueError(f"A loaded model reads a text, and this is a {type(batch).__name__}. Give a text.")
    metric = run.without_padding(likeliest_metric(run) if of is None else of)

    def blocks(link: Link) -> Iterator[Block]:
        state = SumState.read(link)
        if state.refused:
            raise ValueError(state.refused[0])
        return sum_blocks(StateAnswer(run, state.trail, state.term, run.sums(metric, state.trail), state))

    return page_viewer(blocks)


def likeliest_metric(run: NamedPass) -> Metric:
    """Returns the logit of the likeliest token, or label, above that of the second. Raises ValueError if a model has no
    logits."""
    position = run.opening_position
    first, *others = [token for token, _probability in run.likeliest(position, 2)]
    return LogitDifference(first, others[0], position) if others else Logit(first, position)
