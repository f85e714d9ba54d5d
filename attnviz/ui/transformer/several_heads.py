"""The Several heads tab of the Transformer page: what one head does that another does not."""

import numpy as np
import streamlit as st
import torch

from attnviz.formatting import enumeration, number, percent, visible
from attnviz.language import N_, _, current_language
from attnviz.lessons.checks import Quantities
from attnviz.translator import Translation
from attnviz.translator.head_ablation import TEST_SENTENCES, HeadAblation, ablate_heads, head_contributions
from attnviz.translator.model import D_MODEL, HEADS, Use
from attnviz.ui import cache, html, quantities
from attnviz.ui.html import Markup
from attnviz.ui.markdown import plain
from attnviz.ui.menus import names_of
from attnviz.ui.transformer import maps
from attnviz.ui.transformer.before_attention import wrong_words
from attnviz.ui.transformer.controls import TransformerSelection
from attnviz.ui.transformer.decoding import pieces

USE = "heads-of"  # in the session and in the link
COLUMNS = (
    N_("head"),
    N_("looks most at"),
    N_("adds"),
    N_("without this head"),
    N_("right, of {count}"),
)
D_V = D_MODEL // HEADS
STEPS = "./steps?heads=2&d-k=2&stage=heads"
CAPTION = N_(
    "**What you are seeing.** Each layer has {heads} heads. A head has its own {d} columns of the "
    "matrices $W^Q$, $W^K$ and $W^V$, so it compares words in a space of {d} numbers of its own. "
    "The outputs of the heads stand side by side and are multiplied by $W^O$. This is the same as "
    "a sum: each head, times its own {d} rows of $W^O$, adds one vector of {width} numbers. *Looks "
    "most at* and *adds* are of the row “{row}”; *adds* is the length of the vector that the head "
    "adds. *Without this head* its output is zero, and the sentence is translated again; marked "
    "words are not in the right translation. The last column is the share of {sentences} test "
    "sentences that are right in every word without this head."
)


def show(selection: TransformerSelection) -> None:
    """Draws a table of all heads of one use: where they look, what they add, and what changes without them."""
    translator, translation = selection.translator, selection.translation
    names = {name: use for use, name in maps.USES.items()}
    chosen = st.segmented_control(
        _("Use of attention"), list(names), default=maps.USES["decoder"], required=True, key=USE, bind="query-params",
        format_func=names_of(USE, names), label_visibility="collapsed",
    )  # fmt: skip
    use = names[chosen]
    ablations = cache.once(
        lambda: ablate_heads(translator, translation.english, use),
        "head ablations", translator.variant, translation.english, use,
    )  # fmt: skip
    quantities.publish(lambda: ablation_quantities(translation, ablations))
    row = _row(selection, use)
    st.html(html.summary(ablation_verdict(translation, ablations), role="status"))
    st.html(_table(selection, use, row, ablations))
    about = _("Two heads, Concat and Wᴼ in numbers that are few enough to be read")
    st.html(html.element("a", about, class_="attnviz-link", href=STEPS, target="_blank"))
    st.caption(
        _(CAPTION).format(
            heads=HEADS,
            d=D_V,
            width=D_MODEL,
            row=plain(visible(_row_names(translation, use)[row])),
            sentences=TEST_SENTENCES,
        )
    )


def ablation_quantities(translation: Translation, ablations: tuple[HeadAblation, ...]) -> Quantities:
    """Returns how many heads change this translation when they are ablated."""
    changing = sum(one.translation.french != translation.french for one in ablations)
    return {"heads that change the translation": float(changing)}


def ablation_verdict(translation: Translation, ablations: tuple[HeadAblation, ...]) -> str:
    """Returns which heads change this translation when they are ablated."""
    changing = [one for one in ablations if one.translation.french != translation.french]
    if not changing:
        return _("Without any one of these heads the translation of this sentence stays the same.")
    names = enumeration([_("head {head} of layer {layer}").format(head=one.head, layer=one.layer) for one in changing])
    return _(
        "The translation changes without {names}. Without any one of the other {count} heads it stays the same."
    ).format(names=names, count=len(ablations) - len(changing))


def _row(selection: TransformerSelection, use: Use) -> int:
    """Returns the row of a step; in the encoder that of the English word that the French word stands for."""
    translation, step = selection.translation, selection.step
    if use != "encoder":
        return step
    words = (translation.alignment or ())[step : step + 1]
    return words[0][0] if words else min(step, len(translation.english) - 1)


def _row_names(translation: Translation, use: Use) -> tuple[str, ...]:
    return translation.english if use == "encoder" else translation.decoder_rows


def _table(selection: TransformerSelection, use: Use, row: int, ablations: tuple[HeadAblation, ...]) -> Markup:
    """Returns the table of all heads of one use."""
    translation, model = selection.translation, selection.translator.model
    step_maps = maps.use_maps(translation, use)
    records = [one for one in translation.steps[-1].records if one.use == use]
    added = [head_contributions(model.attention(use, i), one)[:, row] for i, one in enumerate(records)]
    lengths = torch.cat(added).norm(dim=-1).tolist()
    cells = []
    for i, (one, length) in enumerate(zip(ablations, lengths, strict=True)):
        weights = step_maps.weights[i, row]
        key = int(np.nanargmax(weights))
        bar = html.element("i", style=f"width:{100 * length / max(lengths):.1f}%")
        cells.append(
            html.element(
                "tr",
                html.element("th", _("Layer {layer}, head {head}").format(layer=one.layer, head=one.head), scope="row"),
                html.element("td", html.element("b", visible(step_maps.keys[key])), f" {number(float(weights[key]))}"),
                html.element("td", html.element("span", bar), number(length)),
                html.element("td", _marked(one.translation, translation), lang="fr"),
                html.element("td", percent(one.exact, 2)),
                class_="attnviz-changes" if one.translation.french != translation.french else None,
            )
        )
    head = html.element(
        "tr", *(html.element("th", _(name).format(count=TEST_SENTENCES), scope="col") for name in COLUMNS)
    )
    table = html.element(
        "table", html.element("thead", head), html.element("tbody", *cells), class_="attnviz-ablations"
    )
    return html.element("div", table, class_="attnviz-scroll", tabindex="0", role="region", aria_label=_("Heads"))


def _marked(translation: Translation, before: Translation) -> Markup:
    """Returns a translation with its wrong words marked; the same one is said to be so."""
    if translation.french == before.french:
        return html.element("span", _("the same"), lang=current_language(), class_="attnviz-same")
    wrong = wrong_words(translation)
    parts: list[object] = []
    for i, piece in enumerate(pieces(translation)):
        parts += [" " * piece.startswith(" "), html.element("mark", piece.strip()) if i in wrong else piece.strip()]
    return html.join(parts)
