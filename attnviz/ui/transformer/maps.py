"""The maps of one use of attention: the mosaic of its heads, and the heatmap of one head."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import streamlit as st
import torch
from jaxtyping import Bool, Float

from attnviz.analysis.head_maps import head_map
from attnviz.figures import Chart, heatmap, mosaic
from attnviz.figures.chart_spec import HeatmapSpec
from attnviz.figures.sentences import CellSentences
from attnviz.language import N_, _, in_sentence, option_name
from attnviz.layer import Layer
from attnviz.translator import Translation, Translator, training_log
from attnviz.translator.model import HEADS, LAYERS, USES, Use
from attnviz.ui import presentation
from attnviz.ui.chart import chart

SHORT: dict[Use, str] = {"encoder": N_("Encoder"), "decoder": N_("Decoder"), "cross": N_("Encoder–decoder")}
HEAD_NAME = N_("Layer #, head #")  # an option of menus
HEAD_PARTS = N_("Layer #"), N_("head #")
HEAD_NAMES = tuple(f"Layer {layer}, head {head}" for layer in range(LAYERS) for head in range(HEADS))
# In these heads of the shipped weights adjectives look at their noun, and the word before "pas" at "ne".
NOUNS = {"scaled dot": 7, "dot": 4, "general": 7, "additive": 7}
NEGATION = 7
MASKED = (N_("“{query}” may not look at “{key}”."), N_("“{query}” may look at nothing."))  # a cell, and a whole row
SENTENCES = CellSentences(N_("“{query}” gives {weight} of its attention to “{key}”."), *MASKED)
TRUE = N_("“{query}” gives {weight} of its attention to “{key}”, which the French word stands for.")
NOT_YET = N_("“{query}” comes in a later step.")


@dataclass(frozen=True, eq=False)
class Maps:
    """The weights of all heads of one use in one step of decoding, layer by layer.

    NaN where masked, or where the step has no such word yet: maps have the same size in all steps. The cells that are
    `coming` will be allowed once the words are there.
    """

    use: Use
    weights: Float[np.ndarray, "heads queries keys"]
    coming: Bool[np.ndarray, "heads queries keys"]
    queries: tuple[str, ...]
    keys: tuple[str, ...]
    true: tuple[tuple[int, ...], ...] = ()  # for each row the keys that the true alignment gives it

    @property
    def marked(self) -> list[tuple[int, int]]:
        """The cells of the true alignment, in the rows that are there."""
        return [(row, key) for row, keys in enumerate(self.true) for key in keys if not self.coming[:, row].any()]

    def agreed(self, head: int) -> int:
        """Returns the number of rows whose largest weight agrees with the true alignment."""
        return sum(
            not np.isnan(row).all() and int(np.nanargmax(row)) in keys
            for row, keys in zip(self.weights[head], self.true, strict=False)
        )


def use_maps(translation: Translation, use: Use, step: int = -1) -> Maps:
    """Returns the maps of one use in a step of decoding, by default the last."""
    step %= len(translation.steps)
    layers = translation.layers(step, use)
    computed = np.stack([head_map(one.inputs, one.mechanism, head).numpy() for one in layers for head in range(HEADS)])
    queries = translation.english if use == "encoder" else translation.decoder_rows
    keys = translation.decoder_inputs if use == "decoder" else translation.english
    weights = np.full((len(computed), len(queries), len(keys)), np.nan, dtype="f4")
    weights[:, : computed.shape[1], : computed.shape[2]] = computed
    coming = np.concatenate([_allowed(layer, len(queries), len(keys)) for layer in layers]) & np.isnan(weights)
    return Maps(use, weights, coming, queries, keys, (translation.alignment or ()) if use == "cross" else ())


def _allowed(layer: Layer, queries: int, keys: int) -> Bool[np.ndarray, "heads queries keys"]:
    """Returns what each head may attend to with these numbers of words."""
    head, query, key = torch.arange(HEADS)[:, None, None], torch.arange(queries)[:, None], torch.arange(keys)
    allowed = layer.mechanism.bind(queries, keys, HEADS).mask(torch.tensor(0), head, query, key)
    return allowed.expand(HEADS, queries, keys).numpy()


def first_head(use: Use, translator: Translator) -> int:
    """Returns the default head of a use.

    In the encoder, adjectives attend to their nouns there; in the decoder, the word before "pas" attends to "ne"; for
    encoder–decoder attention it is the head that agrees most with the true alignment.
    """
    if use == "cross":
        return int(np.argmax(agreement(translator)))
    return NOUNS[translator.variant] if use == "encoder" else NEGATION


def agreement(translator: Translator) -> list[float]:
    """Returns the agreement of each head of the encoder–decoder attention with the true alignment, on test
    sentences."""
    return [share for heads in training_log(translator.variant).evaluations[-1].agreement for share in heads]


def key(use: Use) -> str:
    """Returns the key of the menu of a use's heads, in the session and in the link."""
    return f"{use}-head"


def choose_head(use: Use, head: int) -> None:
    """Selects a head in the menu."""
    st.session_state[key(use)] = HEAD_NAMES[head]


def show_heads(
    maps: Maps,
    key: str,
    *,
    chosen: int | None,
    on_open: Callable[[int], None],
    largest: float = 1.0,
    labels: Sequence[str] = (),
    names: Sequence[str] = (),
) -> None:
    """Draws all heads as thumbnails under `key`, with a frame around the chosen one; a click on a head calls `on_open`.

    `labels` are shown above the heads, `names` under the pointer.
    """
    picture = mosaic(
        maps.weights,
        columns=HEADS,
        names=names or [*map(option_name, HEAD_NAMES)],
        row_names=[str(layer) for layer in range(LAYERS)],
        column_names=[str(head) for head in range(HEADS)],
        titles=(_("layers"), _("heads")),
        labels=labels,
        chosen=[] if chosen is None else [chosen],
        largest=largest,
        blank=maps.coming,
        aspect=0.65,
    )

    def open_at(row: int, column: int) -> None:
        head = picture.spec.head_at(row, column)
        if head is not None:
            on_open(head)

    chart(
        picture,
        key,
        label=_("Heads of {inline}").format(inline=_inline(maps.use)),
        name=_("{inline} heads").format(inline=_inline(maps.use)),
        description=_("{count} small maps of weights, one for each head.").format(count=len(HEAD_NAMES)),
        height=300,
        hint=_("Click a head to open it."),
        on_click=open_at,
    )


def head_figure(maps: Maps, head: int, *, largest: float, link: str = "") -> Chart[HeatmapSpec]:
    """Returns one head as a heatmap with a sentence for each cell."""
    weights, coming = maps.weights[head], maps.coming[head]
    not_yet = {(int(row), int(key)): _(NOT_YET) for row, key in np.argwhere(coming)}
    result = heatmap(
        weights,
        maps.queries,
        maps.keys,
        largest=largest,
        sentences=SENTENCES,
        fan=False,
        link=link,
        zoom_key=" ".join((maps.use, *maps.queries, "", *maps.keys)),
        marked=maps.marked,
        blank=coming,
        cell_sentences=not_yet | {cell: _(TRUE) for cell in maps.marked if not np.isnan(weights[cell])},
    )
    # In a narrow column the words need the room; what rows and columns are stands below.
    layout = result.figure.layout
    layout.xaxis.title.text = layout.yaxis.title.text = ""
    layout.margin.l, layout.margin.r = 0, 4
    return result


def show_head(
    maps: Maps,
    key: str,
    *,
    head: int,
    largest: float = 1.0,
    pinned: int | None = None,
    link: str = "",
    on_click: Callable[[int], None] | None = None,
    hint: str = "",
    rows: int = 10,
    presented: int | None = None,
) -> None:
    """Draws one head under `key`, with outlines around the true alignment and a height for `rows`; a click calls
    `on_click` with the row. `presented` is the height in presentations, in pixels."""
    fixed_height = presented if presentation.presenting() else None
    chart(
        head_figure(maps, head, largest=largest, link=link),
        key,
        label=_(USES[maps.use]),
        name=f"{_inline(maps.use)} {in_sentence(HEAD_NAMES[head])}",
        description=_("{head_names}: {count} queries by {count_2} keys. The arrow keys move from cell to cell.").format(
            head_names=option_name(HEAD_NAMES[head]), count=len(maps.queries), count_2=len(maps.keys)
        ),
        height=fixed_height or 130 + 18 * max(rows, len(maps.queries)),
        grows=fixed_height is None,
        pinned=pinned,
        hint=hint or _("Point at a cell to read it."),
        on_click=(lambda row, _: on_click(row)) if on_click else None,
    )


def _inline(use: Use) -> str:
    """Returns the name of a use within a sentence."""
    return in_sentence(USES[use])
