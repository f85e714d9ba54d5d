"""The Several heads tab of the Transformer page: what one head does that another does not."""

import numpy as np
import streamlit as st
import torch

from attnviz.formatting import enumeration, number, percent, visible
from attnviz.language import N_, _, current_language, in_sentence, option_name
from attnviz.layer import head_option
from attnviz.page import html
from attnviz.page.html import Markup
from attnviz.state.transformer import TransformerState
from attnviz.translator import Translation
from attnviz.translator.encoder_decoder import D_MODEL, HEADS, Use
from attnviz.ui import quantities
from attnviz.ui.field_widgets import draw
from attnviz.ui.markdown import plain
from attnviz.ui.transformer.before_attention import wrong_words
from attnviz.ui.transformer.word_by_word import written
from attnviz.views.transformer import ABLATION_SENTENCES, HeadAblation, ablation_quantities, head_ablations
from attnviz.views.translator_maps import use_maps

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
    "The outputs of the heads are placed side by side and multiplied by $W^O$. This is the same as "
    "a sum: each head, times its own {d} rows of $W^O$, adds one vector of {width} numbers. *Looks "
    "most at* and *adds* are for the row “{row}”; *adds* is the length of the vector that the head "
    "adds. *Without this head* its output is zero, and the sentence is translated again; marked "
    "words are not in the right translation. The last column is the share of {sentences} test "
    "sentences that are right in every word without this head."
)


def show(state: TransformerState) -> None:
    """Draws a table of all heads of one use: where they look, what they add, and what changes without them."""
    translation = state.translation
    use = draw(TransformerState.heads_of, state, st.segmented_control, label_visibility="collapsed")
    ablations = head_ablations(state, use)
    quantities.publish(lambda: ablation_quantities(translation, ablations))
    row, rows = _row(state, use), translation.english if use == "encoder" else translation.decoder_rows
    st.html(html.summary(ablation_verdict(translation, ablations), role="status"))
    st.html(_table(state, use, row, ablations))
    about = _("Two heads, Concat and Wᴼ in numbers that are few enough to be read")
    st.html(html.element("a", about, class_="attnviz-link", href=STEPS, target="_blank"))
    st.caption(
        _(
            CAPTION,
            heads=HEADS,
            d=D_V,
            width=D_MODEL,
            row=plain(visible(rows[row])),
            sentences=ABLATION_SENTENCES,
        )
    )


def _option(ablation: HeadAblation) -> str:
    return head_option(f"Layer {ablation.layer}", ablation.head)


def ablation_verdict(translation: Translation, ablations: tuple[HeadAblation, ...]) -> str:
    """Returns which heads change this translation when they are ablated."""
    changing = [one for one in ablations if one.translation.french != translation.french]
    if not changing:
        return _("Without any one of these heads the translation of this sentence stays the same.")
    names = enumeration([in_sentence(_option(one)) for one in changing])
    return _(
        "The translation changes without {names}. Without any one of the other {count} heads it stays the same.",
        names=names,
        count=len(ablations) - len(changing),
    )


def _row(state: TransformerState, use: Use) -> int:
    """Returns the row of a step; in the encoder that of the English word that the French word stands for."""
    translation, step = state.translation, state.step
    if use != "encoder":
        return step
    words = (translation.alignment or ())[step : step + 1]
    return words[0][0] if words else min(step, len(translation.english) - 1)


def _table(state: TransformerState, use: Use, row: int, ablations: tuple[HeadAblation, ...]) -> Markup:
    """Returns the table of all heads of one use."""
    translation, model = state.translation, state.translator.model
    step_maps = use_maps(translation, use)
    records = [one for one in translation.steps[-1].records if one.use == use]
    added = [model.attention(use, i).head_contributions(one)[:, row] for i, one in enumerate(records)]
    lengths = torch.cat(added).norm(dim=-1).tolist()
    cells = []
    for i, (one, length) in enumerate(zip(ablations, lengths, strict=True)):
        weights = step_maps.weights[i, row]
        key = int(np.nanargmax(weights))
        bar = html.element("i", style=f"width:{100 * length / max(lengths):.1f}%")
        cells.append(
            html.element(
                "tr",
                html.element("th", option_name(_option(one)), scope="row"),
                html.element("td", html.element("b", visible(step_maps.keys[key])), f" {number(float(weights[key]))}"),
                html.element("td", html.element("span", bar), number(length)),
                html.element("td", _marked(one.translation, translation), lang="fr"),
                html.element("td", percent(one.exact, 2)),
                class_="attnviz-changes" if one.translation.french != translation.french else None,
            )
        )
    head = html.element("tr", *(html.element("th", _(name, count=ABLATION_SENTENCES), scope="col") for name in COLUMNS))
    table = html.element(
        "table", html.element("thead", head), html.element("tbody", *cells), class_="attnviz-ablations"
    )
    return html.element("div", table, class_="attnviz-scroll", tabindex="0", role="region", aria_label=_("Heads"))


def _marked(translation: Translation, before: Translation) -> Markup:
    """Returns a translation with its wrong words marked, or “the same” if nothing has changed."""
    if translation.french == before.french:
        return html.element("span", _("the same"), lang=current_language(), class_="attnviz-same")
    wrong = wrong_words(translation)
    return written(translation, lambda word, i: html.element("mark", word) if i in wrong else word)
