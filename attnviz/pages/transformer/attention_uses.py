"""The uses of attention that a model has, side by side: encoder self-attention, masked decoder self-attention, and
encoder–decoder attention."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from jaxtyping import Float

from attnviz.analysis.head_maps import head_map
from attnviz.base.formatting import number, visible
from attnviz.base.language import N_, _
from attnviz.base.link import Link
from attnviz.figures import heatmap
from attnviz.figures.layer_mosaic import LayerTiles, layer_mosaic
from attnviz.figures.sentences import ARROW, CellSentences
from attnviz.layer import Layer
from attnviz.lessons.checks import Quantities, map_quantities
from attnviz.page.blocks import Block, Caption, Columns, Control, Figure, Heading, Note, Row, Summary
from attnviz.page.page_view import Panel
from attnviz.pages.transformer.state import TransformerState, first_head, has_decoder, is_translator
from attnviz.translator.encoder_decoder import USES, Use
from attnviz.translator.grammar import ADJECTIVE

MAP, HEADS = 330, 230  # pixels
PLACES: dict[Use, str] = {  # in the names of quantities
    "encoder": " in the encoder",
    "decoder": " in the decoder",
    "cross": " in cross-attention",
}
EXPLANATIONS: dict[Use, str] = {
    "encoder": N_("Every token looks at every token. Queries, keys and values come from the encoder."),
    "decoder": N_("A token looks at itself and those before it. Queries, keys and values come from the decoder."),
    "cross": N_("Queries come from the decoder, keys and values from the encoder: each looks at the whole text."),
}
MASKED = (N_("“{query}” may not look at “{key}”."), N_("“{query}” may look at nothing."))  # a cell, and a whole row
SENTENCES = CellSentences(N_("“{query}” gives {weight} of its attention to “{key}”."), *MASKED)
TRUE = N_("“{query}” gives {weight} of its attention to “{key}”, which the French word translates.")
NE = ("ne", "n'")


def three_uses(state: TransformerState) -> Iterator[Block]:
    """Yields the maps of the selected head of each use that the model has, with the row of the word that is written."""
    pinned = {use: _pinned_row(state, use) for use in state.uses}
    yield from uses_blocks(state, pinned)
    if has_decoder(state):
        yield Row([Control(TransformerState.word, state, stays=True)], "three-uses")
    yield Summary(_sentence(state, pinned), partial(use_quantities, state))
    yield Caption(
        _(
            "**What you are seeing.** Each row is a token that looks: a *query*. Each column is a token that is looked "
            "at: a *key*. The color is the share of the query’s attention that goes to the key, from 0 to 1 in all "
            "maps. A row of the decoder has two words, such as “petite → voiture”: *petite* goes in, and *voiture* "
            "comes out. Gray is masked: a word may not look at the words after it. **What it does not say:** what the "
            "model makes of what it looks at."
        )
    )
    if state.alignment:
        yield Caption(
            _(
                "In encoder–decoder attention an outline marks the English words that the French word translates. They "
                "are known from the grammar that made the sentences; the translator was never taught them."
            )
        )


def uses_blocks(state: TransformerState, pinned: dict[Use, int | None]) -> Iterator[Block]:
    """Yields the uses of attention side by side: of each the map of the selected head, and all heads; of one alone
    the heads above the map."""
    columns: list[list[Block]] = []
    for use, layers in state.uses.items():
        texts = [Heading(_(USES[use])), Note(_(EXPLANATIONS[use]))]
        shown, heads = _map(state, use, pinned[use]), _heads(state, use, layers)
        if len(state.uses) == 1:  # the heads have the whole width, which many layers need
            yield from [*texts, heads, shown]
            return
        columns.append([*texts, shown, heads, *_notes(state, use)])
    yield Columns([(1 / len(columns), column) for column in columns])


def use_quantities(state: TransformerState) -> Quantities:
    """Returns the weights of the shown heads, "… in the encoder", "… in the decoder" and "… in cross-attention"."""
    computed: dict[str, float] = {}
    for use in state.uses:
        queries, keys, weights = selected_weights(state, use)
        computed |= map_quantities(queries, keys, weights, PLACES[use])
    return computed


def selected_weights(
    state: TransformerState, use: Use
) -> tuple[tuple[str, ...], tuple[str, ...], Float[np.ndarray, "queries keys"]]:
    """Returns the names of the rows and the columns of the map of the selected head of a use, and its weights."""
    index, head = state.heads[use]
    layer = state.uses[use][index]
    weights = head_map(layer.inputs, layer.mechanism, head).numpy()
    return row_names(state, use, layer), layer.inputs.key_tokens, weights


def row_names(state: TransformerState, use: Use, layer: Layer) -> tuple[str, ...]:
    """Returns the names of the rows of a map; of a decoder with what goes in and what comes out."""
    tokens = layer.inputs.query_tokens
    if use == "encoder" or any(ARROW in token for token in tokens):
        return tokens
    return (*(f"{read}{ARROW}{next_one.strip() or next_one}" for read, next_one in pairwise(tokens)), tokens[-1])


def _pinned_row(state: TransformerState, use: Use) -> int | None:
    return state.word - 1 if use != "encoder" and has_decoder(state) else state.row


def _map(state: TransformerState, use: Use, pinned: int | None) -> Figure:
    """Returns the map of the selected head of a use, with outlines around the true alignment."""
    queries, keys, weights = selected_weights(state, use)
    marked = [(row, key) for row, those in enumerate(state.alignment) for key in those] if use == "cross" else []
    index, head = state.heads[use]
    zooms, true = " ".join((use, *queries, "", *keys)), {cell: _(TRUE) for cell in marked}
    texts: dict[str, Any] = {"sentences": SENTENCES, "cell_sentences": true}
    picture = heatmap(weights, queries, keys, fan=False, zoom_key=zooms, marked=marked, **texts)
    # In a narrow column the words need the room; what rows and columns are stands below.
    layout = picture.figure.layout
    layout.xaxis.title.text = layout.yaxis.title.text = ""
    layout.margin.l, layout.margin.r = 0, 4
    title = _("{use}, layer {layer}, head {head}", use=_(USES[use]), layer=index, head=head)
    picture = picture.with_about(label=_(USES[use]), name=title, hint=_("Point at a cell to read it."))
    panels = [Panel(title, weights, queries, keys, pinned)]
    heading = _("Layer {layer}, head {head}", layer=index, head=head)
    return Figure(
        picture, f"{use}-map", MAP, _row_opener(state, use), panels, pinned=pinned, title=heading, grows="beside"
    )


def _row_opener(state: TransformerState, use: Use) -> Callable[[int, int], Link | None] | None:
    """Returns what a click on a row opens: it is pinned, or its word is written; None where rows stay."""
    if use != "encoder" and has_decoder(state):
        return (lambda row, _key: state.link_with(word=row + 1)) if "word" in _offered(state) else None
    if "row" not in _offered(state):
        return None
    return lambda row, _key: state.link_with(row=None if row == state.row else row)


def _offered(state: TransformerState) -> set[str]:
    return {field.name for field in state.fields if field.is_offered(state)}


def _heads(state: TransformerState, use: Use, layers: Sequence[Layer]) -> Figure:
    """Returns the small maps of all heads of a use; a click selects one."""
    maps = np.stack(
        [
            np.stack([head_map(each.inputs, each.mechanism, head).numpy() for head in range(each.inputs.heads)])
            for each in layers
        ]
    )
    ids = [layer.id for layer in layers]
    picture = layer_mosaic(maps, ids, largest=1.0, chosen=[state.heads[use]])
    picture = picture.with_about(label=_("Heads: {use}", use=_(USES[use])), hint=_("Click a head to open it."))

    def opens(row: int, column: int) -> Link | None:
        tile = picture.spec.head_at(row, column)
        if tile is None:
            return None
        return state.link_with(**{f"{use}_head": tiles.place(tile)})

    tiles = LayerTiles(len(layers), layers[0].inputs.heads)
    return Figure(picture, f"{use}-heads", MAP if tiles.is_wide else HEADS, opens)


def _sentence(state: TransformerState, pinned: dict[Use, int | None]) -> str:
    """Returns where the selected heads look from their pinned rows."""
    sentences = []
    for use, row in pinned.items():
        queries, keys, weights = selected_weights(state, use)
        if row is not None and row < len(weights) and not np.isnan(weights[row]).all():
            key = int(np.nanargmax(weights[row]))
            weight = number(float(weights[row, key]))
            names = {"query": visible(queries[row]), "key": visible(keys[key])}
            sentences.append(
                _("{use}: “{query}” looks most at “{key}” ({weight}).", use=_(USES[use]), weight=weight, **names)
            )
    return " ".join(sentences) or _("Click a row to read where it looks most.")


def _notes(state: TransformerState, use: Use) -> Iterator[Block]:
    """Yields what is known of the selected head of the translator."""
    if not is_translator(state):
        return
    tokens, head = state.uses[use][0].inputs.query_tokens, state.heads[use]
    known = first_head(state, use) == head
    if use == "encoder" and known and any(token in ADJECTIVE for token in tokens):
        yield Note(
            _("In this head, most adjectives look most at the noun that they describe: in French they agree with it.")
        )
    if use == "decoder" and known and any(token.split(ARROW)[0] in NE for token in tokens):
        yield Note(_("In this head, the row that writes pas looks back at ne, the first half of “not”."))
    if use == "cross" and state.alignment:
        _queries, _keys, weights = selected_weights(state, use)
        agreed = sum(int(np.nanargmax(row)) in those for row, those in zip(weights, state.alignment, strict=False))
        yield Note(
            _(
                "In this head {agreed} of {count} words look most at a word that they translate.",
                agreed=agreed,
                count=len(state.alignment),
            )
        )
