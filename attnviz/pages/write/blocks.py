"""What Write shows: the text that a model has written, the map of a head, and what its pinned query looks at."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from attnviz.analysis.head_maps import head_map
from attnviz.base.formatting import SPACE, number, visible
from attnviz.base.language import N_, _
from attnviz.base.text import shorten_token
from attnviz.figures import Chart, heatmap
from attnviz.figures.chart_spec import HeatmapSpec
from attnviz.figures.sentences import label
from attnviz.figures.themes import WEIGHTS
from attnviz.models.token_choices import format_choices
from attnviz.page.blocks import (
    Anchor,
    Block,
    Caption,
    Columns,
    Download,
    Drawing,
    Figure,
    Heading,
    Listing,
    Note,
    OtherStates,
    PlayedText,
)
from attnviz.page.head_view import HeadView, head_view, heads_figure, map_figure, strongest_blocks
from attnviz.page.long_map_blocks import pinned_curve, search_blocks
from attnviz.page.model_picture import picture_of_model
from attnviz.page.selected_maps import HeadMap, map_files, row_weights
from attnviz.page.selection import Selection
from attnviz.pages.write.state import WriteState

if TYPE_CHECKING:  # with huggingface_hub
    from attnviz.models.generation import Step
    from attnviz.models.written_text import WrittenText

TEXT, HEADS = 0.45, 0.38  # shares of the width
PICTURE = 0.3  # beside it, where there is one
LINK = "head"  # of the map and the picture
EM_SPACE = "\u2003"
ROLE_NAMES = {"system": N_("system"), "user": N_("user"), "assistant": N_("assistant")}
ENDINGS = {  # by the values of Ending
    "": "",
    "count": "",
    "end token": N_("The model ended its text here."),
    "stop string": N_("The model's settings end a text at these characters."),
    "limit": N_("No more tokens fit."),
    "seconds": N_("The time for one text is over."),
}
TO_COME = f"<span style='color:rgba(0,0,0,0)'>{'n' * 14}</span>"


@dataclass(frozen=True, eq=False)
class WrittenRows:
    """The weights of the selected head with which tokens were written: a row for each of them."""

    text: "WrittenText"
    selection: Selection

    @property
    def query_offset(self) -> int:
        """The position among all tokens of the query of row 0 of the map."""
        return self.text.encoder_length

    @property
    def key_offset(self) -> int:
        """The position among all tokens of the key of column 0 of the map."""
        return 0 if self.selection.layer.id.cross else self.text.encoder_length

    @property
    def first(self) -> int:
        """The row with which the first token was written."""
        return self.text.prompt_length - 1 - self.query_offset

    def weights(self, first: int = 0) -> Float[np.ndarray, "rows keys"]:
        """Returns the rows of the map from the first one on, NaN where not allowed; none if it has no more."""
        layer = self.selection.layer
        if first >= layer.inputs.queries:
            return np.zeros((0, layer.inputs.keys), "f4")
        return head_map(layer.inputs, layer.mechanism, self.selection.head, rows=slice(first, None)).numpy()


def write_blocks(state: WriteState) -> Iterator[Block]:
    """Yields the written text beside the map of the selected head, the small maps of all heads beside what the pinned
    query looks at, or that of the last written token, and the branches of the text. While it is being written, the map
    has room for what is to come. Raises ValueError if the maps take too much work."""
    yield from search_blocks(state)
    view = head_view(state.selection, state.score_links)
    picture = picture_of_model(state, view.head_map, state.row, LINK)
    if picture is None:
        yield Columns([(TEXT, [_text(state)]), (1 - TEXT, [_map(state, view)])])
    else:
        share = (1 - PICTURE) / 2
        yield Columns([(share, [_text(state)]), (PICTURE, [picture]), (share, [_map(state, view, LINK)])])
    yield Columns([(HEADS, [heads_figure(state, view)]), (1 - HEADS, [*_numbers(state, view)])])
    yield Caption(
        _(
            "**What you are seeing.** A model writes one token at a time. For each it compares what it has read last, "
            "the query, with all tokens before, the keys: the stronger the color of a word, the more the chosen head "
            "looked at it when the marked word was written. **What it does not say:** why the word was chosen; weights "
            "show where a head looks."
        )
    )


def _text(state: WriteState) -> Drawing:
    """Returns the text, which the app draws while it is being written, and other places play."""
    if not state.text.ending:
        return Drawing(state, [])
    content, rows = partial(written_content, state), state.inputs.queries
    return Drawing(state, [PlayedText(content, state.pinned, rows, lambda row: state.link_with(pinned=row))])


def _map(state: WriteState, view: HeadView, link: str = "") -> Figure:
    figure, rows = map_figure(state, view, state.row, fan=False, link=link), WrittenRows(state.text, state.selection)
    if not view.is_whole:
        return figure
    if state.text.ending:
        return replace(figure, picture=with_roles(figure.picture, rows))
    picture = with_roles(growing_map(view.head_map, state.source.tokens - len(state.text.steps), link), rows)
    return replace(figure, picture=picture, opens=None, pinned=None)


def _numbers(state: WriteState, view: HeadView) -> Iterator[Block]:
    """Yields what the row that is shown looks at, the branches, and files; nothing of a text that is being written."""
    if not state.text.ending:
        return
    yield from strongest_blocks(view, state.row)
    if not view.is_whole:
        yield from pinned_curve(state, view.head_map, state.row)
    if hidden := state.hidden_tokens:
        weights = row_weights(view.selection, view.head_map, state.row).nan_to_num().tolist()
        offset = WrittenRows(state.text, state.selection).key_offset
        share = sum(weights[i - offset] for i in hidden if 0 <= i - offset < len(weights))
        yield Note(_("{share} of its attention is on tokens of the chat template.", share=number(share)))
    if anchors := [*branch_anchors(state)]:
        yield OtherStates([Heading(_("Branches")), Listing(anchors, _("Branches"), "attnviz-branches")])
    yield Download(map_files(view.head_map, lambda: _map(state, view).picture, state.source.weights_note))


def branch_anchors(state: WriteState) -> Iterator[tuple[str, Anchor]]:
    """Yields the branches that have been written, each as a link, indented by its depth in the tree; none if there is
    one."""
    own, branches = state.choices, state.branches
    paths = sorted({(), *branches, own}, key=lambda path: [(each.position, each.ids) for each in path])
    if len(paths) < 2:
        return
    tokenizer, known = state.source.model().tokenizer, tuple(path for path in paths if path)
    for path in paths:
        text = _("What the model writes by itself")
        if path:
            word = visible(shorten_token(tokenizer.decode([*path[-1].ids]).strip(" ")))
            text = _("“{word}” as token {number}", word=word, number=path[-1].position + 1)
        depth = sum(path[:end] in paths for end in range(len(path)))
        link = state.link_with(choices=path, branches=known)
        of_other = tuple(each for each in link if each[0] != WriteState.pinned.parameter)
        yield EM_SPACE * depth, Anchor(text, of_other, is_current=path == own)


def turns(text: "WrittenText") -> dict[int, str]:
    """Returns the position of the first token of each message of a chat, with the name of its role."""
    roles = enumerate(pairwise(("", *text.roles)))
    return {i: _(ROLE_NAMES[role]) for i, (before, role) in roles if role not in ("", before)}


def written_content(state: WriteState, start: int = 0) -> dict[str, Any]:
    """Returns what the browser draws of a text and its selected head (ui/write/types.d.ts), with the steps and the rows
    from number `start` on; of a chat either the tokens of its template or the names of roles."""
    text, hidden = state.text, state.hidden_tokens
    rows = WrittenRows(text, state.selection)
    return {
        "tokens": text.parts,
        "special": text.special,
        "roles": text.roles,
        "hidden": hidden,
        "image": text.of_image,
        "turns": turns(text) if hidden else {},
        "prompt": text.prompt_length,
        "steps": [_step(step) for step in text.steps[start:]],
        "ending": _(ENDINGS[text.ending]),
        "colors": WEIGHTS,
        "queryOffset": rows.query_offset,
        "keyOffset": rows.key_offset,
        "start": start,
        "rows": rows.weights(rows.first + start),
        "choices": format_choices(state.source.choices),
        "running": not text.ending,
        "heads": not isinstance(state.head, int),
    }


def _step(step: "Step") -> dict[str, Any]:
    alternatives = [(one.token_id, one.token, one.probability) for one in step.alternatives]
    return {"id": step.token_id, "probability": step.probability, "alternatives": alternatives}


def with_roles(figure: Chart[HeatmapSpec], rows: WrittenRows) -> Chart[HeatmapSpec]:
    """Returns the figure of a map with the roles of a chat in its labels."""
    spec = figure.spec
    queries = role_labels(spec.query_labels, rows.text, rows.query_offset)
    keys = role_labels(spec.key_labels, rows.text, rows.key_offset)
    return replace(figure, spec=replace(spec, query_labels=queries, key_labels=keys))


def role_labels(labels: Sequence[str], text: "WrittenText", start: int) -> tuple[str, ...]:
    """Returns the labels of the tokens that were read from position `start` on, of a chat with the role in that of the
    first token of each message, in bold."""
    named = [*labels]
    for i, role in turns(text).items():
        if start <= i < start + len(named) and i < len(text.tokens) - 1:  # the last written token was not read
            named[i - start] = f"<b>{role}: {named[i - start].removeprefix(SPACE)}</b>"
    return tuple(named)


def growing_map(shown: HeadMap, length: int, link: str = "") -> Chart[HeatmapSpec]:
    """Returns the figure of a map with blank cells for `length` more rows, and of self-attention as many columns."""
    more = length if len(shown.query_tokens) == len(shown.key_tokens) else 0
    weights = np.pad(shown.weights, ((0, length), (0, more)), constant_values=np.nan)
    blank = np.zeros(weights.shape, bool)
    blank[len(shown.weights) :] = True
    queries, keys = (*shown.query_tokens, *[""] * length), (*shown.key_tokens, *[""] * more)
    figure = heatmap(weights, queries, keys, blank=blank, sentences=shown.sentences, fan=False)
    # Names that are still to come take room, and are not seen.
    query_labels, key_labels = (tuple(label(text) if text else TO_COME for text in texts) for texts in (queries, keys))
    spec = replace(figure.spec, query_labels=query_labels, key_labels=key_labels, link=link)
    return replace(figure, spec=spec)
