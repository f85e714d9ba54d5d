"""The maps of one use of attention: the mosaic of its heads, and the heatmap of one head."""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from attnviz.figures import Chart, heatmap, mosaic
from attnviz.figures.chart_spec import HeatmapSpec
from attnviz.figures.sentences import CellSentences
from attnviz.language import N_, _, in_sentence, option_name
from attnviz.state.transformer import HEAD_FIELDS, HEAD_NAMES
from attnviz.translator.encoder_decoder import HEADS, LAYERS, USES, Use
from attnviz.ui import presentation
from attnviz.ui.chart import chart
from attnviz.ui.widget_values import set_field_value
from attnviz.views.translator_maps import Maps

MASKED = (N_("“{query}” may not look at “{key}”."), N_("“{query}” may look at nothing."))  # a cell, and a whole row
SENTENCES = CellSentences(N_("“{query}” gives {weight} of its attention to “{key}”."), *MASKED)
TRUE = N_("“{query}” gives {weight} of its attention to “{key}”, which the French word translates.")
NOT_YET = N_("“{query}” comes in a later step.")


def show_heads(
    maps: Maps,
    key: str,
    *,
    chosen: int | None,
    on_open: Callable[[int], None] | None = None,
    largest: float = 1.0,
    labels: Sequence[str] = (),
) -> None:
    """Draws all heads as thumbnails under `key`, with a frame around the chosen one and `labels` above them. A click on
    a head calls `on_open`, by default to select it in the menu of the use."""
    names = [option_name(name) for name in HEAD_NAMES]
    picture = mosaic(
        maps.weights,
        columns=HEADS,
        names=[": ".join(both) for both in zip(names, labels, strict=True)] if labels else names,
        row_names=[str(layer) for layer in range(LAYERS)],
        column_names=[str(head) for head in range(HEADS)],
        labels=labels,
        chosen=[] if chosen is None else [chosen],
        largest=largest,
        blank=maps.coming,
        aspect=0.65,
    )

    def open_at(row: int, column: int) -> None:
        head = picture.spec.head_at(row, column)
        if head is not None:
            (on_open or partial(set_field_value, HEAD_FIELDS[maps.use]))(head)

    words = {"label": _("Heads of {inline}", inline=_inline(maps.use)), "hint": _("Click a head to open it.")}
    chart(picture.with_about(**words), key, height=300, on_click=open_at)


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
    picture = head_figure(maps, head, largest=largest, link=link)
    picture = picture.with_about(
        label=_(USES[maps.use]), name=f"{_inline(maps.use)} {in_sentence(HEAD_NAMES[head])}",
        description=f"{option_name(HEAD_NAMES[head])}: {picture.about.description}", hint=hint or picture.about.hint,
    )  # fmt: skip
    chart(
        picture, key, height=fixed_height or 130 + 18 * max(rows, len(maps.queries)), grows=fixed_height is None,
        pinned=pinned, on_click=(lambda row, _: on_click(row)) if on_click else None,
    )  # fmt: skip


def _inline(use: Use) -> str:
    """Returns the name of a use within a sentence."""
    return in_sentence(USES[use])
